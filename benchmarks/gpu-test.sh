#!/usr/bin/env bash
# The GPU tier: builds for the GPU at hand with what is installed, runs all tests and the
# main job, and leaves the evidence in $OUT (default: benchmarks/results/<hostname>).
# Needs no network: nvcc, CMake, nanobind, scikit-build-core and hwloc must be there.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-benchmarks/results/$(hostname)}
mkdir -p "$out"
python=${PYTHON:-python3}

"$python" -m pip install --quiet --no-build-isolation --no-deps --no-index \
  --config-settings=cmake.define.CMAKE_CUDA_ARCHITECTURES=native .

"$python" -m pytest -q -p no:cacheprovider -m "not browser" | tee "$out/pytest.txt"
"$python" -m pytest -q -p no:cacheprovider -m gpu -rA | tee "$out/pytest-gpu.txt"
{ time "$python" -m lanescope check --out "$out/check" --json >"$out/check.json"; } 2>&1 |
  tee "$out/check-time.txt"
"$python" -m lanescope report "$out/check" --csv >"$out/check.csv"
