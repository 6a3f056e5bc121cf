-- ---- reading: views, pages, counts (domain/ledger/reading.py) -------------------------------------------------------------

local reading = {}

function reading.tenant(id)
  local t = store.whole_tenant(id)
  return {'TENANT_VIEW', t.id, t.class, t.weight, t.charge, t.name, d(t.etag), t.created, t.updated}
end

function reading.queue(member)
  local q = store.whole_queue(member)
  return {
    'QUEUE_VIEW', q.member, q.class, q.type, q.terms, store.class_of(q), q.state, q.paused and 1 or 0, q.since, q.due,
    q.token, d(q.etag), q.created, q.updated,
  }
end

function reading.class(c)
  return {'CLASS_VIEW', c.id, c.target, c.terms, c.type, c.max, d(c.etag), c.created, c.updated}
end

function reading.missing_queue(member)
  local tenant = sub(member, 1, find(member, '/', 1, true) - 1)
  if not store.tenant(tenant) then
    return refused('TENANT_NOT_FOUND', tenant)
  end
  if not store.queue(member) then
    return refused('QUEUE_NOT_FOUND', member)
  end
  return nil
end

-- ---- pages ----

-- Members of a set in the order of their bytes, behind `after`, all or those that begin with `stem`: at most `limit`, and
-- where the next page begins ('': nowhere). The stem ends with a slash, and `0` is the byte behind a slash.
local function cut(name, stem, after, limit)
  local from, to = '-', '+'
  if stem ~= '' then
    from, to = '[' .. stem, '(' .. sub(stem, 1, -2) .. '0'
  end
  if after ~= '' and not bytes_before(after, stem) then
    from = '(' .. after
  end
  local members = call('ZRANGEBYLEX', S.prefix .. name, from, to, 'LIMIT', '0', d(limit + 1))
  local more = #members > limit
  members[limit + 1] = nil
  return members, more and members[limit] or ''
end

local function page(members, next_after, view)
  local items, count = {'PAGE', 0}, 0
  for _, member in ipairs(members) do
    local seen = view(member)
    if seen then
      count = count + 1
      for _, value in ipairs(seen) do
        items[#items + 1] = value
      end
    end
  end
  items[2] = count
  items[#items + 1] = next_after
  return items
end

function reading.list_tenants(after, limit)
  local members, next_after = cut('tenants', '', after, limit)
  return page(members, next_after, reading.tenant)
end

function reading.list_queues(tenant, after, limit)
  local members, next_after = cut('queues', tenant ~= '' and tenant .. '/' or '', after, limit)
  return page(members, next_after, reading.queue)
end

function reading.list_classes(after, limit)
  local members, next_after = cut('classes', '', after, limit)
  return page(members, next_after, function(id)
    return reading.class(store.class(id))
  end)
end

local function lease_of(member)
  local l = store.live(member .. '/' .. d(store.queue(member).token))
  return l and leases.view(l)
end

function reading.list_leases(tenant, queue, after, limit)
  store.settle_set(S.prefix .. 'leased')
  if tenant ~= '' and queue ~= '' then
    local member = tenant .. '/' .. queue
    local there = bytes_before(after, member) and limit > 0 and call('ZSCORE', S.prefix .. 'leased', member)
    return page(there and {member} or {}, '', lease_of)
  end
  local members, next_after = cut('leased', tenant ~= '' and tenant .. '/' or '', after, limit)
  return page(members, next_after, lease_of)
end

-- ---- counts ----

local function class_stats(c)
  store.settle_set(c.since_key)
  local oldest = call('ZRANGE', c.since_key, '0', '0', 'WITHSCORES')
  return store.competing(c), store.live_in(c), call('ZCARD', c.owed_key), call('SCARD', c.published_key),
    oldest[1] and S.now_ms - tonumber(oldest[2]) or 0
end

function reading.stats()
  local class_ids = store.class_ids()
  local stats = {'STATS', #class_ids}
  for _, class_id in ipairs(class_ids) do
    stats[#stats + 1] = class_id
    for _, count in ipairs({class_stats(store.class(class_id))}) do
      stats[#stats + 1] = count
    end
  end
  stats[#stats + 1] = call('ZCARD', S.prefix .. 'waiting')
  stats[#stats + 1] = call('ZCARD', S.prefix .. 'tenants')
  stats[#stats + 1] = call('ZCARD', S.prefix .. 'queues')
  stats[#stats + 1] = max(0, S.meta.closed_until - S.now_ms)
  return stats
end
