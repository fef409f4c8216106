#!/usr/bin/env bash
# Kills (SIGKILL) each of four nodes of training runs with --copies 1 in turn, and lets a fifth node join and
# two leave. Checks that each run goes on within 10 s, and trains what it would have trained undisturbed: the
# same data, every example of every epoch once, to the same quality.
#
# Usage: scripts/copies.sh [FOLDER [TASK...]]
#        FOLDER has the programs of all applications; by default it is that of the last build below target.
#        The tasks are kge, lr and sketch by default
# Prints a line per run. Ends with 1 at the first thing that is not as documented.
set -euo pipefail
here=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
programs=${1:-$(dirname "$(ls -t "$here"/target/{release,debug}/intendant-kge 2>/dev/null | head -n 1)")}
shift $(($# < 1 ? $# : 1))
tasks=("${@:-kge}")
[ $# -gt 0 ] || tasks=(kge lr sketch)
for program in intendant "${tasks[@]/#/intendant-}"; do
  [ -x "$programs/$program" ] || { echo "copies.sh: no program $programs/$program; cargo build"; exit 2; }
done
for name in $(compgen -e); do
  case $name in RANK | WORLD_SIZE | LOCAL_* | MASTER_* | INTENDANT_*) unset "$name" ;; esac
done
work=$(mktemp -d)
launcher=
down() {
  [ -z "$launcher" ] || kill -KILL "$launcher" 2>/dev/null || true
  rm -rf "$work"
}
trap down EXIT
# Who asks for other nodes shows the token.
INTENDANT_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export INTENDANT_TOKEN

# Seconds. A run that takes longer hangs.
patience=180
flags_of() {
  case $1 in
    kge) echo --data builtin:codex-s --epochs 12 --valid-every 0 --dim 16 --technique adaptive ;;
    lr) echo --data builtin:sparse:100000x5000x30 --epochs 60 --valid-every 0 --technique classic ;;
    sketch) echo --data builtin:zipf:400000x50000 --epochs 12 --batch-bytes 4096 --valid-every 0 --technique classic ;;
    *) echo "copies.sh: no flags for $1" >&2; exit 2 ;;
  esac
}
# The member of the report that tells the quality, and how much the runs may differ in it.
quality_of() {
  case $1 in
    kge) echo mrr_filtered .1 ;;
    lr) echo log_loss .02 ;;
    sketch) echo inserted 1e-15 ;;
  esac
}
# What a report says that does not depend on timing, or on who trained.
facts() { grep -E '"(data_digest|examples)":' "$1" | tr -d ' ,'; }
member() { sed -nE "s/.*\"$2\": *([-+0-9.e]+).*/\\1/p" "$1" | tail -n 1; }
fail() { echo "FAILED: $*" >&2; tail -n 40 "$work/out" >&2; exit 1; }
nodes_of() { cat "/proc/$1/task/$1/children" 2>/dev/null || true; }
# The process of a node.
process_of() {
  local process
  for process in $(nodes_of "$launcher"); do
    tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx "RANK=$1" && echo "$process"
  done
}
# Waits until a line with these words has come so many times, or the run has ended.
await() {
  local count=$1 words=$2 until=$((SECONDS + patience))
  while [ "$(grep -c -- "$words" "$work/out" || true)" -lt "$count" ]; do
    kill -0 "$launcher" 2>/dev/null || fail "$what: the run has ended before '$words'"
    [ $SECONDS -lt $until ] || fail "$what: no '$words' within $patience s"
    sleep .05
  done
}
start() {
  : >"$work/out"
  "$programs/intendant-$task" "${flags[@]}" --nodes 4 --copies 1 --checkpoint-seconds .5 --report "$report" \
    >"$work/out" 2>&1 &
  launcher=$!
  # Training is on its way.
  await 1 '^epoch '
}
# The run ends well, and its report says so.
check() {
  local code=0 until=$((SECONDS + patience))
  while kill -0 "$launcher" 2>/dev/null; do
    [ $SECONDS -lt $until ] || fail "$what: the run does not end within $patience s"
    sleep .1
  done
  wait "$launcher" || code=$?
  launcher=
  [ $code -eq 0 ] || fail "$what: exit code $code"
  [ "$(facts "$report")" = "$(facts "$plain")" ] || fail "$what: it trained something else"
  read -r name tolerance <<<"$(quality_of "$task")"
  local here=$(member "$report" "$name") there=$(member "$plain" "$name")
  awk -v a="$here" -v b="$there" -v t="$tolerance" \
    'BEGIN { d = a - b; if (d < 0) d = -d; m = b < 0 ? -b : b; exit !(d <= t * m) }' ||
    fail "$what: $name is $here, and undisturbed $there"
  local change=$(member "$report" change_ms)
  awk -v ms="$change" 'BEGIN { exit !(ms < 10000) }' || fail "$what: it went on after $change ms"
  [ "$(member "$report" lost)" = "$1" ] && [ "$(member "$report" joined)" = "$2" ] &&
    [ "$(member "$report" left)" = "$3" ] || fail "$what: the report names other changes"
  echo "ok: $what; went on after $change ms; $name $here ($there)"
}

for task in "${tasks[@]}"; do
  plain=$work/plain.$task.json report=$work/report.json what="undisturbed $task"
  read -ra flags <<<"$(flags_of "$task")"
  "$programs/intendant-$task" "${flags[@]}" --nodes 4 -q --report "$plain" >"$work/out" 2>&1 || fail "$what"
  for rank in 0 1 2 3; do
    what="$task without node $rank" && rm -f "$report"
    start
    kill -KILL "$(process_of $rank)"
    check 1 0 0
  done
  what="$task with a fifth node, and then with three" && rm -f "$report"
  start
  address=$(sed -nE 's/.*--join ([^ ]+).*/\1/p' "$work/out" | tail -n 1)
  "$programs/intendant" scale 5 "$address" >>"$work/out" || fail "$what: scale 5"
  await 1 'has 5 nodes'
  await 2 'nodes can join'
  "$programs/intendant" scale 3 "$address" >>"$work/out" || fail "$what: scale 3"
  await 1 'view .* has 3 nodes'
  check 0 1 2
done
