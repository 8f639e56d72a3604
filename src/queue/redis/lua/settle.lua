-- How leases end (src/queue/memory/settle.rs), permits, and what servers said.

-- A holder's live lease; nil: it is no longer the caller's.
local function live_lease(packed, nonce)
  return packed and string.sub(packed, 1, 8) == nonce and read_lease(packed) or nil
end

local function succeeded(X, lease)
  origin_success(origin_of(lease[3]), lease[6])
  if lease[8] > 0 then
    origin_success(origin_of(lease[8]), lease[6])
  end
  if budget_success(budget_of(lease[4]), lease[6]) then
    budget_changed(X, lease[4])
  end
end

-- A settlement: id, nonce, result, documents, bytes, what the result needs. Returns new and duplicate tasks.
local function settle_one(X, token, settlement, lease, done)
  local id, result = settlement[1], settlement[3]
  local run = X.r
  budget_charge(lease[4], budget_of(lease[4]), settlement[4], settlement[5])
  if result == RESULT_DONE then
    succeeded(X, lease)
    end_lease(X, token, id, lease)
    run[RUN_DONE] = run[RUN_DONE] + 1
    local n = #done
    done[n + 1], done[n + 2] = id, ''
    forget_failures(X, id)
    return add_tasks(X, settlement[6])
  end
  if result == RESULT_RETRY then
    local delay = settlement[6]
    note_failure(X, id, settlement[7])
    end_lease(X, token, id, lease)
    local task = call('HGET', keys_of.all(X), id)
    local status, is_dataset, attempts, charges, queue, seq = struct.unpack(TASK_FORMAT, task)
    if delay > 0 and node_of(X, queue_of(X, queue)[QUEUE_NODE])[NODE_REMOVED] == 0 then
      run[RUN_DELAYED] = run[RUN_DELAYED] + 1
      task = pack_task(status, is_dataset, attempts + 1, charges, queue, seq, string.sub(task, TASK_HEAD + 1))
      call('HSET', keys_of.all(X), id, task)
      call('ZADD', keys_of.delayed(X), now + delay, id)
    else
      put_back(X, id, task, true, true)
    end
  elseif result == RESULT_DEAD then
    end_lease(X, token, id, lease)
    bury(X, id, settlement[6], 1)
  elseif result == RESULT_DROPPED then
    end_lease(X, token, id, lease)
    end_task(X, id)
    run[RUN_DROPPED] = run[RUN_DROPPED] + 1
  else
    end_lease(X, token, id, lease)
    put_back(X, id, call('HGET', keys_of.all(X), id), false, false)
  end
  return 0, 0
end

-- The first node of any task that the run never had; nil: it knows all.
local function unknown_node(X, tasks)
  for position = 1, #tasks do
    if not known_node(X, tasks[position][2]) then
      return tasks[position][2]
    end
  end
end

-- Answers for each settlement {new, duplicates}, or false: the lease was no longer the caller's. nil and a name: a node
-- that the run never had.
local function settle(X, token, settlements)
  local count, key = #settlements, keys_of.leases(X, token)
  if count == 0 then
    changed(X)
    return {}
  end
  local ids = { 'HMGET', key }
  for position = 1, count do
    ids[position + 2] = settlements[position][1]
  end
  local packed = call(unpack(ids))
  local leases, ended = {}, { 'HDEL', key }
  for position = 1, count do
    local settlement = settlements[position]
    local lease = live_lease(packed[position], settlement[2])
    leases[position] = lease or false
    local unknown = lease and settlement[3] == RESULT_DONE and unknown_node(X, settlement[6])
    if unknown then
      return nil, unknown
    end
  end
  local answers, done, seen = {}, { 'HSET', keys_of.all(X) }, {}
  for position = 1, count do
    local settlement, lease = settlements[position], leases[position]
    if lease and not seen[settlement[1]] then
      seen[settlement[1]] = true
      ended[#ended + 1] = settlement[1]
      local new, duplicates = settle_one(X, token, settlement, lease, done)
      answers[position] = { new, duplicates }
    else
      answers[position] = false
    end
  end
  call_many(done)
  call_many(ended)
  changed(X)
  return answers
end

-- Feedback that is too much for one settlement: queued before it, while the lease is held.
local function feed(X, token, id, nonce, tasks)
  local lease = live_lease(call('HGET', keys_of.leases(X, token), id), nonce)
  if not lease then
    return false
  end
  local unknown = unknown_node(X, tasks)
  if unknown then
    return nil, unknown
  end
  local new, duplicates = add_tasks(X, tasks)
  changed(X)
  return { new, duplicates }
end

-- Answers {'granted'} | {'frozen'} | {'wait', until, gate, name, unit} | {'lost'}.
local function permit(X, token, id, nonce, origin_key)
  local lease = live_lease(call('HGET', keys_of.leases(X, token), id), nonce)
  if not lease then
    return { 'lost' }
  elseif X.r[RUN_FROZEN] == 1 then
    return { 'frozen' }
  end
  local asked = origin_index_of(origin_key)
  local is_own, previous = lease[3] == asked, lease[8]
  local origin = origin_of(asked)
  if origin_is_closed(origin) then
    return { 'wait', origin[ORIGIN_CLOSED_UNTIL], GATE_BACK_OFF, origin_key, 0 }
  end
  local counts_already = is_own or previous == asked
  if not counts_already and origin_is_full(X, origin) then
    return { 'wait', now + PERMIT_RETRY, GATE_ORIGIN_FULL, origin_key, 0 }
  end
  local calls, index = is_own and lease[5] or 1, lease[4]
  local budget, name = budget_of(index), X.key .. ':' .. id .. nonce
  local until_, gate, unit = budget_closed(index, budget, calls, name)
  if until_ > 0 then
    keep_promise(index, budget, name, calls, until_)
    return { 'wait', until_, gate, budget[BUDGET_ID], unit }
  end
  end_promise(index, budget, name)
  budget_spend(index, budget, calls)
  origin_sent(origin)
  if not counts_already then
    origin_began(origin)
  end
  if previous ~= asked then
    leave_elsewhere(X, previous)
  end
  lease[6], lease[8] = now, is_own and 0 or asked
  call('HSET', keys_of.leases(X, token), id, pack_lease(lease))
  return { 'granted' }
end

-- Lengthens leases; answers the positions of those that are no longer the caller's.
local function renew(X, token, holder, leases)
  local key, lost, expires = keys_of.leases(X, token), {}, now + X.r[RUN_LEASE]
  local kept = { 'HSET', key }
  for position = 1, #leases do
    local id = leases[position][1]
    local lease = live_lease(call('HGET', key, id), leases[position][2])
    if lease then
      lease[7] = expires
      local n = #kept
      kept[n + 1], kept[n + 2] = id, pack_lease(lease)
    else
      lost[#lost + 1] = position
    end
  end
  if #kept > 2 then
    call(unpack(kept))
    holder[HOLDER_IS_EXACT], holder[0] = 0, true
    watch_holder(X, token, holder, expires)
  end
  return lost
end

-- Answers until when the origin is left alone; 0: it is not.
local function pushback(X, token, origin_key, retry_after)
  local asked = origin_index_of(origin_key)
  local origin = origin_of(asked)
  local sent_at, slowed = 0, {}
  for _, packed in ipairs(call('HVALS', keys_of.leases(X, token))) do
    local lease = read_lease(packed)
    if (lease[8] > 0 and lease[8] or lease[3]) == asked then
      sent_at = max(sent_at, lease[6])
      slowed[lease[4]] = true
    end
  end
  if origin_pushback(X, origin, sent_at, retry_after) then
    for index in pairs(slowed) do
      budget_slow_down(budget_of(index))
    end
  end
  origin_changed(X, asked)
  return origin_is_closed(origin) and origin[ORIGIN_CLOSED_UNTIL] or 0
end

on_run('settle', 'holder', function(X, request)
  local answers, unknown = settle(X, request[5], request[8])
  return answers, { 'no such node', unknown }
end)

on_run('feed', 'holder', function(X, request)
  local pushed, unknown = feed(X, request[5], request[8], request[9], request[10])
  return pushed, { 'no such node', unknown }
end)

on_run('permit', 'holder', function(X, request)
  return permit(X, request[5], request[8], request[9], request[10])
end)

on_run('renew', 'holder', function(X, request, holder)
  return renew(X, request[5], holder, request[8])
end)

on_run('pushback', 'holder', function(X, request)
  return pushback(X, request[5], request[8], request[9])
end)

on_run('check_nodes', 'looker', function(X, request)
  if X.r[RUN_FROZEN] == 1 then
    return nil, { 'frozen' }
  end
  for _, name in ipairs(request[8]) do
    local node = known_node(X, name)
    if not node or node_of(X, node)[NODE_REMOVED] == 1 then
      return nil, { 'no such node', name }
    end
  end
  return true
end)

on_run('push', 'owner', function(X, request)
  if X.r[RUN_FROZEN] == 1 then
    return nil, { 'frozen' }
  end
  local tasks = request[8]
  for position = 1, #tasks do
    local node = known_node(X, tasks[position][2])
    if not node or node_of(X, node)[NODE_REMOVED] == 1 then
      return nil, { 'no such node', tasks[position][2] }
    end
  end
  local new, duplicates = add_tasks(X, tasks)
  changed(X)
  return { new, duplicates }
end)
