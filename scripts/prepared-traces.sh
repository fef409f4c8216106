#!/usr/bin/env bash
# Makes the prepared traces of the dashboard, crates/dashboard/traces/*.parquet, and the numbers that their
# descriptions tell (traces/results.toml). The runs are simulated, so they take seconds, and the same sources
# make the same events.
#
#   scripts/prepared-traces.sh [FOLDER-OF-PROGRAMS]       default: target/release, which is built
#
# Settings are those of the figures in bench-configs/ (thesis-fig-3.8 to 3.10), at a small scale. Only some
# keys are traced, so that the files are small; all relations of the knowledge graph are among them.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-}
if [ -z "$bin" ]; then
  cargo build --release --locked --package kge --package mf --package word2vec --package intendant-cli
  bin=target/release
fi
traces=crates/dashboard/traces
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# every FROM TO STEP COUNT: so many keys after every step
every() {
  local list="" at
  for ((at = $1; at < $2; at += $3)); do list+="$at..$((at + $4)),"; done
  printf '%s' "${list%,}"
}

# trace NAME PROGRAM OPTIONS: runs a program and merges its trace
trace() {
  local name=$1 program=$2
  shift 2
  "$bin/intendant-$program" --simulate --net 10gbe --machine xeon-e5-2640v2 --nodes 4 --workers 4 --no-progress \
    --trace "$work/$name" --report "$work/$name.json" "$@"
  "$bin/intendant" trace merge "$work/$name" "$traces/$name.parquet" >/dev/null
}

kge=(--data builtin:synthetic:20000x100x4000 --model complex --dim 100 --loss logistic --negatives 10 --batch 1
  --separate --lr 0.1 --float f64 --epochs 1 --valid-every 0 --trace-keys "$(every 0 20000 500 16),20000..20200")
trace kge-classic kge "${kge[@]}" --technique classic --cluster relations --sampling conform --synchronous
trace kge-lapse kge "${kge[@]}" --technique lapse --cluster relations --sampling conform --localize-ahead 21
trace kge-adaptive kge "${kge[@]}" --technique adaptive --channels 4 --look-ahead 200 --sampling non-conform

mf=(--data builtin:uniform:4000x400x100000 --algorithm blocks --batch 1 --synchronous --optimizer sgd --lr 0.05
  --bias false --l2-scope use --l2 0.05 --rank 8 --charge 12.5 --float f64 --epochs 2
  --trace-keys "$(every 0 4000 200 10),$(every 4000 4400 20 10)")
trace mf-classic mf "${mf[@]}" --technique classic
trace mf-lapse mf "${mf[@]}" --technique lapse
trace mf-adaptive mf "${mf[@]}" --technique adaptive

word2vec=(--data builtin:topics:20000x20000 --negatives 25 --window 5 --sample 1e-5 --min-count 0 --batch-words 1
  --separate --operation-keys 1 --lr 0.05 --dim 8 --charge 125 --charge-compute 125 --valid-every 1 --epochs 1
  --float f32 --trace-keys sample:1/16)
trace word2vec-classic word2vec "${word2vec[@]}" --technique classic --sampling conform
trace word2vec-lapse word2vec "${word2vec[@]}" --technique lapse --localize-ahead 40 --sampling non-conform
trace word2vec-adaptive word2vec "${word2vec[@]}" --technique adaptive --channels 4 --look-ahead 2000 --sampling non-conform

# The numbers of the reports are those of all keys.
{
  echo "# Made by scripts/prepared-traces.sh: simulated seconds per epoch; shares, counts and bytes of all keys."
  for report in "$work"/*.json; do
    name=$(basename "$report" .json)
    python3 - "$report" "$name" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
epochs, access = report["epochs"], report["access"]
print(f"\n[{sys.argv[2]}]")
print(f"epoch_seconds = {sum(epoch['seconds'] for epoch in epochs) / len(epochs):.4f}")
print(f"remote_share = {access['remote_share']:.5f}")
print(f"relocations = {report['management']['relocations']}")
print(f"replicas = {report['management']['replica_setups']}")
print(f"sent_bytes = {report['network']['bytes']}")
PYTHON
  done
} >"$traces/results.toml"
ls -l "$traces"
