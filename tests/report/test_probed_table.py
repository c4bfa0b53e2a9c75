from __future__ import annotations

import json

from lanescope.studies.watch_blocks import PROBED
from lanescope.studies.watch_report import summary_json
from lanescope.trace.probe import probed_directions
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Timeline
from tests.report.watch_factory import summary_text
from tests.trace.probes import probe_of, quiet


def watched() -> Timeline:
    copy, delay = quiet(1000)
    copy[400:420] *= 5
    return Timeline(0, 40_000_000, probes=(probe_of(copy, delay),))


def test_the_screen_holds_a_line_for_each_direction() -> None:
    screen = summary_text(summarise(watched()))
    lines = screen[screen.index(PROBED) :].splitlines()
    block = "\n".join(lines[:6])
    head, _, down, up = (line.strip() for line in lines[2:6])
    assert head.split("  ")[0] == "direction"
    assert down.startswith("g0 h2d")
    assert up.startswith("g0 d2h")
    for word in ("1000", "20.5", "5.00 µs", "1 × (", "never"):
        assert word in down
    assert max(map(len, block.splitlines())) <= 130
    assert "The probe of g0 itself moved" in screen
    assert "probe of g0" in screen


def test_without_a_probe_nothing_is_said() -> None:
    summary = summarise(Timeline(0, 1))
    assert PROBED not in summary_text(summary)
    assert summary_json(summary)["probed"] == []


def test_json_holds_plain_values_and_episodes() -> None:
    told = json.loads(json.dumps(summary_json(summarise(watched()))))["probed"]
    assert [direction["direction"] for direction in told] == ["h2d", "d2h"]
    assert told[0]["chunk_bytes"] == 204_800
    assert told[0]["link_used_episodes"] == 1
    assert told[0]["delay_raised_seconds"] == 0
    assert told[0]["episodes"][0]["sign"] == "link used"


def test_of_very_many_episodes_the_longest_are_kept() -> None:
    copy, delay = quiet(20_000)
    for i in range(150):
        copy[100 * i : 100 * i + 5 + i % 60] *= 5
    directions = probed_directions((probe_of(copy, delay),))
    seen = Timeline(0, 1, probes=(probe_of(copy, delay),))
    told = summary_json(summarise(seen))["probed"][0]
    assert told["link_used_episodes"] == len(directions[0].episodes) == 150
    assert len(told["episodes"]) == 100
    assert told["episodes"][0]["records"] == 64
