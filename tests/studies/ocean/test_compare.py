"""Signed errors, choices and losses, from times that are known."""

from dataclasses import replace

import pytest

from lanescope.errors import NotMeasuredError
from lanescope.prediction.predictor import Method, Prediction, predictor_named
from lanescope.studies.ocean.measured import Choice, compare
from lanescope.studies.ocean.running import workload_of
from lanescope.studies.ocean.validate import held_out
from lanescope.units.estimate import Estimate
from tests.studies.link_parameters import fitted, within
from tests.studies.ocean.stored import case, h200, timed, validation


class FixedPredictor:
    """Predicts what it was told, in ms by method and streams, and keeps what it was asked."""

    name, is_slow = "told", False

    def __init__(self, times):
        self.times, self.asked = times, []

    def predict(self, workload, method, streams, parameters):
        self.asked.append((workload, method, streams))
        if (method, streams) not in self.times:
            raise NotMeasuredError("That was never measured.")
        seconds = self.times[method, streams] * 1e-3
        return Prediction(method, streams, within(seconds, 0.02), self.name, "h2d")


def compared(measured, told):
    rows = [timed(method, n, ms, spread) for (method, n), (ms, spread) in measured.items()]
    predictor = FixedPredictor(told)
    return compare(validation(case(*rows)), fitted(), predictor), predictor


E1, I1 = (Method.EXPLICIT, 1), (Method.IMPLICIT, 1)
S2, S4 = (Method.STREAMS, 2), (Method.STREAMS, 4)
MEASURED = {E1: (10.0, 0.0), S2: (6.0, 0.0), S4: (5.0, 0.03), I1: (5.1, 0.0)}


def test_errors_are_signed_shares_of_the_measured_time():
    found, _ = compared(MEASURED, {E1: 11.0, S2: 5.4, S4: 5.0, I1: 5.2})
    (one,) = found.cases
    assert [row.error for row in one.rows] == pytest.approx([0.1, -0.1, 0.0, 0.1 / 5.1])
    assert [row.inside for row in one.rows] == [False, False, True, True]
    worst, row = found.largest(Method.STREAMS)
    assert (worst, row.streams, row.error) == (one, 2, pytest.approx(-0.1))
    assert found.largest(Method.STREAMS, picked=True)[1].streams == 4
    assert found.largest(Method.HYBRID) is None


def test_the_fastest_method_chosen_is_right_whatever_its_streams():
    found, _ = compared(MEASURED, {E1: 11.0, S2: 4.0, S4: 4.5, I1: 5.2})
    (one,) = found.cases
    assert one.choice is Choice.RIGHT
    assert (one.chosen.streams, one.fastest.streams) == (2, 4)
    assert one.loss == pytest.approx(0.2)
    assert one.streams_loss(Method.STREAMS) == pytest.approx(0.2)
    assert found.largest_streams_loss() == (one, Method.STREAMS)


def test_another_method_is_a_tie_within_the_spread_of_the_fastest():
    wanted = {E1: 11.0, S2: 5.4, S4: 5.0, I1: 4.9}
    tie, _ = compared(MEASURED, wanted)
    assert tie.cases[0].choice is Choice.TIE
    assert tie.cases[0].loss == pytest.approx(0.02)
    wrong, _ = compared(MEASURED | {S4: (5.0, 0.01)}, wanted)
    assert wrong.cases[0].choice is Choice.WRONG


def test_of_equally_fast_numbers_of_streams_the_fewest_are_picked():
    found, _ = compared(MEASURED, {E1: 11.0, S2: 5.0, S4: 5.0, I1: 5.2})
    assert found.cases[0].picked(Method.STREAMS).streams == 2


def test_a_method_that_cannot_be_predicted_is_left_out_with_the_reason():
    found, _ = compared(MEASURED, {E1: 11.0, S2: 5.0, S4: 5.0})
    (one,) = found.cases
    assert Method.IMPLICIT not in one.methods
    assert [(s.method, s.reason) for s in one.skipped] == [
        (Method.IMPLICIT, "That was never measured.")
    ]


def test_predictors_are_told_the_kernel_alone_and_nothing_of_a_method():
    told = {E1: 11.0, S2: 5.0, S4: 5.0, I1: 5.2}
    _, predictor = compared(MEASURED, told)
    _, other = compared(dict.fromkeys(MEASURED, (7.0, 0.5)), told)
    assert predictor.asked == other.asked
    kernel = {method: work.kernel_seconds for work, method, _ in predictor.asked}
    assert kernel == {Method.EXPLICIT: 3e-4, Method.STREAMS: 3.2e-4, Method.IMPLICIT: 3.2e-4}
    work = predictor.asked[0][0]
    assert work == workload_of(case().case, (10, 48, 64), 3e-4)
    assert work.h2d_bytes == 2 * 64 * 48 * 10 * 8


@pytest.mark.parametrize("name", ["equations", "equations-shared", "replay"])
def test_what_an_h200_measured_is_predicted_row_by_row(name):
    measured = h200()
    found = compare(measured, fitted(), predictor_named(name))
    assert len(found.cases) == len(measured.cases)
    rows = [row for _, row in found.rows]
    assert len(rows) == sum(len(one.timed) for one in measured.cases)
    for row in rows:
        assert row.predicted.low < row.predicted.value < row.predicted.high
    # Parameters near those of that machine: copies in one direction are what all agree on.
    assert abs(found.largest(Method.EXPLICIT)[1].error) < 0.05
    for one in found.cases:
        assert one.loss >= 0
        assert all(one.streams_loss(method) >= 0 for method in one.methods)


@pytest.mark.parametrize(
    ("counts", "said", "not_said"),
    [
        ((None, None), "is computed from the kernel and the grid", "counted"),
        ((1.2, 2.0), "was counted by PM sampling", "computed"),
        ((1.2, None), "where that could be, and else is computed", "none"),
    ],
)
def test_what_was_held_out_says_where_reads_come_from(counts, said, not_said):
    row = timed(Method.IMPLICIT, 1, 5.0)
    cases = [replace(case(row), counted_reads=count) for count in counts]
    text = held_out(compare(validation(*cases), fitted(), FixedPredictor({I1: 5.0})))
    assert said in text
    assert not_said not in text


def test_parameters_without_pageable_memory_leave_it_out_of_every_case():
    known = replace(fitted(), pageable_h2d=None, pageable_d2h=None)
    found = compare(h200(), known, predictor_named("equations"))
    assert all(Method.PAGEABLE not in one.methods for one in found.cases)
    assert all(one.skipped[0].method is Method.PAGEABLE for one in found.cases)


def test_a_median_has_its_interval_and_its_spread():
    one = timed(Method.EXPLICIT, 1, 10.0, 0.3)
    assert one.median == Estimate(one.seconds[3], one.seconds[0], one.seconds[-1])
    assert one.spread == (pytest.approx(0.0073), pytest.approx(0.0127))
