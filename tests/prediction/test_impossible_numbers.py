"""Workloads that do not fit, kernels that cannot be so fast, and fits of another driver."""

from dataclasses import replace

import pytest

import lanescope
from lanescope.document.blocks import Table
from lanescope.errors import InputError
from lanescope.prediction.explanation import caveats, peaks_of, too_fast, why
from lanescope.prediction.graphs import TaskGraph, TaskKind, graph_for
from lanescope.prediction.predictor import Method, Workload
from lanescope.prediction.rank import least_parts, rank
from lanescope.prediction.replay import Replay, replay
from lanescope.prediction.stored_parameters import named_parameters, newest_fit, store_fit
from tests.studies.link_parameters import fitted

WORK = Workload(3 << 30, 1 << 30, 1e-3, flops=4e12, device_bytes=48e8)


def test_a_workload_larger_than_the_gpus_memory_is_said():
    small = replace(fitted(), memory_bytes=3 << 30)
    (sentence,) = [s for s in caveats(rank(WORK, small, Replay(), (1, 4))) if "do not hold" in s]
    assert sentence.startswith("The GPU's 3 GiB of memory do not hold the 4 GiB of a round: ")
    assert sentence.endswith(
        "Explicit and Pageable are not possible; Streams takes 4 parts or more, which use the same "
        "memory again."
    )
    for room in (None, 4 << 30):
        known = replace(fitted(), memory_bytes=room)
        assert not any("do not hold" in s for s in caveats(rank(WORK, known, Replay(), (1, 4))))


@pytest.mark.parametrize("name", ["h200", "a100-sxm", "v100-pcie"])
def test_only_what_the_gpus_memory_holds_is_ranked(name):
    known = named_parameters(name)
    half = known.memory_bytes // 2
    fits = rank(Workload(half, half, 1e-3), known, Replay(), (1, 8))
    assert [*fits.curves] == [*Method]
    assert fits.skipped == ()
    larger = rank(Workload(half + 2, half, 1e-3), known, Replay(), (1, 2, 3, 4, 8))
    assert {one.method for one in larger.skipped} == {Method.EXPLICIT, Method.PAGEABLE}
    assert not any(one.possible for one in larger.skipped)
    assert {one.method for one in larger.best} == {Method.STREAMS, Method.IMPLICIT, Method.HYBRID}
    assert min(one.streams for one in larger.curves[Method.STREAMS]) == 4  # three are there at once
    assert min(one.streams for one in larger.curves[Method.HYBRID]) == 1
    few = rank(Workload(half + 2, half, 1e-3), known, Replay(), (1, 2))
    (streams,) = [one for one in few.skipped if one.method is Method.STREAMS]
    assert streams.reason.endswith("of a round in fewer than 4 parts.")
    assert "Streams takes 4 parts or more" in why(few)


def test_parts_that_need_one_another_or_share_an_engine_need_all_of_the_memory():
    two = replace(fitted(), memory_bytes=3 << 30)
    assert least_parts(WORK, Method.STREAMS, two) == 4
    assert least_parts(WORK, Method.HYBRID, replace(two, memory_bytes=2 << 30)) == 3
    assert least_parts(WORK, Method.IMPLICIT, replace(two, memory_bytes=1)) == 1
    for work, known in (
        (replace(WORK, needs_previous=True), two),
        (replace(WORK, returns_later=1), two),
        (WORK, replace(two, copy_engines=1)),
    ):
        assert least_parts(work, Method.STREAMS, known) is None


@pytest.mark.parametrize(("method", "at_once"), [(Method.STREAMS, 3), (Method.HYBRID, 2)])
@pytest.mark.parametrize("work", [(120, 60, 1.0), (100, 100, 3.0), (60, 120, 12.0), (10, 170, 20)])
def test_parts_that_use_the_same_memory_again_take_no_longer(method, at_once, work):
    """Where each copy to the GPU waits until the part before it in its memory is done."""
    known, (h2d, d2h, seconds) = named_parameters("a100-sxm"), work
    work = Workload(h2d * 10**9, d2h * 10**9, seconds)
    graph = graph_for(work, method, 16)
    last = {task.first: place for place, task in enumerate(graph.tasks)}
    waiting = [
        replace(task, after=(*task.after, last[task.first - at_once]))
        if task.kind is TaskKind.H2D and task.first >= at_once
        else task
        for task in graph.tasks
    ]
    again = replay(TaskGraph(tuple(waiting)), known).seconds
    assert again == pytest.approx(replay(graph, known).seconds, rel=0.005)


def test_what_is_not_possible_is_marked_in_the_table():
    found = lanescope.predict(
        h2d_bytes="90GB", d2h_bytes="90GB", kernel_seconds=3, parameters="a100-sxm", streams="64"
    )
    (table,) = [block for block in found.blocks()[0].blocks if isinstance(block, Table)]
    (group,) = table.groups
    marked = [row[0] for row in group.rows if "not possible" in row]
    assert marked == ["Explicit", "Pageable"]
    assert [row[0] for row in group.rows][-2:] == marked
    skipped = found.as_dict()["skipped"]
    assert [(one["method"], one["possible"]) for one in skipped] == [(n, False) for n in marked]
    assert "of memory do not hold the 180 GB of a round" in skipped[0]["reason"]


@pytest.mark.parametrize(
    ("seconds", "flops", "gbs", "words"),
    [
        (1e-3, 4e12, 4800.0, "1.00 s that its operations take"),
        (1e-4, 4e16, 4800.0, "1.00 ms that its bytes of the GPU's memory take"),
        (1.0, 4e12, 4800.0, None),
        (0.995, 4e12, 4800.0, None),
    ],
)
def test_a_kernel_faster_than_its_roofline_is_said(seconds, flops, gbs, words):
    found = too_fast(replace(WORK, kernel_seconds=seconds), peaks_of(flops, gbs))
    assert found is None if words is None else words in found
    assert too_fast(WORK, None) is None


def test_the_command_says_so_and_its_json_too():
    found = lanescope.predict(
        h2d_bytes="3GiB",
        kernel_seconds="1ms",
        parameters="h200",
        flops=4e12,
        device_bytes="4800MB",
        peak_flops=4e12,
        memory_gbs=4800,
    )
    assert found.warning in found.to_json()
    assert "one of these numbers is wrong" in found.warning


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"steps": 0}, "steps cannot be 0; give steps above 0 and up to 1e\\+09"),
        ({"steps": 1e12}, "steps cannot be 1000000000000.0; give steps above 0"),
        ({"host_seconds": 100}, "host_seconds cannot be 100; give seconds, up to a second, or 0"),
        ({"kernel_seconds": 1e9}, "kernel_seconds cannot be 1000000000.0; give seconds, up to a"),
        ({"mapped_reads": 1e9}, "mapped_reads cannot be 1000000000.0; give times from 0 to"),
        ({"gpus": 1}, "gpus cannot be 1; give a whole number from 2 to 16"),
        ({"gpus": 17}, "gpus cannot be 17; give a whole number from 2 to 16"),
    ],
)
def test_numbers_have_the_bounds_of_the_options(given, words):
    with pytest.raises(InputError, match=words):
        lanescope.predict(**{"h2d_bytes": 8, "kernel_seconds": 0, "parameters": "h200"} | given)


def test_bounds_are_within_what_is_taken():
    for given in ({"steps": 1e9}, {"host_seconds": 1}, {"kernel_seconds": 86_400}, {"gpus": None}):
        lanescope.predict(**{"h2d_bytes": 8, "kernel_seconds": 0, "parameters": "h200"} | given)


def test_a_fit_of_another_driver_has_a_note(tmp_path, two_gpus):
    here = replace(two_gpus, driver="580.1")
    key = "Test GPU; unknown CPU; PCIe 5.0 x16"
    store_fit(replace(fitted(), machine_key=key, driver="570.9"), tmp_path)
    found = newest_fit(here, tmp_path)
    assert found.note.startswith("The parameters were measured with driver 570.9, and this machine")
    assert found.note in caveats(rank(WORK, found, Replay(), (1,)))
    assert newest_fit(replace(here, driver="570.9"), tmp_path).note is None
    assert newest_fit(replace(here, driver=None), tmp_path).note is None
