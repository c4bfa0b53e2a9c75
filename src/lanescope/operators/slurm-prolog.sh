#!/bin/bash
# Slurm prolog: keeps jobs off a node with a broken GPU path. Named by Prolog= in slurm.conf.
#
# Slurm drains a node whose prolog ends with another code than 0. So this ends with 1 for a sick or
# a missing part alone. A busy GPU, a check that ran out of time and a fault of lanescope's own are
# logged, and the job starts.
#
# LANESCOPE_EXPECT  machine file, as 'lanescope topo --save' writes it; unset: nothing is compared
# LANESCOPE_WITHIN  how long a job may wait for the check; keep it well below PrologTimeout

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
within=${LANESCOPE_WITHIN:-15s}
line=$(lanescope node --no-store --within "$within" ${LANESCOPE_EXPECT:+--expect "$LANESCOPE_EXPECT"} 2>&1)
code=$?
logger -t lanescope -- "job ${SLURM_JOB_ID:-?}: ${line:-no output, exit code $code}" 2>/dev/null
# The line's own word must say so, too: a broken installation ends with 1 as well.
if [[ $code == [14] && $line == *"(exit code $code)"* ]]; then
  echo "$line" >&2
  exit 1
fi
exit 0
