"""Streams of nvCOMP's codecs without nvCOMP: what is told of them, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

import lanescope
from lanescope._core import native
from lanescope.compression import codec as codec_module
from lanescope.compression import stream as streams
from lanescope.compression.rule import CODECS_BY_DTYPE
from lanescope.compression.stream import Codec, describe
from lanescope.errors import InputError
from tests.compression.nvcomp_streams import (
    BLOCK,
    CODECS,
    CODED,
    CONSTANT,
    RAW,
    chunk_payload,
    stream_of,
)

RANDOM = np.random.default_rng(41)
every_codec = pytest.mark.parametrize("codec", CODECS)
NEEDS = r"codec {} needs a GPU and nvCOMP: pip install 'lanescope\[nvcomp\]'"


@pytest.fixture(autouse=True)
def _without_nvcomp(monkeypatch):
    """As where it is not installed, or there is no GPU."""

    def missing():
        raise native.NativeError("dlopen", 0, "no nvcomp", "libnvcomp.so.6: not there", "here")

    for module in (streams, codec_module):
        monkeypatch.setattr(module, "open_nvcomp", missing)


def mixed(codec, dtype="float32"):
    """An array and a stream of it: two chunks, one value, as it is, and a short chunk."""
    blocks = [RANDOM.random(BLOCK // 4, dtype=np.float32) for _ in range(3)]
    values = np.concatenate([*blocks[:2], np.full(BLOCK // 4, 2.5, np.float32), blocks[2][:700]])
    chunks = [RANDOM.bytes(41_003), RANDOM.bytes(1777)]
    data = values.tobytes()
    payloads = [
        (CODED, chunk_payload(chunks[0], codec, dtype, BLOCK)),
        (RAW, data[BLOCK : 2 * BLOCK]),
        (CONSTANT, values[2 * BLOCK // 4].tobytes()),
        (CODED, chunk_payload(chunks[1], codec, dtype, 2800)),
    ]
    return values, stream_of(values, codec, dtype, payloads)


@every_codec
def test_such_a_stream_describes_its_array(codec):
    values, stream = mixed(codec)
    info = describe(stream)
    assert (info.codec, info.dtype, info.shape) == (codec, "float32", values.shape)
    assert (info.raw_blocks, info.constant_blocks, info.coded_blocks) == (1, 1, 2)
    assert info.ratio == values.nbytes / len(stream)
    assert info.codec.by_nvcomp


@pytest.mark.parametrize("version", [1, 3])
@every_codec
def test_what_nvcomp_has_no_part_in_is_read_without_it(codec, version):
    values = np.concatenate([np.full(BLOCK, 7, np.uint8), RANDOM.integers(0, 256, 3000, np.uint8)])
    payloads = [(CONSTANT, b"\7"), (RAW, values[BLOCK:].tobytes())]
    stream = stream_of(values, codec, "uint8", payloads, version)
    assert np.array_equal(lanescope.decompress(stream), values)


@every_codec
def test_what_needs_nvcomp_says_so(codec):
    _, stream = mixed(codec)
    needs = NEEDS.format(codec)
    with pytest.raises(InputError, match=needs):
        lanescope.decompress(stream)
    with pytest.raises(InputError, match=needs):
        lanescope.compress(np.zeros(9, np.float32), codec)
    with pytest.raises(native.NativeError, match=needs):
        native.compress(np.zeros(9, np.float32), native.Codec[codec])
    assert not native.can_compress(native.Codec[codec], native.Dtype.float32)


@every_codec
def test_channels_have_none_of_these_codecs(codec):
    with pytest.raises(InputError, match=f"codec {codec} is one of streams, for compress"):
        lanescope.Channel(0, 0, codec=codec)


def test_auto_takes_none_of_them():
    assert not {one for codecs in CODECS_BY_DTYPE.values() for one in codecs} & set(CODECS)
    noise = RANDOM.integers(1, 5, 1 << 16, dtype=np.uint8)  # ANS would make it smaller
    assert describe(lanescope.compress(noise)).codec is Codec.RAW


@every_codec
def test_every_bit_of_a_chunk_counts_before_nvcomp_sees_it(codec):
    _, stream = mixed(codec)
    begin, end = 80, 80 + 41_024  # the first payload, with what fills it up
    for at in [*range(begin, begin + 24), *RANDOM.integers(begin, end, 100), *range(end - 6, end)]:
        changed = stream.copy()
        changed[at] ^= 1 << int(RANDOM.integers(8))
        with pytest.raises(InputError, match=r"no stream .* block 0: .*(payload)"):
            lanescope.decompress(changed, threads=1)


@every_codec
def test_a_front_with_changed_bits_is_refused(codec):
    """Fuzz of header and descriptors: an error in any case, and nothing worse."""
    values, stream = mixed(codec)
    front = 40 + 8 + 4 * 8
    told = set()
    for round_ in range(400):
        changed = stream.copy()
        for at in RANDOM.integers(0, front, 1 + round_ % 3):
            changed[at] ^= 1 << int(RANDOM.integers(8))
        out = np.zeros_like(values)
        with pytest.raises(InputError) as error:
            lanescope.decompress(changed, out=out, threads=1)
        told.add(str(error.value)[:60])
    assert len(told) > 5


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (chunk_payload(b"x" * 99, "ans", "float32", BLOCK, 7000), "another version than 6"),
        (chunk_payload(b"x" * 99, "bitcomp", "float32", BLOCK), "of another stream"),
        (chunk_payload(b"x" * 99, "ans", "int32", BLOCK), "of another stream"),
        (chunk_payload(b"x" * 99, "ans", "float32", BLOCK - 4), "another block"),
        (chunk_payload(b"", "ans", "float32", BLOCK), "too short for a chunk"),
        (b"\1", "too short for a chunk"),
    ],
)
def test_a_chunk_that_is_none_of_the_stream_is_told(payload, words):
    values = np.arange(BLOCK // 4, dtype=np.float32)
    stream = stream_of(values, "ans", "float32", [(CODED, payload)])
    with pytest.raises(InputError, match=f"block 0: .*{words}"):
        lanescope.decompress(stream)


def test_a_later_codec_is_refused():
    _, stream = mixed("ans")
    values = np.arange(3.0)
    stream = stream_of(values, "ans", "float64", [(RAW, values.tobytes())])
    assert np.array_equal(lanescope.decompress(stream), values)
    CODECS["later"] = len(native.Codec)
    try:
        later = stream_of(values, "later", "float64", [(RAW, values.tobytes())])
    finally:
        del CODECS["later"]
    with pytest.raises(InputError, match="its codec or its type of values is none"):
        lanescope.decompress(later)


def test_the_library_is_looked_for_beside_its_package(monkeypatch, tmp_path):
    (tmp_path / "lib64").mkdir()
    library = tmp_path / "lib64" / "libnvcomp.so.6"
    library.touch()
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(streams, "find_spec", lambda name: spec)
    assert list(streams._installed()) == [library]
    library.unlink()
    assert not list(streams._installed())


def test_a_library_that_is_none_is_told(tmp_path):
    wrong = tmp_path / "libnvcomp.so.6"
    wrong.write_bytes(b"no library")
    with pytest.raises(native.NativeError) as error:
        native.Nvcomp(str(wrong))
    assert error.value.args[2] == "no nvcomp"
