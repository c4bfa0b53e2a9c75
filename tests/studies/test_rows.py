"""What cells are worth: sums, the worst verdict, the least certain copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lanescope.copies.experiment import Cell, Matrix, Unit, experiment_of
from lanescope.copies.patterns import chase
from lanescope.copies.terms import Memory, Place
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import NotMeasuredError
from lanescope.results import Status, Verdict
from lanescope.studies.runs.rows import cell_values, sum_of, worst_verdict
from tests.conftest import gpu_to_host, host_to_gpu
from tests.fake_backend import FakeBackend

GB = 10**9
STEADY = [1.0] * 9
LOOSE = [0.8, 0.9, 0.9, 1.0, 1.0, 1.0, 1.1, 1.1, 1.4]


@pytest.fixture
def measured(two_gpus):
    """Return the result of 1 GB copies that take the given seconds."""

    def measure(copies, series):
        case = experiment_of(copies)
        found = []
        backend = FakeBackend(lambda copy, batch: series[case.copies.index(copy)])
        measure_all([case], backend, two_gpus, Plan(budget_seconds=0), found.append)
        return found[0]

    return measure


@pytest.fixture
def both(measured):
    return measured([host_to_gpu(GB), gpu_to_host(GB)], [STEADY, [x / 4 for x in LOOSE]])


def value(result, *copies, unit=Unit.GBS):
    name = result.experiment.name
    matrix = Matrix("", "", 1, 1, (Cell(0, 0, name, copies),), unit)
    return cell_values(matrix, {name: result})[0]


def test_a_cell_of_one_copy(both):
    found = value(both, 1)
    assert found.median == pytest.approx(4.0)
    assert found.mean == pytest.approx(sum(4 / x for x in LOOSE) / 9)
    assert found.samples == pytest.approx([4 / x for x in LOOSE])
    assert found.low < 4 / 1.1 < found.median < 4 / 0.9 < found.high
    assert found.half_width == both.copies[1].statistics.half_width
    assert found.number(mean=True) == found.mean


def test_a_cell_of_two_copies_adds_rates_and_keeps_the_least_certain(both):
    found = value(both, 0, 1)
    assert found.median == pytest.approx(1.0 + 4.0)
    assert found.mean == pytest.approx(1.0 + sum(4 / x for x in LOOSE) / 9)
    assert (found.samples, found.low, found.high) == ((), None, None)
    assert found.half_width == both.copies[1].statistics.half_width > 0
    assert found.variation == both.copies[1].statistics.variation > 0
    limits = sum(copy.limit_gbs for copy in both.copies)
    assert found.limit_gbs == pytest.approx(limits)
    assert found.share_of_limit == pytest.approx(5.0 / limits)


def test_nobody_knows_how_certain_a_sum_is_if_one_part_is_unknown(measured):
    few = measured([host_to_gpu(GB), gpu_to_host(GB)], [STEADY, STEADY])
    copies = (few.copies[0], replace(few.copies[1], limit_gbs=None))
    copies = (
        *copies[:1],
        replace(copies[1], statistics=replace(copies[1].statistics, half_width=None)),
    )
    found = value(replace(few, copies=copies), 0, 1)
    assert (found.half_width, found.limit_gbs, found.share_of_limit) == (None, None, None)
    assert found.median == pytest.approx(2.0)


def test_latencies_are_in_nanoseconds_and_have_no_share(two_gpus, measured):
    copy = chase(Place("h0", Memory.PINNED), two_gpus.gpus[0])
    result = measured([copy], [[x * 1e-6 for x in LOOSE]])
    found = value(result, 0, unit=Unit.NANOSECONDS)
    assert found.median == pytest.approx(1000)
    assert found.mean == pytest.approx(1022.2, abs=0.1)
    assert found.low < 1000 < found.high
    assert found.share_of_limit is None


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [
        ([Status.HEALTHY, Status.SLOW, Status.UNJUDGED], Status.SLOW),
        ([Status.SLOW, Status.IMPOSSIBLE], Status.IMPOSSIBLE),
        ([Status.HEALTHY, Status.UNJUDGED], Status.UNJUDGED),
        ([Status.HEALTHY], Status.HEALTHY),
    ],
)
def test_the_worst_copy_speaks_for_a_cell(statuses, worst):
    assert worst_verdict(Verdict(s, str(s)) for s in statuses).status is worst


def test_every_status_has_a_rank():
    assert {worst_verdict([Verdict(status, "")]).status for status in Status} == set(Status)


def test_the_slow_copy_of_a_sum_is_named(both):
    verdicts = [copy.verdict.status for copy in both.copies]
    assert Status.SLOW in verdicts
    assert value(both, 0, 1).verdict.status is Status.SLOW


def test_what_is_not_there_has_a_reason_and_no_number(two_gpus):
    def refuse(copy, batch):
        raise NotMeasuredError("g0 is busy.", "Wait.")

    found = []
    case = experiment_of([host_to_gpu(GB)])
    measure_all([case], FakeBackend(refuse), two_gpus, Plan(), found.append)
    cells = (
        Cell(0, 0, case.name, (0,)),
        Cell(0, 1, "an experiment of a run that was killed", (0,)),
        Cell(0, 2, not_applicable="they are out of reach"),
    )
    matrix = Matrix("", "", 1, 3, cells)
    busy, killed, out = cell_values(matrix, {case.name: found[0]})
    assert busy.verdict == Verdict(Status.NOT_MEASURED, "g0 is busy.", "Wait.")
    assert killed.verdict.reason == "the run ended before it"
    assert out.verdict == Verdict(Status.NOT_APPLICABLE, "they are out of reach")
    assert {v.number() for v in (busy, killed, out)} == {None}
    assert sum_of((busy, killed, out)) is None


def test_sums_are_of_what_is_known(both):
    known = value(both, 0)
    unknown = replace(known, median=None, mean=None)
    assert sum_of([known, unknown]) == pytest.approx(1.0)
    assert sum_of([known, value(both, 1)], mean=True) == pytest.approx(5.0, rel=0.1)
