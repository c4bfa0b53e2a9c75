"""The rings that pointer chases follow, built without a GPU."""

import itertools

import pytest

from lanescope._core import native

STRIDE = 128


@pytest.mark.parametrize("random", [False, True], ids=["sequential", "random"])
@pytest.mark.parametrize("elements", [2, 3, 1024, 2 << 13])
def test_every_line_is_visited_once_and_the_ring_closes(elements, random):
    size = elements * STRIDE + 40  # what is left over is not used
    pointers = native.testing.ring_pointers(size, STRIDE, random)
    visits = native.testing.ring_visits(size, STRIDE, random)
    at, seen = visits[0] * STRIDE, []
    for _ in range(elements):
        seen.append(at // STRIDE)
        at = pointers[at // STRIDE]
    assert seen == visits
    assert sorted(seen) == list(range(elements))
    assert at == visits[0] * STRIDE


def test_the_sequential_ring_is_that_of_nvbandwidth():
    words, step = (2 << 20) // 8, 16
    pointers = native.testing.ring_pointers(2 << 20, STRIDE, False)
    assert pointers == [(i + step) % words * 8 for i in range(0, words, step)]


def test_the_random_ring_is_always_the_same_and_has_no_order():
    first = native.testing.ring_visits(1 << 20, STRIDE, True)
    assert first == native.testing.ring_visits(1 << 20, STRIDE, True)
    neighbours = sum(abs(a - b) == 1 for a, b in itertools.pairwise(first))
    assert neighbours < len(first) / 100


@pytest.mark.parametrize(("size", "stride"), [(STRIDE, STRIDE), (4096, 0), (4096, 12)])
def test_a_ring_that_cannot_be_is_refused(size, stride):
    with pytest.raises(native.NativeError, match=r"ring_visits|places_in"):
        native.testing.ring_visits(size, stride, False)
