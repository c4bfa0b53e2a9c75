"""What is known of links: stored parameters, and the times of what crossed them."""

import pytest

from lanescope._core import native
from lanescope.compression.rule import HostLinks, LinkCost, links_of_this_machine, raw_seconds
from lanescope.prediction.stored_parameters import named_parameters, shipped_names
from tests.compression.simulated import MIB, NVLINK, PCIE


def with_model():
    times = native.RawTimes()
    times.set_link("p", PCIE.parts)
    return times


@pytest.fixture
def h200():
    return named_parameters(next(name for name in shipped_names() if "h200" in name))


@pytest.mark.parametrize(
    ("path", "direction"),
    [("g0>host", "d2h"), ("host>g1", "h2d"), ("d2h", "d2h"), ("h2d/g0", "h2d"), ("g0>g1", None)],
)
def test_stored_parameters_know_the_directions_between_a_gpu_and_its_host(h200, path, direction):
    found = HostLinks(h200).link(path)
    if direction is None:
        assert found is None
    else:
        direction = getattr(h200, direction)
        assert found.gbs == pytest.approx(1e-9 / direction.per_byte.value)
        assert found.first_seconds == direction.first.value


def test_a_machine_without_parameters_has_none(monkeypatch, tmp_path):
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path))
    assert links_of_this_machine() is None


def test_nothing_is_known_of_sizes_that_were_never_timed():
    times = native.RawTimes()
    times.take("g0>g1", 64 * MIB, 2e-3)
    assert times.seconds("g0>g1", 64 * MIB) is None  # the first one may have been held up
    times.take("g0>g1", 64 * MIB, 1e-3)
    assert times.seconds("g0>g1", 64 * MIB) == pytest.approx(1e-3)
    assert times.seconds("g0>g1", MIB) is None
    assert times.link("g0>g1", MIB) is None
    assert times.seconds("g1>g0", 64 * MIB) is None


def test_two_sizes_tell_what_a_transfer_takes_besides_its_bytes():
    times = native.RawTimes()
    for size in (MIB, 64 * MIB, 256 * MIB):
        for _ in range(2):
            times.take("p", size, raw_seconds(size, NVLINK))
    found = LinkCost(*times.link("p", 64 * MIB))
    assert found.first_seconds == pytest.approx(NVLINK.first_seconds)
    assert found.gbs == pytest.approx(NVLINK.gbs)
    assert times.seconds("p", 100 * MIB) == pytest.approx(raw_seconds(100 * MIB, NVLINK))


def test_what_was_measured_counts_more_than_the_model():
    times = with_model()
    assert times.seconds("p", 64 * MIB) == pytest.approx(raw_seconds(64 * MIB, PCIE))
    for seconds in (3e-3, 3.1e-3, 2.9e-3):
        times.take("p", 64 * MIB, seconds)
    assert times.seconds("p", 64 * MIB) == pytest.approx(3e-3)
    assert times.seconds("p", 8 * MIB) == pytest.approx(raw_seconds(8 * MIB, PCIE))


def test_one_that_was_held_up_counts_for_nothing_and_two_in_a_row_for_all():
    times = native.RawTimes()
    for seconds in (3e-3, 3e-3, 3e-3, 9e-3):
        times.take("p", 64 * MIB, seconds)
    assert times.seconds("p", 64 * MIB) == pytest.approx(3e-3)
    assert times.take("p", 64 * MIB, 9.1e-3)  # which is not what was expected
    assert times.seconds("p", 64 * MIB) == pytest.approx(9e-3)
    for _ in range(2):
        times.take("p", 64 * MIB, 3e-3)
    assert times.seconds("p", 64 * MIB) == pytest.approx(3e-3)
    assert not times.take("p", 64 * MIB, 3e-3)


def test_where_many_are_held_up_three_in_a_row_are_needed():
    times = native.RawTimes()
    for number in range(64):
        times.take("p", 64 * MIB, 9e-3 if number % 8 == 7 else 3e-3)
    for seconds in (3e-3, 3e-3, 3e-3, 9e-3, 9e-3):
        times.take("p", 64 * MIB, seconds)
    assert times.seconds("p", 64 * MIB) == pytest.approx(3e-3)
    times.take("p", 64 * MIB, 9e-3)
    assert times.seconds("p", 64 * MIB) == pytest.approx(9e-3)


def test_a_time_shorter_than_the_least_of_the_model_is_no_endless_bandwidth():
    times = with_model()
    for _ in range(2):
        times.take("p", 1000, 4e-6)
    assert 0 < times.link("p", 1000)[0] < 1
    assert times.link("p", 0) is None
