-- ---- store: the records of classes, and what is counted in them -----------------------------------------------------------

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
