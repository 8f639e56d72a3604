-- The end of a run: what it holds at gates is freed, then what is left of it is deleted, both in portions.

-- Gives back what the run's leases hold. Answers whether more is left.
local function end_all_leases(X)
  for _, token in ipairs(tokens_of(X)) do
    local _, _, has_more = end_leases(X, token, nil)
    if has_more then
      return true
    end
    call('SREM', keys_of.holders(X), token)
    X.h[token] = false
  end
  -- Of holders that were released, but not in one call.
  for _, token in ipairs(call('SMEMBERS', keys_of.released(X))) do
    local _, _, has_more = end_leases(X, tonumber(token), nil)
    if has_more then
      return true
    end
  end
  return false
end

-- Leaves origins, from a lane on. Answers the next lane; 0: all were left.
local function leave_origins(X, from)
  local last = min(X.r[RUN_LANES], from + 49)
  for index = from, last do
    local lane = lane_of(X, index)
    local at = lane[LANE_ORIGIN]
    local origin = origin_of(at)
    touch_origin(at, X)
    origin[ORIGIN_USERS], origin[0] = max(0, origin[ORIGIN_USERS] - 1), true
    if origin[ORIGIN_USERS] == 0 then
      call('ZADD', P .. 'z', now, 'o' .. at)
    end
    local waiting, kept = origin[ORIGIN_WAITING], {}
    for position = 1, #waiting, 3 do
      if waiting[position] ~= X.key then
        local n = #kept
        kept[n + 1], kept[n + 2], kept[n + 3] = waiting[position], waiting[position + 1], waiting[position + 2]
      end
    end
    origin[ORIGIN_WAITING] = kept
  end
  return last < X.r[RUN_LANES] and last + 1 or 0
end

local function leave_budgets(X)
  local known = call('HKEYS', X.R .. 'b')
  for position = 1, min(100, #known) do
    local index = tonumber(known[position])
    local budget = budget_of(index)
    touch_budget(index, X)
    way.leave(index, X)
    budget[BUDGET_USERS], budget[0] = max(0, budget[BUDGET_USERS] - 1), true
    if budget[BUDGET_USERS] == 0 then
      call('ZADD', P .. 'z', now, 'b' .. index)
    end
    call('HDEL', X.R .. 'b', index)
  end
  return #known > 100
end

-- Deletes one portion of what is left of a run. Answers whether more is left.
local function delete_portion(R)
  local m = R .. 'm'
  local left = tonumber(call('HGET', m, 'queues left') or nil)
  if left and left > 0 then
    local keys = {}
    for index = left, max(1, left - 49), -1 do
      local lane = call('HGET', m, 'l' .. index)
      if lane then
        lane = read.l(lane)
        local pool = read.p(call('HGET', m, 'p' .. lane[LANE_POOL]))
        keys[#keys + 1] = R .. 'a' .. lane[LANE_ORIGIN] .. ':' .. pool[POOL_GROUP]
      end
      keys[#keys + 1] = R .. 'q' .. index
      keys[#keys + 1] = R .. 'tl' .. index
      keys[#keys + 1] = R .. 'tp' .. index
      keys[#keys + 1] = R .. 'tg' .. index
      keys[#keys + 1] = R .. 't' .. index
    end
    call('UNLINK', unpack(keys))
    call('HSET', m, 'queues left', max(0, left - 50))
    return true
  end
  call('UNLINK', m, R .. 'T', R .. 'd', R .. 's', R .. 'f', R .. 'D', R .. 'h', R .. 'b', R .. 'n', R .. 'k')
  return false
end

-- One step of closing a run. Answers whether more steps are needed; nothing of the run is left then.
local function close_step(X)
  local run = X.r
  if run[RUN_OPENING] < 2 then
    run[RUN_OPENING] = 2
    call('HDEL', P .. 'i', 'run ' .. run[RUN_ID])
    call('SADD', P .. 'gone', X.key)
    call('HSET', X.m, 'lanes left', 1)
    X.closes = true
  end
  if end_all_leases(X) then
    return true
  end
  local lane = tonumber(call('HGET', X.m, 'lanes left') or nil)
  if lane and lane > 0 then
    lane = leave_origins(X, lane)
    call('HSET', X.m, 'lanes left', lane)
    if lane > 0 then
      return true
    end
  end
  if leave_budgets(X) then
    return true
  end
  if call('HEXISTS', X.m, 'queues left') == 0 then
    call('HSET', X.m, 'queues left', max(run[RUN_QUEUES], run[RUN_LANES], run[RUN_POOLS], run[RUN_GROUPS]))
  end
  if delete_portion(X.R) then
    return true
  end
  call('SREM', P .. 'gone', X.key)
  runs[X.key] = false
  return false
end

-- Deletes gates of an instance that was made anew, some at a time. Answers whether any is left.
local function collect_old_gates()
  local old = P .. 'old'
  local gates = call('HSCAN', old, '0', 'COUNT', 50)[2]
  local fields = { 'HDEL', old }
  for position = 1, min(#gates, 1000), 2 do
    local field = gates[position]
    fields[#fields + 1] = field
    if byte(field) == 98 then -- b
      drop_lists(sub(field, 2), read.b(gates[position + 1])[BUDGET_LIMITS])
    end
  end
  call_many(fields)
  return #gates > 0
end

-- Goes on deleting a run that is gone: its closing was not finished, or the instance was made anew. Answers whether any is left.
local function collect_gone()
  local key = call('SRANDMEMBER', P .. 'gone')
  if not key then
    return collect_old_gates()
  end
  local R = P .. key .. ':'
  if call('HEXISTS', R .. 'm', 'queues left') == 0 then
    local record = call('HGET', R .. 'm', 'r')
    if record then
      local run = read.r(record)
      call('HSET', R .. 'm', 'queues left', max(run[RUN_QUEUES], run[RUN_LANES], run[RUN_POOLS], run[RUN_GROUPS]))
    end
  end
  for _, held in ipairs({ 'h', 'k' }) do
    for _, token in ipairs(call('SMEMBERS', R .. held)) do
      call('UNLINK', R .. 'L' .. token)
    end
  end
  if not delete_portion(R) then
    call('SREM', P .. 'gone', key)
  end
  return true
end

-- Makes the instance anew under another epoch: its queue was lost. Whoever knew the old one is told so by its next call.
local function reset_instance(epoch)
  local known = call('HGETALL', P .. 'i')
  for position = 1, #known, 2 do
    if sub(known[position], 1, 4) == 'run ' then
      call('SADD', P .. 'gone', known[position + 1])
      call('HDEL', P .. 'i', known[position])
    end
  end
  -- Its gates are deleted in portions: a budget's entries stand in keys of their own.
  if call('EXISTS', G) == 1 then
    call('UNLINK', P .. 'old')
    call('RENAME', G, P .. 'old')
  end
  call('UNLINK', P .. 'x', P .. 'z')
  call('HSET', P .. 'i', 'epoch', epoch, 'lapse', 0)
  runs, budgets, origins, ways, promises = {}, {}, {}, {}, {}
end

in_instance('close', function(request, known)
  local key = request[8] > 0 and request[8] or known
  local X = key and run_of(key)
  if not X then
    return 0
  end
  return close_step(X) and key or 0
end)

in_instance('collect', function()
  return collect_gone() and 1 or 0
end)

register('reset', function(keys, arguments)
  begin(keys[1])
  local request = unpack_record(arguments[1])
  local epoch = call('HGET', P .. 'i', 'epoch')
  -- Somebody else may have been faster: then the instance is new already.
  if not epoch or epoch == request[1] then
    reset_instance(request[2])
    epoch = request[2]
  end
  return answer('ok', 0, epoch)
end)
