"""The rule's costs of a path, from transfers that were made by them."""

import pytest

from lanescope.compression.rule import CodecCost, LinkCost, break_even, compressed_seconds
from lanescope.compression.rule import raw_seconds as raw_seconds_of
from lanescope.compression.stream import Codec
from lanescope.studies.compress.results import Crossing, Kernels, Timing
from lanescope.studies.compress.verdicts import codec_cost, link_cost, pays_from

MIB = 1 << 20
LINK = LinkCost(55.0, 8e-6)
RATIO = 1.5


def kernels(compress, decompress, sms=16):
    size = 64 * MIB
    times = [(size / gbs / 1e9,) * 6 for gbs in (compress, decompress)]
    timings = tuple(Timing(of, size, *times) for of in (sms, 0))
    return Kernels(0, Codec.DELTA, 1, size, round(size / RATIO), timings)


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
