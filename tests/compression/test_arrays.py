"""Arrays in files, as they come back and as they are refused."""

import json
import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import netcdf_file

from lanescope.compression.arrays import open_arrays
from lanescope.errors import InputError


def only(path, dtype=None):
    (entry,) = open_arrays(path, dtype).entries
    return entry


def saved(path, values, **options):
    np.save(path, values, **options)
    return path


def write_safetensors(path, tensors):
    """Write a file as the format's README has it, so that bf16 needs no library."""
    header, data = {}, b""
    for name, (kind, values) in tensors.items():
        end = len(data) + values.nbytes
        header[name] = {
            "dtype": kind,
            "shape": list(values.shape),
            "data_offsets": [len(data), end],
        }
        data += values.tobytes()
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u2", "u1"])
def test_npy_comes_back(tmp_path, dtype):
    values = np.arange(60).reshape(3, 20).astype(dtype)
    entry = only(saved(tmp_path / "a.npy", values))
    assert (entry.dtype, entry.shape) == (values.dtype.name, (3, 20))
    assert entry.bytes == values.nbytes
    loaded = entry.load()
    assert np.array_equal(loaded, values)
    assert not loaded.flags.writeable
    assert entry.note == ""


def test_npy_of_another_order_is_turned_and_told(tmp_path):
    values = np.arange(6, dtype=">f4").reshape(2, 3)
    entry = only(saved(tmp_path / "a.npy", values))
    assert entry.load().dtype == np.dtype("f4")
    assert np.array_equal(entry.load(), values)
    assert "byte order" in entry.note
    fortran = only(saved(tmp_path / "f.npy", np.asfortranarray(values.astype("f4"))))
    assert fortran.shape == (3, 2)
    assert np.array_equal(fortran.load(), values.T)
    assert fortran.load().flags.c_contiguous
    assert "Fortran" in fortran.note


def test_npy_of_one_value_and_of_bools(tmp_path):
    assert only(saved(tmp_path / "a.npy", np.array(2.5))).load().shape == ()
    bools = only(saved(tmp_path / "b.npy", np.array([True, False])))
    assert bools.dtype == "uint8"
    assert bools.load().tolist() == [1, 0]


def test_npy_of_two_bytes_can_be_bf16(tmp_path):
    path = saved(tmp_path / "a.npy", np.array([1, 2], np.uint16))
    assert only(path).dtype == "uint16"
    entry = only(path, "bfloat16")
    assert entry.dtype == "bfloat16"
    assert entry.load().tolist() == [1, 2]
    # as NumPy stores what ml_dtypes gives it
    void = saved(tmp_path / "v.npy", np.array([1, 2], np.uint16).view("V2"))
    with pytest.raises(InputError, match="say dtype bfloat16"):
        open_arrays(void)
    assert only(void, "bfloat16").load().tolist() == [1, 2]
    with pytest.raises(InputError, match="another size"):
        open_arrays(path, "float64")


@pytest.mark.parametrize(("suffix", "dtype"), [(".f64", "f8"), (".f32", "f4"), (".i16", "i2")])
def test_raw_files_are_known_by_their_names(tmp_path, suffix, dtype):
    values = np.arange(7, dtype=dtype)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(values.tobytes())
    assert np.array_equal(only(path).load(), values)
    assert only(path).dtype == values.dtype.name


def test_raw_files_of_bf16_and_of_other_names(tmp_path):
    path = tmp_path / "a.bf16"
    path.write_bytes(b"\x01\x00\x02\x00")
    assert only(path).dtype == "bfloat16"
    assert only(path).load().tolist() == [1, 2]
    other = path.rename(tmp_path / "a.bin")
    assert only(other, "int32").load().tolist() == [0x00020001]


def test_classic_netcdf(tmp_path):
    path = tmp_path / "a.nc"
    with netcdf_file(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 4)
        file.createDimension("y", 3)
        file.createVariable("heat", "f4", ("x", "y"))[:] = np.arange(12).reshape(4, 3)
        file.createVariable("grown", "f8", ("t", "x"))[:2] = np.arange(8).reshape(2, 4)
        file.createVariable("label", "c", ("x",))[:] = np.array([b"a", b"b", b"c", b"d"])
    opened = open_arrays(path)
    values = {entry.name.rsplit(":", 1)[1]: entry.load() for entry in opened.entries}
    assert set(values) == {"heat", "grown"}
    assert np.array_equal(values["heat"], np.arange(12, dtype="f4").reshape(4, 3))
    assert np.array_equal(values["grown"], np.arange(8.0).reshape(2, 4))
    assert all(array.dtype.isnative for array in values.values())
    assert [one for one in opened.left_out if one.startswith("label holds")]


def test_netcdf_of_one_value(tmp_path):
    with netcdf_file(tmp_path / "a.nc", "w") as file:
        file.createVariable("one", "i4", ())[...] = 5
    assert only(tmp_path / "a.nc").load().tolist() == 5


def test_safetensors_with_bf16(tmp_path):
    pytest.importorskip("safetensors")
    floats = np.arange(6, dtype="f4").reshape(2, 3)
    path = write_safetensors(
        tmp_path / "m.safetensors",
        {
            "a": ("U8", np.arange(3, dtype="u1")),  # what follows lies at an odd address
            "w": ("BF16", np.array([[1, 2], [3, 4]], "u2")),
            "f": ("F32", floats),
            "none": ("F32", np.zeros((0, 4), "f4")),
            "c": ("C64", np.zeros(2, "c8")),
            "fp8": ("F8_E4M3FNUZ", np.array([7, 8], "u1")),
        },
    )
    opened = open_arrays(path)
    told = {entry.name.rsplit(":", 1)[1]: entry for entry in opened.entries}
    assert told["w"].dtype == "bfloat16"
    assert told["w"].load().tolist() == [[1, 2], [3, 4]]
    assert np.array_equal(told["f"].load(), floats)
    assert told["fp8"].load().tolist() == [7, 8]
    assert opened.left_out == (
        "none holds no values",
        "c holds C64, which is measured as real numbers alone",
    )


def test_what_the_package_wrote_is_read(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    values = np.linspace(0, 1, 11)
    numpy.save_file({"x": values}, tmp_path / "m.safetensors")
    assert np.array_equal(only(tmp_path / "m.safetensors").load(), values)


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    (tmp_path / "m.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match=r"pip install 'lanescope\[safetensors\]'"):
        open_arrays(tmp_path / "m.safetensors")


def test_broken_safetensors(tmp_path):
    pytest.importorskip("safetensors")
    path = write_safetensors(tmp_path / "m.safetensors", {"f": ("F32", np.zeros(6, "f4"))})
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InputError, match="no whole file of safetensors"):
        open_arrays(path)


def cut_off(tmp_path):
    path = saved(tmp_path / "a.npy", np.arange(1000))
    path.write_bytes(path.read_bytes()[:-1])
    return path


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda at: at / "nowhere.npy", "No such file"),
        (lambda at: at, "is a folder"),
        (lambda at: written(at, "a.txt", b"text"), "say with dtype"),
        (lambda at: written(at, "a.f64", b""), "is empty"),
        (lambda at: Path("/dev/zero"), "is a device and no regular file"),
        (lambda at: written(at, "a.f64", b"1234567"), "no whole number of float64"),
        (lambda at: written(at, "a.npy", b"no array at all"), "no array of NumPy"),
        (lambda at: written(at, "a.npy", b"\x93NUMPY\x01\x00\xff\xff{"), "empty or cut off"),
        (cut_off, "is cut off"),
        (lambda at: saved(at / "a.npy", np.zeros((0, 3))), "without values"),
        (lambda at: saved(at / "a.npy", np.array([{}, None]), allow_pickle=True), "Python objects"),
        (lambda at: saved(at / "a.npy", np.zeros(3, "c16")), "which is measured as real"),
        (lambda at: saved(at / "a.npy", np.zeros(3, "M8[s]")), "which no codec takes"),
        (lambda at: saved(at / "a.npy", np.zeros(3, "f4,i4")), "which no codec takes"),
        (lambda at: written(at, "a.nc", b"\x89HDF\r\n\x1a\n" + bytes(90)), "netCDF-4"),
        (lambda at: written(at, "a.nc", b"no such file"), "classic NetCDF"),
        (lambda at: written(at, "a.nc", b"CDF\x01" + b"\xff" * 40), "classic NetCDF"),
    ],
)
def test_what_is_no_array_is_one_sentence(tmp_path, make, words):
    with pytest.raises(InputError, match=words) as refused:
        open_arrays(make(tmp_path))
    assert "\n" not in str(refused.value)


def test_a_cut_off_netcdf(tmp_path):
    path = tmp_path / "a.nc"
    with netcdf_file(path, "w") as file:
        file.createDimension("x", 4000)
        file.createVariable("heat", "f4", ("x",))[:] = 1
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(InputError, match="classic NetCDF"):
        open_arrays(path)


def test_an_unknown_dtype(tmp_path):
    with pytest.raises(InputError, match="dtype 'float128' is not known"):
        open_arrays(written(tmp_path, "a.bin", b"12345678"), "float128")


@pytest.mark.parametrize("name", ["values.f64", "values.npy", "values.nc"])
def test_a_file_that_is_truncated_after_it_was_opened_is_one_sentence(tmp_path, name):
    # a mapped one would end the process by SIGBUS
    path = tmp_path / name
    values = np.arange(100_000, dtype=np.float64)
    if name.endswith(".npy"):
        np.save(path, values)
    elif name.endswith(".nc"):
        with netcdf_file(path, "w") as file:
            file.createDimension("x", len(values))
            file.createVariable("values", "f8", ("x",))[:] = values
    else:
        values.tofile(path)
    (entry,) = open_arrays(path).entries
    os.truncate(path, 4096)
    with pytest.raises(InputError, match=r"truncated|copy or write it again") as refused:
        entry.load()
    assert "\n" not in str(refused.value)
