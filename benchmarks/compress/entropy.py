"""Tells how small arrays of doubles can become without loss, and what that would bring on a link.

::

    python benchmarks/compress/entropy.py FOLDER [--sets msg_lu ...] [--packed-only] --out FILE.json

FOLDER has the `.f64` files (little-endian fp64); each is taken once, not tiled, so that nothing
repeats but what repeats in the data. Values are taken as 64-bit words. Predictors are differences
of order 1 to 6 at a lag (order 2: 2 v[i-L] - v[i-2L]), of words and of numbers, Lorenzo's with two
lags, xor, and the tables FCM and DFCM of FPC (Burtscher and Ratanaworabhan, IEEE Trans. Computers
58(1), 2009). What is left is a word too, zigzag-coded where it is a difference. Printed are

entropies
    bits a value of the residuals under five models: *length* (the entropy of the number of bits,
    and all bits below the highest as they are), *bytes* (each byte by itself), *bytes given above*
    (given the byte above), *bits* (each bit by itself), and *bits given 4* (given the three bits
    above it and the same bit of the value before). They are those of the data's own frequencies,
    which a codec would have to be told: so they are bounds for codecs of such a model, and only for
    these. *bytes given above* has up to 65536 contexts for few values, and is far too low.
packed
    ratios of lanescope's `delta` with differences up to some order, and a width for so many values:
    each strip of 16 KiB by itself with the best lag and order, with all that is stored besides;
    order 1 with 32 values is `delta` of version 1, orders 1 to 3 with 16 that of version 2, but for
    lags and orders being tried on all values.
programs
    bytes that programs on PATH make of values and residuals, as they are and by planes.
randomness
    of each bit of the values: ones, runs and equality with the bit up to 32 values before, as
    deviations from fair bits in standard deviations; and what programs make of the lowest k bits of
    all values. That planes of values look fair bounds only codecs that take them by themselves: a
    prediction from other values can still tell them.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

LAGS = tuple(range(1, 33))
PACKED_LAGS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32)  # those that `delta` tries
STRIP = 2048
ORDERS = range(1, 7)
TERMS = {n: tuple(-math.comb(n, i) * (-1) ** i for i in range(1, n + 1)) for n in ORDERS}
#: Arguments that write the packed file to standard output, or for zpaq, into a second file.
PROGRAMS = {
    "xz": ("xz", "-9e", "-c"),
    "bzip2": ("bzip2", "-9", "-c"),
    "zstd": ("zstd", "--ultra", "-22", "-c", "-q"),
    "brotli": ("brotli", "-q", "11", "-w", "24", "-c"),
    "zpaq": ("zpaq", "add", "OUT", "IN", "-m5"),
}


def word(number):
    return np.uint64(number % (1 << 64))


def earlier(values, lag):
    out = np.zeros_like(values)
    out[lag:] = values[:-lag]
    return out


def zigzag(differences):
    return (differences << word(1)) ^ (word(0) - (differences >> word(63)))


def turned(words):
    """With the sign at the bottom."""
    return (words << word(1)) | (words >> word(63))


def difference(words, order, lag):
    """Of such an order, as words."""
    terms = enumerate(TERMS[order], 1)
    return zigzag(words - sum(word(term) * earlier(words, i * lag) for i, term in terms))


def number_difference(words, order, lag):
    """The same, but predicted in floating point: each sum is rounded as IEEE 754 has it."""
    numbers = words.view(np.float64)
    with np.errstate(all="ignore"):
        guess = np.zeros_like(numbers)
        for i, term in enumerate(TERMS[order], 1):
            guess = guess + term * earlier(numbers, i * lag)
    return zigzag(words - guess.view(np.uint64))


def lorenzo(words, first, second):
    guess = earlier(words, first) + earlier(words, second) - earlier(words, first + second)
    return zigzag(words - guess)


def table_prediction(words, *, of_differences):
    """What FPC's FCM, or DFCM, predicts, with tables of 65536 entries."""
    mask, bits = (1 << 64) - 1, 16
    shift, top = (2, 40) if of_differences else (6, 48)
    table, context, last, guesses = [0] * (1 << bits), 0, 0, []
    for value in words.tolist():
        base = last if of_differences else 0
        guesses.append((table[context] + base) & mask)
        entry = (value - base) & mask
        table[context] = entry
        context = ((context << shift) ^ (entry >> top)) & ((1 << bits) - 1)
        last = value
    return np.array(guesses, np.uint64)


def lengths(words):
    out, rest = np.zeros(words.shape, np.int64), words.copy()
    for step in (32, 16, 8, 4, 2, 1):
        high = (rest >> word(step)) != 0
        out[high] += step
        rest[high] >>= word(step)
    return out + (rest != 0)


def entropy(symbols, contexts=None):
    """Bits a symbol, given its context."""
    if contexts is None:
        contexts = np.zeros_like(symbols)
    pairs = contexts.astype(np.int64) << 32 | symbols.astype(np.int64)
    joint = np.unique(pairs, return_counts=True)[1]
    alone = np.unique(contexts, return_counts=True)[1]
    count = len(symbols)

    def total(counts):
        return float(-(counts / count * np.log2(counts / count)).sum())

    return total(joint) - total(alone)


def bit_planes(words):
    """64 rows, the highest bit first."""
    shifts = np.arange(63, -1, -1, dtype=np.uint64)[:, None]
    return ((words >> shifts) & word(1)).astype(np.uint8)


def byte_planes(words):
    return np.ascontiguousarray(words.astype(">u8").view(np.uint8).reshape(-1, 8).T)


def entropies(words):
    size, rows, bits = lengths(words), byte_planes(words), bit_planes(words)
    padded = np.concatenate([np.zeros((3, len(words)), np.uint8), bits])
    near = [
        padded[p] * 8 + padded[p + 1] * 4 + padded[p + 2] * 2 + earlier(bits[p], 1)
        for p in range(64)
    ]
    by_byte = [entropy(row) for row in rows]
    by_bit = [entropy(bits[p], near[p]) for p in range(64)]
    given = [by_byte[0]] + [entropy(rows[p], rows[p - 1]) for p in range(1, 8)]
    return {
        "length": entropy(size) + float(np.maximum(size - 1, 0).mean()),
        "bytes": sum(by_byte),
        "bytes_given_above": sum(given),
        "bits": sum(entropy(row) for row in bits),
        "bits_given_4": sum(by_bit),
        "of_bytes": by_byte,
        "of_bytes_given_above": given,
        "of_bits_given_4": by_bit,
    }


def predicted(words):
    """Name and residuals of the best of each family, judged by `length`, and of the values."""

    def cost(residual):
        size = lengths(residual)
        return entropy(size) + float(np.maximum(size - 1, 0).mean())

    def best(name, make, choices):
        choice = min(choices, key=lambda choice: cost(make(*choice)))
        return f"{name} {','.join(map(str, choice))}", make(*choice)

    yield "values", words
    lags = [(lag,) for lag in LAGS]
    for order in TERMS:
        yield best(
            f"delta order {order}, lag", lambda lag, o=order: difference(words, o, lag), lags
        )
    for order in (2, 3):
        name = f"in floating point, order {order}, lag"
        yield best(name, lambda lag, o=order: number_difference(words, o, lag), lags)
    pairs = [(a, b) for a in range(1, 17) for b in range(a, 17)]
    yield best("Lorenzo, lags", lambda a, b: lorenzo(words, a, b), pairs)
    yield best("xor, lag", lambda lag: words ^ earlier(words, lag), lags)
    by_value = words ^ table_prediction(words, of_differences=False)
    by_difference = words ^ table_prediction(words, of_differences=True)
    yield "FCM", by_value
    yield "DFCM", by_difference
    yield "FCM or DFCM (a bit apart)", np.minimum(by_value, by_difference)


def packed_bytes(words, orders, group):
    """Of the format of `delta`, with a byte for the width of each group."""
    total = 8 * -(-len(words) // (4 * STRIP))
    for first in range(0, len(words), STRIP):
        strip = words[first : first + STRIP]
        groups = -(-len(strip) // group)
        tried = []
        for source in (strip, turned(strip)):
            for order in orders:
                for lag in PACKED_LAGS:
                    codes = np.zeros(groups * group, np.uint64)
                    codes[: len(strip)] = difference(source, order, lag)
                    widths = lengths(np.bitwise_or.reduce(codes.reshape(groups, group), axis=1))
                    tried.append(int(widths.sum()) * group // 8)
        total += 4 + -(-groups // 4) * 4 + -(-min(tried) // 4) * 4
    return total


def packed(words):
    return {
        f"1 to {most}" if most > 1 else "1": {
            group: words.nbytes / packed_bytes(words, range(1, most + 1), group)
            for group in (32, 16, 8)
        }
        for most in ORDERS
    }


def run_program(name, data, folder):
    """Bytes and seconds."""
    source, out = folder / "in", folder / "out.zpaq"
    source.write_bytes(data)
    out.unlink(missing_ok=True)
    names = {"OUT": out.name, "IN": source.name}
    command = [names.get(part, part) for part in PROGRAMS[name]]
    if name != "zpaq":
        command.append(source.name)
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    seconds = time.perf_counter() - begin
    return (out.stat().st_size if name == "zpaq" else len(done.stdout)), seconds


def version_of(name):
    done = subprocess.run([name, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return next((line.strip(" *") for line in lines if any(map(str.isdigit, line))), "?")


def by_programs(streams, available):
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for name, words in streams:
            directions = {
                "values": words.tobytes(),
                "bytes": byte_planes(words).tobytes(),
                "bits": np.packbits(bit_planes(words), axis=1).tobytes(),
            }
            for direction, data in directions.items():
                for program in available:
                    size, seconds = run_program(program, data, Path(place))
                    rows.append(
                        {
                            "of": name,
                            "planes": direction,
                            "program": program,
                            "bytes": size,
                            "ratio": words.nbytes / size,
                            "seconds": seconds,
                        }
                    )
    return rows


def deviations(bits):
    """Standard deviations from fair bits: ones, runs, and the most of equality 1 to 32 before."""
    count = len(bits)
    signs = bits.astype(np.float64) * 2 - 1
    same = [float((signs[lag:] * signs[:-lag]).sum() / np.sqrt(count - lag)) for lag in LAGS]
    return float(signs.sum() / np.sqrt(count)), -same[0], max(same, key=abs)


def randomness(words, available):
    """Of each bit, the lowest first; and how few bytes the lowest k bits take."""
    planes = bit_planes(words)[::-1]
    each = [deviations(plane) for plane in planes]
    low = []
    with tempfile.TemporaryDirectory() as place:
        for count in (8, 16, 24, 28, 32, 36, 40, 44, 48, 52):
            data = np.packbits(planes[:count], axis=1).tobytes()
            sizes = {name: run_program(name, data, Path(place))[0] for name in available}
            best = min(sizes, key=sizes.get)
            low.append({"bits": count, "bytes": len(data), "least": sizes[best], "by": best})
    return {"ones_runs_equal": each, "low_bits": low}


def fair_bits(each, most=4.0):
    """The bits that deviate by less; of 64 fair ones one does not in 1 of 7 runs."""
    return [p for p, found in enumerate(each) if max(map(abs, found)) < most]


def print_entropies(rows):
    models = ("length", "bytes", "bytes_given_above", "bits", "bits_given_4")
    print(f"\n{'bits a value (64 / bits)':34}", *(f"{name:>18}" for name in models))
    for name, row in rows:
        print(f"{name:34}", *(f"{row[m]:8.2f}  ({64 / max(row[m], 1e-9):5.3f})" for m in models))


def print_packed(table):
    print("\nratio of delta, by orders of differences and values that share a width")
    print(f"{'orders':8}", *(f"{group:>8}" for group in (32, 16, 8)))
    for name, row in table.items():
        print(f"{name:8}", *(f"{ratio:8.3f}" for ratio in row.values()))


def print_programs(rows, size):
    print(f"\nratio by programs, of {size} bytes (best of values, byte planes, bit planes)")
    names = list(dict.fromkeys(row["program"] for row in rows))
    print(f"{'':34}", *(f"{name:>15}" for name in names))
    for of in dict.fromkeys(row["of"] for row in rows):
        cells = []
        for name in names:
            one = max(
                (row for row in rows if row["of"] == of and row["program"] == name),
                key=lambda row: row["ratio"],
            )
            cells.append(f"{one['ratio']:8.3f} {one['planes']:6}")
        print(f"{of:34}", *cells)
    best = max(rows, key=lambda row: row["ratio"])
    print(
        f"best: {best['ratio']:.3f} by {best['program']} of {best['of']}, {best['planes']}, at"
        f" {size / best['seconds'] / 1e6:.2f} MB/s with its start"
    )


def print_randomness(found):
    fair = fair_bits(found["ones_runs_equal"])
    print(f"\n{len(fair)} bits deviate by less than 4:", *fair)
    for row in found["low_bits"]:
        share = row["least"] / row["bytes"]
        print(f"lowest {row['bits']:2} bits: {row['bytes']} bytes, least {share:.4f} ({row['by']})")


def study(path, available, packed_only):
    words = np.fromfile(path, "<u8")
    print(f"\n== {path.stem}: {len(words)} values, {len(np.unique(words))} different")
    result = {"name": path.stem, "values": len(words), "packed": packed(words)}
    print_packed(result["packed"])
    if packed_only:
        return result
    streams = list(predicted(words))
    rows = [(name, entropies(residual)) for name, residual in streams]
    print_entropies(rows)
    result["entropies"] = [{"of": name, **row} for name, row in rows]
    result["programs"] = by_programs(streams, available)
    print_programs(result["programs"], words.nbytes)
    result["randomness"] = randomness(words, available)
    print_randomness(result["randomness"])
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", default=["msg_lu"])
    parser.add_argument(
        "--packed-only", nargs="*", default=[], help="sets of which only that is told"
    )
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    available = [name for name in PROGRAMS if shutil.which(name)]
    versions = {name: version_of(name) for name in available}
    for name, version in versions.items():
        print(f"{' '.join(PROGRAMS[name])}: {version}")
    sets = [
        study(asked.folder / f"{name}.f64", available, name in asked.packed_only)
        for name in dict.fromkeys([*asked.sets, *asked.packed_only])
    ]
    asked.out.write_text(json.dumps({"programs": versions, "sets": sets}, indent=1) + "\n")


if __name__ == "__main__":
    main()
