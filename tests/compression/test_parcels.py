"""Parcels as files: what is written comes back, and whatever is wrong is one sentence."""

from __future__ import annotations

import io
import json
import struct
import zlib

import numpy as np
import pytest

import lanescope
from lanescope import InputError
from lanescope.compression import parcels
from lanescope.compression.files import CompressedFile
from lanescope.compression.parcels import ParcelCache, read_parcel
from tests.compression.page_cores import HostCore, PeerCore
from tests.compression.test_pages import (
    KIB,
    MIXED,
    CupyArray,
    Tensor,
    gpus,
    host,
    made_up,
    same,
)

__all__ = ["gpus"]  # a fixture


@pytest.fixture(autouse=True)
def types(monkeypatch):
    """Types of PyTorch by their names, as the stand-ins have them."""
    monkeypatch.setattr(
        parcels,
        "_type_in",
        lambda framework, name: f"torch.{name}" if framework == "torch" else np.dtype(name),
    )


def saved(parcel):
    file = io.BytesIO()
    assert parcel.save(file) == len(file.getvalue())
    return file.getvalue()


def parcel_of(codec="delta", sizes=MIXED, kind=Tensor):
    channel = host("on" if codec else "off", codec=codec or "auto")
    return channel, channel.offload_many(made_up(sizes, kind), "kv")


@pytest.mark.parametrize("codec", [None, "delta", "zvc"])
@pytest.mark.parametrize("kind", [Tensor, CupyArray])
def test_pages_are_read_with_a_gpu_and_without(tmp_path, codec, kind):
    channel, parcel = parcel_of(codec, kind=kind)
    path = tmp_path / "kv.lsp"
    assert parcel.named("block 7").save(path) == path.stat().st_size
    back = channel.load(path, max_bytes="1MiB")
    assert (back.name, back.tag, back.bytes, len(back)) == ("block 7", "kv", sum(MIXED), 7)
    same(channel.restore_many(back), made_up(MIXED, kind))
    same(channel.restore_many(back, which=[6, 2]), [made_up(MIXED, kind)[i] for i in (6, 2)])
    for found in (read_parcel(path), lanescope.decompress(path.read_bytes())):
        for one, other in zip(found, made_up(MIXED), strict=True):
            assert (one.dtype, one.shape) == (other.host.dtype, other.shape)
            assert np.array_equal(one, other.host)


@pytest.mark.parametrize("codec", [None, "delta"])
def test_an_array_is_read_with_a_gpu_and_without(tmp_path, codec):
    values = np.arange(100_001, dtype=np.float32).reshape(-1, 1)
    channel = host("on" if codec else "off", codec=codec or "auto")
    parcel = channel.offload(Tensor(values), "field")
    data = saved(parcel)
    found = lanescope.decompress(data, max_bytes=values.nbytes)
    assert (found.shape, found.dtype) == (values.shape, values.dtype)
    assert np.array_equal(found, values)
    back = channel.load(io.BytesIO(data))
    assert (back.shape, back.name, back.framework) == (values.shape, "field", "torch")
    out = Tensor(np.zeros_like(values))
    channel.restore(back, out=out)
    assert np.array_equal(out.host, values)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("bool", np.arange(100) % 3 == 0),
        ("bfloat16", np.arange(100, dtype=np.uint16)),
        ("complex64", np.arange(100).astype(np.complex64)),
        ("float8_e4m3fn", np.arange(100, dtype=np.uint8)),
        ("float64", np.zeros((0, 3))),
    ],
)
def test_types_come_back_as_what_they_were(dtype, values):
    parcel = host().offload(Tensor(values, dtype=dtype))
    found = lanescope.decompress(saved(parcel))
    assert found.shape == values.shape
    assert np.array_equal(found.view(values.dtype), values)


def test_saved_parcels_follow_each_other_in_a_stream():
    file = io.BytesIO()
    channel, parcel = parcel_of()
    for name in "ab":
        parcel.named(name).save(file)
    file.seek(0)
    assert [channel.load(file).name for _ in "ab"] == ["a", "b"]
    file.seek(0)

    class Pipe:
        """Gives less than is wanted, and has no `readinto`."""

        def read(self, size):
            return file.read(min(size, 1000))

    assert len(read_parcel(Pipe())) == 7


def test_a_loaded_parcel_is_saved_as_it_was():
    channel, parcel = parcel_of()
    data = saved(parcel)
    assert saved(channel.load(io.BytesIO(data))) == data


def test_an_evicted_parcel_is_not_saved():
    _, parcel = parcel_of()
    parcel.evict()
    with pytest.raises(InputError, match="evicted"):
        parcel.save(io.BytesIO())


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path):
    _, parcel = parcel_of()
    for path in (tmp_path, tmp_path / "none" / "x.lsp"):
        with pytest.raises(InputError, match="cannot write"):
            parcel.save(path)
    assert list(tmp_path.iterdir()) == []


def test_every_byte_counts():
    """A byte that is another is noticed, wherever it stands."""
    channel, parcel = parcel_of(sizes=[48, 200, 16])
    data = np.frombuffer(saved(parcel), np.uint8)
    same(channel.restore_many(channel.load(data)), made_up([48, 200, 16]))
    for place in range(len(data)):
        for bit in (1, 128):
            changed = data.copy()
            changed[place] ^= bit
            with pytest.raises(InputError):
                read_parcel(io.BytesIO(changed.tobytes()))


def test_every_length_but_its_own_is_refused():
    _, parcel = parcel_of(sizes=[48, 200, 16])
    data = saved(parcel)
    for length in range(len(data)):
        with pytest.raises(InputError, match="cut off"):
            read_parcel(io.BytesIO(data[:length]))
        with pytest.raises(InputError, match=r"cut off|no stream"):
            lanescope.decompress(data[:length])
    with pytest.raises(InputError, match="bytes behind its last stream"):
        lanescope.decompress(data + b"\0")


def described(data, change):
    """The parcel with another description, whose checksum fits."""
    length = struct.unpack_from("<I", data, 8)[0]
    table = json.loads(data[16 : 16 + length])
    change(table)
    content = json.dumps(table).encode()
    content += b" " * (-len(content) % 16)
    front = struct.pack("<4sB3xII", b"LSCP", 1, len(content), zlib.crc32(content))
    return front + content + data[16 + length :]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.update(kind="box"), "of no kind that is known"),
        (lambda one: one.update(framework="jax"), "of no kind that is known"),
        (lambda one: one.update(kind="array"), "it is one array, and has another number"),
        (lambda one: one.update(dtype="complex64"), "'complex64' is no type that values are coded"),
        (lambda one: one["runs"][0].update(dtype="text"), "'text' is no type of values"),
        (lambda one: one["runs"][0].update(count=0), "count"),
        (lambda one: one["runs"][0].update(count=1 << 40), "more than 1048576 pages"),
        (lambda one: one["runs"][0].update(shape=[-1]), "shape"),
        (lambda one: one["runs"][0].update(shape=[1 << 62, 1 << 62]), "larger than anything"),
        (lambda one: one["runs"][0].update(shape=[1] * 65), "more than 64 sides"),
        (lambda one: one["runs"][0].update(shape=[13]), "another than it tells of"),
        (lambda one: one["groups"][0].update(pages=2), "not as many pages"),
        (lambda one: one["groups"][0].update(stored_bytes=5), "another than it tells of"),
        (lambda one: one.update(groups=[]), "not as many pages"),
        (lambda one: one.pop("name"), "'name' is missing"),
        (lambda one: one.update(more=1), "unknown field 'more'"),
    ],
)
def test_descriptions_that_cannot_be_are_refused(change, said):
    channel, parcel = parcel_of(sizes=[48, 200, 16])
    data = described(saved(parcel), change)
    for use in (read_parcel, channel.load):
        with pytest.raises(InputError, match=said) as error:
            use(io.BytesIO(data))
        assert ": it: " not in str(error.value)


def test_other_files_and_versions_are_refused(tmp_path):
    channel, parcel = parcel_of(sizes=[48])
    data = bytearray(saved(parcel))
    data[4] = 2
    with pytest.raises(InputError, match="parcel of version 2, and this lanescope reads version 1"):
        channel.load(io.BytesIO(bytes(data)))
    path = tmp_path / "x"
    path.write_bytes(b"something else")
    with pytest.raises(InputError, match=r"x is no parcel: it does not begin with LSCP"):
        read_parcel(path)
    with pytest.raises(InputError, match="cannot read"):
        read_parcel(tmp_path / "none")
    with pytest.raises(InputError, match="gives no bytes; open it as a binary one"):
        read_parcel(io.StringIO("text"))


def test_more_than_is_wanted_is_refused_before_there_is_memory_for_it(monkeypatch):
    channel, parcel = parcel_of(sizes=[64 * KIB] * 4)
    data = saved(parcel)
    monkeypatch.setattr(HostCore, "load_parcel", lambda *given: pytest.fail("it was pinned"))
    for use in (
        lambda: channel.load(io.BytesIO(data), max_bytes="255KiB"),
        lambda: read_parcel(io.BytesIO(data), max_bytes="255KiB"),
        lambda: lanescope.decompress(data, max_bytes="255KiB"),
    ):
        with pytest.raises(InputError, match="256 KiB when it is decompressed, and at most 255"):
            use()


def test_a_stream_in_it_cannot_promise_more_than_its_array():
    """Its header is read before memory is pinned for what it says."""
    channel, parcel = parcel_of(sizes=[64 * KIB])
    data = bytearray(saved(parcel))
    at = data.index(b"LSCZ")
    data[at + 24 : at + 28] = (1 << 31).to_bytes(4, "little")
    with pytest.raises(InputError, match="another length than its array can have"):
        channel.load(io.BytesIO(bytes(data)))


def test_a_parcel_is_no_compressed_file(tmp_path):
    _, parcel = parcel_of(sizes=[48])
    parcel.save(tmp_path / "x.lsp")
    with pytest.raises(InputError, match="is a parcel of a channel and no compressed file"):
        CompressedFile(tmp_path / "x.lsp")


def test_decompress_takes_no_room_for_parcels():
    _, parcel = parcel_of(sizes=[48])
    with pytest.raises(InputError, match="leave out= out"):
        lanescope.decompress(saved(parcel), out=np.zeros(48, np.uint8))


def test_what_is_no_parcel_needs_a_channel_to_the_host():
    there = lanescope.Channel(0, 1, compression="off")
    assert isinstance(there._core, PeerCore)
    with pytest.raises(InputError, match="goes to a GPU"):
        there.load("x")


def test_a_cache_holds_what_was_used_last():
    channel = host()
    parcels = {name: channel.offload_many(made_up([64 * KIB])) for name in "abcd"}
    cache = ParcelCache(3 * 64 * KIB)
    for name in "abc":
        cache[name] = parcels[name]
    assert cache["a"].name == "a"
    cache["d"] = parcels["d"]
    assert list(cache) == ["c", "a", "d"]
    assert parcels["b"].evicted
    assert not parcels["a"].evicted
    assert cache.get("b") is None
    with pytest.raises(KeyError):
        cache["b"]
    del cache["a"]
    assert parcels["a"].evicted
    assert (len(cache), cache.stored_bytes, "a" in cache) == (2, 2 * 64 * KIB, False)
    with pytest.raises(InputError, match="give it a larger limit"):
        cache["x"] = channel.offload_many(made_up([256 * KIB]))
    with pytest.raises(InputError, match="need a channel"):
        ParcelCache(1, folder="x")


def test_a_cache_saves_what_it_evicts(tmp_path):
    channel = host("on", codec="delta")
    cache = ParcelCache(60 * KIB, folder=tmp_path / "kv", channel=channel)
    for name in ("a/b", "c", ".."):
        cache[name] = channel.offload_many(made_up([64 * KIB]))
    assert sorted(path.name for path in (tmp_path / "kv").iterdir()) == ["a%2Fb.lsp"]
    assert sorted(cache) == ["..", "a/b", "c"]
    same(channel.restore_many(cache["a/b"]), made_up([64 * KIB]))
    del cache["a/b"]
    assert not (tmp_path / "kv" / "a%2Fb.lsp").exists()
