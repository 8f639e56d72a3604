# shellcheck shell=bash disable=SC2034 # what it sets is used by others
# A network of the cluster's own: a namespace that a pair of devices joins to this machine. Ports, bridges and iptables of
# the cluster are in there, so that clusters don't disturb each other, nor the machine, and go away with it.
# Set before: NAME, SERVICE_RANGE. Sets: API_ADDRESS, HOST_ADDRESS, IN_NETWORK.

# free_subnet: the N of a network 10.10.N.0/30 that this machine does not use.
free_subnet() {
  local used number
  used="$(ip -4 address show; ip -4 route show)"
  for number in $(seq 10 250); do
    case "$used" in
      *" 10.10.$number."* | *"10.10.0.0/16"* | *" 10.0.0.0/8"*) ;;
      *) printf '%s' "$number"; return ;;
    esac
  done
  fail "this machine uses all networks 10.10.N.0/30, or one that contains them: the cluster finds no address. See 'ip route'"
}

make_network() {
  local number
  number=$(free_subnet)
  HOST_ADDRESS="10.10.$number.1" API_ADDRESS="10.10.$number.2"
  IN_NETWORK=(nsenter "--net=/run/netns/$NAME")
  ip netns add "$NAME"
  ip link add "$NAME-h" type veth peer name eth0 netns "$NAME"
  ip address add "$HOST_ADDRESS/30" dev "$NAME-h"
  ip link set "$NAME-h" up
  ip -n "$NAME" address add "$API_ADDRESS/30" dev eth0
  ip -n "$NAME" link set lo up
  ip -n "$NAME" link set eth0 up
  ip -n "$NAME" route add default via "$HOST_ADDRESS"
  "${IN_NETWORK[@]}" sysctl -q -w net.ipv4.ip_forward=1
  refuse_unknown_services
}

# What is sent to a Service before kube-proxy knows it would be lost, and be tried again for two minutes along the same wrong
# way. After kube-proxy's rules only such packets still have a Service's address.
refuse_unknown_services() {
  local chain
  for chain in FORWARD OUTPUT; do
    "${IN_NETWORK[@]}" iptables -A "$chain" -d "$SERVICE_RANGE" -j REJECT
  done
}

remove_network() {
  # The device on this side goes with the one inside.
  [ ! -e "/run/netns/$NAME" ] || ip netns delete "$NAME"
  ip link delete "$NAME-h" 2> /dev/null || true
}

# without_network: the control plane alone serves on this machine's loopback address, where no root is needed.
without_network() {
  local base
  HOST_ADDRESS=127.0.0.1 API_ADDRESS=127.0.0.1 IN_NETWORK=()
  for _ in $(seq 50); do
    # Below the ports that the kernel gives to connections.
    base=$((20000 + RANDOM % 10000))
    port_is_free "$base" && port_is_free $((base + 1)) && port_is_free $((base + 2)) && break
    base=""
  done
  [ -n "$base" ] || fail "50 random ports between 20000 and 30000 were all in use: 'ss -ltn' says by whom"
  API_PORT=$base ETCD_PORT=$((base + 1))
}
port_is_free() { ! (: < "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }
