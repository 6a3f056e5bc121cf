-- ---- store: the records of leases; the end of a step -----------------------------------------------------------------------

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
