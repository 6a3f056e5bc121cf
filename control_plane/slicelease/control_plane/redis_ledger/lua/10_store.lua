-- ---- store ----------------------------------------------------------------------------------------------------------------
-- Records are read once a step and written once, at its end. Sets whose order is not asked for within a step are changed
-- at its end too, all members in one call; who asks for a range of such a set settles it first.

local store = {}

-- `score` false: out of the set.
function store.place(key, member, score)
  local late = S.late[key]
  if not late then
    late = {}
    S.late[key] = late
  end
  late[member] = score
end

function store.settle_set(key)
  local late = S.late[key]
  if not late then
    return
  end
  S.late[key] = nil
  local gone, placed = {}, {}
  for member, score in pairs(late) do
    if score then
      placed[#placed + 1] = d(score)
      placed[#placed + 1] = member
    else
      gone[#gone + 1] = member
    end
  end
  call_with('ZREM', key, gone)
  call_with('ZADD', key, placed)
end

-- ---- meta ----

function store.read_meta()
  local v = call('HMGET', S.prefix .. 'meta',
    'schema', 'run_id', 'generation', 'closed_until', 'offset', 'last', 'token', 'etag', 'announcement')
  return {
    schema = tonumber(v[1]), run_id = v[2] or '', generation = tonumber(v[3]) or 0, closed_until = tonumber(v[4]) or 0,
    offset = tonumber(v[5]) or 0, last = tonumber(v[6]) or 0, token = tonumber(v[7]) or 0, etag = tonumber(v[8]) or 0,
    announcement = tonumber(v[9]) or 0,
  }
end

function store.write_meta()
  local m = S.meta
  call('HSET', S.prefix .. 'meta', 'schema', d(SCHEMA), 'run_id', m.run_id, 'generation', d(m.generation),
    'closed_until', d(m.closed_until), 'offset', d(m.offset), 'last', d(S.now_us), 'token', d(m.token), 'etag', d(m.etag),
    'announcement', d(m.announcement))
end

function store.next_etag()
  S.meta.etag = S.meta.etag + 1
  return S.meta.etag
end

-- ---- terms: six integers in one text ----

local INHERITED = '0 0 0 0 0 0'

function store.terms(text)
  local known = S.terms[text]
  if not known then
    local a, b, c, e, f, g = match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    known = {
      messages = tonumber(a), slice_ms = tonumber(b), attempts = tonumber(c), backoff_ms = tonumber(e),
      backoff_cap_ms = tonumber(f), ordering = tonumber(g), text = text,
    }
    S.terms[text] = known
  end
  return known
end

local function either(a, b)
  return a ~= 0 and a or b
end

-- Each of `text` that is not 0, else that of `inherited`.
function store.terms_over(text, inherited)
  if text == INHERITED then
    return inherited
  end
  local own = store.terms(text)
  return store.terms(format('%d %d %d %d %d %d', either(own.messages, inherited.messages),
    either(own.slice_ms, inherited.slice_ms), either(own.attempts, inherited.attempts),
    either(own.backoff_ms, inherited.backoff_ms), either(own.backoff_cap_ms, inherited.backoff_cap_ms),
    either(own.ordering, inherited.ordering)))
end

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

-- ---- classes ----

function store.class(id)
  local c = S.classes[id]
  if c ~= nil then
    return c
  end
  local v = call('HMGET', S.prefix .. 'class:' .. id, 'target', 'terms', 'type', 'max', 'etag', 'created', 'updated',
    'virtual', 'empty')
  c = v[1] and store.class_record(id, {target = tonumber(v[1]), terms = v[2], type = tonumber(v[3]), max = tonumber(v[4])},
    tonumber(v[5]), tonumber(v[6]), tonumber(v[7])) or false
  if c then
    c.virtual, c.empty = tonumber(v[8]), tonumber(v[9])
    c.stored_virtual, c.stored_empty = c.virtual, c.empty
  end
  S.classes[id] = c
  return c
end

-- `tags` caches finish tags (false: none), `late_ready` start tags of tenants that are to be written if they compete.
function store.class_record(id, policy, etag, created, updated)
  local p = S.prefix
  return {
    id = id, target = policy.target, terms = policy.terms, type = policy.type, max = policy.max, etag = etag,
    created = created, updated = updated, virtual = 0, empty = 0, stored_virtual = 0, stored_empty = 0, tags = {},
    late_ready = {}, ready_key = p .. 'ready:' .. id, turns_key = p .. 'turns:' .. id .. '/', since_key = p .. 'since:' .. id,
    tags_key = p .. 'tags:' .. id, leases_key = p .. 'leases:' .. id, owed_key = p .. 'owed:' .. id,
    published_key = p .. 'published:' .. id,
  }
end

function store.put_class(c)
  call('HSET', S.prefix .. 'class:' .. c.id, 'target', d(c.target), 'terms', c.terms, 'type', d(c.type), 'max', d(c.max),
    'etag', d(c.etag), 'created', d(c.created), 'updated', d(c.updated), 'virtual', d(c.virtual), 'empty', d(c.empty))
  c.stored_virtual, c.stored_empty = c.virtual, c.empty
  S.classes[c.id] = c
end

function store.forget_class(c)
  S.late[c.since_key], S.late[c.tags_key], S.late[c.leases_key] = nil, nil, nil
  call('DEL', S.prefix .. 'class:' .. c.id, c.ready_key, c.since_key, c.tags_key, c.leases_key, c.owed_key, c.published_key)
  S.classes[c.id] = false
end

local function write_class(c)
  if c.virtual ~= c.stored_virtual or c.empty ~= c.stored_empty then
    call('HSET', S.prefix .. 'class:' .. c.id, 'virtual', d(c.virtual), 'empty', d(c.empty))
    c.stored_virtual, c.stored_empty = c.virtual, c.empty
  end
end

function store.class_ids()
  return call('ZRANGE', S.prefix .. 'classes', 0, -1)
end

-- How many queues compete, how many leases have not ended, how many of these are live: counted from their entries once a
-- step, then kept up.
function store.competing(c)
  if not c.count then
    store.settle_set(c.since_key)
    c.count = call('ZCARD', c.since_key)
  end
  return c.count
end

function store.held(c)
  if not c.held then
    store.settle_set(c.leases_key)
    c.held = call('ZCARD', c.leases_key)
  end
  return c.held
end

function store.live_in(c)
  if not c.live then
    store.settle_set(c.leases_key)
    c.live = call('ZCOUNT', c.leases_key, '(' .. d(S.now_ms), '+inf')
  end
  return c.live
end

-- The finish tag of a tenant; nil: none.
function store.tag(c, tenant)
  local tag = c.tags[tenant]
  if tag == nil and not c.no_tags then
    tag = tonumber(call('ZSCORE', c.tags_key, tenant)) or false
    c.tags[tenant] = tag
  end
  return tag or nil
end

function store.set_tag(c, tenant, tag)
  c.tags[tenant] = tag
  store.place(c.tags_key, tenant, tag)
end

function store.drop_tags(c)
  S.late[c.tags_key] = nil
  call('DEL', c.tags_key)
  c.tags, c.no_tags = {}, true
end

-- Start tags changed by charges, of tenants that compete.
function store.settle_ready(c)
  if not c.any_late then
    return
  end
  c.any_late = false
  for tenant, tag in pairs(c.late_ready) do
    call('ZADD', c.ready_key, 'XX', d(tag), tenant)
    c.late_ready[tenant] = nil
  end
end

-- ---- leases: `id` is tenant/queue/token ----

function store.lease(id)
  local l = S.leases[id]
  if l ~= nil then
    return l
  end
  local v = call('HMGET', S.prefix .. 'lease:' .. id, 'grant', 'life')
  l = v[1] and {id = id, stored = true} or false
  if l then
    l.member, l.token, l.class, l.session, l.slot, l.granted, l.waited, l.terms, l.tag, l.charge = cmsgpack.unpack(v[1])
    l.renewed, l.expires, l.carried, l.revoked, l.totals = cmsgpack.unpack(v[2])
  end
  S.leases[id] = l
  return l
end

-- The lease, if it has neither ended nor passed its time.
function store.live(id)
  local l = store.lease(id)
  return l and l.expires > S.now_ms and l or nil
end

function store.add_lease(l, c)
  S.leases[l.id] = l
  S.changed_leases[l.id] = l
  store.place(S.prefix .. 'expiry', l.id, l.expires)
  store.place(c.leases_key, l.id, l.expires)
  store.place(S.prefix .. 'leased', l.member, 0)
  c.held = c.held and c.held + 1
  c.live = c.live and c.live + 1
end

function store.prolong(l, expires)
  l.renewed, l.expires = S.now_ms, expires
  S.changed_leases[l.id] = l
  store.place(S.prefix .. 'expiry', l.id, expires)
  store.place(store.class(l.class).leases_key, l.id, expires)
end

function store.drop_lease(l)
  local c = store.class(l.class)
  S.leases[l.id] = false
  S.changed_leases[l.id] = nil
  if l.stored then
    S.dropped[#S.dropped + 1] = S.prefix .. 'lease:' .. l.id
  end
  store.place(S.prefix .. 'expiry', l.id, false)
  store.place(c.leases_key, l.id, false)
  store.place(S.prefix .. 'leased', l.member, false)
  c.held = c.held and c.held - 1
  if c.live and l.expires > S.now_ms then
    c.live = c.live - 1
  end
end

local function write_lease(l)
  local key = S.prefix .. 'lease:' .. l.id
  local life = cmsgpack.pack(l.renewed, l.expires, l.carried, l.revoked, l.totals)
  if l.stored then
    call('HSET', key, 'life', life)
    return
  end
  call('HSET', key, 'life', life, 'grant', cmsgpack.pack(l.member, l.token, l.class, l.session, l.slot, l.granted, l.waited,
    l.terms, l.tag, l.charge))
  l.stored = true
end

-- ---- the end of a step ----

function store.write_back()
  for _, q in pairs(S.changed_queues) do
    write_queue(q)
  end
  for _, l in pairs(S.changed_leases) do
    write_lease(l)
  end
  for _, c in pairs(S.classes) do
    if c then
      store.settle_ready(c)
      write_class(c)
    end
  end
  for first = 1, #S.dropped, BITE do
    call('DEL', unpack(S.dropped, first, min(first + BITE - 1, #S.dropped)))
  end
  for key in pairs(S.late) do
    store.settle_set(key)
  end
  store.write_meta()
end
