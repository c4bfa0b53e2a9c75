"""nvCOMP's codecs on a GPU: every bit comes back, and nothing that is damaged gets to nvCOMP."""

import numpy as np
import pytest

import lanescope
from lanescope._core import native
from lanescope.compression.stream import describe, open_nvcomp, there_is_nvcomp
from lanescope.errors import InputError
from tests.compression.nvcomp_streams import CODECS
from tests.compression.stream_format import exchanged, sealed
from tests.compression.test_codecs import bf16, special
from tests.compression.test_device_gpu import first_difference, on_gpu, on_host

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch can use"),
    pytest.mark.skipif(not there_is_nvcomp(), reason="nvCOMP is not installed"),
]
KIB = 1 << 10
BLOCK = 64 * KIB
DTYPES = {
    **dict.fromkeys(("uint8", "int8"), np.uint8),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), np.uint16),
    **dict.fromkeys(("float32", "int32", "uint32"), np.uint32),
    **dict.fromkeys(("float64", "int64", "uint64"), np.uint64),
}
#: In bytes; of wider values as many as fit, one at least.
LENGTHS = [1, 1023, 1024, 1500, 65535, 65536, 65537, BLOCK + 1024, 1024 * KIB + 5, 3584 * KIB]
RANDOM = np.random.default_rng(43)
every_codec = pytest.mark.parametrize("codec", CODECS)


def data_of(word, count):
    """By name, arrays of many kinds; `count` words each."""
    bits = np.dtype(word).itemsize * 8
    noise = RANDOM.integers(0, 1 << bits, count, dtype=word)
    smooth = np.cumsum(RANDOM.integers(-3, 4, count)).astype(word)
    if bits == 8:  # whose walk visits all of its values
        smooth = RANDOM.integers(0, 4, count, dtype=word)
    constant = np.full(count, 7, word)
    found = {"noise": noise, "smooth": smooth, "constant": constant}
    if bits > 8:
        found["specials"] = RANDOM.choice(special(word), count)
        found["rare specials"] = np.where(RANDOM.random(count) < 0.01, found["specials"], smooth)
        single = RANDOM.normal(size=count).astype(np.float32)
        found["normal"] = {
            16: lambda: bf16(single),
            32: lambda: single.view(np.uint32),
            64: lambda: single.astype(np.float64).view(np.uint64),
        }[bits]()
    turns = smooth.copy()  # blocks of noise, of one value and of others, one after another
    values = BLOCK * 8 // bits
    for begin in range(0, count, 3 * values):
        turns[begin : begin + values] = noise[begin : begin + values]
        turns[begin + values : begin + 2 * values] = 5
    return found | {"turns": turns}


def difference(words, codec, dtype):
    """What does not come back, or None."""
    device = on_gpu(words)
    stream = lanescope.compress(device, codec, dtype=dtype)
    info = describe(stream)
    if (info.codec, info.bytes) != (codec, words.nbytes):
        return f"described as {info}"
    if info.stored_bytes > lanescope.compression.codec.most_bytes(words.nbytes):
        return f"it has grown: {info}"
    out = torch.full((len(words),), 85, dtype=device.dtype).cuda()
    lanescope.decompress(stream, out=out)
    wrong = first_difference(on_host(out), words.view(np.uint8))
    return f"{wrong}; {info}" if wrong else None


@pytest.mark.parametrize("dtype", DTYPES)
@every_codec
def test_every_bit_comes_back(codec, dtype):
    found, word = {}, DTYPES[dtype]
    for length in LENGTHS:
        count = max(length // np.dtype(word).itemsize, 1)
        for name, words in data_of(word, count).items():
            wrong = difference(words, codec, dtype)
            if wrong:
                found[name, length] = wrong
    assert not found, "\n".join(f"{case}: {wrong}" for case, wrong in found.items())


@pytest.mark.parametrize(
    ("codec", "values", "least"),
    [
        ("ans", lambda n: (torch.randn(n, device="cuda") * 0.02).bfloat16(), 1.4),
        ("ans", lambda n: torch.randn(n, device="cuda").relu().half(), 1.25),
        ("ans", lambda n: torch.randint(0, 4, (n,), device="cuda", dtype=torch.uint8), 3.0),
        ("bitcomp", lambda n: torch.arange(n, device="cuda") // 7, 2.0),
        ("bitcomp", lambda n: torch.sin(torch.arange(n, device="cuda").double() * 1e-4), 1.2),
    ],
)
def test_ratios(codec, values, least):
    array = values(8 << 20)
    stream = lanescope.compress(array, codec)
    info = describe(stream)
    assert torch.equal(lanescope.decompress(stream), array)
    assert info.ratio > least, info
    assert info.coded_blocks > 0


@every_codec
def test_random_bytes_grow_by_less_than_the_fiftieth_part_of_a_percent(codec):
    values = torch.randint(0, 256, (64 << 20,), device="cuda", dtype=torch.uint8)
    stream = lanescope.compress(values, codec)
    info = describe(stream)
    assert info.stored_bytes / info.bytes < 1.0002
    assert info.raw_blocks == 1024
    assert torch.equal(lanescope.decompress(stream), values)


@every_codec
def test_more_blocks_than_nvcomp_is_given_at_once(codec):
    small = (torch.randn(BLOCK // 2 * 100, device="cuda") * 0.02).bfloat16()
    values = small.repeat(165)[: BLOCK // 2 * 16450 + 3000]
    stream = lanescope.compress(values, codec)
    assert torch.equal(lanescope.decompress(stream).view(torch.int16), values.view(torch.int16)), (
        describe(stream)
    )


@every_codec
def test_fp8_goes_as_bytes(codec):
    values = torch.randn(1 << 20, device="cuda").to(torch.float8_e4m3fn).view(torch.uint8)
    stream = lanescope.compress(values, codec)
    assert torch.equal(lanescope.decompress(stream), values)


@every_codec
def test_work_follows_the_callers_stream_and_memory_begins_anywhere(codec):
    mine = torch.cuda.Stream()
    with torch.cuda.stream(mine):
        values = torch.zeros((16 << 20) + 3, dtype=torch.float32, device="cuda")
        torch.cuda._sleep(100_000_000)
        values.normal_()
        stream = lanescope.compress(values[3:], codec)
        moved = torch.empty(len(stream) + 1, dtype=torch.uint8, device="cuda")[1:]
        moved.copy_(stream)
        out = torch.zeros_like(values)
        lanescope.decompress(moved, out=out[3:])
    mine.synchronize()
    assert torch.equal(out[3:], values[3:])
    assert not out[:3].any()


@every_codec
def test_the_host_goes_over_the_gpu(codec):
    words = data_of(np.uint16, 1 << 20)["turns"]
    stream = lanescope.compress(words, codec)
    assert describe(stream).coded_blocks > 0
    assert np.array_equal(lanescope.decompress(stream), words)
    room = np.zeros(words.nbytes + 8192, np.uint8)
    again = lanescope.compress(words, codec, out=room)
    assert np.shares_memory(again, room)
    assert np.array_equal(lanescope.decompress(again), words)
    # and each reads what the other made
    there = torch.from_numpy(stream).cuda()
    assert first_difference(on_host(lanescope.decompress(there)), words.view(np.uint8)) is None
    made = lanescope.compress(on_gpu(words), codec)
    assert np.array_equal(lanescope.decompress(on_host(made)).view(np.uint16), words)


@every_codec
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "uint64"])
def test_damaged_streams_are_refused(codec, dtype):
    word = DTYPES[dtype]
    words = data_of(word, (6 * BLOCK + 3000) // np.dtype(word).itemsize)["turns"]
    whole = lanescope.compress(on_gpu(words), codec, dtype=dtype)
    stream, info = on_host(whole), describe(whole)
    assert min(info.coded_blocks, info.raw_blocks, info.constant_blocks) > 0
    payloads = 40 + 8 + 8 * 7 + 8
    out = torch.zeros_like(on_gpu(words))
    for round_ in range(200):
        changed = stream.copy()
        begin = 40 if round_ % 4 == 0 else payloads
        for place in RANDOM.integers(begin, len(stream), 1 + round_ % 3):
            changed[place] ^= 1 << RANDOM.integers(8)
        words_of_error = "block" if begin == payloads else "no stream that can be read"
        with pytest.raises(InputError, match=words_of_error):
            lanescope.decompress(torch.from_numpy(changed).cuda(), out=out)
        torch.cuda.synchronize()  # would tell of an error that stays
    lanescope.decompress(whole, out=out)
    assert first_difference(on_host(out), words.view(np.uint8)) is None


@every_codec
def test_the_block_is_named(codec):
    values = (torch.randn(40 * BLOCK // 2, device="cuda") * 0.02).bfloat16()
    stream = lanescope.compress(values, codec)
    info, data = describe(stream), on_host(stream)
    told = data[48 : 48 + 8 * 40].view(np.uint32)[::2]
    sizes = (told & 0xFFFFFF).astype(np.int64)
    begins = 48 + 8 * 40 + np.cumsum(np.concatenate([[0], (sizes + 15) // 16 * 16]))
    assert begins[-1] == info.stored_bytes
    for block in (39, 18, 17, 4):
        changed = data.copy()
        changed[begins[block] + 40] ^= 1
        changed[begins[39] + 41] ^= 1
        with pytest.raises(InputError, match=f"^this is no stream .*block {block}: "):
            lanescope.decompress(torch.from_numpy(changed).cuda())
    changed = data.copy()
    changed[48 + 8 * 7 + 4] ^= 1  # the checksum of what nvCOMP decodes
    with pytest.raises(InputError, match="block 7: its checksum does not fit"):
        lanescope.decompress(torch.from_numpy(sealed(changed)).cuda())
    with pytest.raises(InputError, match="its header and its table of blocks"):
        lanescope.decompress(torch.from_numpy(exchanged(data, 4, 4 + 9)).cuda())


@every_codec
def test_kernels_reach_a_part_of_their_speed(codec):
    """Far less than they do, so that only a wrong way of working fails."""
    values = bf16(RANDOM.normal(size=32 << 20) * 0.02).view(np.uint8)
    source, out = (native.DeviceArray(0, values.nbytes) for _ in range(2))
    source.fill_from(values)
    out.set(0xA5)
    kind = native.Dtype.bfloat16
    times = open_nvcomp().time_array_codec(source, out, native.Codec[codec], kind, 5)
    assert out.compare(values) == (0, 0)
    assert len(times.encode_s) == len(times.decode_s) == 5
    for seconds in (min(times.encode_s), min(times.decode_s)):
        assert values.nbytes / seconds > 20e9, times.encode_s + times.decode_s
    print(
        f"{codec}: ratio {values.nbytes / times.payload_bytes:.3f}, GB/s in "
        f"{values.nbytes / min(times.encode_s) / 1e9:.0f}, out "
        f"{values.nbytes / min(times.decode_s) / 1e9:.0f}"
    )
