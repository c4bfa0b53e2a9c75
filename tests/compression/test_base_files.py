"""Files compressed against an earlier one: checkpoints."""

import numpy as np
import pytest

from lanescope.compression import container, files
from lanescope.compression.files import CompressedFile, compress_file
from lanescope.errors import InputError
from tests.compression.test_files import npy, reindexed, safetensors

RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """So that arrays of some hundred KiB have several parts."""
    for module in (container, files):
        monkeypatch.setattr(module, "PART_BYTES", 128 << 10)


def weights(step):
    """Tensors of a checkpoint: bytes by name, of bf16 and fp32, one of them new."""
    rng = np.random.default_rng(1)
    first = rng.normal(size=100_000).astype(np.float32)
    moved = first + np.float32(1e-6) * step
    return {
        "wte": ("BF16", [400, 250], (moved.view(np.uint32) >> 16).astype(np.uint16).tobytes()),
        "head": ("F32", [100_000], moved.tobytes()),
        "none": ("F32", [0, 4], b""),
        "noise": ("I8", [60_000], np.random.default_rng(step).bytes(60_000)),
        **({"new": ("F32", [3], bytes(12))} if step else {}),
    }


@pytest.fixture
def checkpoints(tmp_path):
    """An earlier and a later file of safetensors."""
    made = []
    for step in (0, 1):
        folder = tmp_path / str(step)
        folder.mkdir()
        made.append(safetensors(folder, weights(step), {"step": str(step)}))
    return made


def compressed(new, old, name="update.lsc", **options):
    target = new.with_name(name)
    return target, compress_file(new, target, base=old, **options)


def test_a_checkpoint_comes_back_with_the_one_before(checkpoints, tmp_path):
    old, new = checkpoints
    target, index = compressed(new, old)
    whole = new.with_name("whole.lsc")
    compress_file(new, whole)
    assert target.stat().st_size < whole.stat().st_size / 2
    assert index.base.name == old.name
    assert index.base.bytes == old.stat().st_size
    needs = {one.name: one.needs_base for one in index.segments}
    assert needs == {
        **{None: False, "wte": True, "head": True},
        **{"none": False, "noise": False, "new": False},
    }
    with CompressedFile(target, base=old) as opened:
        opened.restore(tmp_path / "back")
        assert opened.read("head").tobytes() == weights(1)["head"][2]
        opened.extract("wte", tmp_path / "wte.safetensors")
    assert (tmp_path / "back").read_bytes() == new.read_bytes()
    assert (tmp_path / "wte.safetensors").read_bytes().endswith(weights(1)["wte"][2])


def test_a_base_is_not_replaced_by_what_needs_it(checkpoints, tmp_path):
    old, new = checkpoints
    before = old.read_bytes()
    link = tmp_path / "link"
    link.symlink_to(old)
    for target in (old, link):
        with pytest.raises(InputError, match="is the base, and what would replace it cannot be"):
            compress_file(new, target, base=old)
    assert old.read_bytes() == before


def test_what_needs_no_base_is_read_without(checkpoints, tmp_path):
    old, new = checkpoints
    target, _ = compressed(new, old)
    with CompressedFile(target) as opened:
        assert opened.read("noise").tobytes() == weights(1)["noise"][2]
        words = f"was compressed against {old.name}, and its tensor 'wte' needs that; give the file"
        for act in (lambda: opened.read("wte"), lambda: opened.restore(tmp_path / "back")):
            with pytest.raises(InputError, match=words):
                act()
    assert not (tmp_path / "back").exists()


def test_another_base_is_refused(checkpoints, tmp_path):
    old, new = checkpoints
    target, _ = compressed(new, old)
    with (
        CompressedFile(target, base=new) as opened,
        pytest.raises(InputError, match=r"is not what .* was compressed against: tensor 'wte'"),
    ):
        opened.restore(tmp_path / "back")
    other = npy(tmp_path, np.arange(5))
    words = r"does not hold the base of .*: its tensor 'wte' has none of the same type"
    with CompressedFile(target, base=other) as opened, pytest.raises(InputError, match=words):
        opened.restore(tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("kind", ["<f2", "<f8", "<i4", "?", "<c8", "<U5", ">f4"])
def test_files_of_numpy_are_updated(tmp_path, kind):
    values = (RNG.normal(size=(300, 101)) * 50).astype(kind)
    old = npy(tmp_path, values)
    later = values.copy()
    later[5] = later[6]
    new = tmp_path / "new.npy"
    np.save(new, later)
    target, index = compressed(new, old)
    assert index.segments[1].needs_base
    with CompressedFile(target, base=old) as opened:
        assert opened.read().tobytes() == later.tobytes()
        opened.restore(tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == new.read_bytes()


@pytest.mark.parametrize(("name", "dtype"), [("v.bf16", None), ("v.bin", None), ("v", "float32")])
def test_files_without_a_header_are_updated(tmp_path, name, dtype):
    old, new = tmp_path / f"old-{name}", tmp_path / name
    content = bytearray(RNG.bytes(300_003))
    old.write_bytes(content)
    content[1000:1100] = bytes(100)
    new.write_bytes(content)
    target, index = compressed(new, old, dtype=dtype)
    assert index.segments[0].needs_base
    with CompressedFile(target, base=old) as opened:
        opened.restore(tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content


def test_a_file_with_nothing_of_the_base_is_refused(checkpoints, tmp_path):
    _, new = checkpoints
    other = npy(tmp_path, np.arange(5))
    with pytest.raises(InputError, match=r"holds no array that .* has by the same name, type and"):
        compressed(new, other)
    assert not new.with_name("update.lsc").exists()


def test_a_compressed_base_is_to_be_decompressed_before(checkpoints):
    old, new = checkpoints
    stored = old.with_name("old.safetensors.lsc")
    compress_file(old, stored)
    with pytest.raises(InputError, match="is compressed; decompress it, and give that as the base"):
        compressed(new, stored)


def test_a_base_that_saves_nothing_is_not_needed(tmp_path):
    old = npy(tmp_path, RNG.integers(0, 255, 300_000, dtype=np.uint8))
    new = tmp_path / "new.npy"
    np.save(new, RNG.integers(0, 255, 300_000, dtype=np.uint8))
    target, index = compressed(new, old)
    assert (index.version, index.base) == (1, None)
    with pytest.raises(InputError, match="needs no base; leave it out"):
        CompressedFile(target, base=old)
    with CompressedFile(target) as opened:
        opened.restore(tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == new.read_bytes()


def test_a_file_without_a_base_is_as_before(tmp_path):
    target = tmp_path / "v.lsc"
    compress_file(npy(tmp_path, np.arange(9)), target)
    whole = target.read_bytes()
    assert b'"version":1,' in whole
    assert b"base" not in whole


def test_an_index_that_lies_about_its_base_is_refused(checkpoints):
    old, new = checkpoints
    target, _ = compressed(new, old)
    reindexed(target, lambda one: one.pop("base"))
    with pytest.raises(InputError, match="does not say which base it needs"):
        CompressedFile(target)
    target, _ = compressed(new, old)
    reindexed(target, lambda one: one["segments"][1]["parts"][0].update(base="0" * 16))
    words = "it is another stream than the index"
    with CompressedFile(target, base=old) as opened, pytest.raises(InputError, match=words):
        opened.read(opened.index.segments[1].name)


def test_a_base_that_is_damaged_or_away_is_said(checkpoints, tmp_path):
    old, new = checkpoints
    cut_off = tmp_path / "cut.safetensors"
    cut_off.write_bytes(old.read_bytes()[:100])
    with pytest.raises(InputError, match="is no whole file of safetensors"):
        compressed(new, cut_off)
    with pytest.raises(InputError, match="cannot read"):
        compressed(new, tmp_path / "away.safetensors")
