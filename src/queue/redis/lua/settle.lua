-- How leases end (src/queue/memory/settle.rs), permits, and what servers said.

-- A holder's live lease; nil: it is no longer the caller's.
local function live_lease(packed, nonce)
  return packed and sub(packed, 1, 8) == nonce and read_lease(packed) or nil
end

-- Ends leases of tasks that are done, of which one stands for all: they say the same but for their nonces. What they brought
-- is told as a sum.
local function end_done(X, token, lease, count, documents, bytes)
  budget_charge(lease[4], budget_of(lease[4]), documents, bytes)
  origin_success(origin_of(lease[3]), lease[6])
  if lease[8] > 0 then
    origin_success(origin_of(lease[8]), lease[6])
  end
  local is_faster = false
  for _ = 1, count do
    if not budget_success(budget_of(lease[4]), lease[6]) then
      break
    end
    is_faster = true
  end
  if is_faster then
    budget_changed(X, lease[4])
  end
  end_leases_alike(X, token, lease, count)
  X.r[RUN_DONE] = X.r[RUN_DONE] + count
end

-- Ends the lease of a task that is not done. `detail`: {delay, why}, why, or nothing.
local function end_otherwise(X, token, id, lease, result, detail)
  local run = X.r
  end_lease(X, token, id, lease)
  if result == RESULT_RETRY then
    local delay = detail[1]
    note_failure(X, id, detail[2])
    local task = call('HGET', keys_of.all(X), id)
    local status, is_dataset, attempts, charges, queue, seq = sunpack(TASK_FORMAT, task)
    if delay > 0 and node_of(X, queue_of(X, queue)[QUEUE_NODE])[NODE_REMOVED] == 0 then
      run[RUN_DELAYED] = run[RUN_DELAYED] + 1
      task = pack_task(status, is_dataset, attempts + 1, charges, queue, seq, sub(task, TASK_HEAD + 1))
      call('HSET', keys_of.all(X), id, task)
      call('ZADD', keys_of.delayed(X), now + delay, id)
    else
      put_back(X, id, task, true, true)
    end
  elseif result == RESULT_DEAD then
    bury(X, id, detail, 1)
  elseif result == RESULT_DROPPED then
    end_task(X, id)
    run[RUN_DROPPED] = run[RUN_DROPPED] + 1
  else
    put_back(X, id, call('HGET', keys_of.all(X), id), false, false)
  end
end

-- The first node of tasks that the run never had; nil: it knows all.
local function unknown_node(X, groups)
  for _, group in ipairs(groups) do
    if not known_node(X, group[1]) then
      return group[1]
    end
  end
end

-- Settles leases: their ids, joined; nonce and result of each, or once if they are the same; documents and bytes of each; details:
-- position, detail, position, detail, … The detail of what is done is its feedback. No id comes twice.
-- Answers true if all were the caller's and nothing was found, else new, duplicates, new, duplicates, …; -1 for a lease that was
-- no longer the caller's. nil and a name: a node that the run never had.
local function settle(X, token, ids, results, amounts, listed)
  local key, all = keys_of.leases(X, token), keys_of.all(X)
  if ids == '' then
    changed(X)
    return true
  end
  local count, details = #ids / 16, {}
  for at = 1, #listed, 2 do
    local position, detail = listed[at], listed[at + 1]
    details[position] = detail
    if type(detail) == 'table' and type(detail[1]) == 'table' then
      local unknown = unknown_node(X, detail)
      if unknown then
        return nil, unknown
      end
    end
  end
  changed(X)
  local ended = { 'HMGET', key, sunpack(string.rep('c16', count), ids) }
  ended[count + 3] = nil
  local packed = call(unpack(ended))
  ended[1] = 'HDEL'
  -- Leases that end alike, one after another, are ended at once: what they say, what was said of them, and their sum.
  local held, said, lease, alike, documents, bytes, has_amounts, has_promises = nil, results, nil, 0, 0, 0, false, false
  local is_one_result = #results == 9
  local function end_alike()
    if alike > 0 then
      end_done(X, token, lease, alike, documents, bytes)
      held, alike, documents, bytes = nil, 0, 0, 0
    end
  end
  local done, m, fenced = { 'HSET', all }, 2, nil
  -- Positions of feedback that is not queued yet; what was new and what was not of that which is, by position.
  local fed, new_of, duplicates_of = {}, {}, {}
  local function queue_feedback()
    for _, position in ipairs(fed) do
      new_of[position], duplicates_of[position] = add_tasks(X, details[position])
    end
    fed = {}
  end
  local has_failing = X.r[RUN_FAILING] > 0
  for position = 1, #packed do
    local id, result, says = ended[position + 2], RESULT_DONE, results
    if not is_one_result then
      says = sub(results, 9 * position - 8, 9 * position)
    end
    if packed[position] ~= held or says ~= said then
      end_alike()
      held, said = packed[position], says
      if not held or sub(held, 1, 8) ~= sub(said, 1, 8) then
        held, fenced = nil, fenced or {}
        fenced[position] = true
      else
        lease, result = read_lease(held), byte(said, 9)
        has_amounts, has_promises = budget_of(lease[4])[BUDGET_HAS_AMOUNTS] == 1, budget_of(lease[4])[BUDGET_PROMISES] > 0
        if result ~= RESULT_DONE then
          -- It may go behind what was found before it.
          queue_feedback()
          local its_documents, its_bytes = sunpack('>I7I7', amounts, 14 * position - 13)
          budget_charge(lease[4], budget_of(lease[4]), its_documents, its_bytes)
          end_otherwise(X, token, id, lease, result, details[position])
          held = nil
        end
      end
    end
    if held then
      alike, done[m + 1], done[m + 2] = alike + 1, id, ''
      m = m + 2
      if has_amounts then
        local more_documents, more_bytes = sunpack('>I7I7', amounts, 14 * position - 13)
        documents, bytes = documents + more_documents, bytes + more_bytes
      end
      if has_promises then
        forgo_promise(X, id, held, lease[4])
      end
      if has_failing then
        forget_failures(X, id)
      end
      if details[position] then
        fed[#fed + 1] = position
      end
    end
  end
  end_alike()
  queue_feedback()
  call_many(done)
  if fenced then
    local own = { 'HDEL', key }
    for position = 1, count do
      if not fenced[position] then
        own[#own + 1] = ended[position + 2]
      end
    end
    ended = own
  end
  call_many(ended)
  if not fenced and #listed == 0 then
    return true
  end
  local answers = {}
  for position = 1, #packed do
    local nothing = fenced and fenced[position] and -1 or 0
    answers[2 * position - 1], answers[2 * position] = new_of[position] or nothing, duplicates_of[position] or nothing
  end
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
  if previous ~= asked and previous > 0 then
    leave_origin(X, previous, 1)
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
  local answers, unknown = settle(X, request[5], request[8], request[9], request[10], request[11])
  return answers, { 'no such node', unknown }
end)

-- Answers {what settling answers, what claiming answers}.
on_run('settle_and_claim', 'holder', function(X, request, holder)
  local answers, unknown = settle(X, request[5], request[8], request[9], request[10], request[11])
  if not answers then
    return nil, { 'no such node', unknown }
  end
  return { answers, claim(X, request[5], holder, request[12], request[13]) }
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
  for _, group in ipairs(tasks) do
    local node = known_node(X, group[1])
    if not node or node_of(X, node)[NODE_REMOVED] == 1 then
      return nil, { 'no such node', group[1] }
    end
  end
  local new, duplicates = add_tasks(X, tasks)
  changed(X)
  return { new, duplicates }
end)
