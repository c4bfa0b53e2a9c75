"""How SMs are shared among copies: the rules, not the numbers that measuring found."""

import dataclasses

import pytest

from lanescope.copies.grammar import parse_copies
from lanescope.copies.kernel_shapes import LOADS, SmShape, has_bulk_copies, sm_shapes
from lanescope.errors import InputError
from lanescope.machine import Gpu


def with_gpus(machine, **more):
    return dataclasses.replace(
        machine, gpus=tuple(dataclasses.replace(g, **more) for g in machine.gpus)
    )


@pytest.fixture
def hopper(two_gpus):
    return with_gpus(two_gpus, compute_capability=(9, 0), multiprocessors=132)


@pytest.fixture
def ampere(two_gpus):
    return with_gpus(two_gpus, compute_capability=(8, 0), multiprocessors=108)


def shapes(machine, text):
    return sm_shapes(parse_copies(text, machine), machine)


@pytest.mark.parametrize(
    ("capability", "has"),
    [((8, 9), False), ((9, 0), True), ((10, 0), True), ((12, 0), True), (None, False)],
)
def test_bulk_copies_came_with_hopper(capability, has):
    assert has_bulk_copies(Gpu(0, "Test GPU", compute_capability=capability)) is has


def test_only_kernels_have_a_shape(hopper):
    ce, sm = shapes(hopper, "h0 -> g0 @ce, h0 -> g0 @sm")
    assert ce is None
    assert isinstance(sm, SmShape)
    assert shapes(hopper, "h0 -> h0 @cpu") == (None,)


@pytest.mark.parametrize(
    "text",
    [
        "h0 -> g0 @sm",
        "g0 -> h0 @sm",
        "g0 -> g1 @sm",
        "g0 -> g1 @sm by g1",
        "g0 -> g0 @sm",
        "100x g0 -> g1 @sm",
        "40x h0 -> g0 @sm, 60x g0 -> g0 @sm",
    ],
)
def test_copies_that_leave_it_open_fit_on_their_gpu(hopper, text):
    taken = [shape.sms for shape in shapes(hopper, text)]
    assert min(taken) >= 1
    assert sum(taken) <= 132


def test_gpus_do_not_share_their_sms(hopper):
    (alone,) = shapes(hopper, "g0 -> g1 @sm")
    each = shapes(hopper, "g0 -> g1 @sm, g1 -> g0 @sm")
    assert each == (alone, alone)
    half = shapes(hopper, "2x g0 -> g1 @sm")
    assert sum(shape.sms for shape in half) <= alone.sms * 2
    assert half[0].sms < alone.sms


def test_what_is_asked_for_is_kept(hopper):
    texts = "h0 -> g0 @sm:7:4KiB:12.5", "g0 -> g1 @sm:31:0", "2x g0 -> g0 @sm:66:16"
    assert shapes(hopper, texts[0]) == (SmShape(7, 4 << 10, 12.5),)
    assert shapes(hopper, texts[1]) == (SmShape(31, LOADS),)
    assert shapes(hopper, texts[2]) == (SmShape(66, 16),) * 2


def test_chunks_are_repeated_by_bulk_copies_alone(hopper, ampere):
    text = "h0 <-> g0 @sm:auto:auto:auto:16"
    first, second = shapes(hopper, text)
    assert (first.chunk_repeats, second.chunk_repeats) == (16, 16)
    assert second.in_step_with == 0
    assert {shape.chunk_repeats for shape in shapes(ampere, text)} == {1}


def test_a_pace_is_kept_by_bulk_copies(hopper):
    copies = parse_copies("g0 -> g0 @sm", hopper)
    (shape,) = sm_shapes([dataclasses.replace(copies[0], pace_gbs=3.0)], hopper)
    assert shape.chunk_bytes > 0
    assert shape.pace_gbs == 3.0


@pytest.mark.parametrize(
    "text", ["h0 -> g0 @sm", "g0 -> h0 @sm:3", "g1 -> g0 @sm", "g0 <-> g1 @sm"]
)
def test_older_gpus_load_and_store(ampere, text):
    assert {shape.chunk_bytes for shape in shapes(ampere, text)} == {LOADS}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h0 -> g0 @sm:133", "g0 has 132 SMs, the copies take 133 at once"),
        ("h0 -> g0 @sm:100, g0 -> g1 @sm:33", "g0 has 132 SMs, the copies take 133 at once"),
        ("133x h0 -> g1 @sm", "g1 has 132 SMs, the copies take 133 at once"),
        ("h0 -> g0 @sm:4:0:50", "plain loads and stores keep no pace"),
        ("h0 -> g0 @sm:4:0:auto:16", "plain loads and stores repeat nothing"),
    ],
)
def test_contradictions_are_refused(hopper, text, words):
    with pytest.raises(InputError, match=words):
        shapes(hopper, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h0 -> g0 @sm:4:16KiB", "g0 has no bulk copies through shared memory"),
        ("h0 -> g0 @sm:109", "g0 has 108 SMs"),
    ],
)
def test_older_gpus_refuse_what_they_have_not(ampere, text, words):
    with pytest.raises(InputError, match=words):
        shapes(ampere, text)


def test_chunks_fit_into_the_shared_memory_of_workstations(two_gpus):
    blackwell = with_gpus(two_gpus, compute_capability=(12, 0), multiprocessors=188)
    for text in ("g0 -> g1 @sm", "g0 -> g1 @sm by g1", "h0 <-> g0 @sm", "2x g0 -> g1 @sm"):
        assert {shape.chunk_bytes for shape in shapes(blackwell, text)} <= {16 << 10, 32 << 10}
    (asked,) = shapes(blackwell, "g0 -> g1 @sm:4:64KiB")
    assert asked.chunk_bytes == 64 << 10


def test_sms_of_different_gpus_are_counted_apart(hopper):
    text = "h0 -> g0 @sm:132, h0 -> g1 @sm:132"
    assert [shape.sms for shape in shapes(hopper, text)] == [132, 132]


def test_nobody_knows_how_many_there_are(two_gpus):
    (shape,) = shapes(two_gpus, "h0 -> g0 @sm:500")
    assert shape.sms == 500
