"""How long the driver takes to give pinned memory, compared with what a fit predicts.

``python benchmarks/model/pinning.py measure FILE`` times cuMemHostAlloc, and cuMemHostRegister of
memory that was written before, in turns, by ctypes and so without lanescope; seconds as CSV.
``python benchmarks/model/pinning.py compare FILE PARAMETERS`` prints medians, ranges and errors.
"""

from __future__ import annotations

import csv
import ctypes
import mmap
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

TURNS = 7
#: None of them is a size of the fit.
SIZES = (300_000, 3_000_000, 40_000_000, 100_000_000, 200_000_000, 700_000_000)


class Driver:
    """The calls of the driver that are timed."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._do("cuCtxSetCurrent", context)

    def allocate(self, size: int) -> float:
        """Return the seconds of cuMemHostAlloc."""
        place = ctypes.c_void_p()
        return self._timed(
            lambda: self._do("cuMemHostAlloc", ctypes.byref(place), ctypes.c_size_t(size), 0),
            lambda: self._do("cuMemFreeHost", place),
        )

    def register(self, size: int) -> float:
        """Return the seconds of cuMemHostRegister, of memory that was written."""
        memory = mmap.mmap(-1, size)
        ctypes.memset(begin := ctypes.addressof(ctypes.c_char.from_buffer(memory)), 1, size)
        place = ctypes.c_void_p(begin)
        return self._timed(
            lambda: self._do("cuMemHostRegister_v2", place, ctypes.c_size_t(size), 0),
            lambda: self._do("cuMemHostUnregister", place),
        )

    @staticmethod
    def _timed(call: Callable[[], None], undo: Callable[[], None]) -> float:
        began = time.perf_counter()
        call()
        took = time.perf_counter() - began
        undo()
        return took

    def _do(self, name: str, *arguments: object) -> None:
        if code := getattr(self._library, name)(*arguments):
            raise SystemExit(f"{name} returned {code}")


def measured(driver: Driver) -> Iterator[tuple[int, int, float, float]]:
    """Yield turn, size, and the seconds of both ways."""
    for turn in range(TURNS):
        for size in SIZES:
            yield turn, size, driver.allocate(size), driver.register(size)


def compare(file: Path, parameters: str) -> None:
    """Print a line for each size."""
    from lanescope.prediction.stored_parameters import named_parameters

    pinning = named_parameters(parameters).pinning
    if pinning is None:
        raise SystemExit(f"{parameters} does not know what pinned memory takes")
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    print("bytes: allocated, ms (range); predicted (range), error; registered, ms (range)")
    for size in SIZES:
        own = [row for row in rows if int(row["bytes"]) == size]
        allocated, registered = (
            sorted(float(row[name]) * 1e3 for row in own) for name in ("allocate", "register")
        )
        known = pinning.at(size)
        error = known.value * 1e3 / statistics.median(allocated) - 1
        print(
            f"{size}: {_text(allocated)}; {known.value * 1e3:.3g} ({known.low * 1e3:.3g} to "
            f"{known.high * 1e3:.3g}), {error:+.1%}; {_text(registered)}"
        )


def _text(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} ({values[0]:.3g} to {values[-1]:.3g})"


def main() -> None:
    """Measure or compare, as the first word says."""
    what, file, *rest = sys.argv[1:]
    if what == "compare":
        compare(Path(file), *rest)
        return
    with Path(file).open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(("turn", "bytes", "allocate", "register"))
        writer.writerows(measured(Driver()))


if __name__ == "__main__":
    main()
