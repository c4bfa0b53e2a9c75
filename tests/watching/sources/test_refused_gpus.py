"""GPUs whose links may not be sampled, by MIG or in a container: the watch goes on without."""

import dataclasses
from io import StringIO

import pytest
from rich.console import Console

from lanescope.findings.trace import evaluate_watch
from lanescope.report.terminal import renderables
from lanescope.studies.watch_report import watch_terminal
from lanescope.trace.counter_spool import read_all_counters
from lanescope.watching.requests import SourceRequest
from lanescope.watching.session import Watch, watch
from lanescope.watching.source_choice import sources_for
from lanescope.watching.sources import injection
from lanescope.watching.sources.calls import calls_library
from tests.native.mock_gpu import use_mock
from tests.native.programs import program
from tests.patience import until

#: CUPTI's and NVML's own numbers.
MIG, PRIVILEGES, BUSY = 43, 35, 26
NOT_SUPPORTED, NO_PERMISSION = 3, 4


@pytest.fixture
def machine(two_gpus, monkeypatch):
    use_mock(monkeypatch, program("mock_gpu"))
    gpus = tuple(
        dataclasses.replace(g, uuid=f"GPU-{g.index}", compute_capability=(9, 0))
        for g in two_gpus.gpus
    )
    return dataclasses.replace(two_gpus, gpus=gpus)


def watched(machine, folder):
    """Watch until both GPUs were counted; return what became of each source, and the text."""

    class BothCounted:
        program, traceable, notes = (), False, ()

        def wait(self, environment):
            def counted():
                found = read_all_counters(folder / "spool")
                return {c.gpu for c in found if c.known.sum() > 5} == {0, 1}

            until(counted)

    def sources(spool):
        return sources_for(machine, SourceRequest(traceable=False), spool)

    run = watch(Watch(machine, BothCounted(), "lanescope watch", sources, folder))
    evaluation = evaluate_watch(run, folder / "none")
    counted = {one.gpu for one in evaluation.summary.directions if one.rates is not None}
    assert counted == {0, 1}
    console = Console(width=500, file=StringIO())
    console.print(*renderables(watch_terminal(run, evaluation)))
    return {one.name: one for one in run.manifest.sources}, console.file.getvalue()


def test_one_gpu_that_is_refused_leaves_the_other_its_samples(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("MOCK_REFUSES", f"cuptiPmSamplingEnable:1={BUSY}")
    found, text = watched(machine, tmp_path / "run")
    assert {name: one.used for name, one in found.items()} == {
        "pm.g0": True,
        "pm.g1": False,
        "counters": True,
    }
    assert "Another profiler holds" in found["pm.g1"].reason
    assert found["pm.g0"].samples > 5
    assert "pm.g1: did not watch. Another profiler holds" in text


@pytest.mark.parametrize(
    ("refuses", "reason", "remedy"),
    [
        (f"cuptiPmSamplingEnable={MIG}", "split by MIG", "nvidia-smi -mig 0"),
        (f"cuptiPmSamplingEnable={PRIVILEGES}", "administrators alone", "--cap-add SYS_ADMIN"),
        (f"cuptiPmSamplingSetConfig={PRIVILEGES}", "administrators alone", "CAP_SYS_ADMIN"),
    ],
)
def test_without_samples_the_drivers_counters_watch(
    machine, tmp_path, monkeypatch, refuses, reason, remedy
):
    monkeypatch.setenv("MOCK_REFUSES", refuses)
    found, text = watched(machine, tmp_path / "run")
    assert found["counters"].used
    assert found["counters"].samples > 5
    for name in ("pm.g0", "pm.g1"):
        assert not found[name].used
        assert reason in found[name].reason
        assert remedy in found[name].remedy
        assert f"{name}: did not watch. " in text
    assert remedy in text


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION])
def test_without_the_drivers_counters_its_throughput_watches(machine, tmp_path, monkeypatch, code):
    monkeypatch.setenv(
        "MOCK_REFUSES", f"cuptiPmSamplingEnable={MIG},nvmlDeviceGetFieldValues={code}"
    )
    found, text = watched(machine, tmp_path / "run")
    assert [name for name, one in found.items() if one.used] == ["throughput.g0", "throughput.g1"]
    assert "split by MIG" in text


@pytest.mark.skipif(calls_library() is None, reason="needs an installed lanescope")
def test_where_nothing_counts_the_calls_of_the_program_watch(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    refusals = ("cuptiPmSamplingEnable=43", "nvmlDeviceGetFieldValues=3")
    monkeypatch.setenv("MOCK_REFUSES", ",".join((*refusals, "nvmlDeviceGetPcieThroughput=3")))
    found = [source.name for source in sources_for(machine, SourceRequest(), tmp_path)]
    assert found == ["pm.g0", "pm.g1", "calls"]  # the first two say why they do not
