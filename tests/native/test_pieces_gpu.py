"""Pieces on a real GPU: every byte, each way, by each method."""

import pytest

from lanescope._core import native
from lanescope.copies import Submission
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import NotMeasuredError
from lanescope.machine import discover
from lanescope.studies.small import small_experiments, small_maps
from tests.native.test_gpu import GPUS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]

METHODS = [str(m) for m in Submission]
every_method = pytest.mark.parametrize("method", METHODS)
both_directions = pytest.mark.parametrize("down", [True, False], ids=["h2d", "d2h"])


@pytest.fixture(scope="module")
def topology():
    return native.Topology()


@pytest.fixture(scope="module")
def pool(topology):
    return native.BufferPool(topology)


def piece_set(topology, pool, method, down, size, count):
    host = native.PlaceSpec(native.Memory.pinned, 0)
    device = native.PlaceSpec(native.Memory.device, 0)
    ends = (host, device) if down else (device, host)
    submission = getattr(native.Submission, method)
    return native.PieceSet(topology, pool, native.PieceSpec(*ends, size, count, 0, submission), [])


@every_method
@both_directions
@pytest.mark.parametrize("count", [1, 3, 1000])
@pytest.mark.parametrize("size", [1, 4, 7, 64, 1000, 2049, 28 << 10, (64 << 10) + 5])
def test_every_byte_arrives_and_no_gap_is_touched(topology, pool, method, down, count, size):
    pieces = piece_set(topology, pool, method, down, size, count)
    assert pieces.count_mismatches() > 0  # the destination was spoilt
    seconds, submit_seconds = pieces.run(3)
    assert len(seconds) == len(submit_seconds) == 3
    assert all(0 < s <= total for s, total in zip(submit_seconds, seconds, strict=True))
    assert pieces.count_mismatches() == 0


@every_method
@both_directions
@pytest.mark.parametrize("size", [5, 5000])
def test_a_wrong_byte_in_the_destination_is_found(topology, pool, method, down, size):
    pieces = piece_set(topology, pool, method, down, size, 10)
    pieces.run(1)
    pieces.spoil(False, 3)  # of the first piece, or of the first sum
    assert pieces.count_mismatches() == 1
    pieces.run(1)
    assert pieces.count_mismatches() == 0


@every_method
@both_directions
@pytest.mark.parametrize("size", [5, 5000])
def test_a_wrong_byte_in_the_source_arrives_and_is_found(topology, pool, method, down, size):
    if method == "mapped" and not down:
        pytest.skip("it makes what it stores and reads no source")
    pieces = piece_set(topology, pool, method, down, size, 10)
    pieces.spoil(True, 9 * native.testing.piece_stride(size) + size - 1)
    pieces.run(1)
    assert pieces.count_mismatches() == 1


@every_method
@both_directions
def test_a_byte_between_pieces_stays(topology, pool, method, down):
    pieces = piece_set(topology, pool, method, down, 100, 50)
    pieces.spoil(True, 100)  # the gap behind the first piece: it must not be carried over
    pieces.run(1)
    assert pieces.count_mismatches() == 0
    if not (method == "mapped" and down):
        pieces.spoil(False, 100)
        assert pieces.count_mismatches() == 1


@every_method
@both_directions
def test_all_pieces_of_the_largest_count(topology, pool, method, down):
    pieces = piece_set(topology, pool, method, down, 64 << 10, 4096)
    pieces.run(1)
    assert pieces.count_mismatches() == 0


def test_new_data_is_fetched_each_time(topology, pool):
    for method in METHODS:
        pieces = piece_set(topology, pool, method, True, 64, 64)
        pieces.run(2)
        pieces.spoil(True, 0)
        pieces.run(1)
        assert pieces.count_mismatches() == 1, method  # no cache answered


def test_a_small_map(tmp_path):
    from lanescope.engine.native import NativeBackend

    machine = discover()
    cells = small_experiments(machine, machine.gpus[:1], (4, 4096), (1, 64))
    results = []
    backend = NativeBackend(machine)
    measure_all(cells, backend, machine, Plan(0.05, 0.02), results.append)
    for result in results:
        assert result.not_measured is None, (result.experiment.name, result.not_measured)
        assert result.copies[0].statistics.n >= 6
        if result.experiment.copies[0].in_pieces:
            assert 0 < result.copies[0].submit_seconds <= result.copies[0].statistics.max_seconds
    (down, up) = small_maps(results)
    assert len(down.cells) == len(up.cells) == 4


def test_corrupted_pieces_are_never_a_bandwidth(monkeypatch):
    from lanescope.engine.native import NativeBackend

    machine = discover()
    (cell,) = small_experiments(machine, machine.gpus[:1], (64,), (8,), [Submission.BATCH])[:1]
    with NativeBackend(machine).prepare(cell) as session:
        session.sample()
        session._pieces.spoil(False, 3)
        with pytest.raises(NotMeasuredError, match="1 bytes in or between pieces are wrong"):
            session.check()
