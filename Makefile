# make              build, then measure this machine; once built: build what changed
# make check        build, then measure this machine
# make test         style, types, and all tests but those of test-native
# make test-native  the native code with sanitizers, emulated kernels, fuzzing, wheels, the C++ library
# make torture      all trials with wrong input, damaged files, interruptions; SEED=7 for others
# make wheel        release wheels for this Python, in dist/; PYTHON=python3.12 for another
# make library      the library for C++, installed below PREFIX (docs/cpp.md)
# make time         how long all of these take, from a fresh clone
# make gpu-test     tests on an offline machine with a GPU, with evidence
# make lint         style, types, and what clang-tidy finds in the native code
# make format       lay the code out
# make fuzz         throw data, damaged strips and streams at the codecs; INPUTS=10000000 SEED=7
# make simulate     send arrays through channels over a pretended CUDA; ROUNDS=10000 SEED=7 for more
# make stubs        write the core's type stubs again, after a change of its bindings
# make clean        remove what these made

PYTHON ?= python3
BIN    := .venv/bin
PREFIX ?= $(CURDIR)/build/prefix
INPUTS ?= 500000
ROUNDS ?= 1000
SEED   ?= 1
export CXX ?= g++

.PHONY: all build check test test-native torture lint wheel library time gpu-test format fuzz simulate stubs clean

all: build
	@if [ ! -e build/measured ]; then $(MAKE) --no-print-directory check && touch build/measured; \
	 else echo "up to date; measure this machine again: make check"; fi

build: python
	@$(PYTHON) tools/build.py

check: build
	@$(BIN)/lanescope check

.PHONY: python
python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "make: lanescope needs Python 3.11 or newer; name one: make PYTHON=python3.11" >&2; exit 2; }

test: python
	@$(PYTHON) tools/build.py --for test lint
	@$(BIN)/python tools/test.py quick

test-native: python
	@$(PYTHON) tools/build.py --for test lint
	@$(BIN)/python tools/test.py native

torture: python
	@$(PYTHON) tools/build.py --for test lint
	@LANESCOPE_SEED=$(SEED) $(BIN)/python tools/test.py torture

lint: python
	@$(PYTHON) tools/build.py --for test lint
	@$(BIN)/python tools/test.py lint

wheel: python
	@$(PYTHON) tools/wheel.py

library: python
	@$(PYTHON) tools/build.py --target lanescope_compression
	@$(BIN)/cmake --install build/native --component library --prefix $(PREFIX)

time:
	@$(PYTHON) benchmarks/build_time.py

# Nothing can be fetched there: build with what is installed, for the GPU that is in it.
gpu-test:
	benchmarks/gpu-test.sh

format: python
	@$(PYTHON) tools/build.py --for test lint
	$(BIN)/ruff format .
	find native -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' | xargs $(BIN)/clang-format -i

fuzz: python
	@$(PYTHON) tools/build.py --for test lint
	@for name in stream_fuzz compress_fuzz_any_cpu; do \
	  program=$$($(BIN)/python -m tests.native.programs $$name) && $$program --inputs $(INPUTS) --seed $(SEED) || exit; done

simulate: python
	@$(PYTHON) tools/build.py --for test lint
	@program=$$($(BIN)/python -m tests.native.programs channel_simulation) && $$program $(ROUNDS) $(SEED)

stubs: python
	@$(PYTHON) tools/build.py --for test lint
	cd / && $(CURDIR)/$(BIN)/python -m nanobind.stubgen -m lanescope._native -O $(CURDIR)/src/lanescope -r \
	  -p $(CURDIR)/native/bindings/stub_patterns.txt

clean:
	rm -rf build dist .venv src/lanescope/*.so
