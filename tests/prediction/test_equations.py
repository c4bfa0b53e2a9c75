"""The predictor by equations: the paper's cases, and what holds for any workload."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.errors import NotMeasuredError
from lanescope.prediction.equations import Equations
from lanescope.prediction.explanation import bounds_of
from lanescope.prediction.parameters import Origin
from lanescope.prediction.predictor import PUBLISHED_ERRORS, Method, Workload, error_band
from lanescope.prediction.rank import rank
from lanescope.prediction.replay import Replay
from lanescope.prediction.stored_parameters import named_parameters
from tests.studies.link_parameters import fitted

#: One array of doubles on the paper's grid of 1024 × 1024 × 42 points.
ARRAY = 1024 * 1024 * 42 * 8
STREAMS = 42
MACHINES = {name: named_parameters(name) for name in ("gtx680", "gtx-titan", "k20")}
FITTED = fitted()


def state(outputs, kernel=0.0):
    return Workload(2 * ARRAY, outputs * ARRAY, kernel)


def buoydiff(kernel=0.0, reads=246 / 84):
    """With the reads of a kernel that finds nothing in a cache: 246 levels where 84 would do."""
    return Workload(2 * ARRAY, 2 * ARRAY, kernel, needs_previous=True, mapped_reads=reads)


@pytest.mark.parametrize(
    ("workload", "milliseconds"), [(state(1), 86.6), (state(3), 142.4), (buoydiff(), 114.5)]
)
def test_table_1_gives_the_transfers_of_the_papers_explicit_kernels(workload, milliseconds):
    titan = MACHINES["gtx-titan"]
    found = Equations().predict(workload, Method.EXPLICIT, 1, titan)
    assert found.seconds.value * 1e3 == pytest.approx(milliseconds, abs=0.05)
    with_kernel = replace(workload, kernel_seconds=0.007)
    more = Equations().predict(with_kernel, Method.EXPLICIT, 1, titan)
    assert more.seconds.value - found.seconds.value == pytest.approx(0.007)


#: Their kernels move 1 to 2 GB of device memory and compute little: these times hold the GPUs'
#: 192 to 288 GB/s with room on both sides.
KERNELS = [0.001, 0.003, 0.006, 0.012, 0.025, 0.04]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("machine", MACHINES)
def test_mapped_memory_is_best_for_state_everywhere(machine, outputs, kernel):
    ranking = rank(state(outputs, kernel), MACHINES[machine], Equations(), [STREAMS])
    assert ranking.winner.method is Method.IMPLICIT


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("machine", "best"),
    [("gtx680", Method.HYBRID), ("gtx-titan", Method.HYBRID), ("k20", Method.STREAMS)],
)
def test_the_best_method_for_buoydiff_differs_by_machine(machine, best, kernel):
    ranking = rank(buoydiff(kernel), MACHINES[machine], Equations(), [STREAMS])
    assert ranking.winner.method is best
    assert ranking.curves[Method.IMPLICIT].best.seconds.value > ranking.winner.seconds.value


def test_caches_can_make_mapped_memory_the_best_for_buoydiff_too():
    ranking = rank(buoydiff(0.006, reads=1.0), MACHINES["gtx-titan"], Equations(), [STREAMS])
    assert ranking.winner.method is Method.IMPLICIT


def test_streams_on_the_titan_by_hand():
    """Equation 4: both directions' bytes by table I, and 41 gaps each."""
    titan = MACHINES["gtx-titan"]
    found = Equations().predict(buoydiff(0.006), Method.STREAMS, STREAMS, titan)
    bytes_only = 2 * ARRAY * (8.318392e-11 + 7.924734e-11)
    assert found.seconds.value == pytest.approx(
        bytes_only + 9.42e-6 + 9.023e-6 + 41 * (2.503e-6 + 2.674e-6), rel=1e-9
    )


def test_hybrid_takes_g_beside_mapped_writes():
    found = Equations().predict(buoydiff(0.006), Method.HYBRID, STREAMS, MACHINES["gtx-titan"])
    h2d, d2h = 2 * ARRAY * 1.193386e-10, 2 * ARRAY * 1.480396e-10
    by_hand = h2d / 42 + 0.006 / 42 + d2h + 9.42e-6 + 9.023e-6 + 41 * 2.674e-6
    assert found.seconds.value == pytest.approx(by_hand, rel=1e-9)
    assert found.busiest == "d2h"


@pytest.mark.parametrize("shared", [False, True])
def test_hybrid_with_one_stream_writes_beside_no_copies(shared):
    """As the replay has it: copies in, and then the longer of the kernel and its writes."""
    known = fitted(launching=None)
    for kernel in (1e-4, 0.1):
        work = Workload(2 * ARRAY, ARRAY, kernel)
        found = Equations(shared=shared).predict(work, Method.HYBRID, 1, known).seconds
        by_hand = 2 * ARRAY / 55e9 + max(kernel, ARRAY / 52e9)
        assert found.value == pytest.approx(by_hand, rel=1e-3)
        replayed = Replay().predict(work, Method.HYBRID, 1, known).seconds
        assert found.value == pytest.approx(replayed.value, rel=1e-3)
        assert found.low < by_hand < found.high


def test_hybrid_with_one_stream_without_mapped_memory_takes_gs_of_copies():
    work = Workload(1 << 30, 1 << 30, 0.0)
    found = Equations().predict(work, Method.HYBRID, 1, fitted(mapped=None, launching=None))
    assert found.seconds.value == pytest.approx((1 << 30) * (1 / 55e9 + 1 / 54e9), rel=1e-3)


def test_two_engines_take_g_under_traffic_both_directions():
    found = Equations().predict(buoydiff(0.006), Method.STREAMS, STREAMS, MACHINES["k20"])
    h2d, d2h = 2 * ARRAY * 1.741965e-10, 2 * ARRAY * 1.747120e-10
    by_hand = max(h2d + d2h / 42 + 41 * 2.503e-6, h2d / 42 + d2h + 41 * 2.674e-6)
    assert found.seconds.value == pytest.approx(by_hand + 0.006 / 42 + 18.443e-6, rel=1e-9)


def test_implicit_takes_both_delays_and_the_longest_part():
    found = Equations().predict(state(1, 0.02), Method.IMPLICIT, 7, MACHINES["gtx-titan"])
    assert found.seconds.value == pytest.approx(18.443e-6 + 2 * ARRAY * 8.318392e-11, rel=1e-9)
    assert (found.streams, found.busiest) == (1, "h2d")


@pytest.mark.parametrize(
    "method", [Method.EXPLICIT, Method.IMPLICIT, Method.STREAMS, Method.HYBRID]
)
def test_published_parameters_get_the_papers_largest_errors(method):
    found = Equations().predict(state(1, 0.006), method, 8, MACHINES["gtx-titan"]).seconds
    share = PUBLISHED_ERRORS[method]
    assert found.low == pytest.approx(found.value * (1 - share))
    assert found.high == pytest.approx(found.value * (1 + share))


@pytest.mark.parametrize("method", list(Method))
def test_fitted_parameters_give_their_own_interval_and_errors(method):
    work = Workload(1 << 28, 1 << 28, 1e-4)
    wide = Equations().predict(work, method, 8, FITTED).seconds
    assert wide.low < wide.value * (1 - FITTED.errors.p95)
    assert wide.high > wide.value * (1 + FITTED.errors.p95)
    assert wide.high < wide.value * (error_band(FITTED, work, method, 8)[1] + 0.02)


def test_what_is_not_known_is_said():
    for method, changes in (
        (Method.PAGEABLE, {"pageable_d2h": None}),
        (Method.IMPLICIT, {"mapped": None}),
        (Method.HYBRID, {"mapped": None, "explicit_mapped": None}),
    ):
        with pytest.raises(NotMeasuredError, match=r"do not tell what .* lanescope.fit\(\)"):
            Equations().predict(state(1), method, 4, fitted(**changes))


def test_many_small_parts_are_bound_by_the_calls():
    work = Workload(1 << 20, 1 << 20, 0.0, h2d_arrays=4, d2h_arrays=4)
    found = Equations().predict(work, Method.STREAMS, 256, FITTED)
    assert found.busiest == "calls"
    assert found.seconds.value == pytest.approx(256 * (8 * 1.5e-6 + 2e-6), rel=1e-6)


def test_each_array_of_a_part_has_its_gap():
    titan = MACHINES["gtx-titan"]
    one = Equations().predict(state(1), Method.EXPLICIT, 1, titan).seconds.value
    work = replace(state(1), h2d_arrays=2, d2h_arrays=3)
    found = Equations().predict(work, Method.EXPLICIT, 1, titan).seconds.value
    assert found - one == pytest.approx(2.503e-6 + 2 * 2.674e-6)
    cut = Equations().predict(work, Method.STREAMS, 10, titan).seconds.value
    plain = Equations().predict(state(1), Method.STREAMS, 10, titan).seconds.value
    assert cut - plain == pytest.approx(10 * 2.503e-6 + 20 * 2.674e-6)


def test_shared_slows_the_longer_direction_only_beside_the_shorter():
    printed, shared = Equations(), Equations(shared=True)
    few = Workload(1 << 30, 1 << 20, 0.0)
    slow = printed.predict(few, Method.STREAMS, 16, FITTED).seconds.value
    quick = shared.predict(few, Method.STREAMS, 16, FITTED).seconds.value
    alone = Equations().predict(replace(few, d2h_bytes=0), Method.STREAMS, 16, FITTED)
    assert quick < slow * 0.87
    assert quick == pytest.approx(alone.seconds.value, rel=0.002)
    # as many bytes, as fast both ways: slowed all the time
    even = fitted(
        d2h=FITTED.h2d, duplex=replace(FITTED.duplex, d2h_per_byte=FITTED.duplex.h2d_per_byte)
    )
    equal = Workload(1 << 30, 1 << 30, 0.0)
    a = printed.predict(equal, Method.STREAMS, 16, even).seconds.value
    assert shared.predict(equal, Method.STREAMS, 16, even).seconds.value == pytest.approx(a)


machines = st.sampled_from([*MACHINES.values(), FITTED])
workloads = st.builds(
    Workload,
    st.integers(1 << 16, 1 << 30),
    st.integers(1 << 16, 1 << 30),
    st.floats(0, 0.2),
    st.integers(1, 4),
    st.integers(1, 4),
    mapped_reads=st.floats(1, 4),
)
methods = st.sampled_from([m for m in Method if m is not Method.PAGEABLE])
counts = st.integers(1, 64)
predictors = st.sampled_from([Equations(), Equations(shared=True)])


@given(machines, workloads, methods, counts, predictors)
def test_a_prediction_lies_within_its_interval(machine, work, method, n, predictor):
    found = predictor.predict(work, method, n, machine)
    assert 0 < found.seconds.low < found.seconds.value < found.seconds.high
    assert found == predictor.predict(work, method, n, machine)


@given(machines, workloads, methods, counts, predictors, st.integers(1, 1 << 30))
@settings(max_examples=200)
def test_more_to_do_is_never_faster(machine, work, method, n, predictor, more):
    before = predictor.predict(work, method, n, machine).seconds
    for harder in (
        replace(work, h2d_bytes=work.h2d_bytes + more),
        replace(work, d2h_bytes=work.d2h_bytes + more),
        replace(work, kernel_seconds=work.kernel_seconds + more * 1e-10),
    ):
        after = predictor.predict(harder, method, n, machine).seconds
        for a, b in zip(
            (before.low, before.value, before.high),
            (after.low, after.value, after.high),
            strict=True,
        ):
            assert b >= a * (1 - 1e-9)


@given(machines, workloads)
def test_one_stream_is_explicit(machine, work):
    for predictor in (Equations(), Equations(shared=True), Replay()):
        one = predictor.predict(work, Method.STREAMS, 1, machine).seconds.value
        explicit = predictor.predict(work, Method.EXPLICIT, 1, machine).seconds.value
        assert one == pytest.approx(explicit)


@given(machines, workloads, counts)
def test_no_method_with_copies_is_below_the_roofline(machine, work, n):
    bounds = bounds_of(work, machine)
    for method in (Method.EXPLICIT, Method.STREAMS, Method.HYBRID):
        assert (
            Equations().predict(work, method, n, machine).seconds.value >= bounds.full_overlap.value
        )
    explicit = Equations().predict(work, Method.EXPLICIT, 1, machine).seconds.value
    assert explicit >= bounds.zero_overlap.value


@given(workloads, counts)
def test_a_machine_with_more_engines_is_never_slower(work, n):
    """The same link in all three categories, both ways unslowed."""
    times = []
    for engines, synchronises in ((1, True), (1, False), (2, False)):
        machine = replace(
            MACHINES["gtx-titan"], copy_engines=engines, implicit_synchronisation=synchronises
        )
        times.append(Equations().predict(work, Method.STREAMS, n, machine).seconds.value)
    first, second, third = times
    assert third <= second * (1 + 1e-9)
    assert second <= first * (1 + 1e-9)


def test_derived_parameters_say_so():
    assert MACHINES["gtx-titan"].origin is Origin.PUBLISHED
    assert {MACHINES[m].origin for m in ("k20", "gtx680")} == {Origin.DERIVED}
    for machine in MACHINES.values():
        assert "table III" in machine.source
    categories = {
        name: (m.copy_engines, m.implicit_synchronisation) for name, m in MACHINES.items()
    }
    assert categories == {"gtx680": (1, True), "gtx-titan": (1, False), "k20": (2, False)}


def test_mapped_writes_count_for_hybrid_and_implicit():
    titan = MACHINES["gtx-titan"]
    work, twice = Workload(1 << 20, 1 << 28, 0.0), Workload(1 << 20, 1 << 28, 0.0, mapped_writes=2)
    for method, n, g in (
        (Method.HYBRID, 8, 1.480396e-10),
        (Method.HYBRID, 1, 7.924734e-11),
        (Method.IMPLICIT, 1, 7.924734e-11),
    ):
        before, after = (
            Equations().predict(w, method, n, titan).seconds.value for w in (work, twice)
        )
        assert after - before == pytest.approx((1 << 28) * g)


def test_each_launch_has_its_gap_where_that_is_known():
    work = Workload(1 << 20, 1 << 20, 0.1)
    for method in (Method.STREAMS, Method.HYBRID):
        with_gaps, without = (
            Equations().predict(work, method, 50, machine).seconds.value
            for machine in (FITTED, fitted(launching=None))
        )
        assert with_gaps - without == pytest.approx(50e-6)
