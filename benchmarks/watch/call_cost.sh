#!/bin/sh
# What recording costs a call that copies: sh benchmarks/watch/call_cost.sh [gpu]
# Needs what `make test` installs. Without a GPU: 64 pages of host memory and as many of a GPU, by a
# driver that does nothing, one call after the other; then with other work between the calls. With
# `gpu`: copies of 1 KiB to the first GPU, recorded and not in turn, in one process.
set -eu
library=$(.venv/bin/python -c "from lanescope.watching.sources.calls import calls_library as f; print(f())")
folder=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$folder"' EXIT
${CXX:-g++} -O2 -std=c++17 benchmarks/watch/call_cost.cpp -o "$folder/calls" -ldl -pthread
recorded() {
  LD_PRELOAD=$library LANESCOPE_CALLS_FOLDER=$folder "$folder/calls" "$@"
  rm -f "$folder"/*.ring
}
if [ "${1-}" = gpu ]; then
  echo "nothing recorded, as a check"
  "$folder/calls" libcuda.so.1 gpu
  echo "recorded, in turn"
  recorded libcuda.so.1 gpu
  exit
fi
driver=$(.venv/bin/python -m tests.native.programs mock_cuda)
echo "plain"
"$folder/calls" "$driver"
echo "recorded"
recorded "$driver"
for kib in 64 256; do
  echo "between other work, $kib KiB: nothing recorded, as a check"
  "$folder/calls" "$driver" $kib
  echo "between other work, $kib KiB: recorded, in turn"
  recorded "$driver" $kib
done
