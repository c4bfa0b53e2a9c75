#!/usr/bin/env bash
# What GPUs contend for in host memory: a fit over all of them, then copies that no fit has had, in
# three rounds each. Leaves everything in $OUT (default: benchmarks/results/<hostname>/contention);
# several_gpus.py DIR compares them. Needs an installed lanescope and two GPUs; four show more.
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
if [ "$(nvidia-smi --list-gpus | wc -l)" -ge 4 ]; then
  sets=("h0 -> g0, h0 -> g1, h0 -> g2, h0 -> g3" "g0 -> h0, g1 -> h0, g2 -> h0, g3 -> h0"
    "h0 <-> g0, h0 <-> g1, h0 <-> g2, h0 <-> g3" "h0 -> g0, h0 -> g1, g2 -> h0, g3 -> h0"
    "h0 -> g1, h0 -> g2, h0 -> g3" "h0 <-> g0, h0 <-> g2, h0 <-> g3" "h0 <-> g0, h0 <-> g3"
    "h0 <-> g1, h0 -> g0, h0 -> g2, g3 -> h0")
fi
for round in 1 2 3; do
  for number in "${!sets[@]}"; do
    lanescope copy "${sets[$number]}" --no-page --out "$out/copies/$round-$number" >>"$out/copies.txt" 2>&1
  done
done
