#!/usr/bin/env bash
# Crawls a real EDC connector and a real CKAN portal, twice each, and compares with what is known to lie there.
# Usage: tests/interop.sh [edc|ckan]...   Last line: "N passed, N failed". See docs/interop.md.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

# A folder beside the repository: scripts that install, start and seed the servers.
SERVERS="${TRAWLER_INTEROP_SERVERS:-../shared/servers}"
PASSED=0
FAILED=0
pass() { PASSED=$((PASSED + 1)); echo "ok      $1"; }
fail() { FAILED=$((FAILED + 1)); echo "FAILED  $1"; }
finish() {
  echo "$PASSED passed, $FAILED failed"
  [ "$FAILED" -eq 0 ] && [ "$PASSED" -gt 0 ]
  exit
}

if [ ! -x "$SERVERS/edc/start.sh" ] || [ ! -x "$SERVERS/ckan/start.sh" ]; then
  fail "no scripts in $SERVERS that start the servers; put the folder 'shared' of the project beside the repository, or name another in TRAWLER_INTEROP_SERVERS"
  finish
fi
for tool in python3 curl java javac mvn; do
  command -v "$tool" > /dev/null || fail "$tool is missing; the servers need it (Debian: python3 curl openjdk-17-jdk-headless maven postgresql-15 redis-server)"
done
[ "$FAILED" -eq 0 ] || finish

WORK="$(mktemp -d)"
STARTED=""
clean_up() {
  local server
  for server in $STARTED; do "$SERVERS/$server/stop.sh" > /dev/null; done
  rm -rf "$WORK"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

cargo build --locked --quiet || { fail "trawler does not build"; finish; }
TRAWLER="${CARGO_TARGET_DIR:-target}/debug/trawler"

# start SERVER: starts it unless it already runs; what was not started here is not stopped here.
start() {
  local output
  if ! output="$("$SERVERS/$1/start.sh" 2>&1 < /dev/null)"; then
    STARTED="$STARTED $1"
    fail "$1 did not start: $output"
    return 1
  fi
  case "$output" in
    *"already runs"*) ;;
    *) STARTED="$STARTED $1" ;;
  esac
}

# crawl SERVER EXPECTED HIDDEN: two full runs and an incremental one; every node must list EXPECTED records, and no record
# that matches HIDDEN.
crawl() {
  local server="$1" expected="$2" hidden="$3" run report nodes manifests
  manifests="tests/interop/$server.yaml"
  nodes="$(grep -c '^kind: CatalogNode$' "$manifests")"
  start "$server" || return
  for run in first second incremental; do
    report="$WORK/$server-$run.json"
    if [ "$run" = incremental ]; then
      # The Catalog comes first.
      sed '0,/^spec:$/s//spec:\n  runTemplate: {spec: {mode: Incremental}}/' "$manifests" > "$WORK/$server.yaml"
      manifests="$WORK/$server.yaml"
    fi
    if ! "$TRAWLER" run -f "$manifests" -d "$WORK/$server" --allow-private 127.0.0.0/8 -o json \
      > "$report" 2> "$WORK/stderr" < /dev/null; then
      fail "$server, $run run: trawler failed: $(tail -n 5 "$WORK/stderr")"
    fi
    # One line per check: ok or FAILED, then what was checked.
    python3 tests/interop/check.py "$run" "$nodes" "$expected" "$hidden" "$report" "$WORK/$server/records.jsonl" > "$WORK/checks" 2>&1 ||
      fail "$server, $run run: the report can't be judged: $(tail -n 1 "$WORK/checks")"
    grep -E '^(ok|FAILED) ' "$WORK/checks"
    PASSED=$((PASSED + $(grep -c '^ok ' "$WORK/checks")))
    FAILED=$((FAILED + $(grep -c '^FAILED ' "$WORK/checks")))
  done
}

[ $# -gt 0 ] || set -- edc ckan
for server in "$@"; do
  case "$server" in
    edc) crawl edc 262 '"unoffered-[0-9]' ;;
    ckan) crawl ckan 260 '"(private|deleted)-[0-9]' ;;
    *) fail "no server is called $server" ;;
  esac
done
finish
