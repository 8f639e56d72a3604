-- The store's functions. Arguments come as they are, not packed: most of them are payloads and rows, which nothing here reads.
-- Every answer is a list that begins with a word: 'ok', or what is the matter.

local call, P

local function begin(keys)
  call = redis.call
  P = keys[1] .. 'store:' .. SCHEMA .. ':'
end

-- Whether this is the store that the caller knew. Returns what is the matter, or nil.
local function refusal(known)
  local epoch = call('HGET', P .. 'i', 'epoch')
  if not epoch then
    return 'emptied'
  elseif epoch ~= known then
    return 'swapped'
  end
end

local function register(name, flags, work)
  redis.register_function({
    function_name = LIBRARY .. '_' .. name,
    flags = flags,
    callback = function(keys, args)
      begin(keys)
      return work(args)
    end,
  })
end

-- Begins a session: {an epoch for a store that is new}.
register('open', {}, function(args)
  local epoch = call('HGET', P .. 'i', 'epoch')
  if not epoch then
    epoch = args[1]
    call('HSET', P .. 'i', 'epoch', epoch)
  end
  return { 'ok', epoch, call('HINCRBY', P .. 'i', 'sessions', 1) }
end)

-- Tells the latest session.
register('join', { 'no-writes' }, function()
  local known = call('HMGET', P .. 'i', 'epoch', 'sessions')
  if not known[1] or not known[2] then
    return { 'unopened' }
  end
  return { 'ok', known[1], known[2] }
end)

-- Reads fields of hashes: {epoch, key, count, fields …, key, count, fields …}. Answers a list of values for each key.
register('read', { 'no-writes' }, function(args)
  local why = refusal(args[1])
  if why then
    return { why }
  end
  local answer, at = { 'ok' }, 2
  while at <= #args do
    local count = tonumber(args[at + 1])
    answer[#answer + 1] = call('HMGET', P .. args[at], unpack(args, at + 2, at + 1 + count))
    at = at + 2 + count
  end
  return answer
end)

-- Reads what lies between two keys, in order: {epoch, index, hash, from, to, limit}.
register('scan', { 'no-writes' }, function(args)
  local why = refusal(args[1])
  if why then
    return { why }
  end
  local members = call('ZRANGEBYLEX', P .. args[2], args[4], args[5], 'LIMIT', 0, args[6])
  if #members == 0 then
    return { 'ok', members, {} }
  end
  return { 'ok', members, call('HMGET', P .. args[3], unpack(members)) }
end)

-- What follows from tasks is kept for the latest ones: a hash with the number of all at '', and a list in their order.
-- Each value begins with how many there are, in four bytes.
local function keep(key, task, value, most)
  if call('HEXISTS', key, task) == 1 then
    return
  end
  call('HSET', key, task, value)
  call('RPUSH', key .. ':order', task)
  local total = call('HINCRBY', key, '', (struct.unpack('>I4', value)))
  while total > most do
    local oldest = call('LPOP', key .. ':order')
    if not oldest then
      return
    end
    total = call('HINCRBY', key, '', -(struct.unpack('>I4', call('HGET', key, oldest))))
    call('HDEL', key, oldest)
  end
end

-- Changes of one step get the next numbers, and lie under the last of them.
local function append_changes(key, count, block)
  local last = struct.pack('>I8', call('HINCRBY', P .. 'sequences', key, count))
  call('HSET', P .. 'h:' .. key, last, block)
  call('ZADD', P .. 'x:' .. key, 0, last)
end

-- One atomic write: {epoch, handle, lane, its write before, this write, run, session, …}, then what is to be as it was read,
-- then what is to be done, each as {what, key, count, …}.
local function write(args)
  local why = refusal(args[1])
  if why then
    return { why }
  end
  local lanes = P .. 'w:' .. args[2]
  local last = tonumber(call('HGET', lanes, args[3]) or 0)
  if last >= tonumber(args[5]) then
    -- The answer was lost, and it was asked for again; or this is the first asking, which comes late.
    return { 'ok' }
  elseif last < tonumber(args[4]) then
    -- What was answered before is forgotten. Nobody goes on in a past that is not his.
    call('HSET', P .. 'i', 'epoch', args[2] .. args[5])
    return { 'rolled back' }
  end
  if args[6] ~= '' then
    local newest = call('HGET', P .. 's', args[6])
    if newest and tonumber(newest) > tonumber(args[7]) then
      return { 'over', newest }
    elseif newest ~= args[7] then
      call('HSET', P .. 's', args[6], args[7])
    end
  end
  local at = 8
  while at <= #args do
    local what, name, count = args[at], args[at + 1], tonumber(args[at + 2])
    local key = P .. name
    at = at + 3
    if what == 'present' then
      local found = call('HMGET', key, unpack(args, at, at + count - 1))
      for i = 1, count do
        if found[i] ~= args[at + count + i - 1] then
          return { 'changed' }
        end
      end
      at = at + count
    elseif what == 'absent' then
      local found = call('HMGET', key, unpack(args, at, at + count - 1))
      for i = 1, count do
        if found[i] then
          return { 'changed' }
        end
      end
    elseif what == 'range' then
      if call('ZLEXCOUNT', key, args[at], args[at + 1]) ~= tonumber(args[at + 2]) then
        return { 'changed' }
      end
    elseif what == 'put' then
      call('HSET', key, unpack(args, at, at + count - 1))
    elseif what == 'remove' then
      call('HDEL', key, unpack(args, at, at + count - 1))
    elseif what == 'index' then
      call('ZADD', key, unpack(args, at, at + count - 1))
    elseif what == 'unindex' then
      call('ZREM', key, unpack(args, at, at + count - 1))
    elseif what == 'clear' then
      call('UNLINK', key)
    elseif what == 'changes' then
      append_changes(name, args[at], args[at + 1])
    elseif what == 'keep' then
      keep(key, args[at], args[at + 1], tonumber(args[at + 2]))
    end
    at = at + count
  end
  call('HSET', lanes, args[3], args[5])
  call('PEXPIRE', lanes, 604800000)
  return { 'ok' }
end

register('write', {}, write)
-- The same where memory is used up: what deletes must go on.
register('write_anyway', { 'allow-oom' }, write)
