"""What to do with an array: over paths as measured, over links as predicted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.compression.rule import CodecCost, LinkCost, break_even, compressed_seconds
from lanescope.compression.rule import raw_seconds as raw_seconds_of
from lanescope.compression.stream import Codec
from lanescope.studies.compress.results import Crossing, MeasuredKernels, RawTimes
from lanescope.studies.compress.verdicts import (
    MARGIN,
    CodecRates,
    CrossedLink,
    break_even_bytes,
    break_even_gbs,
    codec_cost,
    link_cost,
    pays_from,
    predict,
    recommendation,
)
from lanescope.units.estimate import Estimate
from tests.studies.compress.made_up import array_result, measured

MIB = 1 << 20
LINK = LinkCost(55.0, 8e-6)
RATIO = 1.5
SLOW, FAST = CrossedLink("a slow link", 10.0), CrossedLink("a fast link", 100.0)


def kernels(compress, decompress, sms=16):
    size = 64 * MIB
    times = [(size / gbs / 1e9,) * 6 for gbs in (compress, decompress)]
    timings = tuple(RawTimes(of, size, *times) for of in (sms, 0))
    return MeasuredKernels(0, Codec.DELTA, 1, size, round(size / RATIO), timings)


def crossings(codec, sizes=(MIB, 256 * MIB), sms=16):
    return [
        Crossing("g0>host", "x", "delta", size, sms, (raw_seconds_of(size, LINK),) * 6,
                 (compressed_seconds(size, RATIO, codec, LINK),) * 6, round(size / RATIO))
        for size in sizes
    ]  # fmt: skip


def test_the_link_is_what_raw_copies_took():
    found = link_cost(crossings(CodecCost(200, 300)))
    assert found.gbs == pytest.approx(LINK.gbs, rel=1e-6)
    assert found.first_seconds == pytest.approx(LINK.first_seconds, rel=1e-6)


@pytest.mark.parametrize("speeds", [(200, 300), (100, 150), (50, 75), (400, 600)])
def test_what_a_transfer_took_more_than_the_kernels_is_the_codecs(speeds):
    codec = CodecCost(*speeds, start_seconds=30e-6)
    rows = crossings(codec)
    found = codec_cost(rows, kernels(200, 300))
    assert found.compress_gbs == pytest.approx(codec.compress_gbs, rel=0.01)
    assert found.start_seconds == pytest.approx(codec.start_seconds, rel=0.01)
    wanted = break_even(RATIO, codec, LINK)
    assert pays_from(rows, kernels(200, 300)) == (
        None if wanted is None else pytest.approx(wanted, rel=0.05)
    )


def test_one_size_tells_no_start():
    found = codec_cost(crossings(CodecCost(200, 300, 30e-6), sizes=(256 * MIB,)), kernels(200, 300))
    assert found.start_seconds == 0


def test_sms_that_were_not_timed_are_taken_for_all():
    rows = crossings(CodecCost(200, 300), sms=24)
    assert pays_from(rows, kernels(200, 300)) == pays_from(
        crossings(CodecCost(200, 300)), kernels(200, 300)
    )


def test_a_transfer_of_no_more_than_its_bytes_on_the_link():
    rows = crossings(CodecCost(1e9, 1e9))
    found = pays_from(rows, kernels(200, 300))
    assert found is not None
    assert found < 4 * MIB


def rates(ratio=1.5, compress=40.0, decompress=80.0):
    return CodecRates(ratio, Estimate.exactly(compress), Estimate.exactly(decompress))


def test_the_formula_by_hand():
    link = CrossedLink("x", 10.0, first_seconds=5e-6)
    told = predict(100_000_000, rates(1.6, 20.0, 40.0), link, slab=8_000_000)
    assert told.raw_seconds == pytest.approx(5e-6 + 10e-3)
    fill = 8e6 * (1 / 20e9 + 1 / 40e9)  # 0.6 ms
    assert told.seconds.value == pytest.approx(5e-6 + fill + 100e6 / 16e9)
    assert told.slowest == "the link"
    assert told.pays
    assert told.speedup == pytest.approx(10.005 / 6.855, rel=1e-3)
    assert told.gbs.value == pytest.approx(0.1 / 6.855e-3, rel=1e-3)


@pytest.mark.parametrize(
    ("compress", "decompress", "slowest"),
    [(5.0, 80.0, "compressing"), (80.0, 5.0, "decompressing"), (80.0, 80.0, "the link")],
)
def test_what_is_slowest(compress, decompress, slowest):
    assert predict(64 * MIB, rates(2.0, compress, decompress), SLOW).slowest == slowest


def test_an_array_of_less_than_a_slab_has_nothing_to_overlap():
    size = MIB
    told = predict(size, rates(2.0, 10.0, 10.0), SLOW)
    assert told.seconds.value == pytest.approx(size * (0.1 + 0.1 + 0.1) / 1e9)
    assert not told.pays


def test_the_interval_of_the_speeds_is_that_of_the_time():
    wide = CodecRates(2.0, Estimate(5.0, 4.0, 30.0), Estimate(50.0, 40.0, 60.0))
    told = predict(256 * MIB, wide, SLOW)
    assert told.seconds.low < told.seconds.value < told.seconds.high
    assert told.gbs.low < told.gbs.value < told.gbs.high
    assert not told.certain  # 4 GB/s is slower than the link, 30 is not


@given(
    size=st.integers(1, 1 << 34),
    ratio=st.floats(0.9, 100),
    compress=st.floats(0.01, 1000),
    decompress=st.floats(0.01, 1000),
)
def test_below_the_break_even_it_pays_and_above_it_does_not(size, ratio, compress, decompress):
    those = rates(ratio, compress, decompress)
    limit = break_even_gbs(size, those)
    if limit is None:
        assert ratio * MARGIN <= 1.0001
        return
    assert predict(size, those, CrossedLink("x", limit * 0.999)).pays
    assert not predict(size, those, CrossedLink("x", limit * 1.001)).pays


def test_what_is_recommended_and_why():
    fast = array_result(measured("delta", ratio=2.0, compress=40.0, decompress=50.0))
    assert recommendation(fast, SLOW).startswith("use delta: predicted ")
    told = recommendation(fast, FAST)
    assert told.startswith("leave it raw: ")
    assert "compressing at 40 GB/s is too slow" in told
    slow_out = array_result(measured("delta", ratio=2.0, compress=400.0, decompress=8.0))
    assert "decompressing at 8 GB/s is too slow" in recommendation(slow_out, SLOW)
    small = array_result(measured("exponent", ratio=1.04, compress=400.0, decompress=400.0))
    assert "no codec makes it 5 % smaller (at best 1.04, by exponent)" in recommendation(
        small, SLOW
    )


def test_the_fastest_codec_is_recommended_and_not_the_smallest():
    result = array_result(
        measured("gfc", ratio=3.0, compress=5.0, decompress=5.0, dimensionality=5),
        measured("delta", ratio=1.5, compress=90.0, decompress=90.0),
    )
    assert recommendation(result, SLOW).startswith("use delta")
    # compressing at 5 GB/s is as good as any on a link of 1
    assert recommendation(result, CrossedLink("x", 1.0)).startswith("use gfc dim 5")


def test_a_codec_that_saves_nothing_is_not_compared_however_fast_it_is():
    result = array_result(
        measured("raw", ratio=1.0, compress=500.0, decompress=500.0),
        measured("delta", ratio=1.5, compress=5.0, decompress=5.0),
    )
    assert "with delta and" in recommendation(result, SLOW)


def test_without_a_link_it_says_which_links_would_gain():
    result = array_result(measured("delta", ratio=2.0, compress=4.0, decompress=5.0))
    told = recommendation(result, None)
    assert told.startswith("delta pays on links slower than ")
    assert "predicted" in told


def test_from_which_size_it_pays():
    link = CrossedLink("x", 10.0, first_seconds=20e-6)
    found = break_even_bytes(rates(), link)
    assert predict(found, rates(), link).pays
    assert not predict(found - 1, rates(), link).pays
    # of the fill, 25 µs for each MiB and 1/0.95 - 1/1.5 of what the link takes, by hand
    fill = (8 << 20) * (1 / 40e9 + 1 / 80e9)
    assert found == pytest.approx((fill + 0.05 * 20e-6) / ((MARGIN - 1 / 1.5) / 10e9), rel=1e-6)
    assert break_even_bytes(rates(ratio=1.04), link) is None
