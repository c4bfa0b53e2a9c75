#!/bin/sh
# How long watching takes before and after a program: `true`, and a PyTorch loop of about 10 s.
#
#   sh benchmarks/watch/start_end.sh
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
loops=$OLDPWD/benchmarks/watch/loops.py
lanescope watch -q --out warm-up -- true
for turn in 1 2 3 4 5 6 7; do
  /usr/bin/env time -f "plain %e s" true
  /usr/bin/env time -f "watched %e s" lanescope watch -q --out "true$turn" -- true
  /usr/bin/env time -f "lanescope --version %e s" lanescope --version > version.txt
done
for turn in 1 2 3; do
  lanescope watch -q --out "ten$turn" -- \
    sh -c "python3 $loops train --seconds 8 > loop.txt; date +%s.%N > ended"
  echo "$(date +%s.%N) $(cat ended)" | awk '{printf "end took %.3f s\n", $1 - $2}'
done
