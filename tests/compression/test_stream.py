"""Compressed streams: what they say of themselves, and what is refused."""

import array
import ctypes
import multiprocessing

import numpy as np
import pytest

from lanescope._core import native
from lanescope.compression.codec import compress, decompress, most_bytes
from lanescope.compression.stream import Codec, describe, input_errors
from lanescope.errors import InputError, LanescopeError
from tests.compression.stream_format import (
    BLOCK,
    HEADER,
    array_number,
    checksum,
    exchanged,
    numbered,
    payload_spans,
    place_of,
    sealed,
    table_of,
)


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


def test_streams_are_as_the_format_says():
    values = np.concatenate([np.full(8192, 1.5), np.arange(3.0)])
    stream = compress(values, "raw", threads=1)
    assert (
        stream[:HEADER].tobytes().hex()
        == (
            "4c53435a"  # magic
            "03000401"  # version, raw, float64, dimensionality
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
    array = array_number(stream)
    assert constant[1] == checksum(values[:8192], place_of(array, 0))
    assert raw[1] == checksum(values[8192:], place_of(array, 1))
    assert sealed(stream).tobytes() == stream.tobytes()


def test_every_bit_counts():
    values = np.concatenate([np.full(8192, 2.5), np.random.default_rng(1).normal(size=9000)])
    stream = compress(values, "raw")
    places = np.random.default_rng(2).integers(0, len(stream) * 8, 300)
    for place in {*places.tolist(), *range(0, 8 * 80, 3)}:
        changed = stream.copy()
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(InputError, match="no stream that can be read"):
            decompress(changed)


def blocks(*kinds):
    """An array of bytes with blocks of noise, of zeros, and of few values, of equal sizes."""
    made = {
        "noise": lambda seed: noise(BLOCK, seed),
        "one": lambda seed: np.full(BLOCK, 1 + seed, np.uint8),
        "zeros": lambda seed: (noise(BLOCK, seed) < 30) * noise(BLOCK, seed + 100),
    }
    return np.concatenate([made[kind](seed) for seed, kind in enumerate(kinds)])


NOT_OF_ONE_STREAM = "its header and its table of blocks does not fit"


@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 4), (2, 5), (3, 2), (3, 0)])
@pytest.mark.parametrize("codec", ["raw", "zvc"])
def test_blocks_that_change_places_are_refused(codec, one, other):
    values = blocks("noise", "noise", "one", "zeros", "noise", "one")
    changed = exchanged(compress(values, codec), one, other)
    with pytest.raises(InputError, match=NOT_OF_ONE_STREAM):
        decompress(changed)


@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 4), (2, 5), (3, 2)])
def test_blocks_that_change_places_are_refused_even_with_a_header_that_fits(one, other):
    values = blocks("noise", "noise", "one", "zeros", "noise", "one")
    changed = sealed(exchanged(compress(values, "zvc"), one, other))
    first = min(one, other)
    with pytest.raises(InputError, match=f"block {first}: its checksum does not fit"):
        decompress(changed, threads=1)


VALUES = np.arange(24, dtype=np.int64)


@pytest.mark.parametrize("other", [VALUES[::-1].copy(), VALUES.view(np.uint64), VALUES * 0.5])
def test_a_header_of_another_stream_is_refused(other):
    stream = compress(VALUES, "raw")
    changed = stream.copy()
    changed[:HEADER] = compress(other, "raw")[:HEADER]
    with pytest.raises(InputError, match=NOT_OF_ONE_STREAM):
        decompress(changed)


@pytest.mark.parametrize(
    "other", [VALUES.view(np.uint64), VALUES.view(np.float64), VALUES.reshape(4, 6)]
)
def test_a_header_of_another_meaning_is_refused_even_where_it_fits(other):
    stream = compress(VALUES.reshape(24, *[1] * (other.ndim - 1)), "raw")
    changed = stream.copy()
    front = slice(0, HEADER + 8 * other.ndim)
    changed[front] = compress(other, "raw")[front]
    with pytest.raises(InputError, match="block 0: its checksum does not fit"):
        decompress(sealed(changed))


def test_a_block_of_another_stream_is_refused():
    one, other = (compress(noise(3 * BLOCK, seed), "raw") for seed in (1, 2))
    changed = one.copy()
    table_of(changed)[1] = table_of(other)[1]
    span = slice(*payload_spans(one)[1])
    changed[span] = other[span]
    with pytest.raises(InputError, match=NOT_OF_ONE_STREAM):
        decompress(changed)
    changed = one.copy()
    changed[span] = other[span]
    with pytest.raises(InputError, match="block 1: its checksum does not fit"):
        decompress(changed)


def test_an_array_gives_the_same_bytes_each_time():
    values = noise(5 * BLOCK).view(np.float32)
    assert compress(values, "raw").tobytes() == compress(values.copy(), "raw").tobytes()


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
        (np.zeros(3, np.longdouble), "values of float128; view them as uint8"),
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
    with pytest.raises(InputError, match="dimensionality cannot be 33; give 1 to 32"):
        compress(np.zeros(9), "raw", dimensionality=33)


@pytest.mark.parametrize("wrong", [[1, 2], "a.stream", None, np.zeros(300, np.uint8)[::2]])
def test_of_what_is_no_stream_the_error_says_what_to_give(wrong):
    with pytest.raises(InputError, match=r"give \.cpu\(\)\.numpy\(\) of a tensor"):
        decompress(wrong)


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


def lent(values, kind=ctypes.c_double):
    """An array of ctypes: its buffer has no strides."""
    return (kind * len(values))(*values)


class Pair(ctypes.Structure):
    _fields_ = (("one", ctypes.c_int), ("other", ctypes.c_int))


@pytest.mark.parametrize(
    "array",
    [
        lent(range(100)),
        lent(range(100), ctypes.c_float),
        lent(range(100), ctypes.c_uint16),
        lent([True, False], ctypes.c_bool),
        ((ctypes.c_int64 * 3) * 4)(),
        (ctypes.c_double * 0)(),
        ctypes.c_double(1.5),
        multiprocessing.RawArray("d", 100),
        multiprocessing.Array("f", 100).get_obj(),
        array.array("h", [1, 2, 3]),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("codec", ["auto", "raw"])
def test_buffers_without_strides_are_arrays(array, codec):
    whole = np.array(array)
    stream = compress(array, codec)
    back = decompress(stream)
    assert back.shape == whole.shape
    assert back.tobytes() == whole.tobytes()
    if whole.size and not isinstance(array, ctypes.c_double):
        out = type(array)() if isinstance(array, ctypes.Array) else array[:]
        assert decompress(stream, out=out) is out
        assert np.array(out).tobytes() == whole.tobytes()


@pytest.mark.parametrize(
    "wrong", [(Pair * 3)(), (ctypes.c_longdouble * 3)(), (ctypes.c_void_p * 3)()]
)
@pytest.mark.parametrize("codec", ["auto", "raw"])
def test_buffers_without_strides_and_numbers_are_refused(wrong, codec):
    with pytest.raises(InputError, match=r"only an array in the host.s memory|none that can be"):
        compress(wrong, codec)
    with pytest.raises(InputError, match=r"only into a writable array|there is room for"):
        decompress(compress(np.zeros(7)), out=wrong)


def test_streams_in_buffers_without_strides_are_read():
    values = np.arange(50.0)
    stream = compress(values)
    for kind in (ctypes.c_ubyte, ctypes.c_char, ctypes.c_byte):
        assert decompress((kind * len(stream)).from_buffer_copy(stream)).tolist() == values.tolist()
    out = (ctypes.c_double * 50)()
    decompress((ctypes.c_ubyte * len(stream)).from_buffer_copy(stream), out=out)
    assert list(out) == values.tolist()


APART = "overlap; give other memory"


@pytest.mark.parametrize("begin", [0, 16, 1000, 3 * BLOCK, 4 * BLOCK - 1])
@pytest.mark.parametrize("codec", ["auto", "raw"])
def test_an_array_is_not_compressed_onto_itself(begin, codec):
    room = np.concatenate([noise(4 * BLOCK), np.full(6 * BLOCK, 7, np.uint8)])
    values, before = room[: 4 * BLOCK], room.copy()
    with pytest.raises(InputError, match=APART):
        compress(values, codec, out=room[begin:])
    assert np.array_equal(room, before)
    stream = compress(values, codec, out=room[4 * BLOCK :])
    assert np.array_equal(values, before[: 4 * BLOCK])
    assert np.array_equal(decompress(stream), values)


def test_an_array_behind_the_room_of_its_stream_is_no_hindrance():
    room = np.zeros(4 * BLOCK, np.uint8)
    values = room[-BLOCK:]
    values[:] = noise(BLOCK)
    assert np.array_equal(decompress(compress(values, "raw", out=room)), values)


@pytest.mark.parametrize("shift", [-BLOCK + 1, -64, 0, 64, BLOCK])
def test_a_stream_is_not_decompressed_onto_itself(shift):
    values = noise(2 * BLOCK)
    stream = compress(values, "raw")
    room = np.zeros(8 * BLOCK, np.uint8)
    lies = room[2 * BLOCK : 2 * BLOCK + len(stream)]
    lies[:] = stream
    with pytest.raises(InputError, match=APART):
        decompress(lies, out=room[2 * BLOCK + shift :][: 2 * BLOCK])
    assert np.array_equal(lies, stream)
    decompress(lies, out=room[: 2 * BLOCK])
    decompress(lies, out=room[2 * BLOCK + len(stream) :][: 2 * BLOCK])
    assert np.array_equal(room[: 2 * BLOCK], values)


NUMBER = 0xA1B2C3D4E5F6


@pytest.mark.parametrize("codec", ["raw", "delta", "zvc"])
def test_streams_that_carry_the_number_of_a_transfer_are_read(codec):
    """Version 5, of parcels: blocks were coded before there was a header."""
    values = np.arange(40_000, dtype=np.float32)
    stream = numbered(compress(values, codec), values, NUMBER)
    assert np.array_equal(decompress(stream), values)
    info = describe(stream)
    assert (info.codec, info.shape, info.dtype) == (codec, values.shape, "float32")


def test_blocks_are_bound_to_the_number_that_the_stream_carries():
    values = np.arange(60_000, dtype=np.float32)
    stream = numbered(compress(values, "raw"), values, NUMBER)
    changed = stream.copy()
    changed[35] ^= 1
    with pytest.raises(InputError, match="checksum of its header"):
        decompress(changed)
    with pytest.raises(InputError, match="block 0: its checksum does not fit"):
        decompress(sealed(changed), threads=1)
    with pytest.raises(InputError, match="block 1: its checksum does not fit"):
        decompress(sealed(exchanged(stream, 1, 2)))


def test_what_earlier_versions_leave_zero_is_refused_there():
    stream = compress(np.arange(100, dtype=np.float32), "delta")
    for place in range(30, 36):
        changed = stream.copy()
        changed[place] = 1
        with pytest.raises(InputError, match="its version leaves zero"):
            decompress(sealed(changed))


def test_a_gpu_without_memory_is_said_in_a_sentence():
    name = "cudaErrorMemoryAllocation"
    error = native.NativeError("cudaMallocAsync", 2, name, "out of memory", "here")
    with pytest.raises(LanescopeError, match="GPU has no memory left") as caught, input_errors():
        raise error
    assert not isinstance(caught.value, InputError)
