#!/bin/bash
# Checks all idle nodes of a partition, as a weekly job: sbatch --nodes=ALL_OF_THEM THIS_FILE
#SBATCH --job-name=lanescope
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --gpus-per-node=8
#SBATCH --time=00:10:00
#SBATCH --wait-all-nodes=0
set -u
shared=${LANESCOPE_CHECKS:?set it to a folder that all nodes see}
check=$shared/$(date +%Y-%m-%d)-${SLURM_JOB_ID:-0}

# A node that dies ends the step, not the job: what the others wrote is reported below.
srun --kill-on-bad-exit=0 lanescope fleet check --within 1min --pairs sample --out "$check" \
  --history "$shared/history.sqlite" >"$shared/last.txt"
code=$?
case $code in
0) exit 0 ;;
1 | 4) ;;
*) lanescope fleet report "$check" >"$shared/last.txt" ;;
esac
# lanescope drains nothing: this only writes down what an operator may drain.
lanescope fleet report "$check" --format slurm --to "$shared/suspects.txt"
cat "$shared/suspects.txt"
exit "$code"
