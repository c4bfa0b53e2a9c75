"""Machines: what is there, how it is linked, and what each link can carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanescope.machine.files import load_machine, machine_named, save_machine, shipped_names
from lanescope.machine.machine import (
    Gpu,
    HostBandwidth,
    Latencies,
    Link,
    LinkKind,
    Machine,
    Nic,
    NumaNode,
    NvLink,
    Switch,
)
from lanescope.machine.pcie import PcieLink

if TYPE_CHECKING:
    from lanescope.machine.discovery import discover

__all__ = [
    "Gpu",
    "HostBandwidth",
    "Latencies",
    "Link",
    "LinkKind",
    "Machine",
    "Nic",
    "NumaNode",
    "NvLink",
    "PcieLink",
    "Switch",
    "discover",
    "load_machine",
    "machine_named",
    "save_machine",
    "shipped_names",
]


def __getattr__(name: str) -> Any:
    # What looks at hwloc, NVML and the kernel is loaded by who looks: a stored machine needs none.
    if name == "discover":
        from lanescope.machine.discovery import discover

        return discover
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
