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
-- Gates that changed and that other runs may wait for: kind, index, kind, index, …
local touched

-- What Lua offers is not there while the library is loaded either.
-- The names of keys.
local keys_of = {}
local pack, unpack_record, floor, ceil, min, max

local function begin(prefix)
  call = redis.call
  pack, unpack_record = cmsgpack.pack, cmsgpack.unpack
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

function read.r(packed)
  local record = { '', struct.unpack('>I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7', packed) }
  record[1], record[RUN_STEPS + 1] = string.sub(packed, record[RUN_STEPS + 1]), nil
  return record
end

function write.r(record)
  return struct.pack('>I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7', unpack(record, 2, RUN_STEPS)) .. record[1]
end

function read.h(packed)
  local fence, group, under_way, alone, draining, lapse, calls, exact, nonce, rest = struct.unpack('>I7I4I4BBI7I7Bc8', packed)
  return { fence, string.sub(packed, rest), group, under_way, alone, draining, lapse, calls, exact, nonce }
end

function write.h(r)
  return struct.pack('>I7I4I4BBI7I7Bc8', r[1], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10]) .. r[2]
end

function read.g(packed)
  local current, left, reached, rest = struct.unpack('>I4I4I7', packed)
  return { string.sub(packed, rest), 0, 0, 0, current, left, reached }
end

function write.g(record)
  return struct.pack('>I4I4I7', record[CURRENT], record[LEFT], record[REACHED]) .. record[1]
end

function read.p(packed)
  local record = { struct.unpack('>I4I4I7I5I4I4I7I4I7', packed) }
  local batons, rest = {}, record[10]
  while rest <= #packed do
    batons[#batons + 1], rest = struct.unpack('>I4', packed, rest)
  end
  record[POOL_PARKED], record[POOL_BATONS] = record[POOL_PARKED] - 1, batons
  return record
end

function write.p(r)
  local packed = struct.pack('>I4I4I7I5I4I4I7I4I7', r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9] + 1)
  for _, baton in ipairs(r[POOL_BATONS]) do
    packed = packed .. struct.pack('>I4', baton)
  end
  return packed
end

function read.l(packed)
  local record = { struct.unpack('>I4I4I7I5I4I4I7I4I5I4BI7', packed) }
  record[13] = nil
  return record
end

function write.l(record)
  return struct.pack('>I4I4I7I5I4I4I7I4I5I4BI7', unpack(record, 1, 12))
end

function read.q(packed)
  local record = { struct.unpack('>I4I4I7I5I5I5', packed) }
  record[7] = nil
  return record
end

function write.q(record)
  return struct.pack('>I4I4I7I5I5I5', unpack(record, 1, 6))
end

function read.n(packed)
  local record = { '', struct.unpack('>I4I4i4BI4BI4I2', packed) }
  local count, rest, queues = record[9], record[10], {}
  for position = 1, count do
    queues[position], rest = struct.unpack('>I4', packed, rest)
  end
  record[NODE_NAME], record[NODE_QUEUES], record[10] = string.sub(packed, rest), queues, nil
  return record
end

function write.n(r)
  local queues = r[NODE_QUEUES]
  local packed = struct.pack('>I4I4i4BI4BI4I2', r[2], r[3], r[4], r[5], r[6], r[7], r[8], #queues)
  for position = 1, #queues do
    packed = packed .. struct.pack('>I4', queues[position])
  end
  return packed .. r[NODE_NAME]
end

function read.o(packed)
  local record = { '', struct.unpack('>I4I4I4I7I7I7I2', packed) }
  local count, rest, waiting = record[8], record[9], {}
  for position = 1, count do
    waiting[position], rest = struct.unpack('>I7', packed, rest)
  end
  record[ORIGIN_KEY], record[ORIGIN_WAITING], record[9] = string.sub(packed, rest), waiting, nil
  return record
end

function write.o(r)
  local waiting = r[ORIGIN_WAITING]
  local packed = struct.pack('>I4I4I4I7I7I7I2', r[2], r[3], r[4], r[5], r[6], r[7], #waiting)
  for position = 1, #waiting do
    packed = packed .. struct.pack('>I7', waiting[position])
  end
  return packed .. r[ORIGIN_KEY]
end

function read.b(packed)
  local record = { '', struct.unpack('>I4I4I4I4I7I4BI7I7I4I4I2', packed) }
  local count, rest, limits = record[13], record[14], {}
  for position = 1, count do
    local limit = { struct.unpack('>I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7', packed, rest) }
    rest, limit[LIMIT_LIST + 1], limits[position] = limit[LIMIT_LIST + 1], nil, limit
  end
  record[BUDGET_ID], record[BUDGET_LIMITS], record[14] = string.sub(packed, rest), limits, nil
  return record
end

function write.b(r)
  local limits = r[BUDGET_LIMITS]
  local packed = struct.pack('>I4I4I4I4I7I4BI7I7I4I4I2', r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], #limits)
  for position = 1, #limits do
    packed = packed .. struct.pack('>I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7I7', unpack(limits[position], 1, LIMIT_LIST))
  end
  return packed .. r[BUDGET_ID]
end

-- A run's context; nil if there is none.
local function run_of(key)
  local X = runs[key]
  if X == nil then
    local R = P .. key .. ':'
    local m = R .. 'm'
    local record = call('HGET', m, 'r')
    X = record and { key = key, R = R, m = m, r = read.r(record), q = {}, l = {}, p = {}, g = {}, n = {}, h = {}, names = {} }
    runs[key] = X
  end
  return X or nil
end

-- Records of a kind are loaded once in a call.
local function loader(letter)
  return function(X, index)
    local known = X[letter]
    local record = known[index]
    if record == nil then
      record = read[letter](call('HGET', X.m, letter .. index))
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
    record = call('HGET', X.R .. 'h', token)
    record = record and read.h(record)
    X.h[token] = record
  end
  return record
end

local function budget_of(index)
  local record = budgets[index]
  if record == nil then
    record = read.b(call('HGET', G, 'b' .. index))
    budgets[index] = record
  end
  return record
end

local function origin_of(index)
  local record = origins[index]
  if record == nil then
    record = read.o(call('HGET', G, 'o' .. index))
    origins[index] = record
  end
  return record
end

local function way_of(budget)
  local record = ways[budget]
  if record == nil then
    record = call('HGET', G, 'c' .. budget)
    record = record and unpack_record(record) or { 0, 0, 0, 0, 0, 0, {} }
    ways[budget] = record
  end
  return record
end

local function promises_of(budget)
  local record = promises[budget]
  if record == nil then
    record = call('HGET', G, 'v' .. budget)
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

local function write_kind(arguments, letter, records, packed)
  for index, record in pairs(records) do
    if record and record[0] then
      record[0] = nil
      local n = #arguments
      arguments[n + 1], arguments[n + 2] = letter .. index, packed(record)
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
      local arguments = { 'HSET', X.m }
      arguments = write_kind(arguments, 'q', X.q, write.q)
      arguments = write_kind(arguments, 'l', X.l, write.l)
      arguments = write_kind(arguments, 'p', X.p, write.p)
      arguments = write_kind(arguments, 'g', X.g, write.g)
      arguments = write_kind(arguments, 'n', X.n, write.n)
      local n = #arguments
      arguments[n + 1], arguments[n + 2] = 'r', write.r(X.r)
      call(unpack(arguments))
      call_many(write_kind({ 'HSET', X.R .. 'h' }, '', X.h, write.h))
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
