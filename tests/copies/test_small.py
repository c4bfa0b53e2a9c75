import pytest

from lanescope.copies import Copy, Engine, Memory, Operation, Place, Purpose, Submission, Timing
from lanescope.errors import InputError
from lanescope.studies.small import MOST_BYTES, small_experiments
from lanescope.units.sizes import rising_sizes
from tests.small_samples import SIZES

HOST, OTHER = Place("h0", Memory.PINNED), Place("h0", Memory.PAGEABLE)
GPU, PEER = Place("g0", Memory.DEVICE), Place("g1", Memory.DEVICE)


def test_sizes_go_up_by_four():
    assert (SIZES[0], SIZES[-1], len(SIZES)) == (4, 4 << 20, 11)
    with pytest.raises(InputError, match="swap them"):
        rising_sizes(8, 4)


def test_every_cell_each_direction_by_every_method(two_gpus):
    cells = small_experiments(two_gpus, two_gpus.gpus[:1], SIZES)
    names = [e.name for e in cells]
    assert len(set(names)) == len(names) == 50 * 2 * 5
    assert "small/h2d/g0/batch/4096x64" in names
    assert all(cell.purpose is Purpose.SMALL for cell in cells)
    for e in cells:
        (copy,) = e.copies
        assert e.timing is Timing.HOST
        assert copy.bytes <= MOST_BYTES
        assert copy.engine is (Engine.SM if copy.submission.by_kernel else Engine.CE)
        assert {copy.source.memory, copy.destination.memory} == {Memory.PINNED, Memory.DEVICE}


def test_the_largest_comes_first_and_methods_stand_together(two_gpus):
    cells = [e.copies[0] for e in small_experiments(two_gpus, two_gpus.gpus[:1], (4, 1024), (1, 8))]
    assert [c.submission for c in cells[:5]] == list(Submission)
    assert (cells[0].pieces, cells[0].bytes) == (8, 8192)
    assert (cells[-1].pieces, cells[-1].bytes) == (1, 4)


def test_what_is_named_twice_is_measured_once(two_gpus):
    gpus = [two_gpus.gpus[0]] * 2
    cells = small_experiments(two_gpus, gpus, (4, 4), (1, 1), [Submission.BATCH] * 2)
    assert [e.name for e in cells] == ["small/h2d/g0/batch/1x4", "small/d2h/g0/batch/1x4"]


@pytest.mark.parametrize(
    ("sizes", "counts", "words"),
    [
        ((8 << 20,), (1,), "lanescope.sweep"),
        ((4,), (0,), "between 1 and 4096"),
        ((4,), (5000,), "between 1 and 4096"),
        ((), (1,), "at least one"),
        ((4 << 20,), (4096,), "not small"),
    ],
)
def test_what_is_no_map(two_gpus, sizes, counts, words):
    with pytest.raises(InputError, match=words):
        small_experiments(two_gpus, two_gpus.gpus[:1], sizes, counts)


@pytest.mark.parametrize(
    ("source", "destination", "engine", "more"),
    [
        (HOST, GPU, Engine.SM, {"submission": Submission.BATCH}),
        (HOST, GPU, Engine.CE, {"submission": Submission.KERNEL}),
        (HOST, GPU, Engine.SM, {"pieces": 8}),
        (GPU, PEER, Engine.CE, {"pieces": 8}),
        (OTHER, OTHER, Engine.CPU, {"pieces": 8}),
        (HOST, GPU, Engine.SM, {"submission": Submission.KERNEL, "sms": 4}),
        (HOST, GPU, Engine.SM, {"submission": Submission.MAPPED, "chunk_bytes": 16}),
        (HOST, GPU, Engine.SM, {"submission": Submission.KERNEL, "operation": Operation.CHASE}),
    ],
)
def test_pieces_that_nobody_can_move(source, destination, engine, more):
    with pytest.raises(InputError, match="pieces"):
        Copy(source, destination, 64, engine, **more)


def test_one_plain_copy_is_not_in_pieces():
    assert not Copy(HOST, GPU, 64, Engine.CE).in_pieces
    assert Copy(HOST, GPU, 64, Engine.CE, pieces=2).in_pieces
    assert Copy(HOST, GPU, 64, Engine.CE, submission=Submission.GRAPH).in_pieces
