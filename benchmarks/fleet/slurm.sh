#!/usr/bin/env bash
# Real Slurm with four nodes on this host: 'srun lanescope fleet check', the prolog that ships,
# a rank that is killed, and copies between nodes.
#
#   sudo benchmarks/fleet/slurm.sh OUT
#
# Needs slurmctld, slurmd and munge (Debian: slurm-wlm munge), and lanescope and MPICH's mpi4py on the
# PATH. All of it lives in namespaces of this script and ends with it. The prolog calls a pretended
# lanescope that says what the file 'says' tells it for a node.
set -euo pipefail
lanescope=$(command -v lanescope)
if [[ ${SLURM_INSIDE:-} != yes ]]; then
  SLURM_INSIDE=yes exec unshare --net --mount --pid --fork --kill-child "$0" "$@"
fi
out=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs none /usr/local/sbin
mkdir -p /run/munge
mount -t tmpfs none /run/munge
chown munge: /run/munge
chmod 755 "$work" /run/munge

ip link set lo up
ip link add s0 type veth peer name s1
ip address add 10.99.0.1/24 dev s0
ip link set s0 up
ip link set s1 up

host=$(hostname)
cat >"$work/slurm.conf" <<CONF
ClusterName=trial
SlurmctldHost=$host(10.99.0.1)
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=pmi2
ReturnToService=2
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
Prolog=$work/prolog.sh
PrologFlags=Alloc
NodeName=n[1-4] NodeHostname=$host NodeAddr=10.99.0.1 Port=[7001-7004] CPUs=1 State=UNKNOWN
PartitionName=all Nodes=n[1-4] Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
CONF
lanescope node --snippet slurm-prolog >"$work/prolog.sh"
cat >/usr/local/sbin/lanescope <<SAYS
#!/bin/bash
source "$work/says" \$SLURMD_NODENAME
SAYS
chmod +x "$work/prolog.sh" /usr/local/sbin/lanescope
echo 'echo "$1: healthy (exit code 0): 12 paths of 2 GPUs"' >"$work/says"
mkdir "$work/state"

export SLURM_CONF=$work/slurm.conf
runuser -u munge -- munged
slurmctld
for node in n1 n2 n3 n4; do slurmd -N "$node"; done
for _ in $(seq 50); do
  [[ $(sinfo -h -o %D -t idle) == 4 ]] && break
  sleep 0.2
done

say() { printf '\n$ %s\n' "$*"; }
{
  say "srun -N4 lanescope fleet check --within 20s --out DIR"
  # the four nodes have one host name
  srun -N4 bash -c 'export LANESCOPE_HOST=$SLURMD_NODENAME; exec '"$(command -v lanescope)"' "$@"' - \
    fleet check --within 20s --out "$out/fleet" | cut -c1-100 | grep -v "^ *$" || true
  say "srun -N4 lanescope fleet check --within 20s --strict --json --out DIR"
  srun -N4 bash -c 'export LANESCOPE_HOST=$SLURMD_NODENAME; exec '"$(command -v lanescope)"' "$@"' - \
    fleet check --within 20s --strict --json --out "$out/strict" | wc -l || true
  for said in 'SICK (exit code 1): g3 (GPU-3): slow' 'BUSY (exit code 5): g0'; do
    code=${said#*code } code=${code%%)*}
    printf 'if [[ $1 == n2 ]]; then echo "n2: %s"; exit %s; fi\n' "$said" "$code" >"$work/says"
    echo 'echo "$1: healthy (exit code 0): 12 paths"' >>"$work/says"
    say "srun -w n2 true   # where the prolog's lanescope says: n2: $said"
    timeout 20 srun -w n2 true && echo "the job ran" || echo "the job did not run"
    sleep 1
    sinfo -h -N -o '%N %T %E'
    scontrol update NodeName=n2 State=RESUME 2>/dev/null || true
    sleep 1
  done
  python -m tests.fleet.made_up >"$work/node.json"
  say "srun -K0 -N4 python -m tests.fleet.program DIR NODE kill 2   # a rank is killed"
  code=0
  WITHIN=10 timeout 90 srun -K0 -N4 python -m tests.fleet.program \
    "$out/killed" "$work/node.json" kill 2 | cut -c1-200 || code=$?
  echo "exit code $code"
  say "lanescope fleet report DIR --strict"
  "$lanescope" fleet report "$out/killed" --strict 2>&1 | head -2 || true
} 2>&1 | tee "$out/slurm.txt"
# Copies between nodes whose GPUs are made up, with memory that is memory of files.
{
  export MADE_UP_FATE=fabric
  say "srun -N2 python -m tests.fleet.copy_program copy 'n0.g0 -> n1.g1, n1.g0 -> n0.g1' --no-store --csv"
  srun -N2 python -m tests.fleet.copy_program copy 'n0.g0 -> n1.g1, n1.g0 -> n0.g1' \
    --no-store --csv || echo "exit code $?"
  say "srun -N4 python -m tests.fleet.copy_program bench nccl --sizes 1MiB --no-store"
  srun -N4 python -m tests.fleet.copy_program bench nccl --sizes 1MiB --no-store
  echo "exit code $?"
} 2>&1 | tee "$out/copies.txt"
cp "$work"/*.log "$out"
