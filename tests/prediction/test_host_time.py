"""Programs whose calls take longer than the driver's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lanescope.prediction.costs import with_host_time
from lanescope.prediction.equations import Equations
from lanescope.prediction.predictor import Method, Workload, predictor_for
from lanescope.prediction.stored_parameters import named_parameters

H200, K20 = named_parameters("h200"), named_parameters("k20")
TINY = Workload(64 << 10, 0, 0.0, h2d_arrays=64)
LONG = Workload(2 << 30, 0, 0.0, h2d_arrays=2)


def seconds(workload, method, host, known=H200, by=None):
    by = by or predictor_for(known)
    return by.predict(workload, method, 1, with_host_time(known, host)).seconds


def test_nothing_changes_without_such_a_time():
    assert with_host_time(H200, 0.0) is H200


def test_the_name_says_that_it_is_in():
    assert with_host_time(H200, 13e-6).name == "h200 with 13.0 µs of the program for each call"


@pytest.mark.parametrize("by", [None, Equations()])
def test_pageable_copies_take_the_call_and_that_where_it_is_longer_than_the_copy(by):
    call = H200.pageable_h2d.call.at(1 << 10).value
    alone = H200.pageable_h2d.single.at(1 << 10).value
    assert 0 < call < alone
    short, long = (seconds(TINY, Method.PAGEABLE, host, by=by) for host in (1e-6, 20e-6))
    assert long.value == pytest.approx(64 * (call + 20e-6), rel=0.05)
    assert short.value == pytest.approx(64 * alone, rel=0.05)
    assert long.low <= long.value <= long.high


@pytest.mark.parametrize("by", [None, Equations()])
def test_without_the_time_in_the_call_all_of_the_copy_is_waited_for(by):
    known = replace(H200, pageable_h2d=replace(H200.pageable_h2d, call=None))
    before, after = (seconds(TINY, Method.PAGEABLE, host, known, by).value for host in (0.0, 10e-6))
    assert after - before == pytest.approx(64 * 10e-6, rel=0.05)


@pytest.mark.parametrize("by", [None, Equations()])
def test_many_short_pinned_copies_are_bound_by_the_calling_thread(by):
    after = seconds(TINY, Method.EXPLICIT, 10e-6, by=by).value
    assert 64 * 10e-6 < after < 64 * 10e-6 + 64 * 3e-6


@pytest.mark.parametrize("by", [None, Equations()])
def test_long_copies_hide_all_but_the_first_call(by):
    before, after = (seconds(LONG, Method.EXPLICIT, host, by=by).value for host in (0.0, 10e-6))
    assert 0 <= after - before < 21e-6


def test_published_parameters_without_calls_take_it_too():
    after = seconds(TINY, Method.EXPLICIT, 50e-6, K20, Equations()).value
    before = seconds(TINY, Method.EXPLICIT, 0.0, K20, Equations()).value
    assert after > before
