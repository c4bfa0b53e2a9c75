# make            build, then measure this machine
# make test       everything that can be tested here: style, types, tests
# make gpu-test   the same on an offline machine with a GPU, with evidence
# make format     lay the code out
# make fuzz       throw data and damaged strips at the codecs; INPUTS=10000000 SEED=7 for more
# make simulate  send arrays through channels over a pretended CUDA; ROUNDS=10000 SEED=7 for more
# make library    the library for C++, installed below PREFIX (docs/cpp.md)
# make stubs      write the core's type stubs again, after a change of its bindings
# make clean      remove what these made

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find src native -type f -not -name '*.pyc')

.PHONY: all check test lint gpu-test fuzz simulate library format stubs clean

all: check

check: $(VENV)/installed
	$(BIN)/lanescope check

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "lanescope needs Python 3.11 or newer; name one: make PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || \
	  { echo "Python's headers are missing; install python3-dev (Debian, Ubuntu) or python3-devel" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python's venv is missing; install python3-venv (Debian, Ubuntu)" >&2; exit 2; }
	@touch $@

$(VENV)/installed: $(VENV)/created $(SOURCES)
	$(BIN)/pip install --quiet --disable-pip-version-check .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check '.[test,lint]'
	@touch $@

test: $(VENV)/installed-test lint
	$(BIN)/pytest

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	find native -name '*.[ch]pp' -o -name '*.cu' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(VENV)/installed-test
	$(BIN)/ruff format .
	find native -name '*.[ch]pp' -o -name '*.cu' | xargs $(BIN)/clang-format -i

stubs: $(VENV)/installed-test
	cd / && $(CURDIR)/$(BIN)/python -m nanobind.stubgen -m lanescope._native -O $(CURDIR)/src/lanescope -r

# Nothing can be fetched there: build with what is installed, for the GPU that is in it.
gpu-test:
	benchmarks/gpu-test.sh

build/compress_fuzz: native/tests/compress_fuzz.cpp $(wildcard native/include/lanescope/compress/*.hpp)
	@mkdir -p build
	$(CXX) -std=c++20 -O2 -g -Wall -Wextra -Wpedantic -fsanitize=address,undefined \
	  -fno-sanitize-recover=all -Inative/include $< -o $@

INPUTS ?= 500000
SEED   ?= 1
fuzz: build/compress_fuzz
	build/compress_fuzz --inputs $(INPUTS) --seed $(SEED)

CUDA_HEADERS ?= $(shell $(BIN)/python -c 'import nvidia.cu13 as p; print(p.__path__[0])')/include
CHANNEL := $(addprefix native/src/compress/,device_channel.cpp format.cpp host_channel.cpp \
  host_codec.cpp host_strips.cpp host_strips_any_cpu.cpp host_strips_avx2.cpp \
  host_strips_avx512.cpp in_flight.cpp parcel.cpp pinned_arena.cpp range_arena.cpp report.cpp \
  room.cpp slabs.cpp ticket.cpp) native/src/cuda/peer.cpp native/src/cuda/stream_values.cpp \
  native/src/error.cpp native/src/host/parallel.cpp
build/channel_simulation: native/tests/channel_simulation.cpp native/tests/pretended_cuda.cpp $(CHANNEL)
	@mkdir -p build
	$(CXX) -std=c++20 -O1 -g -Wall -Wextra -pthread -fsanitize=address,undefined \
	  -fno-sanitize-recover=all -Inative/include -isystem $(CUDA_HEADERS) $^ -o $@

ROUNDS ?= 1000
simulate: build/channel_simulation
	build/channel_simulation $(ROUNDS) $(SEED)

PREFIX ?= $(CURDIR)/build/prefix
library: $(VENV)/installed-test
	$(BIN)/cmake -S . -B build/library -DLANESCOPE_PYTHON=OFF \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	$(BIN)/cmake --build build/library --parallel
	$(BIN)/cmake --install build/library

clean:
	rm -rf build $(VENV)
