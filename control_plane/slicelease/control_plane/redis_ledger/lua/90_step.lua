-- ---- the step -------------------------------------------------------------------------------------------------------------

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

-- ---- one command, alone in its failure ----

local function run_command(word)
  local command = commands[word]
  if not command then
    error('there is no command ' .. word)
  end
  return command()
end

local function answer_one()
  local word, count = arg.text(), arg.int()
  arg.stop = arg.at + count
  local done, answer = pcall(run_command, word)
  if not done then
    local text = type(answer) == 'table' and answer.err or tostring(answer)
    redis.log(redis.LOG_WARNING, 'slicelease: ' .. word .. ' failed: ' .. text)
    answer = {'FAILED', text}
  end
  arg.at = arg.stop
  return answer
end

-- ---- the store's own life ----

-- A store that is new, restarted or emptied may have forgotten leases: nothing is granted until the longest has ended.
local function look_at_store(run_id)
  local meta = S.meta
  if meta.run_id == run_id then
    return
  end
  local opens = S.config.open_when_restarted
  if meta.run_id == '' then
    opens = S.config.open_when_new
  end
  meta.run_id = run_id
  -- Of the clock, so that announcement ids of before a loss are not given again.
  meta.generation = max(meta.generation + 1, floor(S.now_us / 1000000))
  if not opens then
    meta.closed_until = max(meta.closed_until, S.now_ms + S.config.admission_ms)
  end
  for _, class_id in ipairs(store.class_ids()) do
    local c = store.class(class_id)
    call('DEL', c.owed_key, c.published_key)
    c.empty = 0
    S.upset[class_id] = true
  end
end

local function read_config()
  return {
    lease_ms = arg.int(), first_lease_ms = arg.int(), admission_ms = arg.int(), quarantine_ms = arg.int(),
    claim_ms = arg.int(), look_ms = arg.int(), request_ttl_ms = arg.int(), terms = arg.text(), open_when_new = arg.flag(),
    open_when_restarted = arg.flag(), step_limit = arg.int(), top_up_limit = arg.int(), lapsed_kept = arg.int(),
    report_limit = arg.int(), attempts_ttl_ms = arg.int(), default_queue = arg.text(),
  }
end

-- `read_clock` gives µs; the ledger's clock never goes back: it then keeps its rate by a greater offset.
local function step(keys, args, read_clock)
  if not call then
    bind()
  end
  written = {}
  A, arg.at, arg.stop = args, 0, #args
  S = {
    prefix = keys[1], late = {}, terms = {}, tenants = {}, queues = {}, classes = {}, leases = {}, changed_queues = {},
    changed_leases = {}, dropped = {}, upset = {},
  }
  S.meta = store.read_meta()
  if S.meta.schema and S.meta.schema ~= SCHEMA then
    return {'SCHEMA', S.meta.schema, SCHEMA}
  end
  local run_id, given_us = arg.text(), arg.int()
  S.now_us = max(read_clock(given_us), S.meta.last)
  S.now_ms = floor(S.now_us / 1000)
  S.config = read_config()
  look_at_store(run_id)
  leases.expire_lapsed(S.config.step_limit)
  leases.wake_due(S.config.step_limit)
  local answers, stop = {'STEP'}, #args
  for _ = 1, arg.int() do
    arg.stop = stop
    answers[#answers + 1] = answer_one()
  end
  local upset = {}
  for class_id in pairs(S.upset) do
    upset[#upset + 1] = class_id
  end
  running.top_up(running.by_urgency(upset))
  store.write_back()
  return answers
end

local function store_clock()
  local time = call('TIME')
  local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2]) + S.meta.offset
  S.meta.offset = S.meta.offset + max(0, S.meta.last - now_us)
  return now_us
end

local function given_clock(given_us)
  return given_us
end

redis.register_function(NAME .. '_step', function(keys, args)
  return step(keys, args, store_clock)
end)

redis.register_function(NAME .. '_step_at', function(keys, args)
  return step(keys, args, given_clock)
end)
