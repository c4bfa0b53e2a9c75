"""Compressed files: they come back byte by byte, and damaged ones are refused."""

import json
import os
import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from lanescope.compression import container, files
from lanescope.compression.files import CompressedFile, compress_file
from lanescope.errors import InputError

RNG = np.random.default_rng(5)
FRONT, TRAILER = 16, 32


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """So that arrays of some hundred KiB have several parts."""
    for module in (container, files):
        monkeypatch.setattr(module, "PART_BYTES", 128 << 10)


def there_and_back(path, **options):
    """Compress a file and restore it; return what it holds, and the compressed file."""
    target = path.with_name(f"{path.name}.lsc")
    compress_file(path, target, **options)
    with CompressedFile(target) as opened:
        opened.restore(path.with_name("back"))
    assert path.with_name("back").read_bytes() == path.read_bytes()
    return target


def npy(folder, values):
    np.save(folder / "values.npy", values)
    return folder / "values.npy"


def safetensors(folder, tensors, metadata=None, gap=b""):
    """Write a file as the format says: name to (type, shape, bytes)."""
    header, data = ({} if metadata is None else {"__metadata__": metadata}), b""
    for name, (dtype, shape, content) in tensors.items():
        data += gap
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    path = folder / "weights.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


KINDS = [f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)]
KINDS += ["f2", "f4", "f8", "?", "c8", "c16", "M8[s]", "U5", "S3", ">f4", "V2", "f4,i2"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (0, 3), (300, 211)])
def test_a_file_of_numpy_comes_back(tmp_path, kind, shape):
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    content = RNG.integers(0, 2 if kind == "?" else 100, size, np.uint8)
    values = np.frombuffer(content.tobytes(), kind).reshape(shape)
    target = there_and_back(npy(tmp_path, values))
    with CompressedFile(target) as opened:
        same = opened.read()
    assert (same.dtype, same.shape) == (values.dtype, values.shape)
    assert same.tobytes() == values.tobytes()


def test_fortran_order_and_what_is_behind_an_array_come_back(tmp_path):
    values = np.asfortranarray(RNG.normal(size=(200, 300)))
    path = npy(tmp_path, values)
    path.write_bytes(path.read_bytes() + b"more")
    with CompressedFile(there_and_back(path)) as opened:
        assert np.array_equal(opened.read(), values)


TENSORS = {
    "big": ("BF16", [300, 1000], RNG.normal(size=300_000).astype("f2").tobytes()),
    "mask": ("BOOL", [70_000], bytes(70_000)),
    "fp8": ("F8_E4M3", [2, 3], b"abcdef"),
    "fp8.2": ("F8_E5M2", [6], b"abcdef"),
    "complex": ("C64", [2], bytes(range(16))),
    "scalar": ("F32", [], b"\0\0\x80?"),
    "nothing": ("I64", [0, 7], b""),
    "unknown": ("F4", [9], b"12345"),
    "ü / ☃": ("U16", [3], b"abcdef"),
}


@pytest.mark.parametrize("gap", [b"", b"gap"])
def test_tensors_come_back_and_can_be_read_one_at_a_time(tmp_path, gap):
    path = safetensors(tmp_path, TENSORS, {"format": "pt", "step": "12"}, gap)
    with CompressedFile(there_and_back(path)) as opened:
        assert opened.names == tuple(TENSORS)
        for name, (_, shape, content) in reversed(TENSORS.items()):
            values = opened.read(name)
            assert values.tobytes() == content
            assert name == "unknown" or list(values.shape) == shape
        assert opened.read("mask").dtype == bool
        assert opened.read("complex").dtype == np.complex64
        with pytest.raises(InputError, match="hold a tensor 'other'; it has 'big', 'mask'"):
            opened.read("other")
        with pytest.raises(InputError, match="does not hold one array"):
            opened.read()


def test_names_are_shown_in_one_line(tmp_path):
    path = safetensors(tmp_path, {"a\nb": ("U8", [0], b""), "": ("U8", [0], b"")})
    with CompressedFile(there_and_back(path)) as opened, pytest.raises(InputError) as refused:
        opened.read("other")
    assert str(refused.value).endswith(r"it has 'a\nb', ''")


def test_a_file_that_was_closed_is_not_read(tmp_path):
    with CompressedFile(there_and_back(npy(tmp_path, np.zeros(5)))) as opened:
        pass
    with pytest.raises(InputError, match=r"values\.npy\.lsc is closed; read it before"):
        opened.read()


def test_the_whole_is_summed_up_once(tmp_path, monkeypatch):
    """And not for each of many tensors, which would take the square of their number."""
    tensors = {str(number): ("U8", [1], b"x") for number in range(20)}
    target = there_and_back(safetensors(tmp_path, tensors))
    whole, sums = container.Index.bytes, []
    counted = property(lambda index: sums.append(index) or whole.fget(index))
    with CompressedFile(target) as opened:
        monkeypatch.setattr(container.Index, "bytes", counted)
        opened.restore(tmp_path / "back")
    assert len(sums) == 1


@pytest.mark.filterwarnings("error")
def test_a_tensor_is_found_without_a_look_at_the_others(tmp_path):
    tensors = {f"layer.{i}": ("U8", [1], bytes([i])) for i in range(200)}
    target = there_and_back(safetensors(tmp_path, tensors))

    class Segments(tuple):
        looks = 0

        def __iter__(self):
            type(self).looks += 1
            return super().__iter__()

    with CompressedFile(target) as opened:
        object.__setattr__(opened.index, "segments", Segments(opened.index.segments))
        for name, (_, _, content) in tensors.items():
            assert opened.read(name).tobytes() == content
        assert Segments.looks == 0


def test_a_header_of_python_2_is_read_without_a_warning(tmp_path):
    path = npy(tmp_path, np.zeros(5))
    path.write_bytes(path.read_bytes().replace(b"(5,), }", b"(5L,),}"))
    with CompressedFile(there_and_back(path)) as opened:
        assert opened.read().shape == (5,)


def test_types_of_ml_dtypes_come_back_as_what_they_were(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with CompressedFile(there_and_back(safetensors(tmp_path, TENSORS))) as opened:
        assert opened.read("big").dtype == ml_dtypes.bfloat16
        assert opened.read("fp8").dtype == ml_dtypes.float8_e4m3fn
        assert opened.read("fp8.2").dtype == ml_dtypes.float8_e5m2


def test_tensors_are_those_of_pytorch_where_that_is_said(tmp_path):
    torch = pytest.importorskip("torch")
    with CompressedFile(there_and_back(safetensors(tmp_path, TENSORS))) as opened:
        big, mask = (opened.read(name, framework="torch") for name in ("big", "mask"))
        assert (big.dtype, tuple(big.shape), mask.dtype) == (
            torch.bfloat16,
            (300, 1000),
            torch.bool,
        )
        assert big.view(torch.uint8).numpy().tobytes() == TENSORS["big"][2]
        assert tuple(opened.read("nothing", framework="torch").shape) == (0, 7)
        assert opened.read("scalar", framework="torch").item() == 1.0


def test_there_are_two_frameworks(tmp_path):
    target, words = there_and_back(npy(tmp_path, np.zeros(5))), "no framework 'jax'; give numpy or"
    with CompressedFile(target) as opened, pytest.raises(InputError, match=words):
        opened.read(framework="jax")


def test_a_header_that_none_has_is_refused(tmp_path):
    target = there_and_back(npy(tmp_path, np.zeros(5)))
    reindexed(target, lambda one: one.update(segments=one["segments"][::-1]))
    with CompressedFile(target) as opened, pytest.raises(InputError):
        opened.read()


def test_one_tensor_becomes_a_file_that_safetensors_reads(tmp_path):
    library = pytest.importorskip("safetensors")
    values = {"a": RNG.normal(size=(40, 50)), "b": np.arange(90_000)}
    from safetensors.numpy import save_file

    save_file(values, tmp_path / "x.safetensors", {"step": "12"})
    with CompressedFile(there_and_back(tmp_path / "x.safetensors")) as opened:
        opened.extract("b", tmp_path / "b.safetensors")
    with library.safe_open(tmp_path / "b.safetensors", "np") as file:
        assert list(file.keys()) == ["b"]
        assert file.metadata() == {"step": "12"}
        assert np.array_equal(file.get_tensor("b"), values["b"])


@pytest.mark.parametrize("size", [0, 1, 3, 128 << 10, (128 << 10) + 5])
@pytest.mark.parametrize(("name", "dtype"), [("x.f32", None), ("x.bin", None), ("x", "float64")])
def test_values_without_a_header_come_back(tmp_path, size, name, dtype):
    path = tmp_path / name
    path.write_bytes(RNG.integers(0, 9, size, np.uint8).tobytes())
    with CompressedFile(there_and_back(path, dtype=dtype)) as opened:
        assert opened.read().tobytes() == path.read_bytes()[: opened.read().nbytes]


def test_a_codec_codes_what_it_takes(tmp_path):
    tensors = {
        "a": ("F32", [1000], np.arange(1000, dtype="f4").tobytes()),
        "b": ("I8", [1000], np.arange(1000).astype("i1").tobytes()),
    }
    target = there_and_back(safetensors(tmp_path, tensors), codec="exponent")
    with CompressedFile(target) as opened:
        assert [one.codecs for one in opened.index.segments[1:]] == [["exponent"], ["raw"]]
    with pytest.raises(InputError, match="'ans' is no codec of the host; give one of auto, raw"):
        compress_file(npy(tmp_path, np.zeros(3)), tmp_path / "x.lsc", codec="ans")


def most_memory(work):
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_memory_is_bounded_by_a_part(tmp_path):
    path, target = tmp_path / "x.u8", tmp_path / "x.u8.lsc"
    path.write_bytes(bytes(200 * container.PART_BYTES))
    assert most_memory(lambda: compress_file(path, target)) < 10 * container.PART_BYTES

    def restore():
        with CompressedFile(target) as opened:
            opened.restore(tmp_path / "back")

    assert most_memory(restore) < 10 * container.PART_BYTES


def test_nobody_else_may_read_what_only_its_owner_may(tmp_path):
    path = npy(tmp_path, np.zeros(5))
    path.chmod(0o600)
    target = there_and_back(path)
    assert target.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "back").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.npy", b"text", "is no array of NumPy"),
        ("x.npy", b"\x93NUMPY\2\0\0\x40\0\0" + b" " * 0x4000, "give it a name without .npy"),
        ("x.safetensors", b"", "its header does not lie within it"),
        ("x.safetensors", b"\xff" * 20, "its header does not lie within it"),
        ("x.safetensors", b"\2" + bytes(7) + b"[]", "its header is none of safetensors"),
        ("x.safetensors", b"\2" + bytes(7) + b"{", "its header does not lie within it"),
    ],
)
def test_a_damaged_file_is_not_compressed(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        compress_file(tmp_path / name, tmp_path / "x.lsc")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "x.lsc").exists()


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "has 4 bytes, and its shape"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}, "does not lie within it"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}, "none of safetensors"),
        ({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}, "none of safetensors"),
        ({"dtype": 7, "shape": [2], "data_offsets": [0, 8]}, "none of safetensors"),
        ({"shape": [2]}, "none of safetensors"),
        (None, "none of safetensors"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, about, words):
    text = json.dumps({"a": about}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(InputError, match=words):
        compress_file(path, tmp_path / "x.lsc")


def npy_of(folder, shape, descr="<f4", content=bytes(64)):
    """Write a file of NumPy whose header says what NumPy never writes."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header = header.ljust(245) + b"\n"
    path = folder / "x.npy"
    path.write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + content)
    return path


@pytest.mark.parametrize("shape", ["(-1, -1)", "(-20000,)", "(True,)", f"(0, {1 << 63})"])
def test_a_shape_that_no_array_has_is_refused(tmp_path, shape):
    path = npy_of(tmp_path, shape)
    with pytest.raises(InputError, match="no array of NumPy: its header has the shape") as caught:
        compress_file(path, tmp_path / "x.lsc")
    assert shape in str(caught.value)
    assert not (tmp_path / "x.lsc").exists()


@pytest.mark.parametrize("shape", ["(3", "(1,)*40", "(1, 'a", "\n  (1,)\n 2", "(" * 9000])
def test_a_header_that_numpy_cannot_parse_is_refused(tmp_path, shape):
    path = npy_of(tmp_path, shape)
    with pytest.raises(InputError, match=r"no array of NumPy: .*; copy or write it") as caught:
        compress_file(path, tmp_path / "x.lsc")
    assert "\n" not in str(caught.value)
    assert " at 0x" not in str(caught.value)


def test_a_name_that_is_no_text_is_refused(tmp_path):
    path = safetensors(tmp_path, {"\ud800x": ("F32", [1], bytes(4))})
    with pytest.raises(InputError, match=r"name of tensor '.ud800x' is no text"):
        compress_file(path, tmp_path / "x.lsc")


def test_nothing_is_written_that_would_be_refused(tmp_path, monkeypatch):
    path = safetensors(tmp_path, {"a": ("F32", [1], bytes(4))})
    monkeypatch.setattr(container, "MOST_TEXT_BYTES", 100)
    with pytest.raises(InputError, match=r"weights\.safetensors cannot be compressed as"):
        compress_file(path, tmp_path / "x.lsc")
    assert not (tmp_path / "x.lsc").exists()


def test_more_dimensions_than_arrays_have_are_one_sentence(tmp_path):
    tensor = safetensors(tmp_path, {"a": ("F32", [1] * 71, bytes(4))})
    for path, name in ((tensor, "a"), (npy_of(tmp_path, "(" + "1," * 71 + ")"), None)):
        with (
            CompressedFile(there_and_back(path)) as opened,
            pytest.raises(InputError, match="no array here can have 71 dimensions"),
        ):
            opened.read(name)


@pytest.mark.parametrize("kind", ["|V0", "|S0", "<U0"])
def test_values_without_bytes_are_read(tmp_path, kind):
    with CompressedFile(there_and_back(npy_of(tmp_path, "(3, 2)", kind))) as opened:
        array = opened.read()
    assert (array.dtype.str, array.shape) == (kind, (3, 2))


def test_a_file_that_changes_meanwhile_is_refused(tmp_path):
    path = tmp_path / "x.u8"
    path.write_bytes(bytes(300 << 10))

    def grow(done, total):
        with path.open("ab") as file:
            file.write(b"more")

    with pytest.raises(InputError, match="changed while it was read"):
        compress_file(path, tmp_path / "x.lsc", progress=grow)
    assert os.listdir(tmp_path) == ["x.u8"]


def test_an_interrupted_file_leaves_nothing(tmp_path):
    path = tmp_path / "x.u8"
    path.write_bytes(bytes(300 << 10))
    target = there_and_back(path)
    (tmp_path / "back").unlink()

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compress_file(path, tmp_path / "y.lsc", progress=interrupt)
    with CompressedFile(target) as opened, pytest.raises(KeyboardInterrupt):
        opened.restore(tmp_path / "back", progress=interrupt)
    assert set(os.listdir(tmp_path)) == {"x.u8", target.name}


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    path = npy(tmp_path, np.zeros(5))
    monkeypatch.setattr(os, "fsync", lambda file: os.posix_fallocate(file, 0, 1 << 62))
    with pytest.raises(InputError, match=r"cannot write .*x\.lsc: (File too|No space)"):
        compress_file(path, tmp_path / "x.lsc")
    assert os.listdir(tmp_path) == [path.name]


def noise_file(folder):
    """Return a compressed file with three parts of noise."""
    path = folder / "x.u8"
    path.write_bytes(RNG.integers(0, 256, 300 << 10, np.uint8).tobytes())
    return there_and_back(path)


def test_every_byte_counts(tmp_path):
    target = noise_file(tmp_path)
    whole = target.read_bytes()
    places = {*range(FRONT), *range(len(whole) - TRAILER, len(whole))}
    places |= {*RNG.integers(0, len(whole), 200).tolist()}
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << int(RNG.integers(8))
        target.write_bytes(changed)
        with pytest.raises(InputError), CompressedFile(target) as opened:
            opened.restore(tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("keep", [0, 3, 16, 40, 100_000, -1, -40])
def test_a_file_that_is_cut_off_is_refused(tmp_path, keep):
    target = noise_file(tmp_path)
    target.write_bytes(target.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"is damaged|is no compressed file"):
        CompressedFile(target)


def test_parts_that_change_places_are_refused(tmp_path):
    target = noise_file(tmp_path)
    whole = bytearray(target.read_bytes())
    with CompressedFile(target) as opened:
        one, other = (part.stored_bytes for part in opened.index.segments[0].parts[:2])
    assert one == other
    a, b = slice(FRONT, FRONT + one), slice(FRONT + one, FRONT + 2 * one)
    whole[a], whole[b] = whole[b], whole[a]
    target.write_bytes(whole)
    with CompressedFile(target) as opened, pytest.raises(InputError, match="part 0: it is another"):
        opened.read()


def reindexed(path, change):
    """Change the index of a compressed file, so that its checksum fits."""
    whole = path.read_bytes()
    begin, length, _, end = struct.unpack("<QQI8x4s", whole[-TRAILER:])
    index = json.loads(whole[begin : begin + length])
    change(index)
    text = json.dumps(index).encode()
    trailer = struct.pack("<QQI8x4s", begin, len(text), zlib.crc32(text), end)
    path.write_bytes(whole[:begin] + text + trailer)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: one.update(version=3), "has version 3 of its schema"),
        (lambda one: one.update(segments=7), "segments"),
        (lambda one: one["segments"][0].update(dtype="object"), "'object', which is no type"),
        (lambda one: one["segments"][0].update(shape=[1 << 62]), "not all parts"),
        (lambda one: one["segments"][0].update(shape=[1 << 50]), "not all parts"),
        (lambda one: one["segments"][0].update(shape=[1 << 40, 1 << 40]), "not all parts"),
        (lambda one: one["segments"][0].update(shape=[5]), "not all parts"),
        (lambda one: one["segments"][0]["parts"][0].update(stored_bytes=1 << 50), "of a length"),
        (lambda one: one["segments"][0]["parts"][2].update(stored_bytes=16), "not as long as"),
        (lambda one: one["segments"].pop(), "not as long as"),
    ],
)
def test_an_index_that_lies_is_refused(tmp_path, change, words):
    target = noise_file(tmp_path)
    reindexed(target, change)
    with pytest.raises(InputError, match=words) as caught:
        CompressedFile(target)
    assert "\n" not in str(caught.value)


def test_what_becomes_too_large_is_refused_before_it_is_read(tmp_path):
    target = noise_file(tmp_path)
    assert CompressedFile(target, max_bytes=300 << 10).close() is None
    with pytest.raises(InputError, match="becomes 300 KiB when it is decompressed, and at most"):
        CompressedFile(target, max_bytes=(300 << 10) - 1)


def test_a_stream_is_no_compressed_file(tmp_path):
    import lanescope

    (tmp_path / "x.lsc").write_bytes(lanescope.compress(np.arange(9)).tobytes())
    with pytest.raises(InputError, match=r"is a stream of lanescope\.compress and no compressed"):
        CompressedFile(tmp_path / "x.lsc")


#: What a field of an index becomes.
ODD = [None, True, -1, 0, 1, 16, 2**31, 2**63, 1e300, "", "uint16", "raw", "\0", [], [0], {}, [[]]]


def mutated(index, rng):
    """Change some fields of an index, or leave some out, or put one twice."""
    for _ in range(rng.integers(1, 4)):
        place = index
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = keys[rng.integers(len(keys))]
            inner = place[key]
            if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
                place = inner
                continue
            match rng.integers(4):
                case 0:
                    del place[key]
                case 1 if isinstance(place, list):
                    place.append(inner)
                case 2 if isinstance(inner, int):
                    place[key] = inner + int(rng.integers(-2, 3)) * 16
                case _:
                    place[key] = ODD[rng.integers(len(ODD))]
            break


@pytest.mark.parametrize("seed", range(20))
def test_a_made_up_index_is_refused_or_means_the_same_file(tmp_path, seed):
    rng = np.random.default_rng(seed)
    path = safetensors(tmp_path, TENSORS, {"format": "pt"})
    target = there_and_back(path)
    whole, sentences = target.read_bytes(), []
    for _ in range(15):
        target.write_bytes(whole)
        reindexed(target, lambda index: mutated(index, rng))
        try:
            with CompressedFile(target, max_bytes="4MiB") as opened:
                opened.restore(tmp_path / "made up")
        except InputError as error:
            sentences.append(str(error))
        else:
            assert (tmp_path / "made up").read_bytes() == path.read_bytes()
    assert sentences
    assert not [one for one in sentences if "\n" in one]


def test_no_file_is_written_onto_itself(tmp_path):
    path = npy(tmp_path, np.arange(9.0))
    target = tmp_path / "values.lsc"
    compress_file(path, target)
    raw, stored = path.read_bytes(), target.read_bytes()
    soft, hard = tmp_path / "soft", tmp_path / "hard"
    soft.symlink_to(path)
    hard.hardlink_to(path)
    for place in (path, soft, hard):
        with pytest.raises(InputError, match="would be written onto itself; name another place"):
            compress_file(path, place)
    with CompressedFile(target) as opened:
        for act in (opened.restore, lambda place: opened.extract("wte", place)):
            with pytest.raises(InputError, match="would be written onto itself"):
                act(target)
    assert (path.read_bytes(), target.read_bytes()) == (raw, stored)


def test_too_many_threads_are_no_damage(tmp_path):
    path = npy(tmp_path, np.arange(9.0))
    target = there_and_back(path)
    words = "^5000 threads are not 0 to 1024; give fewer$"
    with pytest.raises(InputError, match=words):
        compress_file(path, tmp_path / "other.lsc", threads=5000)
    with CompressedFile(target) as opened:
        for act in (opened.read, lambda threads: opened.restore(path, threads=threads)):
            with pytest.raises(InputError, match=words):
                act(threads=5000)
