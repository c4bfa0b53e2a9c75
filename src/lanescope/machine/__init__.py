"""Machines: what is there, how it is linked, and what each link can carry."""

from lanescope.machine.discovery import discover
from lanescope.machine.files import load_machine, machine_named, save_machine, shipped_names
from lanescope.machine.machine import (
    Gpu,
    Latencies,
    Link,
    LinkKind,
    Machine,
    NumaNode,
    NvLink,
    Switch,
)
from lanescope.machine.pcie import PcieLink

__all__ = [
    "Gpu",
    "Latencies",
    "Link",
    "LinkKind",
    "Machine",
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
