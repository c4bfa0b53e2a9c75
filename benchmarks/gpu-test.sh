#!/usr/bin/env bash
# The GPU tier: builds for the GPU at hand with what is installed, runs all tests and the
# verbs, and leaves the evidence in $OUT (default: benchmarks/results/<hostname>).
# Needs no network: nvcc, CMake, nanobind, scikit-build-core and hwloc must be there.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-benchmarks/results/$(hostname)}
mkdir -p "$out"
python=${PYTHON:-python3}

# For the architectures of the GPUs that are there.
time "$python" -m pip install --quiet --no-build-isolation --no-deps --no-index .

"$python" -m pytest -p no:cacheprovider -q | tee "$out/pytest.txt"
"$python" -m pytest -p no:cacheprovider -q -rA -m gpu | grep -E '^PASSED|passed' >"$out/pytest-gpu.txt"
"$python" -m lanescope topo --record "$out/snapshot"
for verb in "check" "bench" "bench sweep" "bench latency" "bench small" "bench sms"; do
  name=${verb#bench }
  # shellcheck disable=SC2086 # two words are meant
  { time "$python" -m lanescope $verb --out "$out/$name"; } 2>&1 | tee "$out/$name.txt"
done
