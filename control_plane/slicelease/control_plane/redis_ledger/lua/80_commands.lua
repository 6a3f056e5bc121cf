-- ---- commands: their arguments, in the order of the fields of the Python command, and who answers --------------------------

local commands = {}

function commands.touch()
  local member = arg.text()
  local create = arg.flag() and arg.tenant_policy() or nil
  return policies.touch(member, create, arg.request())
end

function commands.claim_publish()
  local request = {id = arg.text(), digest = arg.text()}
  local message_id, correlation_id = arg.text(), arg.text()
  return requests.claim_publish(request, message_id, correlation_id)
end

function commands.release_publish()
  return requests.release_publish({id = arg.text(), digest = arg.text()})
end

function commands.read_answer()
  return requests.read_answer({id = arg.text(), digest = arg.text()})
end

function commands.acquire()
  local request, class_ids = arg.slot_request(), arg.texts()
  local ticket_class, announcement_id = arg.text(), arg.text()
  return requests.once_in_slot(request, nil, function()
    if announcement_id ~= '' then
      running.ask_with(ticket_class, announcement_id)
    end
    return leases.grant(request.session, request.slot, class_ids)
  end)
end

function commands.renew()
  local request, id, totals = arg.slot_request(), arg.lease(), arg.text()
  local starting_id, finished_ids = arg.text(), arg.texts()
  return requests.once_in_slot(request, id, function()
    return leases.renew(id, totals, starting_id, finished_ids)
  end)
end

-- The totals are for those who meter; nothing of them is kept once the lease has ended.
function commands.settle()
  local request, id, reason, _ = arg.slot_request(), arg.lease(), arg.int(), arg.text()
  local settle = {
    reason = reason, returned = arg.texts(), finished = arg.texts(), failed = arg.text(), want_next = arg.flag(),
    classes = arg.texts(),
  }
  return requests.once_in_slot(request, nil, function()
    return leases.settle(id, settle, request.session, request.slot)
  end)
end

function commands.give_back()
  local session, slot, n, id, carried = arg.text(), arg.int(), arg.int(), arg.lease(), arg.int()
  return requests.give_back(session, slot, n, id, carried)
end

function commands.revoke()
  local id, force = arg.lease(), arg.flag()
  return requests.once(arg.request(), function()
    return leases.revoke(id, force)
  end)
end

function commands.pause()
  local member = arg.text()
  return requests.once(arg.request(), function()
    return policies.pause(member)
  end)
end

function commands.resume()
  local member = arg.text()
  return requests.once(arg.request(), function()
    return policies.resume(member)
  end)
end

-- A dry run is not remembered.
local function once(validate_only, run)
  local request = arg.request()
  return requests.once(not validate_only and request or nil, run)
end

function commands.create_tenant()
  local id, policy, dry = arg.text(), arg.tenant_policy(), arg.flag()
  return once(dry, function()
    return policies.create_tenant(id, policy, dry)
  end)
end

function commands.update_tenant()
  local id, policy, etag, dry = arg.text(), arg.tenant_policy(), arg.text(), arg.flag()
  return once(dry, function()
    return policies.update_tenant(id, policy, etag, dry)
  end)
end

function commands.delete_tenant()
  local id, etag, dry = arg.text(), arg.text(), arg.flag()
  return once(dry, function()
    return policies.delete_tenant(id, etag, dry)
  end)
end

function commands.create_queue()
  local member, policy, dry = arg.text(), arg.queue_policy(), arg.flag()
  return once(dry, function()
    return policies.create_queue(member, policy, dry)
  end)
end

function commands.update_queue()
  local member, policy, etag, dry = arg.text(), arg.queue_policy(), arg.text(), arg.flag()
  return once(dry, function()
    return policies.update_queue(member, policy, etag, dry)
  end)
end

function commands.delete_queue()
  local member, etag, dry = arg.text(), arg.text(), arg.flag()
  return once(dry, function()
    return policies.delete_queue(member, etag, dry)
  end)
end

function commands.create_class()
  local id, policy, dry = arg.text(), arg.class_policy(), arg.flag()
  return once(dry, function()
    return policies.create_class(id, policy, dry)
  end)
end

function commands.update_class()
  local id, policy, etag, dry = arg.text(), arg.class_policy(), arg.text(), arg.flag()
  return once(dry, function()
    return policies.update_class(id, policy, etag, dry)
  end)
end

function commands.delete_class()
  local id, etag, dry = arg.text(), arg.text(), arg.flag()
  return once(dry, function()
    return policies.delete_class(id, etag, dry)
  end)
end

function commands.get_tenant()
  local id = arg.text()
  local t = store.tenant(id)
  return t and reading.tenant(id) or refused('TENANT_NOT_FOUND', id)
end

function commands.get_queue()
  local member = arg.text()
  return reading.missing_queue(member) or reading.queue(member)
end

function commands.get_class()
  local id = arg.text()
  local c = store.class(id)
  return c and reading.class(c) or refused('PRIORITY_CLASS_NOT_FOUND', id)
end

function commands.get_lease()
  local id = arg.lease()
  local l = store.live(id)
  return l and leases.view(l) or refused('LEASE_NOT_FOUND', id)
end

function commands.list_tenants()
  return reading.list_tenants(arg.text(), arg.int())
end

function commands.list_queues()
  return reading.list_queues(arg.text(), arg.text(), arg.int())
end

function commands.list_classes()
  return reading.list_classes(arg.text(), arg.int())
end

function commands.list_leases()
  return reading.list_leases(arg.text(), arg.text(), arg.text(), arg.int())
end

function commands.expire_lapsed()
  return loops.expire_lapsed(arg.int())
end

function commands.wake_due()
  return loops.wake_due(arg.int())
end

function commands.claim_announcements()
  return loops.claim_announcements(arg.int())
end

function commands.mark_published()
  return loops.mark_published(arg.text(), arg.texts())
end

function commands.observe_attention()
  return loops.observe_attention(arg.text(), arg.int())
end

function commands.read_stats()
  return reading.stats()
end

function commands.ping()
  return {'PONG', S.now_ms, max(0, S.meta.closed_until - S.now_ms), S.meta.generation}
end
