"""Made-up histories: the same node again and again, day by day."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lanescope.history.records import HistoryRecord, record_of_node
from tests.fleet.made_up import node

FIRST_DAY = datetime(2026, 9, 1, 8, tzinfo=UTC)


def report(day: int, host: str = "n1", spread: float = 0.003, **slow: float):
    """A node's report of a day; each day has other noise."""
    began = (FIRST_DAY + timedelta(days=day)).isoformat()
    return replace(node(host, spread, seed=1000 + day, **slow), began=began)


def record(day: int, host: str = "n1", spread: float = 0.003, **slow: float) -> HistoryRecord:
    return record_of_node(report(day, host, spread, **slow), "made up")


def updated(one: HistoryRecord, **software: str) -> HistoryRecord:
    return replace(one, software={**one.software, **software})
