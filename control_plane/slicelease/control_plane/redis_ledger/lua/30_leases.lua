-- ---- leases: grant, renew, settle, give back, revoke, lapse; attempts (domain/ledger/leases.py) ---------------------------

local leases = {}

-- ---- grant ----

-- A reply that carries the lease, with the validity that remains.
function leases.carry(l)
  l.carried = l.carried + 1
  S.changed_leases[l.id] = l
  return {'GRANTED', l.member, l.token, l.class, l.expires - S.now_ms, l.waited, l.granted, l.terms, l.carried}
end

local function class_terms(c)
  if not c.effective then
    c.effective = store.terms_over(c.terms, store.terms(S.config.terms))
  end
  return c.effective
end

local function lease_out(c, session, slot)
  local now = S.now_ms
  local q = store.queue(c.head.member)
  local terms = store.terms_over(q.terms, class_terms(c))
  local charge = store.tenant(q.tenant).charge
  local waited = now - q.since
  local tag = running.reserve(q, c, terms.slice_ms * charge)
  S.meta.token = max(S.meta.token + 1, S.now_us)
  local l = {
    id = q.member .. '/' .. d(S.meta.token), member = q.member, token = S.meta.token, class = c.id, session = session,
    slot = slot, granted = now, renewed = now, expires = now + S.config.first_lease_ms, waited = waited, terms = terms.text,
    tag = tag, charge = charge, carried = 0, revoked = false, totals = '0 0 0 0 0', stored = false,
  }
  store.add_lease(l, c)
  q.state, q.since, q.token, q.dirty = STATE.LEASED, now, l.token, false
  S.upset[c.id] = true
  return l
end

function leases.grant(session, slot, class_ids)
  local closed_ms = S.meta.closed_until - S.now_ms
  if closed_ms > 0 then
    return {'DENIED', DENIED.ADMISSION_CLOSED, closed_ms}
  end
  local c, full = running.choose(class_ids)
  if not c then
    return {'DENIED', full and DENIED.CLASS_FULL or DENIED.NO_READY_QUEUE, 0}
  end
  return leases.carry(lease_out(c, session, slot))
end

function leases.over(id)
  return refused('LEASE_OVER', id)
end

-- ---- attempts: by message id, 'count token' ----

local function attempts_key(member)
  return S.prefix .. 'attempts:' .. member
end

local function read_attempt(member, message_id)
  local kept = call('HGET', attempts_key(member), message_id)
  if not kept then
    return 0, 0
  end
  local count, token = match(kept, '^(%d+) (%d+)$')
  return tonumber(count), tonumber(token)
end

local function write_attempt(member, message_id, count, token)
  call('HSET', attempts_key(member), message_id, d(count) .. ' ' .. d(token))
  call('PEXPIRE', attempts_key(member), d(S.config.attempts_ttl_ms))
end

local function drop_attempts(member, message_ids)
  call_with('HDEL', attempts_key(member), message_ids)
end

local function count_attempt(l, message_id)
  local count = read_attempt(l.member, message_id) + 1
  write_attempt(l.member, message_id, count, l.token)
  return count
end

local function settle_attempts(l, s)
  drop_attempts(l.member, s.finished)
  for _, message_id in ipairs(s.returned) do
    local count, token = read_attempt(l.member, message_id)
    if token == l.token and count == 1 then
      drop_attempts(l.member, {message_id})
    elseif token == l.token then
      write_attempt(l.member, message_id, count - 1, 0)
    end
  end
  if s.reason == ENDED.ERROR and s.failed ~= '' then
    local _, token = read_attempt(l.member, s.failed)
    if token ~= l.token then
      count_attempt(l, s.failed)
    end
  end
end

-- Initial back-off doubled for each attempt after the first, up to the cap.
local function backoff_ms(l, message_id)
  local terms = store.terms(l.terms)
  local wait_ms, cap_ms = terms.backoff_ms, terms.backoff_cap_ms
  for _ = 2, message_id ~= '' and read_attempt(l.member, message_id) or 0 do
    if wait_ms >= cap_ms or wait_ms == 0 then
      break
    end
    wait_ms = wait_ms * 2
  end
  return min(wait_ms, cap_ms)
end

-- ---- renew ----

function leases.renew(id, totals, starting_id, finished_ids)
  local l = store.live(id)
  if not l then
    return leases.over(id)
  end
  l.totals = totals
  S.changed_leases[id] = l
  drop_attempts(l.member, finished_ids)
  local attempt = starting_id ~= '' and count_attempt(l, starting_id) or 0
  if l.revoked then
    return {'RENEWED', l.expires - S.now_ms, ENDED.REVOKED, attempt}
  end
  store.prolong(l, S.now_ms + S.config.lease_ms)
  return {'RENEWED', S.config.lease_ms, store.queue(l.member).paused and ENDED.PAUSED or 0, attempt}
end

-- ---- ends ----

local function finish(l, end_ms)
  running.charge(l, end_ms - l.granted)
  store.drop_lease(l)
  S.upset[l.class] = true
end

local function try_again(q, at_ms)
  if at_ms > S.now_ms then
    running.make_waiting(q, at_ms)
  else
    running.make_ready(q, S.now_ms)
  end
end

-- The holder's connection, used until then at the latest, may hold messages for a while: a queue in order rests so long.
local function after_loss(q, ordering, last_ms)
  q.suspect = max(q.suspect, last_ms + S.config.quarantine_ms)
  store.changed(q)
  try_again(q, ordering == ORDER.STRICT and q.suspect or S.now_ms)
end

local function lose(l, end_ms)
  finish(l, end_ms)
  after_loss(store.queue(l.member), store.terms(l.terms).ordering, l.expires)
  running.forget_idle_class(store.class(l.class))
end

local function after_settle(l, s)
  local q, now = store.queue(l.member), S.now_ms
  if s.reason == ENDED.EMPTY then
    if q.dirty then
      running.make_ready(q, now)
    elseif q.suspect > l.granted then -- perhaps seen while a lost holder still had messages, even if told after that
      try_again(q, q.suspect)
    else
      running.make_idle(q)
    end
  elseif s.reason == ENDED.ERROR then
    running.make_waiting(q, now + backoff_ms(l, s.failed))
  elseif s.reason == ENDED.BROKER_LOST then
    after_loss(q, store.terms(l.terms).ordering, now)
  elseif s.reason == ENDED.UNUSED then
    running.make_ready(q, l.granted - l.waited)
  else
    running.make_ready(q, now)
  end
  return q
end

function leases.settle(id, s, session, slot)
  local l = store.live(id)
  if not l then
    return leases.over(id)
  end
  settle_attempts(l, s)
  finish(l, S.now_ms)
  local q = after_settle(l, s)
  running.forget_idle_class(store.class(l.class))
  local waits_ms = q.state == STATE.WAITING and q.due - S.now_ms or 0
  local settled = {'SETTLED', q.state, waits_ms, S.now_ms - l.granted, l.class, 0}
  local following = s.want_next and leases.grant(session, slot, s.classes)
  if following and following[1] == 'GRANTED' then
    settled[6] = 1
    for i = 2, #following do
      settled[#settled + 1] = following[i]
    end
  end
  return settled
end

-- The queue is being deleted: its lease, if any, ends.
function leases.end_with_queue(q)
  local l = store.lease(q.member .. '/' .. d(q.token))
  if l then
    finish(l, min(S.now_ms, l.expires))
    running.forget_idle_class(store.class(l.class))
  end
end

-- Ends a lease that no later reply carried; its queue keeps its place.
function leases.take_back(l)
  finish(l, S.now_ms)
  running.make_ready(store.queue(l.member), l.granted - l.waited)
  running.forget_idle_class(store.class(l.class))
end

function leases.revoke(id, force)
  local l = store.live(id)
  if not l then
    return refused('LEASE_NOT_FOUND', id)
  end
  l.revoked = true
  S.changed_leases[id] = l
  if force then
    lose(l, S.now_ms)
  end
  return leases.view(l)
end

function leases.view(l)
  return {
    'LEASE_VIEW', l.member, l.token, l.class, l.session, l.slot, l.granted, l.expires, l.waited, l.revoked and 1 or 0,
    l.totals,
  }
end

-- Its record is gone though nothing ended it: the store lost keys. Never free, only lost: the queue rests as after a loss.
local function lose_orphan(id)
  local member, token = match(id, '^(.*)/(%d+)$')
  store.place(S.prefix .. 'expiry', id, false)
  store.place(S.prefix .. 'leased', member, false)
  for _, class_id in ipairs(store.class_ids()) do
    call('ZREM', S.prefix .. 'leases:' .. class_id, id)
    S.upset[class_id] = true
  end
  local q = store.queue(member)
  if q and q.state == STATE.LEASED and q.token == tonumber(token) then
    after_loss(q, ORDER.STRICT, S.now_ms)
  end
end

function leases.expire_lapsed(limit)
  local key = S.prefix .. 'expiry'
  store.settle_set(key)
  local reports = {}
  for _, id in ipairs(call('ZRANGEBYSCORE', key, '-inf', d(S.now_ms), 'LIMIT', '0', d(limit))) do
    local l = store.lease(id)
    if l then
      lose(l, l.expires)
      reports[#reports + 1] = id .. ' ' .. l.class
    else
      lose_orphan(id)
    end
  end
  if #reports > 0 then
    call_with('RPUSH', S.prefix .. 'lapsed', reports)
    call('LTRIM', S.prefix .. 'lapsed', d(-S.config.lapsed_kept), '-1')
  end
end

function leases.any_lapsed()
  store.settle_set(S.prefix .. 'expiry')
  return #call('ZRANGEBYSCORE', S.prefix .. 'expiry', '-inf', d(S.now_ms), 'LIMIT', '0', '1') > 0
end

function leases.wake_due(limit)
  local due = call('ZRANGEBYSCORE', S.prefix .. 'waiting', '-inf', d(S.now_ms), 'LIMIT', '0', d(limit))
  for _, member in ipairs(due) do
    local q = store.queue(member)
    if q then
      running.make_ready(q, S.now_ms)
    else -- its record is gone though nothing deleted it
      call('ZREM', S.prefix .. 'waiting', member)
    end
  end
  return #due
end

function leases.any_due()
  return #call('ZRANGEBYSCORE', S.prefix .. 'waiting', '-inf', d(S.now_ms), 'LIMIT', '0', '1') > 0
end
