-- Who is next (src/queue/memory/lanes.rs), and waiting at closed gates (waiting.rs):
--
--   group ─► pool: one budget ─► lane: one origin ─► queue: one node ─► status ─► oldest
--
-- A closed budget takes its pool out of the turns, a closed origin its lanes. An origin that opens wakes one lane per
-- group and gives it the baton; when a claim has looked at that lane it goes on to the next.

do
  local of_pools, of_lanes, of_queues, of_timers = namer('tg'), namer('tp'), namer('tl'), namer('t')
  function keys_of.pools(X, group) return X.R .. of_pools(group) end
  function keys_of.lanes(X, pool) return X.R .. of_lanes(pool) end
  function keys_of.queues(X, lane) return X.R .. of_queues(lane) end
  function keys_of.timers(X, group) return X.R .. of_timers(group) end
  function keys_of.tasks(X, queue) return X.R .. field_of.q(queue) end
  function keys_of.sleepers(X, origin, group) return X.R .. 'a' .. origin .. ':' .. group end
end

-- Lists a pool that does not wait at its budget.
local function list_pool(X, index)
  local pool = pool_of(X, index)
  if pool[POOL_PARKED] == 0 and pool[TICKET] == 0 then
    local group = pool[POOL_GROUP]
    enter_turns(X, keys_of.pools(X, group), group_of(X, group), pool, index)
    X.has_woken = true
  end
end

-- Lists a lane that does not wait at its origin, and its pool.
local function list_lane(X, index)
  local lane = lane_of(X, index)
  if lane[LANE_PARKED] == 1 then
    return
  end
  local pool = lane[LANE_POOL]
  if lane[TICKET] == 0 then
    enter_turns(X, keys_of.lanes(X, pool), pool_of(X, pool), lane, index)
  end
  list_pool(X, pool)
end

-- Lists a queue that has work, and what it is part of.
local function list_queue(X, index)
  local queue = queue_of(X, index)
  if queue[TICKET] ~= 0 or queue[QUEUE_TASKS] == 0 then
    return
  end
  local node = node_of(X, queue[QUEUE_NODE])
  if node[NODE_SUSPENDED] == 1 or node[NODE_REMOVED] == 1 then
    return
  end
  local lane_index = queue[QUEUE_LANE]
  local lane = lane_of(X, lane_index)
  enter_turns(X, keys_of.queues(X, lane_index), lane, queue, index)
  local pool = pool_of(X, lane[LANE_POOL])
  lane[LANE_ACTIVE], lane[0] = lane[LANE_ACTIVE] + 1, true
  pool[POOL_ACTIVE], pool[0] = pool[POOL_ACTIVE] + 1, true
  list_lane(X, lane_index)
end

local function unlist_queue(X, index)
  local queue = queue_of(X, index)
  if queue[TICKET] == 0 then
    return
  end
  local lane = lane_of(X, queue[QUEUE_LANE])
  leave_turns(keys_of.queues(X, queue[QUEUE_LANE]), lane, queue, index)
  local pool = pool_of(X, lane[LANE_POOL])
  lane[LANE_ACTIVE], lane[0] = lane[LANE_ACTIVE] - 1, true
  pool[POOL_ACTIVE], pool[0] = pool[POOL_ACTIVE] - 1, true
end

local function leave_lane(X, index)
  local lane = lane_of(X, index)
  leave_turns(keys_of.lanes(X, lane[LANE_POOL]), pool_of(X, lane[LANE_POOL]), lane, index)
end

local function leave_pool(X, index)
  local pool = pool_of(X, index)
  leave_turns(keys_of.pools(X, pool[POOL_GROUP]), group_of(X, pool[POOL_GROUP]), pool, index)
end

-- Wakes the first waiting lane that can go, if the origin is open.
local function pass_baton(X, origin_index_, group)
  local origin = origin_of(origin_index_)
  local looks = MOST_VISITS
  while looks > 0 and origin_is_open(X, origin) do
    local woken = call('LPOP', keys_of.sleepers(X, origin_index_, group))
    if not woken then
      return
    end
    local index = tonumber(woken)
    local lane = lane_of(X, index)
    lane[LANE_PARKED], lane[0] = 0, true
    if lane[LANE_ACTIVE] > 0 then
      list_lane(X, index)
      local pool = pool_of(X, lane[LANE_POOL])
      if pool[POOL_PARKED] == 0 then
        local batons = pool[POOL_BATONS]
        batons[#batons + 1], pool[0] = index, true
        return
      end
    end
    looks = looks - 1
  end
end

local function take_baton(pool, index)
  local batons = pool[POOL_BATONS]
  for position = 1, #batons do
    if batons[position] == index then
      table.remove(batons, position)
      pool[0] = true
      return true
    end
  end
  return false
end

-- A lane was looked at: if it was woken by its origin, the next one is.
local function drop_baton(X, index)
  local lane = lane_of(X, index)
  local pool = pool_of(X, lane[LANE_POOL])
  if #pool[POOL_BATONS] > 0 and take_baton(pool, index) then
    pass_baton(X, lane[LANE_ORIGIN], pool[POOL_GROUP])
  end
end

-- Has a group look at a pool or an origin again at a moment.
local function set_timer(X, index, at, what)
  local group = group_of(X, index)
  if group[GROUP_TIMER] == 0 or at < group[GROUP_TIMER] then
    group[GROUP_TIMER], group[0] = at, true
  end
  call('ZADD', keys_of.timers(X, index), at, what)
end

-- Wakes lanes that wait for an origin, if it is open; sees to it that they are woken when its back-off ends.
local function origin_changed_for(X, index)
  local origin = origin_of(index)
  local waiting = origin[ORIGIN_WAITING]
  for position = 1, #waiting, 3 do
    if waiting[position] == X.key then
      local group = waiting[position + 1]
      if not origin_is_closed(origin) then
        pass_baton(X, index, group)
      elseif waiting[position + 2] ~= origin[ORIGIN_CLOSED_UNTIL] then
        waiting[position + 2], origin[0] = origin[ORIGIN_CLOSED_UNTIL], true
        set_timer(X, group, origin[ORIGIN_CLOSED_UNTIL], 'o' .. index)
      end
    end
  end
end

-- Wakes who waits for an origin: this run's lanes now, other runs' when the call ends.
local function origin_changed(X, index)
  if #origin_of(index)[ORIGIN_WAITING] > 0 then
    origin_changed_for(X, index)
    touch_origin(index, X)
  end
end

-- Lets a lane wait at its origin.
local function park_lane(X, index)
  leave_lane(X, index)
  local lane = lane_of(X, index)
  lane[LANE_PARKED], lane[0] = 1, true
  local pool = pool_of(X, lane[LANE_POOL])
  take_baton(pool, index)
  local origin_at, group = lane[LANE_ORIGIN], pool[POOL_GROUP]
  call('RPUSH', keys_of.sleepers(X, origin_at, group), index)
  local origin = origin_of(origin_at)
  local waiting = origin[ORIGIN_WAITING]
  local is_known = false
  for position = 1, #waiting, 3 do
    is_known = is_known or (waiting[position] == X.key and waiting[position + 1] == group)
  end
  if not is_known then
    local n = #waiting
    waiting[n + 1], waiting[n + 2], waiting[n + 3] = X.key, group, 0
    origin[0] = true
  end
  origin_changed_for(X, origin_at)
end

-- Takes a pool out of the turns until its budget opens: at a moment, or (-1) when a request of it ends.
local function park_pool(X, index, parked)
  leave_pool(X, index)
  local pool = pool_of(X, index)
  pool[POOL_PARKED], pool[0] = parked, true
  if parked > 0 then
    set_timer(X, pool[POOL_GROUP], parked, 'p' .. index)
  end
  local batons = pool[POOL_BATONS]
  pool[POOL_BATONS] = {}
  for _, lane in ipairs(batons) do
    pass_baton(X, lane_of(X, lane)[LANE_ORIGIN], pool[POOL_GROUP])
  end
end

local function open_pool(X, index)
  local pool = pool_of(X, index)
  pool[POOL_PARKED], pool[0] = 0, true
  if pool[POOL_ACTIVE] > 0 then
    list_pool(X, index)
  end
end

-- Opens this run's pools that wait at a budget: all, or those that wait for a request of it to end.
local function open_pools(X, budget, only_for_capacity)
  for _, claimant in ipairs(way_of(budget)[WAY_CLAIMANTS]) do
    if claimant[CLAIMANT_RUN] == X.key then
      local parked = pool_of(X, claimant[CLAIMANT_POOL])[POOL_PARKED]
      if parked == -1 or (parked > 0 and not only_for_capacity) then
        open_pool(X, claimant[CLAIMANT_POOL])
      end
    end
  end
end

-- Has a budget looked at again that may be open sooner than was said.
local function budget_changed(X, index)
  way.opened(index)
  if not budget_is_full(budget_of(index)) then
    way.freed(index)
  end
  open_pools(X, index, false)
  touch_budget(index, X)
end

-- Wakes what opens by now for a group. Returns whether more is left than one call does.
local function advance_group(X, group)
  local record = group_of(X, group)
  if record[GROUP_TIMER] == 0 or record[GROUP_TIMER] > now then
    return false
  end
  local key = keys_of.timers(X, group)
  local due = call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, MOST_TIMERS)
  if #due > 0 then
    call('ZREMRANGEBYRANK', key, 0, #due - 1)
  end
  record[GROUP_TIMER], record[0] = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or 0), true
  for _, timer in ipairs(due) do
    local index = tonumber(sub(timer, 2))
    if byte(timer) == 112 then -- p
      local parked = pool_of(X, index)[POOL_PARKED]
      if parked > 0 and parked <= now then
        open_pool(X, index)
      end
    else
      local origin = origin_of(index)
      local waiting = origin[ORIGIN_WAITING]
      for position = 1, #waiting, 3 do
        if waiting[position] == X.key and waiting[position + 1] == group then
          waiting[position + 2], origin[0] = 0, true
        end
      end
      origin_changed_for(X, index)
    end
  end
  return #due == MOST_TIMERS
end

-- When the next gate opens for a group by time alone; 0: none does. Drops timers that say nothing any more.
local function next_opening(X, group)
  local key = keys_of.timers(X, group)
  for _ = 1, MOST_TIMERS do
    local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if not first[1] then
      return 0
    end
    local index, until_ = tonumber(sub(first[1], 2)), tonumber(first[2])
    local is_current = false
    if byte(first[1]) == 112 then
      is_current = pool_of(X, index)[POOL_PARKED] == until_
    else
      local waiting = origin_of(index)[ORIGIN_WAITING]
      for position = 1, #waiting, 3 do
        is_current = is_current
          or (waiting[position] == X.key and waiting[position + 1] == group and waiting[position + 2] == until_)
      end
    end
    if is_current then
      return until_
    end
    call('ZREM', key, first[1])
  end
  return now
end

-- The pool of a budget and a group, and in it the lane of an origin; each is made when it is asked for first.
local function pool_for(X, budget, group)
  local field = 'P' .. budget .. ':' .. group
  local index = X.names[field] or tonumber(call('HGET', X.m, field) or nil)
  if not index then
    X.r[RUN_POOLS] = X.r[RUN_POOLS] + 1
    index = X.r[RUN_POOLS]
    call('HSET', X.m, field, index)
    X.p[index] = { budget, group, 0, 0, 0, 0, 0, 0, 0, 0, {}, [0] = true }
    way.enter(budget, X, index)
  end
  X.names[field] = index
  return index
end

local function lane_for(X, origin_at, budget, group)
  local pool = pool_for(X, budget, group)
  local field = 'L' .. origin_at .. ':' .. pool
  local index = X.names[field] or tonumber(call('HGET', X.m, field) or nil)
  if not index then
    X.r[RUN_LANES] = X.r[RUN_LANES] + 1
    index = X.r[RUN_LANES]
    call('HSET', X.m, field, index)
    X.l[index] = { origin_at, pool, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, now, [0] = true }
    local origin = origin_of(origin_at)
    origin[ORIGIN_USERS], origin[0] = origin[ORIGIN_USERS] + 1, true
  end
  X.names[field] = index
  return index
end

-- The queue of a node's tasks for an origin.
local function queue_for(X, node_index, origin_at)
  local node = node_of(X, node_index)
  local queues = node[NODE_QUEUES]
  for position = 1, #queues, 2 do
    if queues[position] == origin_at then
      return queues[position + 1]
    end
  end
  local lane = lane_for(X, origin_at, node[NODE_BUDGET], node[NODE_GROUP])
  X.r[RUN_QUEUES] = X.r[RUN_QUEUES] + 1
  local index = X.r[RUN_QUEUES]
  X.q[index] = { node_index, lane, 0, 0, 0, 0, [0] = true }
  local n = #queues
  queues[n + 1], queues[n + 2], node[0] = origin_at, index, true
  return index
end

-- Moves a queue to another lane, with its tasks.
local function move_queue(X, index, lane_index)
  unlist_queue(X, index)
  local queue = queue_of(X, index)
  local tasks = queue[QUEUE_TASKS] + queue[QUEUE_SUSPECTS]
  local from, to = lane_of(X, queue[QUEUE_LANE]), lane_of(X, lane_index)
  from[LANE_QUEUED], from[0] = from[LANE_QUEUED] - tasks, true
  to[LANE_QUEUED], to[0] = to[LANE_QUEUED] + tasks, true
  if queue[QUEUE_LANE] ~= lane_index then
    queue[PASS] = 0
  end
  queue[QUEUE_LANE], queue[0] = lane_index, true
  list_queue(X, index)
end

local function group_for(X, name)
  local field = 'G' .. name
  local index = X.names[field] or tonumber(call('HGET', X.m, field) or nil)
  if not index then
    X.r[RUN_GROUPS] = X.r[RUN_GROUPS] + 1
    index = X.r[RUN_GROUPS]
    call('HSET', X.m, field, index)
    X.g[index] = { name, 0, 0, 0, 0, 0, 0, 0, 0, [0] = true }
  end
  X.names[field] = index
  return index
end

-- A node of the present or an earlier configuration; nil: there is none.
local function known_node(X, name)
  local index = X.nodes[name]
  if index == nil then
    index = call('HGET', X.m, 'N' .. name)
    index = index and tonumber(index) or false
    X.nodes[name] = index
  end
  return index or nil
end

-- Lets the runs that wait at gates which were touched look at them again.
local function wake_others()
  local position = 1
  while position < #touched and position < 2000 do
    local kind, index = touched[position], touched[position + 1]
    local concerned = {}
    if kind == TOUCHED_ORIGIN then
      local waiting = origin_of(index)[ORIGIN_WAITING]
      for at = 1, #waiting, 3 do
        concerned[waiting[at]] = true
      end
    else
      for _, claimant in ipairs(way_of(index)[WAY_CLAIMANTS]) do
        concerned[claimant[CLAIMANT_RUN]] = true
      end
    end
    for key in pairs(concerned) do
      local X = run_of(key)
      if X then
        X.has_woken = false
        if kind == TOUCHED_FREED then
          open_pools(X, index, true)
        elseif kind == TOUCHED_BUDGET then
          open_pools(X, index, false)
        else
          origin_changed_for(X, index)
        end
        if X.has_woken then
          changed(X)
        end
      end
    end
    position = position + 2
  end
  touched = {}
end
