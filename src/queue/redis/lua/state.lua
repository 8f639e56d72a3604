-- What a call works on: records are loaded when they are asked for, and those that were changed are written back once.
-- A changed record is marked at [0].

-- `redis.call`, which is not there while the library is loaded.
local call
-- The instance's prefix, and the hash of its gates.
local P, G
-- The call's moment.
local now
-- What was loaded.
local runs, budgets, origins, ways, promises, origin_index
-- No lease of any run lapses before this; 0: there is none.
local first_lapse
-- Gates that changed and that other runs may wait for: kind, index, kind, index, …
local touched

-- The names of keys.
local keys_of = {}

-- Tokens of holders, and of those that were released and still have leases.
function keys_of.holders(X) return X.R .. 'h' end
function keys_of.released(X) return X.R .. 'k' end


-- Names with a number, kept from call to call: numbers are slow to write out. Not more than so many of a kind.
local function namer(prefix)
  local names = {}
  return function(number)
    local name = names[number]
    if not name then
      name = prefix .. number
      if number >= 0 and number < MOST_NAMES then
        names[number] = name
      end
    end
    return name
  end
end

local field_of = { h = namer('h'), q = namer('q'), l = namer('l'), p = namer('p'), g = namer('g'), n = namer('n'), b = namer('b'), o = namer('o'), c = namer('c'), v = namer('v') }
local digits = namer('')

-- What Lua offers is not there while the library is loaded either.
local pack, unpack_record, spack, sunpack, sub, byte, floor, ceil, min, max

local function begin(prefix)
  call = redis.call
  pack, unpack_record, spack, sunpack, sub, byte = cmsgpack.pack, cmsgpack.unpack, struct.pack, struct.unpack, string.sub, string.byte
  floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
  now = nil
  P = prefix .. SCHEMA .. ':'
  G = P .. 'g'
  runs, budgets, origins, ways, promises, origin_index, touched = {}, {}, {}, {}, {}, {}, {}
end

local function the_time()
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Records as they are kept: numbers of fixed width, then what has no fixed length. How each is read and written.
local read, write = {}, {}

do
-- What few calls need of a record is unpacked when it is asked for: until then it stands, packed, at [-1].
local function lazily(unpack_rest)
  local function load(record)
    local packed = record[-1]
    setmetatable(record, nil)
    record[-1] = nil
    unpack_rest(record, packed)
  end
  return {
    __index = function(record, place)
      load(record)
      return record[place]
    end,
    __newindex = function(record, place, value)
      load(record)
      record[place] = value
    end,
  }
end

local lazy_run = lazily(function(record, packed)
  record[19], record[20], record[21], record[22], record[23], record[24], record[25], record[26], record[27], record[28], record[29], record[30],
    record[31], record[32], record[33], record[34], record[35], record[36], record[RUN_ID] = sunpack('>I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7', packed)
  record[RUN_ID] = sub(packed, record[RUN_ID])
end)

function read.r(packed)
  local record = { sunpack('>I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7', packed) }
  record[18] = nil
  record[-1] = sub(packed, RUN_HEAD + 1)
  return setmetatable(record, lazy_run)
end

function write.r(record)
  local rest = rawget(record, -1)
  if not rest then
    rest = spack('>I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7', unpack(record, 19, 36)) .. record[RUN_ID]
  end
  return spack('>I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7', unpack(record, 1, 17)) .. rest
end

function read.h(packed)
  local fence, group, under_way, alone, draining, lapse, calls, exact, nonce, rest = sunpack('>I7I4I4BBI7I7Bc8', packed)
  return { fence, sub(packed, rest), group, under_way, alone, draining, lapse, calls, exact, nonce }
end

function write.h(r)
  return spack('>I7I4I4BBI7I7Bc8', r[1], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10]) .. r[2]
end

function read.g(packed)
  local current, left, reached, listed, timer, rest = sunpack('>I4I4I7I4I7', packed)
  return { sub(packed, rest), 0, 0, 0, current, left, reached, listed, timer }
end

function write.g(r)
  return spack('>I4I4I7I4I7', r[5], r[6], r[7], r[8], r[9]) .. r[1]
end

function read.p(packed)
  local record = { sunpack('>I4I4I7I5I4I4I7I4I4I7', packed) }
  local batons, rest = {}, record[11]
  while rest <= #packed do
    batons[#batons + 1], rest = sunpack('>I4', packed, rest)
  end
  record[POOL_PARKED], record[POOL_BATONS] = record[POOL_PARKED] - 1, batons
  return record
end

function write.p(r)
  local packed = spack('>I4I4I7I5I4I4I7I4I4I7', r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10] + 1)
  for _, baton in ipairs(r[POOL_BATONS]) do
    packed = packed .. spack('>I4', baton)
  end
  return packed
end

function read.l(packed)
  local record = { sunpack('>I4I4I7I5I4I4I7I4I4I5I4BI7', packed) }
  record[14] = nil
  return record
end

function write.l(r)
  return spack('>I4I4I7I5I4I4I7I4I4I5I4BI7', r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13])
end

function read.q(packed)
  local record = { sunpack('>I4I4I7I5I5I5', packed) }
  record[7] = nil
  return record
end

function write.q(record)
  return spack('>I4I4I7I5I5I5', unpack(record, 1, 6))
end

function read.n(packed)
  local record = { '', sunpack('>I4I4i4BI4BI4I2', packed) }
  local count, rest, queues = record[9], record[10], {}
  for position = 1, count do
    queues[position], rest = sunpack('>I4', packed, rest)
  end
  record[NODE_NAME], record[NODE_QUEUES], record[10] = sub(packed, rest), queues, nil
  return record
end

function write.n(r)
  local queues = r[NODE_QUEUES]
  local packed = spack('>I4I4i4BI4BI4I2', r[2], r[3], r[4], r[5], r[6], r[7], r[8], #queues)
  for position = 1, #queues do
    packed = packed .. spack('>I4', queues[position])
  end
  return packed .. r[NODE_NAME]
end

function read.o(packed)
  local record = { '', sunpack('>I4I4I4I7I7I7I2', packed) }
  local count, rest, waiting = record[8], record[9], {}
  for position = 1, count do
    waiting[position], rest = sunpack('>I7', packed, rest)
  end
  record[ORIGIN_KEY], record[ORIGIN_WAITING], record[9] = sub(packed, rest), waiting, nil
  return record
end

function write.o(r)
  local waiting = r[ORIGIN_WAITING]
  local packed = spack('>I4I4I4I7I7I7I2', r[2], r[3], r[4], r[5], r[6], r[7], #waiting)
  for position = 1, #waiting do
    packed = packed .. spack('>I7', waiting[position])
  end
  return packed .. r[ORIGIN_KEY]
end

-- A limit comes in two forms: of most, the last four numbers are nothing.
local function read_limit(packed, at)
  local limit
  if byte(packed, at) == 0 then
    limit = { sunpack('>BI7I7BI4I7I4I7I7I7I7I7', packed, at + 1) }
    at = limit[13]
    limit[13], limit[14], limit[15], limit[16] = 0, 0, 0, 0
  else
    limit = { sunpack('>BI7I7BI4I7I4I7I7I7I7I7I7I7I7I7', packed, at + 1) }
    at = limit[17]
  end
  limit[LIMIT_FORGOT_AT] = 0
  return limit, at
end

local function write_limit(l)
  if l[13] == 0 and l[14] == 0 and l[15] == 0 and l[16] == 0 then
    return spack('>BBI7I7BI4I7I4I7I7I7I7I7', 0, l[1], l[2], l[3], l[4], l[5], l[6], l[7], l[8], l[9], l[10], l[11], l[12])
  end
  return spack('>BBI7I7BI4I7I4I7I7I7I7I7I7I7I7I7', 1, unpack(l, 1, 16))
end

local lazy_budget = lazily(function(record, packed)
  local limits, at = {}, 1
  while at <= #packed do
    limits[#limits + 1], at = read_limit(packed, at)
  end
  record[BUDGET_LIMITS] = limits
end)

function read.b(packed)
  local users, most, floor_, permille, slowed_at, under_way, has_hours, from, until_, of_runs, kept, has_amounts, length, rest =
    sunpack('>I4I4I4I4I7I4BI7I7I4I4BI2', packed)
  local id = sub(packed, rest, rest + length - 1)
  return setmetatable({
    id, users, most, floor_, permille, slowed_at, under_way, has_hours, from, until_, of_runs, kept, has_amounts,
    [0] = false, [-1] = sub(packed, rest + length),
  }, lazy_budget)
end

function write.b(r)
  local head = spack('>I4I4I4I4I7I4BI7I7I4I4BI2', r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13], #r[1]) .. r[1]
  local rest = rawget(r, -1)
  if rest then
    return head .. rest
  end
  local limits = {}
  for position, limit in ipairs(r[BUDGET_LIMITS]) do
    limits[position] = write_limit(limit)
  end
  return head .. table.concat(limits)
end
end

-- Where a run stands: its record, its nodes, gates and turns.
local function new_context(key, record)
  local R = P .. digits(key) .. ':'
  return { key = key, R = R, m = R .. 'm', h = {}, r = record, q = {}, l = {}, p = {}, g = {}, n = {}, nodes = {}, names = {} }
end

-- A run's context, with the holder of a token if one is named; nil if there is none.
local function run_of(key, token)
  local X = runs[key]
  if X == nil then
    local known = call('HMGET', P .. digits(key) .. ':m', 'r', token and field_of.h(token) or 'r')
    X = known[1] and new_context(key, read.r(known[1]))
    if X and token then
      X.h[token] = known[2] and read.h(known[2])
    end
    runs[key] = X
  end
  return X or nil
end

-- The tokens of a run's holders.
local function tokens_of(X)
  local tokens = {}
  for position, token in ipairs(call('SMEMBERS', keys_of.holders(X))) do
    tokens[position] = tonumber(token)
  end
  return tokens
end

-- Records of a kind are loaded once in a call.
local function loader(letter)
  local read_it, name_of = read[letter], field_of[letter]
  return function(X, index)
    local known = X[letter]
    local record = known[index]
    if record == nil then
      record = read_it(call('HGET', X.m, name_of(index)))
      known[index] = record
    end
    return record
  end
end

local queue_of, lane_of, pool_of, group_of, node_of = loader('q'), loader('l'), loader('p'), loader('g'), loader('n')

-- A holder, or false.
local function holder_of(X, token)
  local record = X.h[token]
  if record == nil then
    record = call('HGET', X.m, field_of.h(token))
    record = record and read.h(record)
    X.h[token] = record
  end
  return record
end

local function budget_of(index)
  local record = budgets[index]
  if record == nil then
    record = read.b(call('HGET', G, field_of.b(index)))
    budgets[index] = record
  end
  return record
end

local function origin_of(index)
  local record = origins[index]
  if record == nil then
    record = read.o(call('HGET', G, field_of.o(index)))
    origins[index] = record
  end
  return record
end

local function way_of(budget)
  local record = ways[budget]
  if record == nil then
    record = call('HGET', G, field_of.c(budget))
    record = record and unpack_record(record) or { 0, 0, 0, 0, 0, 0, {} }
    ways[budget] = record
  end
  return record
end

local function promises_of(budget)
  local record = promises[budget]
  if record == nil then
    record = call('HGET', G, field_of.v(budget))
    record = record and unpack_record(record) or {}
    promises[budget] = record
  end
  return record
end

local function call_many(arguments)
  if #arguments > 2 then
    call(unpack(arguments))
  end
end

-- Adds the changed ones of these records to what is written.
local function write_kind(arguments, letter, records, packed)
  for index, record in pairs(records) do
    if record and record[0] then
      record[0] = nil
      local n = #arguments
      arguments[n + 1], arguments[n + 2] = field_of[letter](index), packed(record)
      if n > 1000 then
        call(unpack(arguments))
        arguments = { arguments[1], arguments[2] }
      end
    end
  end
  return arguments
end

local function write_back()
  for _, X in pairs(runs) do
    if X then
      local arguments = { 'HSET', X.m, 'r', write.r(X.r) }
      arguments = write_kind(arguments, 'q', X.q, write.q)
      arguments = write_kind(arguments, 'l', X.l, write.l)
      arguments = write_kind(arguments, 'p', X.p, write.p)
      arguments = write_kind(arguments, 'g', X.g, write.g)
      arguments = write_kind(arguments, 'n', X.n, write.n)
      arguments = write_kind(arguments, 'h', X.h, write.h)
      call_many(arguments)
    end
  end
  local arguments = { 'HSET', G }
  arguments = write_kind(arguments, 'b', budgets, write.b)
  arguments = write_kind(arguments, 'o', origins, write.o)
  arguments = write_kind(arguments, 'c', ways, pack)
  arguments = write_kind(arguments, 'v', promises, pack)
  call_many(arguments)
end

-- Something may have become claimable, or a moment that was given may have become earlier.
local function changed(X)
  local run = X.r
  if run[RUN_SOMEONE_WAITS] == 1 then
    run[RUN_SOMEONE_WAITS] = 0
    run[RUN_SEQUENCE] = run[RUN_SEQUENCE] + 1
    X.rings = true
  end
end

local function touch(kind, index)
  local n = #touched
  if touched[n - 1] ~= kind or touched[n] ~= index then
    touched[n + 1], touched[n + 2] = kind, index
  end
end
