# Functions shared by scripts/mpi.sh, scripts/slurm.sh and scripts/torchrun.sh. They set `rank_variable` to
# the name of the launcher's rank variable, then source this file. `need` handles launchers that are not
# installed.

here=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
# Seconds. Longer runs mean that a launcher hangs.
patience=120

# Exits with success and names the missing programs, unless all are installed; REQUIRE=1 makes it a failure.
need() {
  local packages=$1 missing=()
  shift
  for program in "$@"; do command -v "$program" >/dev/null || missing+=("$program"); done
  [ ${#missing[@]} = 0 ] && return
  echo "$(basename "$0"): skipped, ${missing[*]} not found; on Debian: apt-get install --no-install-recommends $packages"
  exit "$((${REQUIRE:-0} != 0))"
}

# The program to check: the argument, or the last build.
find_kge() {
  kge=${1:-$(ls -t "$here"/target/{release,debug}/intendant-kge 2>/dev/null | head -n 1 || true)}
  [ -x "$kge" ] || { echo "$(basename "$0"): no program '$kge'; cargo build --package kge"; exit 2; }
  kge=$(realpath "$kge")
  work=$(mktemp -d)
  # The caller's launcher variables must not affect the checks.
  local name
  for name in $(compgen -e); do
    case $name in
      RANK | WORLD_SIZE | LOCAL_* | MASTER_* | INTENDANT_* | SLURM* | OMPI_* | PMI*) unset "$name" ;;
    esac
  done
}

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

flags=(--data builtin:codex-s --epochs 3 --valid-every 0 --dim 16 --no-progress)

# The part of a report that does not depend on timing.
facts() { grep -E '"(nodes|data_digest|keys|values|examples|pull_keys|push_keys|sampled)":' "$1" | tr -d ' ,'; }
mrr() { sed -nE 's/.*"mrr_filtered": *([0-9.]+).*/\1/p' "$1"; }

# trains NODES COMMAND…: the command, followed by the program and its flags, trains the same as the program
# with `--nodes NODES`.
trains() {
  local nodes=$1
  shift
  local plain=$work/plain.$nodes.json report=$work/report.json
  if [ ! -f "$plain" ]; then
    timeout $patience "$kge" "${flags[@]}" --nodes "$nodes" --report "$plain" >/dev/null || fail "intendant-kge --nodes $nodes"
  fi
  rm -f "$report"
  timeout $patience "$@" "$kge" "${flags[@]}" --report "$report" >"$work/out" 2>&1 || { cat "$work/out"; fail "$*"; }
  [ "$(grep -c '^task ' "$work/out")" = 1 ] || { cat "$work/out"; fail "$*: not one result but several"; }
  diff <(facts "$plain") <(facts "$report") || fail "$*: trains something else than intendant-kge --nodes $nodes"
  # Updates interleave differently in each run: the MRR of three epochs was 0.286 to 0.311 in a dozen runs.
  awk -v a="$(mrr "$plain")" -v b="$(mrr "$report")" 'BEGIN { exit !(a > 0.2 && b > 0.8 * a && b < 1.25 * a) }' ||
    fail "$*: MRR $(mrr "$report"), but intendant-kge --nodes $nodes comes to $(mrr "$plain")"
  echo "ok: $*: $(facts "$report" | sed -n 's/"data_digest":/data /p'), MRR $(mrr "$report") (intendant-kge --nodes $nodes: $(mrr "$plain"))"
}

# refuses CODE TEXT COMMAND…: the command ends with this exit code and prints this text.
refuses() {
  local code=$1 text=$2 got=0
  shift 2
  timeout $patience "$@" >"$work/out" 2>&1 || got=$?
  [ "$got" = "$code" ] && grep -q -- "$text" "$work/out" || { cat "$work/out"; fail "$*: $got, expected $code and '$text'"; }
  echo "ok: $* is refused: $(grep -m 1 -- "$text" "$work/out")"
}

# loses SIGNAL VICTIM CODES COMMAND…: the signal hits one of four ranks. The others name it and end with an
# exit code among CODES (words; `none` if the launcher may kill them first), and the command fails. Ranks
# write to files, because launchers lose their last output.
loses() {
  local signal=$1 victim=$2 codes=$3 runs=$work/ranks rank code code_of launcher named=0
  shift 3
  rm -rf "$runs"
  mkdir "$runs"
  cat >"$runs/run" <<END
#!/bin/sh
trap '' TERM
"$kge" --epochs 100000 --valid-every 0 --dim 16 >/dev/null 2>"$runs/err.\$$rank_variable" &
echo \$! >"$runs/pid.\$$rank_variable"
wait \$!
code=\$?
echo \$code >"$runs/code.\$$rank_variable"
exit \$code
END
  chmod +x "$runs/run"
  timeout $patience "$@" "$runs/run" >"$runs/out" 2>&1 &
  launcher=$!
  until grep -qs 'epoch *2/' "$runs/err.0"; do
    kill -0 $launcher 2>/dev/null || { cat "$runs"/{out,err.*}; fail "$*: ended before it was disturbed"; }
    sleep 0.2
  done
  kill -"$signal" "$(cat "$runs/pid.$victim")"
  code=0
  wait $launcher || code=$?
  [ $code != 0 ] && [ $code != 124 ] || { cat "$runs"/{out,err.*}; fail "$*: exit code $code"; }
  for rank in 0 1 2 3; do
    [ $rank = "$victim" ] && continue
    # The launcher may end slightly before the last rank.
    for _ in $(seq 20); do [ -s "$runs/code.$rank" ] && break || sleep 0.1; done
    code_of=$(cat "$runs/code.$rank" 2>/dev/null || true)
    case " $codes " in
      *" ${code_of:-none} "*) ;;
      *) cat "$runs"/err.*; fail "$*: rank $rank ended with '$code_of', not one of $codes" ;;
    esac
    if grep -q "\[rank $rank\].*node $victim[^0-9]" "$runs/err.$rank"; then named=$((named + 1)); fi
  done
  [ "$codes" != 4 ] || [ $named = 3 ] || { cat "$runs"/err.*; fail "$*: $named of 3 ranks name rank $victim"; }
  [ $named -gt 0 ] || { cat "$runs"/err.*; fail "$*: no rank names rank $victim"; }
  for rank in 0 1 2 3; do
    for _ in $(seq 50); do kill -0 "$(cat "$runs/pid.$rank")" 2>/dev/null && sleep 0.1 || break; done
    if kill -0 "$(cat "$runs/pid.$rank")" 2>/dev/null; then fail "$*: rank $rank is still there"; fi
  done
  echo "ok: $*, rank $victim got SIG$signal: exit code $code; $named of 3 said like $(tail -qn 1 "$runs"/err.* | grep -m 1 "node $victim")"
}

# survives COMMAND…: a rank of the run of 4 nodes that the command starts with `$work/survives/run` is killed
# when the run has made a checkpoint. The command starts the run again, ends well, and has trained every
# example once.
survives() {
  local runs=$work/survives launcher code=0 plain=$work/plain.survives.json
  rm -rf "$runs"
  mkdir "$runs"
  local long=("${flags[@]}")
  long[3]=40
  [ -f "$plain" ] || timeout $patience "$kge" "${long[@]}" --nodes 4 --report "$plain" >/dev/null || fail 'intendant-kge --nodes 4'
  cat >"$runs/run" <<END
#!/bin/sh
echo \$\$ >>"$runs/pid.\$$rank_variable"
exec "$kge" ${long[*]} --checkpoint "$runs/cuts" --checkpoint-seconds 0.2 --resume --report "$runs/report.json"
END
  chmod +x "$runs/run"
  timeout $((2 * patience)) "$@" >"$runs/out" 2>&1 &
  launcher=$!
  until ls "$runs"/cuts/*/manifest.json >/dev/null 2>&1; do
    kill -0 $launcher 2>/dev/null || { cat "$runs/out"; fail "$*: ended before it was disturbed"; }
    sleep 0.1
  done
  kill -KILL "$(head -n 1 "$runs/pid.2")"
  wait $launcher || code=$?
  [ $code = 0 ] || { cat "$runs/out"; fail "$*: exit code $code"; }
  [ "$(wc -l <"$runs/pid.0")" -gt 1 ] || { cat "$runs/out"; fail "$*: rank 0 was not started again"; }
  diff <(grep '"examples"' "$plain") <(grep '"examples"' "$runs/report.json") || fail "$*: trained other examples"
  echo "ok: $*: goes on after rank 2 was killed, MRR $(mrr "$runs/report.json") (undisturbed: $(mrr "$plain"))"
}
