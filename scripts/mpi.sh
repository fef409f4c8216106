#!/usr/bin/env bash
# Runs `kge` under Open MPI's mpirun on this machine: compares it with `kge --nodes N`, and loses a rank.
#
# Usage: scripts/mpi.sh [KGE]     (KGE: the program; by default the last build below target)
# Skips itself if there is no mpirun, unless REQUIRE=1. Needs nothing else, and installs nothing.
set -euo pipefail
rank_variable=OMPI_COMM_WORLD_RANK
. "$(dirname "$0")/launch-checks.sh"
need openmpi-bin mpirun
find_kge "$@"
trap 'rm -rf "$work"' EXIT

mpi=(mpirun --oversubscribe --bind-to none)
[ "$(id -u)" != 0 ] || mpi+=(--allow-run-as-root)

trains 2 "${mpi[@]}" -n 2
trains 4 "${mpi[@]}" -n 4
# A single process counts as started without a launcher, and starts its own nodes.
trains 2 "${mpi[@]}" -n 1 env INTENDANT_NODES=2
refuses 2 'OMPI_COMM_WORLD_SIZE says that this process is one of 2' "${mpi[@]}" -n 2 "$kge" --nodes 3
# As on two machines, for which Open MPI does not say where rank 0 is.
refuses 2 '-x MASTER_ADDR=HOST' "${mpi[@]}" -n 2 env OMPI_COMM_WORLD_LOCAL_SIZE=1 "$kge"
# An address that other machines reach needs a token.
address=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m 1 -E '^[0-9.]+$' || true)
if [ -n "$address" ]; then
  refuses 2 'there is no token' "${mpi[@]}" -x "MASTER_ADDR=$address" -n 2 "$kge"
fi
# mpirun ends the other ranks as soon as one is gone, with SIGTERM and soon SIGKILL: some cannot report the reason.
for loss in 'KILL 2' 'KILL 0' 'STOP 1'; do
  # shellcheck disable=SC2086
  loses $loss '4 143 none' "${mpi[@]}" -n 4
done
