"""How wide intervals are, and whether they hold on machines that did not make them."""

import runpy
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from lanescope.prediction.parameters import Errors
from lanescope.prediction.predictor import PUBLISHED_ERRORS, error_band
from lanescope.prediction.replay import Replay
from lanescope.prediction.spread import copy_bytes, regime_of, spread_of, spreads
from lanescope.prediction.workload import Method, Workload
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


@pytest.mark.native  # five seconds
def test_what_ships_is_what_the_stored_runs_give():
    shipped = [
        {"regime": one.regime, "most_bytes": one.most_bytes, "low": one.low, "high": one.high}
        | {"count": one.count}
        for one in spreads()
    ]
    assert STORED["trained"]() == shipped
    assert all(one.low <= 1 <= one.high for one in spreads())


@pytest.mark.native  # six seconds
def test_intervals_hold_on_machines_that_did_not_make_them():
    """Of pinned memory; docs/model.md has all of them."""
    covered = defaultdict(list)
    fits = ("h200", "a", "b")
    for one in STORED["ratios"]([(fit, to) for to in ("c", "d") for fit in fits]):
        covered[one.regime, one.most_bytes, one.of].append(one.covered)
    counted = {key: those for key, those in covered.items() if len(those) >= 30}
    assert len(counted) >= 10
    for key, those in counted.items():
        assert sum(those) / len(those) >= 0.88, key


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
