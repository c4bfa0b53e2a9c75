"""Timing a graph, as far as that needs no GPU."""

from dataclasses import dataclass

import pytest

from lanescope._core import native
from lanescope.engine.core import copy_task, kernel_task, measure_graph
from lanescope.errors import NotMeasuredError


@dataclass
class Times:
    call_seconds: float = 1e-6
    seconds: float = 1e-3


class Graph:
    """Takes a millisecond, and fails in one of its runs."""

    def __init__(self, fails_in=None):
        self.fails_in, self.runs = fails_in, []

    def run(self, repetitions):
        self.runs.append(repetitions)
        if len(self.runs) == self.fails_in:
            raise native.NativeError(
                "cudaStreamQuery", 2, "cudaErrorTimeout", "no answer", "gate.cpp:1"
            )
        return [Times()] * repetitions

    def run_held(self, repetitions):
        return [5e-4] * repetitions


def test_a_graph_runs_for_about_as_long_as_it_may():
    graph = Graph()
    times = measure_graph(graph, 0.05, held=True)
    assert graph.runs == [1, 50]
    assert (times.seconds.size, times.calls.size, times.held.size) == (50, 50, 50)
    for budget, runs in ((0.0, 5), (1e3, 200)):
        times = measure_graph(Graph(), budget)
        assert (times.seconds.size, times.held) == (runs, None)


@pytest.mark.parametrize("run", [1, 2])
def test_a_gpu_that_fails_in_any_run_is_a_sentence(run):
    with pytest.raises(NotMeasuredError, match="did not answer in time"):
        measure_graph(Graph(fails_in=run), 0.05)


def test_tasks_without_a_memory_or_with_negative_bytes_are_refused():
    topology = native.Topology()
    with pytest.raises(TypeError):
        native.busy_graph(topology, None, [kernel_task()])
    with pytest.raises(TypeError):
        copy_task(True, -8, 8)
    with pytest.raises(TypeError):
        copy_task(True, 0, -8)
