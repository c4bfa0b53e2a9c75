"""What kernels of updates do with a block, tried on the host: differences to a base, and back."""

import numpy as np
import pytest

import lanescope
from lanescope._core import native
from tests.compression.stream_format import BLOCK, array_number
from tests.compression.test_codecs import TAKES
from tests.native.emulated import emulated
from tests.native.test_emulated_codec import (
    ENTRY,
    VERSION,
    blocks_of_stream,
    data_of,
    every_class,
    numbers,
)

pytestmark = pytest.mark.native

RANDOM = np.random.default_rng(29)
XOR, SUBTRACTION = (
    int(native.UpdateKind.xor.value),
    int(native.UpdateKind.subtraction.value),
)
PAYLOAD, CHECKSUM, BASE = 1, 2, 5


@pytest.fixture(scope="module")
def group():
    return emulated("emulated_codec")


def differences(words, base, kind):
    return words ^ base if kind == XOR else words - base


def sent(group, words, base, codec, dtype, kind):
    """Entries, payloads and sums of the base; and how, for the decoder."""
    blocks = -(-words.nbytes // BLOCK)
    stream = lanescope.compress(differences(words, base, kind), codec, dtype=dtype)
    how = (*numbers(codec, dtype), 1, VERSION, array_number(stream), 0)
    told, payloads = blocks_of_stream(stream)
    data = group("encode", *how, kind, data=words.tobytes() + base.tobytes())
    entries = np.frombuffer(data, ENTRY, blocks)
    assert [(one["size_and_mode"], one["checksum"]) for one in entries] == list(map(tuple, told))
    coded = data[blocks * ENTRY.itemsize : -8 * blocks]
    for entry, payload in zip(entries, payloads, strict=True):
        assert coded[entry["offset"] :][: len(payload)] == payload
    return data, how


def received(group, data, how, base, kind):
    back = group("decode", *how, base.nbytes, kind, data=data + base.tobytes())
    blocks = -(-base.nbytes // BLOCK)
    values = np.frombuffer(back[4 * blocks :], base.dtype)
    return np.frombuffer(back, "<u4", blocks).tolist(), values


@every_class
def test_differences_are_those_of_the_host_and_are_put_onto_the_base(group, codec, dtype, word):
    count = (20 * 1024 + 8) // np.dtype(word).itemsize
    base = RANDOM.integers(0, 1 << np.dtype(word).itemsize * 8, count, dtype=word)
    _, smooth, constant, *_ = data_of(word, count)
    for step, kind in [(smooth, XOR), (smooth, SUBTRACTION), (constant, SUBTRACTION)]:
        words = base ^ step if kind == XOR else base + step
        data, how = sent(group, words, base, codec, dtype, kind)
        faults, values = received(group, data, how, base, kind)
        assert faults == [0]
        assert np.array_equal(values, words)


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "float64"])
def test_few_and_many_differences(group, dtype):
    """From piece to piece; a strip of them grows, though its block gets smaller."""
    word = np.dtype(TAKES["zvc"][dtype])
    count, each = (BLOCK + 20 * 1024 + 8) // word.itemsize, 1024 // word.itemsize
    share = np.repeat(RANDOM.choice([0, 0.01, 0.1, 0.4, 1], -(-count // each)), each)[:count]
    share[: 16 * each], share[16 * each : 48 * each] = 1, 0
    step = RANDOM.integers(1, 1 << word.itemsize * 8, count, dtype=word)
    step[RANDOM.random(count) >= share] = 0
    base = RANDOM.integers(0, 1 << word.itemsize * 8, count, dtype=word)
    data, how = sent(group, base + step, base, "zvc", dtype, SUBTRACTION)
    faults, values = received(group, data, how, base, SUBTRACTION)
    assert faults == [0, 0]
    assert np.array_equal(values, base + step)


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("left_out", [0, 8, 24])
def test_strips_that_make_room_as_they_are_read(group, dtype, left_out):
    """Of each block: all but one value differ, first or last; half of them, first and last."""
    word = np.dtype(TAKES["zvc"][dtype])
    strip = BLOCK // 4 // word.itemsize
    step = RANDOM.integers(1, 1 << word.itemsize * 8, 8 * strip, dtype=word)
    one_each = step.reshape(8, strip)
    one_each[0, 0] = one_each[1, -1] = 0
    one_each[2, : strip // 2] = one_each[3, strip // 2 :] = 0
    one_each[4, ::2] = one_each[5, : strip - 32] = 0
    one_each[6, 32:] = 0
    one_each[7, 100 : strip - 100] = 0
    step = step[: len(step) - left_out // word.itemsize]
    base = RANDOM.integers(0, 1 << word.itemsize * 8, len(step), dtype=word)
    data, how = sent(group, base + step, base, "zvc", dtype, SUBTRACTION)
    faults, values = received(group, data, how, base, SUBTRACTION)
    assert faults == [0, 0]
    assert np.array_equal(values, base + step)


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float64"])
def test_damaged_strips_that_make_room_leave_the_base(group, dtype):
    word = np.dtype(TAKES["zvc"][dtype])
    count = BLOCK // word.itemsize
    step = RANDOM.integers(1, 1 << word.itemsize * 8, count, dtype=word)
    step[RANDOM.random(count) < 0.2] = 0
    base = RANDOM.integers(0, 1 << word.itemsize * 8, count, dtype=word)
    data, how = sent(group, base + step, base, "zvc", dtype, XOR)
    for place in (0, 2, 5, 8, 9, 600, 20_000, 40_000):
        damaged = bytearray(data)
        damaged[ENTRY.itemsize + place] ^= 1 << int(RANDOM.integers(8))
        faults, values = received(group, bytes(damaged), how, base, XOR)
        assert faults[0] in (PAYLOAD, CHECKSUM)
        assert np.array_equal(values, base)


@pytest.mark.parametrize("length", [1, 17, 1000, BLOCK + 1])
@pytest.mark.parametrize("step", [0, 3])
def test_bytes_of_any_length(group, length, step):
    base = RANDOM.integers(0, 256, length, dtype=np.uint8)
    words = base + np.uint8(step)
    data, how = sent(group, words, base, "raw", "uint8", SUBTRACTION)
    faults, values = received(group, data, how, base, SUBTRACTION)
    assert not any(faults)
    assert np.array_equal(values, words)


@pytest.mark.parametrize(("codec", "dtype"), [("raw", "uint8"), ("delta", "uint64")])
@pytest.mark.parametrize("rest", [8, 24, 88, 520])
def test_a_raw_block_is_stored_before_the_next_one_is_looked_over(group, codec, dtype, rest):
    """Its differences lie where those of the next one come, of which other lanes have the last."""
    base, words = RANDOM.integers(0, 256, (2, BLOCK + rest), dtype=np.uint8).view(dtype)
    data, how = sent(group, words, base, codec, dtype, XOR)
    faults, values = received(group, data, how, base, XOR)
    assert faults == [0, 0]
    assert np.array_equal(values, words)


@pytest.mark.parametrize("codec", ["raw", "delta", "zvc"])
@pytest.mark.parametrize("changes", [0, 700])
def test_blocks_of_another_base_stay(group, codec, changes):
    """Each differing bit counts, where differences are none, too; other blocks become new."""
    count = 2 * BLOCK // 4
    base = RANDOM.normal(size=count).astype(np.float32).view(np.uint32)
    words = base.copy()
    words[RANDOM.integers(0, count, changes)] += 1
    data, how = sent(group, words, base, codec, "float32", SUBTRACTION)
    for place in (int(RANDOM.integers(count)), count - 1):
        other = base.copy()
        other[place] ^= 1 << RANDOM.integers(32)
        faults, values = received(group, data, how, other, SUBTRACTION)
        block, each = place // (BLOCK // 4), BLOCK // 4
        assert faults == [BASE if i == block else 0 for i in range(2)]
        expected = words.copy()
        expected[block * each : (block + 1) * each] = other[block * each : (block + 1) * each]
        assert np.array_equal(values, expected)


@pytest.mark.parametrize("codec", ["delta", "zvc"])
def test_damaged_blocks_stay(group, codec):
    count = 2 * BLOCK // 4
    base = RANDOM.normal(size=count).astype(np.float32).view(np.uint32)
    words = base + RANDOM.integers(0, 9, count, dtype=np.uint32)
    data, how = sent(group, words, base, codec, "float32", SUBTRACTION)
    for _ in range(2):
        changed = bytearray(data)
        changed[RANDOM.integers(2 * ENTRY.itemsize, len(data) - 16)] ^= 1 << RANDOM.integers(8)
        faults, values = received(group, bytes(changed), how, base, SUBTRACTION)
        assert sum(fault != 0 for fault in faults) == 1
        for block, fault in enumerate(faults):
            each = slice(block * count // 2, (block + 1) * count // 2)
            assert np.array_equal(values[each], (base if fault else words)[each])
