#!/usr/bin/env bash
# Runs a program as the nodes of a cluster, each in a network namespace of its own and on one core. Every
# namespace sends and receives at a limited rate. Everything lives in namespaces of this script and disappears
# with it.
#
# Usage: scripts/rate-limited.sh NODES CORES RATE CMD ...   e.g. 2 2 200mbit target/release/intendant-kge
# Needs Linux with user namespaces or root, iproute2 and taskset. With CMD = true, it checks whether they are
# there.
set -euo pipefail
if [ "$1" != --inside ]; then
  exec unshare --user --map-root-user --net --mount --pid --fork --kill-child -- "$0" --inside "$@"
fi
nodes=$2 cores=$3 rate=$4
shift 4
# Names of namespaces are files of /run/netns.
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add bridge type bridge
ip link set bridge up
# One packet per token, so that short frames wait for the rate as well; and a queue that loses nothing.
limit=(tbf rate "$rate" burst 1600 limit 64mb)
for ((node = 0; node < nodes; node++)); do
  ip netns add "n$node"
  ip -n "n$node" link set lo up
  ip link add data netns "n$node" type veth peer name "port$node"
  ip link set "port$node" master bridge up
  ip -n "n$node" addr add "10.77.0.$((node + 1))/24" dev data
  # The interface gets packets as they are on the wire.
  ip -n "n$node" link set data gso_max_segs 1 up
  tc -n "n$node" qdisc add dev data root "${limit[@]}"
  tc qdisc add dev "port$node" root "${limit[@]}"
done
token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
pids=()
for ((node = 0; node < nodes; node++)); do
  RANK=$node WORLD_SIZE=$nodes MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 INTENDANT_TOKEN=$token \
    ip netns exec "n$node" taskset -c "$((node % cores))" "$@" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit "$code"
