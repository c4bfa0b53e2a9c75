"""The core's kernels on the host against NumPy."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope._core import native
from lanescope.errors import InputError
from lanescope.studies.ocean import reference
from lanescope.studies.ocean.case import GridCase, OceanGrid, ocean
from lanescope.studies.ocean.reference import Equation, Kernel
from tests.studies.ocean.runs import column, core, unset

CASES = [
    *(GridCase(Kernel.STATE, e, n) for e in Equation for n in (1, 3)),
    *(GridCase(Kernel.BUOYDIFF, e) for e in Equation),
    GridCase(Kernel.AXPY),
    GridCase(Kernel.CONVOLUTION),
]


def name_of(case):
    return f"{case.kernel}-{case.equation}-{case.outputs}"


every_case = pytest.mark.parametrize("case", CASES, ids=name_of)
by_both = pytest.mark.parametrize("compute", ["reference", "on_host"])


@pytest.fixture(scope="module")
def sea():
    return ocean(97, 61)


@every_case
def test_the_core_agrees_with_numpy(case, sea):
    differences = case.compare(sea, case.on_host(sea, threads=2))
    assert len(differences) == case.output_arrays
    assert all(d.within for d in differences), differences


@every_case
def test_a_wrong_value_is_beyond_the_tolerance(case, sea):
    made = [a.copy() for a in case.on_host(sea)]
    made[-1][20, 30, 48] *= 1 + 1e-9
    assert not case.compare(sea, made)[-1].within
    made[-1][20, 30, 48] = np.nan
    assert not case.compare(sea, made)[-1].within


@pytest.mark.native  # ten seconds
@pytest.mark.parametrize("equation", list(Equation))
def test_rounding_against_long_doubles_is_below_a_quarter_of_the_tolerance(equation, sea):
    exact = OceanGrid(
        sea.thickness,
        sea.centre,
        sea.pressure.astype(np.longdouble),
        sea.temperature.astype(np.longdouble),
        sea.salinity.astype(np.longdouble),
        sea.deepest,
    )
    for case in (GridCase(Kernel.STATE, equation, 3), GridCase(Kernel.BUOYDIFF, equation)):
        for each in case.compare(exact, case.on_host(sea)):
            assert each.largest < each.tolerance / 4, each


@every_case
@given(cuts=st.sets(st.integers(1, 6)), threads=st.integers(1, 5))
def test_levels_may_be_done_in_parts(case, cuts, threads):
    sea = ocean(9, 5, 7)
    whole = case.on_host(sea)
    parts, edges = unset(sea, case.output_arrays), [0, *sorted(cuts), 7]
    for first, last in reversed(list(pairwise(edges))):
        native.run_grid_kernel(
            *case.named(),
            list(case.inputs(sea)),
            parts,
            sea.pressure,
            sea.deepest,
            first=first,
            count=last - first,
            threads=threads,
        )
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.kernel is not Kernel.CONVOLUTION], ids=name_of
)
@pytest.mark.parametrize("parts", [1, 3, 42])
def test_what_a_gpu_does_by_columns(case, parts, sea):
    made = unset(sea, case.output_arrays)
    native.testing.run_grid_columns(
        *case.named(), list(case.inputs(sea)), made, sea.pressure, sea.deepest, parts
    )
    assert all(d.within for d in case.compare(sea, made))


def test_a_part_of_buoydiff_writes_its_own_levels_only():
    sea = ocean(9, 5, 7)
    made = unset(sea, 2)
    fields = [sea.temperature, sea.salinity]
    native.run_grid_kernel(
        native.GridKernel.buoydiff,
        core("mwjf"),
        fields,
        made,
        sea.pressure,
        sea.deepest,
        first=2,
        count=3,
    )
    written = [[k for k in range(7) if not np.isnan(a[k]).any()] for a in made]
    assert written == [[1, 2, 3], [2, 3, 4]]
    assert [np.isnan(a).sum() for a in made] == [4 * 45, 4 * 45]


@by_both
def test_buoyancy_of_the_column_of_three_levels(compute):
    local, surface = getattr(GridCase(Kernel.BUOYDIFF), compute)(column(3))
    np.testing.assert_allclose(surface.ravel(), [0, 1.312143321648, 2.183575644064], atol=5e-12)
    np.testing.assert_allclose(local.ravel(), [1.312143321648, 0.806967225857, 0], atol=5e-12)


@by_both
@pytest.mark.parametrize("equation", list(Equation))
def test_a_shallower_bottom(compute, equation):
    case = GridCase(Kernel.BUOYDIFF, equation)
    local, surface = (a.ravel() for a in getattr(case, compute)(column(3)))
    cut_local, cut_surface = (a.ravel() for a in getattr(case, compute)(column(2)))
    assert cut_local.tolist() == [local[0], 0, 0]
    kept = 0 if equation is Equation.JMCD else surface[2]
    assert cut_surface.tolist() == [0, surface[1], kept]


@by_both
@pytest.mark.parametrize("equation", list(Equation))
@pytest.mark.parametrize("deepest", [0, 1, 3])
def test_only_jmcd_knows_no_density_below_the_bottom(compute, equation, deepest):
    made = getattr(GridCase(Kernel.STATE, equation, 3), compute)(column(deepest))
    wet = deepest if equation is Equation.JMCD else 3
    for values in made:
        assert np.all(values.ravel()[:wet] != 0)
        assert np.all(values.ravel()[wet:] == 0)


@by_both
def test_buoyancy_is_that_of_water_that_has_not_frozen(compute):
    cold, frozen = column(3), column(3)
    cold.temperature[0], frozen.temperature[0] = -2.0, -7.0
    case = GridCase(Kernel.BUOYDIFF, Equation.LINEAR)
    for one, other in zip(*(getattr(case, compute)(c) for c in (cold, frozen)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_single_level_has_no_differences():
    local, surface = GridCase(Kernel.BUOYDIFF).on_host(ocean(4, 3, 1))
    assert not local.any()
    assert not surface.any()


@by_both
def test_the_filter_leaves_a_level_of_one_value_as_it_is(compute):
    sea = ocean(40, 3, 2)
    sea.temperature[:] = 7.5
    (smooth,) = getattr(GridCase(Kernel.CONVOLUTION), compute)(sea)
    np.testing.assert_allclose(smooth, 7.5, rtol=1e-13)


@by_both
def test_the_filter_of_one_point_is_the_filter(compute):
    sea = ocean(64, 64, 1)
    sea.temperature[:] = 0
    sea.temperature[0, 20, 40] = 1
    (smooth,) = getattr(GridCase(Kernel.CONVOLUTION), compute)(sea)
    weights = reference.smoothing_filter()
    np.testing.assert_allclose(smooth[0, 5:36, 25:56], weights, atol=1e-15)
    assert weights.sum() == pytest.approx(1, abs=1e-14)


@by_both
def test_beyond_an_edge_lies_what_lies_at_it(compute):
    from scipy.ndimage import convolve

    sea = ocean(7, 33, 2)
    (smooth,) = getattr(GridCase(Kernel.CONVOLUTION), compute)(sea)
    expected = [
        convolve(level, reference.smoothing_filter(), mode="nearest") for level in sea.temperature
    ]
    np.testing.assert_allclose(smooth, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("case", "arrays"),
    [
        (GridCase(Kernel.STATE), (2, 1)),
        (GridCase(Kernel.STATE, outputs=3), (2, 3)),
        (GridCase(Kernel.BUOYDIFF), (2, 2)),
        (GridCase(Kernel.AXPY), (2, 1)),
        (GridCase(Kernel.CONVOLUTION), (1, 1)),
    ],
)
def test_arrays_of_a_case(case, arrays):
    assert (case.input_arrays, case.output_arrays) == arrays


def test_operations_are_counted():
    assert GridCase(Kernel.AXPY).flops == 2
    assert GridCase(Kernel.CONVOLUTION).flops == 2 * 31 * 31
    # Two differences, two products with 1/rho, two with g, and a multiplication for the unit.
    linear = native.grid_operations(native.GridKernel.buoydiff, core("linear"))
    assert (linear.additions, linear.multiplications) == (3 * 4 + 2, 3 * 2 + 4)
    assert (linear.divisions, linear.roots) == (1, 0)
    one, three = (GridCase(Kernel.STATE, outputs=n).flops for n in (1, 3))
    assert 40 <= one < three


def test_state_has_one_output_or_three():
    with pytest.raises(InputError, match="not 2"):
        GridCase(Kernel.STATE, outputs=2)


def run(kernel="state", *, inputs=None, outputs=None, equation="mwjf", **more):
    """A small run of which a test changes one thing."""
    shape = (3, 4, 5)
    return native.run_grid_kernel(
        getattr(native.GridKernel, kernel),
        core(equation),
        [np.ones(shape), np.ones(shape)] if inputs is None else inputs,
        [np.ones(shape)] if outputs is None else outputs,
        **{"pressure": np.ones(3), "deepest": np.ones((4, 5), np.int32), **more},
    )


SHAPE = (3, 4, 5)
SAME = np.ones(SHAPE)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ({"inputs": [SAME]}, "takes 2 inputs and 1 outputs, not 1 and 1"),
        ({"inputs": []}, "takes 2 inputs"),
        ({"outputs": []}, "1 output or 3"),
        ({"outputs": [SAME] * 2}, "1 output or 3, with the derivatives, not 2"),
        ({"kernel": "buoydiff"}, "2 inputs and 2 outputs"),
        ({"kernel": "convolution"}, "1 inputs and 1 outputs"),
        ({"inputs": [SAME, np.ones((3, 5, 4))]}, "an input does not fit a grid of 3 levels"),
        ({"outputs": [np.ones((2, 4, 5))]}, "an output does not fit"),
        ({"pressure": np.ones(4)}, "the pressure does not fit"),
        ({"deepest": np.ones((5, 4), np.int32)}, "with water in them does not fit"),
        ({"pressure": None}, "the pressure of the levels is missing"),
        ({"equation": "jmcd", "deepest": None}, "levels with water in them is missing"),
        ({"inputs": [np.ones((0, 4, 5))] * 2, "outputs": [np.ones((0, 4, 5))]}, "does not fit"),
        ({"inputs": [np.ones((3, 0, 5))] * 2}, "does not fit"),
        ({"inputs": [SAME, np.ones(SHAPE)], "outputs": [SAME]}, "an output is an input"),
        ({"outputs": [SAME] * 3}, "two outputs are the same memory"),
        ({"first": -1}, "levels from -1 on"),
        ({"first": 3}, "are not among 3"),
        ({"count": 0}, "0 levels from 0 on"),
        ({"first": 2, "count": 2}, "2 levels from 2 on are not among 3"),
        ({"first": 1, "count": 2**31 - 1}, "are not among 3"),
        ({"threads": 0}, "1 thread or more"),
    ],
)
def test_what_cannot_be_done_is_said(what, sentence):
    with pytest.raises(native.NativeError) as raised:
        run(**what)
    assert sentence in raised.value.args[3]


def test_a_grid_without_points_is_no_grid():
    empty = [np.ones((0, 4, 5)), np.ones((0, 4, 5))]
    with pytest.raises(native.NativeError, match="1 point or more"):
        run(inputs=empty, outputs=[np.ones((0, 4, 5))], pressure=np.ones(0))


@pytest.mark.parametrize(
    "what",
    [
        {"outputs": [np.ones(SHAPE, np.float32)]},
        {"outputs": [np.ones((3, 4, 10))[:, :, ::2]]},
        {"inputs": [np.ones((4, 5)), SAME]},
    ],
)
def test_arrays_of_another_kind_are_not_taken(what):
    with pytest.raises(TypeError):
        run(**what)


def test_what_is_read_only_is_not_written():
    output = np.ones(SHAPE)
    output.flags.writeable = False
    with pytest.raises(TypeError):
        run(outputs=[output])
    assert (output == 1).all()
