"""A direction with fewer bytes than there are parts: copied once, and no bound on the parts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanescope.errors import InputError
from lanescope.prediction.equations import Equations
from lanescope.prediction.graphs import Order, TaskKind, graph_for
from lanescope.prediction.predictor import Method, Workload
from lanescope.prediction.rank import NEARLY, rank
from lanescope.prediction.replay import Replay
from lanescope.prediction.stored_parameters import named_parameters

MANY = 64 << 20
#: Numbers of bytes, of all lengths.
sizes = st.integers(0, 26).flatmap(lambda power: st.integers(0, 1 << power))
STREAMS = (1, 2, 4, 12, 16, 32)
METHODS = (Method.EXPLICIT, Method.STREAMS, Method.HYBRID)


def best(work, predictor, machine):
    """Seconds of each method by its best number of streams, within 1 % of its fastest."""
    ranking = rank(work, named_parameters(machine), predictor, STREAMS, METHODS)
    return {one.method: one.seconds.value for one in ranking.best}


@settings(max_examples=20)
@given(
    st.lists(sizes, min_size=2, max_size=2).map(sorted),
    st.booleans(),
    st.sampled_from(["h200", "gtx680"]),
    st.sampled_from([0.0, 1e-4, 1e-3]),
    st.sampled_from([Replay(), Equations()]),
)
def test_fewer_bytes_are_not_predicted_slower(pair, back, machine, kernel, predictor):
    less, more = (
        best(Workload(*((MANY, b) if back else (b, MANY)), kernel), predictor, machine)
        for b in pair
    )
    for method in less:
        assert less[method] <= more[method] * (1 + 2 * NEARLY)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("few", [1, 4, 8])
def test_few_bytes_leave_streams_as_fast_as_none(few, back):
    for predictor in (Replay(), Equations(shared=True)):
        none, some = (
            best(Workload(*((MANY, b) if back else (b, MANY)), 1e-3), predictor, "h200")
            for b in (0, few)
        )
        assert some[Method.STREAMS] <= none[Method.STREAMS] * (1 + 2 * NEARLY)


@pytest.mark.parametrize("order", Order)
def test_they_come_back_once_with_the_last_part(order):
    tasks = graph_for(Workload(MANY, 6, 1e-3, d2h_arrays=2), Method.STREAMS, 4, order=order).tasks
    assert [(t.stream, t.bytes) for t in tasks if t.kind is TaskKind.D2H] == [(3, 3), (3, 3)]
    assert sum(t.kind is TaskKind.H2D for t in tasks) == 4


@pytest.mark.parametrize("order", Order)
def test_they_go_in_once_and_every_kernel_waits_for_them(order):
    tasks = graph_for(Workload(3, MANY, 1e-3), Method.STREAMS, 4, order=order).tasks
    (place,) = (i for i, t in enumerate(tasks) if t.kind is TaskKind.H2D)
    assert (tasks[place].stream, tasks[place].bytes) == (0, 3)
    kernels = [t for t in tasks if t.kind is TaskKind.KERNEL]
    assert [t.after for t in kernels] == [(), (place,), (place,), (place,)]


def test_an_array_without_a_byte_is_none():
    with pytest.raises(InputError, match="1 B to the host cannot be in 2 arrays"):
        rank(Workload(MANY, 1, 0.0, d2h_arrays=2), named_parameters("h200"), Replay(), [1, 2])
