-- Recounts, and sees that what is ready can be reached; repairs, in portions (src/queue/memory/audit.rs).

local function is_listed(key, giver, member, index)
  return member[TICKET] > 0
    and (giver[CURRENT] == index or call('ZSCORE', key, turn_member(member, index)) ~= false)
end

-- Lists anew what should be listed.
local function relist(X, index)
  local queue = queue_of(X, index)
  local lane = lane_of(X, queue[QUEUE_LANE])
  local pool_index = lane[LANE_POOL]
  local pool = pool_of(X, pool_index)
  if not is_listed(keys_of.queues(X, queue[QUEUE_LANE]), lane, queue, index) then
    if queue[TICKET] > 0 then
      queue[TICKET] = 0
      lane[LANE_ACTIVE], pool[POOL_ACTIVE] = lane[LANE_ACTIVE] - 1, pool[POOL_ACTIVE] - 1
    end
    list_queue(X, index)
  end
  if lane[LANE_PARKED] == 0 and not is_listed(keys_of.lanes(X, pool_index), pool, lane, queue[QUEUE_LANE]) then
    lane[TICKET] = 0
  end
  local group = pool[POOL_GROUP]
  if pool[POOL_PARKED] == 0 and not is_listed(keys_of.pools(X, group), group_of(X, group), pool, pool_index) then
    pool[TICKET] = 0
  end
  list_lane(X, queue[QUEUE_LANE])
end

-- Whether a lane that is parked has somebody to wake it.
local function is_cared_for(X, lane_index)
  local lane = lane_of(X, lane_index)
  local origin = origin_of(lane[LANE_ORIGIN])
  if not origin_is_open(X, origin) then
    return true
  end
  local group = pool_of(X, lane[LANE_POOL])[POOL_GROUP]
  for index = 1, min(X.r[RUN_POOLS], 1000) do
    local pool = pool_of(X, index)
    if pool[POOL_GROUP] == group then
      for _, baton in ipairs(pool[POOL_BATONS]) do
        if lane_of(X, baton)[LANE_ORIGIN] == lane[LANE_ORIGIN] then
          return true
        end
      end
    end
  end
  local waiting = origin[ORIGIN_WAITING]
  for position = 1, #waiting, 3 do
    if waiting[position] == X.key and waiting[position + 1] == group and waiting[position + 2] > 0 then
      return true
    end
  end
  return false
end

-- Queues from an index on: are they counted and listed as they should be? Answers the next index, sentences, tasks counted.
local function audit_queues(X, from)
  local said, last, counted = {}, min(X.r[RUN_QUEUES], from + 99), 0
  for index = from, last do
    local queue = queue_of(X, index)
    local node = node_of(X, queue[QUEUE_NODE])
    local tasks = call('ZCARD', keys_of.tasks(X, index))
    counted = counted + tasks + queue[QUEUE_SUSPECTS]
    if tasks ~= queue[QUEUE_TASKS] then
      said[#said + 1] = 'the node ' .. node[NODE_NAME] .. ' had ' .. tasks .. ' ready tasks, counted were ' .. queue[QUEUE_TASKS]
      queue[QUEUE_TASKS], queue[0] = tasks, true
      if tasks == 0 then
        unlist_queue(X, index)
      end
    end
    if tasks > 0 and node[NODE_SUSPENDED] == 0 and node[NODE_REMOVED] == 0 then
      local lane = lane_of(X, queue[QUEUE_LANE])
      local pool = pool_of(X, lane[LANE_POOL])
      local group = pool[POOL_GROUP]
      local reachable = is_listed(keys_of.queues(X, queue[QUEUE_LANE]), lane, queue, index)
        and (lane[LANE_PARKED] == 1
          or (is_listed(keys_of.lanes(X, lane[LANE_POOL]), pool, lane, queue[QUEUE_LANE])
            and (pool[POOL_PARKED] ~= 0 or is_listed(keys_of.pools(X, group), group_of(X, group), pool, lane[LANE_POOL]))))
      if not reachable then
        said[#said + 1] = 'ready tasks of the node ' .. node[NODE_NAME] .. ' could not be reached'
        relist(X, index)
        changed(X)
      elseif lane[LANE_PARKED] == 1 and not is_cared_for(X, queue[QUEUE_LANE]) then
        said[#said + 1] = 'lanes slept at the origin ' .. origin_of(lane[LANE_ORIGIN])[ORIGIN_KEY] .. ', which is open'
        origin_changed_for(X, lane[LANE_ORIGIN])
        changed(X)
      end
    end
  end
  return { last < X.r[RUN_QUEUES] and last + 1 or 0, said, counted }
end

-- Tasks, by a cursor of the hash: does each stand somewhere? Answers the next cursor ('0': all were looked at), sentences.
local function audit_tasks(X, cursor)
  local said = {}
  local scanned = call('HSCAN', keys_of.all(X), cursor, 'COUNT', 100)
  local pairs_ = scanned[2]
  local holders
  for position = 1, min(#pairs_, 1000), 2 do
    local id, value = pairs_[position], pairs_[position + 1]
    if value ~= '' then
      local status, _, _, charges, index, seq = sunpack(TASK_FORMAT, value)
      local stands = call('ZSCORE', keys_of.tasks(X, index), id) or call('ZSCORE', keys_of.delayed(X), id) or call('ZSCORE', keys_of.suspects(X), id)
      if not stands then
        holders = holders or tokens_of(X)
        for _, token in ipairs(holders) do
          stands = stands or call('HEXISTS', keys_of.leases(X, token), id) == 1
        end
        for _, token in ipairs(stands and {} or call('SMEMBERS', keys_of.released(X))) do
          stands = stands or call('HEXISTS', keys_of.leases(X, token), id) == 1
        end
      end
      if not stands then
        said[#said + 1] = 'a task of the node ' .. node_of(X, queue_of(X, index)[QUEUE_NODE])[NODE_NAME] .. ' was ready and stood in no queue'
        enqueue(X, id, status, charges, index, seq)
        changed(X)
      end
    end
  end
  return { scanned[1], said }
end

-- Compares the ledger with what was counted, unless the run went on meanwhile. Answers sentences, or false: count again.
local function audit_ledger(X, steps, queued)
  local run, said = X.r, {}
  if run[RUN_STEPS] ~= steps then
    return false
  end
  local delayed, leased = call('ZCARD', keys_of.delayed(X)), 0
  for _, token in ipairs(tokens_of(X)) do
    leased = leased + call('HLEN', keys_of.leases(X, token))
  end
  for _, token in ipairs(call('SMEMBERS', keys_of.released(X))) do
    if not holder_of(X, tonumber(token)) then
      leased = leased + call('HLEN', keys_of.leases(X, token))
    end
  end
  local discovered = queued + delayed + leased + run[RUN_DONE] + run[RUN_DEAD] + run[RUN_DROPPED]
  if run[RUN_QUEUED] ~= queued or run[RUN_DELAYED] ~= delayed or run[RUN_LEASED] ~= leased or run[RUN_DISCOVERED] ~= discovered then
    said[1] = 'the ledger said ' .. run[RUN_DISCOVERED] .. ' discovered, ' .. run[RUN_QUEUED] .. ' queued, ' .. run[RUN_DELAYED] .. ' delayed, '
      .. run[RUN_LEASED] .. ' leased; counted were ' .. discovered .. ', ' .. queued .. ', ' .. delayed .. ', ' .. leased
    run[RUN_QUEUED], run[RUN_DELAYED], run[RUN_LEASED], run[RUN_DISCOVERED] = queued, delayed, leased, discovered
    changed(X)
  end
  return said
end

on_run('audit_queues', 'looker', function(X, request)
  local found = audit_queues(X, request[8])
  found[4] = X.r[RUN_STEPS]
  return found
end)
on_run('audit_tasks', 'looker', function(X, request) return audit_tasks(X, request[8]) end)
on_run('audit_ledger', 'looker', function(X, request)
  local said = audit_ledger(X, request[8], request[9])
  return said
end)
