"""What a GPU makes of an array is what the host makes of it, and each reads the other's streams."""

import numpy as np
import pytest

import lanescope
from lanescope._core import native
from lanescope.compression.stream import Codec, describe
from lanescope.errors import InputError
from tests.compression.stream_format import exchanged, sealed
from tests.compression.test_codecs import ALL, bent, bf16, special, strip_header, with_zeros
from tests.compression.test_old_streams import OLD, OLD_DELTA

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch can use"),
]
KIB = 1 << 10
#: In bytes; each codec gets the values that fit.
LENGTHS = [
    *(8, 31 * 8, 32 * 8, 33 * 8, 4095 * 8, 4096 * 8, 4097 * 8),
    *(16 * KIB - 8, 16 * KIB, 16 * KIB + 8, 32 * KIB + 24, 48 * KIB + 8),
    *(64 * KIB - 8, 64 * KIB, 64 * KIB + 8, 112 * KIB, 1024 * KIB + 40, 3584 * KIB),
]
RANDOM = np.random.default_rng(17)
every_codec = pytest.mark.parametrize(("codec", "dtype", "word"), ALL, ids=lambda v: str(v)[-20:])


def on_gpu(words):
    """A tensor of the words' bits, as signed integers: PyTorch has no others of all sizes."""
    return torch.from_numpy(words.view(f"i{words.itemsize}").copy()).cuda()


def on_host(tensor, dtype=np.uint8):
    return tensor.cpu().numpy().view(dtype)


def first_difference(got, wanted):
    """Where two arrays of bytes differ first, in words that tell what lies there."""
    if len(got) != len(wanted):
        return f"{len(got)} bytes in place of {len(wanted)}"
    places = np.flatnonzero(got != wanted)
    if len(places) == 0:
        return None
    at = places[0]
    near = slice(max(at - 4, 0), at + 12)
    return f"{len(places)} bytes differ from {at} on: {got[near]} in place of {wanted[near]}"


def data_of(word, count):
    """By name, arrays of many kinds; `count` words each."""
    bits = np.dtype(word).itemsize * 8
    noise = RANDOM.integers(0, 1 << bits, count, dtype=word)
    smooth = np.cumsum(RANDOM.integers(-3, 4, count)).astype(word)
    specials = RANDOM.choice(special(word), count)
    if bits == 64:
        normal = RANDOM.normal(size=count).view(np.uint64)
    else:
        single = RANDOM.normal(size=count).astype(np.float32)
        normal = single.view(np.uint32) if bits == 32 else bf16(single).astype(word)
    strips = smooth.copy()  # One strip of four is noise: it grows, though its block gets smaller.
    strip = 16 * KIB * 8 // bits
    for begin in range(strip, count, 4 * strip):
        strips[begin : begin + strip] = noise[begin : begin + strip]
    return {
        "noise": noise,
        "smooth": smooth,
        "specials": specials,
        "mixed": np.where(RANDOM.random(count) < 0.01, specials, smooth),
        "normal": normal,
        "constant": np.full(count, special(word)[9], word),
        "one strip of noise": strips,
        "zeros": with_zeros(word, count),
        "decimals": decimals(word, count),
    }


def decimals(word, count):
    """Of floats: one decimal, some missing; of others their bits."""
    values = np.round(RANDOM.normal(15, 30, count), 1)
    values[RANDOM.random(count) < 0.05] = np.nan
    return values.astype(np.float32).view(word)[:count] if word != np.uint64 else values.view(word)


def difference_from_host(words, codec, dtype, dimensionality=1):
    """What a GPU does otherwise than the host, or None."""
    how = {"dtype": dtype, "dimensionality": dimensionality}
    wanted = lanescope.compress(words, codec, **how)
    stream = lanescope.compress(on_gpu(words), codec, **how)
    wrong = first_difference(on_host(stream), wanted)
    if wrong:
        return f"encoded: {wrong}; {describe(wanted)}"
    out = torch.full((len(words),), 85, dtype=getattr(torch, f"int{words.itemsize * 8}")).cuda()
    lanescope.decompress(stream, out=out)
    wrong = first_difference(on_host(out), words.view(np.uint8))
    if wrong:
        return f"decoded: {wrong}; {describe(wanted)}"
    back = lanescope.decompress(on_host(stream)).view(np.uint8)
    return first_difference(back, words.view(np.uint8))


@every_codec
def test_streams_are_those_of_the_host(codec, dtype, word):
    found = {}
    for length in LENGTHS:
        for name, words in data_of(word, length // np.dtype(word).itemsize).items():
            wrong = difference_from_host(words, codec, dtype)
            if wrong:
                found[name, length] = wrong
    assert not found, "\n".join(f"{case}: {wrong}" for case, wrong in found.items())


@pytest.mark.parametrize("dimensionality", [2, 5, 31, 32])
@pytest.mark.parametrize("word", [np.uint32, np.uint64])
def test_gfc_of_any_dimensionality_is_that_of_the_host(word, dimensionality):
    words = data_of(word, 50_000)["mixed"]
    dtype = np.dtype(word).name.replace("uint", "float")
    assert difference_from_host(words, "gfc", dtype, dimensionality) is None


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("lag", [1, 2, 3, 5, 8, 16, 32])
def test_delta_of_any_order_is_that_of_the_host(order, lag):
    found = {}
    for count in (1, 16, 17, 33, 65, 97, 129, 2047, 2048, 9000, 50_000):
        for narrow in (0, 9):
            words = bent(count, order, lag, narrow)
            for sign in (0, 1):
                signs = RANDOM.integers(0, 1 + sign, count).astype(np.uint64) << np.uint64(63)
                wrong = difference_from_host(words ^ signs, "delta", "float64")
                if wrong:
                    header = strip_header(lanescope.compress(words ^ signs, "delta"))
                    found[count, narrow, sign] = f"lag, turned, order, halves {header}: {wrong}"
    assert not found, "\n".join(f"{case}: {wrong}" for case, wrong in found.items())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("places", [-3, 0, 1, 4, 9, 15])
def test_alp_of_any_decimals_is_that_of_the_host(places, dtype):
    found = {}
    for bits in (1, 9, 24, 31, 33, 40):
        for count, rare in ((1, 0), (1031, 0.3), (50_000, 0.001), (200_000, 0)):
            values = RANDOM.integers(-(1 << bits - 1), 1 << bits - 1, count) / 10.0**places
            odd = RANDOM.random(count) < rare
            values[odd] = RANDOM.choice([np.nan, -0.0, np.inf, np.pi], int(odd.sum()))
            words = values.astype(dtype).view(f"uint{8 * np.dtype(dtype).itemsize}")
            wrong = difference_from_host(words, "alp", dtype)
            if wrong:
                found[bits, count] = wrong
    assert not found, "\n".join(f"{case}: {wrong}" for case, wrong in found.items())


def test_doubles_of_version_1_are_read():
    values, told = OLD_DELTA
    stream = torch.from_numpy(np.frombuffer(bytes.fromhex(told), np.uint8).copy()).cuda()
    back = on_host(lanescope.decompress(stream))
    assert first_difference(back.view(np.uint8), values.view(np.uint8)) is None


@pytest.mark.parametrize("name", OLD)
def test_old_streams_are_read(name):
    values, *_, told = OLD[name]
    stream = torch.from_numpy(np.frombuffer(bytearray.fromhex(told), np.uint8)).cuda()
    back = lanescope.decompress(stream).cpu().view(torch.uint8)
    assert back.numpy().tobytes() == values.tobytes()


def test_what_version_1_leaves_zero_is_refused_there():
    *_, told = OLD["delta of 64 bits"]
    stream = sealed(np.frombuffer(bytes.fromhex(told), np.uint8), 1)
    with pytest.raises(InputError, match="block 0: its payload is not what the codec makes of 560"):
        lanescope.decompress(torch.from_numpy(stream).cuda())


@pytest.mark.parametrize("codec", ["raw", "exponent"])
@pytest.mark.parametrize("escapes", [0.0, 0.2, 1.0])
def test_a_strip_of_escapes_beside_constant_ones(codec, escapes):
    """Its codes say that there are few exponents, of which the sample saw none."""
    words = np.full(96 << 10, 0x3F80, np.uint16)
    strip = words[8192:16384].reshape(-1, 256)
    chosen = RANDOM.random((len(strip), 192)) < escapes
    strip[:, 64:][chosen] = RANDOM.integers(0, 1 << 16, int(chosen.sum()), dtype=np.uint16)
    assert difference_from_host(words, codec, "bfloat16") is None


@pytest.mark.parametrize("length", [0, 1, 7, 15, 16, 17, 1000, 65535, 65537, 1024 * KIB + 5])
def test_bytes_of_any_length(length):
    for values in (
        RANDOM.integers(0, 256, length, dtype=np.uint8),
        np.full(length, 7, np.uint8),
    ):
        wanted = lanescope.compress(values, "raw")
        stream = lanescope.compress(torch.from_numpy(values).cuda(), "raw")
        assert first_difference(on_host(stream), wanted) is None
        assert first_difference(on_host(lanescope.decompress(stream)), values) is None


def test_tensors_come_back_as_they_were():
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int32):
        values = torch.arange(70_000, device="cuda").reshape(7, 100, 100).to(dtype)
        stream = lanescope.compress(values)
        assert (stream.device, stream.dtype) == (values.device, torch.uint8)
        back = lanescope.decompress(stream)
        assert (back.shape, back.dtype, back.device) == (values.shape, dtype, values.device)
        assert torch.equal(back, values)
        assert lanescope.decompress(on_host(stream), framework="torch").equal(values.cpu())


def test_arrays_of_cupy_come_back_as_they_were():
    cupy = pytest.importorskip("cupy")
    values = cupy.sin(cupy.arange(1 << 20, dtype=cupy.float32))
    stream = lanescope.compress(values)
    assert isinstance(stream, cupy.ndarray)
    assert stream.nbytes < values.nbytes
    back = lanescope.decompress(stream)
    assert isinstance(back, cupy.ndarray)
    assert bool((back.view(cupy.uint32) == values.view(cupy.uint32)).all())
    assert np.array_equal(lanescope.decompress(cupy.asnumpy(stream)), cupy.asnumpy(values))


def test_work_follows_the_callers_stream():
    mine = torch.cuda.Stream()
    with torch.cuda.stream(mine):
        values = torch.zeros(64 << 20, dtype=torch.float32, device="cuda")
        torch.cuda._sleep(200_000_000)
        values.normal_()
        stream = lanescope.compress(values, "exponent")
        back = lanescope.decompress(stream)
    mine.synchronize()
    assert torch.equal(back, values)
    assert describe(stream).constant_blocks == 0


def test_memory_that_begins_anywhere():
    words = torch.randn(100_000, device="cuda")
    for shift in (1, 2, 3):
        stream = lanescope.compress(words[shift:], "exponent")
        wanted = lanescope.compress(words[shift:].cpu().numpy(), "exponent")
        assert first_difference(on_host(stream), wanted) is None
        moved = torch.empty(len(stream) + shift, dtype=torch.uint8, device="cuda")[shift:]
        moved.copy_(stream)
        out = torch.zeros_like(words)
        lanescope.decompress(moved, out=out[shift:])
        assert torch.equal(out[shift:], words[shift:])


def test_few_sms_do_the_same():
    words = data_of(np.uint16, 1 << 20)["normal"]
    device = on_gpu(words)
    wanted = lanescope.compress(words, "exponent", dtype="bfloat16")
    for sms in (1, 3, 16):
        kind = native.Dtype.bfloat16
        encoding = native.DeviceEncoding(device, native.Codec.exponent, kind, 1, 0, sms)
        stream = torch.empty(encoding.stream_bytes, dtype=torch.uint8, device="cuda")
        encoding.write(stream)
        assert first_difference(on_host(stream), wanted) is None
        out = torch.zeros_like(device)
        native.decompress_on_device(stream, out, 0, sms)
        assert torch.equal(out, device)


def said_by(stream, out):
    """What a decoder says of a stream: nothing where it takes it."""
    try:
        lanescope.decompress(stream, out=out, **({} if torch.is_tensor(stream) else {"threads": 1}))
    except InputError as error:
        return str(error)
    return None


@every_codec
def test_damaged_streams_are_refused_as_on_the_host(codec, dtype, word):
    words = data_of(word, 200 * KIB // np.dtype(word).itemsize)["mixed"]
    stream = lanescope.compress(words, codec, dtype=dtype)
    out, room = torch.zeros_like(on_gpu(words)), np.zeros_like(words)
    refused = 0
    for round_ in range(200):
        changed = stream.copy()
        for place in RANDOM.integers(40 if round_ % 2 else 80, len(stream), 1 + round_ % 3):
            changed[place] ^= 1 << RANDOM.integers(8)
        said = said_by(torch.from_numpy(changed).cuda(), out)
        assert said == said_by(changed, room)
        refused += said is not None
    assert refused > 190
    assert said_by(torch.from_numpy(stream).cuda(), out) is None
    assert first_difference(on_host(out), words.view(np.uint8)) is None


def test_the_lowest_wrong_block_is_named():
    words = RANDOM.integers(0, 256, 40 * 64 * KIB, dtype=np.uint8)
    stream = lanescope.compress(torch.from_numpy(words).cuda(), "raw")
    for block in (39, 18, 17, 4):
        stream[-(40 - block) * 64 * KIB + 5] ^= 1
        with pytest.raises(InputError, match=f"^this is no stream .*block {block}: its checksum"):
            lanescope.decompress(stream)


def test_blocks_that_change_places_are_refused():
    words = RANDOM.integers(0, 256, 8 * 64 * KIB, dtype=np.uint8)
    stream = lanescope.compress(torch.from_numpy(words).cuda(), "raw")
    changed = exchanged(on_host(stream), 1, 6)
    for front, sentence in (
        (changed, "its header and its table of blocks does not fit"),
        (sealed(changed), "block 1: its checksum does not fit"),
    ):
        with pytest.raises(InputError, match=sentence):
            lanescope.decompress(torch.from_numpy(front).cuda())


def test_what_overlaps_is_refused():
    room = torch.randn(1 << 20, device="cuda").view(torch.uint8)
    values, before = room[: 1 << 20], room.clone()
    with pytest.raises(InputError, match="overlap; give other memory"):
        lanescope.compress(values, "raw", out=room[(1 << 20) - 64 :])
    assert torch.equal(room, before)
    stream = lanescope.compress(values, "raw", out=room[1 << 20 :])
    for begin in ((1 << 20) - 64, 1 << 20, (1 << 20) + 4096):
        with pytest.raises(InputError, match="overlap; give other memory"):
            lanescope.decompress(stream, out=room[begin:][: 1 << 20])
    lanescope.decompress(stream, out=room[: 1 << 20])
    assert torch.equal(room[: 1 << 20], before[: 1 << 20])


def test_a_constant_array_gets_small_whatever_its_type():
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.int32, torch.uint8):
        for value in (0, 3):
            values = torch.full((1 << 20,), value, dtype=dtype, device="cuda")
            stream = lanescope.compress(values)
            assert describe(stream).codec != Codec.RAW
            assert describe(stream).ratio > 500
            assert torch.equal(lanescope.decompress(stream), values)


def test_what_cannot_be_done_is_said():
    values = torch.randn(64, 64, device="cuda")
    with pytest.raises(InputError, match=r"\.contiguous"):
        lanescope.compress(values.T)
    with pytest.raises(InputError, match="gfc does not take values of type int32, but of"):
        lanescope.compress(values.to(torch.int32), "gfc")
    stream = lanescope.compress(values)
    with pytest.raises(InputError, match="copy the stream to the host"):
        lanescope.decompress(stream, out=np.zeros((64, 64), np.float32))
    with pytest.raises(InputError, match="there is room for"):
        lanescope.decompress(stream, out=values[:3])
    with pytest.raises(InputError, match="fewer than a header"):
        lanescope.decompress(stream[:20])


def test_kernels_reach_a_part_of_their_speed():
    """Far less than they do alone on the GPU, so that only a wrong way of working fails."""
    words = on_gpu(data_of(np.uint16, 32 << 20)["normal"])
    times = native.time_device_codec(words, native.Codec.exponent, native.Dtype.bfloat16, repeats=5)
    assert times.payload_bytes < words.nbytes / 1.4
    for seconds in (min(times.encode_s), min(times.decode_s)):
        assert words.nbytes / seconds > 100e9


def test_values_that_codecs_know_as_others_come_back_as_what_they_were():
    bits = torch.arange(200_000, device="cuda").to(torch.uint8)
    real = bits[:100_000].float()
    tensors = [
        bits % 2 == 0,
        torch.complex(real, real + 1),
        torch.complex(real.double(), -real.double()),
    ]
    tensors += [bits.view(torch.float8_e4m3fn), bits.view(torch.float8_e5m2)]
    for values in tensors:
        stream = lanescope.compress(values)
        same = lanescope.decompress(stream)
        assert same.dtype == values.dtype
        out = torch.zeros_like(values)
        lanescope.decompress(stream, out=out)
        for found in (same, out):
            assert torch.equal(_bits_of(found), _bits_of(values))
        on_the_host = lanescope.compress(values.cpu())
        assert on_the_host.tobytes() == stream.cpu().numpy().tobytes()
    with pytest.raises(InputError, match="at most 1 kB are allowed"):
        lanescope.decompress(stream, max_bytes=1000)


def _bits_of(tensor):
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor.view(torch.uint8)
