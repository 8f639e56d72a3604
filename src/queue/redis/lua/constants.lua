-- Names for the numbers in the other files. The loader puts the numbers in their places: Lua allows no more than 200
-- local names, and a number is faster than a name.

-- Moments are microseconds since 1970. This one never comes.
NEVER = 9007199254740991
-- Amounts above this count as this.
MOST = 1125899906842624

-- Everything that takes turns has its place at the same position of its record …
PASS = 3
TICKET = 4
-- … and so has everything that gives turns.
CURRENT = 5
LEFT = 6
REACHED = 7
-- How many are listed beside the one whose turn it is.
LISTED = 8

-- A run: what most calls need …
RUN_FROZEN = 1
RUN_QUEUED = 2
RUN_DELAYED = 3
RUN_LEASED = 4
RUN_DONE = 5
RUN_SEQ = 6
RUN_SEQUENCE = 7
RUN_SOMEONE_WAITS = 8
RUN_TICKETS = 9
RUN_NOW = 10
RUN_LEASE = 11
RUN_ORIGIN_MAX = 12
RUN_SUSPECTS = 13
RUN_FAILING = 14
-- Calls of anybody that may have changed it.
RUN_STEPS = 15
-- 0: open; 1: its nodes are still coming; 2: it is being closed.
RUN_OPENING = 16
RUN_DISCOVERED = 17
-- … and what few do.
RUN_ID = 18
RUN_WEIGHT = 19
RUN_MAX_HOLDERS = 20
RUN_MAX_CHARGES = 21
RUN_DEAD = 22
RUN_DROPPED = 23
RUN_FENCES = 24
RUN_NODES = 25
RUN_GROUPS = 26
RUN_POOLS = 27
RUN_LANES = 28
RUN_QUEUES = 29
RUN_ORIGIN_INITIAL = 30
RUN_ORIGIN_LONGEST = 31
RUN_HOLDERS = 32
RUN_GENERATION = 33
-- Calls that changed it and were no holder's: an owner that saw a higher number knows that the server was rolled back.
RUN_CALLS = 34
RUN_DEAD_KEPT = 35
-- Names one opening, so that its repetition is told from another one.
RUN_OPENED_BY = 36

-- A holder.
HOLDER_FENCE = 1
HOLDER_UID = 2
HOLDER_GROUP = 3
HOLDER_UNDER_WAY = 4
HOLDER_ALONE = 5
HOLDER_DRAINING = 6
-- No lease of it lapses before this; 0: it has none.
HOLDER_LAPSE = 7
HOLDER_CALLS = 8
-- 1: the first of its leases lapses just then.
HOLDER_IS_EXACT = 9
-- Of its last claim, so that a claim whose answer was lost can be repeated.
HOLDER_NONCE = 10

-- A node.
NODE_NAME = 1
NODE_BUDGET = 2
NODE_GROUP = 3
NODE_PRIORITY = 4
NODE_SUSPENDED = 5
NODE_CALLS = 6
NODE_REMOVED = 7
NODE_GENERATION = 8
-- Origin, queue, origin, queue, …
NODE_QUEUES = 9

-- A group gives turns to pools.
GROUP_NAME = 1
-- None of its timers is due before this; 0: it has none.
GROUP_TIMER = 9

-- A pool: the lanes of one budget for one group. It takes turns and gives them to lanes.
POOL_BUDGET = 1
POOL_GROUP = 2
POOL_ACTIVE = 9
-- 0: no; -1: until a request of the budget ends; else until this moment.
POOL_PARKED = 10
-- Lanes that were woken by their origin and not looked at since.
POOL_BATONS = 11

-- A lane: the node queues of one origin in a pool. It takes turns and gives them to queues.
LANE_ORIGIN = 1
LANE_POOL = 2
LANE_ACTIVE = 9
LANE_QUEUED = 10
LANE_LEASED = 11
LANE_PARKED = 12
LANE_SINCE = 13

-- A queue: one node's ready tasks for one origin.
QUEUE_NODE = 1
QUEUE_LANE = 2
QUEUE_TASKS = 5
QUEUE_SUSPECTS = 6

-- A budget.
BUDGET_ID = 1
BUDGET_USERS = 2
BUDGET_MAX = 3
BUDGET_FLOOR = 4
BUDGET_PERMILLE = 5
BUDGET_SLOWED_AT = 6
BUDGET_UNDER_WAY = 7
BUDGET_HAS_HOURS = 8
-- The interval of its hours that contains the present, or is the next.
BUDGET_OPEN_FROM = 9
BUDGET_OPEN_UNTIL = 10
-- Runs whose pools come to it.
BUDGET_RUNS = 11
BUDGET_PROMISES = 12
-- 1: it has limits of documents or bytes.
BUDGET_HAS_AMOUNTS = 13
BUDGET_LIMITS = 14

-- A limit of a budget: a sliding window, and a row of slots.
LIMIT_UNIT = 1
LIMIT_AMOUNT = 2
LIMIT_PERIOD = 3
LIMIT_EVEN = 4
-- Names its list of entries: unique in its budget.
LIMIT_LIST = 5
LIMIT_USED = 6
LIMIT_ENTRIES = 7
LIMIT_BACK_FIRST = 8
LIMIT_BACK_LAST = 9
LIMIT_BACK_COUNT = 10
LIMIT_FRONT_LAST = 11
LIMIT_FRONT_COUNT = 12
-- Mostly nothing: kept only if there is something.
LIMIT_DEBT = 13
LIMIT_SHIFT = 14
LIMIT_SLOT_AT = 15
LIMIT_SLOT_COST = 16
-- In this call; not kept.
LIMIT_FORGOT_AT = 17

UNIT_CALLS = 0
UNIT_DOCUMENTS = 1
UNIT_BYTES = 2

-- An origin.
ORIGIN_KEY = 1
ORIGIN_USERS = 2
ORIGIN_UNDER_WAY = 3
ORIGIN_EVENTS = 4
ORIGIN_EVENT_AT = 5
ORIGIN_SENT_AT = 6
ORIGIN_CLOSED_UNTIL = 7
-- Run, group, the moment for which it has a timer; run, group, …
ORIGIN_WAITING = 8

-- Who comes to a budget.
WAY_REACHED = 1
WAY_CONTENDED = 2
WAY_TURN_RUN = 3
WAY_TURN_POOL = 4
WAY_TURN_LEFT = 5
WAY_TURN_UNTIL = 6
WAY_CLAIMANTS = 7

CLAIMANT_RUN = 1
CLAIMANT_POOL = 2
CLAIMANT_PASS = 3
CLAIMANT_ASKED = 4
CLAIMANT_UNTIL = 5
CLAIMANT_ABSENCES = 6
CLAIMANT_MAKES_WAY = 7

ASKED_NO = 0
ASKED_UNTIL = 1
ASKED_CAPACITY = 2
ASKED_SERVED = 3

-- Calls kept for a permit that waits.
PROMISE_LEASE = 1
PROMISE_CALLS = 2
PROMISE_LAPSES = 3

-- What keeps a request: as the port's `Gate`.
GATE_BACK_OFF = 0
GATE_ORIGIN_FULL = 1
GATE_LIMIT = 2
GATE_BUDGET_FULL = 3
GATE_SUSPENDED = 4
GATE_HOURS = 5
GATE_SUSPECT = 6

-- What a holder may be given.
OFFER_ANY = 0
OFFER_SUSPECT = 1
OFFER_NOTHING = 2

-- What changed at a gate.
TOUCHED_FREED = 1
TOUCHED_BUDGET = 2
TOUCHED_ORIGIN = 3

RESULT_DONE = 0
RESULT_RETRY = 1
RESULT_DEAD = 2
RESULT_DROPPED = 3

CAUSE_CRASHED = 1

-- How long the part of a run's record is that is unpacked at once.
RUN_HEAD = 119

-- So many names of a kind are kept from call to call.
MOST_NAMES = 4096

GRAINS = 128
TURN_TASKS = 25
STRIDE = 16777216
NODE_STRIDE = 2520
GRACE = 50000
PATIENCE = 1000000
LATENESS = 20000
REMEMBERED = 3600000000
SHORT_WINDOW = 3600000000
SPENT_STRETCH = 60000000
NO_MORE_HOURS = 86400000000
UNTIMED = 86400000000
PERMIT_RETRY = 50000
LOOK_AGAIN = 1000000
FULL_RATE = 1000
MAX_REMEMBERED = 65536
MAX_DEAD_KEPT = 1000
MAX_FAILING_KEPT = 10000
MAX_FAILURES_KEPT = 5

-- No call does more than this of what time brings: what is left is done by the next one.
MOST_DELAYS = 100
MOST_LAPSES = 100
MOST_TIMERS = 64
MOST_VISITS = 100
MOST_SUSPECT_QUEUES = 32
