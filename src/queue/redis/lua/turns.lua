-- Taking turns, weighted: stride scheduling with a quantum (src/queue/memory/turns.rs). Who is listed stands in a sorted
-- set by pass, then by ticket; whose turn it is stands in its giver's record instead.

local function turn_member(ticket, index)
  return struct.pack('>I5I4', ticket, index)
end

-- Lists a member behind those with an equal pass.
local function enter_turns(X, key, giver, member, index)
  local run = X.r
  run[RUN_TICKETS] = run[RUN_TICKETS] + 1
  member[PASS] = max(member[PASS], giver[REACHED])
  member[TICKET] = run[RUN_TICKETS]
  member[0] = true
  call('ZADD', key, member[PASS], turn_member(member[TICKET], index))
end

-- Takes a member off the list.
local function leave_turns(key, giver, member, index)
  if member[TICKET] == 0 then
    return
  end
  if giver[CURRENT] == index then
    giver[CURRENT], giver[0] = 0, true
  else
    call('ZREM', key, turn_member(member[TICKET], index))
  end
  member[TICKET], member[0] = 0, true
end

-- Whose turn it is; nil: nobody is listed.
local function first_turn(X, key, giver, member_of)
  local current = giver[CURRENT]
  if current ~= 0 then
    return current
  end
  local popped = call('ZPOPMIN', key)[1]
  if not popped then
    return nil
  end
  local _, index = struct.unpack('>I5I4', popped)
  giver[CURRENT], giver[LEFT], giver[0] = index, TURN_TASKS, true
  giver[REACHED] = max(giver[REACHED], member_of(X, index)[PASS])
  return index
end

-- The member whose turn it is was given so many tasks, each of which costs it `stride`.
local function served(key, giver, member, index, stride, tasks)
  member[PASS], member[0] = min(NEVER, member[PASS] + stride * tasks), true
  giver[LEFT], giver[0] = giver[LEFT] - tasks, true
  if giver[LEFT] <= 0 then
    giver[CURRENT] = 0
    call('ZADD', key, member[PASS], turn_member(member[TICKET], index))
  end
end
