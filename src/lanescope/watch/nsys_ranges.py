"""NVTX ranges of an nsys export."""

from __future__ import annotations

import numpy as np

from lanescope.watch.codes import IntArray
from lanescope.watch.nsys_tables import Tables
from lanescope.watch.ranges import Ranges

EVENTS = "NVTX_EVENTS"
#: Kinds of events, as documented.
_PUSHED, _STARTED, _DOMAIN = 59, 60, 75
_PART, _MASK = 24, (1 << 24) - 1


def read_ranges(tables: Tables, epoch_ns: int) -> Ranges:
    """Return the ranges of an export; none where it has no table of them.

    Parameters
    ----------
    epoch_ns
        When the capture began, nanoseconds since 1970: times in the table are from then.
    """
    more = {"end": -1, "eventType": 0, "globalTid": 0, "domainId": 0, "textId": 0}
    found = tables.whole(EVENTS, ("start",), more)
    if found is None:
        return Ranges.empty()
    chosen = np.isin(found["eventType"], (_PUSHED, _STARTED))
    rows = {key: column[chosen] for key, column in found.items()}
    texts = tables.texts(rows["textId"].tolist())
    own = _own_texts(tables)
    pid = rows["globalTid"] >> _PART & _MASK
    domains = _domains(tables)
    named = [
        _name(domains.get((process, domain), ""), told or texts.get(text, ""))
        for process, domain, text, told in zip(
            pid.tolist(),
            rows["domainId"].tolist(),
            rows["textId"].tolist(),
            own or [""] * pid.size,
            strict=True,
        )
    ]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(named))}
    ended = rows["end"] >= 0
    ends: IntArray = np.where(ended, rows["end"] + epoch_ns, 0)
    return Ranges.of(
        tuple(numbers),
        pid=pid,
        thread=rows["globalTid"] & _MASK,
        start_ns=rows["start"] + epoch_ns,
        end_ns=ends,
        pushed=rows["eventType"] == _PUSHED,
        name=[numbers[name] for name in named],
    )


def _own_texts(tables: Tables) -> list[str]:
    """Return the texts that stand in the table itself, a row each; registered ones do not."""
    if not {"text", "eventType"} <= tables.columns(EVENTS):
        return []
    kinds = (_PUSHED, _STARTED)
    query = f"SELECT text FROM {EVENTS} WHERE eventType IN (?, ?)"
    return ["" if text is None else str(text) for (text,) in tables.rows(query, kinds)]


def _domains(tables: Tables) -> dict[tuple[int, int], str]:
    """Return names of domains by process and number; the default domain has none."""
    if not {"text", "eventType", "domainId", "globalTid"} <= tables.columns(EVENTS):
        return {}
    query = f"SELECT globalTid, domainId, text FROM {EVENTS} WHERE eventType = ? AND domainId > 0"
    return {
        (int(thread or 0) >> _PART & _MASK, int(domain)): str(text or "")
        for thread, domain, text in tables.rows(query, (_DOMAIN,))
    }


def _name(domain: str, name: str) -> str:
    name = name or "(unnamed)"
    return f"{domain}:{name}" if domain else name
