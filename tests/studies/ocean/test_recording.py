"""A run that measures, with the host's threads in place of a GPU."""

from types import SimpleNamespace

import numpy as np
import pytest

from lanescope.errors import InputError, NotMeasuredError
from lanescope.prediction.predictor import Method
from lanescope.store.folder import RunFolder
from lanescope.studies.analysis import analysis_folder
from lanescope.studies.ocean import measuring
from lanescope.studies.ocean.measured import CASES, STREAMS, case_name, load, stream_counts
from lanescope.studies.ocean.measuring import MappedTraffic, record
from lanescope.studies.ocean.reference import Kernel
from tests.studies.link_parameters import fitted

SIDES = (16, 12, 5)


class HostMemory:
    """Stands for the memory of a GPU: the host computes."""

    def __init__(self, grid, pageable):
        self.grid, self.pageable, self.made, self.left = grid, pageable, (), []

    def outputs(self, count):
        assert len(self.made) == count
        return self.made


@pytest.fixture
def host(monkeypatch):
    """Keeps what was run; `spoil` changes outputs, `stop` ends the run by Ctrl-C.

    `traffic` tells what a case moves in mapped memory; None: nothing counts. `slower` tells how
    many times as long a run takes.
    """
    kept = SimpleNamespace(
        ran=[],
        alone=[],
        spoil=lambda case, method, made: None,
        stop=None,
        traffic=None,
        slower=lambda case, method, streams: 1.0,
    )

    def run_case(memory, case, method, streams, budget, *, spoil=True):
        if len(kept.ran) == kept.stop:
            raise KeyboardInterrupt
        kept.ran.append((case, method, streams, memory.pageable, spoil))
        memory.made = case.on_host(memory.grid)
        kept.spoil(case, method, memory.made)
        times = 1e-3 * streams * kept.slower(case, method, streams)
        return SimpleNamespace(seconds=np.full(5, times))

    def kernel_seconds(memory, case, method, budget):
        kept.alone.append((case, method))
        return np.full(3, 1e-4)

    class Memory:
        @staticmethod
        def made(machine, gpu, grid, *, pageable=False):
            return HostMemory(grid, pageable)

    def mapped_traffic(machine, gpu, memory, case, budget):
        if kept.traffic is None:
            raise NotMeasuredError("PM sampling does not work here.")
        return kept.traffic(case)

    monkeypatch.setattr(measuring, "GridMemory", Memory)
    monkeypatch.setattr(measuring, "mapped_traffic", mapped_traffic)
    monkeypatch.setattr(measuring, "run_case", run_case)
    monkeypatch.setattr(measuring, "kernel_seconds", kernel_seconds)
    return kept


@pytest.fixture
def run(tmp_path):
    with RunFolder(tmp_path / "run", "validate") as folder:
        yield folder


def test_reads_are_counted_beside_those_of_a_kernel_that_reads_once(host, two_gpus, tmp_path, run):
    """axpy's two arrays show as 2.2, so what shows as 11 for one array is 10 reads of a byte."""
    host.traffic = lambda case: MappedTraffic(2.2 if case.kernel is Kernel.AXPY else 11.0, 1.0, 5)
    found = record(two_gpus, 0, SIDES, fitted(), run)
    reads = {one.kernel: one.reads for one in found.cases}
    assert reads[Kernel.AXPY] == pytest.approx(1.0)
    assert reads[Kernel.BUOYDIFF] == pytest.approx(5.0)
    assert reads[Kernel.CONVOLUTION] == pytest.approx(10.0)
    back = load(tmp_path / "run" / "validation.json")
    assert [one.reads for one in back.cases] == [one.reads for one in found.cases]


def test_where_nothing_counts_reads_are_computed(host, two_gpus, run):
    found = record(two_gpus, 0, SIDES, fitted(), run)
    assert all(one.counted_reads is None for one in found.cases)
    assert all(one.reads == one.mapped_reads for one in found.cases)


def test_every_case_is_measured_by_every_method_and_checked(host, two_gpus, tmp_path, run):
    told = []
    found = record(two_gpus, 1, SIDES, fitted(), run, progress=lambda *step: told.append(step))
    assert found.finished
    assert load(tmp_path / "run" / "validation.json") == found
    assert [one.case for one in found.cases] == list(CASES)
    for one in found.cases:
        assert [(t.method, t.streams) for t in one.timed] == [
            (method, n) for method in Method for n in stream_counts(method, 5)
        ]
        assert {c.method for c in one.checks} == set(Method)
        assert len(one.checks) == len(Method) * one.case.output_arrays
    assert not found.wrong
    assert {(method, pageable) for _, method, _, pageable, _ in host.ran} == {
        (method, method is Method.PAGEABLE) for method in Method
    }
    # what is compared is what the last run left, which overwrites spoiled arrays
    half = len(host.ran) // 2
    assert all(spoil == (n == stream_counts(m, 5)[-1]) for _, m, n, _, spoil in host.ran[:half])
    assert [ran[:4] for ran in host.ran[half:]] == [ran[:4] for ran in host.ran[:half]]
    assert not any(spoil for *_, spoil in host.ran[half:])
    assert told[0] == ("an ocean", 0, 70)
    assert told[-1] == ("convolution", 70, 70)


def test_a_disturbed_round_does_not_count_and_stays_stored(host, two_gpus, tmp_path, run):
    """The second case's first round takes twice as long as all others."""
    slow = CASES[1]
    seen = []

    def slower(case, method, streams):
        seen.append(case)
        first = seen.count(case) <= first_round
        return 2.0 if case == slow and first else 1.0

    first_round = sum(len(stream_counts(method, 5)) for method in Method)
    host.slower = slower
    found = record(two_gpus, 0, SIDES, fitted(), run)
    (one,) = [each for each in found.cases if each.case == slow]
    for timed in one.timed:
        assert set(timed.seconds) == {1e-3 * timed.streams}
        assert set(timed.disturbed) == {2e-3 * timed.streams}
    assert load(tmp_path / "run" / "validation.json") == found
    others = [timed for each in found.cases if each.case != slow for timed in each.timed]
    assert all(len(timed.seconds) == 10 and not timed.disturbed for timed in others)


def test_an_interrupted_run_keeps_what_it_has(host, two_gpus, tmp_path, run):
    host.stop = 9  # five counts of Streams and Explicit are done, and three of Hybrid
    with pytest.raises(KeyboardInterrupt):
        record(two_gpus, 0, SIDES, fitted(), run)
    found = load(tmp_path / "run" / "validation.json")
    assert not found.finished
    (one,) = found.cases
    assert {t.method for t in one.timed} == {Method.EXPLICIT, Method.STREAMS, Method.IMPLICIT}
    assert found.parameters == fitted()


@pytest.mark.parametrize("wrong", [1.0, np.nan])
def test_a_wrong_output_is_stored_as_such(host, two_gpus, tmp_path, wrong, run):
    def spoil(case, method, made):
        if case == CASES[1] and method is Method.HYBRID:
            made[2][3, 4, 5] = wrong

    host.spoil = spoil
    record(two_gpus, 0, SIDES, fitted(), run)
    found = load(tmp_path / "run" / "validation.json")
    ((case, check),) = found.wrong
    assert case.name == "state mwjf, 3 outputs"
    assert (check.method, check.output) == (Method.HYBRID, "DRHODS")
    assert (check.largest is None) == np.isnan(wrong)


def test_what_cannot_be_measured_is_refused_before_it_begins(host, two_gpus, tmp_path, run):
    from dataclasses import replace

    with pytest.raises(InputError, match="no GPU 7; there is 0, 1"):
        record(two_gpus, 7, SIDES, fitted(), run)
    with pytest.raises(InputError, match=r"lanescope.validate\(run=RUN\)"):
        record(replace(two_gpus, gpus=(), links=()), 0, SIDES, fitted(), run)
    (tmp_path / "full").write_text("")
    for taken in (tmp_path, tmp_path / "full"):
        with (
            pytest.raises(InputError, match="an empty folder"),
            analysis_folder("validate", taken, two_gpus),
        ):
            pass
    assert not host.ran


def test_the_kernel_alone_is_measured_in_one_launch_of_each_version(host, two_gpus, run):
    record(two_gpus, 0, SIDES, fitted(), run)
    assert host.alone == [(c, m) for c in CASES for m in (Method.EXPLICIT, Method.STREAMS)]


def test_numbers_of_streams_are_those_that_a_grid_has_levels_for():
    assert stream_counts(Method.STREAMS, 42) == STREAMS
    assert stream_counts(Method.HYBRID, 10) == (1, 2, 3, 4, 6, 8, 10)
    assert stream_counts(Method.STREAMS, 100) == STREAMS
    assert stream_counts(Method.IMPLICIT, 42) == (1,)


def test_cases_have_names_of_their_own():
    assert len({case_name(one) for one in CASES}) == len(CASES) == 7
