-- What people look at (src/queue/memory/status.rs, inspect.rs). What takes long comes in portions, which the caller puts together.

local function run_status(X)
  local run = X.r
  return {
    run[RUN_ID], run[RUN_FROZEN], run[RUN_WEIGHT], run[RUN_HOLDERS], run[RUN_MAX_HOLDERS],
    { run[RUN_DISCOVERED], run[RUN_QUEUED], run[RUN_DELAYED], run[RUN_LEASED], run[RUN_DONE], run[RUN_DEAD], run[RUN_DROPPED] },
  }
end

local function holder_statuses(X)
  local statuses = {}
  for _, token in ipairs(tokens_of(X)) do
    local first = 0
    for _, packed in ipairs(call('HVALS', keys_of.leases(X, token))) do
      first = earliest(first, read_lease(packed)[7])
    end
    local holder = holder_of(X, token)
    statuses[#statuses + 1] = {
      token, holder[HOLDER_UID], group_of(X, holder[HOLDER_GROUP])[GROUP_NAME], holder[HOLDER_UNDER_WAY], holder[HOLDER_ALONE], first,
    }
  end
  return statuses
end

-- Queues from an index on: lane, node's name, ready tasks, suspects, whether it is listed, and the first listed task's cost.
local function queue_portion(X, from)
  local rows, last = {}, min(X.r[RUN_QUEUES], from + 199)
  for index = from, last do
    local queue = queue_of(X, index)
    if queue[QUEUE_TASKS] + queue[QUEUE_SUSPECTS] > 0 then
      rows[#rows + 1] = { index, queue[QUEUE_LANE], node_of(X, queue[QUEUE_NODE])[NODE_NAME], queue[TICKET] > 0 and 1 or 0 }
    end
  end
  return { last < X.r[RUN_QUEUES] and last + 1 or 0, rows }
end

-- Lanes from an index on: ready, leased, since when without a turn.
local function lane_portion(X, from)
  local rows, last = {}, min(X.r[RUN_LANES], from + 199)
  for index = from, last do
    local lane = lane_of(X, index)
    if lane[LANE_QUEUED] + lane[LANE_LEASED] > 0 then
      rows[#rows + 1] = { index, lane[LANE_QUEUED], lane[LANE_LEASED], lane[LANE_SINCE] }
    end
  end
  return { last < X.r[RUN_LANES] and last + 1 or 0, rows }
end

-- Delayed tasks from a position on: lane, until when, queue, the node's name.
local function delayed_portion(X, from)
  local rows = {}
  local delayed = call('ZRANGE', keys_of.delayed(X), from, from + 199, 'WITHSCORES')
  for position = 1, #delayed, 2 do
    local _, _, _, _, index = sunpack(TASK_FORMAT, call('HGET', keys_of.all(X), delayed[position]))
    local queue = queue_of(X, index)
    rows[#rows + 1] = { queue[QUEUE_LANE], tonumber(delayed[position + 1]), index, node_of(X, queue[QUEUE_NODE])[NODE_NAME] }
  end
  return { #delayed == 400 and from + 200 or 0, rows }
end

-- The gate that keeps a queue's next task, in the order in which a claim asks them: {until, gate, name, unit}, or false.
-- For a gate that opens with a call, the moment is the one at which time would open it: when the next lease lapses.
local function gate_of_queue(X, index)
  local queue = queue_of(X, index)
  local lane, node = lane_of(X, queue[QUEUE_LANE]), node_of(X, queue[QUEUE_NODE])
  local origin = origin_of(lane[LANE_ORIGIN])
  local budget_index = pool_of(X, lane[LANE_POOL])[POOL_BUDGET]
  local budget = budget_of(budget_index)
  local by_call = next_lapse()
  by_call = by_call == 0 and now or by_call
  if queue[TICKET] == 0 then
    if node[NODE_SUSPENDED] == 1 or queue[QUEUE_SUSPECTS] == 0 then
      return { by_call, GATE_SUSPENDED, node[NODE_NAME], 0 }
    end
    local id = call('ZRANGEBYSCORE', keys_of.suspects(X), place_of_suspect(index, 0), '+inf', 'LIMIT', 0, 1)[1]
    local until_, gate, unit = suspect_waits_for(X, queue, call('HGET', keys_of.all(X), id))
    if until_ == 0 then
      return { by_call, GATE_SUSPECT, node[NODE_NAME], 0 }
    end
    local name = (gate == GATE_BACK_OFF or gate == GATE_ORIGIN_FULL) and origin[ORIGIN_KEY] or budget[BUDGET_ID]
    return { until_, gate, name, unit }
  elseif origin_is_closed(origin) then
    return { origin[ORIGIN_CLOSED_UNTIL], GATE_BACK_OFF, origin[ORIGIN_KEY], 0 }
  elseif origin_is_full(X, origin) then
    return { by_call, GATE_ORIGIN_FULL, origin[ORIGIN_KEY], 0 }
  elseif budget_is_full(budget) then
    return { by_call, GATE_BUDGET_FULL, budget[BUDGET_ID], 0 }
  end
  local id = call('ZRANGE', keys_of.tasks(X, index), 0, 0)[1]
  local value = id and call('HGET', keys_of.all(X), id)
  local calls = value and byte(value, 2) == 1 and node[NODE_CALLS] or 1
  local until_, gate, unit = budget_closed(budget_index, budget, calls, nil)
  return until_ > 0 and { until_, gate, budget[BUDGET_ID], unit } or false
end

-- The share of its rate and the call limits of a lane's budget, and why its next task waits. A lane: index, and the queue that
-- is next, or 0.
local function lane_details(X, lanes)
  local details = {}
  for position, wanted in ipairs(lanes) do
    local lane = lane_of(X, wanted[1])
    local budget = budget_of(pool_of(X, lane[LANE_POOL])[POOL_BUDGET])
    local rates = {}
    for _, limit in ipairs(budget[BUDGET_LIMITS]) do
      if limit[LIMIT_UNIT] == UNIT_CALLS then
        rates[#rates + 1] = { limit[LIMIT_AMOUNT], limit[LIMIT_PERIOD] }
      end
    end
    local gate = wanted[2] > 0 and gate_of_queue(X, wanted[2]) or false
    details[position] = { origin_of(lane[LANE_ORIGIN])[ORIGIN_KEY], budget[BUDGET_ID], budget[BUDGET_PERMILLE], rates, gate }
  end
  return details
end

local function dead_portion(X, from, most)
  return call('LRANGE', keys_of.dead(X), from, from + most - 1)
end

-- A task for people: id, node, origin, status, is it a dataset, payload, attempts, charges, state, moment, token.
local function shown_task(X, id, value, state, at, token)
  local status, is_dataset, attempts, charges, queue = sunpack(TASK_FORMAT, value)
  local lane = lane_of(X, queue_of(X, queue)[QUEUE_LANE])
  return {
    id, node_of(X, queue_of(X, queue)[QUEUE_NODE])[NODE_NAME], origin_of(lane[LANE_ORIGIN])[ORIGIN_KEY], status, is_dataset,
    sub(value, TASK_HEAD + 1), attempts, charges, state, at, token,
  }
end

local function show_tasks(X, ids, most, rows)
  for _, id in ipairs(ids) do
    if #rows < most then
      rows[#rows + 1] = shown_task(X, id, call('HGET', keys_of.all(X), id), 0, 0, 0)
    end
  end
end

-- Ready tasks of the queues from an index on, at most so many. Answers the next queue (0: there is none) and the tasks.
local function peek_queued(X, from, most)
  local rows, index, looks = {}, from, 0
  while index <= X.r[RUN_QUEUES] and #rows < most and looks < 200 do
    local queue = queue_of(X, index)
    if queue[QUEUE_TASKS] > 0 then
      show_tasks(X, call('ZRANGE', keys_of.tasks(X, index), 0, most - #rows - 1), most, rows)
    end
    if queue[QUEUE_SUSPECTS] > 0 then
      local first, past = place_of_suspect(index, 0), '(' .. string.format('%.0f', place_of_suspect(index + 1, 0))
      show_tasks(X, call('ZRANGEBYSCORE', keys_of.suspects(X), first, past, 'LIMIT', 0, most), most, rows)
    end
    index, looks = index + 1, looks + 1
  end
  return { index <= X.r[RUN_QUEUES] and index or 0, rows }
end

local function peek_delayed(X, from, most)
  local rows = {}
  local delayed = call('ZRANGE', keys_of.delayed(X), from, from + most - 1, 'WITHSCORES')
  for position = 1, #delayed, 2 do
    local value = call('HGET', keys_of.all(X), delayed[position])
    rows[#rows + 1] = shown_task(X, delayed[position], value, 1, tonumber(delayed[position + 1]), 0)
  end
  return rows
end

local function peek_leased(X, token, most)
  local rows = {}
  local leases = call('HGETALL', keys_of.leases(X, token))
  for position = 1, min(#leases, 2 * most), 2 do
    local value = call('HGET', keys_of.all(X), leases[position])
    local row = shown_task(X, leases[position], value, 2, read_lease(leases[position + 1])[7], token)
    row[7] = row[7] + 1
    rows[#rows + 1] = row
  end
  return rows
end

-- Puts back dead tasks: those named, or all, from a position of the list on. Answers how many, and the next position; -1: none.
local function retry_dead(X, from, named)
  local run, back, position = X.r, 0, from
  local wanted = named and {}
  for _, id in ipairs(named or {}) do
    wanted[id] = true
  end
  for _, packed in ipairs(call('LRANGE', keys_of.dead(X), from, from + 99)) do
    local dead = unpack_record(packed)
    if wanted and not wanted[dead[1]] then
      position = position + 1
    else
      call('LREM', keys_of.dead(X), 1, packed)
      run[RUN_DEAD], run[RUN_DEAD_KEPT] = run[RUN_DEAD] - 1, run[RUN_DEAD_KEPT] - 1
      local node = known_node(X, dead[2])
      if node_of(X, node)[NODE_REMOVED] == 1 then
        run[RUN_DROPPED] = run[RUN_DROPPED] + 1
      else
        back = back + 1
        run[RUN_SEQ], run[RUN_QUEUED] = run[RUN_SEQ] + 1, run[RUN_QUEUED] + 1
        local queue = queue_for(X, node, origin_index_of(dead[3]))
        call('HSET', keys_of.all(X), dead[1], pack_task(dead[4], dead[5], 0, 0, queue, run[RUN_SEQ], dead[6]))
        enqueue(X, dead[1], dead[4], 0, queue, run[RUN_SEQ])
      end
    end
  end
  changed(X)
  return { back, position < run[RUN_DEAD_KEPT] and position or -1 }
end

-- Drops those of these tasks that are queued or delayed; answers how many were.
local function drop_tasks(X, ids)
  local run, dropped = X.r, 0
  for _, id in ipairs(ids) do
    local value = call('HGET', keys_of.all(X), id)
    if value and value ~= '' then
      local _, _, _, _, index = sunpack(TASK_FORMAT, value)
      local queue, is_dropped = queue_of(X, index), true
      if call('ZREM', keys_of.delayed(X), id) == 1 then
        run[RUN_DELAYED] = run[RUN_DELAYED] - 1
      else
        if call('ZREM', keys_of.tasks(X, index), id) == 1 then
          queue[QUEUE_TASKS] = queue[QUEUE_TASKS] - 1
        elseif call('ZREM', keys_of.suspects(X), id) == 1 then
          queue[QUEUE_SUSPECTS], run[RUN_SUSPECTS] = queue[QUEUE_SUSPECTS] - 1, run[RUN_SUSPECTS] - 1
        else
          is_dropped = false
        end
        if is_dropped then
          local lane = lane_of(X, queue[QUEUE_LANE])
          queue[0], lane[0] = true, true
          lane[LANE_QUEUED], run[RUN_QUEUED] = lane[LANE_QUEUED] - 1, run[RUN_QUEUED] - 1
          if queue[QUEUE_TASKS] == 0 then
            unlist_queue(X, index)
          end
        end
      end
      if is_dropped then
        end_task(X, id)
        run[RUN_DROPPED], dropped = run[RUN_DROPPED] + 1, dropped + 1
      end
    end
  end
  changed(X)
  return dropped
end

on_run('ledger', 'looker', function(X)
  return run_status(X)[6]
end)

on_run('sequence', 'looker', function(X)
  return X.r[RUN_SEQUENCE]
end)

on_run('run_status', 'looker', run_status)
on_run('holders', 'looker', holder_statuses)

on_run('queue_portion', 'looker', function(X, request) return queue_portion(X, request[8]) end)
on_run('lane_portion', 'looker', function(X, request) return lane_portion(X, request[8]) end)
on_run('delayed_portion', 'looker', function(X, request) return delayed_portion(X, request[8]) end)
on_run('lane_details', 'looker', function(X, request) return lane_details(X, request[8]) end)
on_run('dead', 'looker', function(X, request) return dead_portion(X, request[8], request[9]) end)
on_run('peek_queued', 'looker', function(X, request) return peek_queued(X, request[8], request[9]) end)
on_run('peek_delayed', 'looker', function(X, request) return peek_delayed(X, request[8], request[9]) end)
on_run('peek_leased', 'looker', function(X, request) return peek_leased(X, request[8], request[9]) end)
on_run('retry_dead', 'owner', function(X, request) return retry_dead(X, request[8], request[9]) end)
on_run('drop_tasks', 'owner', function(X, request) return drop_tasks(X, request[8]) end)

on_run('brief', 'looker', function(X)
  return call('HGET', X.m, 'B') or ''
end)

on_run('node_briefs', 'looker', function(X, request)
  local briefs = {}
  for position, name in ipairs(request[8]) do
    local index = known_node(X, name)
    briefs[position] = index and (call('HGET', X.R .. 'n', index) or '') or false
  end
  return briefs
end)

in_instance('runs', function()
  local ids = {}
  for _, field in ipairs(call('HKEYS', P .. 'i')) do
    ids[#ids + 1] = string.match(field, '^run (.*)$')
  end
  return ids
end)

-- The instance's epoch; it is made if there is none.
in_instance('hello', function()
  return call('HGET', P .. 'i', 'epoch')
end)
