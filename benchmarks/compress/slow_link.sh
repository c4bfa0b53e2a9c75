#!/bin/bash
# Runs a program as two ranks, each in a network of its own, over a link of a given rate:
#
#   benchmarks/compress/slow_link.sh 1gbit python benchmarks/compress/distributed.py
#
# Needs the right to make namespaces (root, or a container that allows it), ip and tc. Nothing of
# the machine's own network is touched.
set -eu
if [ -z "${LANESCOPE_SLOW_LINK:-}" ]; then
  LANESCOPE_SLOW_LINK=inside exec unshare --net --mount "$0" "$@"
fi
rate=$1
shift
mkdir -p /run/netns
mount -t tmpfs none /run/netns  # of this namespace alone
ip netns add other
ip link add link0 type veth peer name link0 netns other
ip link set lo up
ip address add 10.77.0.1/24 dev link0
ip link set link0 up
tc qdisc add dev link0 root tbf rate "$rate" burst 256kb latency 20ms
in_other="ip netns exec other"
$in_other ip link set lo up
$in_other ip address add 10.77.0.2/24 dev link0
$in_other ip link set link0 up
$in_other tc qdisc add dev link0 root tbf rate "$rate" burst 256kb latency 20ms
export MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 WORLD_SIZE=2 LOCAL_RANK=0 GLOO_SOCKET_IFNAME=link0
RANK=1 $in_other "$@" &
second=$!
RANK=0 "$@" || { kill "$second" 2>/dev/null; exit 1; }
wait "$second"
