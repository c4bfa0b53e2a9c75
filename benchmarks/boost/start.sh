#!/bin/sh
# What a boost adds to a program that does nothing, in seconds, in turns: sh benchmarks/boost/start.sh
set -eu
for turn in 1 2 3 4 5 6 7; do
  for command in "true" "lanescope --version" "lanescope boost -q -- true"; do
    begun=$(date +%s.%N)
    PATH="$PWD/.venv/bin:$PATH" $command >/dev/null 2>&1
    echo "$command: $(echo "$(date +%s.%N) $begun" | awk '{printf "%.3f", $1 - $2}')"
  done
done
