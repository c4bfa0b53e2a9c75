"""Machines: what is there, how it is linked, and what each link can carry."""

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
]
