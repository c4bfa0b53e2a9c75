from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.errors import InputError
from lanescope.machine import machine_named
from lanescope.trace.summarise import summarise
from lanescope.trace.summary import Assertion, evaluate, parse
from tests.trace.timelines import copies, timeline

#: 1000 copies of 10 MB in 1 s at 20 GB/s each: half of the time
SUMMARY = summarise(timeline(copies(1000, 10_000_000)), machine_named("h200-x2"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h2d.p50 > 40GB/s", (None, "h2d", "p50", 1_000_000, ">", 40.0)),
        ("g0.d2h.bytes<2GiB", (0, "d2h", "bytes", None, "<", 2.0**31)),
        ("h2d.peak@10us >= 500 MB/s", (None, "h2d", "peak", 10_000, ">=", 0.5)),
        ("g12.h2d.busy <= 5 %", (12, "h2d", "busy", None, "<=", 0.05)),
        ("d2h.share < 0.1", (None, "d2h", "share", None, "<", 0.1)),
        ("d2h.bytes <= 0", (None, "d2h", "bytes", None, "<=", 0.0)),
        ("h2d.mean > 1GiB/s", (None, "h2d", "mean", None, ">", 1.073741824)),
    ],
)
def test_conditions_are_read(text: str, expected: tuple[object, ...]) -> None:
    assert parse(text) == Assertion(text, *expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "h3d.p50 > 1GB/s",
            "'h3d' in 'h3d.p50 > 1GB/s' is no direction; write h2d, d2h, nvlink-rx or nvlink-tx",
        ),
        ("h2d.p75 > 1GB/s", "'p75' in .* is nothing that is measured; use mean, p50"),
        ("h2d.p50 = 1GB/s", "'=' in .* is no comparison; use <, <=, > or >="),
        ("h2d.p50 > 40", "'40' in .* is no rate; write for example 40GB/s"),
        ("h2d.p50 > 40 parsecs/s", "'40 parsecs/s' in .* is no rate"),
        ("h2d.bytes > 2GB/s", "'2GB/s' in .* is no size"),
        ("h2d.busy > 2GB", "'2GB' in .* is no share; write for example 5%"),
        ("h2d.p50@3ms > 1GB/s", "'@3ms' in .* is no window here; use 10us, 1ms or 1s"),
        ("h2d.mean@1ms > 1GB/s", "'@1ms' in .* is no window here"),
        ("h2d.p50", "compares nothing; write for example"),
        ("g0 > 1GB/s", "'g0' in .* is no direction"),
    ],
)
def test_errors_point_at_the_part(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse(text)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    with suppress(InputError):
        assert parse(text).text == text


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("h2d.p50@10us > 19GB/s", True),
        ("h2d.mean > 9.9GB/s", True),
        ("h2d.mean > 10.1GB/s", False),
        ("h2d.bytes >= 10GB", True),
        ("h2d.busy > 40%", True),
        ("h2d.share < 10%", False),
        ("d2h.bytes <= 0", True),
        ("d2h.p50 > 1GB/s", None),
        ("g1.h2d.mean > 1GB/s", None),
    ],
)
def test_conditions_hold_or_not_or_are_not_known(text: str, passed: bool | None) -> None:
    assert evaluate(parse(text), SUMMARY).passed is passed


def test_outcomes_tell_what_was_measured() -> None:
    outcome = evaluate(parse("h2d.mean > 20GB/s"), SUMMARY)
    assert outcome.sentence == "h2d.mean > 20GB/s does not hold: g0.h2d 10 GB/s."
    assert outcome.measured == (("g0.h2d", pytest.approx(10.0)),)
