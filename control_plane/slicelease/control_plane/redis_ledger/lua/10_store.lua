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
