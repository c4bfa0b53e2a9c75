"""What probes have seen, as a table on a terminal and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lanescope.report import format as fmt
from lanescope.watch.probed import Episode, Sign
from lanescope.watch.probed_way import ProbedWay

#: Stands above the table.
PROBED = "Probed by copies of our own"
_MOST_EPISODES = 100


def probed_rows(ways: Sequence[ProbedWay]) -> list[tuple[str, ...]]:
    """Return a heading and a row for each way that was probed; none for none."""
    if not ways:
        return []
    head = ("way", "copies", "of", "free GB/s", "free delay", "used by others")
    return [(*head, "held up", "delay raised", "own share"), *map(_row, ways)]


def _row(way: ProbedWay) -> tuple[str, ...]:
    return (
        f"g{way.gpu} {way.direction}",
        str(way.records),
        fmt.bytes_text(way.chunk_bytes),
        fmt.gbs_text(way.undisturbed_gbs),
        fmt.seconds_text(way.undisturbed_delay_seconds),
        fmt.percent_text(way.used_by_others),
        _times(way, Sign.LINK),
        _times(way, Sign.DELAY),
        fmt.percent_text(way.probe_busy_share),
    )


def _times(way: ProbedWay, sign: Sign) -> str:
    count = way.count_of(sign)
    return f"{count} × ({fmt.seconds_text(way.seconds_of(sign))})" if count else "never"


def probed_json(way: ProbedWay) -> dict[str, Any]:
    """Return a way as dicts, lists, numbers and text; of very many episodes the longest."""
    longest = sorted(way.episodes, key=lambda e: e.start_ns - e.end_ns)[:_MOST_EPISODES]
    values = {
        "link_used_episodes": way.count_of(Sign.LINK),
        "link_used_seconds": way.seconds_of(Sign.LINK),
        "delay_raised_episodes": way.count_of(Sign.DELAY),
        "delay_raised_seconds": way.seconds_of(Sign.DELAY),
    }
    return {**asdict(way), **values, "episodes": [_episode(e) for e in longest]}


def _episode(episode: Episode) -> dict[str, Any]:
    return {**asdict(episode), "sign": episode.sign.value}
