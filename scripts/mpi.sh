#!/usr/bin/env bash
# Runs `kge` under Open MPI's mpirun, on this machine: as it is, the same as `kge --nodes N`; and when a rank is lost.
#
# Usage: scripts/mpi.sh [KGE]     (KGE: the program; unless given, what was built last below target)
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
# One process is none of several: it starts its own.
trains 2 "${mpi[@]}" -n 1 env INTENDANT_NODES=2
refuses 2 'OMPI_COMM_WORLD_SIZE says that this process is one of 2' "${mpi[@]}" -n 2 "$kge" --nodes 3
# As on two machines, for which Open MPI does not say where rank 0 is.
refuses 2 '-x MASTER_ADDR=HOST' "${mpi[@]}" -n 2 env OMPI_COMM_WORLD_LOCAL_SIZE=1 "$kge"
# An address that other machines reach needs a token.
address=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m 1 -E '^[0-9.]+$' || true)
if [ -n "$address" ]; then
  refuses 2 'there is no token' "${mpi[@]}" -x "MASTER_ADDR=$address" -n 2 "$kge"
fi
# mpirun itself ends the other ranks, with SIGTERM and soon SIGKILL, as soon as one is gone: some may not get to say why.
for loss in 'KILL 2' 'KILL 0' 'STOP 1'; do
  # shellcheck disable=SC2086
  loses $loss '4 143 none' "${mpi[@]}" -n 4
done
