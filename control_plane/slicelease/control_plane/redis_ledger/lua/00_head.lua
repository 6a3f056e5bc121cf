-- The ledger in Redis: mechanism only. The specification is domain/ledger; this library does the same over keys.
--
-- KEYS[1]  the cell's prefix, `{slicelease:<cell>}:`; every key is built from it and stands in keys.py's table
-- ARGV     1 run_id of the store · 2 now in µs (`_step_at`; `_step` reads TIME) · the configuration (90_step.lua says in
--          which order; ms) · the number of commands · then for each: word, number of arguments, arguments in the order of
--          the fields of the Python command (codec.py)
-- answer   {'STEP', outcome ...}: each outcome a flat list, its word first, then its fields in the order of the Python
--          outcome; {'FAILED', text} for a command that broke, alone. Or {'SCHEMA', that of the store, that of this library}
-- cost     about 20 calls a step, and 17 for each chained settle and grant; each O(log n) or O(1) in what the cell holds
--
-- Integers are below 2^53: they are stored by %d, never by tostring or `..`, which shorten big ones. Text is compared by
-- its bytes, never by `<`, which asks the locale. Locals of this file are shared by all parts: one chunk, one step at a time.

-- None of these is there yet while the library is loaded, and a global costs a search through two tables each time.
local function globals()
  return ipairs, pairs, tonumber, pcall, unpack, type, error, redis, cmsgpack
end

local ipairs, pairs, tonumber, pcall, unpack, type, error, redis, cmsgpack = nil, nil, nil, nil, nil, nil, nil, redis, nil
local call, format, byte, find, sub, match, min, max, floor

local function bind()
  ipairs, pairs, tonumber, pcall, unpack, type, error, redis, cmsgpack = globals()
  call = redis.call
  format, byte, find, sub, match = string.format, string.byte, string.find, string.sub, string.match
  min, max, floor = math.min, math.max, math.floor
end

local S
-- The step under way: prefix, now_us, now_ms, config, meta, and what it has read and not yet written (10_store.lua).

local written = {}
-- Integers of this step already written: most are its time, or small.

local function d(integer)
  local text = written[integer]
  if not text then
    text = format('%d', integer)
    written[integer] = text
  end
  return text
end

local function bytes_before(a, b)
  for i = 1, min(#a, #b) do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

local function refused(reason, subject, retry_after_ms)
  return {'REFUSED', reason, subject, retry_after_ms or 0}
end

-- A call with any number of arguments behind the key, by bounded bites; the list holds pairs or singles.
local BITE = 1000

local function call_with(name, key, list)
  for first = 1, #list, BITE do
    call(name, key, unpack(list, first, min(first + BITE - 1, #list)))
  end
end

-- ---- arguments ------------------------------------------------------------------------------------------------------------
-- A handler reads all of its arguments before its first write: a bad one fails the command with nothing done.

local A = {}
local arg = {at = 0, stop = 0}

function arg.text()
  local at = arg.at + 1
  if at > arg.stop then
    error('an argument is missing')
  end
  arg.at = at
  return A[at]
end

function arg.int()
  local value = tonumber(arg.text())
  if not value then
    error('argument ' .. arg.at .. ' is no integer')
  end
  return value
end

function arg.flag()
  return arg.int() == 1
end

function arg.texts()
  local list = {}
  for i = 1, arg.int() do
    list[i] = arg.text()
  end
  return list
end

function arg.lease()
  local member = arg.text()
  return member .. '/' .. d(arg.int())
end

function arg.slot_request()
  return {session = arg.text(), slot = arg.int(), n = arg.int(), digest = arg.text()}
end

function arg.request()
  if arg.flag() then
    return {id = arg.text(), digest = arg.text()}
  end
  return nil
end

function arg.tenant_policy()
  return {class = arg.text(), weight = arg.int(), charge = arg.int(), name = arg.text()}
end

function arg.queue_policy()
  return {class = arg.text(), type = arg.int(), terms = arg.text()}
end

function arg.class_policy()
  return {target = arg.int(), terms = arg.text(), type = arg.int(), max = arg.int()}
end
