"""The raw state of a machine, as captured: nothing in it is interpreted yet.

``lanescope topo --record FOLDER`` writes this machine's, for a test or a bug report;
`discovery.machine_from_snapshot` makes a `Machine` of it.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lanescope.codec.atomic import write_atomically
from lanescope.codec.fields import build
from lanescope.codec.files import fields_of, read_json, read_text
from lanescope.machine import sysfs
from lanescope.machine.nvml import Nvml
from lanescope.machine.recorded import require_sound

_XML = "hwloc.xml"
_JSON = "snapshot.json"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that discovery needs.

    Attributes
    ----------
    hwloc_xml
        Topology as hwloc exports it, or None.
    pci
        See `sysfs.pci_devices`.
    nvml
        See `Nvml.describe`; ``{"error": reason}`` without NVML.
    cuda
        ``{"devices": [...]}`` or ``{"error": name, "detail": text}``.
    rdma
        See `sysfs.rdma_ports`.
    dmi
        Firmware's memory table in hex, or None.
    dmi_present
        Whether there is such a table, readable or not.
    """

    hostname: str
    hwloc_xml: str | None = None
    pci: dict[str, dict[str, str | None]] = field(default_factory=dict)
    nvml: dict[str, Any] = field(default_factory=lambda: {"error": "not asked"})
    cuda: dict[str, Any] = field(default_factory=lambda: {"error": "not asked"})
    dmi: str | None = None
    dmi_present: bool = False
    cpu_model: str | None = None
    memory_bytes: int | None = None
    cpu_count: int = 1
    visible_devices: str | None = None
    rdma: tuple[sysfs.RdmaPort, ...] = ()

    def save(self, folder: Path) -> None:
        """Write the snapshot into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        content = dataclasses.asdict(self)
        xml = content.pop("hwloc_xml")
        if xml is None:
            (folder / _XML).unlink(missing_ok=True)  # of an older recording
        else:
            write_atomically(folder / _XML, xml.encode())
        text = json.dumps(content, indent=1) + "\n"
        write_atomically(folder / _JSON, text.encode())

    @staticmethod
    def load(folder: Path) -> Snapshot:
        """Read a snapshot that `save` wrote; raises `InputError` if it is damaged."""
        file = folder / _XML
        xml = read_text(file, inner=1) if os.path.lexists(file) else None
        with fields_of(folder / _JSON, "name another folder"):
            content = read_json(folder / _JSON, inner=1)
            fields = content | {"hwloc_xml": xml} if isinstance(content, dict) else content
            snapshot = build(Snapshot, fields)
            require_sound(fields)
            return snapshot


def take_snapshot(*, ask_cuda: bool = True) -> Snapshot:
    """Capture this machine. What cannot be read is None; nothing raises.

    CUDA takes longest to answer. Without it, GPUs are those that the driver's NVML tells, in the
    order of their addresses, whatever the process may see of them.
    """
    import os
    import socket

    table = sysfs.dmi_table()
    nvml, reason = Nvml.open_or_reason()
    return Snapshot(
        hostname=socket.gethostname(),
        hwloc_xml=_hwloc_xml(),
        pci=sysfs.pci_devices(),
        nvml={"error": reason} if nvml is None else nvml.describe(),
        cuda=_cuda() if ask_cuda else {"error": "not asked"},
        dmi=None if table is None else table.hex(),
        dmi_present=sysfs.has_dmi_table(),
        cpu_model=sysfs.cpu_model(),
        memory_bytes=sysfs.memory_bytes(),
        cpu_count=os.cpu_count() or 1,
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
        rdma=sysfs.rdma_ports(),
    )


def _hwloc_xml() -> str | None:
    from lanescope._core import native

    try:
        return native.topology_xml()
    except native.NativeError:
        return None


def _cuda() -> dict[str, Any]:
    from lanescope._core import native

    try:
        return {"devices": native.cuda_devices()}
    except native.NativeError as error:
        _, _, name, detail, _ = error.args
        return {"error": name, "detail": detail}
