-- ---- requests: repeated calls and their stored answers (domain/ledger/requests.py) ----------------------------------------
-- A stored answer ends by its `until` field; the key's TTL, a minute longer, only collects it.

local requests = {}

local TTL_SLACK_MS = 60000

-- A new answer ends after the time that answers are kept; a changed one ends when it would have.
local function write_kept(key, packed, changed)
  if changed then
    call('SET', key, packed, 'KEEPTTL')
  else
    call('SET', key, packed, 'PX', d(S.config.request_ttl_ms + TTL_SLACK_MS))
  end
end

-- ---- lease calls: the last answer of a slot ----

local function slot_key(session, slot)
  return S.prefix .. 'slot:' .. session .. '/' .. d(slot)
end

-- `n` of the slot's last request and the value that is kept with it (n, till, digest, answer); nil: none.
local function read_slot(key)
  local packed = call('GET', key)
  if packed then
    local _, n, till = cmsgpack.unpack_limit(packed, 2)
    if till > S.now_ms then
      return n, packed
    end
  end
  return nil
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
  local n, packed = read_slot(key)
  if n and request.n <= n then
    local _, _, digest, answer = cmsgpack.unpack(packed)
    if request.n == n and request.digest == digest then
      return replay(answer, named_lease)
    end
    local reason = request.n < n and 'REQUEST_SUPERSEDED' or 'REQUEST_ID_REUSED'
    return refused(reason, request.session .. '/' .. d(request.slot) .. '/' .. d(request.n))
  end
  local answer = run()
  if answer[1] ~= 'REFUSED' then
    write_kept(key, cmsgpack.pack(request.n, S.now_ms + S.config.request_ttl_ms, request.digest, answer))
  end
  return answer
end

-- Without effect unless the slot's last request is still `n` and no later reply carried the lease.
function requests.give_back(session, slot, n, id, carried)
  local key = slot_key(session, slot)
  local last, packed = read_slot(key)
  local l = store.live(id)
  if last ~= n or not l or l.carried ~= carried then
    return {'GIVEN_BACK', 0}
  end
  local _, till, digest, a = cmsgpack.unpack(packed)
  if a[1] == 'SETTLED' then
    write_kept(key, cmsgpack.pack(n, till, digest, {a[1], a[2], a[3], a[4], a[5], 0}), true)
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

local function read_request(key)
  local packed = call('GET', key)
  local kept = packed and cmsgpack.unpack(packed)
  return kept and kept.till > S.now_ms and kept or nil
end

local function write_request(key, kept, changed)
  if not changed then
    kept.till = S.now_ms + S.config.request_ttl_ms
  end
  write_kept(key, cmsgpack.pack(kept), changed)
end

local function answer_of(request)
  local kept = read_request(request_key(request))
  if kept and (kept.digest ~= request.digest or not kept.answer) then
    return refused('REQUEST_ID_REUSED', request.id)
  end
  return kept and kept.answer
end

function requests.read_answer(request)
  return answer_of(request) or {'DONE'}
end

function requests.once(request, run)
  if not request then
    return run()
  end
  local kept = answer_of(request)
  if kept then
    return kept
  end
  local answer = run()
  if answer[1] ~= 'REFUSED' then
    write_request(request_key(request), {digest = request.digest, answer = answer})
  end
  return answer
end

function requests.claim_publish(request, message_id, correlation_id)
  local key, now = request_key(request), S.now_ms
  local kept = read_request(key)
  if not kept then
    kept = {digest = request.digest, message = message_id, correlation = correlation_id, claimed = 0, done = 0}
  elseif kept.digest ~= request.digest or kept.answer then
    return refused('REQUEST_ID_REUSED', request.id)
  elseif kept.done == 0 and kept.claimed > now then
    return refused('REQUEST_IN_PROGRESS', request.id, kept.claimed - now)
  end
  if kept.done == 0 then
    kept.claimed = now + S.config.claim_ms
    write_request(key, kept)
  end
  return {'PUBLISH_CLAIM', kept.message, kept.correlation, kept.done}
end

function requests.finish_publish(request)
  local key = request_key(request)
  local kept = read_request(key)
  if kept and kept.digest == request.digest then
    kept.done, kept.claimed = 1, 0
    write_request(key, kept, true)
  end
end

function requests.release_publish(request)
  local key = request_key(request)
  local kept = read_request(key)
  if kept and kept.digest == request.digest and kept.done == 0 then
    kept.claimed = 0
    write_request(key, kept, true)
  end
  return {'DONE'}
end
