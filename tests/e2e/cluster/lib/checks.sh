# shellcheck shell=bash
# Counts checks and prints one line for each, with how long it took. Set before: DIR (where a check's output goes).

PASSED=0
FAILED=0

# check NAME COMMAND...: the command is one that says why it fails.
check() {
  local name="$1" start=$EPOCHREALTIME
  shift
  if "$@" > "$DIR.check.log" 2>&1 < /dev/null; then
    PASSED=$((PASSED + 1))
    printf 'ok      %-52s %s\n' "$name" "$(seconds_since "$start")"
  else
    FAILED=$((FAILED + 1))
    printf 'FAILED  %-52s %s\n' "$name" "$(seconds_since "$start")"
    sed 's/^/    /' "$DIR.check.log"
    return 1
  fi
}

finish() {
  rm -f "$DIR.check.log"
  echo "$PASSED passed, $FAILED failed"
  [ "$FAILED" -eq 0 ] && [ "$PASSED" -gt 0 ]
  exit
}
