-- What can be called. A request is one argument:
--   {epoch, epoch for a new instance, moment or 0, run, token or -1, fence, seen, …}
-- and the answer {status, seen, the moment, what the operation answers}: status is 'ok' or the name of a refusal. Lists that
-- go with it, of what is many and long, stand behind it as they are.

local function answer(status, seen, detail)
  return pack({ status, seen, now or 0, detail })
end

-- What drains must work when memory is used up; only what adds is refused then.
local ADDS = { open = true, push = true, set_budgets = true, set_nodes = true, begin_configure = true }

local function register(name, callback)
  redis.register_function({
    function_name = LIBRARY .. '_' .. name,
    callback = callback,
    flags = ADDS[name] and {} or { 'allow-oom' },
  })
end

local on_run, in_instance
do
-- Sees to it that the instance is the one that the caller knew. Returns a refusal or nil, and the number of the request's run.
local function enter_instance(request)
  local known = call('HMGET', P .. 'i', 'epoch', 'lapse', 'run ' .. request[4])
  local epoch = known[1]
  first_lapse = tonumber(known[2] or 0)
  if not epoch then
    if request[1] ~= '' then
      return 'emptied'
    end
    epoch = request[2]
    call('HSET', P .. 'i', 'epoch', epoch)
  end
  if request[1] ~= '' and request[1] ~= epoch then
    return 'swapped'
  end
  return nil, tonumber(known[3] or nil)
end

local function tell(X)
  if X.closes then
    call('PUBLISH', P .. 'bell', X.r[RUN_ID] .. '\n')
  elseif X.rings then
    call('PUBLISH', P .. 'bell', X.r[RUN_ID] .. '\n' .. X.r[RUN_SEQUENCE])
  end
end

local function finish(keep)
  if #touched > 0 then
    wake_others()
  end
  for _, X in pairs(runs) do
    if X then
      tell(X)
    end
  end
  if keep then
    write_back()
  end
end

-- A function that works on a request. The work gets the request and the number of its run, and returns the answer.
local function operation(name, work)
  register(name, function(keys, arguments)
    begin(keys[1])
    local request = unpack_record(arguments[1])
    local refusal, key = enter_instance(request)
    if refusal then
      return answer(refusal, 0, false)
    end
    return work(request, key)
  end)
end

local function answer_with(seen, detail, refused)
  finish(true)
  if detail == nil then
    return answer(refused[1], seen, refused[2] or false)
  end
  return answer('ok', seen, detail)
end

-- Compares what was counted with what the caller knows, and counts this too. Returns a refusal or nil, and the new number.
local function note_caller(X, who, request)
  local run, seen = X.r, request[7]
  if who ~= 'holder' then
    if run[RUN_CALLS] < seen then
      return 'rolled back', run[RUN_CALLS]
    elseif who == 'owner' then
      run[RUN_CALLS] = run[RUN_CALLS] + 1
    end
    return nil, run[RUN_CALLS]
  end
  local holder = holder_of(X, request[5])
  if not holder or holder[HOLDER_FENCE] ~= request[6] then
    return 'fenced', 0
  elseif holder[HOLDER_CALLS] < seen then
    return 'rolled back', holder[HOLDER_CALLS]
  end
  holder[HOLDER_CALLS], holder[0] = holder[HOLDER_CALLS] + 1, true
  return nil, holder[HOLDER_CALLS]
end

-- An operation on a run. `who`: 'holder' needs its holder, 'owner' counts as a change by the owner, 'looker' changes only what
-- time changes. The work gets the context, the request and the holder, and returns what it answers, or nil and a refusal.
function on_run(name, who, work)
  operation(name, function(request, key)
    local X = key and run_of(key, request[5])
    if not X or X.r[RUN_OPENING] > 0 then
      return answer('no such run', 0, false)
    end
    local run = X.r
    now = max(request[3] > 0 and request[3] or the_time(), run[RUN_NOW])
    run[RUN_NOW] = now
    if who ~= 'looker' then
      run[RUN_STEPS] = run[RUN_STEPS] + 1
    end
    lapse_all()
    end_delays(X)
    if #touched > 0 then
      wake_others()
    end
    local refusal, seen = note_caller(X, who, request)
    if refusal then
      finish(refusal == 'fenced')
      return answer(refusal, seen, false)
    end
    local answered = answer_with(seen, work(X, request, who == 'holder' and holder_of(X, request[5])))
    if X.lists then
      X.lists[1] = answered
      return X.lists
    end
    return answered
  end)
end

-- An operation on the instance, or on a run that may not be open yet.
function in_instance(name, work)
  operation(name, function(request, key)
    now = request[3] > 0 and request[3] or the_time()
    return answer_with(0, work(request, key))
  end)
end
end
