"""``bench compress`` on made-up GPUs, and what is stored when it is cut off."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from lanescope.compression.arrays import ArrayEntry
from lanescope.compression.stream import Codec
from lanescope.document.blocks import Bullets
from lanescope.errors import InputError
from lanescope.report.document_page import document_page
from lanescope.store.folder import State, read_manifest
from lanescope.studies import compress as study
from lanescope.studies.analysis import AnalysisManifest, Silent, analysis_document
from lanescope.studies.compress import Compress, Measuring, on_gpus
from lanescope.studies.compress.compressed import read_compress
from lanescope.studies.compress.measuring import HostDevice
from tests.compression.made_up_core import MadeUpCore
from tests.studies.compress.made_up import compressed

MIB = 1 << 20
H200 = {"name": "NVIDIA H200", "multiprocessors": 132}
SMALL = {"name": "NVIDIA T4", "multiprocessors": 40}
NAMES = ("made up", "made up")


@pytest.fixture
def measure(monkeypatch, tmp_path):
    monkeypatch.setattr(on_gpus, "LEAST_TIMED_BYTES", MIB)
    monkeypatch.setattr(study, "_WRITING_SHARE", math.inf)
    values = np.arange(20_000, dtype=np.float64)
    arrays = tuple(ArrayEntry(name, "float64", values.shape, lambda: values) for name in "ab")

    def run(core, budget=0.001, entries=arrays):
        gpus = on_gpus.Gpus(NAMES, (0,), (MIB,), core)
        nothing = compressed(gpus=NAMES, complete=False)
        measuring = Measuring(HostDevice(1), (1,), budget)
        return measuring.all_of(entries, gpus, nothing, tmp_path / "run", Silent())

    return run


def state_of(folder):
    return read_manifest(AnalysisManifest, folder).state


def test_what_was_measured_is_stored_and_comes_back(measure, tmp_path):
    found = measure(MadeUpCore())
    assert read_compress(tmp_path / "run") == found
    assert found.complete
    assert state_of(tmp_path / "run") is State.COMPLETE
    assert {one.path for one in found.arrays[1].crossings} == {"g0>host", "host>g0", "g0>g1"}


def test_arrays_of_a_type_share_the_time_for_samples(monkeypatch, tmp_path):
    budgets = []

    def results(entry, device, dimensionalities, budget_seconds, *_):
        budgets.append((entry.name, budget_seconds))
        return iter(())

    monkeypatch.setattr(study, "array_results", results)
    entries = [
        ArrayEntry(name, f"float{name[1]}", (1,), list) for name in ("a4", "b4", "c8", "d4", "e4")
    ]
    measuring = Measuring(HostDevice(1), (1,), 0.1)
    measuring.all_of(entries, None, compressed(complete=False), tmp_path / "run", Silent())
    assert budgets == [("a4", 0.025), ("b4", 0.025), ("c8", 0.1), ("d4", 0.025), ("e4", 0.025)]


@pytest.mark.native  # four seconds
def test_the_page_says_what_pays_first_and_has_the_charts(measure, tmp_path):
    found = measure(MadeUpCore())
    page = document_page(analysis_document(Compress, tmp_path / "run", found), static=True)
    assert "Compressing pays for" in page or "Leave all arrays raw" in page
    assert page.index("(measured)") < page.index("constant blocks")
    assert "by dimensionality" in page


def test_speeds_of_gpus_alone(measure, tmp_path):
    first = measure(MadeUpCore(), budget=None).arrays[0]
    assert not any(one.timings for one in first.codecs)
    assert first.gpu
    assert json.loads((tmp_path / "run/compress.json").read_text())["complete"]


def test_a_run_that_is_cut_off_has_each_step(measure, tmp_path):
    class CutOff(MadeUpCore):
        def DeviceChannel(self, *options):  # noqa: N802
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(CutOff())
    found = read_compress(tmp_path / "run")
    assert not found.complete
    assert state_of(tmp_path / "run") is State.INTERRUPTED
    (only,) = found.arrays
    assert [str(one.codec) for one in only.gpu] == ["raw", "gfc", "delta", "zvc", "alp"]
    assert {one.path for one in only.crossings} == {"g0>host", "host>g0"}


def test_each_codec_of_the_first_array_is_stored_when_it_is_measured(
    measure, tmp_path, monkeypatch
):
    class Killed(BaseException):
        pass

    stored = []

    def takes(device, codec, dtype):
        if codec is Codec.DELTA:
            stored.append(read_compress(tmp_path / "run"))
            raise Killed
        return codec in (Codec.RAW, Codec.GFC)

    monkeypatch.setattr(HostDevice, "takes", takes)
    with pytest.raises(Killed):
        measure(MadeUpCore())
    (found,) = stored
    assert not found.complete
    assert [one.codec for one in found.arrays[0].codecs] == [Codec.RAW, Codec.GFC]


def test_a_kill_before_the_first_codec_leaves_a_run_that_reads(measure, tmp_path):
    class Killed(BaseException):
        pass

    def load():
        raise Killed

    with pytest.raises(Killed):
        measure(MadeUpCore(), entries=(ArrayEntry("a", "float64", (5,), load),))
    found = read_compress(tmp_path / "run")
    assert (found.arrays, found.complete) == ((), False)
    words = "".join(
        item for one in found.blocks() if isinstance(one, Bullets) for item in one.items
    )
    assert words == "This run was cut off: no array was measured."


def test_what_is_measured_on_gpus(monkeypatch):
    monkeypatch.setattr(study, "Gpus", lambda *chosen, **more: chosen)
    monkeypatch.setattr(on_gpus, "gpus_here", lambda: [H200, SMALL])
    every = Compress()
    names = ("NVIDIA H200", "NVIDIA T4")
    assert every._gpus(None) == (names, (16, 48, 0), (MIB, 256 * MIB))
    assert Compress(device="gpu", sms=(8, 0), link_sizes=(1,))._gpus(None) == (names, (8, 0), (1,))
    assert Compress(device="cpu")._gpus(None) is None
    with pytest.raises(InputError, match="GPU 0 has 132 SMs"):
        replace(every, sms=(133,))._gpus(None)
    monkeypatch.setattr(on_gpus, "gpus_here", lambda: [SMALL])
    assert every._gpus(None)[1] == (16, 0)


def test_files_that_hold_nothing_for_codecs_are_left_out(tmp_path):
    others = {
        "text": np.array(["a"]),
        "records": np.zeros(3, "f4,i4"),
        "dates": np.zeros(3, "M8[s]"),
        "empty": np.zeros((0, 3)),
        "objects": np.array([{}, None]),
    }
    for name, values in others.items():
        np.save(tmp_path / f"{name}.npy", values)
    (tmp_path / "empty.f32").touch()
    (tmp_path / "odd.f32").write_bytes(b"12345")
    refused = [*(f"{name}.npy" for name in others), "empty.f32", "odd.f32"]
    np.save(tmp_path / "values.npy", np.arange(1000.0))

    def measured(*names):
        files = [tmp_path / name for name in names]
        study = Compress(files=files, codecs=["zvc"], device="cpu", budget_seconds=1e-4, threads=1)
        return replace(study, out=tmp_path / "run").result(Silent())

    found = measured(*refused, "values.npy")
    assert [one.name for one in found.arrays] == [str(tmp_path / "values.npy")]
    for name, sentence in zip(refused, found.left_out, strict=True):
        assert sentence.startswith(f"{tmp_path / name} ")
    with pytest.raises(InputError, match=r"text.npy holds <U1, which no codec takes"):
        measured(*refused)
