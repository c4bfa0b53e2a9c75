"""What arrays a stream can hold: those come back as they are, the others are refused."""

import sys

import numpy as np
import pytest

import lanescope
from lanescope import InputError
from lanescope.compression.stream import describe


def there_and_back(values, **options):
    return lanescope.decompress(lanescope.compress(values, **options))


class OfAnotherLibrary:
    """An array that is given by DLPack, or an error of its library's."""

    def __init__(self, error=None, device=(1, 0)):
        self.error, self.device = error, device

    def __dlpack_device__(self):
        if isinstance(self.device, Exception):
            raise self.device
        return self.device

    def __dlpack__(self, **options):
        if self.error is not None:
            raise self.error
        return np.arange(4.0).__dlpack__()


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
def test_the_type_comes_back(kind):
    for values in (
        np.arange(12, dtype=kind).reshape(3, 4),
        np.zeros((0, 3), kind),
        np.array(7, kind),
    ):
        same = there_and_back(values)
        assert (same.dtype, same.shape) == (values.dtype, values.shape)
        assert np.array_equal(same, values)
    scalar = there_and_back(np.dtype(kind).type(7))
    assert (scalar.dtype, scalar.shape) == (np.dtype(kind), ())


def test_bf16_of_ml_dtypes_comes_back_as_it_is():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.linspace(-3, 3, 1000).astype(ml_dtypes.bfloat16).reshape(10, 100)
    stream = lanescope.compress(values)
    assert describe(stream).dtype == "bfloat16"
    same = lanescope.decompress(stream)
    assert same.dtype == values.dtype
    assert np.array_equal(same, values)
    out = np.zeros_like(values)
    assert lanescope.decompress(stream, out=out) is out
    assert np.array_equal(out, values)
    assert np.array_equal(there_and_back(values.view(np.uint16), dtype="bfloat16"), values)
    with pytest.raises(InputError, match=r"values of int4; view them as uint8"):
        lanescope.compress(values.astype(ml_dtypes.int4))


def test_two_bytes_without_a_type_are_bf16_where_that_is_said(monkeypatch):
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)
    bits = np.arange(1000, dtype=np.uint16)
    same = there_and_back(bits.view("V2"), dtype="bfloat16")
    assert same.dtype == np.uint16
    assert np.array_equal(same, bits)
    with pytest.raises(InputError, match="say dtype='bfloat16' if they are that"):
        lanescope.compress(bits.view("V2"))


def test_bool_goes_as_uint8_where_that_is_said():
    mask = np.arange(1000) % 3 == 0
    assert np.array_equal(there_and_back(mask, dtype="uint8").view(bool), mask)
    out = np.zeros(1000, bool)
    assert np.array_equal(lanescope.decompress(lanescope.compress(mask.view("u1")), out=out), mask)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones(3, np.clongdouble), "values of complex256; view them as uint8"),
        (np.ones((2, 3), complex).T, "do not lie in C order"),
        (np.ones(3, ">c8"), "not in this machine's byte order"),
        (np.zeros(3, "M8[s]"), r"values of datetime64\[s\]; view them as int64"),
        (np.zeros(3, "m8[ns]"), "view them as int64"),
        (np.zeros(3, np.longdouble), "view them as uint8"),
        (np.zeros(3, "S5"), "view them as uint8"),
        (np.zeros(3, "U5"), "view them as uint8"),
        (np.zeros(3, object), "Python objects are no values"),
        (np.zeros(3, [("a", "f4")]), "knows no fields; compress each of them"),
        (np.zeros(3, [("a", object)]), "Python objects are no values"),
        (np.zeros(3, ">f4"), "not in this machine's byte order; turn them with .astype"),
        (np.zeros(6)[::2], "do not lie in C order; make them with numpy.ascontiguousarray"),
        (np.zeros(6)[::-1], "do not lie in C order"),
        (np.zeros((3, 4), order="F"), "do not lie in C order"),
        (np.ma.masked_array([1.0, 2.0], [0, 1]), "no room for the mask"),
        ([1, 2], "of type list is no array; make one with numpy.asarray"),
        (None, "of type NoneType is no array"),
        (np.ndarray, "of type type is no array"),
        (OfAnotherLibrary(BufferError("use tensor.detach()")), "as an array: use tensor.detach"),
        (
            OfAnotherLibrary(device=ValueError("device meta")),
            "where it lies: device meta; give one",
        ),
        (OfAnotherLibrary(device=None), "does not tell where it lies"),
    ],
)
def test_what_a_stream_cannot_hold_is_refused_with_what_to_do(values, words):
    with pytest.raises(InputError, match=words) as caught:
        lanescope.compress(values)
    assert "\n" not in str(caught.value)


def test_an_array_of_another_library_is_taken():
    assert np.array_equal(there_and_back(OfAnotherLibrary()), np.arange(4.0))


@pytest.mark.parametrize("kind", ["f4", "u1", "bool", "c8", "M8[s]", "V8", ">i4", "O"])
def test_room_of_another_type_gets_the_bytes(kind):
    values = np.arange(4, dtype=np.float32)
    out = np.zeros(16 // np.dtype(kind).itemsize, kind)
    if kind in (">i4", "O"):
        with pytest.raises(InputError, match="only into a writable array"):
            lanescope.decompress(lanescope.compress(values), out=out)
    else:
        lanescope.decompress(lanescope.compress(values), out=out)
        assert out.tobytes() == values.tobytes()


@pytest.mark.parametrize("what", ["read-only", "backwards", "short", "list"])
def test_room_that_cannot_be_is_refused(what):
    stream = lanescope.compress(np.arange(4.0))
    room = {"read-only": np.frombuffer(bytes(32)), "backwards": np.zeros(4)[::-1]}
    room |= {"short": np.zeros(3), "list": [0.0] * 4}
    with pytest.raises(InputError, match=r"only into a writable array|there is room for 24"):
        lanescope.decompress(stream, out=room[what])


@pytest.mark.parametrize("values", [np.array(["a"]), np.array([b"abc"]), np.zeros(3, "V40")])
def test_the_hint_for_texts_and_bytes_can_be_followed(values):
    with pytest.raises(InputError, match="view them as uint8") as refused:
        lanescope.compress(values)
    back = str(refused.value).rpartition("what comes back as ")[2]
    assert np.array_equal(there_and_back(values.view("uint8")).view(back), values)
