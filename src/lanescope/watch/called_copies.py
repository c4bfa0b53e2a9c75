"""Copies with the addresses that their calls were passed."""

from __future__ import annotations

import numpy as np

from lanescope.watch.codes import IntArray
from lanescope.watch.operations import KINDS, Operations
from lanescope.watch.side_tables import HostCopies
from lanescope.watch.stored import in_memory


def with_addresses(operations: Operations, called: HostCopies) -> tuple[Operations, HostCopies]:
    """Return the copies whose addresses are known, in the order of time, and those.

    One call is one copy: where several operations share a number, those of a graph say, they
    are left out.
    """
    if not len(called):
        return Operations.empty(), called
    columns = ("pid", "correlation", "bytes", "device", *KINDS)
    # in memory, as all that the calls were passed is
    operations = in_memory(operations.where(lambda o: o.is_copy & (o.correlation > 0), *columns))
    places = np.arange(len(operations))
    key = _key(operations.pid, operations.correlation)
    alone, first, count = np.unique(key, return_index=True, return_counts=True)
    alone, places = alone[count == 1], places[first[count == 1]]
    wanted = _key(called.pid, called.correlation)
    at = np.searchsorted(alone, wanted)
    known = at < alone.size
    known[known] = alone[at[known]] == wanted[known]
    told = np.flatnonzero(known)
    # a call that was told of twice, as the driver's and as the runtime's: the latter says more
    _, last = np.unique(wanted[told][::-1], return_index=True)
    told = told[::-1][last]
    rows = places[at[told]]
    order = np.argsort(operations.start_ns[rows], kind="stable")
    return operations.rows(rows[order]), called.rows(told[order])


def _key(pid: IntArray, correlation: IntArray) -> IntArray:
    return (pid << 32) + correlation
