"""numcodecs and Zarr read and write lanescope's streams."""

import json

import numpy as np
import pytest

import lanescope
from lanescope.errors import InputError

numcodecs = pytest.importorskip("numcodecs")
RNG = np.random.default_rng(8)
KINDS = ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "U3", "S3", ">f4"]


def array_of(kind, shape=(60, 50)):
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    bits = RNG.integers(0, 2 if kind == "?" else 90, size, np.uint8)
    return np.frombuffer(bits.tobytes(), kind).reshape(shape)


def codec(**config):
    return numcodecs.get_codec({"id": "lanescope", **config})


def test_numcodecs_knows_it_by_its_name():
    assert codec().get_config() == {"id": "lanescope", "codec": "auto"}
    assert codec(codec="delta").get_config() == {"id": "lanescope", "codec": "delta"}
    assert codec(codec="delta") == codec(codec="delta")
    assert repr(codec(codec="zvc")) == "Lanescope(codec='zvc')"
    with pytest.raises(InputError, match="'ans' is no codec of the host; give one of auto, raw"):
        codec(codec="ans")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", "CF")
def test_what_is_encoded_is_decoded(kind, order):
    values = np.asarray(array_of(kind), order=order)
    stream = codec().encode(values)
    assert codec().decode(stream).tobytes() == values.tobytes("A")
    assert codec().decode(bytes(stream)).tobytes() == values.tobytes("A")
    out = np.empty_like(values)
    assert codec().decode(stream, out=out) is out
    assert out.tobytes("A") == values.tobytes("A")


def test_a_stream_is_that_of_lanescope():
    values = array_of("f4", (3000,))
    assert np.array_equal(codec(codec="gfc").encode(values), lanescope.compress(values, "gfc"))


def test_buffers_are_encoded():
    for buffer in (b"abc" * 50, bytearray(b"abc" * 50), memoryview(b"abc" * 50)):
        assert codec().decode(codec().encode(buffer)).tobytes() == bytes(buffer)


def test_what_is_no_chunk_is_refused():
    with pytest.raises(TypeError, match="object arrays are not supported"):
        codec().encode(np.array([object()]))
    with pytest.raises(InputError, match="no stream that can be read"):
        codec().decode(b"abc")
    with pytest.raises(InputError, match="holds 8 bytes, and there is room for 16"):
        codec().decode(codec().encode(np.zeros(1)), out=np.zeros(2))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "S3"])
@pytest.mark.parametrize("order", "CF")
def test_zarr_of_format_2_comes_back(tmp_path, kind, order):
    zarr = pytest.importorskip("zarr")
    values = array_of(kind)
    made = zarr.create_array(
        store=str(tmp_path / "x"),
        shape=values.shape,
        chunks=(40, 30),
        dtype=values.dtype,
        order=order,
        zarr_format=2,
        compressors=codec(codec="auto"),
    )
    made[:] = values
    about = json.loads((tmp_path / "x/.zarray").read_text())
    assert about["compressor"] == {"id": "lanescope", "codec": "auto"}
    assert (tmp_path / "x/0.0").read_bytes()[:4] == b"LSCZ"
    assert np.array_equal(zarr.open_array(str(tmp_path / "x"), mode="r")[:], values)


def written(folder, values, **options):
    zarr = pytest.importorskip("zarr")
    from lanescope.compression.zarr_codec import LanescopeCodec

    made = zarr.create_array(
        store=str(folder),
        shape=values.shape,
        chunks=options.pop("chunks", (40, 30)),
        dtype=values.dtype,
        serializer=LanescopeCodec(**options),
        compressors=None,
    )
    made[...] = values
    return zarr.open_array(str(folder), mode="r")


@pytest.mark.filterwarnings("ignore:The data type")  # of format 3 some are no standard
@pytest.mark.parametrize("kind", KINDS)
def test_zarr_of_format_3_comes_back(tmp_path, kind):
    values = array_of(kind)
    read = written(tmp_path / "x", values, codec="raw")
    assert np.array_equal(read[:], values)
    about = json.loads((tmp_path / "x/zarr.json").read_text())
    assert about["codecs"] == [{"name": "lanescope", "configuration": {"codec": "raw"}}]
    assert (tmp_path / "x/c/0/0").read_bytes()[:4] == b"LSCZ"


def test_a_value_without_sides_comes_back(tmp_path):
    read = written(tmp_path / "x", np.array(1.5), chunks=())
    assert read[()] == 1.5


def test_a_chunk_that_is_larger_than_it_should_be_is_refused(tmp_path):
    read = written(tmp_path / "x", array_of("f4"))
    (tmp_path / "x/c/0/0").write_bytes(lanescope.compress(np.zeros(1 << 20)).tobytes())
    with pytest.raises(InputError, match="holds 8388608 bytes, and there is room for 4800"):
        read[:]


def test_objects_are_refused():
    from lanescope.compression.numcodecs_codec import coded

    with pytest.raises(InputError, match="Python objects are no values"):
        coded(np.array([object()]), "auto")


def test_metadata_of_another_version_is_refused():
    pytest.importorskip("zarr")
    from lanescope.compression.zarr_codec import LanescopeCodec

    assert LanescopeCodec.from_dict({"name": "lanescope"}) == LanescopeCodec()
    newer = {"name": "lanescope", "configuration": {"codec": "auto", "level": 9}}
    with pytest.raises(InputError, match="the field 'level', which this version does not know"):
        LanescopeCodec.from_dict(newer)
