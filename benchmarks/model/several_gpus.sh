#!/usr/bin/env bash
# What two GPUs contend for in host memory: a fit over both, then copies that no fit has had, in
# three rounds each. Leaves everything in $OUT (default: benchmarks/results/<hostname>/contention);
# several_gpus.py DIR compares them. Needs an installed lanescope.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-benchmarks/results/$(hostname)/contention}
python=${PYTHON:-python3}
mkdir -p "$out"
lanescope() { "$python" -m lanescope "$@"; }

time lanescope model fit --out "$out/fit" --no-page >"$out/fit.txt" 2>&1
echo "exit code of fit: $?"
sets=("h0 -> g0, h0 -> g1" "g0 -> h0, g1 -> h0" "h0 <-> g0, h0 <-> g1" "h0 -> g0, g1 -> h0"
  "h0 -> g1, g0 -> h0" "h0 <-> g0, h0 -> g1" "h0 <-> g0, g1 -> h0" "h0 <-> g1, h0 -> g0")
for round in 1 2 3; do
  for number in "${!sets[@]}"; do
    lanescope copy "${sets[$number]}" --no-page --out "$out/copies/$round-$number" >>"$out/copies.txt" 2>&1
  done
done
