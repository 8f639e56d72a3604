# shellcheck shell=bash
# Starts the cluster's processes, waits for them, ends them. Set before: DIR (the cluster's folder).
# DIR/processes/NAME holds pid and start time: a pid alone may belong to another process by now.

# process_start_time PID: nothing if there is no such process (a zombie is gone: nobody may ever fetch its exit code).
process_start_time() {
  local line
  { read -r line < "/proc/$1/stat"; } 2> /dev/null || return 0
  # The name, in brackets, may hold blanks.
  # shellcheck disable=SC2086 # fields
  set -- ${line##*) }
  [ "$1" = Z ] || printf '%s' "${20}"
}

# start_process NAME COMMAND...: it outlives this script; its output goes to DIR/logs/NAME.log. DIR/commands/NAME can start it again.
start_process() {
  local name="$1" pid
  shift
  printf '%s\0' "$@" > "$DIR/commands/$name"
  # Without the lock and the terminal, which would be held as long as the process lives.
  setsid "$@" >> "$DIR/logs/$name.log" 2>&1 < /dev/null 8>&- 9>&- &
  pid=$!
  disown
  printf '%s %s\n' "$pid" "$(process_start_time "$pid")" > "$DIR/processes/$name"
}

# is_running NAME
is_running() {
  local pid started
  { read -r pid started < "$DIR/processes/$1"; } 2> /dev/null || return 1
  [ -n "$started" ] && [ "$(process_start_time "$pid")" = "$started" ]
}

# running_processes: the names of those that run.
running_processes() {
  local record
  for record in "$DIR"/processes/*; do
    [ -e "$record" ] && is_running "${record##*/}" && printf '%s\n' "${record##*/}"
  done
  return 0
}

# signal_process SIGNAL NAME
signal_process() {
  local pid
  is_running "$2" || return 0
  read -r pid _ < "$DIR/processes/$2"
  kill "-$1" "$pid" 2> /dev/null || true
}

# stop_process NAME: asks, insists after 10 s, and returns when it is gone.
stop_process() {
  local deadline=$((SECONDS + 10))
  signal_process TERM "$1"
  # One that was stopped (SIGSTOP) by a test does not end before it is woken.
  signal_process CONT "$1"
  while is_running "$1"; do
    if [ "$SECONDS" -ge "$deadline" ]; then signal_process KILL "$1"; fi
    sleep 0.05
  done
  rm -f "$DIR/processes/$1"
}

# wait_until SECONDS WHAT COMMAND...: fails when time is up, and at once when a process of the cluster has died.
wait_until() {
  local seconds="$1" what="$2" deadline=$((SECONDS + $1)) record
  shift 2
  until "$@" > "$DIR/logs/waiting.log" 2>&1 < /dev/null; do
    for record in "$DIR"/processes/*; do
      is_running "${record##*/}" && continue
      say "$(tail -n 20 "$DIR/logs/${record##*/}.log")"
      fail "${record##*/} ended while waiting for $what; its last lines are above, all of them in $DIR/logs"
    done
    if [ "$SECONDS" -ge "$deadline" ]; then
      say "$(tail -n 20 "$DIR/logs/waiting.log")"
      fail "no $what after $seconds s; the last answer is above, what the processes say is in $DIR/logs"
    fi
    sleep 0.1
  done
}
