"""The raw state of a machine, as captured, and the links in its PCI tree and in NVML's answers.

``lanescope topo --record FOLDER`` writes this machine's, without what identifies it, for a test or
a bug report; a recorded one is checked before `discovery.machine_from_snapshot` makes a `Machine`
of it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from lanescope.codec.fields import Bound, FieldError, Positive, build
from lanescope.codec.files import fields_of, read_json, read_text, write_atomically
from lanescope.machine import sysfs
from lanescope.machine.machine import Gpu, Link, Machine, NvLink, Switch
from lanescope.machine.nvml import Nvml
from lanescope.machine.pcie import TRANSFER_RATE_GTS, Generation, Lanes, PcieLink
from lanescope.machine.sysfs import (
    PacketSizes,
    is_upstream_port,
    link_now,
    memory_devices,
    packet_sizes,
)

_XML = "hwloc.xml"
_JSON = "snapshot.json"
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_NUMBER = re.compile(r"-?[0-9]{1,9}\s*")
Hex = Annotated[str, Bound("bytes in hex", lambda value: _HEX.fullmatch(value) is not None)]
Number = Annotated[str, Bound("a number", lambda value: _NUMBER.fullmatch(value) is not None)]
#: Facts in hwloc's XML that name a host, a network card or a container.
_HWLOC_FACTS = ("HostName", "Address", "NodeGUID", "SysImageGUID", "Port1GID0", "LinuxCgroup")
_UUID = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
#: NVML's numbers for what is at the other end of an NVLink, and for its version.
_REMOTE_SWITCH = 2
_NVLINK_VERSION = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5}
#: Line rate of one NVLink and direction in GB/s, for drivers that do not tell.
_NVLINK_GBS = {1: 20.0, 2: 25.78125, 3: 25.0, 4: 26.5625, 5: 53.125}
NVSWITCH = "nvswitch"


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


def pcie_links(
    snapshot: Snapshot, gpus: tuple[Gpu, ...], first_node: int
) -> tuple[tuple[Link, ...], tuple[Switch, ...]]:
    """Return every PCIe hop from the NUMA nodes to the GPUs, and the switches between.

    A GPU without a known node hangs on `first_node`.
    """
    links: dict[tuple[str, str], Link] = {}
    switches: dict[str, Switch] = {}
    for gpu in gpus:
        below, address = gpu.id, gpu.pci_address
        node = f"h{first_node if gpu.node is None else gpu.node}"
        entry = _nvml_entry(snapshot, gpu)  # knows of the link next to the GPU only
        # it is the GPU whose requests cross all links above it
        own = _sizes(snapshot.pci.get(gpu.pci_address or "", {}))
        request = None if own is None else own.max_read_request_bytes
        for upstream in _upstream_ports(snapshot, address):
            if upstream not in switches:
                number = f"s{len(switches)}"
                switches[upstream] = Switch(number, "PCIe switch", upstream)
            above = switches[upstream].id
            _add(links, above, below, pcie_state(snapshot, address, entry, request))
            below, address, entry = above, upstream, None
        _add(links, node, below, pcie_state(snapshot, address, entry, request))
    return tuple(links.values()), tuple(switches.values())


def _add(links: dict[tuple[str, str], Link], above: str, below: str, pcie: PcieLink | None) -> None:
    if pcie is not None:
        links.setdefault((above, below), Link.of_pcie(above, below, pcie))


def _upstream_ports(snapshot: Snapshot, address: str | None) -> list[str]:
    """Upstream ports of the switches above a device, from the lowest.

    The bridges above a device are, upwards: a downstream and an upstream port for
    each switch, and last the root port. Their place in that row tells which is which
    where their own word cannot be read: that takes root.
    """
    bridges = []
    parent = snapshot.pci.get(address or "", {}).get("parent")
    while parent is not None and parent in snapshot.pci:
        bridges.append(parent)
        parent = snapshot.pci[parent].get("parent")
    ports = []
    for place, bridge in enumerate(bridges[:-1]):
        upstream = is_upstream_port(bytes.fromhex(snapshot.pci[bridge].get("config") or ""))
        if place % 2 == 1 if upstream is None else upstream:
            ports.append(bridge)
    return ports


def pcie_state(
    snapshot: Snapshot, address: str | None, entry: dict[str, Any] | None, request: int | None
) -> PcieLink | None:
    """State of the link above a device: from the kernel, else from NVML."""
    device = snapshot.pci.get(address or "", {})
    port = snapshot.pci.get(device.get("parent") or "", {})
    entry = entry or {}
    generation = _generation(device.get("current_link_speed")) or entry.get("generation")
    width = _positive(device.get("current_link_width")) or entry.get("width")
    if generation is None or width is None:
        return None
    best_generation = [
        _generation(device.get("max_link_speed")),
        _generation(port.get("max_link_speed")),
        entry.get("max_generation"),
    ]
    best_width = [
        _positive(device.get("max_link_width")),
        _positive(port.get("max_link_width")),
        entry.get("max_width"),
    ]
    sizes = [s for s in (_sizes(device), _sizes(port)) if s is not None]
    return PcieLink(
        generation=generation,
        width=width,
        max_generation=min((g for g in best_generation if g), default=None),
        max_width=min((w for w in best_width if w), default=None),
        max_payload_bytes=min((s.max_payload_bytes for s in sizes), default=None),
        max_read_request_bytes=request,
    )


def link_states(machine: Machine, root: Path = Path("/sys")) -> dict[str, PcieLink]:
    """Return the PCIe links as they are at this moment, by their lower part, such as ``g0``.

    Those that the kernel does not tell of are as the driver says; others are left out.
    """
    parts: tuple[Gpu | Switch, ...] = (*machine.gpus, *machine.switches)
    addresses = {part.id: part.pci_address for part in parts}
    uuids = {gpu.id: gpu.uuid for gpu in machine.gpus}
    nvml: Nvml | None = None
    found = {}
    for link in machine.links:
        if link.pcie is None:
            continue
        speed, lanes = link_now(addresses.get(link.b) or "-", root)
        state = (_generation(speed), _positive(lanes))
        if None in state and (uuid := uuids.get(link.b)) is not None:
            nvml = nvml or Nvml.open()
            state = (nvml and nvml.link_state(uuid)) or state
        generation, width = state
        if generation in TRANSFER_RATE_GTS and width is not None:
            now = {"generation": generation, "width": width}
            found[link.b] = dataclasses.replace(link.pcie, **now)
    return found


def _generation(speed: str | None) -> int | None:
    """``32.0 GT/s PCIe`` is generation 5; None for 'Unknown' and nothing."""
    try:
        rate = float((speed or "").split()[0])
    except (IndexError, ValueError):
        return None
    return next((g for g, gts in TRANSFER_RATE_GTS.items() if gts == rate), None)


def _positive(text: str | None) -> int | None:
    # a port without a link says 0, one that does not know says 255
    return int(text) if text and text.isdigit() and 0 < int(text) <= 32 else None


def _sizes(device: dict[str, str | None]) -> PacketSizes | None:
    return packet_sizes(bytes.fromhex(device.get("config") or ""))


def _nvml_entry(snapshot: Snapshot, gpu: Gpu) -> dict[str, Any] | None:
    entries = snapshot.nvml.get("gpus", [])
    return next((e for e in entries if e.get("pci_address") == gpu.pci_address), None)


def nvlinks(
    snapshot: Snapshot, gpus: tuple[Gpu, ...]
) -> tuple[tuple[Link, ...], tuple[Switch, ...]]:
    """Return bundles of NVLinks: from each GPU to the switch fabric, or between GPUs.

    Links that are up are left out where the driver lets their GPU reach no other by them:
    so it is before the fabric manager has started, and in some virtual machines.
    """
    links: list[Link] = []
    by_address = {gpu.pci_address: gpu.id for gpu in gpus}
    for gpu in gpus:
        entry = _nvml_entry(snapshot, gpu) or {}
        every = entry.get("nvlinks", [])
        up = [ln for ln in every if ln["up"]] if entry.get("nvlink_peers") != [] else []
        ends: Counter[str] = Counter()
        for link in up:
            peer = by_address.get(link["remote_address"])
            if link["remote_type"] == _REMOTE_SWITCH:
                ends[NVSWITCH] += 1
            elif peer is not None and gpu.id < peer:  # counted once, from its first end
                ends[peer] += 1
        for end, count in ends.items():
            whole = len(every) if end == NVSWITCH else None
            links.append(Link.of_nvlink(gpu.id, end, _bundle(up[0], count, whole)))
    fabric = any(link.b == NVSWITCH for link in links)
    return tuple(links), (Switch(NVSWITCH, "NVLink switch"),) if fabric else ()


def _bundle(link: dict[str, Any], count: int, whole: int | None) -> NvLink:
    version = _NVLINK_VERSION.get(link["version"])
    speed = link["speed_mbps"]
    rate = _NVLINK_GBS.get(version or 0, 25.0)
    if speed and speed != int(rate * 1e3):  # drivers cut 26562.5 MB/s to 26562
        rate = speed / 1e3
    return NvLink(count, rate, version, whole)
