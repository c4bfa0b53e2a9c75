"""``lanescope compress`` and ``decompress`` as one types them."""

import errno
import json
import re
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from tests.cli.command_lines import Done, run


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("field.npy", np.arange(50_000.0).reshape(100, 500))
    (tmp_path / "mask.u8").write_bytes(bytes(70_000))
    return tmp_path


def right(*arguments: str) -> Done:
    done = run(arguments)
    assert (done.code, done.stderr) == (0, "")
    return done


def wrong(*arguments: str) -> str:
    done = run(arguments)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    return done.stderr


def test_files_come_back_byte_by_byte(here):
    done = right("compress", "field.npy", "mask.u8")
    assert done.stdout.splitlines()[0].startswith("field.npy → field.npy.lsc: 391 KiB, compressed")
    assert right("decompress", "field.npy.lsc", "mask.u8.lsc", "--to", "back/again")
    for name in ("field.npy", "mask.u8"):
        assert (here / "back/again" / name).read_bytes() == (here / name).read_bytes()
        assert (here / f"{name}.lsc").stat().st_size < (here / name).stat().st_size / 2


def test_sizes_are_there_as_json(here):
    found = json.loads(right("compress", "mask.u8", "--out", "small", "--json").stdout)
    stored = (here / "small").stat().st_size
    assert found == {
        **{"file": "mask.u8", "written": "small", "kind": "raw"},
        **{"bytes": 70_000, "stored_bytes": stored, "ratio": 70_000 / stored},
    }


def test_what_is_in_a_file_is_listed(here):
    right("compress", "field.npy", "--codec", "delta")
    text = right("decompress", "--info", "field.npy.lsc").stdout
    assert "npy, ratio" in text
    assert "float64" in text
    assert "100 × 500" in text
    assert "delta" in text
    found = json.loads(right("decompress", "--info", "--json", "field.npy.lsc").stdout)
    assert found["bytes"] == (here / "field.npy").stat().st_size
    assert [one["codecs"] for one in found["segments"]][1:] == [["delta"]]
    assert found["segments"][1]["shape"] == [100, 500]


def test_names_of_tensors_take_a_line_each(here):
    library = pytest.importorskip("safetensors.numpy")
    long, plain = "x" * 5000, "layers.0." + "w" * 100
    names = {"a\nb": r"'a\nb'", "": "''", long: "'xxxx", plain: plain, "ü☃": "ü☃"}
    library.save_file({name: np.zeros(1) for name in names}, "names.safetensors")
    right("compress", "names.safetensors")
    text = right("decompress", "--info", "names.safetensors.lsc").stdout
    assert all(shown in text for shown in names.values())
    assert "x" * 100 not in text


def test_one_tensor_is_written_alone(here):
    library = pytest.importorskip("safetensors.numpy")
    library.save_file({"a": np.arange(5), "b": np.zeros((2, 3), "f4")}, "w.safetensors")
    right("compress", "w.safetensors")
    done = right("decompress", "w.safetensors.lsc", "--tensor", "b", "--out", "b.safetensors")
    about = (
        r"tensor 'b' of w.safetensors.lsc → b.safetensors: 24 B, compressed \d+ B, ratio [\d.]+\n"
    )
    assert re.fullmatch(about, done.stdout)
    found = library.load_file("b.safetensors")
    assert found.keys() == {"b"}
    assert found["b"].shape == (2, 3)
    assert "does not hold a tensor 'c'; it has 'a', 'b'" in wrong(
        "decompress", "w.safetensors.lsc", "--tensor", "c", "--out", "c.safetensors"
    )


def test_a_tensor_on_standard_output_has_nothing_else_there(here):
    library = pytest.importorskip("safetensors.numpy")
    library.save_file({"b": np.zeros((2, 3), "f4"), "empty": np.zeros(0)}, "w.safetensors")
    right("compress", "w.safetensors")
    for name, size in (("b", "24 B"), ("empty", "0 B")):
        command = ["decompress", "w.safetensors.lsc", "--tensor", name, "--out", "/dev/stdout"]
        done = subprocess.run(
            [sys.executable, "-m", "lanescope", *command], capture_output=True, check=True
        )
        assert library.load(done.stdout).keys() == {name}
        assert f"tensor '{name}' of w.safetensors.lsc → /dev/stdout: {size}" in done.stderr.decode()


def test_nothing_is_replaced_that_nobody_gave_up(here):
    right("compress", "mask.u8")
    before = (here / "mask.u8.lsc").read_bytes()
    assert "mask.u8.lsc is there already; give --force to replace it" in wrong(
        "compress", "field.npy", "mask.u8"
    )
    assert not (here / "field.npy.lsc").exists()
    (here / "mask.u8").write_bytes(b"other")
    assert "mask.u8 is there already" in wrong("decompress", "mask.u8.lsc")
    right("decompress", "mask.u8.lsc", "--force")
    assert (here / "mask.u8").read_bytes() == bytes(70_000)
    right("compress", "mask.u8", "--force")
    assert (here / "mask.u8.lsc").read_bytes() == before


def test_a_file_that_would_become_too_large_is_refused(here):
    right("compress", "mask.u8")
    (here / "mask.u8").unlink()
    words = "mask.u8.lsc becomes 70 kB when it is decompressed, and at most 64 kB are allowed"
    assert words in wrong("decompress", "mask.u8.lsc", "--max-size", "64kB")
    assert words in wrong("decompress", "mask.u8.lsc", "--info", "--max-size", "64kB")
    assert not (here / "mask.u8").exists()
    right("decompress", "mask.u8.lsc", "--max-size", "70kB")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compress", "none.npy"], "cannot read none.npy: No such file"),
        (["compress", "."], "cannot read .: Is a directory"),
        (["compress", "field.npy", "--dtype", "float32"], "says itself what its values are"),
        (["compress", "field.npy", "mask.u8", "--out", "x"], "--out names one file, and 2"),
        (["compress", "field.npy", "field.npy"], "two files would become one"),
        (["compress", "field.npy", "--out", "field.npy", "--force"], "written onto itself"),
        (["compress", "/dev/null"], "/dev/null is no file to write next to"),
        (["compress", "field.npy", "--to", "mask.u8"], "cannot make mask.u8: File exists"),
        (["compress", "field.npy", "--out", "x", "--to", "y"], "leave out --to, or --out"),
        (["compress", "a\nb.f32"], r"control character, not 'a\nb.f32'"),
        (["compress", "empty.npy"], "empty.npy is empty or cut off; copy or write it again"),
        (["compress", "cut.npy"], "cut.npy is empty or cut off; copy or write it again"),
        (["compress", "field.npy", "--out", "/proc/x"], "no file can be made in '/proc'"),
        (["compress", "field.npy", "--out", "no/x"], "there is no folder 'no'; make it first"),
        (["compress", "field.npy", "--threads", "0"], "a whole number from 1 to 256 (default: one"),
        (["decompress", "x.lsc", "--threads", "0"], "from 1 to 256 (default: one for each CPU"),
        (["decompress", "x.lsc", "--threads", "1000"], "from 1 to 256"),
        (["compress", "field.npy", "--codec", "ans"], "--codec takes auto, raw"),
        (["decompress", "field.npy"], "does not end in .lsc, so its new name is not known"),
        (["decompress", ".lsc"], ".lsc is nothing but .lsc, so its new name is not known"),
        (["decompress", "x.lsc", "--out", "."], "a folder; name a file, or give --to '.'"),
        (["decompress", "x.lsc", "--out", "new/"], "a folder; name a file, or give --to 'new/'"),
        (["compress", "field.npy", "--out", "new/"], "it is a folder; name a file, or give --to"),
        (["decompress", "field.npy", "--out", "x"], "is no compressed file"),
        (["decompress", "x.lsc", "--tensor", "a"], "give --out, too"),
        (["decompress", "x.lsc", "--info", "--force"], "leave out --force, or --info"),
        (["decompress", "x.lsc", "y.lsc", "--tensor", "a", "--out", "z"], "--tensor is of one"),
    ],
)
def test_what_cannot_be_is_one_sentence(here, arguments, words):
    (here / "empty.npy").touch()
    (here / "cut.npy").write_bytes((here / "field.npy").read_bytes()[:50])
    before = sorted(here.iterdir())
    assert words in wrong(*arguments)
    assert sorted(here.iterdir()) == before


def test_a_damaged_file_leaves_nothing(here):
    right("compress", "field.npy", "--to", "made")
    path = here / "made/field.npy.lsc"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    sentence = wrong("decompress", str(path))
    assert "is damaged: part 0: this is no stream that can be read: block" in sentence
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_compressed_against_an_earlier_one(here):
    values = np.load("field.npy")
    values[3] += 1e-9
    np.save("later.npy", values)
    right("compress", "later.npy", "--base", "field.npy")
    text = right("decompress", "--info", "later.npy.lsc").stdout
    assert "needs the base field.npy" in text
    assert "of differences" in text
    found = json.loads(right("decompress", "--info", "--json", "later.npy.lsc").stdout)
    assert found["base"] == "field.npy"
    assert [one.get("needs_base") for one in found["segments"]] == [None, True]
    right("decompress", "later.npy.lsc", "--base", "field.npy", "--out", "back.npy")
    assert (here / "back.npy").read_bytes() == (here / "later.npy").read_bytes()
    for extra, words in [
        ((), "was compressed against field.npy, and it needs that; give the file with --base"),
        (("--base", "later.npy"), "is not what later.npy.lsc was compressed against"),
        (("--base", "mask.u8"), "does not hold the base of later.npy.lsc"),
    ]:
        assert words in wrong("decompress", "later.npy.lsc", "--out", "other.npy", *extra)
        assert not (here / "other.npy").exists()
    assert "--base is of one file" in wrong(
        "compress", "field.npy", "mask.u8", "--base", "later.npy"
    )
    right("compress", "field.npy")
    assert "needs no base" in wrong(
        "decompress", "field.npy.lsc", "--out", "other.npy", "--base", "later.npy"
    )


def test_a_base_is_only_read(here, monkeypatch):
    def not_written(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", not_written)
    right("compress", "field.npy", "--base", "field.npy")
    right("decompress", "field.npy.lsc", "--base", "field.npy", "--to", "back")
    assert (here / "back/field.npy").read_bytes() == (here / "field.npy").read_bytes()
