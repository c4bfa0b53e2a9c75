#!/usr/bin/env bash
# Small copies on a machine with a GPU: builds for the GPU at hand with what is installed,
# runs the tests of pieces, maps the first GPU, and leaves all of it in $OUT.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-benchmarks/results/$(hostname)}
mkdir -p "$out"
python=${PYTHON:-python3}

"$python" -m pip install --quiet --no-build-isolation --no-deps --no-index \
  --config-settings=cmake.define.CMAKE_CUDA_ARCHITECTURES=native .

"$python" -m pytest -p no:cacheprovider -q tests/native/test_pieces.py \
  tests/native/test_pieces_gpu.py 2>&1 | tee "$out/pytest-pieces.txt"
# What to look at: under 60 s, no cell 'not measured', no verdict 'impossible'.
{ time "$python" -m lanescope bench small --strict --out "$out/small"; } 2>&1 | tee "$out/small.txt"
"$python" -m lanescope report "$out/small" --csv >"$out/small.csv"
