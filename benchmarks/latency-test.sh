#!/usr/bin/env bash
# Latency on a machine with a GPU: builds, runs the GPU tests of latencies, then the verb on
# every GPU; evidence in $OUT. Needs no network, like gpu-test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-benchmarks/results/$(hostname)}
mkdir -p "$out"
python=${PYTHON:-python3}

"$python" -m pip install --quiet --no-build-isolation --no-deps --no-index \
  --config-settings=cmake.define.CMAKE_CUDA_ARCHITECTURES=native .

"$python" -m pytest -p no:cacheprovider -q -rA tests/native/test_chase_ring.py \
  tests/native/test_latency_gpu.py tests/cli/test_latency.py tests/engine/test_latency.py \
  2>&1 | tee "$out/pytest-latency.txt" || true
gpus=$("$python" -c 'from lanescope._core import native; print(len(native.cuda_devices()))')
options=()
for ((i = 0; i < gpus; i++)); do options+=(--gpu "$i"); done
{ time "$python" -m lanescope bench latency "${options[@]}" --out "$out/latency"; } 2>&1 |
  tee "$out/latency.txt"
