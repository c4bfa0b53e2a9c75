"""Values that codecs know as others come back as what they were: bool, complex numbers, fp8."""

import ctypes
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

import lanescope
from lanescope import InputError
from lanescope.compression.array_values import STORED
from lanescope.compression.codec import most_bytes
from lanescope.compression.stream import Codec, describe
from tests.compression.stream_format import HEADER, sealed

RNG = np.random.default_rng(3)
FP8 = [name for name in STORED if name.startswith("float8")]


def array_of(name, shape):
    """An array of random bits, of NumPy or ml_dtypes."""
    kind = np.dtype(name) if name not in FP8 else fp8(name)
    size = int(np.prod(shape)) * kind.itemsize
    bits = RNG.integers(0, 2 if name == "bool" else 256, size, np.uint8)
    return bits.view(kind).reshape(shape)


def fp8(name):
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 0, 2), (40_000,), (3, 1, 70), (2,) * 15])
def test_a_type_comes_back(name, shape):
    values = array_of(name, shape)
    stream = lanescope.compress(values)
    info = describe(stream)
    assert (info.dtype, info.shape, info.bytes) == (name, shape, values.nbytes)
    same = lanescope.decompress(stream)
    assert (same.dtype, same.shape) == (values.dtype, values.shape)
    assert same.tobytes() == values.tobytes()
    out = np.zeros(shape, values.dtype)
    assert lanescope.decompress(stream, out=out) is out
    assert out.tobytes() == values.tobytes()


@pytest.mark.parametrize("name", FP8)
def test_fp8_is_bytes_where_ml_dtypes_is_not_loaded(name, monkeypatch):
    stream = lanescope.compress(np.arange(256, dtype=np.uint8), dtype=name)
    assert describe(stream).dtype == name
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)
    assert lanescope.decompress(stream).dtype == np.uint8


@pytest.mark.parametrize("codec", [one for one in Codec if not one.by_nvcomp])
def test_all_codecs_keep_complex_numbers(codec):
    values = np.exp(1j * np.linspace(0, 30, 20_000)).astype("c8")
    same = lanescope.decompress(lanescope.compress(values, codec))
    assert np.array_equal(same, values)


def test_codecs_see_both_parts_of_complex_numbers():
    values = np.arange(50_000) + 7j
    assert len(lanescope.compress(values)) < values.nbytes / 2


def test_what_has_no_type_of_its_own_means_what_is_said():
    flags = lanescope.compress(bytes([0, 1, 1]), dtype="bool")
    assert lanescope.decompress(flags).tolist() == [False, True, True]
    parts = np.arange(6, dtype="f4").reshape(3, 2)
    numbers = lanescope.decompress(lanescope.compress(parts, dtype="complex64"))
    assert numbers.tolist() == [1j, 2 + 3j, 4 + 5j]
    with pytest.raises(InputError, match="of this type and shape cannot mean that"):
        lanescope.compress(parts.T.copy(), dtype="complex64")
    with pytest.raises(InputError, match="values of 4 bytes are not bytes"):
        lanescope.compress(parts, dtype="bool")


@pytest.mark.parametrize(
    ("lent", "name"),
    [
        (memoryview(np.arange(9) % 2 == 0), "bool"),
        ((ctypes.c_bool * 3)(True, False, True), "bool"),
        (memoryview(np.array([[1j, 2], [-0.0, 4 - 3j]], "c8")), "complex64"),
        (memoryview(np.array(3 - 4j)), "complex128"),
    ],
)
def test_what_a_buffer_says_comes_back(lent, name):
    same = lanescope.decompress(lanescope.compress(lent))
    assert (same.dtype.name, same.tolist()) == (name, np.asarray(lent).tolist())


def test_complex_numbers_are_put_into_memory_that_is_there():
    values = array_of("complex128", (500, 3))
    room = np.zeros(most_bytes(values.nbytes, values.ndim + 1), np.uint8)
    stream = lanescope.compress(values, "raw", out=room)
    assert np.shares_memory(stream, room)
    assert lanescope.decompress(stream).tobytes() == values.tobytes()


def test_complex_numbers_of_sixteen_dimensions_are_refused():
    with pytest.raises(InputError, match="more than 16 dimensions"):
        lanescope.compress(np.ones((1,) * 16, complex))


def test_only_streams_with_a_meaning_are_of_version_4():
    assert lanescope.compress(np.zeros(9, np.uint8))[4] == 3
    stream = lanescope.compress(np.zeros(9, bool))
    assert stream[:8].tobytes() == b"LSCZ\4\0\0\1"
    assert stream[29] == 1
    assert sealed(stream).tobytes() == stream.tobytes()


@pytest.mark.parametrize("meaning", [0, 3, 4])
def test_another_meaning_is_refused_even_with_a_header_that_fits(meaning):
    stream = lanescope.compress(np.zeros(9, bool))
    stream[29] = meaning
    with pytest.raises(InputError, match="its header and its table of blocks does not fit"):
        lanescope.decompress(stream)
    with pytest.raises(InputError, match="block 0: its checksum does not fit"):
        lanescope.decompress(sealed(stream))


@pytest.mark.parametrize(
    ("values", "meaning"),
    [
        (np.zeros(9, bool), 8),
        (np.zeros(9, bool), 255),
        (np.zeros(9, bool), 2),
        (np.zeros(9, complex), 1),
        (np.zeros(9, complex), 3),
    ],
)
def test_a_meaning_that_does_not_fit_is_refused(values, meaning):
    stream = lanescope.compress(values)
    stream[29] = meaning
    with pytest.raises(InputError, match="what its values mean does not fit their type"):
        lanescope.decompress(sealed(stream))


def test_complex_numbers_have_two_parts():
    stream = lanescope.compress(np.zeros((3, 2), complex))
    sides = stream[HEADER : HEADER + 24].view("<u8")
    assert sides.tolist() == [3, 2, 2]
    sides[:] = [2, 2, 3]
    with pytest.raises(InputError, match="what its values mean does not fit"):
        describe(sealed(stream))


def test_a_meaning_is_refused_in_older_versions():
    stream = lanescope.compress(np.zeros(9, np.uint8))
    stream[29] = 1
    for version in (1, 2, 3):
        with pytest.raises(InputError, match="that its version leaves zero"):
            describe(sealed(stream, version))


@pytest.mark.parametrize("most", [64 << 20, "64MiB"])
def test_an_array_as_large_as_allowed_is_decompressed(most):
    stream = lanescope.compress(np.zeros(8 << 20))
    assert not lanescope.decompress(stream, max_bytes=most).any()


@pytest.mark.parametrize("most", [1, "63MiB", (64 << 20) - 1])
def test_a_larger_array_is_refused_before_there_is_memory_for_it(most):
    stream = lanescope.compress(np.zeros(8 << 20))
    assert len(stream) < 64 << 20 >> 10
    tracemalloc.start()
    with pytest.raises(InputError, match="the stream becomes 64 MiB when it is decompressed, and"):
        lanescope.decompress(stream, max_bytes=most)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


class Tensor:
    """A tensor of PyTorch on the host, as far as it is looked at."""

    __module__ = "torch"

    def __init__(self, host, dtype, conjugated=False):
        self.host, self.dtype, self.conjugated = host, f"torch.{dtype}", conjugated
        self.layout, self.data_ptr = "torch.strided", None

    def is_conj(self):
        return self.conjugated

    def is_neg(self):
        return False

    def view(self, dtype):
        return self.host.view(dtype)


@pytest.fixture
def pretended_torch(monkeypatch):
    def view_as_real(tensor):
        return tensor.host.view(f"f{tensor.host.itemsize // 2}").reshape(*tensor.host.shape, 2)

    library = SimpleNamespace(uint8=np.uint8, view_as_real=view_as_real)
    monkeypatch.setitem(sys.modules, "torch", library)


@pytest.mark.usefixtures("pretended_torch")
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("bool", np.arange(300) % 3 == 0),
        ("complex64", np.arange(300).astype("c8") * 1j),
        ("complex128", np.arange(300) * (1 + 1j)),
        ("float8_e5m2", np.arange(256, dtype=np.uint8)),
    ],
)
def test_tensors_are_viewed_as_what_codecs_know(dtype, values):
    stream = lanescope.compress(Tensor(values, dtype))
    assert (describe(stream).dtype, describe(stream).shape) == (dtype, values.shape)
    room = np.zeros_like(values)
    assert isinstance(lanescope.decompress(stream, out=Tensor(room, dtype)), Tensor)
    assert room.tobytes() == values.tobytes()


@pytest.mark.usefixtures("pretended_torch")
def test_a_tensor_that_is_conjugated_when_it_is_read_is_refused():
    tensor = Tensor(np.ones(3, complex), "complex128", conjugated=True)
    with pytest.raises(InputError, match=r"call \.resolve_conj"):
        lanescope.compress(tensor)


def test_tensors_come_back_as_what_they_were():
    torch = pytest.importorskip("torch")
    bits = torch.arange(256, dtype=torch.uint8)
    wanted = [bits % 2 == 0, torch.complex(bits.float(), bits.float() + 1)]
    wanted += [bits.view(getattr(torch, name)) for name in FP8 if hasattr(torch, name)]
    for values in wanted:
        stream = lanescope.compress(values)
        same = lanescope.decompress(stream, framework="torch")
        out = torch.zeros(256, dtype=values.dtype)
        lanescope.decompress(stream, out=out)
        for found in (same, out):
            assert found.dtype == values.dtype
            view = torch.view_as_real if values.is_complex() else lambda one: one.view(torch.uint8)
            assert torch.equal(view(found), view(values))
    with pytest.raises(InputError, match=r"call \.resolve_conj"):
        lanescope.compress(wanted[1].conj())
