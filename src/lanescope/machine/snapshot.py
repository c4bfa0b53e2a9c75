"""The raw state of a machine, as captured; nothing in it is interpreted yet.

``lanescope topo --record FOLDER`` writes this machine's, without what identifies it, for a test or
a bug report; a recorded one is checked before `discovery.machine_from_snapshot` makes a `Machine`
of it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from lanescope.codec.atomic import write_atomically
from lanescope.codec.fields import Bound, FieldError, Positive, build
from lanescope.codec.files import fields_of, read_json, read_text
from lanescope.machine import sysfs
from lanescope.machine.nvml import Nvml
from lanescope.machine.pcie import Generation, Lanes
from lanescope.machine.sysfs import memory_devices

_XML = "hwloc.xml"
_JSON = "snapshot.json"
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_NUMBER = re.compile(r"-?[0-9]{1,9}\s*")
Hex = Annotated[str, Bound("bytes in hex", lambda value: _HEX.fullmatch(value) is not None)]
Number = Annotated[str, Bound("a number", lambda value: _NUMBER.fullmatch(value) is not None)]
#: Facts in hwloc's XML that name a host, a network card or a container.
_HWLOC_FACTS = ("HostName", "Address", "NodeGUID", "SysImageGUID", "Port1GID0", "LinuxCgroup")
_UUID = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


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


@dataclass(frozen=True, slots=True)
class _NvLink:
    """An NVLink as NVML tells it."""

    up: bool
    version: int | None
    speed_mbps: int | None
    remote_type: int | None
    remote_address: str | None


@dataclass(frozen=True, slots=True)
class _NvmlGpu:
    """A GPU as NVML tells it; one that does not answer has a number alone."""

    index: int
    name: str | None = None
    uuid: str | None = None
    vbios: str | None = None
    nvlink_domain: str | None = None
    pci_address: str | None = None
    memory_bytes: int | None = None
    generation: Generation | None = None
    width: Lanes | None = None
    max_generation: Generation | None = None
    max_width: Lanes | None = None
    compute_mode: str | None = None
    mig: bool | None = None
    in_use: bool | None = None
    nvlinks: tuple[_NvLink, ...] = ()
    nvlink_peers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class _CudaGpu:
    """A GPU as CUDA tells it."""

    index: int
    name: str
    pci_address: str
    uuid: str
    memory_bytes: int
    compute_major: int
    compute_minor: int
    multiprocessors: int
    async_engines: int
    memory_gbs: Positive | None = None
    peers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Nvml:
    """NVML's answers, or why there are none."""

    error: str | None = None
    driver: str | None = None
    cuda_version: int | None = None
    confidential: bool | None = None
    gpus: tuple[_NvmlGpu, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cuda:
    """CUDA's answers, or why there are none."""

    error: str | None = None
    detail: str | None = None
    devices: tuple[_CudaGpu, ...] = ()


@dataclass(frozen=True, slots=True)
class _Device:
    """A device of the PCI tree; the other attributes are texts as the kernel writes them."""

    config: Hex | None = None
    parent: str | None = None
    numa_node: Number | None = None


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The parts that are no plain values of `lanescope.machine.snapshot.Snapshot`."""

    nvml: _Nvml
    cuda: _Cuda
    pci: dict[str, _Device]
    dmi: Hex | None = None


def require_sound(table: Mapping[str, Any]) -> None:
    """Check the answers in a recorded machine's table.

    Raises
    ------
    FieldError
        If one cannot be, or the PCI tree is a ring.
    """
    recorded = build(_Recorded, table, others=True)
    for address in recorded.pci:
        above, parent = {address}, recorded.pci[address].parent
        while parent is not None and parent in recorded.pci:
            if parent in above:
                raise FieldError(f"the device {parent!r} is its own parent", "parent", "pci")
            above.add(parent)
            parent = recorded.pci[parent].parent
    addresses = [gpu.pci_address for gpu in recorded.cuda.devices]
    numbers = [gpu.index for gpu in recorded.cuda.devices]
    if len(set(addresses)) < len(addresses) or len(set(numbers)) < len(numbers):
        raise FieldError("a GPU is there twice", "devices", inside="cuda")


def redacted(snapshot: Snapshot, name: str) -> Snapshot:
    """Return a snapshot to hand on: without host name, addresses, UUIDs, serial numbers.

    Parameters
    ----------
    name
        Stands in for the host name.
    """
    numbers: dict[str, int] = {}

    def renumbered(match: re.Match[str]) -> str:
        number = numbers.setdefault(match[0], len(numbers))
        return f"GPU-{number:08d}-0000-0000-0000-000000000000"

    plain = json.dumps({"nvml": snapshot.nvml, "cuda": snapshot.cuda})
    gpus = json.loads(re.sub(_UUID, renumbered, plain))
    facts = "|".join(_HWLOC_FACTS)
    xml = snapshot.hwloc_xml
    return dataclasses.replace(
        snapshot,
        hostname=name,
        nvml=gpus["nvml"],
        cuda=gpus["cuda"],
        hwloc_xml=xml and re.sub(rf'\s*<info name="({facts})"[^>]*/>', "", xml),
        dmi=snapshot.dmi and memory_devices(bytes.fromhex(snapshot.dmi)).hex(),
        visible_devices=snapshot.visible_devices
        and re.sub(_UUID, renumbered, snapshot.visible_devices),
    )


def is_redacted(uuid: str) -> bool:
    """Whether a GPU's UUID is one that stands for another: many machines have GPUs of that name."""
    return re.fullmatch(r"GPU-[0-9]{8}-0000-0000-0000-0{12}", uuid) is not None
