"""Times the kernels that encode and decode arrays within a GPU's memory, by events of the GPU.

::

    python benchmarks/compress/kernels.py --out kernels.json [--fpc FOLDER] [--mib 256]
    python benchmarks/compress/kernels.py --out now.json --before kernels.json
    python benchmarks/compress/kernels.py --out alp.json --codecs alp delta --data fp64 --sms 132 80

For each kind of data, each codec that takes it, and all SMs, 48 and 16 of them: the ratio (with
the 16 bytes that tell of each block), GB/s of the array in encoding and in decoding, each the
median of the repeats, and the spread, (most - least) / median. Arrays are tiled from 16 MiB of the
examples of ``lanescope bench compress``, or from the ``.f64`` files of a folder. Of ``0.1 x
integers`` a third are not the nearest doubles to decimals. Updates are steps of weights of N(0,
0.02), whose differences to the weights before are coded. ``--data`` takes those whose names have a
part. GFC gets the dimensionality that is best on 1 MiB. What is decoded is compared by the blocks'
checksums.
PyTorch brings arrays to the GPU. ``--before`` compares with what an earlier run found, on the same
GPU: how many times as fast each row is now, and the range over all rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
import torch

import lanescope
from lanescope._core import native
from lanescope.studies.compress.measuring import example_arrays
from lanescope.units.sizes import bandwidth_gbs

TILE = 16 << 20
CODECS = ["raw", "exponent", "delta", "gfc", "zvc", "alp"]
ENTRY_BYTES, BLOCK_BYTES = 16, 64 << 10


def arrays(folder):
    """Name, type and words of each kind of data; of an update also the base's."""
    for entry in example_arrays(TILE):
        yield entry.name, entry.dtype, entry.load(), None
    bits = np.random.default_rng(5).integers(0, 256, TILE, dtype=np.uint8)
    yield "random bytes", "uint8", bits, None
    integers = np.random.default_rng(5).integers(-400, 400, TILE // 8)
    yield "integers / 10, fp64", "float64", integers / 10, None
    yield "0.1 x integers, fp64", "float64", integers * 0.1, None
    for path in sorted(folder.glob("*.f64")) if folder else ():
        yield f"FPC {path.stem}", "float64", np.fromfile(path, np.float64), None
    old = np.random.default_rng(6).normal(size=TILE // 4).astype(np.float32) * np.float32(0.02)
    for step in (1e-6, 1e-5, 2e-5):
        new = old - step * np.clip(np.random.default_rng(7).normal(size=old.size), -1, 1)
        new = new.astype(np.float32)
        yield f"update by {step:g}, fp32", "float32", new.view(np.uint32), old.view(np.uint32)
        upper = [(one.view(np.uint32) + 0x8000 >> 16).astype(np.uint16) for one in (new, old)]
        yield f"update by {step:g}, bf16", "bfloat16", *upper


def tiled(words, size):
    """On the GPU, `size` bytes that repeat the words."""
    tile = torch.from_numpy(words.reshape(-1).view(np.uint8).copy()).cuda()
    each = words.itemsize
    repeated = tile.repeat(-(-size // len(tile)))[:size]
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[each]
    return repeated.view(kind)


def best_dimensionality(words, dtype):
    part = words.reshape(-1)[: (1 << 20) // words.itemsize]
    sizes = {
        d: len(lanescope.compress(part, "gfc", dtype=dtype, dimensionality=d)) for d in range(1, 33)
    }
    return min(sizes, key=sizes.__getitem__)


def gbs(size, seconds):
    middle = statistics.median(seconds)
    return {
        "gbs": bandwidth_gbs(size, middle),
        "spread": (max(seconds) - min(seconds)) / middle,
        "seconds": seconds,
    }


def measured(values, codec, kind, dimensionality, sms, repeats, base):
    times = native.time_device_codec(
        values, native.Codec[codec], kind, dimensionality, sms or 0, repeats, base
    )
    size = values.nbytes
    stored = times.payload_bytes + -(-size // BLOCK_BYTES) * ENTRY_BYTES
    return {
        "codec": codec,
        "dimensionality": dimensionality,
        "sms": sms,
        "bytes": size,
        "ratio": size / stored,
        "encode": gbs(size, times.encode_s),
        "decode": gbs(size, times.decode_s),
    }


def line_of(row):
    speeds = "  ".join(
        f"{what} {row[what]['gbs']:7.1f} GB/s ±{row[what]['spread'] * 50:4.1f} %"
        for what in ("encode", "decode")
    )
    sms = "all" if row["sms"] is None else row["sms"]
    return f"{row['data']:20} {row['codec']:8} {sms!s:>3} SMs  ratio {row['ratio']:7.2f}  {speeds}"


def compare(before, rows):
    """Print how many times as fast rows are as before, the slowest first."""
    key = ("data", "codec", "dimensionality", "sms", "bytes")
    known = {tuple(row[name] for name in key): row for row in before["rows"]}
    found = []
    for row in rows:
        old = known.get(tuple(row[name] for name in key))
        for what in ("encode", "decode") if old else ():
            found.append((row[what]["gbs"] / old[what]["gbs"], what, row, old))
    found.sort(key=lambda one: one[0])
    for times, what, row, old in found[:10]:
        spread = max(row[what]["spread"], old[what]["spread"])
        print(f"{times:.4f} {what} (spread {spread:.3f}): {line_of(row)}")
    times = [one[0] for one in found]
    if times:
        middle = statistics.median(times)
        print(f"{len(times)} speeds: {times[0]:.4f} to {times[-1]:.4f}, median {middle:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fpc", type=Path, help="folder of .f64 files")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--codecs", nargs="+", default=CODECS, choices=CODECS)
    parser.add_argument("--data", nargs="+", default=[""], help="parts of names of data")
    parser.add_argument("--sms", nargs="+", type=int, default=[0, 48, 16], help="0: all")
    parser.add_argument("--before", type=Path, help="an earlier --out, to compare with")
    arguments = parser.parse_args()
    rows = []
    for name, dtype, words, old in arrays(arguments.fpc):
        if not any(part in name for part in arguments.data):
            continue
        values, base = (
            None if one is None else tiled(one, arguments.mib << 20) for one in (words, old)
        )
        kind = native.Dtype["bytes" if dtype == "uint8" else dtype]
        for codec in arguments.codecs:
            if not native.can_compress(native.Codec[codec], kind):
                continue
            dimensionality = best_dimensionality(words, dtype) if codec == "gfc" else 1
            for sms in arguments.sms:
                row = measured(
                    values, codec, kind, dimensionality, sms or None, arguments.repeats, base
                )
                rows.append({"data": name, "dtype": dtype, **row})
                print(line_of(rows[-1]), flush=True)
    device = torch.cuda.get_device_properties(0)
    found = {"gpu": device.name, "sms": device.multi_processor_count, "rows": rows}
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.before:
        compare(json.loads(arguments.before.read_text()), rows)


if __name__ == "__main__":
    main()
