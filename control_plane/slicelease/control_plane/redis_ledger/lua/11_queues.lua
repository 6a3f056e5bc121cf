-- ---- store: the records of tenants and queues ----------------------------------------------------------------------------

-- ---- tenants ----

function store.tenant(id)
  local t = S.tenants[id]
  if t ~= nil then
    return t
  end
  local v = call('HMGET', S.prefix .. 'tenant:' .. id, 'class', 'charge')
  t = v[1] and {id = id, class = v[1], charge = tonumber(v[2])} or false
  S.tenants[id] = t
  return t
end

-- With what only people ask for.
function store.whole_tenant(id)
  local t = store.tenant(id)
  if t and not t.etag then
    local v = call('HMGET', S.prefix .. 'tenant:' .. id, 'weight', 'name', 'etag', 'created', 'updated')
    t.weight, t.name, t.etag, t.created, t.updated = tonumber(v[1]), v[2], tonumber(v[3]), tonumber(v[4]), tonumber(v[5])
  end
  return t
end

function store.put_tenant(id, policy, created)
  local t = {
    id = id, class = policy.class, weight = policy.weight, charge = policy.charge, name = policy.name,
    etag = store.next_etag(), created = created, updated = S.now_ms,
  }
  call('HSET', S.prefix .. 'tenant:' .. id, 'class', t.class, 'weight', d(t.weight), 'charge', d(t.charge),
    'name', t.name, 'etag', d(t.etag), 'created', d(t.created), 'updated', d(t.updated))
  S.tenants[id] = t
end

-- ---- queues ----

function store.queue(member)
  local q = S.queues[member]
  if q ~= nil then
    return q
  end
  local v = call('HMGET', S.prefix .. 'queue:' .. member, 'class', 'terms', 'state')
  q = v[1] and store.queue_record(member) or false
  if q then
    q.class, q.terms = v[1], v[2]
  end
  if q and v[3] then
    q.state, q.since, q.due, q.token, q.dirty, q.running, q.suspect, q.paused = cmsgpack.unpack(v[3])
  end
  S.queues[member] = q
  return q
end

function store.queue_record(member)
  return {
    member = member, tenant = sub(member, 1, find(member, '/', 1, true) - 1), state = STATE.IDLE, since = 0, due = 0,
    token = 0, dirty = false, running = '', suspect = 0, paused = false,
  }
end

-- With what only people ask for.
function store.whole_queue(member)
  local q = store.queue(member)
  if q and not q.etag then
    local v = call('HMGET', S.prefix .. 'queue:' .. member, 'type', 'etag', 'created', 'updated')
    q.type, q.etag, q.created, q.updated = tonumber(v[1]), tonumber(v[2]), tonumber(v[3]), tonumber(v[4])
  end
  return q
end

function store.put_queue(q, policy)
  q.class, q.type, q.terms = policy.class, policy.type, policy.terms
  q.etag, q.updated = store.next_etag(), S.now_ms
  call('HSET', S.prefix .. 'queue:' .. q.member, 'class', q.class, 'type', d(q.type), 'terms', q.terms, 'etag', d(q.etag),
    'created', d(q.created), 'updated', d(q.updated))
  S.queues[q.member] = q
end

function store.changed(q)
  S.changed_queues[q.member] = q
end

-- An IDLE queue keeps nothing beyond its policy, but for a pause or a suspicion.
local function write_queue(q)
  local key = S.prefix .. 'queue:' .. q.member
  if q.state == STATE.IDLE and q.suspect == 0 and not q.paused then
    call('HDEL', key, 'state')
  else
    call('HSET', key, 'state', cmsgpack.pack(q.state, q.since, q.due, q.token, q.dirty, q.running, q.suspect, q.paused))
  end
end

function store.forget_queue(member)
  call('DEL', S.prefix .. 'queue:' .. member, S.prefix .. 'attempts:' .. member)
  S.changed_queues[member] = nil
  S.queues[member] = false
end

function store.class_of(q)
  return q.class ~= '' and q.class or store.tenant(q.tenant).class
end
