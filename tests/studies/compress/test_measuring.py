"""Measuring codecs: what is timed, what is compared, and that a changed byte is an error."""

import numpy as np
import pytest

from lanescope.compression.arrays import ArrayEntry
from lanescope.compression.stream import Codec
from lanescope.errors import InputError
from lanescope.studies.compress import measuring
from lanescope.studies.compress.measuring import (
    HostDevice,
    MismatchError,
    array_results,
    example_arrays,
)
from lanescope.studies.compress.results import CodecChoice, sums_by_dtype
from tests.studies.compress.made_up import FakeDevice, array_result, measured


def entry(values, dtype=None):
    return ArrayEntry("x", dtype or values.dtype.name, values.shape, lambda: values)


VALUES = np.arange(50_000.0).reshape(50, 1000)


def last_result(*arguments, **options):
    *_, last = array_results(*arguments, **options)
    return last


def test_every_codec_is_timed_with_each_number_of_threads():
    device = FakeDevice((Codec.RAW, Codec.GFC))
    result = last_result(entry(VALUES), device, (1, 5, 8), 1.0)
    assert [one.choice.codec for one in result.codecs] == [Codec.RAW, Codec.GFC]
    assert [one.choice.dimensionality for one in result.dimensionalities] == [1, 5, 8]
    for one in result.codecs:
        assert [timing.threads for timing in one.timings] == [1, 4]
        for timing in one.timings:
            assert timing.timed_bytes == VALUES.nbytes
            assert len(timing.compress_seconds) == 6  # the least: all are the same
            assert len(timing.decompress_seconds) == 6
            assert timing.compress_gbs.value == pytest.approx(VALUES.nbytes / 0.25 / 1e9)
    assert not any(one.timings for one in result.dimensionalities)


def test_codecs_that_do_not_take_the_type_are_left_out():
    device = FakeDevice((Codec.DELTA,))
    result = last_result(entry(VALUES), device, (1, 2), 0.1)
    assert [one.choice.codec for one in result.codecs] == [Codec.DELTA]
    assert result.dimensionalities == ()


def test_of_a_long_array_the_first_part_is_timed_and_all_is_compared(monkeypatch):
    monkeypatch.setattr(measuring, "MOST_TIMED_BYTES", 80_000)
    (one,) = last_result(entry(VALUES), FakeDevice(), (1,), 0.1).codecs
    assert one.bytes == VALUES.nbytes
    assert {timing.timed_bytes for timing in one.timings} == {80_000}

    def at_the_end(out):
        if out.nbytes == VALUES.nbytes:
            out[-1] ^= 1

    with pytest.raises(MismatchError, match=f"first at {VALUES.nbytes - 1}"):
        last_result(entry(VALUES), FakeDevice(change=at_the_end), (1,), 0.1)


def test_one_changed_bit_is_loud():
    def flip(out):
        out[12_345] ^= 0x10

    with pytest.raises(
        MismatchError, match=r"DATA WERE CHANGED: 1 of 400000 bytes of x .* first at 12345"
    ):
        last_result(entry(VALUES), FakeDevice(change=flip), (1,), 0.1)


def test_what_changes_only_after_many_times_is_found_as_well():
    times = 0

    def flip_later(out):
        nonlocal times
        times += 1
        if times > 5:
            out[0] ^= 1

    with pytest.raises(MismatchError):
        last_result(entry(VALUES), FakeDevice(change=flip_later), (1,), 0.1)


def test_no_memory_is_one_sentence():
    def load():
        raise MemoryError

    with pytest.raises(InputError, match="no memory to compress the 8000 bytes of x"):
        last_result(ArrayEntry("x", "float64", (1000,), load), FakeDevice(), (1,), 0.1)


def test_zeros_of_another_sign_are_not_the_same():
    values = np.zeros(100)

    def negate(out):
        out.view(np.float64)[7] = -0.0

    with pytest.raises(MismatchError, match="1 of 800 bytes"):
        last_result(entry(values), FakeDevice(change=negate), (1,), 0.1)


def test_a_stream_that_cannot_be_read_again_is_no_bad_input(monkeypatch):
    class Forgetful(FakeDevice):
        def compress(self, values, dtype, choice, threads):
            stream, seconds = super().compress(values, dtype, choice, threads)
            stream[-1] ^= 1
            return stream, seconds

    with pytest.raises(MismatchError, match="DATA WERE LOST"):
        last_result(entry(VALUES), Forgetful(), (1,), 0.1)


@pytest.mark.parametrize("one", example_arrays(100_000), ids=lambda one: one.name)
def test_the_examples_come_back_from_this_hosts_codecs(one):
    assert one.made_up
    assert 0 < one.bytes <= 100_000
    assert one.load().nbytes == one.bytes
    assert np.array_equal(one.load().view(np.uint8), one.load().view(np.uint8))
    result = last_result(one, HostDevice(2), (1, 32), 0.001)
    assert result.codecs[0].choice.codec is Codec.RAW
    assert all(len(codec.timings) == 2 for codec in result.codecs)
    for codec in result.codecs:
        assert codec.stored_bytes < one.bytes + 4096
    if one.name.startswith("constant"):
        assert result.codecs[0].ratio > 100
    if one.name.startswith("random bits"):
        assert result.codecs[0].data_rate_saving == pytest.approx(0, abs=0.01)


def test_bf16_example_is_rounded_to_the_nearest():
    bf16 = next(one for one in example_arrays(4000) if one.dtype == "bfloat16").load()
    back = (bf16.astype(np.uint32) << 16).view(np.float32)
    exact = np.random.default_rng(7).standard_normal(len(back), np.float32)
    assert np.all(np.abs(back - exact) <= np.abs(exact) * 2.0**-8)


def test_saving_and_names():
    one = measured("gfc", ratio=1.25, compress=1.0, decompress=1.0, dimensionality=5)
    assert one.data_rate_saving == pytest.approx(0.2)
    assert one.choice.name == "gfc dim 5"
    assert CodecChoice(Codec.RAW).name == "constant blocks"


def test_sums_weigh_by_bytes():
    small = measured("delta", ratio=1.0, compress=1.0, decompress=2.0, size=1_000_000)
    large = measured("delta", ratio=2.0, compress=4.0, decompress=2.0, size=3_000_000)
    results = [array_result(small), array_result(large), array_result(small, dtype="int32")]
    (both,) = sums_by_dtype(results)
    assert (both.dtype, both.arrays, both.bytes) == ("float32", 2, 4_000_000)
    assert both.ratio == pytest.approx(4 / 2.5)
    assert both.compress_gbs == pytest.approx(4 / (1 / 1 + 3 / 4))
    assert both.decompress_gbs == pytest.approx(2.0)
