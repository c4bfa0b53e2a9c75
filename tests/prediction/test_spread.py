"""How wide intervals are, and whether they hold on machines that did not make them."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from lanescope.prediction.other_links import BASE, library_parameters, with_link
from lanescope.prediction.parameters import Errors
from lanescope.prediction.predictor import (
    PUBLISHED_ERRORS,
    Method,
    Workload,
    copy_bytes,
    error_band,
    predictor_for,
    regime_of,
    spread_of,
    spreads,
)
from lanescope.prediction.replay import Replay
from lanescope.prediction.stored_parameters import named_parameters
from tests.prediction.machines import link
from tests.studies.link_parameters import fitted

ROOT = Path(__file__).parents[2]
STORED = runpy.run_path(str(ROOT / "benchmarks/model/across_machines.py"))
WORK = Workload(64 << 20, 32 << 20, 1e-3, h2d_arrays=2)


def test_regimes_follow_from_method_and_size():
    assert regime_of(WORK, Method.EXPLICIT, 1) == "single"
    assert regime_of(WORK, Method.STREAMS, 1) == "single"
    assert regime_of(WORK, Method.STREAMS, 4) == "many"
    assert regime_of(WORK, Method.HYBRID, 4) == "hybrid"
    assert regime_of(replace(WORK, mapped_assumed=True), Method.IMPLICIT, 1) == "implicit-assumed"
    assert regime_of(replace(WORK, fresh_output=True), Method.PAGEABLE, 1) == "fresh"
    assert copy_bytes(WORK, Method.STREAMS, 4) == 8 << 20
    assert copy_bytes(WORK, Method.EXPLICIT, 4) == 32 << 20


@pytest.mark.native  # thirty seconds
def test_what_ships_is_what_the_stored_runs_give_and_holds_on_machines_left_out():
    """Of each machine but `a`, on which something else was busy; docs/model.md has all of them."""
    known = list(STORED["all_ratios"]())
    assert tuple(STORED["trained"](known).values()) == spreads()
    assert all(one.low <= 1 <= one.high for one in spreads())
    shares = {
        key: share
        for key, (those, share) in STORED["left_out"](known).items()
        if key[0] != "a" and len(those) >= 30
    }
    assert len(shares) >= 90
    assert {key: share for key, share in shares.items() if share < 0.9} == {
        ("e", "many", 262144, "rounds"): pytest.approx(0.843, abs=0.01),
        ("g", "single", None, "rounds"): pytest.approx(0.896, abs=0.01),
    }


def test_an_interval_is_no_narrower_than_the_fits_own_errors():
    known = replace(fitted(), errors=Errors(50, 0.1, 0.3, 0.5))
    assert error_band(known, WORK, Method.EXPLICIT) == pytest.approx((0.7, 1.3))
    narrow = replace(known, errors=Errors(50, 0.0, 0.001, 0.002))
    found = spread_of(WORK, Method.EXPLICIT, 1)
    assert error_band(narrow, WORK, Method.EXPLICIT) == (found.low, found.high)
    published = error_band(link(), WORK, Method.STREAMS, 4)
    share = PUBLISHED_ERRORS[Method.STREAMS]
    assert published == pytest.approx((1 - share, 1 + share))


def test_mapped_memory_of_which_nobody_said_how_it_is_read_has_a_wide_interval():
    known = replace(fitted(), errors=Errors(50, 0.0, 0.01, 0.02))
    known_reads = Replay().predict(WORK, Method.IMPLICIT, 1, known).seconds
    assumed = replace(WORK, mapped_assumed=True)
    wide = Replay().predict(assumed, Method.IMPLICIT, 1, known).seconds
    assert wide.value == known_reads.value
    assert wide.high > 2 * known_reads.high


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("assumed", [False, True])
def test_what_is_derived_from_a_fit_is_no_surer_than_the_fit(method, assumed):
    """Of a GPU by name, and on another link."""
    base = named_parameters(BASE)
    work = replace(WORK, mapped_assumed=assumed)
    sure = error_band(base, work, method, 4)
    for derived in (library_parameters("a100-sxm", base), with_link(base, "pcie4")):
        low, high = error_band(derived, work, method, 4)
        assert low <= sure[0]
        assert high >= sure[1]


def test_what_is_derived_from_a_fit_is_replayed_as_it_is():
    base = named_parameters(BASE)
    derived = (library_parameters("a100-sxm", base), with_link(base, "pcie4"))
    assert [predictor_for(one).name for one in (base, *derived)] == ["replay"] * 3
    assert predictor_for(named_parameters("k20")).name == "equations"
