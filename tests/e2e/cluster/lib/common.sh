# shellcheck shell=bash disable=SC2034 # what it sets is used by others
# What every script here shares. Set before: CLUSTER (this folder).

say() { printf '%s\n' "$*" >&2; }
# fail MESSAGE: what happened, where, and what to do about it.
fail() {
  say "${0##*/}: $*"
  exit 1
}

# tools_folder: in a cache, under what the binaries are made from.
tools_folder() {
  local key
  key=$(cd "$CLUSTER" && cat modules/*/go.mod modules/*/go.sum pause/pause.c lib/build.sh | sha256sum | cut -c -16)
  printf '%s/trawler/cluster-%s' "${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}" "$key"
}

# seconds_since MOMENT: how long it is since $EPOCHREALTIME was MOMENT.
seconds_since() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f s", to - from }'; }

# use_folder DIR: a cluster's folder, and the name that its devices, namespace and control groups get from it.
use_folder() {
  DIR=$(realpath -m -- "$1")
  [ "${#DIR}" -le 60 ] || fail "$DIR is too long for the sockets in it; take a folder whose path has at most 60 characters"
  case "$DIR" in *[!A-Za-z0-9/._-]*) fail "$DIR has characters that the cluster's configuration can't hold; use letters, digits, and / . _ -" ;; esac
  NAME="trawler-$(printf '%s' "$DIR" | sha256sum | cut -c -5)"
}

# use_cluster DIR: one that `up` has started. Also sets what `up` noted: WITH_NODE, API_ADDRESS, IN_NETWORK, …
use_cluster() {
  use_folder "$1"
  [ -e "$DIR/cluster" ] || fail "no cluster runs in $DIR; start one: tests/e2e/cluster/up $DIR"
  # shellcheck source=/dev/null
  . "$DIR/cluster"
}
