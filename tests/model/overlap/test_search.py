import time
from dataclasses import replace

import pytest

from lanescope.model.overlap.graphs import graph_for
from lanescope.model.overlap.methods import Method
from lanescope.model.overlap.replay import Replay, order_for
from lanescope.model.overlap.search import best_streams
from lanescope.model.overlap.workload import Workload
from tests.model.overlap.machines import launching, link, mapped, seconds, with_latencies

MB = 1 << 20
TITAN = with_latencies(link(mapped=mapped(), launching=launching(6e-6, 2e-6, 1e-6, 0.5e-6)))
WORKLOADS = [
    Workload(700 * MB, 350 * MB, 12e-3, h2d_arrays=2),
    Workload(16 * MB, 16 * MB, 1e-3),
    Workload(MB, MB, 50e-6),
    Workload(64 * MB, 1024, 20e-3),
    Workload(700 * MB, 700 * MB, 5e-3, 2, 2, most_streams=42, needs_previous=True, returns_later=1),
]


def time_of(workload, n, parameters):
    graph = graph_for(workload, Method.STREAMS, n, order=order_for(parameters))
    return seconds(graph, parameters)


@pytest.mark.parametrize("parameters", [TITAN, replace(TITAN, copy_engines=1)])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_nothing_much_better_is_missed(workload, parameters):
    most = 64
    found = best_streams(workload, Method.STREAMS, parameters, most)
    counts = range(1, min(most, workload.most_streams or most) + 1)
    best = min(time_of(workload, n, parameters) for n in counts)
    assert time_of(workload, found, parameters) <= best * 1.002


def test_small_counts_are_found_exactly():
    workload = Workload(64 * 1024, 64 * 1024, 30e-6)
    found = best_streams(workload, Method.STREAMS, TITAN, 16)
    assert found == min(range(1, 17), key=lambda n: time_of(workload, n, TITAN))


def test_methods_without_streams_have_one():
    assert best_streams(WORKLOADS[0], Method.EXPLICIT, TITAN) == 1


def test_a_search_needs_room():
    with pytest.raises(ValueError, match="1 or more"):
        best_streams(WORKLOADS[0], Method.STREAMS, TITAN, 0)


def test_predictions_come_at_once():
    """On a machine that is shared, so with much room: usually 0.04 s and 0.15 s."""
    began = time.process_time()
    Replay().predict(WORKLOADS[0], Method.STREAMS, 256, TITAN)
    assert time.process_time() - began < 0.2
    began = time.process_time()
    for method in (Method.EXPLICIT, Method.STREAMS, Method.IMPLICIT, Method.HYBRID):
        streams = best_streams(WORKLOADS[0], method, TITAN)
        Replay().predict(WORKLOADS[0], method, streams, TITAN)
    assert time.process_time() - began < 0.5
