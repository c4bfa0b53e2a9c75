"""Why points of a suite have no numbers."""

from dataclasses import replace

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place, Purpose, Timing
from lanescope.copies.terms import Access
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import NotMeasuredError
from lanescope.store.run import Manifest, Run
from lanescope.studies.runs.tables import unmeasured
from lanescope.studies.taruc.document import taruc_overview
from tests.fake_backend import FakeBackend
from tests.findings.machine.simulator import nvswitched
from tests.printed import printed

MACHINE = nvswitched(1)


def points(memory, sizes):
    place = Place("h0", memory)
    for size in sizes:
        access = Access(span_bytes=size * 8, stride_bytes=64)
        copy = Copy(place, place, size, Engine.CPU, Operation.CHASE, (0,), access=access)
        name = f"nurma/h0/by-h0/{memory}/chase/64/{size}"
        yield Experiment(name, name, (copy,), Timing.HOST, Purpose.NURMA)


def seconds(copy, batch):
    if copy.source.memory is Memory.HUGE:
        raise NotMeasuredError("The kernel gives no huge pages.", "Ask for them.")
    if copy.bytes > 800:
        raise NotMeasuredError(f"{copy.bytes} bytes are too many.")
    return [1e-9] * 9


def run_of(*experiments):
    found = []
    plan = Plan(budget_seconds=0, samples=9)
    measure_all(experiments, FakeBackend(seconds), MACHINE, plan, found.append)
    manifest = Manifest("nurma", "lanescope bench nurma", "2026-11-21", "0.3.0", MACHINE)
    return Run(manifest, tuple(found))


def test_the_most_frequent_reason_comes_first():
    run = run_of(*points(Memory.PAGEABLE, [80, 8000]), *points(Memory.HUGE, [80, 800]))
    assert unmeasured(run) == [
        "2 points such as nurma/h0/by-h0/huge/chase/64/80: The kernel gives no huge pages. "
        "Ask for them.",
        "nurma/h0/by-h0/pageable/chase/64/8000: 8000 bytes are too many.",
    ]
    assert "Not measured\n- 2 points such as" in printed(taruc_overview(run))


def test_many_reasons_are_cut():
    run = run_of(*points(Memory.PAGEABLE, range(8000, 8000 + 8 * 9, 8)))
    lines = unmeasured(run)
    assert len(lines) == 6
    assert lines[-1] == "4 points for other reasons, which --json tells."


def test_what_was_measured_needs_no_reason():
    run = run_of(*points(Memory.PAGEABLE, [80]))
    assert unmeasured(run) == []
    assert "Not measured" not in printed(taruc_overview(run))
    assert unmeasured(replace(run, results=())) == []
