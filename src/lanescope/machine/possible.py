"""Refuses what a machine file may say and no machine has: wrong units, widths, cores, peers.

What was found on a machine and stored with a run is not looked at: it is as it was found.
"""

from __future__ import annotations

from typing import Any

from lanescope.codec.fields import FieldError
from lanescope.machine.machine import Gpu, Link, Machine
from lanescope.machine.part_names import node_of
from lanescope.machine.pcie import PACKET_BYTES, WIDTHS

#: More than any machine has, by table and field; mostly a number in another unit.
_MOST_BYTES, _MOST_US, _MOST_HOST_GBS = 1 << 50, 1e6, 1e4
_MOST: dict[str, dict[str, float]] = {
    "nodes": {
        "memory_bytes": _MOST_BYTES,
        "cache_bytes": _MOST_BYTES,
        "memory_gbs": _MOST_HOST_GBS,
    },
    "gpus": {"memory_bytes": _MOST_BYTES, "memory_gbs": 1e5},
    "links": {"raw_gbs": 1e4, "payload_gbs": 1e4},
    "nics": {"rate_gbps": 1e5},
    "host_bandwidth": dict.fromkeys(("read_gbs", "write_gbs", "both_gbs"), _MOST_HOST_GBS),
    "latencies": dict.fromkeys(("h2d_us", "d2h_us", "d2d_us"), _MOST_US)
    | {"pageable_gbs": _MOST_HOST_GBS},
}
_MOST_NVLINK = {"count": 1000, "link_gbs": 1e3}
_PCIE = dict.fromkeys(("width", "max_width"), WIDTHS) | dict.fromkeys(
    ("max_payload_bytes", "max_read_request_bytes"), PACKET_BYTES
)
#: Linux numbers no more processing units.
_MOST_THREAD = (1 << 16) - 1
_UNITS = {
    "bytes": "bytes",
    "gbs": "GB/s (1e9 bytes a second)",
    "gbps": "Gbit/s (1e9 bits a second)",
    "us": "microseconds",
}


def require_possible(machine: Machine) -> None:
    """Refuse a machine that nobody has.

    Raises
    ------
    FieldError
        With the part and the field.
    """
    for number, link in enumerate(machine.links):
        _require_link(link, number)
    for table, most in _MOST.items():
        entries = getattr(machine, table)
        several = isinstance(entries, tuple)
        for number, entry in enumerate(entries if several else (entries,)):
            for field, largest in most.items():
                _require_at_most(entry, field, largest, table, number if several else None)
    _require_cores(machine)
    known = {gpu.index for gpu in machine.gpus}
    for number, gpu in enumerate(machine.gpus):
        _require_peers(gpu, known, number)


def _require_at_most(
    entry: Any, field: str, most: float, table: str, number: int | None, inside: str | None = None
) -> None:
    found = getattr(entry, field)
    for one in found if isinstance(found, tuple) else (found,):
        if one is not None and one > most:
            unit = _UNITS.get(field.rpartition("_")[2])
            counted = "" if unit is None else f"; it is in {unit}"
            problem = f"field {field!r} is {one:g}, more than any machine has{counted}"
            raise FieldError(problem, field, table, number, inside)


def _require_link(link: Link, number: int) -> None:
    if link.nvlink is not None:
        for field, most in _MOST_NVLINK.items():
            _require_at_most(link.nvlink, field, most, "links", number, "nvlink")
    if link.pcie is None:
        return
    for field, known in _PCIE.items():
        found = getattr(link.pcie, field)
        if found is not None and found not in known:
            *others, last = map(str, known)
            problem = f"field {field!r} is {found}, not {', '.join(others)} or {last}"
            raise FieldError(problem, field, "links", number, "pcie")


def _require_cores(machine: Machine) -> None:
    """Refuse processing units that two cores have, and numbers that none has."""
    owners: dict[tuple[int | None, int], str] = {}
    for number, node in enumerate(machine.nodes):
        for core, threads in enumerate(node.cores):
            if not threads:
                problem = f"field 'cores[{core}]' has no hardware thread; leave the core out"
                raise FieldError(problem, "cores", "nodes", number)
            for thread in threads:
                if thread > _MOST_THREAD:
                    problem = f"field 'cores': {thread} is the number of no hardware thread"
                    raise FieldError(problem, "cores", "nodes", number)
                owner = owners.setdefault((node_of(node.id), thread), f"{node.id}'s core {core}")
                if owner != f"{node.id}'s core {core}" or threads.count(thread) > 1:
                    problem = f"field 'cores': thread {thread} is in two places, {owner} the first"
                    raise FieldError(problem, "cores", "nodes", number)


def _require_peers(gpu: Gpu, known: set[int], number: int) -> None:
    for peer in gpu.peers or ():
        if peer == gpu.index:
            problem = f"field 'peers' names {gpu.id} itself; it takes other GPUs"
        elif peer not in known:
            problem = f"field 'peers': there is no GPU {peer}"
        else:
            continue
        raise FieldError(problem, "peers", "gpus", number)
