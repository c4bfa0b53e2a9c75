from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.report import format as fmt
from lanescope.units.words import time_text


def test_examples_in_docstrings_hold():
    outcome = doctest.testmod(fmt)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        *((1, "1 B"), (16, "16 B"), (1536, "1.5 KiB"), (64 << 10, "64 KiB"), (2 << 30, "2 GiB")),
        *((999, "999 B"), (1000, "1 kB"), (64_000_000, "64 MB"), (1_500_000_000, "1.5 GB")),
        *(
            (5256, "5256 B"),
            (95_367_431, "90.9 MiB"),
            (10**17, "100 PB"),
            (3 * 10**20, "300000 PB"),
        ),
    ],
)
def test_bytes(count: float, expected: str):
    assert fmt.bytes_text(count) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.9e-9, "0.900 ns"),
        (1.42e-6, "1.42 µs"),
        (9.9996e-4, "1.00 ms"),
        (9.995e-4, "1.00 ms"),
        (0.0384, "38.4 ms"),
        (2, "2.00 s"),
    ],
)
def test_seconds(seconds: float, expected: str):
    assert fmt.seconds_text(seconds) == expected


@pytest.mark.parametrize(
    ("gbs", "expected"),
    [
        (394.2, "394"),
        (55.63, "55.6"),
        (5.551, "5.55"),
        (0.0114, "0.0114"),
        (0.0, "0"),
        (1234.5, "1234"),
    ],
)
def test_gbs_has_three_digits(gbs: float, expected: str):
    assert fmt.gbs_text(gbs) == expected


def test_a_spread_shows_a_difference_that_is_there():
    assert fmt.spread_text(393.1, 393.4) == "393 to 393"
    assert fmt.spread_text(392.6, 393.4) == "392.6 to 393.4"


@pytest.mark.parametrize(
    "function",
    [
        fmt.bytes_text,
        fmt.seconds_text,
        fmt.microseconds_text,
        fmt.gbs_text,
        fmt.percent_text,
        fmt.half_width_text,
        lambda _: fmt.spread_text(None, 1.0),
        lambda _: fmt.time_spread_text(1.0, None),
    ],
)
def test_missing_is_never_a_number(function):
    assert function(None) == fmt.MISSING


@given(st.floats(1e-12, 1e6))
def test_a_time_below_zero_is_written_as_the_same_time_above_it(seconds):
    for text in (fmt.seconds_text, time_text):
        assert text(-seconds) == f"-{text(seconds)}"


def test_spans_of_losses_have_the_unit_of_the_larger_one():
    assert fmt.time_spread_text(-2e-3, -1.5e-6) == "-2.00 to -0.00 ms"
