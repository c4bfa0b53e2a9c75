"""Rounds of a fit: which count, and what is told of the others."""

import numpy as np

from lanescope.prediction import measuring
from lanescope.prediction.measuring import measure_all
from lanescope.prediction.parameters import Direction
from lanescope.prediction.points import (
    MeasuredPoint,
    disturbed,
    is_settled,
    one_direction,
    settle,
    unsettled,
)

POINT, OTHER = one_direction(Direction.H2D, 1 << 20, 1), one_direction(Direction.D2H, 1 << 20, 4)


def timed(seconds, point=POINT, round_=0):
    return MeasuredPoint(point, np.full(5, 1e-6), np.full(5, seconds), None, round_)


def test_rounds_that_agree_are_joined():
    one = settle([timed(1.0), timed(1.02, round_=1), timed(2.0, OTHER)])
    assert [len(m.seconds) for m in one] == [10, 5]
    assert [m.point for m in one] == [POINT, OTHER]


def test_what_was_disturbed_does_not_count():
    rounds = [timed(1.5), timed(1.0, round_=1), timed(1.01, round_=2)]
    (one,) = settle(rounds)
    assert one.seconds.max() == 1.01
    assert disturbed(rounds) == 1
    assert unsettled(rounds) == ()


def test_rounds_that_never_agree_are_told():
    rounds = [timed(1.0), timed(1.2, round_=1), timed(1.4, round_=2)]
    assert unsettled(rounds) == (POINT,)
    assert not is_settled(rounds)
    assert unsettled([timed(1.0)]) == ()  # one round, as fits had at first


class Bench:
    """Takes the times that it was told, one after the other."""

    def __init__(self, times):
        self.times = {point: list(seconds) for point, seconds in times.items()}
        self.asked = []
        self.warm = False

    def warm_up(self):
        self.warm = not self.asked

    def measure(self, point, budget_seconds):
        self.asked.append(point)
        return timed(self.times[point].pop(0), point)


def test_only_what_does_not_agree_is_timed_again():
    bench = Bench({POINT: [1.0, 1.01], OTHER: [3.0, 2.0, 2.01]})
    found = list(measure_all(bench, [POINT, OTHER], 1.0))
    assert (bench.asked.count(POINT), bench.asked.count(OTHER)) == (2, 3)
    assert [one.round for one in found] == [0, 0, 1, 1, 6]
    assert bench.warm
    assert not unsettled(found)


def test_it_ends_where_nothing_agrees():
    bench = Bench({POINT: [1.1**-k for k in range(30)]})
    found = list(measure_all(bench, [POINT], 1.0))
    assert len(found) == 8
    assert unsettled(found) == (POINT,)


def test_it_ends_in_time_where_nothing_agrees(monkeypatch):
    monkeypatch.setattr(measuring, "_ENOUGH_SECONDS", 0.0)
    bench = Bench({POINT: [1.1**-k for k in range(30)]})
    assert len(list(measure_all(bench, [POINT], 1.0))) == measuring.ROUNDS


def test_short_transfers_are_timed_in_more_rounds():
    bench = Bench({POINT: [11e-6] + [10e-6] * 5, OTHER: [1.0, 1.0]})
    found = list(measure_all(bench, [POINT, OTHER], 1.0))
    assert (bench.asked.count(POINT), bench.asked.count(OTHER)) == (6, 2)
    assert disturbed(found) == 1


def test_each_round_has_an_order_of_its_own_the_same_in_every_fit():
    points = [one_direction(Direction.D2H, size << 20, 1) for size in range(1, 9)]

    def order():
        bench = Bench({point: [1.0, 1.0] for point in points})
        list(measure_all(bench, points, 1.0))
        return bench.asked

    asked = order()
    assert set(asked[:8]) == set(asked[8:]) == set(points)
    assert points != asked[:8] != asked[8:]
    assert asked == order()
