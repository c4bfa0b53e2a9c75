"""Measures what it costs that ``auto`` chooses a codec, and how good its choice is.

::

    python benchmarks/compress/auto.py --fpc DIR --out FILE

One thread. Arrays are made up, and, with ``--fpc``, the files ``*.f64`` of a folder, repeated up to
the size. ``ratio_of_best`` is that of the codec that makes the whole array smallest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import ml_dtypes
import numpy as np

import lanescope
from lanescope.compression.rule import takes
from lanescope.compression.stream import Codec, describe
from lanescope.units.sizes import bandwidth_gbs

SIZES = (16 << 10, 120_000, 1 << 20, 16 << 20)
REPEATS = 41


def made_up(size):
    random = np.random.default_rng(5)
    normal = random.standard_normal(size // 4)
    yield "fp32 walk", np.cumsum(normal).astype(np.float32)
    yield "fp64 sine", np.sin(np.arange(size // 8) / 100)
    yield "fp64 decimals", np.round(20 + 5 * normal[: size // 8], 1)
    yield (
        "fp64 of three columns",
        (normal[: size // 24 * 3].cumsum() * np.tile([1, 1e3, 1e9], size // 24)),
    )
    yield "bf16 normal", random.standard_normal(size // 2).astype(ml_dtypes.bfloat16)
    yield "fp16 ReLU", np.maximum(random.standard_normal(size // 2), 0).astype(np.float16)
    yield "int32 small", random.integers(0, 1000, size // 4, dtype=np.int32)
    yield "bytes random", random.integers(0, 256, size, dtype=np.uint8)
    yield "fp32 zeros", np.zeros(size // 4, np.float32)


def arrays(size, folder):
    yield from made_up(size)
    for path in sorted(folder.glob("*.f64")) if folder else ():
        yield f"FPC {path.stem}", np.resize(np.fromfile(path), size // 8)


def seconds(call):
    taken = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return sorted(taken)


def figures(values):
    """Rates in GB/s: of all calls the median, the slowest and the fastest."""
    auto = describe(lanescope.compress(values))
    dtype = "uint8" if auto.dtype == "bytes" else auto.dtype
    named = auto.codec
    sizes = {
        codec: describe(lanescope.compress(values, codec)).stored_bytes
        for codec in Codec
        if not codec.by_nvcomp and takes(codec, dtype)
    }
    row = {"codec": named, "ratio": values.nbytes / auto.stored_bytes}
    row["ratio_of_best"] = values.nbytes / min(sizes.values())
    for name, codec in (("auto", "auto"), ("named", named)):
        taken = seconds(lambda codec=codec: lanescope.compress(values, codec, threads=1))
        row[f"{name}_gbs"] = [
            round(bandwidth_gbs(values.nbytes, one), 3)
            for one in (statistics.median(taken), taken[-1], taken[0])
        ]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fpc", type=Path, help="folder of files of fp64 values")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = []
    for size in SIZES:
        for name, values in arrays(size, arguments.fpc):
            rows.append({"array": name, "bytes": values.nbytes, **figures(values)})
            one = rows[-1]
            print(
                f"{name:24} {size:9} {one['codec']:9} {one['ratio']:8.2f} of "
                f"{one['ratio_of_best']:8.2f}  auto {one['auto_gbs'][0]:6.2f} named "
                f"{one['named_gbs'][0]:6.2f} GB/s"
            )
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
