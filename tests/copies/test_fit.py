"""Sizes that memory holds."""

import pytest

from lanescope.copies.experiment import experiment_of
from lanescope.copies.requirements import fitting_size, needed_bytes
from tests.conftest import gpu_to_gpu, gpu_to_host, host_to_gpu

MIB = 1 << 20


def both_directions(size):
    return [
        experiment_of([host_to_gpu(size), gpu_to_host(size)]),
        experiment_of([host_to_gpu(size)]),
    ]


def fitted(wanted, free):
    return fitting_size(wanted, both_directions, free)


def test_the_most_demanding_experiment_counts_by_part():
    local = experiment_of([gpu_to_gpu(1, 1, 5)])
    assert needed_bytes([*both_directions(100), local]) == {"h0": 200, "g0": 200, "g1": 10}
    assert needed_bytes([]) == {}


def test_what_fits_is_left_alone():
    assert fitted(512 * MIB, {"h0": 1024 * MIB, "g0": 1024 * MIB}) == (512 * MIB, ())
    assert fitted(512 * MIB, {}) == (512 * MIB, ())  # nobody knows how much there is


def test_copies_get_smaller_and_a_note_says_so():
    size, (note,) = fitted(512 * MIB, {"h0": 999 * MIB, "g0": 300 * MIB})
    assert size == 128 * MIB
    assert note == (
        "Copies of 128 MiB instead of 512 MiB: all at once they would take 1 GiB of h0, "
        "which has 999 MiB free."
    )


@pytest.mark.parametrize("wanted", [1, 5 * MIB, 512 * MIB, 3 * MIB // 2])
def test_too_little_for_anything_leaves_the_reason_to_the_attempt(wanted):
    size, notes = fitted(wanted, {"g0": 0})
    assert size == min(wanted, MIB)  # and never 0
    assert len(notes) == (wanted > MIB)
