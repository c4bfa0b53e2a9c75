"""Findings of links while they are watched, from numbers made up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from lanescope.machine import Gpu, Link, Machine, NumaNode, PcieLink
from lanescope.trace.limits import LinkLimit
from lanescope.trace.link_error_log import LinkErrors
from lanescope.watching.continuous import metrics_of
from lanescope.watching.live import HISTORY_SECONDS, LiveDirection, LiveRates
from lanescope.watching.segment_writer import (
    ERRORS,
    FULL,
    FULL_LOOKS,
    LOST,
    LOST_SECONDS,
    STATE_SECONDS,
    TRAINED_DOWN,
    LiveFindings,
    SegmentWriter,
)

BEST = PcieLink(5, 16, 5, 16)
NARROW = PcieLink(5, 8, 5, 16)
ASLEEP = PcieLink(1, 16, 5, 16)
MACHINE = Machine(
    "node",
    nodes=(NumaNode(0, ((0,),)),),
    gpus=tuple(Gpu(i, "GPU", node=0) for i in range(2)),
    links=tuple(Link.of_pcie("h0", f"g{i}", BEST) for i in range(2)),
)
LIMIT_GBS = 58.0


def direction(gbs: float | None, gpu: int = 0, lost: int = 0) -> LiveDirection:
    rates = LiveRates(gbs, gbs, gbs, np.full(HISTORY_SECONDS, np.nan))
    limit = LinkLimit(LIMIT_GBS, "a test")
    return LiveDirection(gpu, "h2d", "pm", 1_000_000, 1_000_000, lost, rates, limit)


def states(*found: PcieLink) -> tuple[LiveFindings, list[int]]:
    """Return findings that read these states of g0's link, one at each reading."""
    reads: list[int] = []
    left: Iterator[PcieLink] = iter(found)

    def read(machine: Machine) -> dict[str, PcieLink]:
        reads.append(len(reads))
        return {"g0": next(left)}

    findings = LiveFindings(read)
    findings.begin(MACHINE)
    return findings, reads


def active(findings: LiveFindings, kind: str, gpu: int = 0) -> bool | None:
    found = [one.active for one in findings.found if (one.gpu, one.kind) == (gpu, kind)]
    return found[0] if found else None


def look(findings: LiveFindings, times: Sequence[float], gbs: float, lost: int = 0) -> None:
    for now in times:
        findings.look([direction(gbs, lost=lost)], now)


def test_a_narrow_link_in_use_is_found_at_the_second_reading_and_its_seconds_counted() -> None:
    findings, _ = states(*[NARROW] * 5)
    look(findings, [0.0], 20.0)
    assert active(findings, TRAINED_DOWN) is False
    look(findings, np.arange(1.0, 21.0).tolist(), 20.0)
    assert active(findings, TRAINED_DOWN) is True
    (one,) = [found for found in findings.found if found.kind == TRAINED_DOWN]
    assert one.seconds == pytest.approx(20 - STATE_SECONDS)
    (link,) = findings.links
    assert (link.b, link.pcie) == ("g0", NARROW)
    assert active(findings, TRAINED_DOWN, gpu=1) is None  # not used: not known


def test_a_link_that_is_well_again_is_no_finding_and_its_seconds_stay() -> None:
    findings, _ = states(NARROW, NARROW, BEST)
    look(findings, [0.0, 10.0, 15.0, 20.0, 25.0], 20.0)
    assert active(findings, TRAINED_DOWN) is False
    assert findings.found[-1].seconds == pytest.approx(10.0)


def test_links_at_rest_are_not_read() -> None:
    findings, reads = states(ASLEEP, ASLEEP)
    look(findings, np.arange(60.0).tolist(), 0.5)
    findings.look([direction(None)], 61.0)
    assert not reads
    assert active(findings, TRAINED_DOWN) is None


def test_a_state_that_was_read_at_rest_is_no_finding() -> None:
    findings, _ = states(ASLEEP, ASLEEP, ASLEEP)
    look(findings, np.arange(30.0).tolist(), 20.0)  # more than PCIe 1.0 x16 carries
    assert active(findings, TRAINED_DOWN) is False


def test_states_are_read_no_more_often_than_said() -> None:
    findings, reads = states(*[BEST] * 100)
    look(findings, np.arange(0.0, 60.0, 0.25).tolist(), 20.0)
    assert len(reads) == 60 / STATE_SECONDS


def test_a_link_is_full_where_more_than_half_of_the_last_looks_were() -> None:
    findings, _ = states(*[BEST] * 100)
    half = FULL_LOOKS // 2
    look(findings, [float(i) for i in range(half)], 0.95 * LIMIT_GBS)
    assert active(findings, FULL) is False
    look(findings, [float(half)], 0.95 * LIMIT_GBS)
    assert active(findings, FULL) is True
    look(findings, [half + 1.0 + i for i in range(half)], 0.5 * LIMIT_GBS)
    assert active(findings, FULL) is False


@pytest.mark.parametrize("after", [[], [direction(None)]], ids=["gone", "silent"])
def test_a_link_of_which_nothing_is_known_any_more_is_not_full(after: list[LiveDirection]) -> None:
    findings, _ = states(*[BEST] * 100)
    look(findings, np.arange(float(FULL_LOOKS)).tolist(), 0.95 * LIMIT_GBS)
    assert active(findings, FULL) is True
    for now in range(FULL_LOOKS):
        findings.look(after, FULL_LOOKS + float(now))
    assert active(findings, FULL) is False


def test_a_gpu_that_is_not_counted_any_more_loses_no_samples() -> None:
    findings, _ = states(*[BEST] * 100)
    look(findings, [0.0, 1.0], 1.0)
    look(findings, [2.0], 1.0, lost=3)
    findings.begin(MACHINE)
    findings.look([direction(1.0, gpu=1)], 3.0)
    assert [active(findings, LOST, gpu) for gpu in (0, 1)] == [False, False]


def test_errors_that_rise_are_a_finding_until_they_rest() -> None:
    findings = LiveFindings()
    findings.begin(MACHINE)
    verdicts = []
    for replays, recoveries in ((5, 1), (5, 9), (6, 9), (6, 9), (0, 0)):
        reading = LinkErrors(0, pcie_replays=replays, pcie_recoveries=recoveries)
        findings.take_errors([reading, LinkErrors(1)])
        findings.look([], 0.0)
        verdicts.append(active(findings, ERRORS))
    # the first says nothing; recoveries alone are none; what was set back says nothing new
    assert verdicts == [None, False, True, False, False]
    assert active(findings, ERRORS, gpu=1) is None  # its driver counts none


def test_errors_of_a_gpu_that_is_gone_rise_no_more() -> None:
    findings = LiveFindings()
    for readings in ([LinkErrors(0, pcie_replays=5)], [LinkErrors(0, pcie_replays=6)], []):
        findings.take_errors(readings)
        findings.look([], 0.0)
    assert active(findings, ERRORS) is False


def test_lost_samples_are_a_finding_for_a_minute() -> None:
    findings, _ = states(*[BEST] * 100)
    look(findings, [0.0], 1.0)
    assert active(findings, LOST) is False
    look(findings, [1.0], 1.0, lost=3)
    assert active(findings, LOST) is True
    look(findings, [LOST_SECONDS], 1.0, lost=3)
    assert active(findings, LOST) is True
    look(findings, [LOST_SECONDS + 1.0], 1.0, lost=3)
    assert active(findings, LOST) is False


def test_a_pause_is_no_time_of_a_finding() -> None:
    findings, _ = states(*[NARROW] * 10)
    look(findings, [0.0, 10.0, 5000.0], 20.0)
    (one,) = [found for found in findings.found if found.kind == TRAINED_DOWN]
    assert one.seconds <= 10


def test_findings_are_metrics() -> None:
    findings, _ = states(NARROW, NARROW)
    assert "finding" not in metrics_of(SegmentWriter(Path(), 1, 1, findings=findings))
    look(findings, [0.0, 10.0, 12.5], 20.0)
    text = metrics_of(SegmentWriter(Path(), 1, 1, findings=findings))
    assert 'lanescope_finding_active{gpu="0",kind="trained-down"} 1\n' in text
    assert 'lanescope_finding_active{gpu="0",kind="link-full"} 0\n' in text
    assert 'lanescope_finding_seconds_total{gpu="0",kind="trained-down"} 2.5\n' in text
    assert "# TYPE lanescope_finding_seconds_total counter\n" in text
    assert 'lanescope_pcie_lanes{above="h0",below="g0",state="now"} 8\n' in text
    assert 'lanescope_pcie_lanes{above="h0",below="g0",state="best"} 16\n' in text
    assert 'lanescope_pcie_generation{above="h0",below="g0",state="now"} 5\n' in text
