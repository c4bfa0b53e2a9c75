"""GFC's coded bytes, against a coder of a few lines that follows the paper."""

import math
import random
import struct
import subprocess

import pytest

from tests.native.programs import program


@pytest.fixture(scope="module")
def coder():
    return program("gfc_coder")


def coded_by_paper(values, size, dimensionality):
    """One chunk: `values` are unsigned integers of `size` bytes."""
    codes = [0, 1, 3, 4, 5, 6, 7, 8] if size == 8 else [0, 1, 2, 3, 4]
    out, before = b"", [0] * 32
    for first in range(0, len(values), 32):
        predicted = [before[32 - dimensionality + lane % dimensionality] for lane in range(32)]
        now = values[first : first + 32]
        now = now + predicted[len(now) :]
        nibbles, tail = [], b""
        for value, guess in zip(now, predicted, strict=True):
            residual = (value - guess) % 256**size
            sign = residual >= 256**size // 2
            magnitude = 256**size - residual if sign else residual
            code = next(c for c, count in enumerate(codes) if magnitude < 256**count)
            nibbles.append(8 * sign + code)
            tail += magnitude.to_bytes(8, "little")[: codes[code]]
        out += bytes(nibbles[i] + 16 * nibbles[i + 1] for i in range(0, 32, 2)) + tail
        before = now
    return out + bytes(-len(out) % 4)


def smooth(size, count):
    shape = f"<{count}{'d' if size == 8 else 'f'}"
    packed = struct.pack(shape, *(math.sin(i / 50) * (1 + i % 5) for i in range(count)))
    return list(struct.unpack(f"<{count}{'Q' if size == 8 else 'I'}", packed))


def steps(size, count):
    chance, value, values = random.Random(size * count), 0, []
    for _ in range(count):
        step = chance.getrandbits(8 * size) >> chance.randrange(8 * size)
        value = (value + chance.choice([-1, 1]) * step) % 256**size
        values.append(value)
    return values


def half_direction(size, count):
    """Residuals of half of all words: their own negatives."""
    return [i // 32 % 2 * (256**size // 2) for i in range(count)]


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("dimensionality", [1, 2, 3, 7, 16, 31, 32])
@pytest.mark.parametrize("make", [smooth, steps, half_direction])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 500, 2048])
def test_coded_bytes_are_the_papers(coder, size, dimensionality, make, count):
    values = make(size, count)
    packed = struct.pack(f"<{count}{'Q' if size == 8 else 'I'}", *values)
    done = subprocess.run(
        [coder, str(size), str(dimensionality)], input=packed, capture_output=True, check=True
    )
    assert done.stdout == coded_by_paper(values, size, dimensionality)
