"""The NVTX ranges of a traced process, from where they begin and end in its spool."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lanescope.watch.ranges import Ranges
from lanescope.watch.trace_records import Table

_PUSH, _POP, _START, _END = range(4)


def ranges_of(edges: Table, strings: Mapping[int, str], pid: int) -> Ranges:
    """Return the ranges of one process; a pop or an end whose begin was lost is left out.

    Parameters
    ----------
    edges
        Records of the layout `EDGES`, in the order of time on each thread.
    """
    end_ns = np.zeros(len(edges), np.int64)
    stacks: dict[tuple[int, int], list[int]] = {}
    started: dict[int, int] = {}
    columns = (edges[name].tolist() for name in ("kind", "thread", "domain", "id", "at_ns"))
    for row, (kind, thread, domain, identity, at) in enumerate(zip(*columns, strict=True)):
        if kind == _PUSH:
            stacks.setdefault((thread, domain), []).append(row)
        elif kind == _START:
            started[identity] = row
        elif kind == _POP and (stack := stacks.get((thread, domain))):
            end_ns[stack.pop()] = at
        elif kind == _END and (begun := started.pop(identity, None)) is not None:
            end_ns[begun] = at
    begins = np.isin(edges["kind"], (_PUSH, _START))
    rows = edges[begins]
    named, which = np.unique(
        np.stack((rows["domain"], rows["name"]), axis=1), axis=0, return_inverse=True
    )
    names = [_name(strings.get(d, ""), strings.get(n, "")) for d, n in named.tolist()]
    return Ranges.of(
        names,
        pid=np.full(len(rows), pid),
        thread=rows["thread"],
        start_ns=rows["at_ns"],
        end_ns=end_ns[begins],
        pushed=rows["kind"] == _PUSH,
        name=which.reshape(-1),
    )


def _name(domain: str, name: str) -> str:
    name = name or "(unnamed)"
    return f"{domain}:{name}" if domain else name
