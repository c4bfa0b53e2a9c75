"""Machines: what is there, how it is linked, and what each link can carry."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lanescope.machine.discovery import discover as discover
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

_MODULES = {
    "discovery": ("discover",),
    "files": ("load_machine", "machine_named", "save_machine", "shipped_names"),
    "machine": (
        *("Gpu", "HostBandwidth", "Latencies", "Link", "LinkKind", "Machine", "Nic", "NumaNode"),
        *("NvLink", "Switch"),
    ),
    "pcie": ("PcieLink",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    # A verb that looks at no machine, or at a stored one, loads as little of this as it needs.
    if (module := _MODULE_OF.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
