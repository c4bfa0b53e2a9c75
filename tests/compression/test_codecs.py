"""Every codec gives back every bit, of any values, of any length, and reaches its ratio."""

import numpy as np
import pytest

import lanescope
from lanescope._core import native
from lanescope.compression.stream import Codec, describe
from lanescope.errors import InputError
from tests.compression.stream_format import sealed

WORDS = {
    **dict.fromkeys(("float64", "int64", "uint64"), np.uint64),
    **dict.fromkeys(("float32", "int32", "uint32"), np.uint32),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), np.uint16),
    **dict.fromkeys(("int8", "uint8"), np.uint8),
}
#: By codec of lanescope's own the types of values that it takes, and the words of their bits.
TAKES = {
    codec.name: {
        dtype: word
        for dtype, word in WORDS.items()
        if native.can_compress(codec, native.Dtype["bytes" if dtype == "uint8" else dtype])
    }
    for codec in native.Codec
    if codec.name != Codec.RAW and not native.by_nvcomp(codec)
}
ALL = [(codec, dtype, word) for codec, takes in TAKES.items() for dtype, word in takes.items()]
every_codec = pytest.mark.parametrize(("codec", "dtype", "word"), ALL, ids=lambda v: str(v)[-20:])
RANDOM = np.random.default_rng(5)


def test_what_the_codecs_of_before_take():
    large = {dtype for dtype, word in WORDS.items() if word is not np.uint8}
    taken = {codec: set(dtypes) for codec, dtypes in TAKES.items()}
    assert taken["gfc"] == {"float64", "float32"}
    assert taken["exponent"] == {"bfloat16", "float16", "float32"}
    assert taken["delta"] == large
    assert taken["zvc"] == set(WORDS)
    assert taken["alp"] == {"float64", "float32"}


def bf16(values):
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def there_and_back(words, codec, dtype, **how):
    stream = lanescope.compress(words, codec, dtype=dtype, **how)
    back = lanescope.decompress(stream)
    assert np.array_equal(back.view(words.dtype), words)
    return describe(stream)


def special(word):
    """Signed zeros, infinities, quiet and signalling NaNs with payloads, denormals, extremes."""
    bits = np.dtype(word).itemsize * 8
    exponents = {8: (3,), 16: (7, 10), 32: (23,), 64: (52,)}[bits]
    found = [0, 1, 2, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1]
    for mantissa in exponents:
        infinity = (1 << bits - 1) - (1 << mantissa)
        for sign in (0, 1 << bits - 1):
            found += [sign | infinity | low for low in (0, 1, 5, 1 << mantissa - 1)]
            found += [sign | low for low in (1, 3, (1 << mantissa) - 1, 1 << mantissa)]
    return np.array(found, word)


def bent(count, order, lag, narrow, most=1 << 20):
    """Words of which differences of such an order are small, and smaller in half of the 16s."""
    steps = RANDOM.integers(-most, most, count)
    steps[np.arange(count) // 16 % 2 == 1] >>= narrow
    words = steps.astype(np.uint64)
    for _ in range(order):
        for first in range(min(lag, count)):
            words[first::lag] = np.cumsum(words[first::lag])
    return words


def with_zeros(word, count):
    """Words of random bits, half of them 0."""
    bits = np.dtype(word).itemsize * 8
    noise = RANDOM.integers(0, 1 << bits, count, dtype=word)
    return np.where(RANDOM.random(count) < 0.5, noise, word(0))


def strip_header(stream):
    """Of delta: lag, turned, order, and halves, of an array's first strip."""
    front = 40 + 8 + 8 * int(stream[24:28].view("<u4")[0])
    lag, turned, more, halves = stream[-(-front // 16) * 16 + 8 :][:4].tolist()
    return lag, turned, 1 + more, halves


@every_codec
@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 1000, 8191, 8193, 40_000])
def test_any_length_and_any_bits_come_back(codec, dtype, word, length):
    bits = np.dtype(word).itemsize * 8
    smooth = np.cumsum(RANDOM.integers(-3, 4, length)).astype(word)
    specials = RANDOM.choice(special(word), length)
    mixed = np.where(RANDOM.random(length) < 0.01, specials, smooth)
    noise = RANDOM.integers(0, 1 << bits, length, dtype=word)
    for words in (smooth, specials, mixed, noise, with_zeros(word, length)):
        there_and_back(words, codec, dtype)


@pytest.mark.parametrize("dimensionality", [1, 2, 7, 31, 32])
@pytest.mark.parametrize("word", [np.uint64, np.uint32])
def test_gfc_predicts_from_any_distance(dimensionality, word):
    dtype = np.dtype(word).name.replace("uint", "float")
    words = np.tile(special(word), 700)
    info = there_and_back(words, "gfc", dtype, dimensionality=dimensionality)
    assert info.dimensionality == dimensionality


def test_arrays_that_lie_anywhere_come_back():
    noise = RANDOM.normal(size=20_000).astype(np.float32)
    for shift in (0, 1, 4, 8, 17):
        values = np.ndarray(20_000, np.float32, bytearray(80_032), shift)
        values[:] = noise
        stream = lanescope.compress(values, "exponent")
        assert describe(stream).coded_blocks == 2
        room = np.ndarray(20_000, np.float32, bytearray(80_032), shift)
        assert lanescope.decompress(stream, out=room) is room
        assert np.array_equal(room, noise)


@pytest.mark.parametrize(
    ("words", "codec", "dtype", "least"),
    [
        (bf16(RANDOM.normal(size=1 << 19)), "exponent", "bfloat16", 1.42),
        (RANDOM.normal(size=1 << 18).astype(np.float32), "exponent", "float32", 1.17),
        (np.sin(np.arange(1 << 17) / 5e3) + 3, "delta", "float64", 1.3),
        (np.arange(1 << 18, dtype=np.int32) // 3, "delta", "int32", 10),
        (np.repeat(RANDOM.normal(size=1 << 10), 256), "gfc", "float64", 5),
        (with_zeros(np.uint8, 1 << 20), "zvc", "uint8", 8 / (1 + 0.51 * 8)),
        (with_zeros(np.uint16, 1 << 19), "zvc", "bfloat16", 16 / (1 + 0.51 * 16)),
        (with_zeros(np.uint32, 1 << 18), "zvc", "float32", 32 / (1 + 0.51 * 32)),
        (with_zeros(np.uint64, 1 << 17), "zvc", "float64", 64 / (1 + 0.51 * 64)),
        (np.round(RANDOM.normal(15, 10, 1 << 17), 1), "alp", "float64", 5),
        (np.round(RANDOM.normal(15, 10, 1 << 17), 1).astype(np.float32), "alp", "float32", 2.5),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_ratios(words, codec, dtype, least):
    assert there_and_back(words, codec, dtype).ratio > least


@pytest.mark.parametrize("lag", [1, 2, 5, 8])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("narrow", [0, 9])
def test_delta_finds_order_lag_and_halves(order, lag, narrow):
    words = bent(2048, order, lag, narrow)
    stream = lanescope.compress(words, "delta")
    assert lanescope.decompress(stream).tobytes() == words.tobytes()
    assert strip_header(stream) == (lag, 0, order, int(narrow > 0))
    width = 21 - narrow / 2
    assert describe(stream).ratio > 64 / (width + 1.2)


def test_delta_of_narrow_values_keeps_orders_out():
    stream = lanescope.compress(bent(8192, 2, 1, 0).astype(np.uint32), "delta")
    assert strip_header(stream)[2:] == (1, 0)


def test_what_is_not_made_smaller_is_stored_as_it_is():
    words = RANDOM.integers(0, 1 << 64, 1 << 17, dtype=np.uint64)
    for codec in ("gfc", "delta"):
        info = there_and_back(words, codec, "float64")
        assert info.raw_blocks == 16
        assert info.stored_bytes < info.bytes * 1.0002


def test_auto_takes_what_is_smallest():
    noise = RANDOM.integers(0, 256, 1 << 18, dtype=np.uint8)
    weights = bf16(RANDOM.normal(size=1 << 18))
    found = {
        Codec.EXPONENT: lanescope.compress(weights, dtype="bfloat16"),
        Codec.DELTA: lanescope.compress(np.arange(1 << 17)),
        Codec.RAW: lanescope.compress(noise.view(np.float64)),
        Codec.ZVC: lanescope.compress(with_zeros(np.uint16, 1 << 18), dtype="bfloat16"),
    }
    for codec, stream in found.items():
        assert describe(stream).codec == codec
    assert describe(lanescope.compress(noise)).codec == Codec.RAW


@pytest.mark.parametrize(
    ("few", "most", "link", "codec"),
    [
        (0.003, 3, 1e9, Codec.DELTA),  # the smallest: the link decides
        (0.003, 3, 55e9, Codec.ZVC),  # the kernels do
        (0.003, 3, 395e9, Codec.ZVC),
        (0.2, 3, 395e9, Codec.ZVC),
        (0.5, 3, 395e9, Codec.DELTA),  # too dense for `zvc`
        (0.2, 1 << 10, 55e9, Codec.ZVC),  # far smaller
        (0.2, 1 << 10, 395e9, Codec.ZVC),
        (1.0, 3, 395e9, Codec.DELTA),
        (1.0, 1 << 15, 395e9, Codec.RAW),
    ],
)
def test_updates_go_by_the_codec_that_crosses_soonest(few, most, link, codec):
    random = np.random.default_rng(7)
    old = random.integers(0, 1 << 15, 1 << 20, dtype=np.uint16)
    step = random.integers(1, most, old.size, dtype=np.uint16)
    new = old + step * (random.random(old.size) < few)
    assert native.update_codec(new, old, link).name == codec.value


@pytest.mark.parametrize(("dtype", "word"), WORDS.items())
@pytest.mark.parametrize("zeros", [0.0, 0.98])
def test_auto_compresses_constant_and_sparse_arrays_of_each_type(dtype, word, zeros):
    for size in (1 << 12, 1 << 16, 1 << 20):
        words = np.full(size // np.dtype(word).itemsize, 63, word)
        words[RANDOM.random(words.size) < zeros] = 0
        info = describe(lanescope.compress(words, dtype=dtype))
        assert info.codec is not Codec.RAW
        assert info.bytes > 3 * info.stored_bytes


@pytest.mark.parametrize("blocks", [8, 9, 10, 13, 31, 200])
def test_auto_looks_at_eight_blocks_spread_over_an_array(blocks):
    """At all of a shorter one."""
    each = 65536 // 8
    looked_at = np.linspace(0, blocks - 1, 8).astype(int) if blocks > 8 else np.arange(8)
    noise = RANDOM.integers(0, 1 << 64, (blocks, each), np.uint64)
    steps = np.arange(each, dtype=np.uint64) ** 2
    even, odd = noise.copy(), np.tile(steps, (blocks, 1))
    even[looked_at], odd[looked_at] = steps, noise[looked_at]
    assert describe(lanescope.compress(even)).codec == Codec.DELTA
    assert describe(lanescope.compress(odd)).codec == Codec.RAW


def test_auto_finds_a_dimensionality():
    """Of which GFC needs one other than 1: 17 values that come again, nearly."""
    values = np.tile(RANDOM.normal(size=17) * 30, 5000)
    info = describe(lanescope.compress(values + RANDOM.normal(size=values.size) * 1e-9))
    assert (info.codec, info.dimensionality) == (Codec.GFC, 17)


def few(dtype, kind):
    """An array of more blocks than `auto` looks at, of which nearly all are constant."""
    word = TAKES["zvc"][dtype]
    values = np.full(40 * 65536 // np.dtype(word).itemsize, 0 if kind == "sparse" else 5, word)
    if kind != "constant":  # among them none of the blocks that it looks at
        other = np.arange(len(values)) // (65536 // np.dtype(word).itemsize) % 40 == 20
        values[other & (RANDOM.random(len(values)) < 0.01)] = 9
    return values


@pytest.mark.parametrize("kind", ["constant", "nearly constant", "sparse"])
@pytest.mark.parametrize("dtype", TAKES["zvc"])
def test_auto_has_a_codec_for_constant_arrays(dtype, kind):
    values = few(dtype, kind)
    stream = lanescope.compress(values, dtype=dtype)
    info = describe(stream)
    assert info.codec in (Codec.DELTA, Codec.ZVC)
    assert info.ratio > 35 if kind != "constant" else info.ratio > 500
    assert lanescope.decompress(stream).tobytes() == values.tobytes()


def test_auto_has_a_codec_where_some_blocks_are_constant():
    noise = RANDOM.integers(0, 256, 1 << 20, dtype=np.uint8)
    noise[: 1 << 19] = 7
    assert describe(lanescope.compress(noise.view(np.float64))).codec == Codec.DELTA
    assert describe(lanescope.compress(noise)).codec == Codec.ZVC


def test_auto_of_nothing_is_raw():
    assert describe(lanescope.compress(np.zeros(0))).codec == Codec.RAW


def test_a_codec_says_what_it_does_not_take():
    bytes_ = np.arange(3, dtype=np.uint8)
    for codec, values in (("gfc", np.arange(8)), ("exponent", np.arange(8.0)), ("delta", bytes_)):
        words = f"^codec {codec} does not take values of type {values.dtype}, but of "
        with pytest.raises(InputError, match=words):
            lanescope.compress(values, codec)
    with pytest.raises(InputError, match="type bool, but of float32, float64; give auto"):
        lanescope.compress(bytes_ > 1, "gfc")
    with pytest.raises(InputError, match="type bfloat16, but of float32, float64; give auto"):
        lanescope.compress(bytes_.astype(np.uint16), "gfc", dtype="bfloat16")
    with pytest.raises(InputError, match="delta does not take values of type uint8, but of"):
        lanescope.compress(bytes(bytes_), "delta")


def test_a_type_of_another_size_is_refused():
    with pytest.raises(InputError, match="values of 4 bytes are not float64"):
        lanescope.compress(np.arange(8, dtype=np.float32), "delta", dtype="float64")


@every_codec
def test_a_changed_block_is_refused_or_the_same(codec, dtype, word):
    """A bit that fills up a strip may change without a change of what is decoded."""
    random = np.random.default_rng(5)  # whatever other tests drew before
    words = np.cumsum(random.integers(0, 9, 3000)).astype(word)
    stream = lanescope.compress(words, codec, dtype=dtype)
    refused = 0
    for place in random.integers(0, len(stream) * 8, 200):
        changed = stream.copy()
        changed[place // 8] ^= 1 << place % 8
        try:
            assert np.array_equal(lanescope.decompress(changed).view(word), words)
        except InputError:
            refused += 1
    assert refused > 180


class MadeAnew:
    """Lends new memory each time that it is asked, and keeps none."""

    def __init__(self, count):
        self.count = count

    def __dlpack__(self, **how):
        return np.arange(self.count, dtype=np.float64).__dlpack__(**how)

    def __dlpack_device__(self):
        return (1, 0)


def test_memory_that_is_lent_lives_as_long_as_it_is_looked_at():
    stream = lanescope.compress(MadeAnew(1 << 20))
    assert np.array_equal(lanescope.decompress(stream), np.arange(1 << 20))
    view, dtype, size = native.bytes_view(MadeAnew(1 << 20))
    assert (dtype, size) == (native.Dtype.float64, 8)
    assert np.array_equal(view.view(np.float64), np.arange(1 << 20))
    held = bytearray(100)
    looked, _, _ = native.bytes_view(held)
    with pytest.raises(BufferError):
        held.clear()
    assert not looked.any()


@pytest.mark.parametrize("shape", [(0, 1 << 63), (0, 1 << 40, 1 << 30)])
def test_a_shape_that_no_array_has_is_refused(shape):
    stream = lanescope.compress(np.zeros((0,) * len(shape)))
    with pytest.raises(InputError, match="cannot be made"):
        lanescope.decompress(forged(stream, shape))


def forged(stream, shape):
    """The stream of an empty array with another shape, and a checksum that fits."""
    front = stream.copy()
    front[40 : 40 + 8 * len(shape)] = np.array(shape, np.uint64).view(np.uint8)
    return sealed(front)


def test_threads_and_memory_are_said_rightly():
    with pytest.raises(InputError, match="5000 threads are not 0 to 1024"):
        lanescope.compress(np.arange(4), threads=5000)
    with pytest.raises(InputError, match=r"compress: threads cannot be 1.5; give a whole number"):
        lanescope.compress(np.arange(4), threads=1.5)


@pytest.mark.parametrize("codec", ["auto", "delta", "gfc"])
@pytest.mark.parametrize("dimensionality", [0, 33])
def test_a_dimensionality_that_none_has_is_refused_whatever_the_codec(codec, dimensionality):
    with pytest.raises(lanescope.InputError, match=f"cannot be {dimensionality}; give 1 to 32"):
        lanescope.compress(np.arange(9.0), codec=codec, dimensionality=dimensionality)


@pytest.mark.parametrize("codec", ["auto", "gfc"])
def test_a_class_is_no_array(codec):
    with pytest.raises(InputError, match="an object of type type is no array"):
        lanescope.compress(np.ndarray, codec=codec)
