"""Updates on GPUs: the host's streams to the bit, and channels that put them onto a base."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lanescope
from lanescope import LanescopeError
from lanescope._core import native
from lanescope.compression.stream import describe
from lanescope.errors import InputError

with warnings.catch_warnings():  # of PyTorch's, about others
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

GPUS = torch.cuda.device_count()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS < 1, reason="no GPU that PyTorch can use"),
    pytest.mark.filterwarnings("ignore"),
]
TWO = [pytest.mark.multigpu, pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")]
PAIRS = [
    (0, 0, "peer"),
    (0, 0, "host"),
    pytest.param((0, 1, "peer"), marks=TWO),
    pytest.param((0, 1, "host"), marks=TWO),
]
CODED = [
    ("zvc", torch.bfloat16),
    ("zvc", torch.uint8),
    ("exponent", torch.float16),
    ("delta", torch.float32),
    ("delta", torch.int64),
    ("gfc", torch.float64),
]
SIZES = [1, 15, 17, 64 << 10, (64 << 10) + 1, (5 << 20) + 3]


def old_and_new(dtype, size, gpu=0, seed=0):
    """Bits of two arrays: first many values differ, by little or by all of their bits, then few."""
    random = np.random.default_rng(seed)
    each = torch.empty((), dtype=dtype).element_size()
    word = np.dtype(f"u{each}")
    old = random.integers(0, 1 << (8 * each), size // each, dtype=word)
    step = random.choice(np.array([0, 0, 0, 1, (1 << (8 * each)) - 1], word), old.size)
    step[old.size // 3 :] *= random.random(old.size - old.size // 3) < 0.1
    new = old + step
    where = random.random(old.size) < 0.001
    new[where] = random.integers(0, 1 << (8 * each), where.sum(), dtype=word)
    return (of_bits(old, dtype).to(f"cuda:{gpu}"), of_bits(new, dtype).to(f"cuda:{gpu}"))


def of_bits(words, dtype):
    signed = torch.from_numpy(words.view(f"i{words.itemsize}").copy())
    return signed.view(dtype) if words.size else torch.empty(0, dtype=dtype)


def bits(tensor):
    if not tensor.numel():
        return np.empty(0, np.uint8)
    return tensor.contiguous().view(torch.uint8).cpu().numpy()


def same(one, other):
    return np.array_equal(bits(one), bits(other))


@pytest.mark.parametrize(("codec", "dtype"), CODED)
def test_streams_are_those_of_the_host(codec, dtype):
    for size in (24, 64 << 10, (300 << 10) + 8):
        old, new = old_and_new(dtype, size)
        stream = lanescope.compress(new, codec, base=old)
        on_host = lanescope.compress(new.cpu(), codec, base=old.cpu())
        assert np.array_equal(stream.cpu().numpy(), on_host)
        assert describe(stream).update == describe(on_host).update is not None
        assert same(lanescope.decompress(stream, base=old), new)
        back = lanescope.decompress(on_host, base=old.cpu())
        assert np.array_equal(back.view(np.uint8), bits(new))
        there = old.clone()
        assert lanescope.decompress(stream, base=there, out=there) is there
        assert same(there, new)


def test_the_same_is_chosen_as_on_the_host():
    old, new = old_and_new(torch.float32, 3 << 20)
    stream = lanescope.compress(new, base=old)
    assert np.array_equal(stream.cpu().numpy(), lanescope.compress(new.cpu(), base=old.cpu()))


def test_arrays_that_are_not_aligned_are_updated():
    old, new = old_and_new(torch.int16, 1 << 20)
    there = torch.empty(old.numel() + 1, dtype=torch.int16, device="cuda:0")[1:]
    there.copy_(old)
    stream = lanescope.compress(new, base=there)
    assert same(lanescope.decompress(stream, base=there, out=there), new)


def test_another_base_changes_nothing():
    old, new = old_and_new(torch.float32, 1 << 20)
    stream = lanescope.compress(new, "delta", base=old)
    other = old.clone()
    other.view(torch.int32)[77] ^= 1
    before = other.clone()
    for base, words in [(other, "the base is another one"), (None, "give that array as base=")]:
        with pytest.raises(InputError, match=words):
            lanescope.decompress(stream, base=base, out=other)
    with pytest.raises(InputError, match="lies in the host's memory, and the stream lies in a GPU"):
        lanescope.decompress(stream, base=old.cpu())
    with pytest.raises(InputError, match="needs no base"):
        lanescope.decompress(lanescope.compress(new), base=old)
    assert same(other, before)


def test_a_damaged_block_changes_nothing_in_place():
    old, new = old_and_new(torch.float32, 1 << 20)
    stream = lanescope.compress(new, "delta", base=old)
    stream[-40] ^= 0xFF
    there = old.clone()
    with pytest.raises(InputError, match="block 15: "):
        lanescope.decompress(stream, base=there, out=there)
    assert same(there, old)


def channel_of(pair, **options):
    source, target, via = pair
    return lanescope.Channel(source, target, **{"compression": "on", "via": via, **options})


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("codec", "dtype"), CODED)
def test_differences_are_sent(pair, codec, dtype):
    with channel_of(pair, codec=codec, slab_bytes=1 << 20) as channel:
        for size in SIZES:
            old, new = old_and_new(dtype, size - size % 8, seed=size)
            there = old.to(f"cuda:{pair[1]}", copy=True)
            assert channel.send(new, out=there, base=old) is there
            outcome = channel.last.wait()
            assert same(there, new), size
            assert outcome.compressed is (new.numel() > 0), channel.last.why_raw


@pytest.mark.parametrize("pair", PAIRS)
def test_auto_finds_codec_and_difference(pair):
    old = torch.randn(8 << 20, device="cuda:0").bfloat16()
    new = (old.float() * (1 + 1e-4)).bfloat16()
    there = old.to(f"cuda:{pair[1]}", copy=True)
    with channel_of(pair) as channel:
        for _ in range(3):
            there.copy_(old)
            channel.send(new, "w", out=there, base=old)
            outcome = channel.last.wait()
            assert same(there, new)
            assert outcome.wire_bytes < outcome.raw_bytes / 4
        channel.send(new, "w", out=there)
        assert channel.last.wait().wire_bytes > outcome.wire_bytes * 2


@pytest.mark.parametrize("pair", PAIRS)
def test_many_updates_follow_each_other_without_a_wait(pair):
    """Each is the base of the next one, on both sides."""
    old, _ = old_and_new(torch.float32, 3 << 20)
    there = old.to(f"cuda:{pair[1]}", copy=True)
    with channel_of(pair, codec="delta", slab_bytes=1 << 20, slots=2) as channel:
        for step in range(20):
            new = (old.view(torch.int32) + step).view(torch.float32)
            channel.send(new, out=there, base=old)
            old = new
        channel.synchronize()
        assert all(one.outcome.compressed for one in channel.log)
    assert same(there, old)


@pytest.mark.parametrize("pair", PAIRS)
def test_blocks_of_another_base_there_are_an_error_and_stay(pair):
    old, new = old_and_new(torch.float32, 5 << 20)
    there = old.to(f"cuda:{pair[1]}", copy=True)
    there.view(torch.int32)[-1] ^= 1
    before = bits(there)[-65536:].copy()
    with channel_of(pair, codec="delta", slab_bytes=1 << 20) as channel:
        channel.send(new, out=there, base=old)
        words = f"the base differs: GPU {pair[1]} holds another.*send the whole array, without a"
        with pytest.raises(LanescopeError, match=words):
            channel.last.wait()
        after = bits(there)
        assert np.array_equal(after[-65536:], before)
        assert np.array_equal(after[:-65536], bits(new)[:-65536])
        channel.send(new, out=there, base=old)
        torch.cuda.synchronize()
        with pytest.raises(LanescopeError, match=words):
            channel.send(new, out=there)
        channel.send(new, out=there)
        channel.last.wait()
    assert same(there, new)


@pytest.mark.parametrize("block", [0, 60])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_damaged_block_is_named_and_not_put_onto_the_base(pair, block):
    old, new = old_and_new(torch.float32, 5 << 20)
    there = old.to(f"cuda:{pair[1]}", copy=True)
    with channel_of(pair, codec="delta", slab_bytes=1 << 20) as channel:
        channel._core.damage_next(block)
        channel.send(new, out=there, base=old)
        with pytest.raises(LanescopeError, match=f"block {block} of 80 .*send the whole array"):
            channel.last.wait()
    part = slice(block << 16, (block + 1) << 16)
    assert np.array_equal(bits(there)[part], bits(old)[part])


@pytest.mark.parametrize("direction", ["staged", "mapped"])
@pytest.mark.parametrize(("codec", "dtype"), CODED)
def test_parcels_are_put_onto_the_base_or_into_other_memory(direction, codec, dtype):
    options = {"compression": "on", "codec": codec, "slab_bytes": 512 << 10}
    with (
        lanescope.Channel(0, "host", **options) as out,
        lanescope.Channel(0, "host", **options, restore_by=direction) as back,
    ):
        for size in SIZES:
            old, new = old_and_new(dtype, size - size % 8, seed=size)
            parcel = out.offload(new, base=old)
            there = old.clone()
            assert same(back.restore(parcel, base=old), new), size
            assert same(back.restore(parcel, out=there, base=there), new), size
            back.synchronize()
            if not same(old, new):
                assert parcel.held.is_update
                back.restore(parcel, out=there, base=there)
                with pytest.raises(LanescopeError, match="the base differs: GPU 0 holds another"):
                    back.last.wait()
                assert same(there, new)
            with pytest.raises(InputError, match="was offloaded with a base"):
                back.restore(parcel)


@pytest.mark.parametrize("direction", ["staged", "mapped"])
def test_a_large_parcel_stays_small(direction):
    old = torch.randn(100 << 20, device="cuda:0").bfloat16()
    new = (old.float() * (1 + 1e-4)).bfloat16()
    options = {"compression": "on", "restore_by": direction}
    with lanescope.Channel(0, "host", **options) as channel:
        parcel = channel.offload(new, base=old)
        assert parcel.stored_bytes < parcel.bytes / 4
        assert parcel.held.held_bytes < parcel.bytes / 4
        there = old.clone()
        channel.restore(parcel, out=there, base=there)
        channel.last.wait()
        assert same(there, new)


def test_restores_by_a_channel_with_other_slabs():
    old, new = old_and_new(torch.float32, 9 << 20)
    options = {"compression": "on", "codec": "delta"}
    with lanescope.Channel(0, "host", **options, slab_bytes=2 << 20) as out:
        parcel = out.offload(new, base=old)
        for slab in (64 << 10, 512 << 10, 8 << 20):
            with lanescope.Channel(0, "host", **options, slab_bytes=slab) as back:
                assert same(back.restore(parcel, base=old), new), slab
                back.last.wait()


def test_parcels_of_differences_are_not_saved(tmp_path):
    old, new = old_and_new(torch.float32, 1 << 20)
    with lanescope.Channel(0, "host", compression="on", codec="delta") as channel:
        parcel = channel.offload(new, base=old)
        with pytest.raises(InputError, match="holds differences to a base, and cannot be saved"):
            parcel.save(tmp_path / "update.lsp")


def test_the_sums_of_kernels_are_those_of_the_host():
    for size in (1, 7, 8, 15, 16, 17, 4096, (1 << 20) + 5):
        old = torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda:0")
        stream = lanescope.compress(old, "raw", base=old)
        on_host = lanescope.compress(old.cpu(), "raw", base=old.cpu())
        assert describe(stream).base_checksum == describe(on_host).base_checksum


def test_what_the_core_refuses():
    values = torch.zeros(64, device="cuda:0")
    at = values.data_ptr()
    words = "overlaps a part of the array"
    with (
        lanescope.Channel(0, 0, compression="on", codec="zvc") as channel,
        pytest.raises(native.NativeError, match=words),
    ):
        channel._core.send(
            at, at + 128, 64, native.Codec.zvc, native.Dtype.float32, 1, 0, 0,
            native.UpdateKind.xor, at + 144,
        )  # fmt: skip


@pytest.mark.parametrize("pair", [PAIRS[0], PAIRS[2]])
def test_updates_between_gpus_go_by_the_faster_kernels(pair):
    source, target, _ = pair
    old = torch.randn(1 << 23, device=f"cuda:{source}").bfloat16()
    new = (old.float() * (1 + 1e-6)).bfloat16()
    new[::7] = 0
    theirs = old.to(f"cuda:{target}", copy=True)
    with lanescope.Channel(source, target, compression="on") as channel:
        channel.send(new, base=old, out=theirs)
        channel.synchronize()
        assert str(channel.last.decision.codec) == "zvc"
    assert same(theirs, new)
