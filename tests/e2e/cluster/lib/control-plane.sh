# shellcheck shell=bash
# etcd, API server, controller manager, scheduler. Set before: DIR, BIN, API_ADDRESS, API_PORT, ETCD_PORT, IN_NETWORK, WITH_NODE.

SERVICE_RANGE=10.96.0.0/16

kubectl() { "$BIN/kubectl" --kubeconfig "$DIR/kubeconfig" "$@"; }

make_control_plane_certificates() {
  make_authority
  make_certificate api-server "/CN=kube-apiserver" \
    "IP:$API_ADDRESS,IP:10.96.0.1,IP:127.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
  make_certificate api-server-to-kubelet "/O=system:masters/CN=kube-apiserver-kubelet-client"
  make_client controller-manager "/CN=system:kube-controller-manager"
  make_client scheduler "/CN=system:kube-scheduler"
  make_certificate admin "/O=system:masters/CN=admin"
  make_kubeconfig admin "$DIR/kubeconfig"
}

start_etcd() {
  local peer=$((ETCD_PORT + 1))
  start_process etcd "${IN_NETWORK[@]}" "$BIN/etcd" --name=trawler-test --data-dir="$DIR/etcd" --unsafe-no-fsync \
    --log-level=warn --quota-backend-bytes=8589934592 \
    --listen-client-urls="http://127.0.0.1:$ETCD_PORT" --advertise-client-urls="http://127.0.0.1:$ETCD_PORT" \
    --listen-peer-urls="http://127.0.0.1:$peer" --initial-advertise-peer-urls="http://127.0.0.1:$peer" \
    --initial-cluster="trawler-test=http://127.0.0.1:$peer"
}

# Who asked for what, of all but the cluster's own components: what a client's role must allow, and how much it asks for.
write_audit_policy() {
  cat > "$DIR/audit-policy.yaml" << 'YAML'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, userGroups: ["system:nodes", "system:serviceaccounts:kube-system"]}
  - level: None
    users:
      - system:apiserver
      - system:kube-controller-manager
      - system:kube-scheduler
      - system:kube-proxy
      - system:coredns
      - kwok
  - {level: Metadata}
YAML
}

start_api_server() {
  local pki="$DIR/pki" endpoints=lease
  # A loopback address is no endpoint that Kubernetes accepts.
  [ "$WITH_NODE" = yes ] || endpoints=none
  write_audit_policy
  start_process api-server "${IN_NETWORK[@]}" "$BIN/kube-apiserver" --etcd-servers="http://127.0.0.1:$ETCD_PORT" \
    --bind-address="$API_ADDRESS" --advertise-address="$API_ADDRESS" --secure-port="$API_PORT" \
    --endpoint-reconciler-type="$endpoints" --service-cluster-ip-range="$SERVICE_RANGE" \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --client-ca-file="$pki/ca.crt" \
    --tls-cert-file="$pki/api-server.crt" --tls-private-key-file="$pki/api-server.key" \
    --kubelet-client-certificate="$pki/api-server-to-kubelet.crt" --kubelet-client-key="$pki/api-server-to-kubelet.key" \
    --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/tokens.pub" \
    --service-account-signing-key-file="$pki/tokens.key" \
    --audit-policy-file="$DIR/audit-policy.yaml" --audit-log-path="$DIR/logs/audit.log" --profiling=false
}

start_controller_manager() {
  local pki="$DIR/pki" node_flags=()
  # A lost node is noticed in seconds; kwok's nodes report less often.
  [ "$WITH_NODE" = no ] || node_flags=(--node-monitor-grace-period=16s --node-monitor-period=2s)
  start_process controller-manager "${IN_NETWORK[@]}" "$BIN/kube-controller-manager" --kubeconfig="$pki/controller-manager.kubeconfig" \
    --leader-elect=false --secure-port=0 --use-service-account-credentials --root-ca-file="$pki/ca.crt" \
    --service-account-private-key-file="$pki/tokens.key" --flex-volume-plugin-dir="$DIR/volume-plugins" \
    --kube-api-qps=200 --kube-api-burst=400 "${node_flags[@]}"
}

start_scheduler() {
  start_process scheduler "${IN_NETWORK[@]}" "$BIN/kube-scheduler" --kubeconfig="$DIR/pki/scheduler.kubeconfig" --leader-elect=false \
    --secure-port=0 --kube-api-qps=200 --kube-api-burst=400
}

start_control_plane() {
  make_control_plane_certificates
  start_etcd
  start_api_server
  wait_until 60 "API server that says it is ready" kubectl get --raw /readyz
  start_controller_manager
  start_scheduler
  # Pods are refused before the controller manager has made it.
  wait_until 60 "service account 'default'" kubectl get serviceaccount --namespace default default
}
