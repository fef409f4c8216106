#!/usr/bin/env bash
# Cuts two of three nodes off from each other while both still reach the coordinator. The run must end within
# ten seconds, with exit code 4 on all nodes, and name both nodes. Heartbeats cannot detect this; the
# connections of the data plane do.
#
# Usage: scripts/partition.sh [KGE]     (KGE: the program, target/release/intendant-kge unless given)
# Needs Linux, root and iproute2. It works in its own network namespaces and removes them at the end.
set -euo pipefail
kge=$(realpath "${1:-$(dirname "$0")/../target/release/intendant-kge}")
logs=$(mktemp -d)
id=intendant-$$
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  for node in switch 0 1 2; do ip netns del "$id-$node" 2>/dev/null || true; done
  rm -rf "$logs"
}
trap cleanup EXIT

for node in switch 0 1 2; do
  ip netns add "$id-$node"
  ip -n "$id-$node" link set lo up
done
ip -n "$id-switch" link add bridge type bridge
ip -n "$id-switch" link set bridge up
for node in 0 1 2; do
  ip link add data netns "$id-$node" type veth peer name "port$node" netns "$id-switch"
  ip -n "$id-switch" link set "port$node" master bridge up
  ip -n "$id-$node" addr add "10.77.0.1$node/24" dev data
  ip -n "$id-$node" link set data up
done
sleep 1

token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
for rank in 0 1 2; do
  RANK=$rank WORLD_SIZE=3 MASTER_ADDR=10.77.0.10 MASTER_PORT=29500 INTENDANT_TOKEN=$token \
    ip netns exec "$id-$rank" "$kge" --epochs 100000 --valid-every 0 --dim 16 >"$logs/$rank" 2>&1 &
  pids+=($!)
done
until grep -q 'epoch *2/' "$logs/0"; do
  kill -0 "${pids[0]}" || { cat "$logs"/*; exit 1; }
  sleep 0.2
done

echo "training; from now on nodes 1 and 2 do not reach each other"
start=$(date +%s%N)
# No interface has this address, so frames to it are lost.
ip netns exec "$id-1" ip neigh replace 10.77.0.12 lladdr 02:00:00:00:00:99 dev data nud permanent
ip netns exec "$id-2" ip neigh replace 10.77.0.11 lladdr 02:00:00:00:00:99 dev data nud permanent
result=0
for rank in 0 1 2; do
  code=0
  wait "${pids[$rank]}" || code=$?
  echo "node $rank: exit code $code after $((($(date +%s%N) - start) / 1000000)) ms: $(tail -n 1 "$logs/$rank")"
  [ "$code" = 4 ] || result=1
done
exit "$result"
