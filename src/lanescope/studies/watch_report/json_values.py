"""A watch's summary as plain values for JSON: units in the names, None for what is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lanescope.document.finding import Finding
from lanescope.store.folder import State
from lanescope.trace.attribution import DIRECTIONS_TO_ASK
from lanescope.trace.probed import Episode, ProbedDirection, Sign
from lanescope.trace.run import Turns
from lanescope.trace.summary import DirectionSummary, Summary
from lanescope.trace.timeline import CALL_TIMES, GPU_CLOCK

#: Of the values below; it changes when a key changes its meaning or goes.
SUMMARY_VERSION = 1
_MOST_GROUPS = 100
_MOST_EPISODES = 100


def summary_json(
    summary: Summary, findings: Sequence[Finding] = (), state: State = State.COMPLETE
) -> dict[str, Any]:
    """Return a summary and its findings as dicts, lists, numbers and text.

    Parameters
    ----------
    state
        How far the watch came.
    """
    return {
        "version": SUMMARY_VERSION,
        "state": state,
        "seconds": summary.seconds,
        "ways": [_direction(one) for one in summary.directions],
        "nvlinks": [_direction(one) for one in summary.nvlinks],
        "link_errors": [asdict(errors) for errors in summary.link_errors],
        "copies": [asdict(group) for group in summary.copies[:_MOST_GROUPS]],
        "python_lines": [asdict(one) for one in summary.by_line[:_MOST_GROUPS]],
        "python_lines_seconds": summary.line_seconds,
        "most_frequent_copies": [asdict(group) for group in summary.most_frequent(_MOST_GROUPS)],
        "shares": {
            by: [_without(asdict(s), "by") for s in summary.shares_by(by)[:_MOST_GROUPS]]
            for by in DIRECTIONS_TO_ASK
        },
        "losses": {**asdict(summary.losses), "cut_processes": list(summary.losses.cut_processes)},
        "costs": [asdict(cost) for cost in summary.costs],
        "alignments": [
            {"gpu": gpu, **({} if found is None else asdict(found)), "known": found is not None}
            for gpu, found in summary.alignments
        ],
        "in_copies": [asdict(one) for one in summary.in_copies],
        "gpu_times": [asdict(one) for one in summary.gpu_times],
        "copies_timed_by": CALL_TIMES if summary.by_call_times else GPU_CLOCK,
        "managed": [asdict(one) for one in summary.managed],
        "slowdown": None if summary.slowdown is None else asdict(summary.slowdown),
        "turns": None if summary.turns is None else turns_json(summary.turns),
        "boost": None if summary.boost is None else asdict(summary.boost),
        "probed": [_probed(one) for one in summary.probed],
        "notes": list(summary.notes),
        "findings": [_finding(finding) for finding in findings],
    }


def _direction(one: DirectionSummary) -> dict[str, Any]:
    rates = None if one.rates is None else asdict(one.rates)
    if rates is not None:
        rates["windows"] = list(rates["windows"])
    return {
        "gpu": one.gpu,
        "direction": one.direction,
        "told": one.told,
        "source": one.source,
        "counter_bytes": one.counter_bytes,
        "traced_bytes": one.traced_bytes,
        "unattributed_bytes": one.unattributed_bytes,
        "unexplained": None if one.unexplained is None else asdict(one.unexplained),
        "slow_bytes": one.slow_bytes,
        "untraced_bytes": one.untraced_bytes,
        "crossed_bytes": one.crossed_bytes,
        "limit_gbs": one.limit.gbs,
        "limit_source": one.limit.source,
        "share_of_limit": one.share_of_limit,
        "rates": rates,
    }


def _finding(found: Finding) -> dict[str, Any]:
    gain = found.gain_seconds
    return {
        "kind": found.kind,
        "sentence": found.sentence,
        "basis": found.basis,
        "preconditions": list(found.conditions),
        "evidence": list(found.evidence),
        "predicted_gain_seconds": None if gain is None else gain.high,
        "remedy": found.remedy,
        "code": [asdict(one) for one in found.code],
        "confirm": found.confirm,
    }


def turns_json(turns: Turns) -> dict[str, Any]:
    """Return measured slowdowns: seconds of each turn, and shares."""
    median, low, high = turns.slowdown
    return {**asdict(turns), "median_share": median, "low_share": low, "high_share": high}


def _without(values: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in values.items() if k != key}


def _probed(one: ProbedDirection) -> dict[str, Any]:
    """A direction that was probed; of very many episodes the longest."""
    longest = sorted(one.episodes, key=lambda e: e.start_ns - e.end_ns)[:_MOST_EPISODES]
    values = {
        "link_used_episodes": one.count_of(Sign.LINK),
        "link_used_seconds": one.seconds_of(Sign.LINK),
        "delay_raised_episodes": one.count_of(Sign.DELAY),
        "delay_raised_seconds": one.seconds_of(Sign.DELAY),
    }
    return {**asdict(one), **values, "episodes": [_episode(e) for e in longest]}


def _episode(episode: Episode) -> dict[str, Any]:
    return {**asdict(episode), "sign": episode.sign.value}
