"""Runs of equal values; tests/compression/test_codecs.py has what every codec has to do."""

import numpy as np
import pytest

import lanescope
from lanescope.compression.stream import describe


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64"])
def test_long_runs_take_a_bit_for_each_value(dtype):
    values = np.repeat(np.arange(100), 5000).astype(dtype)
    stream = lanescope.compress(values, "rle")
    assert describe(stream).ratio == pytest.approx(8 * values.itemsize, rel=0.2)
    assert np.array_equal(lanescope.decompress(stream), values)
