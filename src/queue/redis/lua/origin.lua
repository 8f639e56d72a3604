-- What protects an origin, whatever the policy: a cap on requests under way, and back-off (src/queue/gate/origin.rs).

local function origin_is_closed(origin)
  return origin[ORIGIN_CLOSED_UNTIL] > now
end

local function origin_is_full(X, origin)
  return origin[ORIGIN_UNDER_WAY] >= X.r[RUN_ORIGIN_MAX]
end

local function origin_is_open(X, origin)
  return origin[ORIGIN_CLOSED_UNTIL] <= now and origin[ORIGIN_UNDER_WAY] < X.r[RUN_ORIGIN_MAX]
end

local function origin_began(origin)
  origin[0] = true
  origin[ORIGIN_UNDER_WAY] = origin[ORIGIN_UNDER_WAY] + 1
end

local function origin_sent(origin)
  origin[0] = true
  origin[ORIGIN_SENT_AT] = now
end

local function origin_success(origin, sent_at)
  if origin[ORIGIN_EVENTS] > 0 and sent_at > origin[ORIGIN_EVENT_AT] then
    origin[0] = true
    origin[ORIGIN_EVENTS] = 0
  end
end

-- A pushback. `sent_at`: when the request that it answers was sent; 0: not known. `asked`: what the server asked for; 0:
-- nothing. Returns whether it is a new event.
local function origin_pushback(X, origin, sent_at, asked)
  local run = X.r
  local sent = sent_at > 0 and sent_at or origin[ORIGIN_SENT_AT]
  local is_new = origin[ORIGIN_EVENT_AT] == 0 or (not origin_is_closed(origin) and sent > origin[ORIGIN_EVENT_AT])
  if is_new then
    origin[ORIGIN_EVENTS], origin[ORIGIN_EVENT_AT] = origin[ORIGIN_EVENTS] + 1, now
  end
  local pause = 0
  if asked > 0 then
    pause = min(asked, run[RUN_ORIGIN_LONGEST])
  elseif is_new then
    pause = min(run[RUN_ORIGIN_INITIAL] * 2 ^ min(40, origin[ORIGIN_EVENTS] - 1), run[RUN_ORIGIN_LONGEST])
  end
  if pause > 0 then
    origin[ORIGIN_CLOSED_UNTIL] = max(origin[ORIGIN_CLOSED_UNTIL], now + pause)
  end
  origin[0] = true
  return is_new
end

local function origin_remembers_until(origin)
  local until_ = origin[ORIGIN_CLOSED_UNTIL]
  if origin[ORIGIN_EVENTS] > 0 then
    until_ = max(until_, origin[ORIGIN_EVENT_AT] + REMEMBERED)
  end
  return until_ > now and until_ or 0
end

-- An origin's index, also one that no task has.
local function origin_index_of(key)
  local index = origin_index[key]
  if index == nil then
    index = call('HGET', G, 'O' .. key)
    if index then
      index = tonumber(index)
    else
      index = call('HINCRBY', P .. 'i', 'origins', 1)
      call('HSET', G, 'O' .. key, index)
      origins[index] = { key, 0, 0, 0, 0, 0, 0, {}, [0] = true }
      -- Nobody may ever come to it: it is looked at again.
      call('ZADD', P .. 'z', now + REMEMBERED, 'o' .. index)
    end
    origin_index[key] = index
  end
  return index
end
