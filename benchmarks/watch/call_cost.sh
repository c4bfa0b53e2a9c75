#!/bin/sh
# What recording costs a call that copies, without a GPU: sh benchmarks/watch/call_cost.sh
# Needs what `make test` installs. 64 pages of host memory and as many of a GPU; nobody reads the ring meanwhile.
set -eu
driver=$(.venv/bin/python -m tests.native.programs mock_cuda)
library=$(.venv/bin/python -c "from lanescope.watching.sources.calls import calls_library as f; print(f())")
folder=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$folder"' EXIT
${CXX:-g++} -O2 -std=c++17 benchmarks/watch/call_cost.cpp -o "$folder/calls" -ldl
echo "plain"
"$folder/calls" "$driver"
echo "recorded"
LD_PRELOAD=$library LANESCOPE_CALLS_FOLDER=$folder "$folder/calls" "$driver"
