import pytest

from lanescope.copies import Memory, Operation
from lanescope.studies.taruc.contended import suite_of
from lanescope.studies.taruc.parameters import Benchmark
from tests.taruc_plan import LARGEST, SIZES, host, hostdev, nurma, overhead, paper_machine
from tests.taruc_suite import PLANTED, suite_run, unresolved


def suite(*parts, missing=""):
    run = suite_run(paper_machine(2, 2), PLANTED, parts, missing)
    return suite_of(run.manifest.machine, run.results)


def test_series_differ_in_size_alone():
    for one in suite(host, hostdev, nurma, overhead).series:
        sizes = [p.bytes for p in one.points]
        assert sizes == sorted(set(sizes))
        assert len(sizes) in (len(SIZES), len(SIZES) - 1)


def test_threads_are_known_by_their_cpus():
    settings = [s.setting for s in suite(host).series]
    assert {s.thread for s in settings} == {"h0", "h1"}
    assert {s.path for s in settings} == {f"{a} → {b}" for a in ("h0", "h1") for b in ("h0", "h1")}
    assert sum(s.local for s in settings) == len(settings) / 4


def test_a_gather_is_timed_by_load():
    found = suite(nurma).of(Benchmark.NURMA)
    gather = next(s for s in found if s.setting.operation is Operation.GATHER)
    chase = next(s for s in found if s.setting.operation is Operation.CHASE)
    assert gather.points[-1].seconds[0] == pytest.approx(7.5e-9, rel=0.01)
    assert chase.points[-1].seconds[0] == pytest.approx(30e-9, rel=0.01)
    assert chase.points[-1].gbs is None


def test_directions_and_timing_of_copies_with_gpus():
    settings = {s.setting for s in suite(hostdev).series}
    assert {s.direction for s in settings} == {"h2d", "d2h"}
    assert {(s.gpu, s.node) for s in settings} == {
        (g, h) for g in ("g0", "g1") for h in ("h0", "h1")
    }
    assert {s.timing for s in settings if s.memory is Memory.PAGEABLE} == {"sync"}
    assert {s.timing for s in settings if s.memory is Memory.PINNED} == {"sync", "async"}


def test_unresolved_points_have_a_time_and_no_bandwidth():
    run = unresolved(suite_run(paper_machine(1, 0), PLANTED, (host,)), 4096)
    for one in suite_of(run.manifest.machine, run.results).series:
        small = [p for p in one.points if p.bytes <= 4096]
        assert len(small) == 4
        assert all(p.unresolved and p.gbs is None and p.seconds for p in small)
        assert one.at(4096) is None
        assert one.at(LARGEST) is one.points[-1]


def test_what_was_not_measured_says_why():
    for one in suite(overhead, missing="/pinned/").series:
        gone = one.setting.memory is Memory.PINNED
        assert all((p.measured is None) == gone for p in one.points)
        assert all("Locked memory" in p.verdict.reason for p in one.points if gone)
        assert bool(one.measured) != gone
