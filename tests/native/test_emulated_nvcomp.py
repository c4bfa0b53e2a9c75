"""What our kernels do with blocks that nvCOMP codes, tried on the host with made-up chunks."""

import numpy as np
import pytest

from lanescope._core import native
from tests.compression.nvcomp_streams import (
    BLOCK,
    CODECS,
    CODED,
    CONSTANT,
    RAW,
    chunk_payload,
    number,
    padded,
)
from tests.compression.stream_format import checksum, place_of
from tests.native.emulated import emulated
from tests.native.test_emulated_codec import ENTRY

pytestmark = pytest.mark.native

RANDOM = np.random.default_rng(31)
SLOT = BLOCK + 1024
NOTHING_WRONG = (1 << 64) - 1
#: What blocks are bound to.
ARRAY = 12345


@pytest.fixture(scope="module")
def group():
    """Runs the group: command and numbers, and bytes in; bytes out."""
    return emulated("emulated_nvcomp")


def words_of(data, *kinds):
    """The first numbers in bytes, and what is left."""
    found = [int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(len(kinds))]
    return *found, data[8 * len(kinds) :]


def settled(group, values, codec, dtype, chunks):
    """Entries and payloads of an array whose blocks nvCOMP made to these chunks, or (status)."""
    slots = b""
    for chunk in chunks:
        status, chunk = (chunk, b"") if isinstance(chunk, int) else (0, chunk)
        size = len(chunk) if status == 0 else 5
        slot = size.to_bytes(8, "little") + status.to_bytes(4, "little") + b"\xa5" * 4 + chunk
        slots += slot + b"\xa5" * (SLOT - len(slot))
    data = values.tobytes() + slots
    out = group("settle", CODECS[codec], number(dtype), ARRAY, SLOT, values.nbytes, data=data)
    used, failed, rest = words_of(out, "used", "failed")
    entries = np.frombuffer(rest[: len(chunks) * ENTRY.itemsize], ENTRY)
    slots = rest[len(chunks) * ENTRY.itemsize :]
    found = []
    for i, entry in enumerate(entries):
        mode, size = int(entry["size_and_mode"]) >> 24, int(entry["size_and_mode"]) & 0xFFFFFF
        assert entry["offset"] == i * SLOT
        found.append((mode, slots[i * SLOT :][: size + -size % 16], size))
    assert used == sum(len(payload) for _, payload, _ in found)
    return entries, found, failed


def array(sizes, dtype):
    """Blocks of noise, or of one value where the size is None."""
    word = np.dtype(f"u{2 if dtype == 'bfloat16' else np.dtype(dtype).itemsize}")
    parts = [
        np.full(BLOCK // word.itemsize, 7, word)
        if size is None
        else RANDOM.integers(0, 1 << 8 * word.itemsize, size // word.itemsize, dtype=word)
        for size in sizes
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize(("codec", "dtype"), [("ans", "bfloat16"), ("bitcomp", "uint64")])
@pytest.mark.parametrize("last", [16, 1000, 3 * 16384 + 8, BLOCK])
def test_blocks_become_what_the_format_says(group, codec, dtype, last):
    values = array([BLOCK, None, BLOCK, BLOCK, last], dtype)
    noise = [RANDOM.bytes(size) for size in (1, 40_001, BLOCK - 32, BLOCK - 31)]
    chunks = [noise[1], noise[0], noise[2], noise[3], b"" if last < 1024 else noise[0]]
    entries, found, failed = settled(group, values, codec, dtype, chunks)
    assert failed == NOTHING_WRONG
    whole = values.tobytes()
    blocks = [whole[begin : begin + BLOCK] for begin in range(0, len(whole), BLOCK)]
    # a chunk that saves less than its 16 bytes in front cost is none
    modes = [CODED, CONSTANT, CODED, RAW, RAW if last < 1024 else CODED]
    assert [mode for mode, _, _ in found] == modes
    for i, (mode, payload, _) in enumerate(found):
        entry, chunk, block = entries[i], chunks[i], blocks[i]
        assert entry["checksum"] == checksum(np.frombuffer(block, np.uint8), place_of(ARRAY, i))
        wanted = {
            RAW: block,
            CONSTANT: block[: values.itemsize],
            CODED: chunk_payload(chunk, codec, dtype, len(block)),
        }[mode]
        assert payload == padded(wanted)


def test_a_block_that_nvcomp_could_not_code_is_told(group):
    values = array([BLOCK] * 4, "float32")
    _, _, failed = settled(group, values, "ans", "float32", [b"x", 19, 11, b"x"])
    assert (failed >> 32, failed & 0xFFFFFFFF) == (1, 19)


@pytest.mark.parametrize(("codec", "dtype"), [("ans", "uint8"), ("bitcomp", "float64")])
def test_what_is_changed_is_kept_from_nvcomp(group, codec, dtype):
    values = array([BLOCK, None, BLOCK, 5000], dtype)
    chunks = [RANDOM.bytes(30_003), b"x", RANDOM.bytes(BLOCK), RANDOM.bytes(1777)]
    entries, found, _ = settled(group, values, codec, dtype, chunks)
    assert [mode for mode, _, _ in found] == [CODED, CONSTANT, RAW, CODED]
    entries = entries.copy()
    entries["offset"] = np.cumsum([0] + [len(payload) for _, payload, _ in found[:-1]])
    payloads = b"".join(payload for _, payload, _ in found)

    def wrong(entries, payloads, codec=codec, dtype=dtype):
        data = entries.tobytes() + payloads
        out = group("check", CODECS[codec], number(dtype), ARRAY, values.nbytes, data=data)
        found, rest = words_of(out, "wrong")
        return found, np.frombuffer(rest, np.uint8)

    good, out = wrong(entries, payloads)
    assert good == NOTHING_WRONG
    kept = slice(BLOCK, 3 * BLOCK)  # those that nvCOMP has nothing to do with
    assert np.array_equal(out[kept], values.view(np.uint8)[kept])
    ends = [int(one) for one in entries["offset"]] + [len(payloads)]
    for round_ in range(60):
        block = round_ % 4
        changed = bytearray(payloads)
        at = int(RANDOM.integers(ends[block], ends[block + 1]))
        if round_ < 8:
            at = ends[block] if round_ < 4 else ends[block + 1] - 1
        changed[at] ^= 1 << int(RANDOM.integers(8))
        assert wrong(entries, bytes(changed))[0] >> 32 == block, (round_, at)
    for block in range(4):
        for bit in range(0, 32, 3):
            changed = entries.copy()
            changed["size_and_mode"][block] ^= 1 << bit
            assert wrong(changed, payloads)[0] >> 32 == block, (block, bit)
    for other in (
        {"codec": "bitcomp" if codec == "ans" else "ans"},
        {"dtype": "int8" if dtype == "uint8" else "int64"},
    ):
        assert wrong(entries, payloads, **other)[0] >> 32 == 0
    moved = entries.copy()
    moved["offset"][[0, 3]] = moved["offset"][[3, 0]]
    moved["size_and_mode"][[0, 3]] = moved["size_and_mode"][[3, 0]]
    assert wrong(moved, payloads)[0] >> 32 == 0
    outside = entries.copy()
    outside["offset"][3] = len(payloads)
    assert wrong(outside, payloads)[0] >> 32 == 3


def test_what_nvcomp_decoded_is_compared(group):
    values = array([BLOCK, BLOCK, 4099], "uint8")
    entries, _, _ = settled(group, values, "ans", "uint8", [b"x", b"y", b"z"])
    changed = values.copy()
    changed[[BLOCK + 77, -1]] ^= 1
    turned = np.concatenate([values[BLOCK : 2 * BLOCK], values[:BLOCK], values[2 * BLOCK :]])
    for one, other in ((entries, values), (entries[[1, 0, 2]], turned)):
        assert list(
            group(
                "decoded",
                CODECS["ans"],
                number("uint8"),
                ARRAY,
                values.nbytes,
                data=one.tobytes() + other.tobytes(),
            )
        ) == [one is entries] * 2 + [1]
    for data, wanted in ((values, [1, 1, 1]), (changed, [1, 0, 0])):
        given = entries.tobytes() + data.tobytes()
        right = group("decoded", CODECS["ans"], number("uint8"), ARRAY, values.nbytes, data=given)
        assert list(right) == wanted


def test_versions_are_told_apart(group):
    values = array([BLOCK], "uint8")
    entry = np.zeros(1, ENTRY)
    for version, wanted in ((6000, NOTHING_WRONG), (6100, NOTHING_WRONG), (5900, 0), (7000, 0)):
        payload = chunk_payload(b"chunk", "ans", "uint8", BLOCK, version)
        entry["size_and_mode"] = CODED << 24 | len(payload)
        data = entry.tobytes() + padded(payload)
        out = group("check", CODECS["ans"], number("uint8"), ARRAY, values.nbytes, data=data)
        assert words_of(out, "wrong")[0] == wanted, version


def test_the_numbers_of_codecs_are_those_of_streams():
    assert {one: native.Codec[one].value for one in CODECS} == CODECS
