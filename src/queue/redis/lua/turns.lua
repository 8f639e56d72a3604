-- Taking turns, weighted: stride scheduling with a quantum (src/queue/memory/turns.rs). Who is listed stands in a sorted
-- set by pass, then by ticket; whose turn it is stands in its giver's record instead.

-- Members differ by what orders them, so that all scores are nothing: Redis is slow at numbers.
local function turn_member(member, index)
  return spack('>I7I5I4', member[PASS], member[TICKET], index)
end

-- Lists a member behind those with an equal pass.
local function enter_turns(X, key, giver, member, index)
  local run = X.r
  run[RUN_TICKETS] = run[RUN_TICKETS] + 1
  member[PASS] = max(member[PASS], giver[REACHED])
  member[TICKET], member[0] = run[RUN_TICKETS], true
  giver[LISTED], giver[0] = giver[LISTED] + 1, true
  call('ZADD', key, '0', turn_member(member, index))
end

-- Takes a member off the list.
local function leave_turns(key, giver, member, index)
  if member[TICKET] == 0 then
    return
  end
  if giver[CURRENT] == index then
    giver[CURRENT], giver[0] = 0, true
  else
    giver[LISTED], giver[0] = giver[LISTED] - 1, true
    call('ZREM', key, turn_member(member, index))
  end
  member[TICKET], member[0] = 0, true
end

-- Whose turn it is; nil: nobody is listed.
local function first_turn(X, key, giver, member_of)
  local current = giver[CURRENT]
  if current ~= 0 and giver[LEFT] > 0 then
    return current
  end
  if giver[LISTED] > 0 then
    if current ~= 0 then
      call('ZADD', key, '0', turn_member(member_of(X, current), current))
    else
      giver[LISTED] = giver[LISTED] - 1
    end
    local _, _, index = sunpack('>I7I5I4', call('ZPOPMIN', key)[1])
    current = index
  elseif current == 0 then
    return nil
  end
  giver[CURRENT], giver[LEFT], giver[0] = current, TURN_TASKS, true
  giver[REACHED] = max(giver[REACHED], member_of(X, current)[PASS])
  return current
end

-- The member whose turn it is was given so many tasks, each of which costs it `stride`. When its turn is over it is listed
-- again, once somebody asks whose turn is next: if nobody else is listed, it is its own again.
local function served(giver, member, stride, tasks)
  member[PASS], member[0] = min(NEVER, member[PASS] + stride * tasks), true
  giver[LEFT], giver[0] = giver[LEFT] - tasks, true
end
