"""Phases of programs of which it is known what they do."""

import time
from pathlib import Path

import numpy as np
import pytest

from lanescope.findings.advice import phases as phases_module
from lanescope.findings.advice.phases import find_phases
from lanescope.findings.advice.rounds import round_times
from lanescope.prediction.parameters import Direction
from lanescope.prediction.predictor import Method
from lanescope.trace.codes import MemoryKind
from lanescope.trace.operations import COLUMNS, Operations
from lanescope.trace.store import read_watch
from lanescope.trace.stored_columns import with_stored
from tests.findings.advice.programs import MANAGED, PAGEABLE, Program, looped, overlapped
from tests.trace import captures

MB = 1_000_000
RECORDED = Path(__file__).parents[3] / "benchmarks" / "results"
H200 = RECORDED / "h200-x1" / "watch"


def phases(program: Program, **options):
    return find_phases(program.operations(), **{"kernels": True, **options})


def test_a_loop_of_waited_copies_of_pageable_memory():
    (phase,) = phases(looped(40, 100 * MB, 3000.0, host=PAGEABLE))
    assert (phase.rounds, phase.rounds_in_run, phase.parts, phase.streams) == (40, 40, 1, 1)
    assert (phase.method, phase.synchronous) == (Method.PAGEABLE, True)
    # 10 ms each way, and 3 ms; the calls are in it, the 100 µs between rounds are not
    assert phase.seconds.value == pytest.approx(23e-3, rel=2e-3)
    assert phase.period_seconds.value == pytest.approx(phase.seconds.value + 100e-6, rel=1e-4)
    assert phase.kernel_seconds.value == pytest.approx(3e-3, rel=1e-6)
    assert phase.h2d_seconds.value == pytest.approx(10e-3, rel=1e-3)
    assert phase.hidden_seconds.value == phase.host_seconds.value == 0
    assert phase.idle_seconds.value < 20e-6
    down, up = phase.copies
    assert (down.direction, up.direction) == (Direction.H2D, Direction.D2H)
    assert (down.memory, down.count, down.bytes) == (MemoryKind.PAGEABLE, 1, 100 * MB)
    assert (phase.workload.h2d_bytes, phase.workload.d2h_bytes) == (100 * MB, 100 * MB)
    assert phase.workload.kernel_seconds == phase.kernel_seconds.value


@pytest.mark.parametrize("seed", range(5))
def test_jitter_moves_medians_little_and_is_in_their_intervals(seed):
    (phase,) = phases(looped(200, 55 * MB, 2000.0, jitter=0.15, seed=seed, wait=False))
    true = 2e-3 + 2 * (1 + 55e6 / 55_500) * 1e-6
    assert phase.rounds == 200
    assert phase.seconds.value == pytest.approx(true, rel=0.03)
    assert phase.seconds.low < phase.seconds.value < phase.seconds.high
    assert phase.seconds.high - phase.seconds.low < 0.1 * true
    assert phase.kernel_seconds.value == pytest.approx(2e-3, rel=0.04)
    assert (phase.method, phase.synchronous) == (Method.EXPLICIT, False)


def test_warm_up_rounds_and_odd_copies_are_in_no_median():
    program = Program()
    program.copy(3000 * MB, down=True, wait=True)  # what is loaded once
    for number in range(60):
        slow = 10 if number < 3 else 1
        program.copy(50 * MB, down=True, wait=True)
        if number % 20 == 7:
            program.copy(8, down=False, wait=True)  # a flag that is asked for now and then
        program.kernel(1000.0 * slow)
        program.copy(50 * MB, down=False, wait=True)
    found = phases(program)
    (phase,) = (p for p in found if p.rounds > 1)
    # the first round is told apart by what was loaded before it
    assert phase.rounds == 59
    assert phase.kernel_seconds.value == pytest.approx(1e-3, rel=1e-6)
    assert [kind.count for kind in phase.copies] == [1, 1]
    assert [p.rounds for p in found if p is not phase] == [1]


@pytest.mark.parametrize("depth_first", [True, False])
def test_parts_on_streams_of_their_own_are_one_round(depth_first):
    if depth_first:
        program = overlapped(30, 4, 40 * MB, 800.0)
    else:
        program = Program()
        for _ in range(30):
            for part in range(4):
                program.copy(10 * MB, down=True, stream=part)
            for part in range(4):
                program.kernel(200.0, stream=part)
            for part in range(4):
                program.copy(10 * MB, down=False, stream=part)
            program.wait()
            program.host(100.0)
    (phase,) = phases(program)
    assert (phase.rounds, phase.parts, phase.streams) == (30, 4, 4)
    assert phase.method is Method.STREAMS
    assert (phase.workload.h2d_bytes, phase.workload.h2d_arrays) == (40 * MB, 1)
    assert phase.hidden_seconds.value > 0.5 * phase.kernel_seconds.value
    assert phase.seconds.value < 721e-6 + 800e-6 + 721e-6 - phase.hidden_seconds.value + 50e-6


def test_a_pipeline_that_does_not_run_dry_is_cut_into_rounds():
    program = Program()
    for number in range(1000):
        stream = number % 3
        program.copy(10 * MB, down=True, stream=stream)
        program.kernel(100.0, stream=stream)
        program.copy(10 * MB, down=False, stream=stream)
    (phase,) = phases(program)
    assert phase.endless
    assert phase.parts == 64
    assert phase.method is Method.STREAMS
    assert phase.workload.h2d_bytes == 640 * MB
    # bound by copies of 181 µs, one behind the other
    assert phase.period_seconds.value == pytest.approx(64 * 181.2e-6, rel=0.01)


def test_thousands_of_small_copies_in_a_round():
    program = Program()
    for _ in range(10):
        for _ in range(500):
            program.copy(4096, down=True, wait=True)
        program.kernel(500.0)
        program.copy(1 * MB, down=False, wait=True)
    (phase,) = phases(program)
    assert (phase.rounds, phase.workload.h2d_arrays, phase.workload.d2h_arrays) == (10, 500, 1)
    assert phase.workload.h2d_bytes == 500 * 4096
    assert phase.host_seconds.value == 0


def test_processes_and_gpus_are_told_apart():
    parts = [
        looped(12, 50 * MB, pid=1, gpu=0),
        looped(6, 80 * MB, pid=1, gpu=1),
        looped(9, 20 * MB, pid=2, gpu=0, host=PAGEABLE),
    ]
    found = find_phases(Operations.concat([p.operations() for p in parts]), kernels=True)
    told = [(p.pid, p.gpu, p.number, p.rounds, p.workload.h2d_bytes) for p in found]
    assert told == [(1, 0, 1, 12, 50 * MB), (1, 1, 1, 6, 80 * MB), (2, 0, 1, 9, 20 * MB)]


def test_threads_with_loops_of_their_own_are_told_apart():
    one, other = looped(30, 50 * MB), looped(45, 5 * MB, 300.0)
    rows = [{**r, "thread": 1, "stream": 1} for r in one.rows]
    rows += [{**r, "thread": 2, "stream": 2} for r in other.rows]
    rows.sort(key=lambda r: r["start_ns"])
    for number, row in enumerate(rows, 1):
        row["correlation"] = number
    table = Operations.of(**{key: [row[key] for row in rows] for key in rows[0]})
    found = find_phases(table, kernels=True)
    assert sorted(p.rounds for p in found) == [30, 45]


def test_pauses_of_the_host_within_a_round_are_its_own():
    program = Program()
    for _ in range(20):
        program.copy(50 * MB, down=True, wait=True)
        program.host(5000.0)
        program.kernel(1000.0)
        program.copy(50 * MB, down=False, wait=True)
    (phase,) = phases(program)
    assert phase.host_seconds.value == pytest.approx(5e-3, rel=2e-3)
    assert phase.modelled_seconds.value == pytest.approx(2 * 901e-6 + 1e-3, rel=0.02)


def test_without_kernels_their_time_is_not_known():
    program = looped(20, 50 * MB, 4000.0)
    rows = program.operations()
    (phase,) = find_phases(rows.rows(~rows.is_kernel), kernels=False)
    assert phase.kernel_seconds is None
    assert phase.workload.has_kernel  # it may have been there
    assert phase.rounds == 20
    # as the GPU seems idle while kernels run, that is no time of copies
    assert phase.host_seconds.value == pytest.approx(4e-3, rel=0.01)


def test_a_round_of_traced_copies_alone_launches_nothing():
    program = Program()
    for _ in range(20):
        program.copy(50 * MB, down=True, wait=True)
        program.copy(50 * MB, down=False, wait=True)
    (phase,) = phases(program)
    assert not phase.workload.has_kernel


def test_copies_of_one_direction_without_kernels_are_rounds_by_their_pauses():
    program = Program()
    for _ in range(30):
        for _ in range(5):
            program.copy(1 * MB, down=True, wait=True)
        program.host(20_000.0)
    (phase,) = phases(program)
    assert (phase.rounds, phase.workload.h2d_arrays, phase.workload.d2h_bytes) == (30, 5, 0)


def test_memory_that_no_model_knows_has_no_method():
    (phase,) = phases(looped(10, 10 * MB, host=MANAGED))
    assert phase.method is None
    assert phase.copies[0].memory is MemoryKind.MANAGED


def test_one_round_is_a_phase_and_no_copies_are_none():
    (phase,) = phases(looped(1, 50 * MB))
    assert (phase.rounds, phase.period_seconds) == (1, None)
    assert phase.seconds.low == phase.seconds.value == phase.seconds.high
    assert find_phases(Operations.empty(), kernels=True) == ()
    alone = Program()
    alone.kernel(100.0)
    assert phases(alone) == ()


class Disk:
    """Columns that are read by slices, and how much of them at once."""

    def __init__(self, operations):
        self.operations, self.most = operations, 0

    def read(self, name, begin, end):
        self.most = max(self.most, end - begin)
        return np.asarray(getattr(self.operations, name))[begin:end]


def test_of_long_watches_both_ends_are_looked_at_piece_by_piece():
    operations = looped(60_000, 1 * MB, 50.0).operations()
    disk = Disk(operations)
    stored = with_stored(Operations.empty(), disk, 0, len(operations))
    (phase,) = find_phases(stored, kernels=True, most=30_000)
    assert disk.most < len(operations)
    assert phase.rounds == 20_000
    assert phase.rounds_in_run == pytest.approx(60_000, rel=1e-3)
    (whole,) = find_phases(operations, kernels=True)
    assert whole.rounds == 60_000
    assert phase.seconds.value == pytest.approx(whole.seconds.value, rel=1e-3)
    assert set(COLUMNS) >= {"correlation"}


def test_the_vector_addition_of_an_h200():
    (phase,) = find_phases(read_watch(H200 / "vector-add").timeline.operations, kernels=True)
    assert (phase.method, phase.rounds, phase.launches) == (Method.PAGEABLE, 1, 1)
    assert (phase.workload.h2d_bytes, phase.workload.h2d_arrays) == (800 * MB, 2)
    assert (phase.workload.d2h_bytes, phase.workload.d2h_arrays) == (800 * MB, 2)
    assert phase.kernel_seconds.value == pytest.approx(320.9e-6, rel=1e-3)
    assert phase.seconds.value == pytest.approx(0.157, rel=1e-2)


def test_the_matrix_product_of_an_h200_is_one_round_of_many_launches():
    (phase,) = find_phases(read_watch(H200 / "matmul").timeline.operations, kernels=True)
    assert (phase.rounds, phase.launches) == (1, 301)
    assert phase.workload.h2d_bytes == 122_880_000
    assert phase.kernel_seconds.value / phase.seconds.value > 0.98


def test_copies_in_turns_and_both_directions_at_once_of_an_h200():
    turns = read_watch(H200 / "thesis" / "load-with-copies" / "sources-1").timeline.operations
    found = {p.rounds: p for p in find_phases(turns, kernels=True)}
    assert found[66].method is Method.EXPLICIT
    assert found[66].seconds.value == pytest.approx(2.43e-3, rel=0.01)
    both = read_watch(H200 / "thesis" / "concurrent-copies" / "sources-1").timeline.operations
    (duplex,) = (p for p in find_phases(both, kernels=True) if p.method is Method.STREAMS)
    assert duplex.hidden_seconds.value == pytest.approx(41.4e-3, rel=0.01)


def test_single_copies_of_an_h200_are_rounds_of_their_own():
    found = find_phases(captures.operations("copies-4mib-h2d"), kernels=False)
    (phase,) = (p for p in found if p.workload.h2d_bytes == 4 << 20)
    assert phase.rounds == 50
    assert phase.workload.d2h_bytes == 0


def varied(rounds, sizes, back=None):
    program = Program()
    for number in range(rounds):
        program.copy(sizes(number), down=True, wait=True)
        program.kernel(500.0)
        program.copy((back or sizes)(number), down=False, wait=True)
        program.wait()
        program.host(20.0)
    return program


def test_streams_that_run_in_another_order_than_submitted_are_one_round():
    watch = read_watch(RECORDED / "h200-x1" / "model" / "hybrid-axpy")
    (phase,) = find_phases(watch.timeline.operations, kernels=True)
    assert (phase.rounds, phase.parts, phase.launches) == (18, 14, 14)
    assert [(kind.count, kind.typical_bytes) for kind in phase.copies] == [(28, 24 << 20)]
    assert phase.slowed_by_kernels == pytest.approx(1.8, abs=0.1)  # they write mapped memory


def test_copies_that_kernels_do_not_slow_down():
    program = overlapped(10, 6, 600 * MB, 15_000.0)
    (phase,) = find_phases(program.operations(), kernels=True)
    assert phase.slowed_by_kernels == pytest.approx(1, abs=0.05)


def test_rounds_whose_sizes_all_differ_are_rounds_all_the_same():
    # each size has less than 0.5 % of the time, as a flag would
    (phase,) = phases(varied(400, lambda number: 100 * MB + 1000 * number))
    assert (phase.rounds, phase.parts) == (400, 1)
    assert phase.seconds.value == pytest.approx(4.1e-3, rel=0.02)


def test_a_loop_whose_sizes_vary_is_one_phase_and_stretches_of_a_size_are_not():
    (phase,) = phases(varied(60, lambda number: (12 + number * 7 % 19) * MB))
    assert phase.rounds == 60
    assert phase.workload.h2d_bytes == pytest.approx(21 * MB, rel=0.1)
    assert phase.schedule is not None
    blocks = phases(varied(60, lambda number: 12 * MB if number < 30 else 24 * MB))
    assert [phase.rounds for phase in blocks] == [30, 30]
    mixed = phases(varied(60, lambda number: MB if number % 2 else 24 * MB))
    assert [phase.rounds for phase in mixed] == [30, 30]


def test_what_a_program_does_at_its_end_does_not_split_a_loop_whose_sizes_vary():
    program = varied(60, lambda number: (12 + number * 7 % 19) * MB)
    program.copy(8, down=False, wait=True)
    (phase,) = phases(program)
    assert phase.rounds == 60


def test_two_loops_in_turns_with_far_more_kernels_in_one_are_two_phases():
    program = Program()
    for number in range(60):
        size, launches = (24 * MB, 50) if number % 2 else (12 * MB, 1)
        program.copy(size, down=True, wait=True)
        for _ in range(launches):
            program.kernel(100.0)
        program.copy(size, down=False, wait=True)
        program.wait()
        program.host(100.0)
    assert sorted((phase.rounds, phase.launches) for phase in phases(program)) == [
        (30, 1),
        (30, 50),
    ]


def test_of_many_kinds_of_rounds_fewer_of_each_are_timed(monkeypatch):
    timed = []
    monkeypatch.setattr(
        phases_module,
        "round_times",
        lambda *rows, **columns: timed.append(1) or round_times(*rows, **columns),
    )

    def count(kinds, rounds):
        timed.clear()
        program = varied(
            kinds * rounds,
            lambda number: round(1.3 ** (number // rounds % 10) * MB),
            lambda number: round(1.3 ** (number // rounds // 10) * MB),
        )
        phases(program)
        return len(timed)

    monkeypatch.setattr(phases_module, "_KINDS_IN_FULL", 4)
    monkeypatch.setattr(phases_module, "MOST_ROUNDS", 40)
    assert count(2, 40) == 80
    assert count(40, 40) <= 4 * 40 + 40 * phases_module._LEAST_TIMED


def test_where_no_phase_has_much_of_the_time_the_one_with_the_most_is_told():
    program = varied(
        100,
        lambda number: round(MB * 1.25 ** (number % 10)),
        lambda number: round(MB * 1.25 ** (number // 10)),
    )
    (phase,) = phases(program)
    assert phase.rounds == 1
    assert phase.workload.h2d_bytes == phase.workload.d2h_bytes == round(MB * 1.25**9)


def test_many_rounds_of_many_kinds_take_no_time_to_speak_of():
    program = varied(900, lambda number: 1000 * (1 + number * 7919 % 900) ** 2)
    begun = time.process_time()
    assert phases(program, most=900)
    assert time.process_time() - begun < 20


def test_no_mean_of_rounds_reaches_below_nothing():
    values = np.array([1e-5] * 40 + [1.0])
    mean = phases_module._mean(values)
    assert mean.low == 0 < mean.value < mean.high
