-- ---- the step -------------------------------------------------------------------------------------------------------------

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
