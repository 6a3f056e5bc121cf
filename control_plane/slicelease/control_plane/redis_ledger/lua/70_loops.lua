-- ---- loops: what the control plane's loops ask (domain/ledger/__init__.py) ------------------------------------------------

local loops = {}

function loops.expire_lapsed(limit)
  leases.expire_lapsed(limit)
  for _, class_id in ipairs(store.class_ids()) do
    running.prune_tags(store.class(class_id))
  end
  local key = S.prefix .. 'lapsed'
  local reported = call('LPOP', key, d(S.config.report_limit)) or {}
  local expired = {'EXPIRED', #reported}
  for _, report in ipairs(reported) do
    local member, token, class_id = match(report, '^(.*)/(%d+) (.*)$')
    expired[#expired + 1] = member
    expired[#expired + 1] = tonumber(token)
    expired[#expired + 1] = class_id
  end
  expired[#expired + 1] = (call('EXISTS', key) == 1 or leases.any_lapsed()) and 1 or 0
  return expired
end

function loops.wake_due(limit)
  local woken = leases.wake_due(limit)
  return {'WOKEN', woken, leases.any_due() and 1 or 0}
end

function loops.claim_announcements(limit)
  local classes = running.by_urgency(store.class_ids())
  running.top_up(classes)
  local claimed, count, until_ms = {'ANNOUNCEMENTS', 0}, 0, S.now_ms + S.config.claim_ms
  for _, c in ipairs(classes) do
    running.strike(c)
    local free = call('ZRANGEBYSCORE', c.owed_key, '-inf', d(S.now_ms), 'LIMIT', '0', d(limit - count))
    local scores = {}
    for _, announcement_id in ipairs(free) do
      scores[#scores + 1] = d(until_ms)
      scores[#scores + 1] = announcement_id
      claimed[#claimed + 1] = c.id
      claimed[#claimed + 1] = announcement_id
    end
    call_with('ZADD', c.owed_key, scores)
    count = count + #free
  end
  claimed[2] = count
  return claimed
end

function loops.mark_published(class_id, announcement_ids)
  local c = store.class(class_id)
  for _, announcement_id in ipairs(c and announcement_ids or {}) do
    if call('ZREM', c.owed_key, announcement_id) == 1 then
      call('SADD', c.published_key, announcement_id)
    end
  end
  return {'DONE'}
end

function loops.observe_attention(class_id, messages)
  local c = store.class(class_id)
  if not c then
    return {'OBSERVED', 0}
  end
  if messages > 0 or call('EXISTS', c.owed_key) == 1 or running.grantable(c) == 0 then
    c.empty = 0
  elseif c.empty == 0 then
    c.empty = S.now_ms
  elseif S.now_ms - c.empty >= S.config.look_ms then
    local dropped = call('SCARD', c.published_key)
    call('DEL', c.published_key)
    c.empty = 0
    S.upset[class_id] = true
    return {'OBSERVED', dropped}
  end
  return {'OBSERVED', 0}
end
