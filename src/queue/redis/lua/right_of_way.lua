-- Who goes first at a budget that several runs share: weighted, without keeping anybody from what nobody uses
-- (src/queue/memory/right_of_way.rs). A budget of one run without a cap on requests under way needs none of this.

local way = {}

local function claimant_of(row, X, pool)
  for _, claimant in ipairs(row[WAY_CLAIMANTS]) do
    if claimant[CLAIMANT_RUN] == X.key and claimant[CLAIMANT_POOL] == pool then
      return claimant
    end
  end
end

local function count_runs(budget, row)
  local known, count = {}, 0
  for _, claimant in ipairs(row[WAY_CLAIMANTS]) do
    if not known[claimant[CLAIMANT_RUN]] then
      known[claimant[CLAIMANT_RUN]], count = true, count + 1
    end
  end
  budget[0] = true
  budget[BUDGET_RUNS] = count
end

-- A pool comes to the budget.
function way.enter(index, X, pool)
  local row, budget = way_of(index), budget_of(index)
  row[0] = true
  local claimants = row[WAY_CLAIMANTS]
  claimants[#claimants + 1] = { X.key, pool, row[WAY_REACHED], ASKED_NO, 0, 0, 0 }
  count_runs(budget, row)
end

-- A run's pools are gone.
function way.leave(index, X)
  local row, budget = way_of(index), budget_of(index)
  local kept = {}
  for _, claimant in ipairs(row[WAY_CLAIMANTS]) do
    if claimant[CLAIMANT_RUN] ~= X.key then
      kept[#kept + 1] = claimant
    end
  end
  row[WAY_CLAIMANTS] = kept
  if row[WAY_TURN_RUN] == X.key then
    row[WAY_TURN_RUN] = 0
  end
  row[0] = true
  count_runs(budget, row)
end

local function has_others(index, X)
  local budget = budget_of(index)
  if budget[BUDGET_RUNS] ~= 1 then
    return budget[BUDGET_RUNS] > 1
  end
  local first = way_of(index)[WAY_CLAIMANTS][1]
  return first ~= nil and first[CLAIMANT_RUN] ~= X.key
end

local function somebody_makes_way(row)
  for _, claimant in ipairs(row[WAY_CLAIMANTS]) do
    if claimant[CLAIMANT_MAKES_WAY] == 1 then
      return true
    end
  end
  return false
end

-- A pool has come. Returns whether others made way for it and are to be told that it has.
function way.comes(index, X, pool)
  local row = way_of(index)
  local claimant = claimant_of(row, X, pool)
  if not claimant then
    return false
  end
  row[0] = true
  claimant[CLAIMANT_MAKES_WAY] = 0
  local asked, until_ = claimant[CLAIMANT_ASKED], claimant[CLAIMANT_UNTIL]
  claimant[CLAIMANT_ASKED] = ASKED_NO
  if asked == ASKED_UNTIL and until_ >= now then
    claimant[CLAIMANT_ABSENCES] = 0
  elseif not (asked == ASKED_SERVED and until_ >= now) and asked ~= ASKED_CAPACITY then
    -- It was not there: absence earns nothing.
    claimant[CLAIMANT_PASS] = max(claimant[CLAIMANT_PASS], row[WAY_REACHED])
    if asked == ASKED_UNTIL then
      claimant[CLAIMANT_ABSENCES] = claimant[CLAIMANT_ABSENCES] + 1
    end
  end
  return somebody_makes_way(row)
end

-- Until when a pool must leave the budget to others; 0: it may go. Asked before it takes.
function way.makes(index, X, pool)
  local row = way_of(index)
  if row[WAY_TURN_RUN] == X.key and row[WAY_TURN_POOL] == pool and row[WAY_TURN_LEFT] > 0 and row[WAY_TURN_UNTIL] > now then
    return 0
  end
  local claimant = claimant_of(row, X, pool)
  if not claimant then
    return 0
  end
  local until_ = 0
  for _, other in ipairs(row[WAY_CLAIMANTS]) do
    local asked = other[CLAIMANT_ASKED]
    if other[CLAIMANT_RUN] ~= X.key and other[CLAIMANT_PASS] < claimant[CLAIMANT_PASS]
      and (asked == ASKED_UNTIL or asked == ASKED_SERVED) and other[CLAIMANT_UNTIL] > now then
      until_ = max(until_, other[CLAIMANT_UNTIL])
    end
  end
  if until_ > 0 then
    row[0] = true
    claimant[CLAIMANT_MAKES_WAY] = 1
    claimant[CLAIMANT_ASKED], claimant[CLAIMANT_UNTIL] = ASKED_UNTIL, until_ + GRACE
  end
  return until_
end

local function grace_of(claimant)
  return floor(GRACE / 2 ^ min(16, claimant[CLAIMANT_ABSENCES]))
end

-- A pool was told to come back at a moment.
function way.waits(index, X, pool, until_)
  local row = way_of(index)
  row[0] = true
  row[WAY_TURN_RUN] = 0
  local claimant = claimant_of(row, X, pool)
  if budget_of(index)[BUDGET_RUNS] > 1 and claimant then
    claimant[CLAIMANT_ASKED], claimant[CLAIMANT_UNTIL] = ASKED_UNTIL, until_ + grace_of(claimant)
    row[WAY_CONTENDED] = until_ + GRACE
  end
end

-- A pool was told to wait for a request of the budget to end.
function way.waits_for_capacity(index, X, pool)
  local row = way_of(index)
  row[0] = true
  row[WAY_TURN_RUN] = 0
  local claimant = claimant_of(row, X, pool)
  if claimant then
    claimant[CLAIMANT_ASKED] = ASKED_CAPACITY
  end
end

-- A request of the budget ended: who waited for that goes first. Returns whether anybody did.
function way.freed(index)
  local row, has_freed = way_of(index), false
  for _, claimant in ipairs(row[WAY_CLAIMANTS]) do
    if claimant[CLAIMANT_ASKED] == ASKED_CAPACITY then
      claimant[CLAIMANT_ASKED], claimant[CLAIMANT_UNTIL] = ASKED_UNTIL, now + grace_of(claimant)
      has_freed = true
    end
  end
  if has_freed then
    row[0] = true
  end
  return has_freed
end

-- The budget may be open sooner than some were told.
function way.opened(index)
  local row = way_of(index)
  for _, claimant in ipairs(row[WAY_CLAIMANTS]) do
    local asked = claimant[CLAIMANT_ASKED]
    if (asked == ASKED_UNTIL or asked == ASKED_SERVED) and claimant[CLAIMANT_UNTIL] > now + GRACE then
      row[0] = true
      claimant[CLAIMANT_UNTIL] = now + GRACE
    end
  end
end

-- A run hands out nothing for now: it has no right of way. Returns whether others made way.
function way.yields(index, X)
  local row = way_of(index)
  for _, claimant in ipairs(row[WAY_CLAIMANTS]) do
    if claimant[CLAIMANT_RUN] == X.key and claimant[CLAIMANT_ASKED] ~= ASKED_CAPACITY then
      row[0] = true
      claimant[CLAIMANT_ASKED] = ASKED_NO
    end
  end
  return somebody_makes_way(row)
end

-- A pool takes calls. Who has no more to do is not waited for.
function way.takes(index, X, pool_index, pool, calls, has_more, is_last)
  local row = way_of(index)
  local claimant = claimant_of(row, X, pool_index)
  if not claimant then
    return
  end
  local of_nodes = 0
  for _, other in ipairs(row[WAY_CLAIMANTS]) do
    if other[CLAIMANT_RUN] == X.key then
      of_nodes = of_nodes + pool_of(X, other[CLAIMANT_POOL])[POOL_ACTIVE]
    end
  end
  row[0] = true
  row[WAY_REACHED] = max(row[WAY_REACHED], claimant[CLAIMANT_PASS])
  local stride = floor(STRIDE * calls * max(1, of_nodes) / (X.r[RUN_WEIGHT] * max(1, pool[POOL_ACTIVE])))
  claimant[CLAIMANT_PASS] = min(NEVER, claimant[CLAIMANT_PASS] + stride)
  if has_more and row[WAY_CONTENDED] > now then
    claimant[CLAIMANT_ASKED], claimant[CLAIMANT_UNTIL] = ASKED_SERVED, row[WAY_CONTENDED]
  end
  if is_last then
    row[WAY_TURN_RUN] = 0
  elseif row[WAY_TURN_RUN] == X.key and row[WAY_TURN_POOL] == pool_index and row[WAY_TURN_LEFT] > 0 then
    row[WAY_TURN_LEFT] = row[WAY_TURN_LEFT] - 1
  else
    row[WAY_TURN_RUN], row[WAY_TURN_POOL], row[WAY_TURN_LEFT], row[WAY_TURN_UNTIL] = X.key, pool_index, TURN_TASKS - 1, now + GRACE
  end
end

-- Other runs than this are to look at a budget again.
local function touch_budget(index, X)
  if has_others(index, X) then
    touch(TOUCHED_BUDGET, index)
  end
end

-- Other runs than this are to look at an origin again.
local function touch_origin(index, X)
  local waiting = origin_of(index)[ORIGIN_WAITING]
  for position = 1, #waiting, 3 do
    if waiting[position] ~= X.key then
      touch(TOUCHED_ORIGIN, index)
      return
    end
  end
end
