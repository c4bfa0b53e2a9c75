"""What stored watches of an H200 tell as chapters of the thesis."""

import dataclasses
import json
from pathlib import Path

import pytest

from lanescope.errors import InputError
from lanescope.store.folder import State
from lanescope.studies.pcie_thesis.evaluate import evaluate
from lanescope.studies.pcie_thesis.reproduction import (
    Mode,
    ProgramStep,
    is_reproduction,
    moving,
    read_reproduction,
)
from lanescope.studies.pcie_thesis.results import reproduction_json
from lanescope.studies.pcie_thesis.sources import counted_steps, payload_of, windows
from lanescope.trace.store import is_watch, read_watch
from tests.studies.pcie_thesis.reproductions import (
    CAPTURES,
    MACHINE,
    coarser,
    reproduction,
    steps_of,
)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = reproduction(tmp_path_factory.mktemp("whole") / "run", repetitions=2)
    return evaluate(read_reproduction(folder))


def program(told, key):
    return next(one for one in told.programs if one.program.key == key)


def test_pm_agrees_with_the_program_and_the_trace_to_the_byte(told):
    vectors = program(told, "vector-add-400MB")
    pm, trace = vectors.sources
    assert vectors.truth_bytes == (800_000_000, 800_000_000)
    for deviation, exact in zip(pm.deviation, trace.deviation, strict=True):
        assert 0 < abs(deviation.value) < 0.001
        assert (exact.value, exact.n) == (0, 2)
    assert trace.copies.value == 4
    assert (pm.shaped, pm.copying, pm.lost) == (4, 4, 0)
    assert pm.interval_seconds.value == pytest.approx(100e-6, rel=0.01)
    assert pm.elsewhere_bytes[0].value > 1 << 20  # what CUDA moves when it starts


def test_slowdowns_are_against_the_unwatched_run_of_the_same_repetition(told):
    for one in told.programs:
        assert one.slowdown[Mode.SOURCES].value == pytest.approx(0.02, abs=1e-6)
        assert one.slowdown[Mode.PROBE].value == pytest.approx(0.10, abs=1e-6)
        assert one.slowdown[Mode.PROBE].n == 2


def test_the_probe_tells_copies_by_bandwidth_and_kernels_by_delay(told):
    assert told.idle_gbs[0].value == pytest.approx(20.48)
    assert told.idle_delay_seconds[1].value == pytest.approx(5e-6)
    matmul = program(told, "matmul")
    for noticed in matmul.noticed:
        assert noticed.seen == noticed.steps > 0
        assert noticed.alarms == 0
    by_name = {step.name: step for step in matmul.steps}
    assert by_name["compute"].probe_delay_seconds[0].value == pytest.approx(20e-6)
    assert by_name["compute"].probe_gbs[0].value == pytest.approx(20.48)
    copies = [step for step in matmul.steps if step.d2h_bytes]
    assert copies[0].probe_gbs[1].value == pytest.approx(20.48 / 3)
    assert any("during 'compute'" in words for words in matmul.sentences.probe)


def test_every_number_of_the_json_has_its_unit_method_and_spread(told):
    content = json.loads(json.dumps(reproduction_json(told), allow_nan=False))
    pm = content["programs"][0]["sources"][0]
    assert pm["source"] == "pm"
    for value in (pm["bytes"]["h2d"], content["idle"]["probe_gbs"]["d2h"]):
        assert {"value", "unit", "method", "low", "high", "n"} == set(value)
        assert value["low"] <= value["value"] <= value["high"]
    assert content["turns_done"] == content["turns_planned"] == 14


def test_a_reproduction_holds_watches_that_can_be_read_by_themselves(told):
    folder = told.reproduction.folder
    assert is_reproduction(folder)
    assert not is_watch(folder)
    assert is_watch(folder / "matmul/sources-2")
    assert not is_reproduction(folder / "matmul/sources-2")
    assert len(read_watch(folder / "matmul/probe-1").timeline.probes) == 1


@pytest.mark.parametrize("most", [0, 1, 2, 3, 4, 6])
def test_what_was_done_before_the_end_is_told(tmp_path: Path, most: int):
    found = evaluate(read_reproduction(reproduction(tmp_path / "run", most=most)))
    assert found.reproduction.asked.state is State.INTERRUPTED
    assert len(found.reproduction.done) == most
    assert (found.idle_gbs[0] is not None) == (most > 0)
    assert len(found.programs) == (most > 1) + (most > 4)
    if most == 2:
        (vectors,) = found.programs
        assert not vectors.sources
        assert not vectors.slowdown
        assert Mode.PLAIN in vectors.work_seconds


def test_a_damaged_one_is_one_sentence(tmp_path: Path):
    folder = reproduction(tmp_path / "run", most=1)
    (folder / "idle/probe-1/steps.json").write_text("{")
    with pytest.raises(InputError, match="cut short"):
        read_reproduction(folder)


def test_a_program_without_its_name_is_one_sentence(tmp_path: Path):
    folder = reproduction(tmp_path / "run", most=1)
    manifest = folder / "manifest.json"
    table = json.loads(manifest.read_text())
    for one in table["programs"]:
        one["arguments"] = []
    manifest.write_text(json.dumps(table))
    with pytest.raises(InputError, match="has no arguments"):
        read_reproduction(folder)


def test_a_coarse_source_has_the_bytes_but_not_the_shape():
    run = read_watch(CAPTURES / "vector-add")
    (pm,) = run.timeline.counters
    steps = moving(steps_of(run.timeline.operations), 1 << 20)
    coarse = coarser(pm, 200, "pm")  # every 20 ms
    payload = payload_of(run.timeline, coarse, MACHINE)
    found = counted_steps(payload, steps)
    assert found is not None
    assert found.bytes is not None
    assert found.shaped == 0
    for told_bytes in found.bytes:
        assert told_bytes == pytest.approx(800e6, rel=0.02)
    fine = counted_steps(payload_of(run.timeline, pm, MACHINE), steps)
    assert fine is not None
    assert fine.highest_gbs[0] > found.highest_gbs[0]


def test_bytes_of_steps_that_are_not_known_are_not_told():
    run = read_watch(CAPTURES / "vector-add")
    (pm,) = run.timeline.counters
    steps = moving(steps_of(run.timeline.operations), 1 << 20)
    lost = (pm.end_ns > steps[0].begin_ns) & (pm.end_ns < steps[0].end_ns)
    cut = dataclasses.replace(pm, known=pm.known & ~lost)
    found = counted_steps(payload_of(run.timeline, cut, MACHINE), steps)
    assert found is not None
    assert found.bytes is None


def test_windows_of_steps_that_are_near_are_one():
    steps = [
        ProgramStep("b", 250, 300, 1, 0, 1),
        ProgramStep("a", 100, 200, 1, 0, 1),
        ProgramStep("c", 900, 950, 1, 0, 1),
    ]
    assert windows(steps, 30).tolist() == [70, 330, 870, 980]
    assert windows(steps[:2], 10).tolist() == [90, 210, 240, 310]
    assert windows([], 10).size == 0
