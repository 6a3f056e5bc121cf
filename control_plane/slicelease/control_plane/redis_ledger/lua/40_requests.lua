-- ---- requests: repeated calls and their stored answers (domain/ledger/requests.py) ----------------------------------------
-- A stored answer ends by its `until` field; the key's TTL, a minute longer, only collects it.

local requests = {}

local TTL_SLACK_MS = 60000

local function read_kept(key)
  local packed = call('GET', key)
  local kept = packed and cmsgpack.unpack(packed)
  return kept and kept.till > S.now_ms and kept or nil
end

local function write_kept(key, kept, keep_ttl)
  if keep_ttl then
    call('SET', key, cmsgpack.pack(kept), 'KEEPTTL')
  else
    kept.till = S.now_ms + S.config.request_ttl_ms
    call('SET', key, cmsgpack.pack(kept), 'PX', d(S.config.request_ttl_ms + TTL_SLACK_MS))
  end
end

-- ---- lease calls: the last answer of a slot ----

local function slot_key(session, slot)
  return S.prefix .. 'slot:' .. session .. '/' .. d(slot)
end

-- `answer` up to `at`, then the fields of a reply that carries the lease again.
local function carried_again(answer, at, l)
  local replay = {}
  for i = 1, at do
    replay[i] = answer[i]
  end
  local carried = leases.carry(l)
  for i = 2, #carried do
    replay[at + i - 1] = carried[i]
  end
  return replay
end

local function replay(answer, named_lease)
  local word = answer[1]
  if word == 'GRANTED' then
    local id = answer[2] .. '/' .. d(answer[3])
    local l = store.live(id)
    return l and leases.carry(l) or leases.over(id)
  end
  if word == 'RENEWED' and named_lease then
    local l = store.live(named_lease)
    return l and {word, l.expires - S.now_ms, answer[3], answer[4]} or leases.over(named_lease)
  end
  if word == 'SETTLED' and answer[6] == 1 then
    local l = store.live(answer[7] .. '/' .. d(answer[8]))
    if l then
      return carried_again(answer, 6, l)
    end
    return {word, answer[2], answer[3], answer[4], answer[5], 0}
  end
  return answer
end

function requests.once_in_slot(request, named_lease, run)
  local key = slot_key(request.session, request.slot)
  local kept = read_kept(key)
  if kept then
    if request.n < kept.n then
      return refused('REQUEST_SUPERSEDED', request.session .. '/' .. d(request.slot) .. '/' .. d(request.n))
    end
    if request.n == kept.n and request.digest ~= kept.digest then
      return refused('REQUEST_ID_REUSED', request.session .. '/' .. d(request.slot) .. '/' .. d(request.n))
    end
    if request.n == kept.n then
      return replay(kept.answer, named_lease)
    end
  end
  local answer = run()
  if answer[1] ~= 'REFUSED' then
    write_kept(key, {n = request.n, digest = request.digest, answer = answer})
  end
  return answer
end

-- Without effect unless the slot's last request is still `n` and no later reply carried the lease.
function requests.give_back(session, slot, n, id, carried)
  local key = slot_key(session, slot)
  local kept, l = read_kept(key), store.live(id)
  if not kept or kept.n ~= n or not l or l.carried ~= carried then
    return {'GIVEN_BACK', 0}
  end
  if kept.answer[1] == 'SETTLED' then
    local a = kept.answer
    kept.answer = {a[1], a[2], a[3], a[4], a[5], 0}
    write_kept(key, kept, true)
  else
    call('DEL', key)
  end
  leases.take_back(l)
  return {'GIVEN_BACK', 1}
end

-- ---- other idempotent calls ----

local function request_key(request)
  return S.prefix .. 'req:' .. request.id
end

function requests.once(request, run)
  if not request then
    return run()
  end
  local kept = read_kept(request_key(request))
  if kept then
    if kept.digest ~= request.digest or not kept.answer then
      return refused('REQUEST_ID_REUSED', request.id)
    end
    return kept.answer
  end
  local answer = run()
  if answer[1] ~= 'REFUSED' then
    write_kept(request_key(request), {digest = request.digest, answer = answer})
  end
  return answer
end

function requests.claim_publish(request, message_id, correlation_id)
  local key, now = request_key(request), S.now_ms
  local kept = read_kept(key)
  if not kept then
    kept = {digest = request.digest, message = message_id, correlation = correlation_id, claimed = 0, done = 0}
  elseif kept.digest ~= request.digest or kept.answer then
    return refused('REQUEST_ID_REUSED', request.id)
  elseif kept.done == 0 and kept.claimed > now then
    return refused('REQUEST_IN_PROGRESS', request.id, kept.claimed - now)
  end
  if kept.done == 0 then
    kept.claimed = now + S.config.claim_ms
    write_kept(key, kept)
  end
  return {'PUBLISH_CLAIM', kept.message, kept.correlation, kept.done}
end

function requests.finish_publish(request)
  local key = request_key(request)
  local kept = read_kept(key)
  if kept and kept.digest == request.digest then
    kept.done, kept.claimed = 1, 0
    write_kept(key, kept, true)
  end
end

function requests.release_publish(request)
  local key = request_key(request)
  local kept = read_kept(key)
  if kept and kept.digest == request.digest and kept.done == 0 then
    kept.claimed = 0
    write_kept(key, kept, true)
  end
  return {'DONE'}
end
