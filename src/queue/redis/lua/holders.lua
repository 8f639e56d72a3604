-- Holders: who joined, and how they end (src/queue/memory/run.rs, settle.rs).

local CRASHED = 'the crawler crashed while it worked on this task'

-- One call ends no more leases of a holder than this: it must not keep others waiting.
local MOST_RELEASED = 100

-- Ends leases of a holder, at most so many. Returns tasks put back, tasks that are dead, and whether more are left.
local function end_leases(X, token, cause)
  local key = keys_of.leases(X, token)
  local leases = call('HGETALL', key)
  local requeued, dead, most = 0, 0, min(#leases, 2 * MOST_RELEASED)
  for position = 1, most, 2 do
    local id, lease = leases[position], read_lease(leases[position + 1])
    call('HDEL', key, id)
    end_lease(X, token, id, lease)
    if cause == CAUSE_CRASHED then
      local task = call('HGET', keys_of.all(X), id)
      local status, is_dataset, attempts, charges, queue, seq = sunpack(TASK_FORMAT, task)
      task = pack_task(status, is_dataset, attempts + 1, charges + 1, queue, seq, sub(task, TASK_HEAD + 1))
      call('HSET', keys_of.all(X), id, task)
      if charges + 1 >= X.r[RUN_MAX_CHARGES] then
        bury(X, id, CRASHED, 0)
        dead = dead + 1
      else
        note_failure(X, id, CRASHED)
        put_back(X, id, task, false, false)
        requeued = requeued + 1
      end
    else
      -- Who was replaced had tried; who was released had not.
      put_back(X, id, call('HGET', keys_of.all(X), id), false, cause == nil)
      requeued = requeued + 1
    end
  end
  if most == #leases then
    call('ZREM', P .. 'x', lapse_member(X, token))
    call('SREM', keys_of.released(X), token)
  else
    call('SADD', keys_of.released(X), token)
  end
  changed(X)
  return requeued, dead, most < #leases
end

-- Makes the caller the holder of a token. Answers its fence and the length of a lease, or nothing: no place is free. What the
-- holder before it had is freed; if that is too much for one call, the caller calls again.
local function join(X, token, uid, group_name)
  local run = X.r
  local known = holder_of(X, token)
  if not known and run[RUN_HOLDERS] >= run[RUN_MAX_HOLDERS] then
    return nil
  end
  if not known then
    run[RUN_HOLDERS] = run[RUN_HOLDERS] + 1
    call('SADD', keys_of.holders(X), token)
  end
  run[RUN_FENCES] = run[RUN_FENCES] + 1
  X.h[token] = { run[RUN_FENCES], uid, group_for(X, group_name), 0, 0, 0, 0, 0, 0, '\0\0\0\0\0\0\0\0', [0] = true }
  local _, _, has_more = end_leases(X, token, nil)
  X.h[token][HOLDER_UNDER_WAY], X.h[token][HOLDER_ALONE] = 0, 0
  changed(X)
  return { run[RUN_FENCES], run[RUN_LEASE], has_more and 1 or 0 }
end

-- Frees a token and the leases of its holder. Answers tasks put back, tasks that are dead, and 1 if more are left.
local function release_holder(X, token, cause)
  local known = holder_of(X, token)
  if known then
    X.h[token] = false
    call('HDEL', X.m, field_of.h(token))
    call('SREM', keys_of.holders(X), token)
    X.r[RUN_HOLDERS] = X.r[RUN_HOLDERS] - 1
  end
  local requeued, dead, has_more = end_leases(X, token, cause)
  changed(X)
  return { requeued, dead, has_more and 1 or 0 }
end

-- Nobody of this run will come: nobody waits for it at budgets.
local function yield_right_of_way(X)
  for index = 1, X.r[RUN_POOLS] do
    local budget_index = pool_of(X, index)[POOL_BUDGET]
    local budget = budget_of(budget_index)
    if budget[BUDGET_RUNS] > 1 and way.yields(budget_index, X) then
      touch_budget(budget_index, X)
    end
  end
end

on_run('join', 'owner', function(X, request)
  local joined = join(X, request[5], request[8], request[9])
  return joined, { 'no place free', X.r[RUN_MAX_HOLDERS] }
end)

on_run('release_holder', 'owner', function(X, request)
  return release_holder(X, request[5], request[8])
end)

on_run('suspend_node', 'owner', function(X, request)
  local index = known_node(X, request[8])
  if not index or node_of(X, index)[NODE_REMOVED] == 1 then
    return nil, { 'no such node', request[8] }
  end
  local node = node_of(X, index)
  node[NODE_SUSPENDED], node[0] = request[9], true
  local queues = node[NODE_QUEUES]
  for position = 1, #queues, 2 do
    if request[9] == 1 then
      unlist_queue(X, queues[position + 1])
    else
      list_queue(X, queues[position + 1])
    end
  end
  changed(X)
  return true
end)

on_run('set_frozen', 'owner', function(X, request)
  X.r[RUN_FROZEN] = request[8]
  if request[8] == 1 then
    yield_right_of_way(X)
  end
  changed(X)
  return true
end)
