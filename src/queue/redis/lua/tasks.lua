-- Tasks: kept once, in the hash T, from their push until the run is closed; what has ended leaves its id, so that it is not
-- queued again. Where a task stands is told by where its id is: in its queue, among the suspects, delayed, or leased.

do
  local of_leases = namer('L')
  function keys_of.all(X) return X.R .. 'T' end
  function keys_of.delayed(X) return X.R .. 'd' end
  function keys_of.suspects(X) return X.R .. 's' end
  function keys_of.failures(X) return X.R .. 'f' end
  function keys_of.dead(X) return X.R .. 'D' end
  function keys_of.leases(X, token) return X.R .. of_leases(token) end
end

-- Status, is it a dataset, attempts, charges, queue, number in line; then what Redis need not understand.
local TASK_FORMAT = '>BBI2BI4I5'
local TASK_HEAD = 14

local function pack_task(status, is_dataset, attempts, charges, queue, seq, payload)
  return spack(TASK_FORMAT, status, is_dataset, min(65535, attempts), min(255, charges), queue, seq) .. payload
end

local function place_in_queue(status, seq)
  return status * 281474976710656 + seq
end

local function place_of_suspect(queue, seq)
  return queue * 1073741824 + seq % 1073741824
end

-- More tasks are ready in a lane.
local function add_to_lane(X, queue, count)
  local lane = lane_of(X, queue[QUEUE_LANE])
  if lane[LANE_QUEUED] == 0 then
    lane[LANE_SINCE] = now
  end
  lane[LANE_QUEUED], lane[0] = lane[LANE_QUEUED] + count, true
end

-- Makes a kept task ready where its number in line puts it.
local function enqueue(X, id, status, charges, index, seq)
  local queue = queue_of(X, index)
  queue[0] = true
  add_to_lane(X, queue, 1)
  if charges > 0 then
    call('ZADD', keys_of.suspects(X), place_of_suspect(index, seq), id)
    queue[QUEUE_SUSPECTS] = queue[QUEUE_SUSPECTS] + 1
    X.r[RUN_SUSPECTS] = X.r[RUN_SUSPECTS] + 1
  else
    call('ZADD', keys_of.tasks(X, index), place_in_queue(status, seq), id)
    queue[QUEUE_TASKS] = queue[QUEUE_TASKS] + 1
    list_queue(X, index)
  end
end

-- Of tasks that came: node, origin, then id, status and kind (status × 2, + 1 for a dataset), payload of each.
local FIRST_TASK = 3
local TASK_VALUES = 3

local function seen_of(X, groups)
  local wanted, n = { 'HMGET', keys_of.all(X) }, 2
  for _, group in ipairs(groups) do
    for at = FIRST_TASK, #group, TASK_VALUES do
      n = n + 1
      wanted[n] = group[at]
    end
  end
  return call(unpack(wanted))
end

-- Queues those tasks of known nodes that the run has not seen, in groups of one node and origin.
local function add_tasks(X, groups)
  if #groups == 0 then
    return 0, 0
  end
  local run, seen, position = X.r, seen_of(X, groups), 0
  local seq, new, dropped = run[RUN_SEQ], 0, 0
  local kept, n, mine = { 'HSET', keys_of.all(X) }, 2, {}
  for _, group in ipairs(groups) do
    local node = known_node(X, group[1])
    local is_removed = node_of(X, node)[NODE_REMOVED] == 1
    local index, ready, m = nil, nil, 2
    for at = FIRST_TASK, #group, TASK_VALUES do
      position = position + 1
      local id = group[at]
      if not seen[position] and not mine[id] then
        mine[id], new, kept[n + 1] = true, new + 1, id
        if is_removed then
          dropped, kept[n + 2] = dropped + 1, ''
        else
          if not index then
            index = queue_for(X, node, origin_index_of(group[2]))
            ready = { 'ZADD', keys_of.tasks(X, index) }
          end
          local kind = group[at + 1]
          local status = floor(kind / 2)
          seq = seq + 1
          kept[n + 2] = spack(TASK_FORMAT, status, kind % 2, 0, 0, index, seq) .. group[at + 2]
          ready[m + 1], ready[m + 2] = place_in_queue(status, seq), id
          m = m + 2
        end
        n = n + 2
      end
    end
    if index then
      call(unpack(ready))
      local queue, count = queue_of(X, index), (m - 2) / 2
      add_to_lane(X, queue, count)
      queue[QUEUE_TASKS], queue[0] = queue[QUEUE_TASKS] + count, true
      list_queue(X, index)
    end
  end
  call_many(kept)
  run[RUN_QUEUED], run[RUN_SEQ] = run[RUN_QUEUED] + new - dropped, seq
  run[RUN_DISCOVERED] = run[RUN_DISCOVERED] + new
  if dropped > 0 then
    run[RUN_DROPPED] = run[RUN_DROPPED] + dropped
  end
  return new, position - new
end

local function forget_failures(X, id)
  if X.r[RUN_FAILING] > 0 and call('HDEL', keys_of.failures(X), id) == 1 then
    X.r[RUN_FAILING] = X.r[RUN_FAILING] - 1
  end
end

local function add_failure(history, why)
  if #history >= MAX_FAILURES_KEPT then
    table.remove(history, 1)
  end
  history[#history + 1] = { now, why }
end

-- A task failed and will come again.
local function note_failure(X, id, why)
  local known = call('HGET', keys_of.failures(X), id)
  if not known and X.r[RUN_FAILING] >= MAX_FAILING_KEPT then
    return
  end
  local history = known and unpack_record(known) or {}
  add_failure(history, why)
  call('HSET', keys_of.failures(X), id, pack(history))
  if not known then
    X.r[RUN_FAILING] = X.r[RUN_FAILING] + 1
  end
end

-- A task has ended; its id stays.
local function end_task(X, id)
  call('HSET', keys_of.all(X), id, '')
  forget_failures(X, id)
end

-- A task failed for the last time. `more_attempts`: those that are not counted in what is kept.
local function bury(X, id, why, more_attempts)
  local task = call('HGET', keys_of.all(X), id)
  local run = X.r
  run[RUN_DEAD] = run[RUN_DEAD] + 1
  if run[RUN_DEAD_KEPT] < MAX_DEAD_KEPT then
    local known = call('HGET', keys_of.failures(X), id)
    local history = known and unpack_record(known) or {}
    add_failure(history, why)
    local status, is_dataset, attempts, charges, queue = sunpack(TASK_FORMAT, task)
    local node = node_of(X, queue_of(X, queue)[QUEUE_NODE])
    local origin = origin_of(lane_of(X, queue_of(X, queue)[QUEUE_LANE])[LANE_ORIGIN])
    local dead = { id, node[NODE_NAME], origin[ORIGIN_KEY], status, is_dataset, sub(task, TASK_HEAD + 1), attempts + more_attempts, charges, history }
    call('RPUSH', keys_of.dead(X), pack(dead))
    run[RUN_DEAD_KEPT] = run[RUN_DEAD_KEPT] + 1
  end
  end_task(X, id)
end

-- Puts a task that was leased or delayed back: where it was, or (`is_last`) behind the others of its status. While it is
-- leased its attempt is not counted in what is kept: `is_attempt` says that it is to be now.
local function put_back(X, id, task, is_last, is_attempt)
  local run = X.r
  local status, is_dataset, attempts, charges, queue, seq = sunpack(TASK_FORMAT, task)
  if node_of(X, queue_of(X, queue)[QUEUE_NODE])[NODE_REMOVED] == 1 then
    end_task(X, id)
    run[RUN_DROPPED] = run[RUN_DROPPED] + 1
    return
  end
  if is_last then
    run[RUN_SEQ] = run[RUN_SEQ] + 1
    seq = run[RUN_SEQ]
  end
  if is_last or is_attempt then
    attempts = attempts + (is_attempt and 1 or 0)
    call('HSET', keys_of.all(X), id, pack_task(status, is_dataset, attempts, charges, queue, seq, sub(task, TASK_HEAD + 1)))
  end
  run[RUN_QUEUED] = run[RUN_QUEUED] + 1
  enqueue(X, id, status, charges, queue, seq)
end

-- A lease: nonce, lane, origin, budget, calls, when its last request was permitted, when it lapses, the other origin that
-- its last request went to.
local LEASE_FORMAT = '>c8I4I4I4I4I7I7I4'

local function read_lease(packed)
  local lease = { sunpack(LEASE_FORMAT, packed) }
  lease[9] = nil
  return lease
end

local function pack_lease(lease)
  return spack(LEASE_FORMAT, lease[1], lease[2], lease[3], lease[4], lease[5], lease[6], lease[7], lease[8])
end

-- Requests to an origin ended.
local function leave_origin(X, index, count)
  local origin = origin_of(index)
  origin[ORIGIN_UNDER_WAY], origin[0] = max(0, origin[ORIGIN_UNDER_WAY] - count), true
  origin_changed(X, index)
end

-- Frees the places that leases of one lane have at the gates, and takes them out of the account.
local function end_leases_alike(X, token, lease, count)
  X.r[RUN_LEASED] = X.r[RUN_LEASED] - count
  local holder = holder_of(X, token)
  if holder then
    holder[0], holder[HOLDER_IS_EXACT] = true, 0
    holder[HOLDER_UNDER_WAY] = max(0, holder[HOLDER_UNDER_WAY] - count)
    if holder[HOLDER_UNDER_WAY] == 0 then
      holder[HOLDER_ALONE] = 0
    end
  end
  local lane = lane_of(X, lease[2])
  lane[LANE_LEASED], lane[0] = lane[LANE_LEASED] - count, true
  leave_origin(X, lease[3], count)
  if lease[8] > 0 then
    leave_origin(X, lease[8], count)
  end
  local index = lease[4]
  local budget = budget_of(index)
  budget[BUDGET_UNDER_WAY], budget[0] = max(0, budget[BUDGET_UNDER_WAY] - count), true
  if (budget[BUDGET_MAX] > 0 or budget[BUDGET_RUNS] > 1) and way.freed(index) then
    open_pools(X, index, true)
    touch(TOUCHED_FREED, index)
  end
end

-- What was kept for a permit of a lease is free again.
local function forgo_promise(X, id, nonce, index)
  local budget = budget_of(index)
  if budget[BUDGET_PROMISES] > 0 and end_promise(index, budget, X.key .. ':' .. id .. sub(nonce, 1, 8)) then
    budget_changed(X, index)
  end
end

local function end_lease(X, token, id, lease)
  end_leases_alike(X, token, lease, 1)
  forgo_promise(X, id, lease[1], lease[4])
end

local function lapse_member(X, token)
  return X.key .. ':' .. token
end

-- Has a holder's leases looked at when the first of them may lapse, and no call look for lapsed ones before any may be.
local function set_lapse(X, token, at)
  call('ZADD', P .. 'x', at, lapse_member(X, token))
  if first_lapse == 0 or at < first_lapse then
    first_lapse = at
    call('HSET', P .. 'i', 'lapse', at)
  end
end

-- Leases of a holder are looked at again when the first of them may lapse.
local function watch_holder(X, token, holder, at)
  if holder[HOLDER_LAPSE] == 0 or at < holder[HOLDER_LAPSE] then
    holder[HOLDER_LAPSE], holder[0] = at, true
    set_lapse(X, token, at)
  end
end

-- Ends the leases of a holder that have lapsed, at most so many, and notes when the next one will. Returns how many ended.
local function lapse_holder(X, token, most)
  local leases = call('HGETALL', keys_of.leases(X, token))
  local ended, first = 0, NEVER
  for position = 1, #leases, 2 do
    local id, lease = leases[position], read_lease(leases[position + 1])
    if lease[7] <= now and ended < most then
      call('HDEL', keys_of.leases(X, token), id)
      end_lease(X, token, id, lease)
      put_back(X, id, call('HGET', keys_of.all(X), id), false, true)
      changed(X)
      ended = ended + 1
    else
      first = min(first, lease[7])
    end
  end
  local holder = holder_of(X, token)
  if first < NEVER then
    set_lapse(X, token, first)
  else
    call('ZREM', P .. 'x', lapse_member(X, token))
  end
  if holder then
    holder[HOLDER_LAPSE], holder[HOLDER_IS_EXACT], holder[0] = first < NEVER and first or 0, 1, true
  end
  return ended
end

-- Ends leases of all runs that were not renewed in time: a run whose crawlers are gone must not keep what others wait for.
local function lapse_all()
  local left = MOST_LAPSES
  while left > 0 and first_lapse > 0 and first_lapse <= now do
    local due = call('ZRANGEBYSCORE', P .. 'x', '-inf', now, 'LIMIT', 0, 1)[1]
    if not due then
      first_lapse = tonumber(call('ZRANGE', P .. 'x', 0, 0, 'WITHSCORES')[2] or 0)
      call('HSET', P .. 'i', 'lapse', first_lapse)
      return
    end
    local key, token = string.match(due, '^(%d+):(%d+)$')
    local X = run_of(tonumber(key))
    if X then
      left = left - max(1, lapse_holder(X, tonumber(token), left))
    else
      call('ZREM', P .. 'x', due)
      left = left - 1
    end
  end
end

-- When the first lease of any run lapses; 0: there is none.
local function next_lapse()
  for _ = 1, 32 do
    local first = call('ZRANGE', P .. 'x', 0, 0, 'WITHSCORES')
    if not first[1] then
      return 0
    end
    local key, token = string.match(first[1], '^(%d+):(%d+)$')
    local X = run_of(tonumber(key))
    if not X then
      call('ZREM', P .. 'x', first[1])
    else
      local holder = holder_of(X, tonumber(token))
      if holder and holder[HOLDER_IS_EXACT] == 1 then
        return tonumber(first[2])
      end
      lapse_holder(X, tonumber(token), 0)
      local score = tonumber(call('ZSCORE', P .. 'x', first[1]) or nil)
      if score and score <= tonumber(first[2]) then
        return score
      end
    end
  end
  return now
end

-- Makes those ready whose delay has ended.
local function end_delays(X)
  if X.r[RUN_DELAYED] == 0 then
    return
  end
  local due = call('ZRANGEBYSCORE', keys_of.delayed(X), '-inf', now, 'LIMIT', 0, MOST_DELAYS)
  if #due == 0 then
    return
  end
  call('ZREMRANGEBYRANK', keys_of.delayed(X), 0, #due - 1)
  for _, id in ipairs(due) do
    X.r[RUN_DELAYED] = X.r[RUN_DELAYED] - 1
    put_back(X, id, call('HGET', keys_of.all(X), id), true, false)
  end
  changed(X)
end

-- When the next delay ends; 0: there is none.
local function next_delay(X)
  if X.r[RUN_DELAYED] == 0 then
    return 0
  end
  return tonumber(call('ZRANGE', keys_of.delayed(X), 0, 0, 'WITHSCORES')[2] or nil) or 0
end
