#!/usr/bin/env bash
# What a build is worth on a machine with a GPU: how long it takes, whether PTX alone carries it,
# what is said where it has no code for the GPU, and whether the release wheel in dist/ runs.
# Leaves what was printed in $OUT (default: benchmarks/results/<hostname>/build). No network.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-benchmarks/results/$(hostname)/build}
mkdir -p "$out"
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build NAME ARCHITECTURES: into a folder of its own
build() {
  rm -rf build/cp*
  LANESCOPE_ARCHITECTURES=$2 "$python" -m pip install --quiet --no-build-isolation --no-deps \
    --no-index --target "$work/$1" . || return
  PYTHONPATH=$work/$1 "$python" -m lanescope --version
}

# tried NAME: the check of this machine, and arrays through the codecs' kernels
tried() {
  cd "$work" || return
  export PYTHONPATH=$work/$1  # which pip must not see
  "$python" -m lanescope check --budget 0.3 --out "$work/$1-check"
  echo "exit code of check: $?"
  "$python" - <<'PYTHON'
import numpy as np
import torch

import lanescope

for codec, dtype in (("gfc", "float64"), ("exponent", "float32"), ("delta", "int32"), ("zvc", "float32"), ("alp", "float64")):
    values = torch.from_numpy((np.arange(1 << 20) // 7).astype(dtype)).cuda()
    try:
        stream = lanescope.compress(values, codec)
        back = lanescope.decompress(stream)
        print(codec, dtype, "equal" if torch.equal(torch.as_tensor(back).cuda(), values) else "DIFFERS")
    except lanescope.LanescopeError as error:
        print(codec, dtype, error)
PYTHON
  echo "exit code of codecs: $?"
  cd - >/dev/null || return
}

{
  nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader
  nproc
  for turn in 1 2 3; do
    begin=$(date +%s.%N)
    build "native-$turn" ""
    echo "build and install, turn $turn: $(echo "$(date +%s.%N) - $begin" | bc -l 2>/dev/null || "$python" -c "import time; print(time.time() - $begin)") s"
  done
  echo "== for the GPU that is there" && tried native-3
  for architectures in 90-virtual 75-virtual 80-real; do
    echo "== $architectures alone" && build "$architectures" "$architectures" && tried "$architectures"
  done
  unset PYTHONPATH
  "$python" -m pip install --quiet --no-deps --no-index --target "$work/wheel" dist/*abi3*.whl
  echo "== the release wheel" && PYTHONPATH=$work/wheel "$python" -m lanescope --version &&
    tried wheel
} 2>&1 | tee "$out/gpu-build.txt"
