"""The replay against the equations of the paper, and where these are not what they draw."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.errors import NotMeasuredError
from lanescope.prediction.costs import Rules
from lanescope.prediction.graphs import Order, TaskKind, graph_for
from lanescope.prediction.parameters import Duplex, Errors
from lanescope.prediction.predictor import PUBLISHED_ERRORS, Method, Prediction, Workload
from lanescope.prediction.replay import Replay, replay
from lanescope.units.estimate import Estimate
from tests.prediction.comparing import compare
from tests.prediction.machines import (
    direction,
    duplex,
    equation_3,
    equation_4,
    equation_5,
    exactly,
    launching,
    link,
    mapped,
    seconds,
    with_latencies,
)

PARTS = 2**10  # so that equal parts are equal to the byte

times = st.integers(0, 5000).map(lambda x: x * PARTS)
counts = st.sampled_from([1, 2, 4, 16, 64])


def streamed(h, e, d, n, parameters, order=Order.BREADTH, **more):
    """Seconds by streams, when a byte takes 1 ns and the kernel `e` ns."""
    graph = graph_for(Workload(h, d, e * 1e-9), Method.STREAMS, n, order=order)
    return seconds(graph, parameters, **more) * 1e9


def close(x):
    return pytest.approx(x, rel=1e-9, abs=1e-6)


@given(times, times, times, counts, st.sampled_from(Order))
def test_two_engines_are_equation_5(h, e, d, n, order):
    assert streamed(h, e, d, n, link(), order) == close(equation_5(h, e, d, n))


@pytest.mark.parametrize("engines", [1, 2])
def test_a_copy_is_held_longer_beside_one_that_goes_the_other_direction(engines):
    """Only two engines can: by the first copy back, one copy in has begun beside it."""
    both = Duplex(exactly(1e-9), exactly(1e-9), exactly(1e-4))
    h, e, d = (2**20,) * 3
    plain = streamed(h, e, d, 4, link(engines=engines))
    found = streamed(h, e, d, 4, link(engines=engines, duplex=both))
    assert (found > plain + 9e4) if engines == 2 else (found == close(plain))


@given(times, times, times, counts)
def test_one_engine_is_equations_3_and_4_together(h, e, d, n):
    expected = max(equation_3(h, e, d, n), equation_4(h, e, d, n))
    assert streamed(h, e, d, n, link(engines=1)) == close(expected)


def test_equation_3_alone_leaves_out_that_one_engine_does_both_directions():
    """The kernel dominates both ways, but not their sum."""
    h, e, d, n = 900.0 * PARTS, 1000.0 * PARTS, 900.0 * PARTS, 64
    measured = streamed(int(h), e, int(d), n, link(engines=1))
    assert measured == close(h + d)
    assert equation_3(h, e, d, n) < 0.6 * measured


@given(times, times, times, counts)
def test_implicit_synchronisation_is_equations_1_and_2(h, e, d, n):
    dominant = h / n + e + d if e > h else h + e / n + d
    assert streamed(h, e, d, n, link(engines=1, synchronises=True)) == close(dominant)


def test_no_copy_back_begins_before_the_last_kernel_ends():
    """Figure 1: practically no overlap between computation and copies to the host."""
    graph = graph_for(Workload(400, 400, 1e-6), Method.STREAMS, 4, order=Order.BREADTH)
    parameters = link(engines=1, synchronises=True)
    kernels = [i for i, t in enumerate(graph.tasks) if t.kind is TaskKind.KERNEL]
    back = [i for i, t in enumerate(graph.tasks) if t.kind is TaskKind.D2H]
    waves = replay(graph, parameters)
    assert min(waves.begin[i] for i in back) >= max(waves.end[i] for i in kernels)
    at_once = replay(graph, parameters, rules=Rules(many_waves=False))
    first_back = min(at_once.begin[i] for i in back)
    assert first_back == pytest.approx(max(at_once.begin[i] for i in kernels))


def test_with_one_queue_parts_that_are_handed_over_one_by_one_do_not_overlap():
    workload = (300 * PARTS, 200.0 * PARTS, 100 * PARTS, 4)
    parameters = link(engines=1)
    assert streamed(*workload, parameters, Order.DEPTH) == close(600 * PARTS)
    assert streamed(*workload, parameters, Order.BREADTH) < 500 * PARTS
    by_readiness = Rules(in_call_order=False)
    assert streamed(*workload, parameters, Order.DEPTH, rules=by_readiness) < 500 * PARTS


def full_equation_5(workload, n, parameters):
    """Figure 7, with L + o and g; seconds."""
    h2d, d2h = parameters.h2d, parameters.d2h
    h, g_h = workload.h2d_bytes * h2d.per_byte.value, h2d.gap.value * (n - 1)
    d, g_d = workload.d2h_bytes * d2h.per_byte.value, d2h.gap.value * (n - 1)
    e = workload.kernel_seconds
    directions = (h + g_h + e / n + d / n, h / n + e + d / n, h / n + e / n + d + g_d)
    return h2d.first.value + d2h.first.value + max(directions)


@dataclass
class StandIn:
    """Equation 5, for streams only."""

    name: str = "equation 5"
    is_slow: bool = False

    def predict(self, workload, method, streams, parameters):
        if method is not Method.STREAMS:
            raise NotMeasuredError("only streams here.")
        time = exactly(full_equation_5(workload, streams, parameters))
        return Prediction(method, streams, time, self.name, "kernel")


MB = 1 << 20
CASES = {
    "transfers": Workload(700 * MB, 350 * MB, 12e-3),
    "kernel": Workload(100 * MB, 50 * MB, 80e-3),
    "back": Workload(100 * MB, 500 * MB, 5e-3),
}


def test_table_1_with_latencies_and_gaps_is_equation_5():
    compared = compare(CASES, (1, 4, 64, 128), with_latencies(link()), one=StandIn())
    assert len(compared) == 12
    assert all(abs(c.difference) < 1e-6 for c in compared)
    assert all(c.other.predictor == "replay" for c in compared)


def test_the_difference_is_signed():
    slowed = with_latencies(link(duplex=duplex(1.2e-10, 1.2e-10)))
    compared = compare(CASES, (64,), slowed, one=StandIn())
    assert all(c.difference > 0 for c in compared)
    assert compared[0].difference == pytest.approx(
        compared[0].other.seconds.value / compared[0].one.seconds.value - 1
    )
    assert not compared[0].agree


def test_counts_that_a_workload_does_not_allow_are_left_out():
    few = {"few": replace(CASES["kernel"], most_streams=4)}
    compared = compare(few, (1, 4, 5), link(), one=StandIn())
    assert [c.one.streams for c in compared] == [1, 4]


def test_buoydiffs_dependency_adds_about_one_level():
    levels, level = 42, 1000
    free = Workload(levels * level, levels * level, levels * 100e-9, most_streams=levels)
    bound = replace(free, needs_previous=True, returns_later=1)
    without, with_ = (
        seconds(graph_for(w, Method.STREAMS, levels, order=Order.BREADTH), link()) * 1e9
        for w in (free, bound)
    )
    assert with_ - without == pytest.approx(level, rel=0.15)


def test_explicit_is_the_sum_of_its_parts():
    parameters = with_latencies(link())
    w = CASES["transfers"]
    expected = full_equation_5(w, 1, parameters)
    got = Replay().predict(w, Method.EXPLICIT, 7, parameters)
    assert got.seconds.value == pytest.approx(expected)
    assert (got.streams, got.busiest) == (1, "h2d")


def test_hybrid_needs_no_second_engine():
    one = link(engines=1, synchronises=True, mapped=mapped())
    w = Workload(400 * PARTS, 400 * PARTS, 100 * PARTS * 1e-9)
    time = Replay().predict(w, Method.HYBRID, 16, one).seconds.value * 1e9
    # a part's kernel writes as long as its input takes: 16 parts one behind the other, and one more
    assert time == close(400 * PARTS * 17 / 16)


def test_a_prediction_has_an_interval():
    first = Estimate(1e-6, 0.5e-6, 2e-6)
    wide = replace(
        direction(per_byte=1e-10), first=first, per_byte=Estimate(1e-10, 0.9e-10, 1.2e-10)
    )
    w = Workload(10**9, 10**9, 0.0)
    published = Replay().predict(w, Method.EXPLICIT, 1, link(wide, wide)).seconds
    off = PUBLISHED_ERRORS[Method.EXPLICIT]
    assert published.value == pytest.approx(0.2, rel=1e-4)
    assert published.low == pytest.approx(0.18 * (1 - off), rel=1e-4)
    assert published.high == pytest.approx(0.24 * (1 + off), rel=1e-4)
    compared = link(wide, wide, errors=Errors(10, 0.01, 0.02, 0.03))
    measured = Replay().predict(w, Method.EXPLICIT, 1, compared).seconds
    assert measured.high == pytest.approx(0.24 * 1.02, rel=1e-4)


def test_methods_that_were_not_measured_raise():
    for method in (Method.IMPLICIT, Method.HYBRID, Method.PAGEABLE):
        with pytest.raises(NotMeasuredError):
            Replay().predict(CASES["kernel"], method, 2, link(launching=launching()))
