"""Arrays on made-up GPUs, and what is stored when that is cut off."""

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from lanescope.cli import compress_gpus, compress_task
from lanescope.cli.compress_gpus import Devices, GpuPlan, gpu_plan
from lanescope.compression.arrays import Entry, Opened
from lanescope.compression.device import HostDevice
from lanescope.compression.stream import Codec
from lanescope.errors import InputError
from lanescope.studies.compress import on_gpus
from lanescope.studies.compress.json import CompressRequest
from lanescope.studies.compress.reading import read_compress
from tests.compression.made_up_core import MadeUpCore

MIB = 1 << 20
H200 = {"name": "NVIDIA H200", "multiprocessors": 132}
SMALL = {"name": "NVIDIA T4", "multiprocessors": 40}


@dataclass(frozen=True)
class Plan:
    core: MadeUpCore

    def begin(self):
        return on_gpus.Gpus(2, (0,), (MIB,), self.core)


@pytest.fixture
def task(monkeypatch):
    monkeypatch.setattr(on_gpus, "LEAST_TIMED_BYTES", MIB)
    monkeypatch.setattr(compress_task, "_WRITING_SHARE", math.inf)
    values = np.arange(20_000, dtype=np.float64)
    entries = tuple(Entry(name, "float64", values.shape, lambda: values) for name in "ab")

    def make(core, budget=0.001):
        asked = CompressRequest(None, 8 * MIB, ("made up", "made up"))
        return compress_task.Task(Opened(entries), HostDevice(1), (1,), budget, asked, Plan(core))

    return make


def test_what_was_measured_is_stored_and_comes_back(task, tmp_path):
    results = compress_task.measured(task(MadeUpCore()), tmp_path / "run")
    told = read_compress(tmp_path / "run")
    assert told.results == results
    assert told.complete
    assert {one.path for one in results[1].crossings} == {"g0>host", "host>g0", "g0>g1"}


def test_speeds_of_gpus_alone(task, tmp_path):
    (first, _) = compress_task.measured(task(MadeUpCore(), budget=None), tmp_path / "run")
    assert not any(one.timings for one in first.codecs)
    assert first.gpu
    assert json.loads((tmp_path / "run/compress.json").read_text())["complete"]


def test_a_run_that_is_cut_off_keeps_each_step(task, tmp_path):
    class CutOff(MadeUpCore):
        def DeviceChannel(self, *options):  # noqa: N802
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compress_task.measured(task(CutOff()), tmp_path / "run")
    told = read_compress(tmp_path / "run")
    assert not told.complete
    (only,) = told.results
    assert [str(one.choice.codec) for one in only.gpu] == ["raw", "gfc", "delta", "zvc"]
    assert {one.path for one in only.crossings} == {"g0>host", "host>g0"}


def test_each_codec_of_the_first_array_is_stored_when_it_is_measured(task, tmp_path, monkeypatch):
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
        compress_task.measured(task(MadeUpCore()), tmp_path / "run")
    (told,) = stored
    assert not told.complete
    assert [one.choice.codec for one in told.results[0].codecs] == [Codec.RAW, Codec.GFC]


def test_a_kill_before_the_first_codec_leaves_a_run_that_reads(lanescope, task, tmp_path):
    class Killed(BaseException):
        pass

    def load():
        raise Killed

    nothing = Opened((Entry("a", "float64", (5,), load),))
    with pytest.raises(Killed):
        compress_task.measured(replace(task(MadeUpCore()), opened=nothing), tmp_path / "run")
    told = read_compress(tmp_path / "run")
    assert (told.results, told.complete) == ((), False)
    done = lanescope("bench", "compress", "--from", tmp_path / "run")
    said = "This run was cut off: no array was measured.\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def test_plans(monkeypatch):
    monkeypatch.setattr(on_gpus, "gpus_here", lambda: [H200, SMALL])
    plan = gpu_plan(Devices.ALL, None, None, picture=False)
    assert plan == GpuPlan(("NVIDIA H200", "NVIDIA T4"), (16, 48, 0), (MIB, 256 * MIB))
    picture = gpu_plan(Devices.GPU, (8, 0), None, picture=True)
    assert picture.sms == (8, 0)
    assert picture.link_sizes[0] == MIB
    assert picture.link_sizes[-1] == 256 * MIB
    assert len(picture.link_sizes) == 9
    assert gpu_plan(Devices.CPU, None, None, picture=False) is None
    with pytest.raises(InputError, match="GPU 0 has 132 SMs"):
        gpu_plan(Devices.ALL, (133,), None, picture=False)
    monkeypatch.setattr(on_gpus, "gpus_here", lambda: [SMALL])
    assert compress_gpus.gpu_plan(Devices.ALL, None, None, picture=False).sms == (16, 0)
