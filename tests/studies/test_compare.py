"""What changed between two runs."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from lanescope.copies.copy import Copy, Engine
from lanescope.report.terminal import renderables
from lanescope.results import Result
from lanescope.store.run import Run
from lanescope.studies.runs import compare
from lanescope.studies.runs.compare import changes, comparison, headline
from tests.report import factory


def text(before: Run, after: Run) -> str:
    console = Console(file=io.StringIO(), width=120)
    for part in renderables(comparison(before, after, 0.02)):
        console.print(part)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_a_run_is_as_itself():
    run = factory.check_run()
    found = changes(run, run)
    assert found
    assert all(c.effect == 0 and not c.is_certain(0.02) for c in found)
    assert headline(found, 0.02) == f"{len(found)} paths as before within 2.0 %."


def test_a_large_effect_that_is_not_certain_is_not_as_before():
    run = factory.check_run()
    (first, *others) = changes(run, run)
    wide = replace(first, effect=-0.5, half_width=0.6)
    count = len(others)
    assert headline([wide, *others], 0.02) == (
        f"{count} paths as before within 2.0 %; 1 path of which no change is certain."
    )


def test_the_table_says_as_the_headline_what_is_not_certain(monkeypatch):
    run = factory.check_run()
    (first, *others) = changes(run, run)
    wide = replace(first, effect=-0.5, half_width=0.6)
    monkeypatch.setattr(compare, "changes", lambda *runs: [wide, *others])
    said = text(run, run)
    assert said.count("not certain") == 1
    assert said.count("as before") == len(others) + 1  # and the headline


def test_what_got_slower_is_named_with_its_effect():
    before, after = factory.check_run(), factory.check_run(slow="g0")
    slower = {c.after.label: c for c in changes(before, after) if c.is_slower(0.02)}
    to_g0 = {"h0 → g0", "g1 → g0"}  # the slow GPU of these results takes bytes slowly
    assert set(slower) == to_g0 | {f"{path}, both at once" for path in to_g0}
    assert all(c.effect == pytest.approx(-0.5, abs=0.02) for c in slower.values())
    assert text(before, after).startswith("4 paths slower, most ")
    back = changes(after, before)
    assert not any(c.is_slower(0.02) for c in back)
    assert sum(c.is_certain(0.02) and c.effect > 0 for c in back) == 4


def test_an_effect_that_noise_explains_is_none():
    found = changes(factory.check_run(), factory.check_run(slow="g0"))
    noisy = [replace(c, half_width=0.6) for c in found]
    assert not any(c.is_slower(0.02) for c in noisy)
    unknown = [replace(c, half_width=None) for c in found]
    assert not any(c.is_certain(0.02) for c in unknown)
    said = headline(unknown, 0.02)
    assert said == f"No path can be judged: {len(found)} paths without an interval."
    assert "as before" in headline([*unknown, replace(found[0], effect=0.0)], 0.02)


def test_what_only_one_has_is_said():
    before, after = factory.check_run(), factory.check_run(missing="g1")
    assert "Only A measured" in text(before, after)
    assert "Only B measured" in text(after, before)
    assert headline([], 0.02) == "The runs have no measured path in common."


def _with_sizes(run: Run, of_gpus: int, of_host: int) -> Run:
    """Return a run of the same rates, with copies of other sizes."""

    def sized(copy: Copy) -> Copy:
        on_host = copy.source.is_host and copy.destination.is_host
        return replace(copy, bytes=of_host if on_host else of_gpus)

    def resized(result: Result) -> Result:
        experiment = result.experiment
        experiment = replace(experiment, copies=tuple(map(sized, experiment.copies)))
        copies = tuple(replace(one, copy=sized(one.copy)) for one in result.copies)
        return replace(result, experiment=experiment, copies=copies)

    return replace(run, results=tuple(map(resized, run.results)))


def test_copies_of_other_sizes_are_other_paths():
    run = factory.check_run()
    small, large = (_with_sizes(run, size, 1 << 30) for size in (1 << 20, 1 << 29))
    found = changes(small, large)
    assert found
    assert all(c.after.copy.engine is Engine.CPU for c in found)
    said = text(small, large)
    assert "Only A measured h0 → g0, 1 MiB; " in said
    assert "Only B measured h0 → g0, 512 MiB; " in said
    same = _with_sizes(run, 1 << 20, 1 << 31)  # of the host: the machine decides
    assert len(changes(small, same)) == len(changes(run, run))


def test_rates_of_copies_in_turns_are_none_of_copies_without():
    run = factory.check_run()
    number = next(n for n, one in enumerate(run.results) if len(one.copies) == 2)
    both = run.results[number]
    turned = tuple(replace(one, in_turns_with=(1 - n,)) for n, one in enumerate(both.copies))
    results = list(run.results)
    results[number] = replace(both, copies=turned)
    other = replace(run, results=tuple(results))
    assert len(changes(run, other)) == len(changes(run, run)) - 2
    assert len(changes(other, other)) == len(changes(run, run))
    assert "Only A measured" in text(run, other)


def test_a_prediction_is_never_compared_in_silence():
    predicted = factory.predicted_run()
    assert text(predicted, predicted).startswith("PREDICTED, not measured: A and B.")
    assert "PREDICTED" not in text(factory.check_run(), factory.check_run())


def test_other_machines_and_versions_are_said():
    before, after = factory.check_run(), factory.check_run(factory.eight_gpus())
    later = replace(after, manifest=replace(after.manifest, tool_version="9.9"))
    said = text(before, later)
    assert "A is of node-17 (2 x NVIDIA H200), B of" in said
    assert "by 9.9" in said


def test_another_number_of_cores_is_said():
    before = factory.check_run()
    machine = before.manifest.machine
    half = tuple(replace(node, cores=node.cores[: len(node.cores) // 2]) for node in machine.nodes)
    fewer = replace(before.manifest, machine=replace(machine, nodes=half))
    counts = [sum(len(node.cores) for node in one) for one in (machine.nodes, half)]
    assert f"A has {counts[0]} cores, B {counts[1]}." in text(
        before, replace(before, manifest=fewer)
    )
    assert "A has" not in text(before, before)
