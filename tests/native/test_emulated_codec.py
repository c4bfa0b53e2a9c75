"""What kernels do with a block, tried on the host: a group of warps that take turns, sanitized."""

import numpy as np
import pytest

import lanescope
from lanescope._core import native
from lanescope.compression.stream import describe
from lanescope.errors import InputError
from tests.compression.stream_format import BLOCK, array_number, payload_spans, table_of
from tests.compression.test_codecs import TAKES, bent, special, with_zeros
from tests.compression.test_old_streams import OLD_DELTA
from tests.native.emulated import emulated

pytestmark = pytest.mark.native

KIB = 1 << 10
VERSION = 3
CODECS = {one.name: one.value for one in native.Codec}
ENTRY = np.dtype([("size_and_mode", "<u4"), ("checksum", "<u4"), ("offset", "<u8")])
RANDOM = np.random.default_rng(23)
#: One type of values for each class of strips.
CLASSES = [
    *(("gfc", "float64"), ("gfc", "float32")),
    *(("exponent", "bfloat16"), ("exponent", "float16"), ("exponent", "float32")),
    *(("delta", "float64"), ("delta", "int32"), ("delta", "bfloat16")),
    *(("zvc", "float64"), ("zvc", "float32"), ("zvc", "bfloat16"), ("zvc", "uint8")),
    *(("alp", "float64"), ("alp", "float32")),
]
CLASSES += [(one, dtype) for one in TAKES.keys() - dict(CLASSES).keys() for dtype in TAKES[one]]
every_class = pytest.mark.parametrize(
    ("codec", "dtype", "word"),
    [(codec, dtype, TAKES[codec][dtype]) for codec, dtype in CLASSES],
    ids=[f"{codec}-{dtype}" for codec, dtype in CLASSES],
)


@pytest.fixture(scope="module")
def group():
    """Runs the group: command, codec, type, dimensionality, ..., and bytes in; bytes out."""
    return emulated("emulated_codec")


def numbers(codec, dtype):
    kind = native.Dtype["bytes" if dtype == "uint8" else dtype]
    return CODECS[codec], int(kind.value)


def blocks_of_stream(stream):
    """Descriptors, and the payload of each block."""
    payloads = [stream[begin:end].tobytes() for begin, end in payload_spans(stream)]
    return table_of(stream), payloads


def difference(group, words, codec, dtype, dimensionality=1):
    """Where the group does otherwise than the host, or None."""
    stream = lanescope.compress(words, codec, dtype=dtype, dimensionality=dimensionality)
    told, payloads = blocks_of_stream(stream)
    how = (*numbers(codec, dtype), dimensionality, VERSION, array_number(stream), 0)
    coded = group("encode", *how, data=words.tobytes())
    entries = np.frombuffer(coded, ENTRY, len(told))
    rest = coded[len(told) * ENTRY.itemsize :]
    if sum(map(len, payloads)) != len(rest):
        return f"{len(rest)} bytes of payloads, {describe(stream)}"
    for block, (entry, payload) in enumerate(zip(entries, payloads, strict=True)):
        if tuple(told[block]) != (entry["size_and_mode"], entry["checksum"]):
            return f"block {block}: {entry} in place of {told[block]}"
        if rest[entry["offset"] :][: len(payload)] != payload:
            return f"block {block}: payload"
    back = group("decode", *how, words.nbytes, data=coded)
    if any(back[: 4 * len(told)]):
        return f"faults {np.frombuffer(back, '<u4', len(told))}"
    if back[4 * len(told) :] != words.tobytes():
        return "decoded values"
    return None


def data_of(word, count):
    bits = np.dtype(word).itemsize * 8
    noise = RANDOM.integers(0, 1 << bits, count, dtype=word)
    smooth = np.cumsum(RANDOM.integers(-3, 4, count)).astype(word)
    specials = RANDOM.choice(special(word), count)
    strips = smooth.copy()  # One strip of four grows, though its block gets smaller.
    strip = 16 * KIB * 8 // bits
    for begin in range(strip, count, 4 * strip):
        strips[begin : begin + strip] = noise[begin : begin + strip]
    yield noise
    yield np.where(RANDOM.random(count) < 0.01, specials, smooth)
    yield np.full(count, special(word)[9], word)
    yield strips
    yield with_zeros(word, count)


@every_class
@pytest.mark.parametrize("length", [8, 33 * 8, 75 * KIB + 8])
def test_blocks_are_those_of_the_host(group, codec, dtype, word, length):
    for words in data_of(word, length // np.dtype(word).itemsize):
        assert difference(group, words, codec, dtype) is None


@pytest.mark.parametrize("dimensionality", [2, 7, 32])
def test_gfc_of_any_dimensionality(group, dimensionality):
    for words in data_of(np.uint64, 500):
        assert difference(group, words, "gfc", "float64", dimensionality) is None


@pytest.mark.parametrize("lag", [1, 3, 16, 32])
@pytest.mark.parametrize("word", [np.uint16, np.uint32, np.uint64])
def test_delta_of_any_lag_and_turned(group, lag, word):
    count, bits = 700, np.dtype(word).itemsize * 8
    words = RANDOM.integers(0, 1 << bits, lag, dtype=word)[np.arange(count) % lag]
    words = words + np.arange(count, dtype=word)
    for sign in (0, 1):
        signs = RANDOM.integers(0, 1 + sign, count).astype(word) << word(bits - 1)
        assert difference(group, words ^ signs, "delta", np.dtype(word).name) is None


@pytest.mark.parametrize(
    ("order", "lag", "narrow", "count"),
    [
        *((1, 1, 0, 1), (2, 1, 9, 33), (3, 1, 9, 2500), (2, 5, 0, 97), (3, 5, 9, 170)),
        *((3, 8, 9, 129), (2, 16, 9, 65), (1, 32, 9, 170), (3, 16, 0, 300), (1, 7, 9, 17)),
    ],
)
@pytest.mark.parametrize("sign", [0, 1])
def test_delta_of_any_order(group, order, lag, narrow, count, sign):
    signs = RANDOM.integers(0, 1 + sign, count).astype(np.uint64) << np.uint64(63)
    assert difference(group, bent(count, order, lag, narrow) ^ signs, "delta", "float64") is None


@pytest.mark.parametrize(
    ("order", "lag", "narrow", "bits"),
    [
        *((1, 1, 0, 59), (1, 3, 3, 60), (2, 1, 9, 62), (3, 1, 0, 58), (3, 10, 7, 60)),
        *((2, 16, 5, 61), (1, 32, 8, 61), (2, 5, 1, 59)),
    ],
)
@pytest.mark.parametrize("count", [8192 + 1999, 1993])
def test_delta_of_strips_larger_than_their_room(group, order, lag, narrow, bits, count):
    """They get smaller, but by little: the rest of each is coded when the room was stored."""
    words = bent(count, order, lag, narrow, 1 << bits)
    small = bent(2048, 1, 1, 0)
    assert difference(group, words, "delta", "float64") is None
    words[2048:4096] = small[: max(0, min(2048, count - 2048))]
    assert difference(group, words, "delta", "float64") is None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("places", "bits", "rare", "kinds"),
    [
        *((1, 10, 0, 1), (2, 20, 0.02, 5), (6, 31, 0.3, 5), (9, 40, 0.2, 1), (0, 1, 0.01, 2)),
        *((-2, 12, 0, 1), (3, 9, 0.9, 1)),
    ],
)
@pytest.mark.parametrize("count", [5, 1023, 2500, 9000])
def test_alp_of_any_decimals(group, dtype, places, bits, rare, kinds, count):
    """Fields of more and less than a word; exceptions, a filler among them, few or many."""
    values = RANDOM.integers(-(1 << bits - 1), 1 << bits - 1, count) / 10.0**places
    odd = RANDOM.random(count) < rare
    values[odd] = RANDOM.choice([np.nan, -0.0, np.inf, np.pi, 1e-300][:kinds], int(odd.sum()))
    with np.errstate(over="ignore", under="ignore"):
        words = values.astype(dtype).view(TAKES["alp"][dtype])
    assert difference(group, words, "alp", dtype) is None


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_alp_of_a_group_of_missing_values(group, dtype):
    values = np.full(1024 + 7, np.nan)
    values[:1024:3] = np.round(RANDOM.normal(size=342), 1)
    words = values.astype(dtype).view(TAKES["alp"][dtype])
    assert difference(group, words, "alp", dtype) is None


@pytest.mark.parametrize("version", [1, 2])
def test_strips_of_old_streams_are_decoded(group, version):
    values, stream = OLD_DELTA
    told, payloads = blocks_of_stream(np.frombuffer(bytes.fromhex(stream), np.uint8))
    entries = np.array([(*told[0], 0)], ENTRY)
    how = (*numbers("delta", "float64"), 1, version, 0, 0, values.nbytes)
    back = group("decode", *how, data=entries.tobytes() + payloads[0])
    assert back == bytes(4) + values.tobytes()


def test_strips_with_orders_are_none_of_version_1(group):
    words = bent(500, 2, 3, 5)
    stream = lanescope.compress(words, "delta")
    told, payloads = blocks_of_stream(stream)
    data = np.array([(*told[0], 0)], ENTRY).tobytes() + payloads[0]
    array = array_number(stream)

    def decoded(version):
        how = (*numbers("delta", "uint64"), 1, version, array, 0, words.nbytes)
        return group("decode", *how, data=data)

    assert decoded(3) == bytes(4) + words.tobytes()
    assert decoded(2)[:4] == bytes([2, 0, 0, 0])  # there, checksums are of values alone
    assert decoded(1)[:4] == bytes([1, 0, 0, 0])


@pytest.mark.parametrize("length", [1, 7, 15, 16, 17, 1000, BLOCK - 1, BLOCK + 1])
def test_bytes_of_any_length(group, length):
    for values in (RANDOM.integers(0, 256, length, dtype=np.uint8), np.full(length, 7, np.uint8)):
        assert difference(group, values, "raw", "uint8") is None


@pytest.mark.parametrize("share", [0.4, 1.0])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_strip_of_escapes_beside_small_ones(group, dtype, share):
    """Its sample saw none of them: it outgrows what a warp has room for."""
    word = np.uint32 if dtype == "float32" else np.uint16
    words = np.full(64 * KIB // np.dtype(word).itemsize, 0x3C00, word)
    each = 16 * KIB // np.dtype(word).itemsize
    strip = words[each : 2 * each].reshape(-1, 256)
    chosen = RANDOM.random((len(strip), 192)) < share
    bits = np.dtype(word).itemsize * 8
    strip[:, 64:][chosen] = RANDOM.integers(0, 1 << bits, int(chosen.sum()), dtype=word)
    assert difference(group, words, "exponent", dtype) is None


@every_class
def test_damaged_blocks_are_wrong_where_the_host_says_so(group, codec, dtype, word):
    words = list(data_of(word, 1200))[1]
    stream = lanescope.compress(words, codec, dtype=dtype)
    told, payloads = blocks_of_stream(stream)
    begin = len(stream) - sum(map(len, payloads))
    refused = 0
    for _ in range(10):
        changed = stream.copy()
        for place in RANDOM.integers(begin, len(stream), RANDOM.integers(1, 4)):
            changed[place] ^= 1 << RANDOM.integers(8)
        entries = np.zeros(len(told), ENTRY)
        entries["size_and_mode"], entries["checksum"] = told[:, 0], told[:, 1]
        entries["offset"] = np.cumsum([0, *map(len, payloads[:-1])])
        data = entries.tobytes() + changed[begin:].tobytes()
        how = (*numbers(codec, dtype), 1, VERSION, array_number(stream), 0, words.nbytes)
        back = group("decode", *how, data=data)
        try:
            lanescope.decompress(changed, threads=1)
            said = 0
        except InputError as error:
            said = 2 if "its checksum does not fit" in str(error) else 1
        assert np.frombuffer(back, "<u4", 1)[0] == said
        refused += said != 0
    assert refused > 7


def entries_of(told, payloads):
    entries = np.zeros(len(told), ENTRY)
    entries["size_and_mode"], entries["checksum"] = told[:, 0], told[:, 1]
    entries["offset"] = np.cumsum([0, *map(len, payloads[:-1])])
    return entries


@every_class
def test_blocks_are_wrong_in_another_place(group, codec, dtype, word):
    """Coded, raw and constant ones: in another's place, numbered otherwise, of another array."""
    each = BLOCK // np.dtype(word).itemsize
    smooth, mixed, constant, *_ = (list(data_of(word, each))[i] for i in (1, 1, 2))
    noise = [RANDOM.integers(0, 1 << 8 * np.dtype(word).itemsize, each, dtype=word) for _ in "ab"]
    words = np.concatenate([smooth, mixed[::-1], constant, constant + word(1), *noise])
    stream = lanescope.compress(words, codec, dtype=dtype)
    told, payloads = blocks_of_stream(stream)
    entries, array = entries_of(told, payloads), array_number(stream)

    def faults(entries, array=array, first=0, version=VERSION):
        how = (*numbers(codec, dtype), 1, version, array, first, words.nbytes)
        back = group("decode", *how, data=entries.tobytes() + b"".join(payloads))
        return np.frombuffer(back, "<u4", len(told)).tolist()

    assert faults(entries) == [0] * 6
    assert faults(entries, first=1) == faults(entries, array ^ 1) == [2] * 6
    assert faults(entries, version=2) == [2] * 6
    for one, other in ((0, 1), (2, 3), (4, 5), (0, 4), (2, 5)):
        changed = entries.copy()
        changed[[one, other]] = changed[[other, one]]
        wanted = [2 if block in (one, other) else 0 for block in range(6)]
        assert faults(changed) == wanted
        changed[one] = entries[one]  # the same block twice
        assert faults(changed) == [2 if block == other else 0 for block in range(6)]


def test_blocks_of_a_part_of_an_array_have_the_numbers_of_the_whole(group):
    words = RANDOM.integers(0, 256, 5 * BLOCK, dtype=np.uint8)
    how = (*numbers("raw", "uint8"), 1, VERSION, 77)
    whole = np.frombuffer(group("encode", *how, 0, data=words.tobytes()), ENTRY, 5)
    part = np.frombuffer(group("encode", *how, 2, data=words[2 * BLOCK :].tobytes()), ENTRY, 3)
    assert part["checksum"].tolist() == whole["checksum"][2:].tolist()
