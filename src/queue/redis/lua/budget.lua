-- A budget: its hours and all of its limits bind (src/queue/gate/budget.rs, pacing.rs, slowdown.rs).

local function gap(limit, cost, permille)
  return min(NEVER, ceil(limit[LIMIT_PERIOD] * cost * 1000 / (limit[LIMIT_AMOUNT] * permille)))
end

-- The slot that comes next: that of the row, or now if it is long past.
local function slot(limit, permille)
  if limit[LIMIT_SLOT_AT] == 0 then
    return now
  end
  local next = limit[LIMIT_SLOT_AT] + gap(limit, limit[LIMIT_SLOT_COST], permille)
  local tolerated = max(floor(gap(limit, 1, permille) / 2), LATENESS)
  return now - next <= tolerated and next or now
end

-- Calls are spread if the policy says so, and while slowed down: a burst is what hurts a struggling server.
local function is_paced(budget, limit)
  return limit[LIMIT_UNIT] == UNIT_CALLS and (limit[LIMIT_EVEN] == 1 or budget[BUDGET_PERMILLE] < FULL_RATE)
end

local function limit_opens_at(index, budget, limit, calls, ahead)
  if limit[LIMIT_UNIT] ~= UNIT_CALLS then
    return window_opens_at(index, limit, 1, 0)
  end
  local opens_at = window_opens_at(index, limit, calls, ahead)
  if is_paced(budget, limit) then
    local permille = budget[BUDGET_PERMILLE]
    local next = slot(limit, permille)
    if ahead > 0 then
      next = next + gap(limit, ahead, permille)
    end
    if next > now then
      opens_at = max(opens_at, next)
    end
  end
  return opens_at
end

-- When the next of its hours begin; 0: it is open.
local function hours_begin(index, budget)
  if budget[BUDGET_HAS_HOURS] == 0 then
    return 0
  end
  if now >= budget[BUDGET_OPEN_UNTIL] then
    local hours = call('HGET', G, 'H' .. index) or ''
    local low, high = 0, #hours / 16
    while low < high do
      local middle = floor((low + high) / 2)
      if sunpack('>I8', hours, middle * 16 + 9) <= now then
        low = middle + 1
      else
        high = middle
      end
    end
    if low >= #hours / 16 then
      return now + NO_MORE_HOURS
    end
    budget[BUDGET_OPEN_FROM], budget[BUDGET_OPEN_UNTIL] = sunpack('>I8I8', hours, low * 16 + 1)
    budget[0] = true
  end
  local from = budget[BUDGET_OPEN_FROM]
  return from > now and from or 0
end

-- When all is open for so many calls, and what opens last: 0, or a moment, a gate and a unit.
local function closed_behind(index, budget, calls, ahead)
  local until_, gate, unit = 0, GATE_LIMIT, 0
  local limits = budget[BUDGET_LIMITS]
  for position = 1, #limits do
    local limit = limits[position]
    local opens_at = limit_opens_at(index, budget, limit, calls, ahead)
    if opens_at > 0 and opens_at >= until_ then
      until_, unit = opens_at, limit[LIMIT_UNIT]
    end
  end
  local from = hours_begin(index, budget)
  if from > 0 and from >= until_ then
    until_, gate = from, GATE_HOURS
  end
  return until_, gate, unit
end

-- Calls that must be left for others, who asked before: how many, and until when. `lease` is left out, and all after it.
local function ahead_of(index, budget, lease)
  if budget[BUDGET_PROMISES] == 0 then
    return 0, 0
  end
  local known, kept = promises_of(index), {}
  for _, promise in ipairs(known) do
    if promise[PROMISE_LAPSES] > now then
      kept[#kept + 1] = promise
    end
  end
  if #kept < #known then
    kept[0], budget[0] = true, true
    budget[BUDGET_PROMISES], promises[index] = #kept, kept
  end
  local calls, lapses = 0, now
  for _, promise in ipairs(kept) do
    if promise[PROMISE_LEASE] == lease then
      break
    end
    calls, lapses = calls + promise[PROMISE_CALLS], max(lapses, promise[PROMISE_LAPSES])
  end
  return calls, lapses
end

-- The same as `closed_behind`, with what is kept for others.
local function budget_closed(index, budget, calls, lease)
  local ahead, lapses = ahead_of(index, budget, lease)
  local until_, gate, unit = closed_behind(index, budget, calls, ahead)
  if ahead > 0 and until_ > 0 then
    local without = max(now, closed_behind(index, budget, calls, 0))
    until_ = min(until_, max(without, lapses))
  end
  return until_, gate, unit
end

local function counts_calls(budget)
  for _, limit in ipairs(budget[BUDGET_LIMITS]) do
    if limit[LIMIT_UNIT] == UNIT_CALLS then
      return true
    end
  end
  return false
end

-- Whether as many requests as allowed are under way. A budget that counts no calls has no rate to go slower at: it has
-- fewer places.
local function budget_is_full(budget)
  local most = budget[BUDGET_MAX]
  if most == 0 then
    return false
  end
  if budget[BUDGET_PERMILLE] < FULL_RATE and not counts_calls(budget) then
    most = max(1, ceil(most * budget[BUDGET_PERMILLE] / FULL_RATE))
  end
  return budget[BUDGET_UNDER_WAY] >= most
end

local function budget_spend(index, budget, calls)
  budget[0] = true
  for _, limit in ipairs(budget[BUDGET_LIMITS]) do
    if limit[LIMIT_UNIT] == UNIT_CALLS then
      window_charge(index, limit, now, calls)
      if is_paced(budget, limit) then
        limit[LIMIT_SLOT_AT], limit[LIMIT_SLOT_COST] = slot(limit, budget[BUDGET_PERMILLE]), calls
      end
    end
  end
end

-- Counts what a response brought.
local function budget_charge(index, budget, documents, bytes)
  if budget[BUDGET_HAS_AMOUNTS] == 0 then
    return
  end
  for _, limit in ipairs(budget[BUDGET_LIMITS]) do
    if limit[LIMIT_UNIT] == UNIT_DOCUMENTS then
      budget[0] = true
      window_charge(index, limit, now, documents)
    elseif limit[LIMIT_UNIT] == UNIT_BYTES then
      budget[0] = true
      window_charge(index, limit, now, bytes)
    end
  end
end

local function budget_slow_down(budget)
  if budget[BUDGET_FLOOR] > 0 then
    budget[0] = true
    budget[BUDGET_PERMILLE] = max(floor(budget[BUDGET_PERMILLE] / 2), min(100, max(1, budget[BUDGET_FLOOR])) * 10)
    budget[BUDGET_SLOWED_AT] = now
  end
end

-- A request sent then succeeded. Returns whether that made the budget faster.
local function budget_success(budget, sent_at)
  local before = budget[BUDGET_PERMILLE]
  if before >= FULL_RATE or sent_at <= budget[BUDGET_SLOWED_AT] then
    return false
  end
  budget[0] = true
  budget[BUDGET_PERMILLE] = min(FULL_RATE, before + max(1, floor(before / 10)))
  return true
end

-- When nothing will be left to remember, if nobody asks any more; 0: now.
local function budget_remembers_until(index, budget)
  local until_ = 0
  for _, limit in ipairs(budget[BUDGET_LIMITS]) do
    until_ = max(until_, window_remembers_until(index, limit))
  end
  if budget[BUDGET_PERMILLE] < FULL_RATE and budget[BUDGET_SLOWED_AT] + REMEMBERED > now then
    until_ = max(until_, budget[BUDGET_SLOWED_AT] + REMEMBERED)
  end
  return until_
end

-- A lease's permit was told to come back at a moment. It keeps its place.
local function keep_promise(index, budget, lease, calls, until_)
  local known = promises_of(index)
  known[0], budget[0] = true, true
  for _, promise in ipairs(known) do
    if promise[PROMISE_LEASE] == lease then
      promise[PROMISE_CALLS], promise[PROMISE_LAPSES] = calls, until_ + PATIENCE
      return
    end
  end
  known[#known + 1] = { lease, calls, until_ + PATIENCE }
  budget[BUDGET_PROMISES] = #known
end

-- A lease's permit came, or the lease ended. Returns whether something was reserved for it.
local function end_promise(index, budget, lease)
  if budget[BUDGET_PROMISES] == 0 then
    return false
  end
  local known = promises_of(index)
  for position, promise in ipairs(known) do
    if promise[PROMISE_LEASE] == lease then
      table.remove(known, position)
      known[0], budget[0] = true, true
      budget[BUDGET_PROMISES] = #known
      return true
    end
  end
  return false
end
