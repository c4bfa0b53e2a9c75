"""Arrays that are made up, to see what codecs do with them; the same each time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Now, and not at the first example: a Ctrl-C while NumPy loads this part of it is lost in there.
from numpy.random import Generator, default_rng

from lanescope.compression.arrays import Entry, Values, storage

SEED = 7
#: Of each.
DEFAULT_BYTES = 16 << 20


def example_arrays(size: int = DEFAULT_BYTES) -> tuple[Entry, ...]:
    """Return the examples, each of about so many bytes, at least one value."""
    made: tuple[tuple[str, str, Callable[[int], Values]], ...] = (
        ("constant fp32", "float32", lambda n: np.full(n, 1.5, np.float32)),
        ("random bits, fp64", "float64", _random_bits),
        ("smooth fp32", "float32", lambda n: _smooth(n).astype(np.float32)),
        ("smooth fp64", "float64", _smooth),
        ("N(0,1) bf16", "bfloat16", _normal_bf16),
        ("ReLU of N(0,1) bf16", "bfloat16", _relu_bf16),
        ("random walk int32", "int32", _walk),
        ("temperatures fp64", "float64", _temperatures),
    )
    entries = []
    for name, dtype, make in made:
        count = max(size // storage(dtype).itemsize, 1)
        entries.append(Entry(name, dtype, (count,), _later(make, count), made_up=True))
    return tuple(entries)


def _later(make: Callable[[int], Values], count: int) -> Callable[[], Values]:
    return lambda: make(count)


def _random() -> Generator:
    return default_rng(SEED)


def _random_bits(count: int) -> Values:
    return _random().integers(0, 1 << 64, count, np.uint64).view(np.float64)


def _smooth(count: int) -> Values:
    """Waves of some thousand values, and noise of a millionth as a sensor or a solver has it."""
    at = np.arange(count)
    waves = np.sin(at / 1000) + 0.3 * np.sin(at / 77)
    return np.asarray(waves + 1e-6 * _random().standard_normal(count))


def _normal_bf16(count: int) -> Values:
    bits = _random().standard_normal(count, np.float32).view(np.uint32)
    # to the nearest, ties to even
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _relu_bf16(count: int) -> Values:
    """Activations: every second one is 0."""
    values = _normal_bf16(count)
    return np.where(values >> 15 == 0, values, np.uint16(0))


def _walk(count: int) -> Values:
    return np.cumsum(_random().integers(-8, 9, count, np.int32), dtype=np.int32)


def _temperatures(count: int) -> Values:
    """One decimal, of years of days as a weather station has them."""
    year = 12 * np.sin(np.arange(count) * (2 * np.pi / 365))
    return np.asarray(np.round(10 + year + 6 * _random().standard_normal(count), 1))
