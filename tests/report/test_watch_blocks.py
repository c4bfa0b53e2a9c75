from __future__ import annotations

import pytest

from lanescope.findings.trace import find
from lanescope.machine import machine_named
from lanescope.studies.watch_report import summary_json
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Timeline
from tests.report.watch_factory import summary_text
from tests.trace.timelines import MS, PAGEABLE, copies, even_counters, timeline

MIB = 1 << 20
BUSY = timeline(
    copies(200, 8 * MIB, thread=70),
    copies(100, 5 * MIB, host=PAGEABLE, start_ns=300 * MS, thread=71, stream=14),
    copies(2000, 256, start_ns=600 * MS, every_ns=5_000, lasts_ns=2_000, down=False),
    copies(50, MIB, asynchronous=False, start_ns=700 * MS, pid=8),
    counters=(even_counters(20.0, 5.0),),
)


@pytest.fixture(scope="module")
def screen() -> str:
    summary = summarise(BUSY, machine_named("h200-x2"))
    return summary_text(summary, find(BUSY, summary, machine_named("h200-x2")))


def test_the_first_screen_is_short_and_holds_what_matters(screen: str) -> None:
    lines = screen.splitlines()
    assert len(lines) < 40
    assert lines[0].startswith("Watched 1.00 s")
    for word in ("g0 h2d", "of link", "Traced bytes", "Findings", "Predicted gain:", "Lost: 3"):
        assert word in screen


def test_columns_fit_a_wide_terminal(screen: str) -> None:
    lines = screen.splitlines()
    table = lines[lines.index("Rates by GPU and direction") + 2 :][:4]
    assert max(len(line) for line in table) <= 130


def test_unknown_numbers_are_dashes_and_reasons_are_told() -> None:
    seen = Timeline(0, 1_000_000, (even_counters(20.0, seconds=0.001),))
    screen = summary_text(summarise(seen))
    assert "the link of g0 is not known" in screen
    assert "1 s: not half of any 1 s is known" in screen


def test_nothing_is_said_in_words() -> None:
    assert "Nothing was counted" in summary_text(summarise(Timeline(0, 1)))


def test_json_names_gains_as_predicted() -> None:
    summary = summarise(BUSY)
    told = summary_json(summary, find(BUSY, summary))
    assert {"predicted_gain_seconds", "preconditions", "basis"} <= told["findings"][0].keys()
