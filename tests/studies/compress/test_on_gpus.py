"""What is asked of GPUs, and what is made of it: with a core whose GPUs are made up."""

import numpy as np
import pytest

from lanescope._core import native
from lanescope.compression.stream import Codec
from lanescope.errors import InputError, LanescopeError
from lanescope.studies.compress import on_gpus
from lanescope.studies.compress.measuring import MismatchError
from lanescope.studies.compress.on_gpus import Gpus, require_sms
from lanescope.studies.compress.verdicts import sentences, verdicts
from tests.compression.made_up_core import DECODE_GBS, ENCODE_GBS, LINK_GBS, MadeUpCore
from tests.studies.compress.made_up import array_result, measured

MIB = 1 << 20
LEAST_TIMED_BYTES = 2 * MIB
VALUES = np.arange(30_000, dtype=np.float32)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """What is measured is no question of size here."""
    monkeypatch.setattr(on_gpus, "LEAST_TIMED_BYTES", LEAST_TIMED_BYTES)


def result(*names, size=VALUES.nbytes):
    given = names or ("raw", "gfc")
    codecs = [
        measured(one, ratio=1.0 if one == "raw" else 2.0, compress=1.0, decompress=1.0,
                 dimensionality=5 if one == "gfc" else 1, size=size)
        for one in given
    ]  # fmt: skip
    return array_result(*codecs, size=size)


def last(core, count=2, sizes=(MIB // 4, MIB), of=None, values=VALUES):
    with Gpus(("made up",) * count, (0, 16), sizes, core) as gpus:
        return list(gpus.measure(of or result(), values))[-1]


def test_kernels_of_every_codec_on_an_array_several_times_over():
    core = MadeUpCore()
    found = last(core)
    assert [one.choice.name for one in found.gpu] == ["constant blocks", "gfc dim 5"]
    gfc = found.gpu[1]
    assert gfc.bytes == LEAST_TIMED_BYTES
    assert [timing.threads for timing in gfc.timings] == [16, 0]  # all of them last
    assert gfc.timings[-1].compress_gbs.value == pytest.approx(ENCODE_GBS)
    assert gfc.timings[-1].decompress_gbs.value == pytest.approx(DECODE_GBS)
    assert gfc.ratio == pytest.approx(2.0, rel=1e-3)
    assert core.asked[-1] == (native.Codec.gfc, native.Dtype.float32, 5, 0)


class MadeUpNvcomp:
    """Takes the place of nvCOMP, on the made-up core."""

    def __init__(self, core):
        self.core, self.asked = core, []

    def time_array_codec(self, source, out, codec, kind, repeats):
        self.asked.append((codec, kind))
        return self.core.time_array_codec(source, out, codec, kind, 1, 0, repeats)


def test_codecs_of_nvcomp_take_the_whole_gpu_and_cross_no_link():
    core = MadeUpCore()
    nvcomp = MadeUpNvcomp(core)
    codecs = (Codec.ANS, Codec.BITCOMP)
    with Gpus(("made up",), (0, 16), (MIB,), core, nvcomp, codecs) as gpus:
        found = list(gpus.measure(result(), VALUES))[-1]
    assert [one.choice.name for one in found.gpu][2:] == ["ans", "bitcomp"]
    assert [[timing.threads for timing in one.timings] for one in found.gpu] == [
        [16, 0], [16, 0], [0], [0],
    ]  # fmt: skip
    assert nvcomp.asked == [(native.Codec[one], native.Dtype.float32) for one in codecs]
    assert {one.codec for one in found.crossings} == {"gfc"}
    assert sentences(found, None, 8 * MIB)


def test_links_in_turns_with_the_raw_copy():
    found = last(MadeUpCore())
    directions = [(one.path, one.bytes, one.codec) for one in found.crossings]
    assert directions == [
        (path, size, "gfc")  # blocks that are all one value are not sent: there are none
        for paths in (("g0>host", "host>g0"), ("g0>g1",))
        for size in (MIB // 4, MIB)
        for path in paths
    ]
    one = found.crossings[-1]
    assert len(one.raw_seconds) == len(one.seconds) == 9
    assert one.dimensionality == 5
    assert one.ratio == 2
    assert one.raw_gbs.value == pytest.approx(LINK_GBS, rel=0.4)
    assert 1.3 < one.speedup.value < 2


def test_the_recommendation_is_of_what_was_measured():
    told = sentences(last(MadeUpCore()), None, 8 * MIB)
    assert len(told) == 3
    assert told[0].startswith("GPU 0 to host: use gfc dim 5: measured ")
    slow = sentences(last(MadeUpCore(ratio=1.02)), None, 8 * MIB)
    assert all("leave it raw: measured" in one for one in slow)


def test_the_break_even_size_is_what_the_rule_says_of_the_measured_speeds():
    (out, _, _) = verdicts(last(MadeUpCore(), sizes=(MIB, 16 * MIB)))
    assert out.pays_from is not None
    # what a start takes is the same for both: so any size pays that the codec's speed allows
    assert out.pays_from < MIB
    (never, _, _) = verdicts(last(MadeUpCore(ratio=1.001), sizes=(MIB, 16 * MIB)))
    assert never.pays_from is None


def test_one_gpu_has_no_other_to_send_to():
    paths = {one.path for one in last(MadeUpCore(), count=1).crossings}
    assert paths == {"g0>host", "host>g0"}


def test_blocks_of_one_value_are_sent_where_they_make_it_small():
    constant = array_result(measured("raw", ratio=100, compress=1.0, decompress=1.0, size=4000))
    found = last(MadeUpCore(ratio=100), of=constant, values=np.ones(1000, np.float32))
    assert {one.choice.codec for one in found.crossings} == {Codec.RAW}


def test_a_long_array_is_cut_and_a_short_one_repeated():
    values = np.arange(1 << 20, dtype=np.float64)  # 8 MiB
    of = result("gfc", size=values.nbytes)
    found = last(MadeUpCore(), of=of, values=values, sizes=(MIB,))
    assert {one.bytes for one in found.crossings} == {MIB}


@pytest.mark.parametrize("at", [0, -1])
def test_a_changed_byte_is_an_error(at):
    def change(data):
        data[at] ^= 1

    with pytest.raises(MismatchError, match=r"1 of \d+ bytes of x did not come back"):
        last(MadeUpCore(change=change))


def test_bytes_that_were_not_written_are_an_error():
    class Idle(MadeUpCore):
        def _copy(self, source, out, *, coded):
            """Nothing."""

    with pytest.raises(MismatchError, match="did not come back"):
        last(Idle())


def test_what_there_is_no_memory_for_is_told_and_the_rest_measured():
    found = last(MadeUpCore(room=LEAST_TIMED_BYTES), sizes=(MIB, 16 * MIB))
    assert len(found.gpu) == 2
    assert {one.bytes for one in found.crossings} == {MIB}
    assert len(found.gpu_notes) == 2  # of the link to the host, and to the other GPU
    assert "gfc dim 5 over the link to the host: out of memory" in found.gpu_notes[0]


def test_what_travelled_as_it_is_is_no_compressed_transfer():
    found = last(MadeUpCore(why_raw="the GPU has no memory left"))
    assert not found.crossings
    assert "the GPU has no memory left" in found.gpu_notes[0]


def test_gpus_that_do_not_reach_each_other_are_told_once():
    class Apart(MadeUpCore):
        def DeviceChannel(self, *options):  # noqa: N802
            said = "GPU 0 and GPU 1 do not reach each other's memory"
            raise native.NativeError("DeviceChannel", 0, "no peer access", said, "here")

    found = last(Apart())
    assert {one.path for one in found.crossings} == {"g0>host", "host>g0"}
    (note,) = found.gpu_notes
    assert "do not reach each other" in note


@pytest.mark.parametrize(
    ("code", "name", "error", "words"),
    [
        (700, "cudaErrorIllegalAddress", LanescopeError, "GPU 0 failed in time_array_codec"),
        (1, "bad block", MismatchError, "DATA WERE LOST: what gfc dim 5 made of x"),
        (0, "too late", LanescopeError, "measure with device cpu"),
    ],
)
def test_a_gpu_that_fails_is_no_lack_of_memory(code, name, error, words):
    class Broken(MadeUpCore):
        def time_array_codec(self, *given):
            raise native.NativeError("time_array_codec", code, name, "block 3", "here")

    with pytest.raises(error, match=words):
        last(Broken(), of=result("gfc"))


def test_channels_end_also_when_something_fails():
    core = MadeUpCore()

    def cut_off():
        with Gpus(("made up",) * 2, (0,), (MIB,), core) as gpus:
            for grown in gpus.measure(result("gfc"), VALUES):
                if grown.crossings:
                    assert core.open > 0
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut_off()
    assert core.open == 0


def test_sms_that_there_are_not():
    require_sms((0, 132), 132)
    with pytest.raises(InputError, match="GPU 0 has 132 SMs"):
        require_sms((133,), 132)
