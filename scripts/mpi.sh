#!/usr/bin/env bash
# Runs intendant-kge under Open MPI's mpirun on this machine, compares it with `--nodes N`, and kills or
# freezes ranks.
#
# Usage: scripts/mpi.sh [KGE]     (KGE: the program; by default the last build below target)
# Without mpirun, it does nothing and succeeds, or fails with REQUIRE=1. It installs nothing.
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
# As on two machines: Open MPI gives no address of rank 0.
refuses 2 '-x MASTER_ADDR=HOST' "${mpi[@]}" -n 2 env OMPI_COMM_WORLD_LOCAL_SIZE=1 "$kge"
# An address that other machines can reach requires a token.
address=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m 1 -E '^[0-9.]+$' || true)
if [ -n "$address" ]; then
  refuses 2 'there is no token' "${mpi[@]}" -x "MASTER_ADDR=$address" -n 2 "$kge"
fi
# When a rank is gone, mpirun ends the others by SIGTERM and soon SIGKILL, so some cannot report the reason.
for loss in 'KILL 2' 'KILL 0' 'STOP 1'; do
  # shellcheck disable=SC2086
  loses $loss '4 143 none' "${mpi[@]}" -n 4
done

# As docs/launchers.md says it.
cat >"$work/again" <<'END'
#!/bin/bash
until "$@"; do
  code=$?
  [ $code = 4 ] || [ $code -gt 100 ] || exit $code
done
END
chmod +x "$work/again"
survives "$work/again" "${mpi[@]}" -n 4 "$work/survives/run"
