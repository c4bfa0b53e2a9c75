"""Which copies shared an engine, read from the times at which their windows ended."""

import dataclasses
import io
import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from lanescope.cli.output import exit_code
from lanescope.cli.run_text import run_tables
from lanescope.copies import Engine
from lanescope.copies.grammar import parse_copies
from lanescope.engine.sampling import Plan, measure_all
from lanescope.engine.sessions import GpuSession, _lane
from lanescope.results import Source, Status
from lanescope.results.turns import Turns, agreed_groups, groups_in_turns, seconds_in_turns
from lanescope.store.folder import State
from lanescope.store.run import Manifest
from lanescope.store.store import RunWriter, read_run
from lanescope.studies.runs.document import page_html
from lanescope.studies.runs.export import run_csv, run_json
from lanescope.studies.runs.rows import cell_values
from tests.conftest import experiment_of, gpu_to_gpu, gpu_to_host, host_to_gpu
from tests.engines import Engines
from tests.fake_backend import FakeBackend
from tests.findings.machine.simulator import nvswitched

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
GBS = 1e9
#: The set of the report, and what each copy does alone on two H200s, both ways at once.
ALL_DIRECTIONS = "h0 <-> g0, h0 <-> g1, g0 <-> g1"
HOST, PEER = (512 << 20) / (50 * GBS), (512 << 20) / (390 * GBS)
SECONDS = [HOST, 1.02 * HOST, HOST, 1.02 * HOST, PEER, PEER]
#: g0 → h0 and g0 → g1 share an engine, and so do g1 → h0 and g1 → g0.
SHARED = [[0], [1, 4], [2], [3, 5]]


class Backend:
    """Measures with a stand-in for the core."""

    source = Source.MEASURED

    def __init__(self, engines):
        self.engines = engines

    @contextmanager
    def prepare(self, experiment):
        yield GpuSession(self.engines, experiment, (), None)


def measured(machine, experiment, engines, budget=0.0):
    results = []
    measure_all(
        [experiment], Backend(engines), machine, Plan(budget_seconds=budget), results.append
    )
    return results[0]


def copies_of(machine, text):
    copies = parse_copies(text, machine)
    return experiment_of(*copies, name=text)


def groups_of(copies, engines, windows=16):
    return groups_in_turns(engines.run_gated(windows, 1), list(map(_lane, copies)))


@pytest.mark.parametrize("queues", [SHARED, [[0], [4, 1], [2], [5, 3]], [[0], [1, 4], [2], [5, 3]]])
def test_copies_of_one_engine_are_grouped_and_concurrent_ones_are_not(two_gpus, queues):
    experiment = copies_of(two_gpus, ALL_DIRECTIONS)
    found = groups_of(experiment.copies, Engines(SECONDS, queues))
    assert found == ((1, 4), (3, 5))


@pytest.mark.parametrize(
    ("before", "after", "agreed"),
    [
        (((0, 2, 4), (1, 3)), ((0, 2, 4), (1, 3)), ((0, 2, 4), (1, 3))),
        (((0, 2, 4), (1, 3)), ((1, 3), (2, 4)), ((0, 2, 4), (1, 3))),
        (((0, 2), (1, 3)), ((0, 2, 4), (1, 3)), ((0, 2, 4), (1, 3))),
        (((0, 2), (1, 3)), ((0, 4), (1, 3)), ()),  # each has seen what the other has not
        (((0, 2), (1, 3)), ((1, 3),), ()),  # one has not seen a group at all
        ((), ((1, 3),), ()),
        ((), (), ()),
    ],
)
def test_batches_with_nested_groups_agree(before, after, agreed):
    assert agreed_groups(before, after) == agreed


def test_those_that_share_an_engine_have_its_rate_by_turns(two_gpus):
    experiment = copies_of(two_gpus, ALL_DIRECTIONS)
    result = measured(two_gpus, experiment, Engines(SECONDS, SHARED))
    assert result.groups_in_turns == ((1, 4), (3, 5))
    own = [copy.gbs for copy in result.copies]
    assert own[0] == own[2] == pytest.approx(50, rel=0.01)
    each = (512 << 20) / (1.02 * HOST + PEER) / GBS
    assert [own[n] for n in (1, 3, 4, 5)] == pytest.approx([each] * 4, rel=0.01)
    for number in (1, 3, 4, 5):
        assert result.joint_gbs(number) == pytest.approx(2 * each, rel=0.01)
    assert result.joint_gbs(0) is None
    assert result.total_gbs == pytest.approx(2 * 50 + 4 * each, rel=0.01)
    reason = result.copies[4].verdict.reason
    assert "took turns with g0 → h0 on one copy engine of g0: in sum 87.1 GB/s" in reason
    assert [copy.verdict.status for copy in result.copies[4:]] == [Status.UNJUDGED] * 2
    assert result.copies[1].verdict.status is Status.HEALTHY


def test_all_pairs_and_hosts_of_four_gpus_have_their_rates():
    machine = nvswitched(4)
    pairs = [f"g{i} <-> g{j}" for i in range(4) for j in range(i + 1, 4)]
    experiment = copies_of(machine, ", ".join([*(f"h0 <-> g{i}" for i in range(4)), *pairs]))
    down, up, peer = 390 / 48 * PEER, 390 / 50 * PEER, PEER
    seconds, queues = [], {}
    for number, copy in enumerate(experiment.copies):
        ends = (copy.source.part, copy.destination.part)
        seconds.append(down if ends[0] == "h0" else up if ends[1] == "h0" else peer)
        queues.setdefault((copy.executing_gpu, seconds[-1]), []).append(number)
    result = measured(machine, experiment, Engines(seconds, list(queues.values()), first=2.0))
    assert len(result.groups_in_turns) == 4
    wanted = [48, 50] * 4 + [390 / 3] * 12
    assert [copy.gbs for copy in result.copies] == pytest.approx(wanted, rel=0.01)
    assert {copy.verdict.status for copy in result.copies} == {Status.HEALTHY}


def test_unequal_copies_of_an_engine_carry_as_much_by_turns(two_gpus):
    copies = parse_copies("h0 -> g0 512MiB, h0 -> g0 64MiB, h0 -> g0 200MiB, g0 -> h0", two_gpus)
    seconds = [copy.bytes / (50 * GBS) for copy in copies]
    result = measured(two_gpus, experiment_of(*copies), Engines(seconds, [[0, 1, 2], [3]]))
    assert result.groups_in_turns == ((0, 1, 2),)
    assert [c.gbs for c in result.copies] == pytest.approx([50 / 3] * 3 + [50], rel=0.05)
    assert all(c.share_of_limit < 1 for c in result.copies)
    assert {copy.verdict.status for copy in result.copies} == {Status.HEALTHY}


def test_groups_that_are_found_one_after_the_other_all_have_queues(two_gpus):
    copies = [host_to_gpu(), host_to_gpu(), host_to_gpu(gpu=1), host_to_gpu(gpu=1)]
    session = GpuSession(Engines([HOST] * 4, [[0, 1], [2, 3]]), experiment_of(*copies), (), None)
    session._take_in_turns(((0, 1),))
    session._queues_hold = True  # as one batch has shown
    while not all(one.size for one in session.sample()):
        assert len(session._copies.calls) < 12
    assert session.turns() == Turns(((0, 1), (2, 3)), by_windows=True)
    assert session._queues_hold


class Sleepy(Engines):
    """Whose first batches are one copy after the other, and the others at once."""

    def run_gated(self, windows, loops, shares=(), queues=()):
        self.queues = [[0, 1]] if len(self.calls) < 2 else [[0], [1]]
        return super().run_gated(windows, loops, shares, queues)


def test_copies_that_run_at_once_after_all_have_no_queue(two_gpus):
    both = experiment_of(gpu_to_host(), gpu_to_gpu(0, 1))
    result = measured(two_gpus, both, Sleepy([HOST, PEER], []), budget=0.1)
    assert result.groups_in_turns == ()
    assert [copy.gbs for copy in result.copies] == pytest.approx([50, 390], rel=0.01)
    assert "turns" not in result.method


def test_of_kernels_that_took_turns_the_sum_is_known(two_gpus):
    kernels = [dataclasses.replace(host_to_gpu(), engine=Engine.SM) for _ in range(2)]
    result = measured(two_gpus, experiment_of(*kernels), Engines([HOST, HOST], [[0, 1]]))
    assert result.groups_in_turns == ((0, 1),)
    assert [copy.gbs for copy in result.copies] == [None, None]
    assert result.joint_gbs(0) == pytest.approx(50)
    assert "the SMs of g0: only their sum is known, 50.0 GB/s" in result.copies[0].verdict.reason


def test_none_that_took_turns_is_blamed_however_slow(two_gpus):
    experiment = copies_of(two_gpus, ALL_DIRECTIONS)
    result = measured(two_gpus, experiment, Engines([5 * s for s in SECONDS], SHARED))
    wanted = [Status.UNJUDGED if c.in_turns_with else Status.SLOW for c in result.copies]
    assert [copy.verdict.status for copy in result.copies] == wanted
    assert wanted.count(Status.SLOW) == 2
    beside = [[n] for n in range(6)]  # where none waits, slow is slow
    result = measured(two_gpus, experiment, Engines([5 * s for s in SECONDS], beside))
    assert {copy.verdict.status for copy in result.copies} == {Status.SLOW}


def test_copies_that_all_run_concurrently_share_no_engine(two_gpus):
    experiment = copies_of(two_gpus, ALL_DIRECTIONS)
    engines = Engines(SECONDS, [[n] for n in range(6)])
    assert groups_of(experiment.copies, engines, windows=8) == ()
    result = measured(two_gpus, experiment, engines)
    assert result.groups_in_turns == ()
    assert result.copies[4].gbs == pytest.approx(390, rel=0.01)
    assert result.copies[4].verdict.status is Status.HEALTHY


def test_copies_that_an_engine_alternates_between_are_not_slow(two_gpus):
    engines = Engines(SECONDS, SHARED, alternate=True)
    result = measured(two_gpus, copies_of(two_gpus, ALL_DIRECTIONS), engines)
    assert result.groups_in_turns == ()  # each has the same time for itself, and it is true
    assert result.copies[1].gbs == result.copies[4].gbs == pytest.approx(43.5, rel=0.01)
    assert Status.SLOW not in {copy.verdict.status for copy in result.copies}
    assert result.copies[4].verdict.status is Status.UNJUDGED
    assert "alternate between it and g0 → h0" in result.copies[4].verdict.reason


def test_a_link_that_wakes_up_late_takes_no_turns(two_gpus):
    both = experiment_of(host_to_gpu(), gpu_to_gpu(0, 1))
    # the fast copy has ended when the slow one's first window, three times as long, has
    engines = Engines([20 * PEER, PEER], [[0], [1]], first=3.0)
    result = measured(two_gpus, both, engines)
    assert result.groups_in_turns == ()
    assert result.copies[0].gbs == pytest.approx(390 / 20, rel=0.01)


def test_streams_in_both_directions_are_grouped_by_direction(two_gpus):
    down, up = host_to_gpu(), gpu_to_host()
    copies = [down, up, down, up, down, up]
    # one is faster, so that its engine ends before the other one's
    engines = Engines([HOST, 1.1 * HOST] * 3, [[0, 2, 4], [1, 3, 5]])
    assert groups_of(copies, engines) == ((0, 2, 4), (1, 3, 5))
    alike = Engines([HOST, HOST] * 3, [[0, 2, 4], [1, 3, 5]])
    assert groups_of(copies, alike) == ((0, 2, 4), (1, 3, 5))
    result = measured(two_gpus, experiment_of(*copies), alike)
    assert result.joint_gbs(0) == pytest.approx(50)
    assert result.total_gbs == pytest.approx(100)
    assert [c.carried_gbs for c in result.copies] == pytest.approx([50 / 3] * 6)


def test_copies_of_two_gpus_never_share_an_engine(two_gpus):
    copies = [host_to_gpu(gpu=0), host_to_gpu(gpu=1)]
    assert groups_of(copies, Engines([HOST, HOST], [[0, 1]])) == ()
    with_kernel = [host_to_gpu(), dataclasses.replace(host_to_gpu(), engine="sm")]
    assert groups_of(with_kernel, Engines([HOST, HOST], [[0, 1]])) == ()


def test_a_copy_that_pauses_for_another_shares_its_engine(two_gpus):
    copies = [host_to_gpu(), host_to_gpu()]
    first = [1.0, 2.0, 3.0, 8.0, 9.0, 10.0]  # 4.0 to 7.0 is the other's
    assert groups_in_turns([first, [4.0, 5.0, 6.0, 7.0]], list(map(_lane, copies))) == ((0, 1),)


def test_copies_of_one_way_that_never_ran_at_once_share_its_engine(two_gpus):
    writes = [gpu_to_gpu(0, 1), gpu_to_gpu(0, 1), gpu_to_gpu(0, 1)]
    lanes = list(map(_lane, writes))
    apart = [[1.0, 2.0, 3.0, 4.0], [9.0, 10.0, 11.0, 12.0], [22.0, 23.0, 24.0, 25.0]]
    assert groups_in_turns(apart, lanes) == ((0, 1, 2),)
    at_once = [apart[0], [1.1, 2.1, 3.1, 4.1], apart[2]]
    assert groups_in_turns(at_once, lanes) == ((0, 2),)
    elsewhere = [lanes[0], _lane(gpu_to_gpu(1, 0)), lanes[2]]
    assert groups_in_turns(apart, elsewhere) == ((0, 2),)


def test_a_joint_time_begins_a_usual_window_before_the_first_window_ends():
    boundaries = [[9.0, 10.0, 11.0], [13.0, 15.0, 17.0], [5.0, 10.0, 15.0, 20.0]]
    seconds = seconds_in_turns(boundaries, ((0, 1),))
    assert seconds[0] == seconds[1] == pytest.approx([3.0])  # three times each, from 8 to 17
    assert seconds[2] == pytest.approx([5.0])  # from 10 to 15; the others reach past 9 to 17


def test_a_copy_that_never_ran_beside_the_others_is_not_known(two_gpus):
    kernel = dataclasses.replace(host_to_gpu(), engine=Engine.SM)
    engines = Engines([HOST, HOST, HOST / 1000], [[0, 1], [2]])
    result = measured(two_gpus, experiment_of(kernel, kernel, gpu_to_gpu(0, 1)), engines)
    last = result.copies[2]
    assert (last.gbs, last.carried_gbs, result.total_gbs) == (None, None, None)
    assert "never ran beside all the others" in last.verdict.reason
    assert result.joint_gbs(0) == pytest.approx(50)
    assert last.seconds == pytest.approx(np.full(last.seconds.size, HOST / 1000))


def test_a_fake_backend_may_say_so(two_gpus):
    both = experiment_of(host_to_gpu(), host_to_gpu())
    backend = FakeBackend(lambda copy, batch: [2 * HOST] * 6, turns=Turns(((0, 1),)))
    results = []
    measure_all([both], backend, two_gpus, Plan(budget_seconds=0.0), results.append)
    (result,) = results
    assert result.joint_gbs(1) == pytest.approx(50)
    assert result.copies[0].share_of_limit is None


def test_a_set_reads_back_with_its_turns(tmp_path, two_gpus):
    result = measured(two_gpus, copies_of(two_gpus, ALL_DIRECTIONS), Engines(SECONDS, SHARED))
    manifest = Manifest("copy", "lanescope copy", "2026-11-22T10:00:00+00:00", "0.4", two_gpus)
    writer = RunWriter(tmp_path / "run", manifest)
    writer.add(result)
    run = writer.finish(State.COMPLETE)
    assert read_run(run.folder) == run
    row = json.loads(run_json(run))["results"][4]
    assert (row["own_rate"], row["in_turns_with"]) == (True, [1])
    assert row["gbs"] == pytest.approx(result.joint_gbs(4) / 2)
    assert row["joint_gbs"] == pytest.approx(result.joint_gbs(4))
    assert len(run_csv(run).splitlines()) == 7
    screen = Console(file=io.StringIO(), width=240)
    screen.print(*run_tables(run), sep="\n")
    text = screen.file.getvalue()
    assert "g0 → h0, g0 → g1 took turns on an engine: 87.1 GB/s in sum" in text
    assert "slow" not in text
    assert exit_code(run, strict=True) == 0
    assert "took turns with g0 → h0" in page_html(run)


@pytest.mark.parametrize(("machine", "groups"), [("h200-x1/suite", 9), ("h200-x2/suite", 27)])
def test_sets_that_were_given_shares_are_read_as_what_they_are(machine, groups):
    run = read_run(RESULTS / machine)
    found = [r for r in run.results if r.groups_in_turns]
    assert len(found) == groups
    for result in found:
        (group,) = result.groups_in_turns
        assert group == tuple(range(len(result.copies)))
        assert {c.verdict.status for c in result.copies} == {Status.UNJUDGED}
        assert result.total_gbs == result.joint_gbs(0) == sum(c.carried_gbs for c in result.copies)


def test_a_cell_of_copies_in_turns_is_their_sum():
    run = read_run(RESULTS / "h200-x4" / "bench")
    results = {r.experiment.name: r for r in run.results}
    (case,) = (
        c for c in run.manifest.cases if c.name.startswith("one_to_all_write") and "ce" in c.name
    )
    (matrix,) = case.matrices
    for value in cell_values(matrix, results):
        assert value.median == pytest.approx(results[value.cell.experiment].joint_gbs(0))
        assert value.share_of_limit == pytest.approx(0.879, abs=0.005)
        assert value.verdict.status is Status.UNJUDGED
    part = dataclasses.replace(matrix.cells[0], measured=(0, 1))
    (value,) = cell_values(dataclasses.replace(matrix, cells=(part,)), results)
    assert (value.median, value.share_of_limit) == (None, None)
