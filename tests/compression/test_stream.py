"""Compressed streams: what they say of themselves, and what is refused."""

import numpy as np
import pytest

from lanescope.compression.codec import compress, decompress, most_bytes
from lanescope.compression.stream import Codec, describe
from lanescope.errors import InputError

HEADER, DESCRIPTOR, BLOCK = 40, 8, 64 << 10


def noise(bytes_, seed=0):
    return np.random.default_rng(seed).integers(0, 256, bytes_, dtype=np.uint8)


def test_a_stream_describes_its_array():
    info = describe(compress(np.zeros((3, 5, 7), np.float32), "raw"))
    assert (info.codec, info.dtype, info.shape) == (Codec.RAW, "float32", (3, 5, 7))
    assert (info.bytes, info.constant_blocks, info.raw_blocks) == (420, 1, 0)


def test_random_bytes_grow_by_less_than_the_fiftieth_part_of_a_percent():
    values = noise(64 * BLOCK)
    assert len(compress(values, "raw")) / len(values) < 1.0002


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
@pytest.mark.parametrize("threads", [1, 3])
def test_any_length_comes_back(size, threads):
    for values in (noise(size), np.full(size, 7, np.uint8)):
        stream = compress(values, "raw", threads=threads)
        assert np.array_equal(decompress(stream, threads=threads), values)


def test_the_stream_is_the_same_on_any_number_of_threads():
    values = np.concatenate([noise(9 * BLOCK), np.zeros(11 * BLOCK, np.uint8), noise(BLOCK + 5)])
    streams = [compress(values, "raw", threads=n).tobytes() for n in (1, 2, 5)]
    assert streams[0] == streams[1] == streams[2]


def test_streams_are_as_they_were_in_version_1():
    values = np.concatenate([np.full(8192, 1.5), np.arange(3.0)])
    stream = compress(values, "raw", threads=1)
    assert (
        stream[:HEADER].tobytes().hex()
        == (
            "4c53435a"  # magic
            "01000401"  # version, raw, float64, dimensionality
            "1800010000000000"  # bytes: 65,560
            "7000000000000000"  # of the stream: 112
            "0200000001000000"  # blocks, dimensions
            "00000000" + stream[36:HEADER].tobytes().hex()
        )
    )
    assert stream[HEADER : HEADER + 8].view(np.uint64)[0] == 8195
    constant, raw = stream[48:64].view(np.uint32).reshape(2, 2)
    assert constant[0] == 1 << 24 | 8
    assert raw[0] == 24
    assert stream[64:72].view(np.float64)[0] == 1.5
    assert stream[80:104].view(np.float64).tolist() == [0.0, 1.0, 2.0]
    assert constant[1] == checksum(values[:8192])
    assert raw[1] == checksum(values[8192:])


def checksum(values):
    """The checksum of docs/compression.md, in plain integers."""
    return (checksum_sum(values) * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 32


def checksum_sum(values):
    """The sum of which half is kept."""
    mask, golden = (1 << 64) - 1, 0x9E3779B97F4A7C15

    def part(word, place):
        x = word ^ ((place + 1) * golden & mask)
        x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & mask
        return x ^ x >> 29

    data = values.tobytes()
    padded = np.frombuffer(data + b"\0" * (-len(data) % 8), np.uint64)
    total = part(len(data), mask - 1)
    return total + sum(part(int(word), place) for place, word in enumerate(padded)) & mask


def test_every_bit_counts():
    values = np.concatenate([np.full(8192, 2.5), np.random.default_rng(1).normal(size=9000)])
    stream = compress(values, "raw")
    places = np.random.default_rng(2).integers(0, len(stream) * 8, 300)
    for place in {*places.tolist(), *range(0, 8 * 80, 3)}:
        changed = stream.copy()
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(InputError, match="no stream that can be read"):
            decompress(changed)


def test_a_changed_block_is_named():
    stream = compress(noise(4 * BLOCK), "raw")
    stream[len(stream) - BLOCK // 2] ^= 4
    with pytest.raises(InputError, match="block 3: its checksum does not fit"):
        decompress(stream)


@pytest.mark.parametrize("keep", [0, 3, 39, 47, 60, 100, BLOCK, -1, -16])
def test_a_truncated_stream_is_refused(keep):
    stream = compress(noise(2 * BLOCK), "raw")
    with pytest.raises(InputError, match="no stream that can be read"):
        decompress(stream[:keep])


def test_what_is_behind_a_stream_is_refused():
    stream = compress(noise(100), "raw")
    with pytest.raises(InputError, match="it should have"):
        decompress(np.concatenate([stream, stream]))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ("text", "an object of type str is no array"),
        (np.zeros((8, 8))[:, ::2], "do not lie in C order"),
        (np.zeros(3, complex), "values of complex128; view them as float64"),
    ],
)
@pytest.mark.parametrize("codec", ["raw", "auto"])
def test_what_is_no_array_of_numbers_is_refused(values, codec, sentence):
    with pytest.raises(InputError, match=sentence):
        compress(values, codec)


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(InputError, match="no codec 'zip'; give one of auto, raw, gfc"):
        compress(noise(8), "zip")
    with pytest.raises(InputError, match="no type of values 'float8'"):
        compress(noise(8), "raw", dtype="float8")
    with pytest.raises(InputError, match="no framework 'jax'"):
        decompress(compress(noise(8)), framework="jax")
    with pytest.raises(InputError, match="dimensionality of 33 is not 1 to 32"):
        compress(np.zeros(9), "raw", dimensionality=33)


def test_a_stream_is_put_into_memory_that_is_there():
    values = noise(3 * BLOCK + 1)
    room = np.full(most_bytes(values.nbytes), 255, np.uint8)
    stream = compress(values, "raw", out=room)
    assert np.shares_memory(stream, room)
    assert stream.tobytes() == compress(values, "raw").tobytes()
    with pytest.raises(InputError, match="less room than it may need"):
        compress(values, "raw", out=room[:-16])
    for wrong in (
        bytearray(len(room)),
        np.zeros(len(room)),
        np.zeros(2 * len(room), np.uint8)[::2],
    ):
        with pytest.raises(InputError, match="only into a writable NumPy array of uint8"):
            compress(values, "raw", out=wrong)


def test_values_are_put_into_an_array_that_fits_alone():
    values = np.arange(10.0)
    stream = compress(values)
    out = np.zeros((2, 5))
    assert decompress(stream, out=out) is out
    assert out.ravel().tolist() == values.tolist()
    with pytest.raises(InputError, match="holds 80 bytes, and there is room for 72"):
        decompress(stream, out=np.zeros(9))
    frozen = np.zeros(10)
    frozen.flags.writeable = False
    for wrong in (frozen, np.zeros(20)[::2], "room"):
        with pytest.raises(InputError, match="only into a writable array"):
            decompress(stream, out=wrong)
    assert not frozen.any()
