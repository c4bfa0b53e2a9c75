"""Sources of counters: when they are there, what they say when not, and what they leave."""

import dataclasses
import json
import time

import numpy as np
import pytest

from lanescope.errors import NotMeasuredError
from lanescope.trace.counter_spool import read_all_counters, read_counters
from lanescope.trace.spool_records import sidecar_of
from lanescope.watching.sources import pm
from lanescope.watching.sources.counters import CountersSource, ThroughputSource
from lanescope.watching.sources.pm import PmSource, may_profile
from tests.native.mock_gpu import use_mock
from tests.native.programs import program
from tests.patience import until


@pytest.fixture(scope="session")
def library():
    return program("mock_gpu")


@pytest.fixture
def machine(two_gpus, monkeypatch, library):
    use_mock(monkeypatch, library)
    gpus = tuple(
        dataclasses.replace(g, uuid=f"GPU-{g.index}", compute_capability=(9, 0))
        for g in two_gpus.gpus
    )
    return dataclasses.replace(two_gpus, gpus=gpus)


def sources(machine, folder):
    first = machine.gpus[0]
    return [
        PmSource(first, folder),
        CountersSource(machine.gpus, folder),
        ThroughputSource(first, folder),
    ]


def test_all_watch_and_leave_spools_with_their_sidecars(machine, tmp_path):
    running = sources(machine, tmp_path)
    for source in running:
        assert source.available(machine, thorough=True).ok
        source.start()
    until(lambda: all(len(c) > 7 for c in read_all_counters(tmp_path)))
    until(lambda: len(read_counters(tmp_path / "pm.g0.bin")) > 502)
    for source in running:
        report = source.stop()
        assert report.reason is None
        assert report.samples > 5
        assert source.environment() == {}
    found = read_all_counters(tmp_path)
    assert [(c.source, c.gpu) for c in found] == [
        ("counters", 0),
        ("pm", 0),
        ("throughput", 0),
        ("counters", 1),
    ]
    assert all(c.cpu_seconds is not None for c in found)
    said = json.loads(sidecar_of(tmp_path / "pm.g0.bin").read_text())
    assert said["samples"] > 500
    assert 200 <= said["asked"] < said["samples"]  # until the formula has proved itself
    assert said["contradictions"] == 0
    assert said["learned"]["state"] == "in use"
    assert said["learned"]["sample_bytes"] == 16
    assert 0 < said["learned"]["rows"] <= said["learned"]["columns"] < 128
    assert said["learned"]["seconds"] > 0
    assert said["errors"] == []


def test_nvlinks_have_a_spool_of_their_own_where_the_driver_counts(machine, monkeypatch, tmp_path):
    for folder, mode, links in ((tmp_path / "a", "", [0, 1]), (tmp_path / "b", "none", [])):
        folder.mkdir()
        monkeypatch.setenv("MOCK_NVLINK", mode)
        source = CountersSource(machine.gpus, folder, nvlinked=(0, 1))
        source.start()
        time.sleep(0.05)
        report = source.stop()
        assert report.reason is None  # of what is not there nothing is said
        found = read_all_counters(folder)
        assert [c.gpu for c in found if c.link == "nvlink"] == links
        assert [c.gpu for c in found if c.link == "pcie"] == [0, 1]
        assert sidecar_of(source.nvlink_spool(machine.gpus[0])).exists() == bool(links)
        assert all(c.cpu_seconds is not None for c in found)


def test_a_source_that_never_started_has_nothing_to_say(machine, tmp_path):
    for source in sources(machine, tmp_path):
        assert source.stop().samples in (None, 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("refuses", "words", "remedy"),
    [
        ("cuptiPmSamplingSetConfig=26", "Another profiler holds", "dcgmi profile --pause"),
        ("cuptiPmSamplingEnable=35", "administrators alone", "RestrictProfilingToAdminUsers=0"),
        ("cuptiProfilerHostConfigAddMetrics=999", "does not sample the bytes", "'counters'"),
        ("cuptiPmSamplingEnable=43", "split by MIG", "MIG disabled"),
        ("cuInit=100", "CUDA sees no GPU", "nvidia-smi"),
    ],
)
def test_what_stands_in_the_direction_of_sampling_is_a_sentence(
    machine, monkeypatch, tmp_path, refuses, words, remedy
):
    source = PmSource(machine.gpus[0], tmp_path)
    monkeypatch.setenv("MOCK_REFUSES", refuses)
    assert source.available(machine).ok  # a cheap look does not see it
    answer = source.available(machine, thorough=True)
    assert not answer.ok
    assert words in answer.reason
    assert remedy in answer.remedy
    with pytest.raises(NotMeasuredError, match=words):
        source.start()


def test_no_libcupti_and_one_without_sampling_are_told(machine, monkeypatch, tmp_path):
    source = PmSource(machine.gpus[0], tmp_path)
    monkeypatch.setenv("LANESCOPE_CUPTI", str(tmp_path / "none"))
    answer = source.available(machine)
    assert "no libcupti" in answer.reason
    assert "nvidia-cuda-cupti" in answer.remedy
    monkeypatch.setenv("LANESCOPE_CUPTI", "/proc/self/exe")
    assert "cannot be opened" in source.available(machine).reason


def test_gpus_that_cannot_sample_by_time_are_told(machine, tmp_path):
    turing = dataclasses.replace(machine.gpus[0], compute_capability=(7, 5))
    machine = dataclasses.replace(machine, gpus=(turing,))
    answer = PmSource(turing, tmp_path).available(machine)
    assert "by time" in answer.reason


def test_gpus_that_are_not_there_are_told(machine, tmp_path):
    gone = dataclasses.replace(machine.gpus[0], unavailable="It fell off the bus.")
    for state, words in (
        (dataclasses.replace(machine, gpus=()), "has no g0"),
        (dataclasses.replace(machine, described=True), "only described"),
    ):
        for source in sources(machine, tmp_path):
            assert words in source.available(state).reason
    source = PmSource(gone, tmp_path)
    assert source.available(dataclasses.replace(machine, gpus=(gone,))).reason == gone.unavailable


def test_without_privileges_no_trial_is_needed(machine, monkeypatch, tmp_path):
    monkeypatch.setattr(pm, "may_profile", lambda: False)
    assert "administrators" in PmSource(machine.gpus[0], tmp_path).available(machine).reason


@pytest.mark.parametrize(
    ("refuses", "words"),
    [
        ("nvmlDeviceGetFieldValues=3", "does not count"),
        ("nvmlInit_v2=9", "no NVIDIA driver"),
        ("nvmlDeviceGetHandleByUUID=6", "does not know this GPU"),
    ],
)
def test_what_the_driver_refuses_is_a_sentence(machine, monkeypatch, tmp_path, refuses, words):
    source = CountersSource(machine.gpus, tmp_path)
    monkeypatch.setenv("MOCK_REFUSES", refuses)
    assert words in source.available(machine).reason
    with pytest.raises(NotMeasuredError, match=words):
        source.start()


def test_no_driver_is_a_sentence(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("LANESCOPE_NVML", str(tmp_path / "none"))
    for source in sources(machine, tmp_path)[1:]:
        answer = source.available(machine)
        assert "no NVIDIA driver" in answer.reason
        with pytest.raises(NotMeasuredError):
            source.start()


def test_a_gpu_without_uuid_cannot_be_asked(two_gpus, tmp_path):
    assert "UUID" in CountersSource(two_gpus.gpus, tmp_path).available(two_gpus).reason


@pytest.mark.parametrize(
    ("admin_only", "capabilities", "allowed"),
    [
        ("0", "0000000000000000", True),
        ("1", "0000000000000000", False),
        ("1", "0000000000200000", True),  # CAP_SYS_ADMIN
        ("1", "0000004000000000", True),  # CAP_PERFMON
        ("1", "?", True),
    ],
)
def test_privileges_are_read_where_linux_tells(tmp_path, admin_only, capabilities, allowed):
    params = tmp_path / "driver/nvidia/params"
    params.parent.mkdir(parents=True)
    params.write_text(f"ModifyDeviceFiles: 1\nRmProfilingAdminOnly: {admin_only}\n")
    status = tmp_path / "self/status"
    status.parent.mkdir()
    status.write_text(f"Name:\tpython\nCapEff:\t{capabilities}\n")
    assert may_profile(tmp_path) is allowed


def test_without_a_driver_nothing_forbids(tmp_path):
    assert may_profile(tmp_path)


def test_nvlinks_are_sampled_beside_the_link_to_the_host(machine, tmp_path):
    source = PmSource(machine.gpus[0], tmp_path, nvlink=True)
    source.start()
    spool = tmp_path / "pm-nvlink.g0.bin"
    until(lambda: len(read_counters(spool)) > 100)
    assert source.stop().reason is None
    assert json.loads(spool.read_bytes().partition(b"\n")[0])["link"] == "nvlink"
    found = read_counters(spool)
    assert set(found.rx_bytes[1:]) == {7000}
    assert set(found.tx_bytes[1:]) == {700}
    assert json.loads(sidecar_of(spool).read_text())["cpu_seconds"] is None  # it stands with PCIe's
    pcie = read_counters(tmp_path / "pm.g0.bin")
    assert np.array_equal(pcie.end_ns, found.end_ns)
    assert set(pcie.rx_bytes[1:]) == {1000}


def test_without_such_counters_the_link_to_the_host_is_sampled_alone(
    machine, tmp_path, monkeypatch
):
    monkeypatch.setenv("MOCK_REFUSES", "NVLink metrics=999")
    source = PmSource(machine.gpus[0], tmp_path, nvlink=True)
    source.start()
    assert source.stop().reason is None
    assert {path.name for path in tmp_path.iterdir()} == {"pm.g0.bin", "pm.g0.bin.json"}
