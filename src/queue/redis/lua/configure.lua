-- Nodes and gates of a run, at the start and live (src/queue/memory/configure.rs). A configuration comes in several calls:
-- first what holds for the run, then budgets and nodes in portions, then the end.

-- A limit as it is configured: unit, amount, period, even.
local function new_limit(config, list)
  return { config[1], min(MOST, config[2]), min(MOST, config[3]), config[4], list, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
end

-- The limit with what is known to have been spent: of the same unit, by the window that remembers longest.
local function inherit(index, known, config, list)
  local source = nil
  for _, limit in ipairs(known) do
    if limit[LIMIT_UNIT] == config[1] then
      if limit[LIMIT_PERIOD] == config[3] then
        source = limit
        break
      elseif not source or limit[LIMIT_PERIOD] >= source[LIMIT_PERIOD] then
        source = limit
      end
    end
  end
  if not source then
    return new_limit(config, list)
  end
  local limit = {}
  for position = 1, LIMIT_FORGOT_AT do
    limit[position] = source[position]
  end
  limit[LIMIT_LIST], limit[LIMIT_EVEN] = list, config[4]
  if limit[LIMIT_ENTRIES] > 2 then
    local entries = call('LRANGE', window_key(index, source), 0, -1)
    call('RPUSH', window_key(index, limit), unpack(entries))
  end
  window_resize(index, limit, min(MOST, config[2]), min(MOST, config[3]))
  return limit
end

local function set_hours(index, budget, hours)
  budget[BUDGET_OPEN_FROM], budget[BUDGET_OPEN_UNTIL] = 0, 0
  if hours then
    budget[BUDGET_HAS_HOURS] = 1
    call('HSET', G, 'H' .. index, hours)
  elseif budget[BUDGET_HAS_HOURS] == 1 then
    budget[BUDGET_HAS_HOURS] = 0
    call('HDEL', G, 'H' .. index)
  end
end

-- Whether limits are as they are configured already.
local function has_these_limits(budget, configs)
  local limits = budget[BUDGET_LIMITS]
  for position, config in ipairs(configs) do
    local limit = limits[position]
    if not limit or limit[LIMIT_UNIT] ~= config[1] or limit[LIMIT_AMOUNT] ~= min(MOST, config[2])
      or limit[LIMIT_PERIOD] ~= min(MOST, config[3]) or limit[LIMIT_EVEN] ~= config[4] then
      return false
    end
  end
  return #limits == #configs
end

local function reconfigure_budget(index, budget, configs)
  local known = budget[BUDGET_LIMITS]
  local first_list = 0
  for _, limit in ipairs(known) do
    first_list = max(first_list, limit[LIMIT_LIST])
  end
  local limits = {}
  budget[BUDGET_LIMITS] = limits
  for position, config in ipairs(configs) do
    limits[position] = inherit(index, known, config, first_list + position)
  end
  drop_lists(index, known)
end

-- A budget that becomes known now: what was spent before counts. `spent`: moment, calls, documents, bytes; by moment.
local function charge_earlier(index, budget, spent, short_windows_start_spent)
  for _, limit in ipairs(budget[BUDGET_LIMITS]) do
    if short_windows_start_spent and limit[LIMIT_PERIOD] <= SHORT_WINDOW then
      window_charge(index, limit, now, limit[LIMIT_AMOUNT])
    else
      for _, entry in ipairs(spent) do
        local count = entry[2 + limit[LIMIT_UNIT]]
        if limit[LIMIT_PERIOD] < SPENT_STRETCH then
          count = min(count, limit[LIMIT_AMOUNT])
        end
        window_charge(index, limit, min(now, entry[1]), min(MOST, count))
      end
    end
  end
end

-- Makes or changes a budget: id, limits, cap, floor, hours or false, spent, whether short windows start spent.
local function set_budget(X, config)
  local index = tonumber(call('HGET', G, 'B' .. config[1]) or nil)
  local budget
  if index then
    budget = budget_of(index)
    budget[0] = true
    if not has_these_limits(budget, config[2]) then
      reconfigure_budget(index, budget, config[2])
    end
  else
    index = call('HINCRBY', P .. 'i', 'budgets', 1)
    call('HSET', G, 'B' .. config[1], index)
    budget = { config[1], 0, 0, 0, FULL_RATE, 0, 0, 0, 0, 0, 0, 0, 0, {}, [0] = true }
    budgets[index] = budget
    for position, limit in ipairs(config[2]) do
      budget[BUDGET_LIMITS][position] = new_limit(limit, position)
    end
    charge_earlier(index, budget, config[6], config[7])
  end
  budget[BUDGET_MAX], budget[BUDGET_FLOOR], budget[BUDGET_HAS_AMOUNTS] = config[3], config[4], 0
  for _, limit in ipairs(budget[BUDGET_LIMITS]) do
    if limit[LIMIT_UNIT] ~= UNIT_CALLS then
      budget[BUDGET_HAS_AMOUNTS] = 1
    end
  end
  if config[4] == 0 then
    budget[BUDGET_PERMILLE], budget[BUDGET_SLOWED_AT] = FULL_RATE, 0
  end
  set_hours(index, budget, config[5])
  if call('HSETNX', X.R .. 'b', index, 1) == 1 then
    budget[BUDGET_USERS] = budget[BUDGET_USERS] + 1
    call('ZREM', P .. 'z', 'b' .. index)
  end
  budget_changed(X, index)
end

-- Makes or changes a node: name, budget, group, priority, suspended, calls per dataset, brief.
local function set_node(X, config)
  local run = X.r
  local budget = tonumber(call('HGET', G, 'B' .. config[2]))
  local group = group_for(X, config[3])
  local index = known_node(X, config[1])
  if not index then
    run[RUN_NODES] = run[RUN_NODES] + 1
    index = run[RUN_NODES]
    X.nodes[config[1]] = index
    call('HSET', X.m, 'N' .. config[1], index)
    X.n[index] = { config[1], budget, group, config[4], config[5], config[6], 0, run[RUN_GENERATION], {}, [0] = true }
  else
    local node = node_of(X, index)
    local queues = node[NODE_QUEUES]
    X.n[index] = { config[1], budget, group, config[4], config[5], config[6], 0, run[RUN_GENERATION], queues, [0] = true }
    for position = 1, #queues, 2 do
      move_queue(X, queues[position + 1], lane_for(X, queues[position], budget, group))
    end
  end
  if config[7] ~= '' then
    call('HSET', X.R .. 'n', index, config[7])
  end
end

-- What holds for the run: weight, most holders, lease, charges, protection (cap, first and longest back-off), brief.
local function set_run(X, config)
  local run = X.r
  run[RUN_WEIGHT], run[RUN_MAX_HOLDERS], run[RUN_LEASE], run[RUN_MAX_CHARGES] = config[1], config[2], config[3], config[4]
  run[RUN_ORIGIN_MAX], run[RUN_ORIGIN_INITIAL], run[RUN_ORIGIN_LONGEST] = config[5], config[6], config[7]
  run[RUN_GENERATION] = run[RUN_GENERATION] + 1
  if config[8] ~= '' then
    call('HSET', X.m, 'B', config[8])
  end
end

-- Leaves origins alone that were to be left alone before the run was opened: key, moment, key, moment, …
local function close_origins(X, closed)
  for position = 1, #closed, 2 do
    local until_ = min(closed[position + 1], now + X.r[RUN_ORIGIN_LONGEST])
    if until_ > now then
      local index = origin_index_of(closed[position])
      local origin = origin_of(index)
      origin[ORIGIN_CLOSED_UNTIL], origin[0] = max(origin[ORIGIN_CLOSED_UNTIL], until_), true
      origin_changed(X, index)
      call('ZADD', P .. 'z', 'GT', origin[ORIGIN_CLOSED_UNTIL], 'o' .. index)
    end
  end
end

-- Drops what a node has left that nobody works on, at most so much. Returns whether more is left.
local function drop_node(X, index, most)
  local run, node = X.r, node_of(X, index)
  node[NODE_REMOVED], node[0] = 1, true
  local queues = node[NODE_QUEUES]
  for position = 1, #queues, 2 do
    local queue_index = queues[position + 1]
    unlist_queue(X, queue_index)
    local queue = queue_of(X, queue_index)
    local ids = call('ZRANGE', keys_of.tasks(X, queue_index), 0, most - 1)
    if #ids > 0 then
      call('ZREMRANGEBYRANK', keys_of.tasks(X, queue_index), 0, #ids - 1)
      queue[QUEUE_TASKS] = queue[QUEUE_TASKS] - #ids
    end
    if queue[QUEUE_SUSPECTS] > 0 then
      local from, to = place_of_suspect(queue_index, 0), '(' .. string.format('%.0f', place_of_suspect(queue_index + 1, 0))
      local suspects = call('ZRANGEBYSCORE', keys_of.suspects(X), from, to, 'LIMIT', 0, most)
      for _, id in ipairs(suspects) do
        call('ZREM', keys_of.suspects(X), id)
        ids[#ids + 1] = id
      end
      queue[QUEUE_SUSPECTS] = queue[QUEUE_SUSPECTS] - #suspects
      run[RUN_SUSPECTS] = run[RUN_SUSPECTS] - #suspects
    end
    queue[0] = true
    local lane = lane_of(X, queue[QUEUE_LANE])
    lane[LANE_QUEUED], lane[0] = lane[LANE_QUEUED] - #ids, true
    for _, id in ipairs(ids) do
      end_task(X, id)
    end
    run[RUN_QUEUED], run[RUN_DROPPED] = run[RUN_QUEUED] - #ids, run[RUN_DROPPED] + #ids
    most = most - #ids
    if most <= 0 then
      return true
    end
  end
  return false
end

-- Drops delayed tasks of removed nodes, from a position in the row. Answers the next position; 0: all were looked at.
local function drop_delayed(X, from)
  local ids = call('ZRANGE', keys_of.delayed(X), from, from + 99)
  local kept = 0
  for _, id in ipairs(ids) do
    local task = call('HGET', keys_of.all(X), id)
    local _, _, _, _, queue = sunpack(TASK_FORMAT, task)
    if node_of(X, queue_of(X, queue)[QUEUE_NODE])[NODE_REMOVED] == 1 then
      call('ZREM', keys_of.delayed(X), id)
      end_task(X, id)
      X.r[RUN_DELAYED], X.r[RUN_DROPPED] = X.r[RUN_DELAYED] - 1, X.r[RUN_DROPPED] + 1
    else
      kept = kept + 1
    end
  end
  return #ids == 100 and from + kept or 0
end

-- The end of a configuration: nodes that it did not name are removed, from an index on. Answers the next index; 0: all were.
local function remove_others(X, from)
  local run, most = X.r, 100
  for index = from, min(run[RUN_NODES], from + 99) do
    local node = node_of(X, index)
    if node[NODE_GENERATION] < run[RUN_GENERATION] and (node[NODE_REMOVED] == 0 or index == from) then
      if drop_node(X, index, most) then
        return index
      end
    end
  end
  return from + 99 < run[RUN_NODES] and from + 100 or 0
end

-- Origins are looked at again after a configuration, from a lane on: what protects them may have changed.
local function look_again(X, from)
  local run, last = X.r, from + 99
  for index = from, min(run[RUN_LANES], last) do
    origin_changed(X, lane_of(X, index)[LANE_ORIGIN])
  end
  changed(X)
  return run[RUN_LANES] > last and last + 1 or 0
end

-- Forgets gates that nobody knows and of which nothing is known that matters, a few at a time.
local function forget_gates()
  local surplus = call('ZCARD', P .. 'z') - MAX_REMEMBERED
  local due = call('ZRANGEBYSCORE', P .. 'z', '-inf', surplus > 0 and '+inf' or now, 'LIMIT', 0, max(16, min(64, surplus)))
  for _, gate in ipairs(due) do
    local index, until_ = tonumber(sub(gate, 2)), 0
    if byte(gate) == 98 then -- b
      local budget = budget_of(index)
      if budget[BUDGET_USERS] > 0 then
        until_ = -1
      elseif surplus <= 0 then
        until_ = budget_remembers_until(index, budget)
      end
      if until_ == 0 then
        drop_lists(index, budget[BUDGET_LIMITS])
        call('HDEL', G, 'b' .. index, 'B' .. budget[BUDGET_ID], 'c' .. index, 'v' .. index, 'H' .. index)
        budgets[index], ways[index], promises[index] = nil, nil, nil
      end
    else
      local origin = origin_of(index)
      if origin[ORIGIN_USERS] > 0 then
        until_ = -1
      elseif origin[ORIGIN_UNDER_WAY] > 0 then
        until_ = now + REMEMBERED
      elseif surplus <= 0 then
        until_ = origin_remembers_until(origin)
      end
      if until_ == 0 then
        call('HDEL', G, 'o' .. index, 'O' .. origin[ORIGIN_KEY])
        origins[index], origin_index[origin[ORIGIN_KEY]] = nil, nil
      end
    end
    if until_ > 0 then
      call('ZADD', P .. 'z', until_, gate)
    else
      call('ZREM', P .. 'z', gate)
    end
  end
end

-- The run that a portion is for; nil and a refusal. False: a later configuration has begun, and holds.
local function run_in_the_making(request, key, generation)
  local X = key and run_of(key)
  if not X then
    return nil, { 'no such run' }
  end
  now = max(now, X.r[RUN_NOW])
  if generation and X.r[RUN_GENERATION] ~= generation then
    return false
  end
  return X
end

-- opening: a number that names it; fence; what holds for the run; origins to be left alone.
in_instance('open', function(request, known)
  forget_gates()
  if known then
    local X = run_of(known)
    if X.r[RUN_OPENED_BY] == request[8] then
      return X.r[RUN_GENERATION]
    elseif X.r[RUN_OPENING] == 0 then
      return nil, { 'run exists' }
    end
    -- Whoever began to open it did not come to the end.
    call('SADD', P .. 'gone', X.key)
    runs[X.key] = false
  end
  local key = call('HINCRBY', P .. 'i', 'runs', 1)
  local run = {}
  for position = 1, RUN_OPENED_BY do
    run[position] = 0
  end
  run[RUN_ID] = request[4]
  run[RUN_FENCES], run[RUN_OPENED_BY], run[RUN_OPENING], run[RUN_NOW] = request[9], request[8], 1, now
  -- Above the numbers of all runs before: who looked at one of the same name must not take this one for its past.
  run[RUN_CALLS] = key * 268435456
  local X = new_context(key, run)
  runs[key] = X
  set_run(X, request[10])
  close_origins(X, request[11])
  -- Short hashes of short values are searched from end to end: a long value spares this one that.
  call('HSET', X.m, 'of', 'the records of one run by their numbers, and the numbers of what has a name')
  call('HSET', P .. 'i', 'run ' .. request[4], key)
  return run[RUN_GENERATION]
end)

in_instance('begin_configure', function(request, key)
  local X, refused = run_in_the_making(request, key)
  if not X or X.r[RUN_OPENING] > 0 then
    return nil, refused or { 'no such run' }
  end
  X.r[RUN_STEPS], X.r[RUN_CALLS] = X.r[RUN_STEPS] + 1, X.r[RUN_CALLS] + 1
  lapse_all()
  end_delays(X)
  set_run(X, request[8])
  return X.r[RUN_GENERATION]
end)

in_instance('set_budgets', function(request, key)
  local X, refused = run_in_the_making(request, key, request[8])
  if not X then
    return X, refused
  end
  for _, budget in ipairs(request[9]) do
    set_budget(X, budget)
  end
  return true
end)

in_instance('set_nodes', function(request, key)
  local X, refused = run_in_the_making(request, key, request[8])
  if not X then
    return X, refused
  end
  for _, node in ipairs(request[9]) do
    set_node(X, node)
  end
  return true
end)

-- The end of a configuration. Answers where it goes on: {part, from}; part 0: it is done.
in_instance('end_configure', function(request, key)
  local X, refused = run_in_the_making(request, key, request[8])
  if not X then
    return X, refused
  end
  local part, from = request[9], request[10]
  if part == 1 then
    from = remove_others(X, from)
    part, from = from == 0 and 2 or 1, max(from, 0)
  elseif part == 2 then
    from = drop_delayed(X, from)
    part, from = from == 0 and 3 or 2, from == 0 and 1 or from
  else
    from = look_again(X, from)
    part = from == 0 and 0 or 3
  end
  if part == 0 then
    X.r[RUN_OPENING] = 0
  end
  return { part, from }
end)
