#!/usr/bin/env bash
# Runs intendant-kge under Slurm's srun on four Slurm nodes on this machine, compares it with `--nodes N`,
# runs it alone within a job, and kills or freezes tasks. The script starts the Slurm cluster with all state
# in a temporary folder, and stops it at the end.
#
# Usage: scripts/slurm.sh [KGE]     (KGE: the program; by default the last build below target)
# Without Slurm or MUNGE, it does nothing and succeeds, or fails with REQUIRE=1. It needs no root, installs
# nothing, and does not affect other Slurm clusters.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
rank_variable=SLURM_PROCID
. "$(dirname "$0")/launch-checks.sh"
need 'slurmctld slurmd slurm-client munge' munged slurmctld slurmd srun sbatch salloc scontrol
find_kge "$@"

daemons() { cat "$work"/*.pid "$work/munge/pid" 2>/dev/null || true; }
down() {
  local pid
  for pid in $(daemons); do kill "$pid" 2>/dev/null || true; done
  for pid in $(daemons); do
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null && sleep 0.1 || break; done
    kill -KILL "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap down EXIT

up() {
  local host user base i
  host=$(hostname -s) user=$(id -un) base=$((18000 + $$ % 1000 * 8))
  mkdir -p "$work"/{munge,state,log,spool/n1,spool/n2,spool/n3,spool/n4}
  chmod 755 "$work" "$work/munge"
  dd if=/dev/urandom of="$work/munge/key" bs=128 count=1 status=none
  chmod 600 "$work/munge/key"
  export SLURM_CONF=$work/slurm.conf
  # All nodes share one machine: no confinement, binding or accounting.
  cat >"$SLURM_CONF" <<END
ClusterName=checks
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/log/slurmctld
SlurmdLogFile=$work/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MpiParams=ports=$((base + 4096))-$((base + 4127))
ReturnToService=2
SelectType=select/cons_tres
SlurmdParameters=config_overrides
END
  for i in 1 2 3 4; do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + i)) CPUs=2 RealMemory=1000 State=UNKNOWN"
  done >>"$SLURM_CONF"
  echo 'PartitionName=all Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES' >>"$SLURM_CONF"
  echo 'CgroupPlugin=cgroup/v1' >"$work/cgroup.conf"
  munged --force --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
    --log-file="$work/log/munged" --seed-file="$work/munge/seed"
  slurmctld -c
  for i in 1 2 3 4; do slurmd -N "n$i"; done
  for _ in $(seq 100); do
    [ "$(sinfo --noheader --states=idle --format=%D 2>/dev/null)" = 4 ] && return
    sleep 0.2
  done
  tail -n 5 "$work"/log/*
  fail 'the cluster does not come up'
}
up

# Only Slurm can resolve the names n1 to n4.
trains 4 srun -N 4
trains 2 srun -N 2
trains 4 srun -N 2 -n 4
trains 4 srun -N 1 -n 4 --overcommit
trains 2 srun -N 2 --resv-ports
# A single task starts its own nodes, as without a launcher.
trains 2 srun -n 1 env INTENDANT_NODES=2
refuses 2 'SLURM_STEP_NUM_TASKS says that this process is one of 4' srun -N 4 "$kge" --nodes 3

# Within a job, the shell is no task, although a batch script has a task number in its environment.
cat >"$work/batch" <<END
#!/bin/sh
export MASTER_PORT=$((29000 + $$ % 1000))
"$kge" --epochs 1 --valid-every 0 --dim 16 --no-progress --report "$work/alone.json" || exit
srun "$kge" --epochs 1 --valid-every 0 --dim 16 --no-progress --report "$work/together.json"
END
timeout $patience sbatch --wait --nodes 4 --ntasks 4 --output "$work/batch.out" "$work/batch" ||
  { cat "$work/batch.out"; fail sbatch; }
for report in alone:1 together:4; do
  grep -q "\"nodes\": ${report#*:}," "$work/${report%:*}.json" || { cat "$work/batch.out"; fail "sbatch: $report"; }
done
timeout $patience salloc --quiet -N 2 -n 4 "$kge" --epochs 0 --no-progress --report "$work/shell.json" >"$work/out" 2>&1 ||
  { cat "$work/out"; fail salloc; }
grep -q '"nodes": 1,' "$work/shell.json" || fail 'salloc: not alone'
echo 'ok: in the shells of sbatch and salloc, intendant-kge runs alone'

loses KILL 2 4 srun -N 4
loses KILL 0 4 srun -N 4
# A frozen task cannot end by itself; srun must end it.
loses STOP 1 '4 143' srun --kill-on-bad-exit=1 -N 4

# As docs/launchers.md says it.
cat >"$work/requeued" <<END
#!/bin/bash
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 "$work/survives/run"
code=\$?
if { [ \$code = 4 ] || [ \$code -gt 100 ]; } && [ "\${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
  scontrol requeue "\$SLURM_JOB_ID"
fi
exit \$code
END
survives sbatch --wait --nodes 4 --ntasks 4 --output "$work/requeued.out" "$work/requeued"

# A task that is cancelled makes a last checkpoint, within the time that Slurm gives it.
cat >"$work/long" <<END
#!/bin/sh
exec "$kge" --epochs 100000 --valid-every 0 --dim 16 --checkpoint "$work/last" --checkpoint-seconds 3600
END
chmod +x "$work/long"
cat >"$work/cancelled" <<END
#!/bin/sh
srun "$work/long"
END
job=$(sbatch --parsable --nodes 4 --ntasks 4 --output "$work/cancelled.out" "$work/cancelled")
until grep -q 'epoch *2/' "$work/cancelled.out" 2>/dev/null; do sleep 0.2; done
scancel "$job"
for _ in $(seq 300); do [ -n "$(squeue --noheader --job "$job" 2>/dev/null)" ] || break; sleep 0.2; done
ls "$work"/last/*/manifest.json >/dev/null 2>&1 || { cat "$work/cancelled.out"; fail 'scancel: no last checkpoint'; }
echo "ok: scancel: $(grep -m 1 -o 'interrupted by signal.*' "$work/cancelled.out")"
