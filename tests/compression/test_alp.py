"""Decimals as integers; tests/compression/test_codecs.py has what every codec has to do."""

import csv
from fractions import Fraction
from importlib.util import find_spec
from math import frexp, ldexp
from pathlib import Path

import numpy as np
import pytest

import lanescope
from lanescope.compression.stream import Codec, describe
from tests.compression.stream_format import blocks_in, payload_spans

RANDOM = np.random.default_rng(17)
STRIP, GROUP, LANES = 16 << 10, 1024, 32
both_types = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def decimals(count, places, span, dtype=np.float64, least=0):
    """Integers of a span, over a power of ten."""
    integers = RANDOM.integers(least, least + span, count)
    scale = 10.0 ** abs(places)
    return (integers / scale if places >= 0 else integers * scale).astype(dtype)


def coded(values):
    """The stream; that it gives the same bits back is asserted."""
    stream = lanescope.compress(values, "alp")
    assert lanescope.decompress(stream).tobytes() == values.tobytes()
    return stream


# ---- The stream as docs/compression-format.md has it ---------------------------------------------


def rounded_power_and_rest(places):
    """10^-places, rounded to 13 bits, and the double that is nearest to what that lacks."""
    exact = Fraction(10) ** -places
    mantissa, exponent = frexp(float(exact))
    coarse = ldexp(round(mantissa * 2**13), exponent - 13)
    return coarse, float(exact - Fraction(coarse))


def fields_of(words, rows, width):
    """Fields of all rows and lanes, as integers, of words by rows of 32 lanes."""
    found = np.zeros((rows, LANES), object)
    for lane in range(LANES):
        bits = sum(int(word) << 32 * at for at, word in enumerate(words[:, lane]))
        for row in range(rows):
            found[row, lane] = bits >> row * width & (1 << width) - 1
    return found


def group_as_described(words, count, width, fills, exceptions, base, places, filler):
    """Values of a group that begins with these words, and how many words it has."""
    dtype = filler.dtype.type
    each = dtype().itemsize // 4
    if width == 255:
        return words[: count * each].view(dtype), count * each
    rows, at, fields = -(-count // LANES), 0, 0
    for part, shift in ((min(width, 32), 0), (max(width - 32, 0), 32)):
        size = -(-rows * part // 32)
        fields = fields + (
            fields_of(words[at : at + size * LANES].reshape(size, LANES), rows, part) << shift
        )
        at += size * LANES
    zero = 1 << (51 if dtype is np.float64 else 31)
    integers = [float(int(one) + base - zero) for one in fields.reshape(-1)[:count]]
    coarse, rest = rounded_power_and_rest(places)
    scaled = [
        n * coarse + n * rest if dtype is np.float64 else n * float(Fraction(10) ** -places)
        for n in integers
    ]
    values = np.array(scaled, dtype)
    if fills:
        values[[not one for one in fields.reshape(-1)[:count]]] = filler[0]
    where = words[at:].view("<u2")[:exceptions]
    at += -(-exceptions // 2)
    values[where] = words[at : at + exceptions * each].view(dtype)
    return values, at + exceptions * each


def strip_as_described(words, count, dtype):
    places, each = int(words[0]) - 8, dtype().itemsize // 4
    groups = -(-count // GROUP)
    filler = words[1 : 1 + each].view(dtype)
    headers = words[1 + each : 1 + each + groups * (1 + each)].reshape(groups, 1 + each)
    at, values = 1 + each + headers.size, []
    for number, header in enumerate(headers):
        width, fills = header[:1].view(np.uint8)[:2].tolist()
        exceptions = int(header[:1].view("<u2")[1])
        base = int.from_bytes(header[1:].tobytes(), "little")
        left = min(GROUP, count - number * GROUP)
        found, size = group_as_described(
            words[at:], left, width, fills, exceptions, base, places, filler
        )
        values.append(found)
        at += size
    assert at == len(words)
    return np.concatenate(values)


def strips_as_described(stream, values):
    """Values of the first block of a stream, strip by strip, by the page alone."""
    begin, end = payload_spans(stream)[0]
    payload, found = stream[begin:end], []
    at, size = 8, values.itemsize
    for strip, units in enumerate(payload[:8].view("<u2").tolist()):
        left = min(STRIP // size, len(values) - strip * (STRIP // size))
        if left > 0:
            words = payload[at : at + 4 * units].copy().view("<u4")
            found.append(strip_as_described(words, left, values.dtype.type))
        at += 4 * units
    return np.concatenate(found)


@both_types
@pytest.mark.parametrize(
    ("places", "span", "count"),
    [(1, 700, 8192), (2, 90_000, 3000), (4, 3_000_000, 2500), (-3, 4000, 2049), (0, 2, 2048)],
)
def test_streams_are_what_the_page_describes(dtype, places, span, count):
    values = decimals(count, places, span, dtype, -span // 3)
    values[5::97] = np.sqrt(RANDOM.random(len(values[5::97])))
    stream = coded(values)
    assert describe(stream).coded_blocks == blocks_in(stream) == 1
    assert strips_as_described(stream, values).tobytes() == values.tobytes()


def test_a_strip_may_have_fields_of_more_than_a_word():
    values = decimals(2048, 9, 10**11)
    stream = coded(values)
    assert describe(stream).ratio > 64 / 39
    assert strips_as_described(stream, values).tobytes() == values.tobytes()


# ---- Ratios --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "span_bits"),
    [
        (places, bits)
        for places in range(-6, 16)
        for bits in (5, 12, 30, 39)
        if 2.0**bits / 10.0**places < 2**51  # the largest integers that are looked at first
    ],
)
def test_nearly_all_decimals_of_fp64_come_back(places, span_bits):
    """An integer of up to 40 bits costs its bits, whatever the power of ten."""
    values = decimals(1 << 15, places, 1 << span_bits, least=-(1 << span_bits - 1) + 1)
    assert describe(coded(values)).ratio > 64 / (span_bits + 0.7)


@pytest.mark.parametrize(("places", "span"), [(0, 900), (1, 5000), (3, 200_000), (5, 9_000_000)])
def test_decimals_of_fp32_take_the_bits_of_their_integers(places, span):
    values = decimals(1 << 15, places, span, np.float32)
    assert describe(coded(values)).ratio > 32 / (span.bit_length() + 0.5)


def test_temperatures_of_one_decimal_become_five_times_as_small():
    values = np.round(15 + 12 * RANDOM.standard_normal(1 << 16), 1)
    assert describe(coded(values)).ratio > 5


@both_types
def test_what_is_no_decimal_is_stored_apart(dtype):
    """Signed zeros, infinities, NaNs with their payload, and numbers of too many digits."""
    values = decimals(1 << 14, 2, 1000, dtype)
    word = np.uint64 if dtype is np.float64 else np.uint32
    quiet = np.array([np.nan], dtype).view(word)[0]
    odd = np.array([-0.0, np.inf, -np.inf, np.nan, np.pi, 1e30, -1e-30], dtype)
    odd = np.concatenate([odd, np.array([quiet | word(77)], word).view(dtype)])
    at = np.arange(3, len(values), 100)
    values[at] = odd[np.arange(len(at)) % len(odd)]
    bits = 8 * values.itemsize
    assert describe(coded(values)).ratio > bits / (10.2 + (bits + 16) / 100)


@both_types
@pytest.mark.parametrize("missing", [np.nan, -0.0, 1e20, np.inf])
def test_what_stands_for_missing_values_takes_a_field(dtype, missing):
    values = decimals(1 << 14, 2, 900, dtype)
    values[RANDOM.random(len(values)) < 0.3] = missing
    stream = coded(values)
    assert describe(stream).ratio > 8 * values.itemsize / 10.5
    assert strips_as_described(stream, values[: (64 << 10) // values.itemsize]).tobytes() == (
        values[: (64 << 10) // values.itemsize].tobytes()
    )


@both_types
@pytest.mark.parametrize("count", [GROUP + 7, GROUP + 32, 2 * GROUP - 1])
def test_a_group_may_have_missing_values_alone(dtype, count):
    values = decimals(count, 1, 900, dtype)
    values[::5] = values[GROUP:] = np.nan
    assert strips_as_described(coded(values), values).tobytes() == values.tobytes()


@pytest.mark.parametrize(("dtype", "least"), [(np.float32, -(2.0**31)), (np.float64, -(2.0**51))])
@pytest.mark.parametrize("others", [0.0, 7.0, np.nan])
def test_the_value_whose_code_says_that_there_is_none_comes_back(dtype, least, others):
    """0 stands for an exception to encoders, and is the code of one integer."""
    values = np.full(5 * GROUP // 2, others, dtype)
    values[[3, GROUP + 5, 2 * GROUP + 500]] = least
    coded(values)


@both_types
@pytest.mark.parametrize("each", [2, 4, 8, 10, 16, 64])
def test_a_column_of_missing_values_is_found(dtype, each):
    """Whatever the distance: a sample at the same one may miss it."""
    for column in (0, 1, each - 1):
        values = decimals(1 << 14, 2, 900, dtype)
        values[column::each] = np.nan
        share = 1 if each <= 16 else 1 + (8 * values.itemsize + 16) / each
        assert describe(coded(values)).ratio > 8 * values.itemsize / (10.5 + share)


def test_columns_of_other_decimals_are_all_in_the_sample():
    values = decimals(1 << 14, 1, 900)
    values[1::2] = decimals(1 << 13, 4, 900)
    assert describe(coded(values)).ratio > 64 / 25


def test_a_field_of_many_bits_may_be_missing_too():
    values = decimals(2048, 9, 10**11)
    values[RANDOM.random(len(values)) < 0.3] = np.nan
    stream = coded(values)
    assert describe(stream).ratio > 64 / 39
    assert strips_as_described(stream, values).tobytes() == values.tobytes()


@both_types
def test_a_group_alone_may_be_no_decimals(dtype):
    values = decimals(1 << 14, 1, 500, dtype)
    values[GROUP : 2 * GROUP] = RANDOM.standard_normal(GROUP)
    assert describe(coded(values)).ratio > 2


@pytest.mark.parametrize(
    ("file", "column", "least"),
    [
        ("seattle-temps.csv", "temp", 7.5),
        ("seattle-weather.csv", "wind", 8),
        ("stocks.csv", "price", 3.5),
    ],
)
def test_columns_of_real_decimals(file, column, least):
    """Of the data that vega_datasets has in its package, where that is installed."""
    package = find_spec("vega_datasets")
    if package is None or package.origin is None:
        pytest.skip("no vega_datasets")
    with (Path(package.origin).parent / "_data" / file).open(newline="") as rows:
        values = np.array([float(row[column]) for row in csv.DictReader(rows)])
    stream = coded(np.resize(values, 1 << 16))
    assert describe(stream).ratio > least


# ---- `auto` --------------------------------------------------------------------------------------


@both_types
def test_auto_takes_it_for_decimals(dtype):
    values = np.round(RANDOM.uniform(-30, 40, 1 << 17), 2).astype(dtype)
    assert describe(lanescope.compress(values)).codec == Codec.ALP


@both_types
def test_auto_leaves_it_where_there_are_no_decimals(dtype):
    values = RANDOM.standard_normal(1 << 17).astype(dtype) * np.float32(np.pi)
    waves = np.sin(np.arange(1 << 17) / 1000).astype(dtype)
    for one in (values, waves):
        smallest = min(len(lanescope.compress(one, name)) for name in ("delta", "gfc", "raw"))
        assert len(lanescope.compress(one)) <= smallest
    assert describe(lanescope.compress(waves)).codec != Codec.ALP
