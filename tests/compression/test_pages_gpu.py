"""Pages and saved parcels on GPUs: what comes out is what went in, bit by bit."""

from __future__ import annotations

import io
import warnings

import pytest

import lanescope
from lanescope import LanescopeError
from lanescope._core import native
from lanescope.compression.parcels import ParcelCache
from lanescope.errors import InputError
from tests.compression.test_channel_gpu import (
    CODED,
    DIRECTIONS,
    GPUS,
    PAIRS,
    bits,
    host,
    made_up,
    peer,
    same,
)

with warnings.catch_warnings():  # of PyTorch's, about others
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS < 1, reason="no GPU that PyTorch can use"),
    pytest.mark.filterwarnings("ignore"),
]

KIB = 1 << 10
MIXED = [64 * KIB, 16 * KIB, 4, 100, 4096 * KIB, 16 * KIB, 64 * KIB + 12, 256 * KIB]
CODECS = [None, "delta"]


def pages_of(sizes, dtype=torch.float32):
    return [made_up(dtype, size, seed=i) for i, size in enumerate(sizes)]


def to_host(codec, **options):
    if codec is None:
        return lanescope.Channel(0, "host", compression="off", **options)
    return host(codec=codec, **options)


def all_same(found, expected):
    assert len(found) == len(expected)
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one.dtype == other.dtype, i
        assert same(one, other), i


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("codec", CODECS)
def test_pages_of_any_sizes_come_back(codec, direction):
    given = pages_of(MIXED)
    with to_host(codec, restore_by=direction) as channel:
        parcel = channel.offload_many(given, "kv")
        for _ in range(2):
            all_same(channel.restore_many(parcel), given)
        wanted = [6, 0, 3]
        all_same(channel.restore_many(parcel, which=wanted), [given[i] for i in wanted])
        out = [torch.zeros_like(one) for one in given]
        channel.restore_many(parcel, out=out)
        all_same(out, given)
        channel.synchronize()
        assert all(one.outcome.compressed == (codec is not None) for one in channel.log)


@pytest.mark.parametrize("codec", [None, "exponent"])
def test_long_lists_of_separate_tensors(codec):
    """Of which some leave before others are gathered."""
    room = torch.randn((2000, 8 * KIB), device="cuda:0").to(torch.bfloat16)
    given = [one.clone() for one in room]
    with to_host(codec) as channel:
        parcel = channel.offload_many(given)
        assert len(parcel.groups) > 2
        out = [torch.zeros_like(one) for one in given]
        channel.restore_many(parcel, out=out)
        assert same(torch.stack(out), room)
        wanted = [699, 127, 128]
        all_same(channel.restore_many(parcel, which=wanted), [room[i] for i in wanted])


@pytest.mark.parametrize("codec", [None, "exponent"])
def test_what_comes_later_on_the_stream_waits_for_pages(codec):
    """Though their transfers do not wait for each other, nor for the places of those before."""
    cache = torch.randn((1200, 256 * KIB), device="cuda:0").to(torch.bfloat16)
    expected = cache.clone()
    numbers = torch.randperm(1200).tolist()
    with to_host(codec) as channel:
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                parcel = channel.offload_many(cache, pages=numbers)
                cache.zero_()
                others = [torch.full((64 << 20,), 7.0, device="cuda:0") for _ in range(3)]
                del others  # whose memory pages lie side by side in
                channel.restore_many(parcel, out=cache, pages=numbers)
                found = cache.clone()
                cache.zero_()
            torch.cuda.current_stream().wait_stream(stream)
            assert same(found, expected)
            cache.copy_(expected)
        channel.synchronize()


@pytest.mark.parametrize("codec", CODECS)
def test_pages_leave_where_the_gpu_has_no_memory_left(codec):
    """The table of where they lie is read on the host then."""
    given = pages_of([64 * KIB] * 40)
    with to_host(codec) as channel:
        channel.synchronize()
        taken, size = [], 1 << 36
        while size >= KIB:
            try:
                taken.append(native.DeviceArray(0, size))
            except native.NativeError:
                size //= 2
        parcel = channel.offload_many(given)
        taken.clear()
        all_same(channel.restore_many(parcel), given)


@pytest.mark.parametrize("shift", [1, 2, 7, 8])
def test_pages_may_begin_anywhere(shift):
    room = made_up(torch.float16, 1 << 20)
    given = [room[shift : shift + 5000], room[100_000 + shift : 140_000]]
    with to_host("delta") as channel:
        parcel = channel.offload_many(given)
        all_same(channel.restore_many(parcel), given)
        back = torch.zeros_like(room)
        places = [back[shift : shift + 5000], back[200_001 : 240_001 - shift]]
        channel.restore_many(parcel, out=places)
        all_same(places, given)
        assert int((back != 0).sum()) <= 5000 + 40_000 - shift


@pytest.mark.parametrize("codec", [None, "exponent"])
@pytest.mark.parametrize("size", [16 * KIB, 64 * KIB, 1024 * KIB])
def test_slices_of_a_cache(codec, size):
    cache = torch.randn((300, size // 2), device="cuda:0").to(torch.bfloat16)
    numbers = torch.randperm(300)[:200].tolist()
    with to_host(codec) as channel:
        parcel = channel.offload_many(cache, pages=numbers)
        assert parcel.bytes == 200 * size
        expected = cache.clone()
        cache.zero_()
        channel.restore_many(parcel, out=cache, pages=numbers)
        chosen = torch.tensor(numbers, device="cuda:0")
        assert same(cache[chosen], expected[chosen])
        others = torch.ones(300, dtype=torch.bool, device="cuda:0")
        others[chosen] = False
        assert not bits(cache[others]).any()


def test_slices_with_gaps_between_them():
    cache = made_up(torch.bfloat16, 8 << 20).view(32, 2, -1)
    keys = cache[:, 0]
    with to_host("exponent") as channel:
        parcel = channel.offload_many(keys, pages=[31, 7, 8])
        all_same(channel.restore_many(parcel), [keys[31], keys[7], keys[8]])


@pytest.mark.parametrize("codec", [None, "exponent"])
def test_only_what_is_needed_crosses_the_link(codec):
    cache = torch.randn((256, 32 * KIB), device="cuda:0").to(torch.bfloat16)  # of 64 KiB
    with to_host(codec) as channel:
        parcel = channel.offload_many(cache)
        wanted = list(range(3, 256, 8))
        before = len(channel.log)
        all_same(channel.restore_many(parcel, which=wanted), [cache[i] for i in wanted])
        crossed = sum(record.wait().wire_bytes for record in channel.log[before:])
        whole = len(wanted) * 64 * KIB
        if codec is None:
            assert crossed == whole
        else:
            assert crossed < 0.9 * whole


@pytest.mark.parametrize("size", [16 * KIB, 64 * KIB])
def test_every_second_page_takes_no_more_than_its_bytes(size):
    cache = torch.randn((1000, size // 2), device="cuda:0").to(torch.bfloat16)
    with to_host("exponent") as channel:
        parcel = channel.offload_many(cache)
        before = len(channel.log)
        found = channel.restore_many(parcel, which=range(0, 1000, 2))
        assert same(torch.stack(found), cache[::2])
        crossed = sum(record.wait().wire_bytes for record in channel.log[before:])
        assert crossed <= 500 * size


@pytest.mark.parametrize("codec", CODECS)
def test_more_than_a_group_goes_in_several_transfers(codec):
    given = made_up(torch.float32, 600 << 20).view(600, -1)
    with to_host(codec) as channel:
        parcel = channel.offload_many(given)
        assert len(parcel.groups) > 4
        out = torch.zeros_like(given)
        channel.restore_many(parcel, out=out)
        assert same(out, given)
        wanted = [599, 0, 300]
        all_same(channel.restore_many(parcel, which=wanted), [given[i] for i in wanted])


@pytest.mark.parametrize("codec", CODECS)
def test_pages_come_behind_and_before_what_streams_do(codec):
    expected = torch.arange(64 * 16 * KIB, dtype=torch.float32, device="cuda:0").view(64, -1)
    with to_host(codec) as channel, torch.cuda.stream(torch.cuda.Stream(0)):
        for turn in range(3):
            torch.cuda._sleep(20_000_000)
            source = expected + turn
            parcel = channel.offload_many(source, pages=list(range(63, -1, -1)))
            source.fill_(7)
            out = torch.empty_like(expected)
            torch.cuda._sleep(20_000_000)
            out.fill_(3)
            channel.restore_many(parcel, out=out, pages=list(range(63, -1, -1)))
            assert same(out.clone(), expected + turn), turn


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("codec", CODECS)
def test_pages_go_to_another_gpu(pair, codec):
    given = pages_of(MIXED)
    options = {"compression": "off"} if codec is None else {"codec": codec}
    with peer(pair, **options) as channel:
        there = channel.send_many(given)
        all_same(there, given)
        assert {one.device.index for one in there} == {pair[1]}
        out = [torch.zeros_like(one) for one in there]
        channel.send_many(given, out=out)
        all_same(out, given)
        cache = torch.zeros((9, 16 * KIB), device=f"cuda:{pair[1]}")
        channel.send_many([given[0]], out=cache, out_pages=[4])
        assert same(cache[4], given[0])


@pytest.mark.parametrize("codec", CODECS)
def test_memory_of_what_is_evicted_is_given_back(codec):
    values = made_up(torch.float32, 64 << 20)
    with to_host(codec) as channel:
        parcel, kept = channel.offload(values), channel.offload_many([values])
        out = channel.restore(parcel)
        parcel.evict()
        assert same(out, values)
        with pytest.raises(InputError, match="evicted"):
            channel.restore(parcel)
        pinned = channel.pinned_bytes
        assert channel.trim() == 0  # the other one lies in the same piece
        all_same(channel.restore_many(kept), [values])
        kept.evict()
        channel.synchronize()
        assert channel.trim(keep_bytes="4GiB") == 0
        assert channel.trim() == pinned
        assert channel.pinned_bytes == 0
        assert same(channel.restore(channel.offload(values)), values)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("codec", "dtype"), [(None, torch.bfloat16), *CODED])
def test_saved_parcels_are_read_with_a_gpu_and_without(tmp_path, codec, dtype, direction):
    values = made_up(dtype, (20 << 20) + 40).view(-1, 1)
    with to_host(codec, restore_by=direction) as channel:
        parcel = channel.offload(values, "kv")
        path = tmp_path / "x.lsp"
        assert parcel.save(path) == path.stat().st_size
        if codec is not None:
            assert path.stat().st_size < parcel.bytes
        found = lanescope.decompress(path.read_bytes(), framework="torch")
        assert found.dtype == dtype
        assert same(found, values)
        parcel.evict()
        back = channel.load(path, max_bytes="1GiB")
        assert (back.name, back.shape) == ("kv", tuple(values.shape))
        assert same(channel.restore(back), values)
        channel.synchronize()


def test_saved_pages_are_read_with_a_gpu_and_without():
    given = [*pages_of(MIXED), *pages_of([16 * KIB] * 100)]
    with to_host("delta") as channel:
        file = io.BytesIO()
        channel.offload_many(given, "kv").save(file)
        all_same(lanescope.decompress(file.getvalue(), framework="torch"), given)
        file.seek(0)
        back = channel.load(file)
        all_same(channel.restore_many(back), given)
        all_same(channel.restore_many(back, which=[50, 4]), [given[50], given[4]])


def test_a_stream_of_a_file_that_was_changed_names_the_block():
    values = torch.randn(2 << 20, device="cuda:0").to(torch.bfloat16)  # no block is constant
    with to_host("exponent") as channel:
        file = io.BytesIO()
        channel.offload(values).save(file)
        data = bytearray(file.getvalue())
        data[-3000] ^= 1
        channel.restore(channel.load(io.BytesIO(bytes(data))))
        with pytest.raises(LanescopeError, match="block 63 of 64"):
            channel.synchronize()


@pytest.mark.parametrize("which", [None, [4, 5, 6]])
def test_a_damaged_parcel_of_pages_names_the_block(which):
    cache = torch.randn((64, 32 * KIB), device="cuda:0").to(torch.bfloat16)
    with to_host("exponent") as channel:
        parcel = channel.offload_many(cache)
        parcel.groups[0].held.damage(5)
        channel.restore_many(parcel, which=which)
        with pytest.raises(LanescopeError, match=r"block 5 of 64 .*checksum"):
            channel.synchronize()


def test_a_cache_of_parcels_holds_what_was_used_last(tmp_path):
    given = {name: made_up(torch.float32, 8 << 20, seed=i) for i, name in enumerate("abcd")}
    with to_host("delta") as channel:
        parcels = {name: channel.offload(values) for name, values in given.items()}
        most = sum(sorted(one.stored_bytes for one in parcels.values())[-2:])
        cache = ParcelCache(most, folder=tmp_path, channel=channel)
        for name, parcel in parcels.items():
            cache[name] = parcel
        for name in "dacb":
            assert same(channel.restore(cache[name]), given[name])
        channel.synchronize()
        assert cache.stored_bytes <= most
