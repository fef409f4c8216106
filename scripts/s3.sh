#!/usr/bin/env bash
# Checkpoints in an S3-compatible store: starts a server on this machine (s3s-fs of crates.io, which keeps
# objects as files), runs the tests of crates/checkpoint against it, kills a node of a run whose checkpoints
# lie there, reads them with `intendant checkpoint`, and takes the server away from a run.
#
# Usage: scripts/s3.sh [APP]     (APP: mf, the default, or kge)
# Installs s3s-fs below target/s3 if it is not there, and builds the programs with `--features s3`. Ends with
# 1 at the first thing that is not as documented.
set -euo pipefail
app=${1:-mf}
case $app in
  mf) flags=(--algorithm blocks --valid-every 0) epochs=200 quality=rmse tolerance=.02 ;;
  kge) flags=(--data builtin:codex-s --valid-every 0 --dim 16) epochs=20 quality=mrr_filtered tolerance=.1 ;;
  *) echo "s3.sh: no application '$app'; mf or kge"; exit 2 ;;
esac
cd "$(dirname "$0")/.."
for name in $(compgen -e); do
  case $name in RANK | WORLD_SIZE | LOCAL_* | MASTER_* | INTENDANT_* | AWS_*) unset "$name" ;; esac
done
version=0.14.1 programs=${CARGO_TARGET_DIR:-target}/debug tool=$PWD/target/s3
[ -x "$tool/bin/s3s-fs" ] ||
  cargo install --quiet s3s-fs --version $version --features binary --locked --debug --root "$tool"
cargo build --quiet --locked --package "$app" --package intendant-cli --features "$app/s3,intendant-cli/s3"
work=$(mktemp -d)
# Programs stage parts here; nothing may be left.
mkdir -p "$work/root/checkpoints" "$work/staging"
server='' launcher=''
down() {
  for process in $launcher $server; do kill -KILL "$process" 2>/dev/null || true; done
  rm -rf "$work"
}
trap down EXIT
# Seconds. What takes longer hangs.
patience=180
fail() { echo "FAILED: $*" >&2; tail -n 40 "$work/out" >&2; exit 1; }
intendant() { TMPDIR=$work/staging "$programs/intendant" "$@" >"$work/out" 2>&1; }
# What a report says that does not depend on timing, or on who trained.
facts() { grep -E '"(data_digest|examples)":' "$1" | tr -d ' ,'; }
member() { sed -nE "s/.*\"$2\": *([-+0-9.e]+).*/\\1/p" "$1" | tail -n 1; }

nothing_is_staged() { [ -z "$(ls -A "$work/staging")" ] || fail "left in the temporary folder: $(ls "$work/staging")"; }
# background COMMAND…: starts it, and waits until it has made a checkpoint in the folder `cuts`.
background() {
  TMPDIR=$work/staging "$@" >"$work/out" 2>&1 &
  launcher=$!
  for _ in $(seq $((patience * 10))); do
    ! ls "$work/root/${cuts#s3://}"/cut-*/manifest.json >/dev/null 2>&1 || return 0
    kill -0 $launcher 2>/dev/null || fail 'the run ended before it was disturbed'
    sleep 0.1
  done
  fail 'no checkpoint is made'
}
# Waits until the command in the background ends; `code` is its exit code.
ends() {
  for _ in $(seq $((patience * 10))); do kill -0 $launcher 2>/dev/null || break; sleep 0.1; done
  ! kill -0 $launcher 2>/dev/null || fail 'the run hangs'
  code=0
  wait $launcher || code=$?
  launcher=
}

export AWS_ACCESS_KEY_ID=intendant AWS_SECRET_ACCESS_KEY=not-a-secret AWS_REGION=us-east-1 AWS_ALLOW_HTTP=true
# What is on this machine is reached directly.
export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
RANDOM=$$
for _ in $(seq 20); do
  port=$((20000 + RANDOM % 12000))
  "$tool/bin/s3s-fs" --host 127.0.0.1 --port $port --access-key $AWS_ACCESS_KEY_ID \
    --secret-key $AWS_SECRET_ACCESS_KEY "$work/root" >"$work/server" 2>&1 &
  server=$!
  # It ends if the port is taken.
  for _ in $(seq 100); do
    kill -0 $server 2>/dev/null || break
    ! (: <>/dev/tcp/127.0.0.1/$port) 2>/dev/null || break 2
    sleep 0.1
  done
  kill -KILL $server 2>/dev/null || true
  wait $server 2>/dev/null || true
  server=
done
[ -n "$server" ] || { cat "$work/server" >&2; fail 'the server does not start'; }
export AWS_ENDPOINT=http://127.0.0.1:$port

S3_TEST_ADDRESS=s3://checkpoints/test TMPDIR=$work/staging \
  cargo test --locked --package intendant-checkpoint --features s3 --test s3 >"$work/out" 2>&1 || fail 'the tests'
echo "ok: $(grep -o '^test result: ok. [0-9]* passed' "$work/out") of crates/checkpoint/tests/s3"

# A node is killed when a checkpoint is committed.
train=("$programs/intendant-$app" "${flags[@]}" --nodes 3) long=(--epochs $epochs)
timeout $patience "${train[@]}" "${long[@]}" -q --report "$work/plain.json" >"$work/out" 2>&1 || fail 'the undisturbed run'
cuts=s3://checkpoints/run
background "${train[@]}" "${long[@]}" --checkpoint $cuts --checkpoint-seconds 1 --max-restarts 1 --report "$work/report.json"
victim=
for node in $(cat /proc/$launcher/task/$launcher/children); do
  ! tr '\0' '\n' <"/proc/$node/environ" 2>/dev/null | grep -qx 'RANK=1' || victim=$node
done
[ -n "$victim" ] || fail 'there is no rank 1'
kill -KILL "$victim"
ends
[ $code = 0 ] || fail "exit code $code after a node was killed"
grep -q "resuming from $cuts/cut-" "$work/out" || fail 'it does not go on from a checkpoint'
# One that is killed while it writes a part leaves it.
rm -rf "$work"/staging/*
diff <(facts "$work/plain.json") <(facts "$work/report.json") >>"$work/out" || fail 'it trained other examples'
one=$(member "$work/plain.json" $quality) other=$(member "$work/report.json" $quality)
awk -v a="$one" -v b="$other" -v t=$tolerance 'BEGIN { d = (b - a) / a; exit !(d < t && d > -t) }' ||
  fail "$quality is $other, undisturbed $one"
echo "ok: goes on after rank 1 was killed: $(facts "$work/report.json" | sed -n 's/"data_digest":/data /p'), $quality $other (undisturbed: $one)"

# What reads checkpoints.
intendant checkpoint verify $cuts || fail 'a checkpoint is damaged'
grep -q '^2 checkpoints verified' "$work/out" || fail 'not two checkpoints'
intendant checkpoint show $cuts || fail 'show'
newest=$(grep -o "^$cuts/cut-[0-9]*" "$work/out" | tail -n 1)
intendant checkpoint export $cuts "$work/model" --format npy || fail 'export'
intendant checkpoint diff $cuts "$newest" || fail 'the newest checkpoint differs from itself'
ls "$work"/model/*.npy >/dev/null || fail 'no model'
timeout $patience "${train[@]}" -q --from $cuts --epochs 1 --report "$work/report.json" >"$work/out" 2>&1 || fail '--from'
part=$work/root/checkpoints/${newest#s3://checkpoints/}/part-0.safetensors
printf 'x' | dd of="$part" bs=1 seek=200 conv=notrunc status=none
code=0
intendant checkpoint verify "$newest" || code=$?
[ $code = 5 ] || fail "exit code $code for a damaged checkpoint"
grep -q "$newest/part-0.safetensors is damaged at byte 0: " "$work/out" || fail 'damage is not named by its address'
nothing_is_staged
echo "ok: verify, show, export, diff and --from; $(grep -o "$newest/part-0.*" "$work/out" | head -n 1)"

# The server goes away. The run ends with all epochs, and says that its last checkpoint is missing.
cuts=s3://checkpoints/lost
background "${train[@]}" "${long[@]}" --checkpoint $cuts --checkpoint-seconds 1 --report "$work/lost.json"
kill -KILL $server
wait $server 2>/dev/null || true
server=
ends
[ $code = 1 ] || fail "exit code $code without a server"
grep -q 'Connection refused' "$work/out" || fail 'does not say what is wrong'
nothing_is_staged
diff <(facts "$work/plain.json") <(facts "$work/lost.json") >>"$work/out" || fail 'it trained other examples'
code=0
timeout $patience "${train[@]}" --checkpoint s3://checkpoints/new >"$work/out" 2>&1 || code=$?
[ $code = 1 ] && grep -q 'cannot list s3://checkpoints/new: .*Connection refused' "$work/out" ||
  fail "exit code $code of a run that begins without a server"
echo "ok: without a server a run goes on, and none begins: $(grep -m 1 -o 'cannot list.*' "$work/out")"
