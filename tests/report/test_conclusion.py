from __future__ import annotations

from dataclasses import replace

from lanescope.results import Status, Verdict
from lanescope.store.folder import State, state_sentence
from lanescope.store.run import Run
from lanescope.studies.runs.outcome import conclusion
from tests.report import factory


def judged(run: Run, *statuses: Status) -> Run:
    """The first results of a run, their copies judged as given."""
    results = [
        replace(r, copies=tuple(replace(c, verdict=Verdict(status, "why")) for c in r.copies))
        for r, status in zip(run.results, statuses, strict=False)
    ]
    return Run(run.manifest, tuple(results))


def test_all_healthy():
    run = judged(factory.check_run(), Status.HEALTHY, Status.HEALTHY)
    assert conclusion(run) == "All 2 paths reach what their links can carry."


def test_healthy_beside_paths_without_verdict():
    run = judged(factory.check_run(), Status.HEALTHY, Status.HEALTHY, Status.UNJUDGED)
    assert conclusion(run) == (
        "All 2 judged paths reach what their links can carry; 1 path is shown without a verdict."
    )


def test_slow_paths_are_named():
    run = judged(factory.check_run(), Status.HEALTHY, Status.SLOW)
    assert conclusion(run) == "1 of 2 paths is slow: memory h0: copy all 16 cores."


def test_too_fast_is_said_to_be_wrong():
    run = judged(factory.check_run(), Status.IMPOSSIBLE)
    assert "faster than the links can be" in conclusion(run)


def test_many_slow_paths_are_counted_not_listed():
    text = conclusion(judged(factory.check_run(), *[Status.SLOW] * 6))
    assert text.startswith("6 of 6 paths are slow")
    assert text.endswith("and 3 more.")


def test_what_was_not_measured_is_counted():
    assert conclusion(factory.check_run(missing="g1")).endswith("6 paths are not measured.")


def test_predictions_are_called_so():
    text = conclusion(factory.predicted_run())
    assert text == "Predicted upper bounds for 16 paths; nothing was measured."


def test_a_sweep_counts_curves_not_sizes():
    assert conclusion(factory.sweep_run()).startswith("All 4 judged paths")


def test_no_results():
    assert conclusion(factory.run_of([], factory.two_gpus())) == "This run holds no results."


def test_unfinished_runs_say_so():
    assert state_sentence(State.COMPLETE) is None
    for state in (State.INTERRUPTED, State.RUNNING):
        assert "did not finish" in (state_sentence(state) or "")
