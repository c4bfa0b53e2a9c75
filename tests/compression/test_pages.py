"""Many arrays in one call, with cores and arrays that take the place of a GPU's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import lanescope
from lanescope import InputError, LanescopeError
from lanescope.compression import channel as channel_module
from lanescope.compression import deciding, page_copies, paging
from lanescope.compression import pages as pages_module
from lanescope.compression.array_values import gpu_array
from lanescope.compression.deciding import Always
from lanescope.compression.stream import Codec
from tests.compression.gpu_stand_ins import stand_in
from tests.compression.page_cores import Copier, HostCore, PeerCore, memory

Tensor = stand_in("torch")
CupyArray = stand_in("cupy")
KIB = 1 << 10


class OutOfMemoryError(RuntimeError):
    """By the name of that of PyTorch."""


@pytest.fixture(autouse=True)
def gpus(monkeypatch):
    """Two GPUs whose memory is the host's; `room` bounds an array of bytes."""

    class Gpus:
        cores, room = [], 1 << 40

    def core(kind):
        return lambda *options: Gpus.cores.append(kind(*options)) or Gpus.cores[-1]

    def new_array(framework, shape, dtype, gpu):
        kind = Tensor if framework == "torch" else CupyArray
        values = np.full(shape, 0x55, str(dtype).removeprefix("torch."))
        return kind(values, gpu)

    def new_bytes(framework, size, gpu):
        if size > Gpus.room:
            raise OutOfMemoryError("CUDA out of memory")
        return gpu_array(new_array(framework, (size,), "uint8", gpu), gpu, "room")

    Gpus.cores = []
    native = channel_module.native
    monkeypatch.setattr(native, "cuda_devices", lambda: [None, None])
    monkeypatch.setattr(native, "HostChannel", core(HostCore))
    monkeypatch.setattr(native, "DeviceChannel", core(PeerCore))
    monkeypatch.setattr(native, "PageCopier", Copier)
    monkeypatch.setattr(native, "reach_each_other", lambda one, other: True)
    for module in (channel_module, paging, page_copies):
        monkeypatch.setattr(module, "current_stream", lambda framework, gpu: 1000 + gpu)
    monkeypatch.setattr(pages_module, "new_array", new_array)
    monkeypatch.setattr(page_copies, "new_bytes", new_bytes)
    return Gpus


def host(compression="off", **options):
    return lanescope.Channel(0, "host", compression=compression, **options)


def made_up(sizes, kind=Tensor, gpu=0, dtype=np.float32):
    """Pages of so many bytes that count up, each with values of its own."""
    item = np.dtype(dtype).itemsize
    return [
        kind(np.arange(size // item, dtype=dtype) + 1000 * i, gpu) for i, size in enumerate(sizes)
    ]


def same(found, expected):
    assert len(found) == len(expected)
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one.shape == other.shape, i
        assert np.array_equal(one.host, other.host), i


MIXED = [64 * KIB, 16 * KIB, 4, 100, 256 * KIB, 16 * KIB, 64 * KIB + 12]


@pytest.mark.parametrize("codec", [None, "delta"])
@pytest.mark.parametrize("kind", [Tensor, CupyArray])
def test_pages_of_any_sizes_come_back(gpus, codec, kind):
    given = made_up(MIXED, kind)
    channel = host("on" if codec else "off", codec=codec or "auto")
    parcel = channel.offload_many(given, "kv")
    assert (len(parcel), parcel.bytes, parcel.tag) == (7, sum(MIXED), "kv")
    assert gpus.cores[0].moved == [("offload", sum(-(-size // 16) * 16 for size in MIXED))]
    same(channel.restore_many(parcel), given)
    assert [one.transfer.path for one in channel.log] == ["g0>host", "host>g0"]
    assert channel.log[0].transfer.dtype == "float32"


def test_pages_are_slices_of_a_cache():
    cache = Tensor(np.arange(20 * 4096, dtype=np.float32).reshape(20, 64, 64))
    channel = host()
    parcel = channel.offload_many(cache, pages=[3, 17, 0])
    assert (len(parcel), parcel.bytes) == (3, 3 * 16 * KIB)
    same(channel.restore_many(parcel), [cache[3], cache[17], cache[0]])
    out = Tensor(np.zeros((9, 64, 64), np.float32))
    assert channel.restore_many(parcel, out=out, pages=np.array([8, 1, 4])) is out
    same([out[8], out[1], out[4]], [cache[3], cache[17], cache[0]])
    assert not out.host[[0, 2, 3, 5, 6, 7]].any()


def test_slices_may_have_gaps_between_them():
    """Of a cache of keys and values: those of the keys alone."""
    cache = Tensor(np.arange(6 * 2 * 4096, dtype=np.float32).reshape(6, 2, 4096))
    keys = cache[:, 0]
    channel = host()
    parcel = channel.offload_many(keys, pages=[5, 2])
    same(channel.restore_many(parcel), [keys[5], keys[2]])


def test_all_slices_are_pages_where_none_are_named():
    cache = Tensor(np.arange(8 * 4096, dtype=np.float32).reshape(8, 4096))
    channel = host()
    assert len(channel.offload_many(cache)) == 8


@pytest.mark.parametrize("which", [[4], [6, 0], [1, 1, 5], np.array([2, 3])])
def test_some_pages_come_back_alone(gpus, which):
    given = made_up(MIXED)
    channel = host()
    parcel = channel.offload_many(given)
    same(channel.restore_many(parcel, which=which), [given[i] for i in which])
    assert gpus.cores[0].moved[1] == ("parts", sum(MIXED[i] for i in which))


def test_of_compressed_pages_the_blocks_that_hold_them_come(gpus):
    given = made_up([16 * KIB] * 40)
    channel = host("on", codec="delta")
    parcel = channel.offload_many(given, together=True)
    wanted = [1, 2, 39, 17]
    same(channel.restore_many(parcel, which=wanted), [given[i] for i in wanted])
    assert gpus.cores[0].moved[1] == ("blocks", 3)
    same(channel.restore_many(parcel, which=range(0, 40, 2)), given[::2])
    assert gpus.cores[0].moved[2] == ("restore", 40 * 16 * KIB)


def test_pages_that_are_smaller_than_blocks_travel_as_they_are(gpus):
    """Unless they come back together, too: blocks would bring neighbours of each along."""
    channel = host("on", codec="delta")
    small, large = made_up([16 * KIB] * 40), made_up([64 * KIB] * 10)
    parcel = channel.offload_many(small)
    assert not parcel.groups[0].decision.compress
    same(channel.restore_many(parcel, which=range(0, 40, 2)), small[::2])
    assert gpus.cores[0].moved[1] == ("parts", 20 * 16 * KIB)
    for given, together in ((small, True), (large, False), (small[:1], False)):
        parcel = channel.offload_many(given, together=together)
        assert all(group.decision.compress for group in parcel.groups)
        same(channel.restore_many(parcel), given)


def copies_of(monkeypatch):
    """How each kernel copies pages from here on, and how many."""
    copied = []

    def count(how, sizes_at):
        usual = getattr(Copier, how)

        def counted(self, *given):
            copied.append((how, len(given[sizes_at])))
            usual(self, *given)

        monkeypatch.setattr(Copier, how, counted)

    for how, sizes_at in (("copy", 2), ("gather", 1), ("scatter", 2)):
        count(how, sizes_at)
    return copied


def test_pages_of_whole_blocks_are_compressed_where_they_lie(gpus, monkeypatch):
    copied = copies_of(monkeypatch)
    channel = host("on", codec="delta")
    given = made_up([64 * KIB, 192 * KIB] * 30)
    parcel = channel.offload_many(given, "kv")
    assert copied == []
    assert {how for how, _ in gpus.cores[0].moved} == {"where they lie"}
    assert all(group.decision.compress for group in parcel.groups)
    same(channel.restore_many(parcel), given)


def test_the_first_pages_leave_where_they_lie_and_others_are_gathered_meanwhile(gpus, monkeypatch):
    copied = copies_of(monkeypatch)
    channel = host("off")
    given = made_up([64 * KIB] * 200)
    parcel = channel.offload_many(given)
    first, second = gpus.cores[0].moved
    assert first == ("where they lie", 128 * 64 * KIB)
    assert second == ("offload", 72 * 64 * KIB)
    channel.offload_many(made_up([64 * KIB] * 448))
    _, more, last = gpus.cores[0].moved[2:]
    assert more == ("offload", 240 * 64 * KIB)
    assert last == ("offload", 80 * 64 * KIB)
    assert sum(count for how, count in copied if how == "gather") == 72 + 320
    same(channel.restore_many(parcel), given)


def test_pages_leave_where_they_lie_if_there_is_no_memory_to_gather_them(gpus):
    channel = host("off")
    given = made_up([64 * KIB] * 200)
    gpus.room = 1 << 20
    parcel = channel.offload_many(given)
    assert {how for how, _ in gpus.cores[0].moved} == {"where they lie"}
    gpus.room = 1 << 40
    same(channel.restore_many(parcel), given)


def test_pages_leave_without_a_look_if_there_is_no_memory_for_it(gpus, monkeypatch):
    class Looker:
        is_free = True

        def begin(self, *given):
            """Look at nothing."""

        def take(self):
            """Say that nothing was found yet."""

    class Sampling(Always):
        def wants_sample(self, transfer):
            return True

        def take_sample(self, transfer, sampled):
            told.append(list(sampled))

    told = []
    monkeypatch.setattr(deciding.native, "Looker", Looker)
    channel = host(Sampling(compress=False))
    given = made_up([64 * KIB] * 20)
    gpus.room = 0
    parcel = channel.offload_many(given)
    assert told == [[]]
    gpus.room = 1 << 40
    same(channel.restore_many(parcel), given)


def test_a_look_at_pages_is_at_blocks_of_all_of_them(monkeypatch):
    looked = []

    def look(array, stream):
        looked.append((array.bytes, memory(array.pointer, array.bytes).copy()))
        return Codec.DELTA, 1

    monkeypatch.setattr(channel_module, "choose", look)
    pages = [np.repeat(np.arange(i, i + n, dtype=np.uint8), 64 * KIB) for i, n in ((0, 3), (3, 17))]
    host("on").offload_many([Tensor(page, 0) for page in pages])
    size, blocks = looked[0]
    assert size == 8 * 64 * KIB
    assert blocks[:: 64 * KIB].tolist() == [0, 2, 5, 8, 10, 13, 16, 19]


@pytest.mark.parametrize("each", [0, 1, 16, 100, 64 * KIB])
def test_pages_of_one_size_are_laid_out_as_others_are(each):
    same = pages_module.PageList("torch", 0, *np.full((2, 40), each, np.uint64), (), "uint8", each)
    known = dataclasses.replace(same, each=None)
    assert same.bytes == known.bytes
    for first in (0, 1, 38):
        for most in (0, each, 3 * each, 1 << 30):
            assert same.end_within(first, most) == known.end_within(first, most)


@pytest.mark.parametrize(
    ("begins", "sizes", "share"),
    [
        ([], [], False),
        ([64, 0, 32], [32, 32, 32], False),
        ([64, 0, 32], [32, 33, 32], True),
        ([0, 96, 8], [128, 8, 4], True),  # the second is within the first, behind the third
        ([32, 0, 32], [0, 32, 32], False),
    ],
)
def test_places_that_share_bytes_are_refused(begins, sizes, share):
    given = np.array(begins, np.uint64), np.array(sizes, np.uint64)
    if not share:
        pages_module.require_apart(*given)
        return
    with pytest.raises(InputError, match="the same bytes"):
        pages_module.require_apart(*given)


def test_pages_side_by_side_come_back_without_a_copy(gpus, monkeypatch):
    """New arrays that are alike, here and on another GPU."""
    given = made_up([64 * KIB] * 5)
    channel, there = host(), lanescope.Channel(0, 1, compression="off")
    parcel = channel.offload_many(given)
    copied = copies_of(monkeypatch)
    same(channel.restore_many(parcel), given)
    assert copied == []
    there.send_many(given)
    assert copied == [("gather", 5)]  # side by side, before they leave


def test_a_transfer_begins_before_it_is_known_where_pages_go(gpus, monkeypatch):
    given = made_up([64 * KIB] * 5)
    channel = host()
    parcel = channel.offload_many(given)
    collect = page_copies.collect
    moved = []

    def looking(*given):
        moved.append(len(gpus.cores[0].moved))
        return collect(*given)

    monkeypatch.setattr(page_copies, "collect", looking)
    out = made_up([64 * KIB] * 5)[::-1]
    channel.restore_many(parcel, out=out)
    same(out, given)
    assert moved == [2]


def test_more_than_a_group_goes_in_several_transfers(gpus, monkeypatch):
    monkeypatch.setattr(page_copies, "GROUP_BYTES", 200 * KIB)
    given = made_up([64 * KIB, 16 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 16 * KIB])
    channel = host()
    parcel = channel.offload_many(given)
    sizes = [size for _, size in gpus.cores[0].moved]
    assert sizes == [96 * KIB, 64 * KIB, 256 * KIB, 16 * KIB]
    same(channel.restore_many(parcel), given)
    same(channel.restore_many(parcel, which=[5, 0, 3]), [given[5], given[0], given[3]])


@pytest.fixture
def short_edges(monkeypatch):
    """First and last transfers of 64 KiB, and 512 KiB for all that are under way."""
    monkeypatch.setattr(pages_module, "LEAD_BYTES", 64 * KIB)
    monkeypatch.setattr(pages_module, "EDGE_BYTES", 64 * KIB)
    monkeypatch.setattr(page_copies, "GROUP_BYTES", 512 * KIB)


def test_the_first_and_the_last_pages_of_a_cache_go_apart(gpus, short_edges):
    cache = made_up([64 * 16 * KIB])[0]
    cache = cache._view(cache.host.reshape(64, -1))
    channel = host()
    numbers = list(range(60, 0, -1))
    parcel = channel.offload_many(cache, pages=numbers)
    sizes = [size // (16 * KIB) for _, size in gpus.cores[0].moved]
    assert sizes == [4, 16, 16, 16, 8]
    assert gpus.cores[0].is_joined
    out = Tensor(np.zeros_like(cache.host))
    channel.restore_many(parcel, out=out, pages=numbers)
    assert np.array_equal(out.host[1:61], cache.host[1:61])
    assert gpus.cores[0].is_joined
    found = channel.restore_many(parcel, which=[59, 0])
    assert np.array_equal(found[0].host, cache.host[1])
    with pytest.raises(InputError, match="no page 64 of the array"):
        channel.offload_many(cache, pages=[*range(60), 64])
    assert gpus.cores[0].is_joined


def test_transfers_begin_while_those_before_are_under_way(gpus, short_edges):
    given = made_up([16 * KIB] * 48)
    channel = host()
    parcel = channel.offload_many(given)
    core = gpus.cores[0]
    core.order.clear()
    out = made_up([16 * KIB] * 48)[::-1]
    channel.restore_many(parcel, out=out)
    same(out, given)
    # as many as there is memory for; the pages of the first go to their places meanwhile
    count = len(parcel.groups)
    assert count > 2
    assert core.order[:2] == ["restore", "restore"]
    assert core.order.count("join") == core.order.count("restore") == count
    assert core.is_joined


def test_what_has_begun_is_joined_where_places_do_not_fit(gpus, short_edges):
    given = made_up([16 * KIB] * 48)
    channel = host()
    parcel = channel.offload_many(given)
    with pytest.raises(InputError, match="47 places for 48 pages"):
        channel.restore_many(parcel, out=made_up([16 * KIB] * 47))
    assert "join" in gpus.cores[0].order
    assert gpus.cores[0].is_joined


@pytest.fixture
def looks(monkeypatch):
    """Tensors have a table, as those of PyTorch do; how many were looked at each time."""
    looks = []

    def table(api, arrays, gpu, pointers, sizes, begins):
        looks.append(len(arrays))
        pointers[:] = [one.data_ptr() for one in arrays]
        sizes[:] = [one.nbytes for one in arrays]
        begins[0] = 0
        return 1, *(int(np.bitwise_or.reduce(bits)) for bits in (pointers, sizes))

    monkeypatch.setattr(pages_module, "_table_of", lambda kind: kind)
    monkeypatch.setattr(pages_module.native, "tensor_table", table)
    return looks


@pytest.mark.parametrize(
    ("kib", "count", "expected"),
    [
        (64, 8, [1, 7]),
        (16, 32, [4, 16, 12]),
        (4, 70, [16, 16, 16, 16, 6]),
        (1, 300, [64, 64, 64, 64, 44]),
        (16, 2, [2]),
        (64, 1, [1]),
    ],
)
@pytest.mark.parametrize("kind", [list, tuple])
def test_larger_tensors_are_looked_at_in_fewer_parts(
    short_edges, looks, kib, count, expected, kind
):
    given = made_up([kib * KIB] * count)
    channel = host()
    parcel = channel.offload_many(kind(given))
    assert looks == expected
    assert [run.count for run in parcel.runs] == [count]
    same(channel.restore_many(parcel), given)


def test_the_first_of_a_long_list_leave_while_others_are_looked_at(gpus):
    given = made_up([1600] * 700)
    channel = host()
    parcel = channel.offload_many(given)
    assert [size for _, size in gpus.cores[0].moved] == [128 * 1600, 320 * 1600, 252 * 1600]
    assert [run.count for run in parcel.runs] == [700]
    same(channel.restore_many(parcel), given)
    wanted = [699, 127, 128, 0, 448]
    same(channel.restore_many(parcel, which=wanted), [given[i] for i in wanted])
    given[500].whole = False
    with pytest.raises(InputError, match="array 500 of the arrays to offload has gaps"):
        channel.offload_many(given)


def test_less_memory_means_more_transfers(gpus, monkeypatch):
    monkeypatch.setattr(page_copies, "LEAST_GROUP_BYTES", 32 * KIB)
    given = made_up([16 * KIB] * 32)
    gpus.room = 200 * KIB
    channel = host()
    parcel = channel.offload_many(given)
    assert len(parcel.groups) == 4
    gpus.room = 1  # not even one page: those that are stored as they are need none
    out = made_up([16 * KIB] * 32)
    for one in out:
        one.host[:] = 0
    channel.restore_many(parcel, out=out)
    same(out, given)
    with pytest.raises(LanescopeError, match="GPU 0 has no memory left for pages side by side"):
        channel.offload_many(given)


def test_compressed_pages_come_back_in_parts_where_memory_is_short(gpus, monkeypatch):
    monkeypatch.setattr(page_copies, "LEAST_GROUP_BYTES", 256 * KIB)
    given = made_up([64 * KIB] * 12)
    channel = host("on", codec="delta")
    parcel = channel.offload_many(given)
    out = made_up([64 * KIB] * 12)[::-1]
    gpus.room = 300 * KIB
    channel.restore_many(parcel, out=out)
    same(out, given)
    assert {how for how, _ in gpus.cores[0].moved[1:]} == {"blocks"}
    assert sum(size for _, size in gpus.cores[0].moved[1:]) == 12


@pytest.mark.parametrize("sizes", [[64 * KIB] * 4, MIXED])
def test_pages_go_to_another_gpu(gpus, sizes):
    given = made_up(sizes)
    channel = lanescope.Channel(0, 1, compression="off")
    there = channel.send_many(given, "kv")
    same(there, given)
    assert {one.gpu for one in there} == {1}
    assert [how for how, _ in gpus.cores[0].moved] == ["send"]
    assert channel.last.transfer.path == "g0>g1"
    out = made_up(sizes, gpu=1)
    for one in out:
        one.host[:] = 0
    assert channel.send_many(given, out=out) is out
    same(out, given)


def test_nothing_is_a_list_of_pages(gpus):
    channel = host()
    parcel = channel.offload_many([])
    assert (len(parcel), parcel.bytes, parcel.ratio) == (0, 0, 1.0)
    assert channel.restore_many(parcel) == []
    cache = Tensor(np.zeros((4, 16), np.float32))
    assert channel.restore_many(channel.offload_many(cache, pages=[])) == []
    assert gpus.cores[0].moved == []


def test_pages_of_several_types_are_bytes_to_codecs():
    given = [*made_up([1600]), *made_up([1600], dtype=np.int16)]
    channel = host()
    parcel = channel.offload_many(given)
    assert channel.last.transfer.dtype == "uint8"
    back = channel.restore_many(parcel)
    same(back, given)
    assert [str(one.dtype) for one in back] == ["torch.float32", "torch.int16"]


VALUES = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("arrays", "pages", "said"),
    [
        ([VALUES], None, "array 0 of the arrays to offload is no GPU tensor"),
        (3, None, "the arrays to offload cannot be 3; give a list of arrays"),
        ([Tensor(VALUES), Tensor(VALUES, gpu=1)], None, "array 1 .* lies on GPU 1, not on GPU 0"),
        ([Tensor(VALUES), Tensor(VALUES, whole=False)], None, "array 1 .* has gaps"),
        ([Tensor(VALUES), CupyArray(VALUES)], None, "of PyTorch and of CuPy"),
        ([Tensor(VALUES)], [0], "pages are numbers of slices of one array"),
        (Tensor(VALUES), [64], "there is no page 64 of the array, which has 64"),
        (Tensor(VALUES), [-1], "there is no page -1"),
        (Tensor(VALUES), [0.5], "pages cannot be of type list; give a list of whole numbers"),
        (Tensor(VALUES), "x", "give a list of whole numbers"),
        (Tensor(VALUES)[0], None, "with a first dimension; this one has none"),
        (Tensor(VALUES, gpu=1), [0], "a page of the arrays to offload lies on GPU 1"),
    ],
)
def test_pages_that_cannot_be_are_refused(arrays, pages, said):
    channel = host()
    with pytest.raises(InputError, match=said):
        channel.offload_many(arrays, pages=pages)
    assert channel.last is None


def test_places_that_do_not_fit_are_refused():
    given = made_up([64, 64, 128])
    channel = host()
    parcel = channel.offload_many(given)
    one = Tensor(np.zeros(64, np.uint8))
    for out, extra, said in [
        (made_up([64, 64]), {}, "there are 2 places for 3 pages"),
        (made_up([64, 128, 64]), {}, "the place of page 1 has 128 bytes, and 64 come"),
        ([one, one, made_up([128])[0]], {}, "two pages would be put to the same bytes"),
        (made_up([64, 64, 128], gpu=1), {}, "lies on GPU 1, not on GPU 0"),
        (made_up([64]), {"which": [3]}, "there is no page 3 of the parcel, which has 3"),
        (None, {"pages": [1]}, "there is no array whose slices"),
    ]:
        with pytest.raises(InputError, match=said):
            channel.restore_many(parcel, out=out, **extra)
    cache = Tensor(np.zeros((8, 16), np.float32))
    with pytest.raises(InputError, match="the same bytes"):
        channel.restore_many(parcel, out=cache, which=[0, 1], pages=[4, 4])


def test_the_wrong_verb_is_refused():
    there, to_host = lanescope.Channel(0, 1, compression="off"), host()
    given = made_up([64])
    parcel = to_host.offload_many(given)
    for use in (
        lambda: there.offload_many(given),
        lambda: there.restore_many(parcel),
        lambda: there.trim(),
        lambda: there.load("x"),
    ):
        with pytest.raises(InputError, match="goes to a GPU"):
            use()
    with pytest.raises(InputError, match="goes to the host; call offload_many"):
        to_host.send_many(given)
    with pytest.raises(InputError, match="give a Parcel"):
        to_host.restore(parcel)
    with pytest.raises(InputError, match="give a PageParcel"):
        to_host.restore_many(to_host.offload(given[0]))


def test_memory_is_given_back():
    channel = host()
    assert channel.trim() == 12345
    assert channel.trim(keep_bytes="1KiB") == 12345 - 1024
    channel.close()
    with pytest.raises(InputError, match="closed"):
        channel.trim()


def test_what_is_evicted_is_not_restored_by_its_name():
    channel = host()
    parcel = channel.offload_many(made_up([64]), "kv").named("block 7")
    assert (parcel.name, parcel.tag, parcel.evicted) == ("block 7", "kv", False)
    parcel.evict()
    assert parcel.evicted
