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

-- A run's context; nil if there is none.
local function run_of(key)
  local X = runs[key]
  if X == nil then
    local R = P .. key .. ':'
    local m = R .. 'm'
    local record = call('HGET', m, 'r')
    X = record and { key = key, R = R, m = m, r = unpack_record(record), q = {}, l = {}, p = {}, g = {}, n = {}, h = {}, names = {} }
    runs[key] = X
  end
  return X or nil
end

local function queue_of(X, index)
  local record = X.q[index]
  if record == nil then
    record = unpack_record(call('HGET', X.m, 'q' .. index))
    X.q[index] = record
  end
  return record
end

local function lane_of(X, index)
  local record = X.l[index]
  if record == nil then
    record = unpack_record(call('HGET', X.m, 'l' .. index))
    X.l[index] = record
  end
  return record
end

local function pool_of(X, index)
  local record = X.p[index]
  if record == nil then
    record = unpack_record(call('HGET', X.m, 'p' .. index))
    X.p[index] = record
  end
  return record
end

local function group_of(X, index)
  local record = X.g[index]
  if record == nil then
    record = unpack_record(call('HGET', X.m, 'g' .. index))
    X.g[index] = record
  end
  return record
end

local function node_of(X, index)
  local record = X.n[index]
  if record == nil then
    record = unpack_record(call('HGET', X.m, 'n' .. index))
    X.n[index] = record
  end
  return record
end

-- A holder, or false.
local function holder_of(X, token)
  local record = X.h[token]
  if record == nil then
    record = call('HGET', X.R .. 'h', token)
    record = record and unpack_record(record)
    X.h[token] = record
  end
  return record
end

local function budget_of(index)
  local record = budgets[index]
  if record == nil then
    record = unpack_record(call('HGET', G, 'b' .. index))
    budgets[index] = record
  end
  return record
end

local function origin_of(index)
  local record = origins[index]
  if record == nil then
    record = unpack_record(call('HGET', G, 'o' .. index))
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

local function write_kind(arguments, letter, records)
  for index, record in pairs(records) do
    if record and record[0] then
      record[0] = nil
      local n = #arguments
      arguments[n + 1], arguments[n + 2] = letter .. index, pack(record)
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
      arguments = write_kind(arguments, 'q', X.q)
      arguments = write_kind(arguments, 'l', X.l)
      arguments = write_kind(arguments, 'p', X.p)
      arguments = write_kind(arguments, 'g', X.g)
      arguments = write_kind(arguments, 'n', X.n)
      local n = #arguments
      arguments[n + 1], arguments[n + 2] = 'r', pack(X.r)
      call(unpack(arguments))
      call_many(write_kind({ 'HSET', X.R .. 'h' }, '', X.h))
    end
  end
  local arguments = { 'HSET', G }
  arguments = write_kind(arguments, 'b', budgets)
  arguments = write_kind(arguments, 'o', origins)
  arguments = write_kind(arguments, 'c', ways)
  arguments = write_kind(arguments, 'v', promises)
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
