"""The reference in parts and threads gives what the reference gives."""

import numpy as np
import pytest

from lanescope.studies.ocean.case import Expected, GridCase, ocean
from lanescope.studies.ocean.reference import Equation, Kernel
from tests.studies.ocean.test_kernels import every_case


@pytest.fixture(scope="module")
def sea():
    return ocean(35, 41, 7)


@every_case
def test_parts_are_as_far_off_as_the_whole(case, sea):
    made = case.on_host(sea)
    whole, parts = case.compare(sea, made), Expected(case, sea, threads=3).compare(made)
    assert [(d.output, d.unit, d.tolerance) for d in parts] == [
        (d.output, d.unit, d.tolerance) for d in whole
    ]
    for one, other in zip(parts, whole, strict=True):
        assert one.largest == pytest.approx(other.largest, abs=other.tolerance / 2)
        assert one.within


@pytest.mark.parametrize("where", [(0, 0, 0), (6, 40, 34), (3, 17, 2)])
@pytest.mark.parametrize("wrong", [1e-6, np.nan])
def test_a_single_wrong_value_is_found_wherever_it_is(sea, where, wrong):
    case = GridCase(Kernel.STATE, Equation.JMCD, 3)
    made = [np.array(one) for one in case.on_host(sea)]
    made[1][where] += wrong
    assert [d.within for d in Expected(case, sea).compare(made)] == [True, False, True]


def test_of_a_convolution_with_many_levels_some_are_compared():
    sea = ocean(8, 6, 30)
    case = GridCase(Kernel.CONVOLUTION)
    expected = Expected(case, sea)
    assert expected.levels == 12
    made = case.on_host(sea)[0]
    found = []
    for level in range(30):
        spoiled = np.array(made)
        spoiled[level] = np.nan
        found.append(not expected.compare([spoiled])[0].within)
    assert found[0]
    assert found[29]
    assert sum(found) == 12


def test_all_levels_of_other_kernels_are_compared(sea):
    assert Expected(GridCase(Kernel.AXPY), sea).levels == 7
