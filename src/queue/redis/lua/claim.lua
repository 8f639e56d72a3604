-- A claim (src/queue/memory/run.rs, lanes.rs, suspects.rs).

local claim, earliest, suspect_waits_for
do

-- What a queue's next tasks are: ids and values from a position on, so many read at once.
local function next_tasks(X, index, wanted)
  local ahead = X.ahead[index]
  if ahead == nil then
    ahead = { ids = {}, values = {}, position = 1, taken = 0 }
    X.ahead[index] = ahead
  end
  if ahead.position > #ahead.ids then
    ahead.ids, ahead.position = call('ZRANGE', keys_of.tasks(X, index), digits(ahead.taken), digits(ahead.taken + wanted - 1)), 1
    ahead.values = #ahead.ids > 0 and call('HMGET', keys_of.all(X), unpack(ahead.ids)) or {}
  end
  return ahead
end

-- Takes what was handed out off the queues.
local function remove_taken(X)
  for index, ahead in pairs(X.ahead) do
    if ahead.taken > 0 then
      call('ZREMRANGEBYRANK', keys_of.tasks(X, index), '0', digits(ahead.taken - 1))
    end
  end
end

-- Priority 0 has one turn; each step up one more, to ten; each step down makes the wait one longer, to ten.
local function node_stride(priority)
  local weight = min(9, math.abs(priority)) + 1
  return priority < 0 and NODE_STRIDE * weight or NODE_STRIDE / weight
end

-- Whether a pool may look for a task at its budget; if not, it waits.
local function comes_to_budget(X, index, pool)
  local budget_index = pool[POOL_BUDGET]
  local budget = budget_of(budget_index)
  local is_shared = budget[BUDGET_RUNS] > 1
  local others_made_way = is_shared and way.comes(budget_index, X, index)
  local parked = 0
  if budget_is_full(budget) then
    way.waits_for_capacity(budget_index, X, index)
    parked = -1
  elseif is_shared then
    parked = way.makes(budget_index, X, index)
  end
  -- They can't go where this one can't: when the budget opens they are there by themselves.
  if others_made_way and parked == 0 and budget_closed(budget_index, budget, 1, nil) == 0 then
    open_pools(X, budget_index, false)
    touch_budget(budget_index, X)
  end
  if parked ~= 0 then
    park_pool(X, index, parked)
    return false
  end
  return true
end

-- Takes what the gates charge for tasks that left their queue.
local function spend(X, queue, calls, has_more, tasks)
  local lane = lane_of(X, queue[QUEUE_LANE])
  lane[LANE_QUEUED], lane[LANE_LEASED], lane[LANE_SINCE], lane[0] = lane[LANE_QUEUED] - tasks, lane[LANE_LEASED] + tasks, now, true
  local pool_index = lane[LANE_POOL]
  local pool = pool_of(X, pool_index)
  local budget_index = pool[POOL_BUDGET]
  local budget = budget_of(budget_index)
  budget_spend(budget_index, budget, calls * tasks)
  budget[BUDGET_UNDER_WAY], budget[0] = budget[BUDGET_UNDER_WAY] + tasks, true
  if budget[BUDGET_RUNS] > 1 then
    has_more = has_more or pool[POOL_ACTIVE] > 1
    way.takes(budget_index, X, pool_index, pool, calls, has_more, budget_is_full(budget))
  end
  local origin = origin_of(lane[LANE_ORIGIN])
  origin[ORIGIN_UNDER_WAY], origin[ORIGIN_SENT_AT], origin[0] = origin[ORIGIN_UNDER_WAY] + tasks, now, true
  return lane, budget_index
end

-- Leases tasks of a queue to the claiming holder: those from a position on in these lists.
local function grant(X, hand, ids, values, from, tasks, queue, lane, lane_index, budget_index, calls)
  local last = from + tasks - 1
  if hand.queue ~= queue then
    hand.queue = queue
    if from == 1 and last == #ids then
      hand.ids, hand.values = ids, values
    else
      hand.ids, hand.values = { unpack(ids, from, last) }, { unpack(values, from, last) }
    end
    local rows, lists = hand.rows, hand.lists
    local n = #rows
    rows[n + 1], rows[n + 2] = node_of(X, queue[QUEUE_NODE])[NODE_NAME], origin_of(lane[LANE_ORIGIN])[ORIGIN_KEY]
    lists[n + 2], lists[n + 3] = hand.ids, hand.values
  else
    for position = from, last do
      hand.ids[#hand.ids + 1], hand.values[#hand.values + 1] = ids[position], values[position]
    end
  end
  local lease = spack(LEASE_FORMAT, hand.nonce, lane_index, lane[LANE_ORIGIN], budget_index, calls, now, hand.expires, 0)
  local leases, m = hand.leases, hand.lease_count
  for position = from, last do
    leases[m + 1], leases[m + 2] = ids[position], lease
    m = m + 2
  end
  hand.lease_count = m
  hand.count = hand.count + tasks
end

-- How many of a queue's tasks can go at once, without looking at the gates between them: what is decided for the first holds
-- for them all. At a budget that runs share, or that spreads its calls, each is looked at.
local function tasks_at_once(X, hand, group, pool, lane, queue, budget, origin)
  if budget[BUDGET_RUNS] > 1 or budget[BUDGET_PROMISES] > 0 or budget[BUDGET_PERMILLE] < FULL_RATE then
    return 1
  end
  local tasks = min(hand.max - hand.count, group[LEFT], pool[LEFT], lane[LEFT], queue[QUEUE_TASKS])
  tasks = min(tasks, X.r[RUN_ORIGIN_MAX] - origin[ORIGIN_UNDER_WAY])
  if budget[BUDGET_MAX] > 0 then
    tasks = min(tasks, budget[BUDGET_MAX] - budget[BUDGET_UNDER_WAY])
  end
  for _, limit in ipairs(budget[BUDGET_LIMITS]) do
    if limit[LIMIT_UNIT] == UNIT_CALLS then
      if limit[LIMIT_EVEN] == 1 then
        return 1
      end
      tasks = min(tasks, limit[LIMIT_AMOUNT] - limit[LIMIT_USED] - limit[LIMIT_DEBT])
    end
  end
  return max(1, tasks)
end

-- Hands out the next task of a pool. Returns false if the pool has none that may go: it has left the turns then.
local function next_of_pool(X, hand, group_index, pool_index)
  local pool = pool_of(X, pool_index)
  if not comes_to_budget(X, pool_index, pool) then
    return false
  end
  local budget_index = pool[POOL_BUDGET]
  local budget = budget_of(budget_index)
  while hand.visits > 0 do
    local lane_index = first_turn(X, keys_of.lanes(X, pool_index), pool, lane_of)
    if not lane_index then
      leave_pool(X, pool_index)
      return false
    end
    local lane = lane_of(X, lane_index)
    local queue_index = nil
    if not origin_is_open(X, origin_of(lane[LANE_ORIGIN])) then
      hand.visits = hand.visits - 1
      park_lane(X, lane_index)
    else
      queue_index = first_turn(X, keys_of.queues(X, lane_index), lane, queue_of)
      if not queue_index then
        hand.visits = hand.visits - 1
        leave_lane(X, lane_index)
        drop_baton(X, lane_index)
      end
    end
    if queue_index then
      local queue = queue_of(X, queue_index)
      local node = node_of(X, queue[QUEUE_NODE])
      local calls, ahead = 1, nil
      if node[NODE_CALLS] > 1 then
        ahead = next_tasks(X, queue_index, min(hand.max - hand.count, lane[LEFT]))
        if byte(ahead.values[ahead.position] or '\0\0', 2) == 1 then
          calls = node[NODE_CALLS]
        end
      end
      local until_ = budget_closed(budget_index, budget, calls, nil)
      if until_ > 0 then
        if budget[BUDGET_RUNS] > 1 then
          way.waits(budget_index, X, pool_index, until_)
        end
        park_pool(X, pool_index, until_)
        return false
      end
      local group, tasks = group_of(X, group_index), 1
      if node[NODE_CALLS] == 1 then
        tasks = tasks_at_once(X, hand, group, pool, lane, queue, budget, origin_of(lane[LANE_ORIGIN]))
      end
      ahead = ahead or next_tasks(X, queue_index, min(hand.max - hand.count, lane[LEFT]))
      local from = ahead.position
      tasks = min(tasks, #ahead.ids - from + 1)
      if tasks == 0 then
        -- Less stands there than was counted: `audit` says so; others must not wait for it.
        queue[QUEUE_TASKS], queue[0] = 0, true
        unlist_queue(X, queue_index)
        return true
      end
      ahead.taken, ahead.position = ahead.taken + tasks, from + tasks
      queue[QUEUE_TASKS], queue[0] = queue[QUEUE_TASKS] - tasks, true
      local is_last = queue[QUEUE_TASKS] == 0
      spend(X, queue, calls, not is_last, tasks)
      grant(X, hand, ahead.ids, ahead.values, from, tasks, queue, lane, lane_index, budget_index, calls)
      served(lane, queue, node_stride(node[NODE_PRIORITY]), tasks)
      served(pool, lane, floor(STRIDE / max(1, lane[LANE_ACTIVE])), tasks)
      served(group, pool, floor(STRIDE / max(1, pool[POOL_ACTIVE])), tasks)
      if is_last then
        unlist_queue(X, queue_index)
      end
      drop_baton(X, lane_index)
      return true
    end
  end
  return false
end

-- The gate that keeps the first suspect of a queue, and when it opens; 0: none does.
function suspect_waits_for(X, queue, value)
  local lane = lane_of(X, queue[QUEUE_LANE])
  local origin = origin_of(lane[LANE_ORIGIN])
  if origin_is_closed(origin) then
    return origin[ORIGIN_CLOSED_UNTIL], GATE_BACK_OFF, 0
  elseif origin_is_full(X, origin) then
    return now + LOOK_AGAIN, GATE_ORIGIN_FULL, 0
  end
  local budget_index = pool_of(X, lane[LANE_POOL])[POOL_BUDGET]
  local budget = budget_of(budget_index)
  if budget_is_full(budget) then
    return now + LOOK_AGAIN, GATE_BUDGET_FULL, 0
  end
  local calls = byte(value, 2) == 1 and node_of(X, queue[QUEUE_NODE])[NODE_CALLS] or 1
  return budget_closed(budget_index, budget, calls, nil)
end

-- The first suspect of each queue of a group that may be handed out: id, value, queue. Looks at so many queues.
local function first_suspects(X, group)
  local found = {}
  if X.r[RUN_SUSPECTS] == 0 then
    return found
  end
  local key, from = keys_of.suspects(X), '-inf'
  for _ = 1, MOST_SUSPECT_QUEUES do
    local id = call('ZRANGEBYSCORE', key, from, '+inf', 'LIMIT', 0, 1)[1]
    if not id then
      break
    end
    local value = call('HGET', keys_of.all(X), id)
    local _, _, _, _, index = sunpack(TASK_FORMAT, value)
    local queue = queue_of(X, index)
    local node = node_of(X, queue[QUEUE_NODE])
    local pool = pool_of(X, lane_of(X, queue[QUEUE_LANE])[LANE_POOL])
    if pool[POOL_GROUP] == group and node[NODE_SUSPENDED] == 0 and node[NODE_REMOVED] == 0 then
      found[#found + 1] = { id, value, index }
    end
    from = place_of_suspect(index + 1, 0)
  end
  return found
end

local function is_another_free(X, token, group)
  if X.r[RUN_HOLDERS] < 2 then
    return false
  end
  for _, other in ipairs(tokens_of(X)) do
    local holder = other ~= token and holder_of(X, other)
    if holder and holder[HOLDER_GROUP] == group and holder[HOLDER_UNDER_WAY] > 0
      and (holder[HOLDER_ALONE] == 1 or holder[HOLDER_DRAINING] == 1) then
      return true
    end
  end
  return false
end

-- What a holder may be given: a suspect is worked on alone.
local function offer(X, token, holder, group, most)
  if holder[HOLDER_ALONE] == 1 then
    return OFFER_NOTHING
  end
  if most == 0 or X.r[RUN_SUSPECTS] == 0 then
    return OFFER_ANY
  end
  local is_busy = holder[HOLDER_UNDER_WAY] > 0
  local open = nil
  for _, suspect in ipairs(first_suspects(X, group)) do
    if not open and suspect_waits_for(X, queue_of(X, suspect[3]), suspect[2]) == 0 then
      open = suspect
    end
  end
  local is_draining = is_busy and open ~= nil and not is_another_free(X, token, group)
  holder[HOLDER_DRAINING], holder[0] = is_draining and 1 or 0, true
  if open and not is_busy then
    return OFFER_SUSPECT, open
  end
  return is_draining and OFFER_NOTHING or OFFER_ANY
end

local function hand_out_suspect(X, hand, suspect)
  local id, value, index = suspect[1], suspect[2], suspect[3]
  local queue = queue_of(X, index)
  call('ZREM', keys_of.suspects(X), id)
  queue[QUEUE_SUSPECTS], queue[0] = queue[QUEUE_SUSPECTS] - 1, true
  X.r[RUN_SUSPECTS] = X.r[RUN_SUSPECTS] - 1
  local calls = byte(value, 2) == 1 and node_of(X, queue[QUEUE_NODE])[NODE_CALLS] or 1
  local lane, budget_index = spend(X, queue, calls, queue[QUEUE_TASKS] > 0, 1)
  grant(X, hand, { id }, { value }, 1, 1, queue, lane, queue[QUEUE_LANE], budget_index, calls)
  hand.is_alone = true
end

function earliest(a, b)
  if a == 0 then
    return b
  end
  return b == 0 and a or min(a, b)
end

-- The earliest moment at which time alone can make something claimable.
local function next_change(X, group)
  local at = next_opening(X, group)
  for _, suspect in ipairs(first_suspects(X, group)) do
    at = earliest(at, (suspect_waits_for(X, queue_of(X, suspect[3]), suspect[2])))
  end
  at = earliest(at, next_delay(X))
  at = earliest(at, next_lapse())
  return at == 0 and now + UNTIMED or at
end

-- What the holder's last claim gave: its answer was lost.
local function claimed_before(X, token, nonce)
  local rows, lists = {}, { '' }
  local leases = call('HGETALL', keys_of.leases(X, token))
  for position = 1, #leases, 2 do
    local id, lease = leases[position], read_lease(leases[position + 1])
    if lease[1] == nonce then
      local value = call('HGET', keys_of.all(X), id)
      local _, _, _, _, queue = sunpack(TASK_FORMAT, value)
      local name = node_of(X, queue_of(X, queue)[QUEUE_NODE])[NODE_NAME]
      local n = #rows
      rows[n + 1], rows[n + 2] = name, origin_of(lease[3])[ORIGIN_KEY]
      lists[n + 2], lists[n + 3] = { id }, { value }
    end
  end
  X.lists = #rows > 0 and lists or nil
  return #rows > 0 and { 'tasks', rows } or { 'wait', now, X.r[RUN_SEQUENCE] }
end

-- Answers {'tasks', node, origin, node, …} and, beside it, lists of ids and values for each of these | {'wait', until, sequence} | {'drained'} | {'frozen'}.
function claim(X, token, holder, most, nonce)
  local run = X.r
  if run[RUN_FROZEN] == 1 then
    return { 'frozen' }
  end
  if holder[HOLDER_NONCE] == nonce then
    return claimed_before(X, token, nonce)
  end
  holder[HOLDER_NONCE], holder[0] = nonce, true
  local group = holder[HOLDER_GROUP]
  local has_more_timers = advance_group(X, group)
  X.ahead = {}
  local hand = { max = most, count = 0, nonce = nonce, expires = now + run[RUN_LEASE], visits = MOST_VISITS }
  hand.rows, hand.lists, hand.leases, hand.lease_count = {}, { '' }, { 'HSET', keys_of.leases(X, token) }, 2
  local offered, suspect = offer(X, token, holder, group, most)
  if offered == OFFER_SUSPECT then
    hand_out_suspect(X, hand, suspect)
  end
  while offered == OFFER_ANY and hand.count < most and hand.visits > 0 do
    local pool = first_turn(X, keys_of.pools(X, group), group_of(X, group), pool_of)
    if not pool then
      break
    end
    if not next_of_pool(X, hand, group, pool) then
      hand.visits = hand.visits - 1
    end
  end
  if hand.count > 0 then
    remove_taken(X)
    call(unpack(hand.leases))
    run[RUN_QUEUED], run[RUN_LEASED] = run[RUN_QUEUED] - hand.count, run[RUN_LEASED] + hand.count
    holder[HOLDER_UNDER_WAY], holder[0] = holder[HOLDER_UNDER_WAY] + hand.count, true
    holder[HOLDER_ALONE] = hand.is_alone and 1 or 0
    watch_holder(X, token, holder, hand.expires)
    X.lists = hand.lists
    return { 'tasks', hand.rows }
  end
  if run[RUN_QUEUED] + run[RUN_DELAYED] + run[RUN_LEASED] == 0 then
    return { 'drained' }
  end
  run[RUN_SOMEONE_WAITS] = 1
  local until_ = now
  if most > 0 and not has_more_timers and hand.visits > 0 then
    if offered == OFFER_ANY then
      until_ = next_change(X, group)
    else
      until_ = next_lapse()
      until_ = until_ == 0 and now + UNTIMED or until_
    end
  end
  return { 'wait', until_, run[RUN_SEQUENCE] }
end

on_run('claim', 'holder', function(X, request, holder)
  return claim(X, request[5], holder, request[8], request[9])
end)
end
