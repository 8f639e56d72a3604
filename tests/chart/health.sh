#!/usr/bin/env bash
# Runs the health check that docs/gitops.md gives for Argo CD, in the Lua that Redis has inside, and compares its judgements.
# Usage: tests/chart/health.sh PYTHON FOLDER
set -uo pipefail
PYTHON="$1"
if ! command -v redis-server > /dev/null || ! command -v redis-cli > /dev/null; then
  echo "skipped: the health check of docs/gitops.md (redis-server, whose Lua runs it, is not on the path)"
  exit 0
fi
FOLDER="$(mktemp -d)" || exit 2
redis-server --port 0 --unixsocket "$FOLDER/redis.sock" --save "" --dir "$FOLDER" > "$FOLDER/log" 2>&1 &
SERVER=$!
trap 'kill $SERVER; wait $SERVER; rm -rf "$FOLDER"' EXIT
for _ in $(seq 200); do redis-cli -s "$FOLDER/redis.sock" ping > /dev/null 2>&1 && break; sleep 0.05; done
"$PYTHON" tests/chart/health.py "$FOLDER/redis.sock"
