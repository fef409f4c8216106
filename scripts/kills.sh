#!/usr/bin/env bash
# Kills (SIGKILL) random processes of training runs at random moments, and checks that each run trains what it
# would have trained undisturbed: the same data, every example of every epoch once, to the same quality.
#
# Usage: scripts/kills.sh [KILLS [SEED [FOLDER]]]
#        200 kills by default. FOLDER has the programs of all applications; by default it is that of the last
#        build below target
# Prints a line per kill and per end of a run. Ends with 1 at the first thing that is not as documented.
set -euo pipefail
kills=${1:-200} seed=${2:-1}
here=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
programs=${3:-$(dirname "$(ls -t "$here"/target/{release,debug}/intendant-kge 2>/dev/null | head -n 1)")}
for program in intendant intendant-{bpmf,kge,lda,lr,mf,sketch,word2vec}; do
  [ -x "$programs/$program" ] || { echo "kills.sh: no program $programs/$program; cargo build"; exit 2; }
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
RANDOM=$seed

# Seconds. A run that takes longer hangs.
patience=120
flags_of() {
  case $1 in
    bpmf) echo --data builtin:zipf:6000x600x200000 --epochs 100 --valid-every 0 ;;
    kge) echo --data builtin:codex-s --epochs 12 --valid-every 0 --dim 16 ;;
    lr) echo --data builtin:sparse:100000x5000x30 --epochs 30 --valid-every 0 ;;
    lda) echo --epochs 200 --valid-every 0 ;;
    mf) echo --algorithm blocks --epochs 100 --valid-every 0 ;;
    sketch) echo --data builtin:zipf:4000000x50000 --epochs 4 --batch-bytes 4096 --valid-every 0 ;;
    word2vec) echo --epochs 8 --valid-every 0 ;;
  esac
}
# How nodes share what they train: the flag, and its values.
flag_of() {
  case $1 in
    bpmf) echo --exchange ;;
    *) echo --technique ;;
  esac
}
techniques_of() {
  case $1 in
    bpmf) echo lapser-push lapser-pull lapser-push-by-slack all-gather ;;
    *) echo adaptive lapse classic essp full-replication ;;
  esac
}
# The member of the report that tells the quality, and how much the runs may differ in it. Chains do not.
quality_of() {
  case $1 in
    bpmf) echo rmse 1e-15 ;;
    kge) echo mrr_filtered .1 ;;
    lr) echo log_loss .02 ;;
    lda) echo perplexity .2 ;;
    mf) echo rmse .02 ;;
    sketch) echo inserted 1e-15 ;;
    word2vec) echo heldout_loss .05 ;;
  esac
}
pick() { local at=$((1 + RANDOM % $#)); echo "${!at}"; }
# What a report says that does not depend on timing, or on who trained.
facts() { grep -E '"(data_digest|examples)":' "$1" | tr -d ' ,'; }
member() { sed -nE "s/.*\"$2\": *([-+0-9.e]+).*/\\1/p" "$1" | tail -n 1; }
fail() { echo "FAILED: $*" >&2; tail -n 40 "$work/out" >&2; exit 1; }
# Milliseconds since the epoch.
ms() { echo $(($(date +%s%N) / 1000000)); }
pause() { sleep "$(awk -v ms="$1" 'BEGIN { print ms / 1000 }')"; }
nodes_of() { cat "/proc/$1/task/$1/children" 2>/dev/null || true; }

done_kills=0 run=0
while [ "$done_kills" -lt "$kills" ]; do
  run=$((run + 1))
  task=$(pick bpmf kge lda lr mf sketch word2vec) cuts=$work/cuts report=$work/report.json
  read -ra flags <<<"$(flags_of "$task")"
  plain=$work/plain.$task.json
  [ -f "$plain" ] || "$programs/intendant-$task" "${flags[@]}" --nodes 3 -q --report "$plain" >"$work/out" 2>&1 ||
    fail "undisturbed $task"
  rm -rf "$cuts" "$report"
  starts=0 wanted=$((1 + RANDOM % 6)) began=$(ms)
  # Until the run has ended by itself.
  while :; do
    starts=$((starts + 1))
    # shellcheck disable=SC2046
    nodes=$(pick 1 2 3 4) technique=$(pick $(techniques_of "$task"))
    [ $((starts % 3)) != 0 ] || wanted=0 # Let it end at some time.
    "$programs/intendant-$task" "${flags[@]}" --nodes "$nodes" "$(flag_of "$task")" "$technique" --max-restarts 3 \
      --checkpoint "$cuts" --checkpoint-seconds 0.1 --resume --report "$report" >"$work/out" 2>&1 &
    launcher=$! victim=
    while [ "$wanted" -gt 0 ] && [ "$done_kills" -lt "$kills" ] && kill -0 $launcher 2>/dev/null; do
      pause $((20 + RANDOM % 1200))
      # The launcher, its guardian, or a node.
      # shellcheck disable=SC2046
      victim=$(pick $launcher $(nodes_of $launcher))
      state=training
      newest=$(ls -d "$cuts"/cut-* 2>/dev/null | tail -n 1 || true)
      [ -z "$newest" ] || [ -f "$newest/manifest.json" ] || state=writing
      # One that is dead already, and not waited for yet, does not count.
      ! grep -qs '^State:.*Z' "/proc/$victim/status" || continue
      kill -KILL "$victim" 2>/dev/null || continue
      done_kills=$((done_kills + 1)) wanted=$((wanted - 1))
      who=node
      [ "$victim" != "$launcher" ] || who=launcher
      echo "kill $done_kills: run $run ($task, $nodes nodes, $technique), $who $victim, while $state"
      [ $who = node ] || break
    done
    # A run that is killed with its launcher leaves nothing behind; all others end.
    for _ in $(seq $((patience * 10))); do kill -0 $launcher 2>/dev/null || break; sleep 0.1; done
    ! kill -0 $launcher 2>/dev/null || fail "run $run hangs"
    code=0
    wait $launcher 2>/dev/null || code=$?
    launcher=
    # Before the first one is committed, there is none to verify.
    ! ls "$cuts"/cut-*/manifest.json >/dev/null 2>&1 ||
      "$programs/intendant" checkpoint verify "$cuts" >>"$work/out" 2>&1 || fail "run $run: a checkpoint is damaged"
    case $code in
      0) break ;;
      # The launcher was killed, or nodes were more often than restarts allow.
      137 | 4) echo "run $run: exit code $code, started again" ;;
      *) fail "run $run: exit code $code" ;;
    esac
  done
  diff <(facts "$plain") <(facts "$report") >>"$work/out" || fail "run $run trained other examples"
  read -r name tolerance <<<"$(quality_of "$task")"
  one=$(member "$plain" "$name") other=$(member "$report" "$name")
  awk -v a="$one" -v b="$other" -v t="$tolerance" 'BEGIN { d = (b - a) / a; exit !(d < t && d > -t) }' ||
    fail "run $run: $name is $other, undisturbed $one"
  echo "ok: run $run ($task) ended after $starts starts, $(($(ms) - began)) ms: $name $other (undisturbed $one)"
done
echo "ok: $done_kills kills, $run runs, seed $seed"
