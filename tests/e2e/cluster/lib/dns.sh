# shellcheck shell=bash
# Names of Services, answered by CoreDNS beside the kubelet. Set before: DIR, BIN, API_ADDRESS, IN_NETWORK.
# Lines in DIR/hosts ("10.10.10.1 portal.example") become names that pods can look up.

write_dns_configuration() {
  : > "$DIR/hosts"
  # Nothing else exists, and that is said at once: no other server is asked.
  printf '. 60 IN NS localhost.\n. 60 IN SOA localhost. nobody.localhost. 1 3600 600 86400 1\n' > "$DIR/zone"
  cat > "$DIR/Corefile" << CONF
.:53 {
  bind $API_ADDRESS
  errors
  ready $API_ADDRESS:8181
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $DIR/pki/coredns.kubeconfig
    ttl 0
  }
  hosts $DIR/hosts {
    reload 500ms
    ttl 1
    fallthrough
  }
  file $DIR/zone .
}
CONF
}

# The Service has no pods behind it but the process on the node.
dns_objects() {
  cat << YAML
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
  - {apiGroups: [""], resources: [services, namespaces, pods], verbs: [list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:coredns"}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
endpoints: [{addresses: ["$API_ADDRESS"], conditions: {ready: true}}]
YAML
}

# Asks through the Service's address: kube-proxy and CoreDNS both work.
dns_answers() {
  local answer
  answer=$("${IN_NETWORK[@]}" busybox nslookup -type=a kubernetes.default.svc.cluster.local 10.96.0.10 2>&1) || true
  echo "$answer"
  grep -q 'Address: 10\.96\.0\.1$' <<< "$answer"
}

start_dns() {
  make_client coredns "/CN=system:coredns"
  dns_objects | kubectl apply --server-side -f - > "$DIR/logs/dns-objects.log" 2>&1 ||
    fail "the API server refuses the objects of cluster DNS; see $DIR/logs/dns-objects.log"
  write_dns_configuration
  start_process coredns "${IN_NETWORK[@]}" "$BIN/coredns" -conf "$DIR/Corefile"
  wait_until 60 "answer from cluster DNS" dns_answers
}
