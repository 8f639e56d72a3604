-- What can be called. A request is one argument:
--   {epoch, epoch for a new instance, moment or 0, run, token or -1, fence, seen, …}
-- and the answer {status, seen, the moment, what the operation answers}: status is 'ok' or the name of a refusal.

local function answer(status, seen, detail)
  return pack({ status, seen, now or 0, detail })
end

-- Sees to it that the instance is the one that the caller knew. Returns a refusal, or nil.
local function check_epoch(request)
  local epoch = call('HGET', P .. 'i', 'epoch')
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

-- What drains must work when memory is used up; only what adds is refused then.
local ADDS = { open = true, push = true, set_budgets = true, set_nodes = true, begin_configure = true }

local function register(name, callback)
  redis.register_function({
    function_name = LIBRARY .. '_' .. name,
    callback = callback,
    flags = ADDS[name] and {} or { 'allow-oom' },
  })
end

-- An operation on a run. `who`: 'holder' needs its holder, 'owner' counts as a change by the owner, 'looker' changes only what
-- time changes. The work gets the context, the request and the holder, and returns what it answers, or nil and a refusal.
local function on_run(name, who, work)
  register(name, function(keys, arguments)
    begin(keys[1])
    local request = unpack_record(arguments[1])
    local refusal = check_epoch(request)
    if refusal then
      return answer(refusal, 0, false)
    end
    local key = call('HGET', P .. 'r', request[4])
    local X = key and run_of(tonumber(key))
    if not X or X.r[RUN_OPENING] > 0 then
      return answer('no such run', 0, false)
    end
    local run, token, holder, seen = X.r, request[5], nil, request[7]
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
    if who == 'holder' then
      holder = holder_of(X, token)
      if not holder or holder[HOLDER_FENCE] ~= request[6] then
        finish(true)
        return answer('fenced', 0, false)
      elseif holder[HOLDER_CALLS] < seen then
        return answer('rolled back', holder[HOLDER_CALLS], false)
      end
      holder[HOLDER_CALLS], holder[0] = holder[HOLDER_CALLS] + 1, true
      seen = holder[HOLDER_CALLS]
    else
      if run[RUN_CALLS] < seen then
        return answer('rolled back', run[RUN_CALLS], false)
      end
      if who == 'owner' then
        run[RUN_CALLS] = run[RUN_CALLS] + 1
      end
      seen = run[RUN_CALLS]
    end
    local detail, refused = work(X, request, holder)
    finish(true)
    if detail == nil then
      return answer(refused[1], seen, refused[2] or false)
    end
    return answer('ok', seen, detail)
  end)
end

-- An operation on the instance, or on a run that may not be open yet.
local function in_instance(name, work)
  register(name, function(keys, arguments)
    begin(keys[1])
    local request = unpack_record(arguments[1])
    local refusal = check_epoch(request)
    if refusal then
      return answer(refusal, 0, false)
    end
    now = request[3] > 0 and request[3] or the_time()
    local detail, refused = work(request)
    finish(true)
    if detail == nil then
      return answer(refused[1], 0, refused[2] or false)
    end
    return answer('ok', 0, detail)
  end)
end
