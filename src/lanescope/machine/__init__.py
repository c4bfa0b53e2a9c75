"""Machines: what is there, how it is linked, and what each link can carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanescope.machine.files import load_machine as load_machine
from lanescope.machine.files import machine_named as machine_named
from lanescope.machine.files import save_machine as save_machine
from lanescope.machine.files import shipped_names as shipped_names
from lanescope.machine.machine import Gpu as Gpu
from lanescope.machine.machine import HostBandwidth as HostBandwidth
from lanescope.machine.machine import Latencies as Latencies
from lanescope.machine.machine import Link as Link
from lanescope.machine.machine import LinkKind as LinkKind
from lanescope.machine.machine import Machine as Machine
from lanescope.machine.machine import Nic as Nic
from lanescope.machine.machine import NumaNode as NumaNode
from lanescope.machine.machine import NvLink as NvLink
from lanescope.machine.machine import Switch as Switch
from lanescope.machine.pcie import PcieLink as PcieLink

if TYPE_CHECKING:
    from lanescope.machine.discovery import discover as discover


def __getattr__(name: str) -> Any:
    # What looks at hwloc, NVML and the kernel is loaded by who looks: a stored machine needs none.
    if name == "discover":
        from lanescope.machine.discovery import discover

        return discover
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
