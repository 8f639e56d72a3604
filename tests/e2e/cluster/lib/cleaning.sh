# shellcheck shell=bash
# Removes what a node leaves on the machine. Every step looks for itself at what is there, since `up` or a process may have
# died anywhere. Set before: DIR, NAME.

# end_containers: all that runs in the cluster's control groups, and the shims, which containerd leaves running.
end_containers() {
  local deadline=$((SECONDS + 20)) pids
  find "$DIR/containerd/root/io.containerd.grpc.v1.cri/sandboxes" -mindepth 1 -maxdepth 1 -printf '%f\n' \
    > "$DIR/pod-sandboxes" 2> /dev/null || true
  # Their sockets lie outside of DIR.
  find "$DIR/containerd/state" -name address -path '*/io.containerd.runtime.v2.task/*' -exec cat {} + 2> /dev/null |
    sed 's|unix://|\n|g' | grep '^/run/containerd/s/' > "$DIR/shim-sockets" || true
  while pids="$(container_processes) $(programs "containerd-shim[a-z0-9-]*")" && [ -n "${pids// /}" ]; do
    [ "$SECONDS" -lt "$deadline" ] || fail "these processes of $DIR do not end although they were killed: $pids"
    # shellcheck disable=SC2086 # one word per process
    kill -KILL $pids 2> /dev/null || true
    sleep 0.05
  done
  xargs -r rm -f -- < "$DIR/shim-sockets"
}
container_processes() {
  local hierarchy
  for hierarchy in $(control_group_hierarchies); do
    [ ! -d "$hierarchy/$NAME" ] || find "$hierarchy/$NAME" -name cgroup.procs -exec cat {} + 2> /dev/null
  done | sort -un | tr '\n' ' '
}
# programs PATTERN: processes of such programs whose arguments name something in the cluster's folder.
programs() {
  local folder
  for folder in /proc/[0-9]*; do
    if { tr '\0' ' ' < "$folder/cmdline"; } 2> /dev/null | grep -qE "^([^ ]*/)?($1) .*[ =]$DIR/"; then
      printf '%s ' "${folder##*/}"
    fi
  done
}

# end_strays: what was started by an `up` that was killed before it could note it.
end_strays() {
  local deadline=$((SECONDS + 20)) pids
  while pids=$(programs 'etcd|kube[a-z-]+|containerd|coredns|kwok') && [ -n "$pids" ]; do
    [ "$SECONDS" -lt "$deadline" ] || fail "these processes of $DIR do not end although they were killed: $pids"
    # shellcheck disable=SC2086 # one word per process
    kill -KILL $pids 2> /dev/null || true
    sleep 0.05
  done
}

# unmount_all: deepest first, again until nothing is left, since mounts may lie on each other.
unmount_all() {
  local deadline=$((SECONDS + 20)) mounts
  while mounts=$(mounts_below) && [ -n "$mounts" ]; do
    [ "$SECONDS" -lt "$deadline" ] || fail "these can't be unmounted; something still uses them: $mounts"
    xargs -r -d '\n' umount <<< "$mounts" 2> "$DIR/logs/umount.log" || sleep 0.05
  done
}
mounts_below() { awk -v folder="$DIR/" 'index($2, folder) == 1 { print $2 }' /proc/mounts | sort -ru; }

remove_control_groups() {
  local deadline=$((SECONDS + 20)) hierarchy
  for hierarchy in $(control_group_hierarchies); do
    # The kernel lets go of an empty group a moment later.
    while [ -d "$hierarchy/$NAME" ] && ! find "$hierarchy/$NAME" -depth -type d -exec rmdir {} + 2> /dev/null; do
      [ "$SECONDS" -lt "$deadline" ] || fail "the control group $hierarchy/$NAME can't be removed: something still runs in it"
      sleep 0.05
    done
  done
}

# remove_traces: names in folders that all nodes of a machine share.
remove_traces() {
  local sandbox
  find /var/log/containers -type l -lname "$DIR/*" -delete 2> /dev/null || true
  while read -r sandbox; do
    rm -f /var/lib/cni/results/*-"$sandbox"-*
  done < "$DIR/pod-sandboxes"
  # Only if nothing else is in them.
  rmdir /var/lib/kubelet/device-plugins /var/lib/kubelet /var/log/containers /var/lib/cni/results /var/lib/cni 2> /dev/null || true
}
