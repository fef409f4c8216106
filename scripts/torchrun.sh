#!/usr/bin/env bash
# Runs intendant-kge under torchrun on this machine, compares it with `--nodes N`, and kills a rank of a run
# with checkpoints.
#
# Usage: scripts/torchrun.sh [KGE]     (KGE: the program; by default the last build below target)
# Without torchrun, it does nothing and succeeds, or fails with REQUIRE=1. It installs nothing.
set -euo pipefail
rank_variable=RANK
. "$(dirname "$0")/launch-checks.sh"
need "python3-venv, then pip install torch" torchrun
find_kge "$@"
trap 'rm -rf "$work"' EXIT

torch=(torchrun --standalone --no-python)
trains 2 "${torch[@]}" --nproc-per-node 2
trains 4 "${torch[@]}" --nproc-per-node 4
survives "${torch[@]}" --max-restarts 3 --nproc-per-node 4 "$work/survives/run"
