-- A sliding window: at most so much in any period, whatever its start (src/queue/gate/window.rs). The first and the last
-- entry stand in the limit's record, those between in a list that is there only if there are any.

local function window_key(budget, limit)
  return P .. 'w' .. budget .. ':' .. limit[LIMIT_LIST]
end

local function front_last(limit)
  return limit[LIMIT_ENTRIES] == 1 and limit[LIMIT_BACK_LAST] or limit[LIMIT_FRONT_LAST]
end

local function front_count(limit)
  return limit[LIMIT_ENTRIES] == 1 and limit[LIMIT_BACK_COUNT] or limit[LIMIT_FRONT_COUNT]
end

local function pop_front(budget, limit)
  local entries = limit[LIMIT_ENTRIES]
  if entries > 2 then
    local last, count = sunpack('>I8I7', call('LPOP', window_key(budget, limit)))
    limit[LIMIT_FRONT_LAST], limit[LIMIT_FRONT_COUNT] = last + limit[LIMIT_SHIFT], count
  end
  limit[LIMIT_ENTRIES] = entries - 1
  if entries <= 3 then
    limit[LIMIT_SHIFT] = 0
  end
end

local function push_back(budget, limit, at, count)
  local entries = limit[LIMIT_ENTRIES]
  if entries == 1 then
    limit[LIMIT_FRONT_LAST], limit[LIMIT_FRONT_COUNT] = limit[LIMIT_BACK_LAST], limit[LIMIT_BACK_COUNT]
  elseif entries > 1 then
    local entry = spack('>I8I7', limit[LIMIT_BACK_LAST] - limit[LIMIT_SHIFT], limit[LIMIT_BACK_COUNT])
    call('RPUSH', window_key(budget, limit), entry)
  end
  limit[LIMIT_BACK_FIRST], limit[LIMIT_BACK_LAST], limit[LIMIT_BACK_COUNT] = at, at, count
  limit[LIMIT_ENTRIES] = entries + 1
end

-- A shortcut for `forget` after a long pause with much debt.
local function pay_whole_rounds(budget, limit, at)
  if limit[LIMIT_DEBT] == 0 or limit[LIMIT_ENTRIES] == 0 or limit[LIMIT_USED] ~= limit[LIMIT_AMOUNT] then
    return
  end
  local elapsed = max(0, floor((at - limit[LIMIT_BACK_LAST]) / limit[LIMIT_PERIOD]))
  local rounds = min(elapsed, floor(limit[LIMIT_DEBT] / limit[LIMIT_AMOUNT]))
  if rounds == 0 then
    return
  end
  local shift = rounds * limit[LIMIT_PERIOD]
  budgets[budget][0] = true
  limit[LIMIT_DEBT] = limit[LIMIT_DEBT] - rounds * limit[LIMIT_AMOUNT]
  limit[LIMIT_FRONT_LAST] = limit[LIMIT_FRONT_LAST] + shift
  limit[LIMIT_BACK_FIRST] = limit[LIMIT_BACK_FIRST] + shift
  limit[LIMIT_BACK_LAST] = limit[LIMIT_BACK_LAST] + shift
  limit[LIMIT_SHIFT] = limit[LIMIT_ENTRIES] > 2 and limit[LIMIT_SHIFT] + shift or 0
end

-- Drops what left the window; what that frees pays debt first.
local function forget(budget, limit, at)
  if limit[LIMIT_FORGOT_AT] == at then
    return
  end
  limit[LIMIT_FORGOT_AT] = at
  pay_whole_rounds(budget, limit, at)
  local left = 4 * GRAINS
  while limit[LIMIT_ENTRIES] > 0 and left > 0 do
    local freed_at = front_last(limit) + limit[LIMIT_PERIOD]
    if freed_at > at then
      return
    end
    local count = front_count(limit)
    budgets[budget][0] = true
    pop_front(budget, limit)
    limit[LIMIT_USED] = limit[LIMIT_USED] - count
    local paid = min(limit[LIMIT_DEBT], count, max(0, limit[LIMIT_AMOUNT] - limit[LIMIT_USED]))
    if paid > 0 then
      limit[LIMIT_DEBT] = limit[LIMIT_DEBT] - paid
      limit[LIMIT_USED] = limit[LIMIT_USED] + paid
      push_back(budget, limit, freed_at, paid)
    end
    left = left - 1
  end
end

local function window_charge(budget, limit, at, count)
  forget(budget, limit, at)
  local fits = min(count, max(0, limit[LIMIT_AMOUNT] - limit[LIMIT_USED]))
  limit[LIMIT_DEBT] = min(MOST, limit[LIMIT_DEBT] + count - fits)
  if fits == 0 then
    return
  end
  limit[LIMIT_USED] = limit[LIMIT_USED] + fits
  if limit[LIMIT_ENTRIES] > 0 and at - limit[LIMIT_BACK_FIRST] < floor(limit[LIMIT_PERIOD] / GRAINS) then
    limit[LIMIT_BACK_LAST] = max(limit[LIMIT_BACK_LAST], at)
    limit[LIMIT_BACK_COUNT] = limit[LIMIT_BACK_COUNT] + fits
  else
    push_back(budget, limit, at, fits)
  end
end

-- When enough leaves the window to free `rest`.
local function freed_at(budget, limit, rest)
  local entries = limit[LIMIT_ENTRIES]
  local freed = entries > 0 and front_count(limit) or 0
  if freed >= rest then
    return front_last(limit)
  end
  local position = 0
  while position < entries - 2 do
    for _, entry in ipairs(call('LRANGE', window_key(budget, limit), position, position + 15)) do
      local last, count = sunpack('>I8I7', entry)
      freed = freed + count
      if freed >= rest then
        return last + limit[LIMIT_SHIFT]
      end
    end
    position = position + 16
  end
  return entries > 1 and freed + limit[LIMIT_BACK_COUNT] >= rest and limit[LIMIT_BACK_LAST] or nil
end

-- When `cost` may be spent so that `ahead` is left for others; 0: now.
local function window_opens_at(budget, limit, cost, ahead)
  forget(budget, limit, now)
  local amount = limit[LIMIT_AMOUNT]
  local wanted = min(cost, amount) + ahead
  if ahead > 0 and wanted > amount then
    return NEVER
  end
  local missing = limit[LIMIT_USED] + limit[LIMIT_DEBT] + wanted - amount
  if missing <= 0 then
    return 0
  end
  -- While there is debt everything that is freed pays it, so the entries come round once a period.
  local used = max(limit[LIMIT_USED], 1)
  local rounds = floor((missing - 1) / used)
  local last = freed_at(budget, limit, (missing - 1) % used + 1)
  return last and min(NEVER, last + limit[LIMIT_PERIOD] * (rounds + 1)) or 0
end

-- Changes the limit; what was spent stays spent.
local function window_resize(budget, limit, amount, period)
  forget(budget, limit, now)
  limit[LIMIT_AMOUNT], limit[LIMIT_PERIOD], limit[LIMIT_FORGOT_AT] = amount, period, 0
  local debt = limit[LIMIT_DEBT]
  limit[LIMIT_DEBT] = 0
  window_charge(budget, limit, now, debt)
end

-- When nothing will be left of what was spent; 0: now.
local function window_remembers_until(budget, limit)
  forget(budget, limit, now)
  if limit[LIMIT_ENTRIES] == 0 then
    return 0
  end
  local rounds = ceil(limit[LIMIT_DEBT] / limit[LIMIT_AMOUNT]) + 1
  return min(NEVER, limit[LIMIT_BACK_LAST] + limit[LIMIT_PERIOD] * rounds)
end

-- Deletes the entries of limits.
local function drop_lists(index, limits)
  for _, limit in ipairs(limits) do
    if limit[LIMIT_ENTRIES] > 2 then
      call('DEL', window_key(index, limit))
    end
  end
end
