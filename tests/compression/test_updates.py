"""Streams of differences to a base: bit by bit the same values, and no other base."""

import ctypes

import numpy as np
import pytest

import lanescope
from lanescope._core import native
from lanescope.compression.codec import most_bytes
from lanescope.compression.stream import Codec, describe
from lanescope.errors import InputError
from tests.compression.stream_format import BLOCK, HEADER, checksum_sum, sealed

RNG = np.random.default_rng(11)
DTYPES = [
    *(f"{kind}{size}" for kind in ("int", "uint") for size in (8, 16, 32, 64)),
    *("float16", "bfloat16", "float32", "float64"),
]
CODED = [
    (str(codec), dtype)
    for codec in Codec
    if not codec.by_nvcomp
    for dtype in DTYPES
    if native.can_compress(
        native.Codec[codec], native.Dtype["bytes" if dtype == "uint8" else dtype]
    )
]


def word_of(dtype):
    """The unsigned integer of a value's bits."""
    return np.dtype(f"u{np.dtype('uint16' if dtype == 'bfloat16' else dtype).itemsize}")


def old_and_new(dtype, size):
    """Two arrays, most of whose values differ by a little, some by all of their bits."""
    word = word_of(dtype)
    bits = 8 * word.itemsize
    old = RNG.integers(0, 1 << bits, size, dtype=word)
    new = old + RNG.choice(np.array([0, 0, 0, 1, (1 << bits) - 1], word), size)
    where = RNG.random(size) < 0.001
    new[where] = RNG.integers(0, 1 << bits, where.sum(), dtype=word)
    if word.itemsize > 1 and size > 20:  # NaNs with payloads, -0, infinities, of some type
        top = np.array(1 << (bits - 1), word)
        old[:4], new[:4] = [0, top, ~word.type(0), ~top], [top, 0, ~top, word.type(7)]
    name = "uint16" if dtype == "bfloat16" else dtype
    return old.view(name), new.view(name)


def update(new, old, codec="auto", dtype=None, **options):
    return lanescope.compress(new, codec, base=old, dtype=dtype, **options)


@pytest.mark.parametrize(("codec", "dtype"), CODED)
def test_every_codec_and_type_comes_back(codec, dtype):
    told = dtype if dtype == "bfloat16" else None
    for size in (0, 1, 5, 3 * BLOCK // 2 // word_of(dtype).itemsize + 3):
        old, new = old_and_new(dtype, size)
        stream = update(new, old, codec, told)
        info = describe(stream)
        assert (info.codec, info.dtype, info.shape) == (codec, dtype, (size,))
        assert info.update in ("xor", "subtraction")
        assert info.base_checksum == checksum_sum(old)
        assert lanescope.decompress(stream, base=old).tobytes() == new.tobytes()
        there = old.copy()
        assert lanescope.decompress(stream, base=there, out=there) is there
        assert there.tobytes() == new.tobytes()


def test_a_small_step_leaves_little():
    old = RNG.normal(scale=0.02, size=400_000).astype(np.float32)
    new = old * np.float32(1 + 1e-6)
    stream = update(new, old)
    assert describe(stream).ratio > 4 > 2 > describe(lanescope.compress(new)).ratio
    same = update(old, old)
    assert describe(same).ratio > 1000
    assert describe(same).constant_blocks == len(old) * 4 // BLOCK + 1


def test_the_difference_that_suits_is_taken():
    old = RNG.integers(0, 1 << 32, 100_000, dtype=np.uint32)
    assert describe(update(old + np.uint32(1), old)).update == "subtraction"
    flipped = update(old ^ np.uint32(0x00FF00FF), old)
    assert describe(flipped).update == "xor"
    assert describe(flipped).ratio > 1000


def test_the_stream_is_the_same_on_any_number_of_threads():
    old, new = old_and_new("float32", 700_001)
    streams = [update(new, old, threads=n).tobytes() for n in (1, 2, 5)]
    assert streams[0] == streams[1] == streams[2]
    for threads in (1, 3):
        back = lanescope.decompress(np.frombuffer(streams[0], np.uint8), base=old, threads=threads)
        assert back.tobytes() == new.tobytes()


def test_streams_are_as_the_format_says():
    old = np.full(3, 5, np.int16)
    stream = update(np.array([6, 5, 4], np.int16), old, "raw")
    kind = describe(stream).update
    assert (
        stream[:HEADER].tobytes().hex()
        == (
            "4c53435a"  # magic
            "06000601"  # version, raw, int16, dimensionality
            "0600000000000000"  # bytes
            "5000000000000000"  # of the stream: 80
            "010000000100"  # blocks, dimensions, meaning
        )
        + ("01" if kind == "xor" else "02")
        + "0000000000"
        + stream[36:HEADER].tobytes().hex()
    )
    assert stream[HEADER : HEADER + 8].view("<u8")[0] == checksum_sum(old)
    assert stream[HEADER + 8 : HEADER + 16].view("<u8")[0] == 3
    differences = {"xor": [3, 0, 1], "subtraction": [1, 0, -1]}[kind]
    assert stream[64:70].view("<i2").tolist() == differences


def test_meanings_and_shapes_come_back():
    old = (RNG.normal(size=(30, 7)) + 1j * RNG.normal(size=(30, 7))).astype(np.complex64)
    new = old.copy()
    new[3] = np.nan
    back = lanescope.decompress(update(new, old), base=old)
    assert (back.dtype, back.shape) == (new.dtype, new.shape)
    assert back.tobytes() == new.tobytes()
    mask = RNG.random(1000) < 0.5
    assert lanescope.decompress(update(~mask, mask), base=mask).tolist() == (~mask).tolist()


def test_buffers_are_bases():
    old, new = ctypes.create_string_buffer(b"abc" * 99), bytearray(b"abd" * 99 + b"\0")
    stream = update(new, old)
    assert lanescope.decompress(stream, base=old).tobytes() == new
    assert lanescope.decompress(stream.tobytes(), base=bytes(old)).tobytes() == new


def test_a_stream_goes_into_room_of_one_dimension_more():
    old, new = old_and_new("uint16", 65_535)
    room = np.empty(most_bytes(new.nbytes, 2), np.uint8)
    noise = RNG.integers(0, 1 << 16, new.size, dtype=np.uint16)
    stream = update(noise, old, "raw", out=room)
    assert np.shares_memory(stream, room)
    assert lanescope.decompress(stream, base=old).tobytes() == noise.tobytes()
    with pytest.raises(InputError, match="less room than it may need"):
        update(new, old, out=np.empty(most_bytes(new.nbytes) - 16, np.uint8))
    with pytest.raises(InputError, match="overlap; give other memory"):
        update(new, room[: new.nbytes].view(np.uint16), out=room)


OLD = np.arange(50_000, dtype=np.float32)
CHANGED = OLD.copy()
CHANGED[41] += 1


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (None, r"is an update of an array with the checksum [0-9a-f]{16}; give that array"),
        (CHANGED, "the base is another one: its checksum is"),
        (OLD[:-1], r"the base is float32 of shape \(49999,\), and the stream is an update of"),
        (OLD.reshape(100, 500), r"float32 of shape \(100, 500\)"),
        (OLD.view(np.int32), r"the base is int32 of shape \(50000,\)"),
        (bytes(7), "the base has 7 bytes"),
        (OLD[::2], "the base cannot be used: the values do not lie in C order"),
        ("text", "the base cannot be used: an object of type str is no array"),
        ([1.0], "the base cannot be used: an object of type list is no array"),
    ],
)
def test_another_base_is_refused_before_anything_is_written(base, words):
    stream = update(OLD * 2, OLD)
    out = np.full_like(OLD, 7)
    with pytest.raises(InputError, match=words) as caught:
        lanescope.decompress(stream, base=base, out=out)
    assert "\n" not in str(caught.value)
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (OLD[:-1], r"the base is float32 of shape \(49999,\), and the values are float32 of shape"),
        (OLD.astype(np.float64), "the base is float64 of shape"),
        (OLD.reshape(2, -1), "give the array that the other side has"),
        (bytes(9), "the base has 9 bytes, and the array has 200000"),
        (7, "the base cannot be used"),
    ],
)
def test_a_base_of_another_type_or_shape_is_refused(base, words):
    with pytest.raises(InputError, match=words):
        lanescope.compress(OLD, base=base)


def test_a_base_for_a_stream_that_needs_none_is_refused():
    with pytest.raises(InputError, match="holds the whole array and needs no base; leave"):
        lanescope.decompress(lanescope.compress(OLD), base=OLD)


def test_codecs_of_nvcomp_make_no_updates():
    with pytest.raises(InputError, match="codec 'ans' makes no updates; give auto or one of raw"):
        lanescope.compress(OLD, "ans", base=OLD)


def test_memory_that_is_a_part_of_the_base_is_refused():
    memory = np.concatenate([OLD, [0]]).astype(np.float32)
    stream = update(CHANGED, OLD)
    with pytest.raises(InputError, match="overlaps a part of the base; give the base itself"):
        lanescope.decompress(stream, base=memory[:-1], out=memory[1:])
    assert memory[:-1].tobytes() == OLD.tobytes()


@pytest.mark.parametrize("block", [0, 3])
def test_a_damaged_block_leaves_a_base_in_place_as_it_was(block):
    old, new = old_and_new("float32", 4 * BLOCK // 4)
    stream = update(new, old, "zvc")
    stream[-1 if block == 3 else HEADER + 16 + 4 * 8 + 40] ^= 0xFF
    there = old.copy()
    with pytest.raises(InputError, match=f"block {block}: "):
        lanescope.decompress(stream, base=there, out=there, threads=1)
    assert there.tobytes() == old.tobytes()


def test_headers_that_lie_about_the_base_are_refused():
    stream = update(CHANGED, OLD)
    for at, value, words in [
        (30, 0, "no difference that this lanescope knows"),
        (30, 3, "no difference that this lanescope knows"),
        (31, 1, "bytes of its header are used"),
        (4, 4, "bytes of its header are used"),
    ]:
        changed = stream.copy()
        changed[at] = value
        with pytest.raises(InputError, match=words):
            describe(changed)
    other = stream.copy()
    other[HEADER] ^= 1
    with pytest.raises(InputError, match="the checksum of its header and its table"):
        lanescope.decompress(other, base=OLD)
    whole = lanescope.compress(OLD)
    whole[30] = 1
    with pytest.raises(InputError, match="bytes of its header are used"):
        describe(sealed(whole))
