# shellcheck shell=bash
# The node: containerd, kubelet, kube-proxy. Set before: DIR, BIN, NAME, API_ADDRESS, IN_NETWORK.

NODE_NAME=node

# The kubelet sets these for the whole machine. The first cluster notes what they were, and the last one puts them back.
KUBELET_SETTINGS="vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops"
SETTINGS_BEFORE=/run/trawler-settings-before
save_settings() {
  [ -e "$SETTINGS_BEFORE" ] && return
  # shellcheck disable=SC2086 # one word per setting
  sysctl $KUBELET_SETTINGS > "$DIR/settings" && mv "$DIR/settings" "$SETTINGS_BEFORE"
}
restore_settings() {
  [ -e "$SETTINGS_BEFORE" ] || return 0
  # Another cluster's network: that cluster will put them back.
  ! compgen -G "/run/netns/trawler-*" > /dev/null || return 0
  sysctl -q -p "$SETTINGS_BEFORE" || say "the kernel's settings could not all be put back; they were: $(cat "$SETTINGS_BEFORE")"
  rm -f "$SETTINGS_BEFORE"
}

# Everything that the node runs is below a control group of its own, so that `down` finds it whatever happened.
make_control_groups() {
  local hierarchy controller
  for hierarchy in $(control_group_hierarchies); do
    # With version 2 a group has the controllers that its parent passes on, and the kubelet wants all of them.
    if [ -e "$hierarchy/cgroup.controllers" ]; then
      for controller in $(< "$hierarchy/cgroup.controllers"); do
        { echo "+$controller" > "$hierarchy/cgroup.subtree_control"; } 2> /dev/null || true
      done
    fi
    mkdir -p "$hierarchy/$NAME"
  done
}
# control_group_hierarchies: one folder with version 2, one for each controller with version 1.
control_group_hierarchies() { awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts | sort -u; }

write_containerd_configuration() {
  mkdir -p "$DIR/containerd" "$DIR/cni"
  cat > "$DIR/containerd/config.toml" << TOML
version = 2
root = "$DIR/containerd/root"
state = "$DIR/containerd/state"
oom_score = 0
[grpc]
address = "$DIR/containerd/socket"
[plugins."io.containerd.internal.v1.opt"]
path = "$DIR/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "trawler.dev/pause:test"
# Without it runc dies where it may not lower the score ("can't get final child's PID").
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
disable_tcp_service = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "$DIR/containerd/runc"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$DIR/cni"
TOML
  cat > "$DIR/cni/10-pods.conflist" << JSON
{
  "cniVersion": "0.4.0",
  "name": "$NAME",
  "plugins": [
    {
      "type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": true, "hairpinMode": true,
      "ipam": {
        "type": "host-local", "dataDir": "$DIR/cni/addresses",
        "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
JSON
}

ctr() { command ctr --address "$DIR/containerd/socket" --namespace k8s.io "$@"; }

start_containerd() {
  write_containerd_configuration
  start_process containerd "${IN_NETWORK[@]}" containerd --config "$DIR/containerd/config.toml"
  wait_until 30 "answer from containerd" ctr version
}

write_kubelet_configuration() {
  mkdir -p "$DIR/kubelet"
  cat > "$DIR/kubelet/config.yaml" << YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $API_ADDRESS
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $DIR/pki/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: $DIR/pki/kubelet.crt
tlsPrivateKeyFile: $DIR/pki/kubelet.key
containerRuntimeEndpoint: unix://$DIR/containerd/socket
cgroupDriver: cgroupfs
cgroupRoot: /$NAME
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
resolvConf: /dev/null
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
podLogsDir: $DIR/pod-logs
volumePluginDir: $DIR/volume-plugins
oomScoreAdj: 0
maxPods: 250
nodeLeaseDurationSeconds: 8
kubeAPIQPS: 200
kubeAPIBurst: 400
# This machine's disk is not ours to judge: no image is removed, no pod evicted, because it is full.
imageGCHighThresholdPercent: 100
evictionHard: {"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%"}
YAML
}

start_kubelet() {
  start_process kubelet "${IN_NETWORK[@]}" "$BIN/kubelet" --config="$DIR/kubelet/config.yaml" --root-dir="$DIR/kubelet" \
    --kubeconfig="$DIR/pki/kubelet.kubeconfig" --hostname-override="$NODE_NAME" --node-ip="$API_ADDRESS"
}

start_kube_proxy() {
  # 0 leaves the kernel's limits for connections alone.
  start_process kube-proxy "${IN_NETWORK[@]}" "$BIN/kube-proxy" --kubeconfig="$DIR/pki/kube-proxy.kubeconfig" --proxy-mode=iptables \
    --hostname-override="$NODE_NAME" --cluster-cidr=10.244.0.0/16 --oom-score-adj=0 --conntrack-max-per-core=0 \
    --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
}

node_is_ready() { kubectl wait --for=condition=Ready "node/$NODE_NAME" --timeout=0; }

start_node() {
  make_certificate kubelet "/O=system:nodes/CN=system:node:$NODE_NAME" "IP:$API_ADDRESS,DNS:$NODE_NAME"
  make_kubeconfig kubelet "$DIR/pki/kubelet.kubeconfig"
  make_client kube-proxy "/CN=system:kube-proxy"
  save_settings
  make_control_groups
  start_containerd
  "$CLUSTER/image" pause "$DIR/pause.tar"
  ctr images import "$DIR/pause.tar" > "$DIR/logs/import.log" 2>&1 ||
    fail "containerd takes no image; see $DIR/logs/import.log and $DIR/logs/containerd.log"
  rm "$DIR/pause.tar"
  write_kubelet_configuration
  start_kubelet
  start_kube_proxy
  wait_until 60 "node that is Ready" node_is_ready
}
