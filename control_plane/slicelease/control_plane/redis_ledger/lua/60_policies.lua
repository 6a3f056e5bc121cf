-- ---- policies: tenants, queues, classes; pause; the touch that may create (domain/ledger/policies.py) ---------------------

local policies = {}

local function put_user(class_id, user)
  if class_id ~= '' then
    call('SADD', S.prefix .. 'users:' .. class_id, user)
  end
end

local function drop_user(class_id, user)
  if class_id ~= '' then
    call('SREM', S.prefix .. 'users:' .. class_id, user)
  end
end

local function unknown_class(class_id)
  if class_id ~= '' and not store.class(class_id) then
    return refused('PRIORITY_CLASS_NOT_FOUND', class_id)
  end
  return nil
end

local function differs(etag, expected)
  return expected ~= '' and expected ~= d(etag)
end

local function resolved_type(policy, tenant)
  local class_id = policy.class ~= '' and policy.class or store.tenant(tenant).class
  return policy.type ~= 0 and policy.type or store.class(class_id).type
end

local function add_queue(member, policy)
  local q = store.queue_record(member)
  q.created = S.now_ms
  store.put_queue(q, {class = policy.class, type = resolved_type(policy, q.tenant), terms = policy.terms})
  call('ZADD', S.prefix .. 'queues', '0', member)
  put_user(policy.class, 'q:' .. member)
  running.touch(q)
end

local PLAIN = {class = '', type = 0, terms = INHERITED}

local function add_tenant(id, policy)
  store.put_tenant(id, policy, S.now_ms)
  call('ZADD', S.prefix .. 'tenants', '0', id)
  put_user(policy.class, 't:' .. id)
  add_queue(id .. '/' .. S.config.default_queue, PLAIN)
end

local function drop_queue(q)
  running.leave(q)
  leases.end_with_queue(q)
  if q.state == STATE.WAITING then
    call('ZREM', S.prefix .. 'waiting', q.member)
  end
  call('ZREM', S.prefix .. 'queues', q.member)
  drop_user(q.class, 'q:' .. q.member)
  store.forget_queue(q.member)
end

-- ---- touch and pause ----

local function create_for_touch(member, policy)
  local tenant = sub(member, 1, find(member, '/', 1, true) - 1)
  if not store.tenant(tenant) then
    local missing = unknown_class(policy.class)
    if missing then
      return missing
    end
    add_tenant(tenant, policy)
  end
  if not store.queue(member) then
    add_queue(member, PLAIN)
  end
  return nil
end

function policies.touch(member, create, finishes)
  local missing, coalesced, created = reading.missing_queue(member), false, false
  if not missing then
    coalesced = running.touch(store.queue(member))
  elseif not create then
    return missing
  else
    missing, created = create_for_touch(member, create), true
    if missing then
      return missing
    end
  end
  if finishes then
    requests.finish_publish(finishes)
  end
  return {'TOUCHED', coalesced and 1 or 0, created and 1 or 0}
end

function policies.pause(member)
  local missing = reading.missing_queue(member)
  if missing then
    return missing
  end
  local q = store.queue(member)
  running.leave(q)
  q.paused = true
  store.changed(q)
  return reading.queue(member)
end

function policies.resume(member)
  local missing = reading.missing_queue(member)
  if missing then
    return missing
  end
  local q = store.queue(member)
  if q.paused then
    q.paused = false
    store.changed(q)
    if q.state == STATE.READY then
      running.make_ready(q, S.now_ms)
    end
  end
  return reading.queue(member)
end

-- ---- tenants ----

function policies.create_tenant(id, policy, validate_only)
  if store.tenant(id) then
    return refused('RESOURCE_EXISTS', id)
  end
  if not store.class(policy.class) then
    return refused('PRIORITY_CLASS_NOT_FOUND', policy.class)
  end
  if validate_only then
    return {'TENANT_VIEW', id, policy.class, policy.weight, policy.charge, policy.name, '', S.now_ms, S.now_ms}
  end
  add_tenant(id, policy)
  return reading.tenant(id)
end

-- The tenant's competing queues without a class of their own move with it and keep their times.
local function move_queues(id, before)
  for _, member in ipairs(call('ZRANGE', before.turns_key .. id, '0', '-1')) do
    local q = store.queue(member)
    if q.class == '' then
      running.leave(q)
      running.enter(q)
    end
  end
end

function policies.update_tenant(id, policy, etag, validate_only)
  local t = store.whole_tenant(id)
  if not t then
    return refused('TENANT_NOT_FOUND', id)
  end
  if differs(t.etag, etag) then
    return refused('ETAG_MISMATCH', id)
  end
  if not store.class(policy.class) then
    return refused('PRIORITY_CLASS_NOT_FOUND', policy.class)
  end
  if validate_only then
    return {'TENANT_VIEW', id, policy.class, policy.weight, policy.charge, policy.name, d(t.etag), t.created, t.updated}
  end
  store.put_tenant(id, policy, t.created)
  if t.class ~= policy.class then
    drop_user(t.class, 't:' .. id)
    put_user(policy.class, 't:' .. id)
    move_queues(id, store.class(t.class))
  end
  return reading.tenant(id)
end

local function has_other_queues(id)
  for _, member in ipairs(call('ZRANGEBYLEX', S.prefix .. 'queues', '[' .. id .. '/', '(' .. id .. '0', 'LIMIT', '0', '2')) do
    if member ~= id .. '/' .. S.config.default_queue then
      return true
    end
  end
  return false
end

function policies.delete_tenant(id, etag, validate_only)
  local t = store.whole_tenant(id)
  if not t then
    return refused('TENANT_NOT_FOUND', id)
  end
  if differs(t.etag, etag) then
    return refused('ETAG_MISMATCH', id)
  end
  if has_other_queues(id) then
    return refused('RESOURCE_IN_USE', id)
  end
  if validate_only then
    return {'DELETED'}
  end
  drop_queue(store.queue(id .. '/' .. S.config.default_queue))
  drop_user(t.class, 't:' .. id)
  call('ZREM', S.prefix .. 'tenants', id)
  call('DEL', S.prefix .. 'tenant:' .. id)
  S.tenants[id] = false
  for _, class_id in ipairs(store.class_ids()) do
    store.set_tag(store.class(class_id), id, false)
  end
  return {'DELETED'}
end

-- ---- queues ----

function policies.create_queue(member, policy, validate_only)
  local tenant = sub(member, 1, find(member, '/', 1, true) - 1)
  if not store.tenant(tenant) then
    return refused('TENANT_NOT_FOUND', tenant)
  end
  if store.queue(member) then
    return refused('RESOURCE_EXISTS', member)
  end
  local missing = unknown_class(policy.class)
  if missing then
    return missing
  end
  if validate_only then
    local class_id = policy.class ~= '' and policy.class or store.tenant(tenant).class
    return {
      'QUEUE_VIEW', member, policy.class, resolved_type(policy, tenant), policy.terms, class_id, STATE.IDLE, 0, 0, 0, 0, '',
      S.now_ms, S.now_ms,
    }
  end
  add_queue(member, policy)
  return reading.queue(member)
end

function policies.update_queue(member, policy, etag, validate_only)
  local missing = reading.missing_queue(member)
  if missing then
    return missing
  end
  local q = store.whole_queue(member)
  if differs(q.etag, etag) then
    return refused('ETAG_MISMATCH', member)
  end
  missing = unknown_class(policy.class)
  if missing then
    return missing
  end
  if validate_only then
    local view = reading.queue(member)
    view[3], view[5] = policy.class, policy.terms
    return view
  end
  drop_user(q.class, 'q:' .. member)
  store.put_queue(q, {class = policy.class, type = q.type, terms = policy.terms})
  put_user(q.class, 'q:' .. member)
  if q.running ~= '' and q.running ~= store.class_of(q) then
    running.leave(q)
    running.enter(q)
  end
  return reading.queue(member)
end

function policies.delete_queue(member, etag, validate_only)
  local missing = reading.missing_queue(member)
  if missing then
    return missing
  end
  local q = store.whole_queue(member)
  if differs(q.etag, etag) then
    return refused('ETAG_MISMATCH', member)
  end
  if member == q.tenant .. '/' .. S.config.default_queue then
    return refused('RESOURCE_IN_USE', member)
  end
  if not validate_only then
    drop_queue(q)
  end
  return {'DELETED'}
end

-- ---- classes ----

function policies.create_class(id, policy, validate_only)
  if store.class(id) then
    return refused('RESOURCE_EXISTS', id)
  end
  if validate_only then
    return {'CLASS_VIEW', id, policy.target, policy.terms, policy.type, policy.max, '', S.now_ms, S.now_ms}
  end
  local c = store.class_record(id, policy, store.next_etag(), S.now_ms, S.now_ms)
  store.put_class(c)
  call('ZADD', S.prefix .. 'classes', '0', id)
  return reading.class(c)
end

function policies.update_class(id, policy, etag, validate_only)
  local c = store.class(id)
  if not c then
    return refused('PRIORITY_CLASS_NOT_FOUND', id)
  end
  if differs(c.etag, etag) then
    return refused('ETAG_MISMATCH', id)
  end
  if validate_only then
    return {'CLASS_VIEW', id, policy.target, policy.terms, policy.type, policy.max, d(c.etag), c.created, c.updated}
  end
  c.target, c.terms, c.type, c.max, c.effective = policy.target, policy.terms, policy.type, policy.max, nil
  c.etag, c.updated = store.next_etag(), S.now_ms
  store.put_class(c)
  S.upset[id] = true
  return reading.class(c)
end

function policies.delete_class(id, etag, validate_only)
  local c = store.class(id)
  if not c then
    return refused('PRIORITY_CLASS_NOT_FOUND', id)
  end
  if differs(c.etag, etag) then
    return refused('ETAG_MISMATCH', id)
  end
  if call('EXISTS', S.prefix .. 'users:' .. id) == 1 or store.held(c) > 0 then
    return refused('RESOURCE_IN_USE', id)
  end
  if not validate_only then
    store.forget_class(c)
    call('ZREM', S.prefix .. 'classes', id)
  end
  return {'DELETED'}
end
