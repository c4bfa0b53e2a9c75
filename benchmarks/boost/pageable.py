"""Copies of pageable memory with and without a boost, in turns, on a machine with a GPU.

    python benchmarks/boost/pageable.py --out FILE.json
    python benchmarks/boost/pageable.py --with torch --out FILE.json
    python benchmarks/boost/pageable.py --with lanescope --out FILE.json

Each turn is a process of its own: unboosted, boosted as `lanescope boost` does it, and boosted with
``--always``. In each, every size is copied to the GPU and back: from and into touched memory, and
back into memory that was never touched. A copy's time ends when the GPU has nothing more to do. The
table has medians of the turns, each the median of the copies in it, with the least and the most.

Virtual machines may get their memory from the host as it is first used: as much as the largest copy
takes is touched and freed before, unless ``--cold`` is given. Bytes are compared at each size.

``--with driver`` calls libcuda alone, by ctypes; ``--with torch`` copies tensors by ``.to("cuda")``
and ``.cpu()``, ``--with lanescope`` by ``lanescope.to_gpu`` and ``to_host``, which need no boost:
its "unboosted" is to be set against that of ``torch``. The rows of pinned memory are to be equal.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import lanescope
from lanescope.boosting.running import BoostOptions, boost_library, boost_variables, read_folder
from lanescope.boosting.tally import Tally
from lanescope.units.sizes import bandwidth_gbs, size_text

KIB, MIB = 1 << 10, 1 << 20
SIZES = (64 * KIB, 256 * KIB, 512 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB)
PINNED_BYTES = 64 * MIB
KINDS = ("unboosted", "boosted", "always")


class Gpu(Protocol):
    """How bytes go to a GPU and back; each returns when nothing more is under way."""

    def to_gpu(self, memory: Any) -> None: ...
    def from_gpu(self, memory: Any) -> None: ...
    def fresh(self, size: int) -> Any: ...
    def touched(self, size: int) -> Any: ...
    def pinned(self, size: int) -> Any: ...
    def same(self, one: Any, other: Any) -> bool: ...


class Driver:
    """The driver's own calls."""

    def __init__(self, most: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        context, self._memory = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)
        self._call("cuMemAlloc_v2", ctypes.byref(self._memory), ctypes.c_size_t(most))

    def _call(self, name: str, *values: Any) -> None:
        if (code := getattr(self._cuda, name)(*values)) != 0:
            raise SystemExit(f"{name} failed with {code}")

    def to_gpu(self, memory: Any) -> None:
        address, size = memory[1], ctypes.c_size_t(memory[2])
        self._call("cuMemcpyHtoD_v2", self._memory, ctypes.c_void_p(address), size)
        self._call("cuCtxSynchronize")

    def from_gpu(self, memory: Any) -> None:
        address, size = memory[1], ctypes.c_size_t(memory[2])
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(address), self._memory, size)

    def fresh(self, size: int) -> Any:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        view = (ctypes.c_char * size).from_buffer(pages)
        return pages, ctypes.addressof(view), size, view

    def touched(self, size: int) -> Any:
        memory = self.fresh(size)
        pattern = bytes((i * 7 + 3) & 255 for i in range(64 * KIB))
        for at in range(0, size, len(pattern)):
            memory[0][at : at + len(pattern)] = pattern[: size - at]
        return memory

    def pinned(self, size: int) -> Any:
        address = ctypes.c_void_p()
        self._call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 0)
        return None, address.value, size

    def same(self, one: Any, other: Any) -> bool:
        return bool(one[0][:] == other[0][:])


class Torch:
    """Tensors, as most programs have them."""

    def __init__(self, most: int) -> None:
        import torch

        self._torch = torch
        self._there = torch.empty(most, dtype=torch.uint8, device="cuda")

    def to_gpu(self, memory: Any) -> None:
        self._there[: memory.numel()].copy_(memory)
        self._torch.cuda.synchronize()

    def from_gpu(self, memory: Any) -> None:
        memory.copy_(self._there[: memory.numel()])
        self._torch.cuda.synchronize()

    def fresh(self, size: int) -> Any:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        return self._torch.frombuffer(pages, dtype=self._torch.uint8)

    def touched(self, size: int) -> Any:
        return self._torch.randint(0, 256, (size,), dtype=self._torch.uint8)

    def pinned(self, size: int) -> Any:
        return self._torch.zeros(size, dtype=self._torch.uint8).pin_memory()

    def same(self, one: Any, other: Any) -> bool:
        return bool(self._torch.equal(one, other))


class Lanescope(Torch):
    """The same tensors by functions of ours."""

    def to_gpu(self, memory: Any) -> None:
        lanescope.to_gpu(memory, self._there[: memory.numel()])
        self._torch.cuda.synchronize()

    def from_gpu(self, memory: Any) -> None:
        lanescope.to_host(self._there[: memory.numel()], memory)


GPUS: dict[str, type[Driver | Torch]] = {"driver": Driver, "torch": Torch, "lanescope": Lanescope}


def seconds_of(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def copies_of(size: int) -> int:
    """Return how often a size is copied in a turn: enough for a median, and not for minutes."""
    return max(5, min(300, 256 * MIB // size))


def measured(gpu: Gpu, sizes: tuple[int, ...]) -> Iterator[tuple[str, int, float]]:
    """Yield what was copied, its bytes and the median of its seconds."""
    for size in sizes:
        count = copies_of(size)
        source, target = gpu.touched(size), gpu.touched(size)
        gpu.to_gpu(source)
        gpu.from_gpu(target)
        if not gpu.same(source, target):
            raise SystemExit(f"bytes differ at {size}")
        yield (
            "h2d touched",
            size,
            statistics.median(
                seconds_of(lambda source=source: gpu.to_gpu(source)) for _ in range(count)
            ),
        )
        yield (
            "d2h touched",
            size,
            statistics.median(
                seconds_of(lambda target=target: gpu.from_gpu(target)) for _ in range(count)
            ),
        )
        times = []
        for _ in range(min(count, 40)):
            new = gpu.fresh(size)
            times.append(seconds_of(lambda new=new: gpu.from_gpu(new)))
            del new
        yield "d2h fresh", size, statistics.median(times)
    pinned = gpu.pinned(PINNED_BYTES)
    for name, copy in (("h2d pinned", gpu.to_gpu), ("d2h pinned", gpu.from_gpu)):
        yield (
            name,
            PINNED_BYTES,
            statistics.median(seconds_of(lambda copy=copy: copy(pinned)) for _ in range(20)),
        )


def turn(words: argparse.Namespace) -> None:
    """Measure once, and print it as JSON."""
    sizes = tuple(size for size in SIZES if size <= words.largest)
    most = max(*sizes, PINNED_BYTES)
    gpu: Gpu = GPUS[words.by](most)
    if not words.cold:
        pages = mmap.mmap(-1, 2 * most, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, 2 * most, 4 * KIB):
            pages[at] = 1
        pages.close()
    print(json.dumps(list(measured(gpu, sizes))))


def one_turn(kind: str, words: argparse.Namespace) -> tuple[list[Any], Tally | None]:
    """Run a turn in a process of its own."""
    arguments = ["--with", words.by, "--largest", str(words.largest), *["--cold"] * words.cold]
    command = [sys.executable, __file__, "--turn", *arguments]
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        if kind != "unboosted":
            library = boost_library()
            if library is None:
                raise SystemExit("there is no installed lanescope with its libraries")
            options = BoostOptions(threads=words.threads, always=kind == "always")
            environment |= boost_variables(library, environment, Path(folder), options)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{kind}: {done.stderr}")
        tally = None if kind == "unboosted" else read_folder(Path(folder))
    return json.loads(done.stdout), tally


def shown(rates: list[float]) -> str:
    return f"{statistics.median(rates):6.2f} ({min(rates):.2f} to {max(rates):.2f})"


def compare(words: argparse.Namespace) -> None:
    """Measure all in turns, and print and store it."""
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    carried: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for number in range(words.turns):
        for kind in KINDS:
            rows, tally = one_turn(kind, words)
            for what, size, seconds in rows:
                found.setdefault((what, size), {}).setdefault(kind, []).append(
                    bandwidth_gbs(size, seconds)
                )
            if tally is not None:
                by = {why: one.copies for why, one in tally.by_reason().items()}
                carried[kind].append(
                    {"copies": tally.all_carried().copies, "by_driver": by,
                     "setup_seconds": tally.setup_seconds, "ring_bytes": tally.ring_bytes,
                     "threads": tally.threads}
                )  # fmt: skip
        print(f"turn {number + 1} of {words.turns}", file=sys.stderr)
    print(f"GB/s by {words.by}: medians of {words.turns} turns, least to most")
    print(f"{'':24}" + "".join(f"{kind:>28}" for kind in KINDS) + "   boosted / unboosted")
    for (what, size), by_kind in sorted(found.items(), key=lambda item: item[0]):
        middle = {kind: statistics.median(by_kind[kind]) for kind in KINDS}
        cells = "".join(f"{shown(by_kind[kind]):>28}" for kind in KINDS)
        ratio = middle["boosted"] / middle["unboosted"]
        print(f"{what:12} {size_text(size):>10} {cells}   {ratio:.3f}")
    print("carried:", {kind: one[-1] for kind, one in carried.items() if one})
    if words.out is not None:
        rates = [{"what": what, "bytes": size, "gbs": one} for (what, size), one in found.items()]
        about = {"by": words.by, "cold": words.cold, "cpus": os.cpu_count(),
                 "kernel": platform.release(), "command": sys.argv}  # fmt: skip
        words.out.write_text(json.dumps({"about": about, "rates": rates, "carried": carried}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turn", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--with", dest="by", choices=tuple(GPUS), default="driver")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="bytes")
    parser.add_argument("--threads", type=int, help="that copy; default: as the library thinks")
    parser.add_argument("--cold", action="store_true", help="touch no memory before")
    parser.add_argument("--out", type=Path)
    words = parser.parse_args()
    if words.turn:
        turn(words)
    else:
        compare(words)


if __name__ == "__main__":
    main()
