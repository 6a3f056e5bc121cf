-- ---- running: who competes, and in which place (domain/ledger/running.py) -------------------------------------------------

local running = {}

function running.enter(q)
  local c = store.class(store.class_of(q))
  local tenant = q.tenant
  local charged = c.late_ready[tenant]
  if charged then -- what the charge left is what entering takes: both are max(finish tag, virtual time)
    call('ZADD', c.ready_key, d(charged), tenant)
    c.late_ready[tenant] = nil
  else
    call('ZADD', c.ready_key, 'NX', d(max(store.tag(c, tenant) or 0, c.virtual)), tenant)
  end
  call('ZADD', c.turns_key .. tenant, d(q.since), q.member)
  store.place(c.since_key, q.member, q.since)
  c.count = c.count and c.count + 1
  c.head = nil
  q.running = c.id
  store.changed(q)
  S.upset[c.id] = true
end

local function out_of_turn(q, c)
  store.place(c.since_key, q.member, false)
  c.count = c.count and c.count - 1
  c.head = nil
  q.running = ''
  store.changed(q)
end

function running.leave(q)
  if q.running == '' then
    return
  end
  local c = store.class(q.running)
  call('ZREM', c.turns_key .. q.tenant, q.member)
  if call('EXISTS', c.turns_key .. q.tenant) == 0 then
    call('ZREM', c.ready_key, q.tenant)
    c.late_ready[q.tenant] = nil
  end
  out_of_turn(q, c)
end

local function rest(q)
  running.leave(q)
  if q.state == STATE.WAITING then
    call('ZREM', S.prefix .. 'waiting', q.member)
  end
  q.due, q.token, q.dirty = 0, 0, false
  if q.suspect <= S.now_ms then
    q.suspect = 0
  end
  store.changed(q)
end

function running.make_ready(q, since)
  rest(q)
  q.state, q.since = STATE.READY, since
  if not q.paused then
    running.enter(q)
  end
end

function running.make_waiting(q, due)
  rest(q)
  q.state, q.since, q.due = STATE.WAITING, S.now_ms, due
  call('ZADD', S.prefix .. 'waiting', d(due), q.member)
end

function running.make_idle(q)
  rest(q)
  q.state, q.since = STATE.IDLE, 0
end

-- True: that it may have work was known already.
function running.touch(q)
  if q.state == STATE.IDLE then
    running.make_ready(q, S.now_ms)
    return false
  end
  if q.state == STATE.LEASED and not q.dirty then
    q.dirty = true
    store.changed(q)
    return false
  end
  return true
end

-- ---- fair queueing ----

-- The tenant with the smallest start tag and its queue READY longest; false: nothing competes.
local function head(c)
  if c.head == nil then
    store.settle_ready(c)
    local first = call('ZRANGE', c.ready_key, 0, 0, 'WITHSCORES')
    if not first[1] then
      c.head = false
      return false
    end
    local turns = call('ZRANGE', c.turns_key .. first[1], 0, 1, 'WITHSCORES')
    c.head = {
      tenant = first[1], tag = tonumber(first[2]), member = turns[1], since = tonumber(turns[2]), more = turns[3] ~= nil,
    }
  end
  return c.head
end

function running.free_slots(c)
  if c.max == 0 then
    return store.competing(c)
  end
  return max(0, c.max - store.live_in(c))
end

-- The class whose head deserves the next slot (nil: none), and whether one with competing queues was at its ceiling.
function running.choose(class_ids)
  local best, best_due, full = nil, nil, false
  for _, class_id in ipairs(class_ids) do
    local c = store.class(class_id)
    local first = c and head(c)
    if first and c.max ~= 0 and running.free_slots(c) == 0 then
      full = true
    elseif first then
      local due = first.since + c.target
      if not best or due < best_due or (due == best_due and bytes_before(class_id, best.id)) then
        best, best_due = c, due
      end
    end
  end
  return best, full
end

-- Takes the head of the class out of the running and charges its tenant the virtual cost; returns the start tag.
function running.reserve(q, c, cost)
  local first = c.head
  call('ZREM', c.turns_key .. first.tenant, first.member)
  if first.more then
    call('ZADD', c.ready_key, d(first.tag + cost), first.tenant)
  else
    call('ZREM', c.ready_key, first.tenant)
  end
  out_of_turn(q, c)
  c.virtual = first.tag
  store.set_tag(c, first.tenant, first.tag + cost)
  return first.tag
end

-- Corrects what was reserved at the grant to the time held, of which 1 ms is the least.
function running.charge(l, held_ms)
  local c = store.class(l.class)
  local tenant = sub(l.member, 1, find(l.member, '/', 1, true) - 1)
  local reserved = store.terms(l.terms).slice_ms * l.charge
  local before = store.tag(c, tenant) or l.tag + reserved
  local tag = max(0, before - reserved + max(1, held_ms) * l.charge)
  store.set_tag(c, tenant, tag)
  c.late_ready[tenant], c.any_late = max(tag, c.virtual), true
  c.head = nil
end

function running.forget_idle_class(c)
  if store.competing(c) == 0 and store.held(c) == 0 then
    c.virtual, c.late_ready = 0, {}
    store.drop_tags(c)
  end
end

function running.prune_tags(c)
  store.settle_set(c.tags_key)
  call('ZREMRANGEBYSCORE', c.tags_key, '-inf', d(c.virtual))
  c.tags = {}
end

-- ---- the balance ----

function running.outstanding(c)
  return call('ZCARD', c.owed_key) + call('SCARD', c.published_key)
end

function running.grantable(c)
  if S.now_ms < S.meta.closed_until then
    return 0
  end
  return min(store.competing(c), running.free_slots(c))
end

function running.by_urgency(class_ids)
  local known = {}
  for _, class_id in ipairs(class_ids) do
    known[#known + 1] = store.class(class_id) or nil
  end
  table.sort(known, function(a, b)
    if a.target ~= b.target then
      return a.target < b.target
    end
    return bytes_before(a.id, b.id)
  end)
  return known
end

function running.top_up(classes)
  local left = S.config.top_up_limit
  for _, c in ipairs(classes) do
    local missing = min(running.grantable(c) - running.outstanding(c), left)
    local owed = {}
    for _ = 1, missing do
      S.meta.announcement = S.meta.announcement + 1
      owed[#owed + 1] = '0'
      owed[#owed + 1] = d(S.meta.generation) .. '-' .. d(S.meta.announcement)
    end
    call_with('ZADD', c.owed_key, owed)
    left = left - max(0, missing)
  end
end

-- Owed ids that nobody claimed have score 0, so they stand first, in the order of their bytes.
function running.strike(c)
  local surplus = min(running.outstanding(c) - running.grantable(c), call('ZCOUNT', c.owed_key, '0', '0'))
  if surplus > 0 then
    call('ZREMRANGEBYRANK', c.owed_key, '0', d(surplus - 1))
  end
end

function running.ask_with(class_id, announcement_id)
  local c = store.class(class_id)
  if not c then
    return
  end
  if call('ZREM', c.owed_key, announcement_id) == 0 and call('SREM', c.published_key, announcement_id) == 0 then
    return
  end
  c.empty = 0
  S.upset[class_id] = true
end
