"""Tiny copies with and without `lanescope boost --batch`, in turns, on a machine with a GPU.

    python benchmarks/boost/batches.py --out FILE.json

Each turn is a process of its own, as it is and with ``--batch``. In each, a row of copies of
pageable memory is made and waited for, some hundred times: the time is from the first call until
the stream has been waited for, that of the calls alone stands beside it. Copies go through a stream
or the legacy default one, to places that follow each other on the GPU or do not (``apart``). In the
last rows a fill follows each copy, so that nothing can be gathered: what the stubs cost.

Python's own part of a call, about half a µs, is in all times. The table has medians of the turns,
each the median of its rows, with the least and the most. Bytes are compared.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lanescope.boosting.running import BoostOptions, boost_library, boost_variables, read_folder

KIB = 1 << 10
#: How many copies of how many bytes.
ROWS = ((64, KIB), (256, 512), (24, 16 * KIB))
STREAMS = ("own stream", "default stream")
PLACES = ("apart", "in a row")
KINDS = ("plain", "batch")
LEGACY = 1


class Driver:
    """The driver's calls, with their arguments made before."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context, memory, stream = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(8 << 20))
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        self.memory = memory.value
        self.streams = {"own stream": stream, "default stream": ctypes.c_void_p(LEGACY)}

    def call(self, name: str, *values: Any) -> None:
        if (code := getattr(self.cuda, name)(*values)) != 0:
            raise SystemExit(f"{name} failed with {code}")


def measured(repeats: int) -> Iterator[tuple[str, int, int, float, float]]:
    """Yield what was copied, how many, of how many bytes, and medians of both times."""
    driver = Driver()
    copy, wait = driver.cuda.cuMemcpyHtoDAsync_v2, driver.cuda.cuStreamSynchronize
    fill = driver.cuda.cuMemsetD8Async
    cases = [(s, p, row, False) for s in STREAMS for p in PLACES for row in ROWS]
    cases += [(s, "apart", ROWS[0], True) for s in STREAMS]
    for name, place, (count, size), fills in cases:
        stream, distance = driver.streams[name], 2 * size if place == "apart" else size
        source = (ctypes.c_char * (count * size))(*os.urandom(count * size))
        begin, length = ctypes.addressof(source), ctypes.c_size_t(size)
        copies = [
            (
                ctypes.c_uint64(driver.memory + i * distance),
                ctypes.c_void_p(begin + i * size),
                length,
                stream,
            )
            for i in range(count)
        ]
        spare = (ctypes.c_uint64(driver.memory + (7 << 20)), 0, ctypes.c_size_t(64), stream)
        codes, whole, calls = 0, [], []
        for _ in range(repeats):
            start = time.perf_counter()
            if fills:
                for one in copies:
                    codes |= copy(*one)
                    fill(*spare)
            else:
                for one in copies:
                    codes |= copy(*one)
            returned = time.perf_counter()
            codes |= wait(stream)
            whole.append(time.perf_counter() - start)
            calls.append(returned - start)
        back = (ctypes.c_char * size)()
        for i in range(count):
            driver.call("cuMemcpyDtoH_v2", back, copies[i][0], length)
            if codes or back.raw != source.raw[i * size : (i + 1) * size]:
                raise SystemExit(
                    f"{name}, {place}, {count} x {size}: code {codes}, or bytes differ"
                )
        what = f"{name}, {place}" + (", each before a fill" if fills else "")
        yield what, count, size, statistics.median(whole), statistics.median(calls)


def one_turn(kind: str, repeats: int) -> tuple[list[Any], dict[str, int]]:
    """Run a turn in a process of its own."""
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        if kind == "batch":
            library = boost_library(batch=True)
            if library is None:
                raise SystemExit("there is no installed lanescope with its libraries")
            options = BoostOptions(batch=True)
            environment |= boost_variables(library, environment, Path(folder), options)
        command = [sys.executable, __file__, "--turn", "--repeats", str(repeats)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{kind}: {done.stderr}")
        tally = read_folder(Path(folder))
    gathered = {"copies": tally.gathered.copies, "batches": tally.batches}
    return json.loads(done.stdout), gathered


def shown(seconds: list[float]) -> str:
    us = [one * 1e6 for one in seconds]
    return f"{statistics.median(us):7.1f} ({min(us):.1f} to {max(us):.1f})"


def compare(words: argparse.Namespace) -> None:
    """Measure both in turns, and print and store it."""
    found: dict[tuple[str, int, int], dict[str, list[tuple[float, float]]]] = {}
    gathered = []
    for _ in range(words.turns):
        for kind in KINDS:
            rows, counts = one_turn(kind, words.repeats)
            for what, count, size, whole, calls in rows:
                by_kind = found.setdefault((what, count, size), {})
                by_kind.setdefault(kind, []).append((whole, calls))
            if kind == "batch":
                gathered.append(counts)
    print(f"µs: medians of {words.turns} turns, least to most; with the wait, and the calls alone")
    for (what, count, size), times in found.items():
        whole = {kind: [one[0] for one in times[kind]] for kind in KINDS}
        ratio = statistics.median(whole["plain"]) / statistics.median(whole["batch"])
        cells = "  ".join(
            f"{kind} {shown(whole[kind])}, calls {shown([one[1] for one in times[kind]])}"
            for kind in KINDS
        )
        print(f"{what:36} {count:4} x {size:5}  {cells}  {ratio:.2f} times as fast")
    print("gathered:", gathered[-1])
    if words.out is not None:
        rows = [
            {"what": what, "copies": count, "bytes": size, "seconds": times}
            for (what, count, size), times in found.items()
        ]
        about = {"cpus": os.cpu_count(), "kernel": platform.release(), "command": sys.argv}
        words.out.write_text(json.dumps({"about": about, "rows": rows, "gathered": gathered}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turn", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    if words.turn:
        print(json.dumps(list(measured(words.repeats))))
    else:
        compare(words)


if __name__ == "__main__":
    main()
