#!/usr/bin/env bash
# Makes checkpoints in a file system of 20 MiB that has room for one of them, and for none. The run goes on,
# its results are written, it ends with exit code 1, and the checkpoint that fitted stays good.
#
# Usage: scripts/full-disk.sh [FOLDER]     (FOLDER has intendant and intendant-kge; by default that of the
#        last build below target). Needs root, to mount a tmpfs in a temporary folder.
set -euo pipefail
here=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
programs=${1:-$(dirname "$(ls -t "$here"/target/{release,debug}/intendant-kge 2>/dev/null | head -n 1)")}
[ -x "$programs/intendant-kge" ] || { echo "full-disk.sh: no program $programs/intendant-kge; cargo build"; exit 2; }
[ "$(id -u)" = 0 ] || { echo 'full-disk.sh: skipped, only root can mount a tmpfs'; exit "$((${REQUIRE:-0} != 0))"; }
work=$(mktemp -d)
trap 'umount "$work/small" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/small"
mount -t tmpfs -o size=20m tmpfs "$work/small"
fail() { echo "FAILED: $*" >&2; cat "$work/out" >&2; exit 1; }
# A model of 16 MiB.
flags=(--data builtin:codex-s --dim 1024 --epochs 2 --valid-every 0 --report "$work/report.json")
flags+=(--checkpoint "$work/small/cuts" --checkpoint-seconds 1)
run() {
  local code=0
  rm -f "$work/report.json"
  timeout 300 "$programs/intendant-kge" "${flags[@]}" "$@" >"$work/out" 2>&1 || code=$?
  [ $code = 1 ] || fail "exit code $code, not 1"
  grep -q 'No space left on device' "$work/out" || fail 'does not say what is wrong'
  [ "$(grep -c '"epoch":' "$work/report.json")" = 2 ] || fail 'the report is not whole'
}
run --nodes 2
[ "$(ls -d "$work"/small/cuts/cut-*/manifest.json | wc -l)" = 1 ] || fail 'not one checkpoint'
"$programs/intendant" checkpoint verify "$work/small/cuts" >"$work/out" 2>&1 || fail 'the checkpoint is damaged'
run --nodes 3 --resume
grep -q 'resuming from' "$work/out" || fail 'does not go on from it'
echo "ok: room for one checkpoint: $(grep -m 1 -o 'checkpoint [0-9]* is given up.*' "$work/out" | sed "s|$work/||g")"
rm -rf "$work/small/cuts"
head -c 19M /dev/zero >"$work/small/other"
run --nodes 2
! ls "$work"/small/cuts/cut-*/manifest.json >/dev/null 2>&1 || fail 'a checkpoint where there is no room'
echo "ok: room for none: $(grep -m 1 -o 'checkpoint [0-9]* is given up.*' "$work/out" | sed "s|$work/||g")"
