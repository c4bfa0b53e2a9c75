import numpy as np
import pytest

from lanescope.errors import InputError
from lanescope.studies.ocean.case import level_thickness, ocean
from lanescope.studies.ocean.reference import buoydiff


@pytest.fixture(scope="module")
def sea():
    return ocean(96, 80)


def test_levels_grow_from_10_to_250_metres(sea):
    assert sea.thickness[0] == pytest.approx(10)
    assert sea.thickness[-1] == pytest.approx(250)
    assert np.all(np.diff(sea.thickness) > 0)
    assert 5400 < sea.thickness.sum() < 5600
    assert sea.centre[0] == pytest.approx(5)
    np.testing.assert_allclose(np.diff(sea.centre), (sea.thickness[1:] + sea.thickness[:-1]) / 2)


def test_water_is_as_in_an_ocean(sea):
    assert sea.temperature.min() >= -1.9
    assert 25 < sea.temperature.max() < 32
    assert 0.032 < sea.salinity.min() < sea.salinity.max() < 0.0375
    equator = sea.temperature[:, 40, 48]
    assert equator[0] > 24
    assert equator[-1] < 3
    assert sea.temperature[0, 1].mean() < 4


def test_almost_all_of_it_is_stably_stratified(sea):
    local, _ = buoydiff(sea.temperature, sea.salinity, sea.pressure, sea.deepest)
    wet = np.arange(1, 42)[:, None, None] < sea.deepest
    assert (local[:-1][wet] > 0).mean() > 0.97


def test_there_is_land_a_ridge_and_an_abyss(sea):
    land = sea.deepest == 0
    assert 0.05 < land.mean() < 0.3
    assert land[:, [0, -1]].all()
    ridge, basin = sea.deepest[40, 48], sea.deepest[40, 28]
    assert 0 < ridge < basin <= 42
    assert sea.deepest.dtype == np.int32


def test_neighbours_are_alike(sea):
    assert np.abs(np.diff(sea.temperature, axis=2)).max() < 2


def test_the_seed_decides(sea):
    again, other = ocean(96, 80), ocean(96, 80, seed=1)
    np.testing.assert_array_equal(again.temperature, sea.temperature)
    np.testing.assert_array_equal(again.deepest, sea.deepest)
    assert np.abs(other.salinity - sea.salinity).max() > 1e-6


@pytest.mark.parametrize("sides", [(0, 1, 1), (1, 1, 0), (0, 0, 0)])
def test_a_grid_without_points_is_refused(sides):
    with pytest.raises(InputError, match="give each side 1 or more"):
        ocean(*sides)


def test_a_grid_that_no_memory_holds_is_refused():
    with pytest.raises(InputError, match="is too large; give fewer"):
        ocean(2**40, 1)


def test_the_smallest_grid():
    sea = ocean(1, 1, 1)
    assert sea.temperature.shape == (1, 1, 1)
    assert np.isfinite(sea.temperature).all()
    assert level_thickness(1) == [10]
