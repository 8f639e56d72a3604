#!/usr/bin/env bash
# Starts a Redis with the chart's settings and asks it what the probes ask. Usage: tests/chart/redis.sh PYTHON FOLDER-WITH-default.yaml
set -uo pipefail
PYTHON="$1" WORK="$2"
if ! command -v redis-server > /dev/null || ! command -v redis-cli > /dev/null; then
  echo "skipped: Redis with the chart's settings (redis-server and redis-cli are not on the path)"
  exit 0
fi
FOLDER="$(mktemp -d)" || exit 2
SOCKET="$FOLDER/redis.sock"
SERVER=""
clean_up() {
  if [ -n "$SERVER" ]; then kill "$SERVER" 2> /dev/null && wait "$SERVER" 2> /dev/null; fi
  rm -rf "$FOLDER"
}
trap clean_up EXIT

# The settings but for where things lie: no port, a socket. And the probes, as commands that ask at the socket.
"$PYTHON" - "$WORK/default.yaml" "$FOLDER" << 'PYTHON_END' || exit
import sys, yaml
rendered, folder = sys.argv[1:]
items = [item for item in yaml.safe_load_all(open(rendered)) if item]
[conf] = [item["data"]["redis.conf"] for item in items if item["kind"] == "ConfigMap" and "redis.conf" in item["data"]]
for old, new in {"/etc/redis/users/users.acl": f"{folder}/users.acl", "/data": folder, "port 6379": f"port 0\nunixsocket {folder}/redis.sock"}.items():
    assert old in conf, old
    conf = conf.replace(old, new)
open(f"{folder}/redis.conf", "w").write(conf)
[container] = [item["spec"]["template"]["spec"]["containers"][0] for item in items if item["kind"] == "StatefulSet"]
for probe in ("livenessProbe", "readinessProbe"):
    shell, option, command = container[probe]["exec"]["command"]
    assert (shell, option) == ("sh", "-c") and "redis-cli ping" in command, command
    open(f"{folder}/{probe}", "w").write(command.replace("redis-cli", f"redis-cli -s {folder}/redis.sock"))
PYTHON_END

probe() { sh "$FOLDER/$1"; }
start() {
  printf '%s\n' "$1" "user trawler-a-owner reset on >word -@all ~trawler:{a}:* +ping +config|get +set" > "$FOLDER/users.acl"
  redis-server "$FOLDER/redis.conf" > "$FOLDER/log" 2>&1 &
  SERVER=$!
  for _ in $(seq 200); do
    probe readinessProbe && return
    kill -0 "$SERVER" 2> /dev/null || break
    sleep 0.05
  done
  cat "$FOLDER/log"
  return 1
}
stop() { kill "$SERVER" && wait "$SERVER"; SERVER=""; }
as_owner() { REDISCLI_AUTH=word redis-cli -s "$SOCKET" --user trawler-a-owner "$@"; }

probe readinessProbe && { echo "ready before it runs"; exit 1; }
for default in "user default off" "user default reset on nopass -@all +ping"; do
  start "$default" || { echo "did not become ready with: $default"; exit 1; }
  probe livenessProbe || { echo "not alive with: $default"; exit 1; }
  redis-cli -s "$SOCKET" set 'trawler:{a}:x' 1 | grep -Eq '^(NOAUTH|NOPERM)' || { echo "writes for anybody with: $default"; exit 1; }
  for setting in appendonly:yes appendfsync:everysec maxmemory-policy:noeviction maxmemory:314572800; do
    [ "$(as_owner config get "${setting%%:*}" | tail -n 1)" = "${setting##*:}" ] || { echo "$setting does not hold"; exit 1; }
  done
  stop
done
probe livenessProbe && { echo "alive after its end"; exit 1; }
exit 0
