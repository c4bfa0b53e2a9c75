"""Makes a `Machine` of what hwloc, the kernel, NVML and CUDA say."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lanescope.machine.machine import Gpu, Link, LinkKind, Machine, Nic, NumaNode
from lanescope.machine.snapshot import Snapshot, nvlinks, pcie_links, pcie_state, take_snapshot
from lanescope.machine.sysfs import RdmaPort, memory_modules, peak_gbs

#: What the compiled core was built with.
_DRIVER_NEEDED = 580
_CUDA_NEEDED = f"13.0 needs driver {_DRIVER_NEEDED} or newer"
_CONFIDENTIAL = (
    "NVIDIA's Confidential Computing is on: copies between host and GPUs are encrypted, and have "
    "no limit to be judged by."
)
_NO_DEVICE = "cudaErrorNoDevice"
_HELD = "It is in exclusive-process mode and another process holds it; end that process."
_RESTART = "The driver's kernel module and its libraries differ in version: restart the machine."


def discover() -> Machine:
    """Return this machine. What cannot be found out is None and has a note."""
    return machine_from_snapshot(take_snapshot())


def discover_without_cuda() -> Machine:
    """Return this machine as the driver tells it: sooner, with GPUs that count as unusable."""
    return machine_from_snapshot(take_snapshot(ask_cuda=False))


def machine_from_snapshot(snapshot: Snapshot) -> Machine:
    """Return the machine that a snapshot shows."""
    host = _host(snapshot)
    nodes, memory_note = _with_memory_limits(host.nodes, snapshot)
    gpus = _gpus(snapshot, host)
    pcie, switches = pcie_links(snapshot, gpus, nodes[0].index)
    fabric, fabric_switches = nvlinks(snapshot, gpus)
    sockets = tuple(
        Link(a.id, b.id, LinkKind.SOCKET) for i, a in enumerate(nodes) for b in nodes[i + 1 :]
    )
    links = (*sockets, *pcie, *fabric)
    version = snapshot.nvml.get("cuda_version")
    return Machine(
        name=snapshot.hostname,
        cpu=host.cpu or snapshot.cpu_model,
        nodes=nodes,
        gpus=gpus,
        switches=(*switches, *fabric_switches),
        links=links,
        nics=nics(snapshot, gpus),
        driver=snapshot.nvml.get("driver"),
        cuda_version=None if version is None else f"{version // 1000}.{version % 1000 // 10}",
        confidential=bool(snapshot.nvml.get("confidential")),
        notes=tuple(n for n in (*_gpu_notes(snapshot, gpus, links, nodes), memory_note) if n),
    )


def _host(snapshot: Snapshot) -> HwlocMachine:
    host = HwlocMachine(None, ())
    if snapshot.hwloc_xml is not None:
        with contextlib.suppress(ValueError):  # what hwloc cannot tell, the kernel tells in part
            host = parse_hwloc(snapshot.hwloc_xml)
        if len(host.nodes) == 1:
            # memory that was plugged in later is missing from the only node's own count
            sizes = [host.nodes[0].memory_bytes or 0, snapshot.memory_bytes or 0]
            only = dataclasses.replace(host.nodes[0], memory_bytes=max(sizes) or None)
            return dataclasses.replace(host, nodes=(only,))
    if host.nodes:
        return host
    cores = tuple((cpu,) for cpu in range(snapshot.cpu_count))
    return HwlocMachine(None, (NumaNode(0, cores, snapshot.memory_bytes),))


def _with_memory_limits(
    nodes: tuple[NumaNode, ...], snapshot: Snapshot
) -> tuple[tuple[NumaNode, ...], str | None]:
    peak = None if snapshot.dmi is None else peak_gbs(memory_modules(bytes.fromhex(snapshot.dmi)))
    if peak is None:
        if snapshot.dmi_present and snapshot.dmi is None:
            why = "Only root can read the speed of the memory modules: run once as root"
        elif snapshot.dmi_present:
            why = "The firmware does not tell the speed of the memory modules"
        else:
            why = "This machine does not show its memory modules, as is usual for virtual ones"
        unknown = "the speed of the memory modules is not known"
        limited = tuple(dataclasses.replace(n, memory_detail=unknown) for n in nodes)
        return limited, f"{why}; host memory is measured, but has no limit to be judged by."
    total, detail = peak
    local = [n for n in nodes if n.cores]
    share = total / max(1, len(local))
    if len(local) > 1:
        detail += f", shared evenly by {len(local)} nodes"
    limited = tuple(
        dataclasses.replace(n, memory_gbs=share, memory_detail=detail) if n.cores else n
        for n in nodes
    )
    return limited, None


def _gpus(snapshot: Snapshot, host: HwlocMachine) -> tuple[Gpu, ...]:
    # by number where there is no address: GPUs that have fallen off the bus
    known = {g.get("pci_address") or g.get("index"): g for g in snapshot.nvml.get("gpus", [])}
    gpus = []
    for device in snapshot.cuda.get("devices", []):
        address = device["pci_address"]
        gpus.append(_cuda_gpu(device, known.pop(address, {}), _node_of(address, snapshot, host)))
    for entry in known.values():  # NVML sees them, CUDA does not
        gpus.append(
            Gpu(
                index=len(gpus),
                name=entry.get("name") or "GPU that does not answer",
                node=_node_of(entry.get("pci_address"), snapshot, host),
                pci_address=entry.get("pci_address"),
                uuid=entry.get("uuid"),
                memory_bytes=entry.get("memory_bytes"),
                unavailable=_why_unavailable(entry, snapshot),
            )
        )
    return tuple(gpus)


def _cuda_gpu(device: dict[str, Any], entry: dict[str, Any], node: int | None) -> Gpu:
    return Gpu(
        index=device["index"],
        name=device["name"],
        node=node,
        pci_address=device["pci_address"],
        uuid=entry.get("uuid") or device["uuid"],
        memory_bytes=device["memory_bytes"],
        compute_capability=(device["compute_major"], device["compute_minor"]),
        multiprocessors=device["multiprocessors"],
        copy_engines=device["async_engines"],
        memory_gbs=device.get("memory_gbs"),
        peers=None if "peers" not in device else tuple(device["peers"]),
        vbios=entry.get("vbios"),
        nvlink_domain=entry.get("nvlink_domain"),
        unavailable=_closed(entry),
    )


def _node_of(address: str | None, snapshot: Snapshot, host: HwlocMachine) -> int | None:
    known = {n.index for n in host.nodes}
    number = int(snapshot.pci.get(address or "", {}).get("numa_node") or -1)
    node = number if number >= 0 else host.device_nodes.get(address or "")
    return node if node in known else None


def _why_unavailable(entry: dict[str, Any], snapshot: Snapshot) -> str:
    if entry.get("name") is None:
        return (
            "The driver knows this GPU but it does not answer: it has fallen off the bus; "
            "look for Xid errors in the kernel log and restart the machine."
        )
    if entry.get("mig"):
        return "MIG is on and CUDA offers no instance of it; create one or switch MIG off."
    if closed := _closed(entry):
        return closed
    error = snapshot.cuda.get("error")
    if snapshot.visible_devices is not None and error in (None, _NO_DEVICE):
        shown = snapshot.visible_devices or '""'
        return f"CUDA_VISIBLE_DEVICES={shown} hides it; unset that."
    if error is not None:
        return f"CUDA cannot use it: {snapshot.cuda.get('detail') or error}."
    if entry.get("compute_mode") == "exclusive-process":
        return _HELD
    return "CUDA does not offer it to this process, and the driver does not say why."


def _closed(entry: dict[str, Any]) -> str | None:
    """Why a GPU takes no process of ours; CUDA lists it all the same."""
    mode = entry.get("compute_mode")
    if mode == "prohibited":
        return "Its compute mode is 'prohibited'; ask the administrator to change it."
    if mode == "exclusive-process" and entry.get("in_use"):
        return _HELD
    return None


def _gpu_notes(
    snapshot: Snapshot, gpus: tuple[Gpu, ...], links: tuple[Link, ...], nodes: tuple[NumaNode, ...]
) -> list[str | None]:
    if not gpus:
        return [_why_no_gpus(snapshot)]
    linked = {link.b for link in links if link.kind is LinkKind.PCIE}
    homeless = [gpu.id for gpu in gpus if gpu.node is None and len(nodes) > 1]
    unlinked = [gpu.id for gpu in gpus if gpu.id not in linked and gpu.unavailable is None]
    return [
        _why_no_cuda(snapshot, gpus),
        _CONFIDENTIAL if snapshot.nvml.get("confidential") else None,
        f"The machine does not tell which NUMA node is nearest to {', '.join(homeless)}; "
        f"{nodes[0].id} is taken."
        if homeless
        else None,
        f"Neither the kernel nor the driver tells the PCIe link of {', '.join(unlinked)}; "
        "copies over it have no limit to be judged by."
        if unlinked
        else None,
        _why_no_payload_size(snapshot, links),
    ]


def _why_no_payload_size(snapshot: Snapshot, links: tuple[Link, ...]) -> str | None:
    if all(ln.pcie is None or ln.pcie.max_payload_bytes is not None for ln in links):
        return None
    # the kernel shows ordinary users 64 bytes, that is 128 hex digits
    if any(len(device.get("config") or "") > 128 for device in snapshot.pci.values()):
        return "A PCIe link does not tell its maximum payload; 256 bytes are assumed."
    return "The maximum payload of a PCIe packet can only be read by root; 256 bytes are assumed."


def _why_no_gpus(snapshot: Snapshot) -> str:
    found = [d for d in snapshot.pci.values() if _is_nvidia_gpu(d)]
    rest = "Paths to GPUs were not measured."
    if found and _versions_differ(snapshot):
        return f"{_RESTART} {rest}"
    if found and "driver" not in snapshot.nvml:
        return f"{len(found)} NVIDIA GPU(s) are here, but no working driver: install it. {rest}"
    if "driver" in snapshot.nvml:
        return f"The NVIDIA driver runs but finds no GPU. {rest}"
    return f"There is no NVIDIA GPU and no NVIDIA driver. {rest}"


def _versions_differ(snapshot: Snapshot) -> bool:
    """As after an update of the driver: NVML and CUDA each have words for it."""
    return snapshot.cuda.get("error") in (
        "cudaErrorSystemDriverMismatch",
        "cudaErrorCompatNotSupportedOnDevice",
    ) or "version mismatch" in str(snapshot.nvml.get("error"))


def _why_no_cuda(snapshot: Snapshot, gpus: tuple[Gpu, ...]) -> str | None:
    error = snapshot.cuda.get("error")
    if error is None:
        return None
    if error == "cudaErrorInsufficientDriver":
        return _why_driver_insufficient(snapshot)
    if _versions_differ(snapshot):
        return _RESTART
    if error == "cudaErrorSystemNotReady":
        return "The system is not ready: NVSwitch machines need nvidia-fabricmanager, start it."
    if error == _NO_DEVICE:
        return f"CUDA offers no GPU. {gpus[0].id}: {gpus[0].unavailable}"
    return f"CUDA does not work: {snapshot.cuda.get('detail')} ({error}). No GPU was measured."


def _why_driver_insufficient(snapshot: Snapshot) -> str:
    version = snapshot.nvml.get("driver")
    major = str(version).partition(".")[0]
    if major.isdigit() and int(major) >= _DRIVER_NEEDED:
        # CUDA says the same when its library is not there at all
        return (
            f"Driver {version} is here, but not its library libcuda.so.1: install it, or start "
            "the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility. No GPU was measured."
        )
    return f"Driver {version} is too old: CUDA {_CUDA_NEEDED}. No GPU was measured."


def _is_nvidia_gpu(device: dict[str, str | None]) -> bool:
    return device.get("vendor") == "0x10de" and (device.get("class") or "").startswith("0x03")


def nics(snapshot: Snapshot, gpus: Sequence[Gpu]) -> tuple[Nic, ...]:
    """Return the NICs of a machine, each with the GPUs that it shares most bridges with."""
    return tuple(_nic(port, snapshot, gpus) for port in snapshot.rdma)


def _nic(port: RdmaPort, snapshot: Snapshot, gpus: Sequence[Gpu]) -> Nic:
    address = port.pci_address
    device = snapshot.pci.get(address or "", {})
    node = int(device.get("numa_node") or -1)
    near = _nearest(address, snapshot, gpus)
    if not near:
        near = [gpu for gpu in gpus if gpu.node == node and node >= 0]
    return Nic(
        port.device,
        port.port,
        node if node >= 0 else None,
        address,
        gbps(port.rate),
        (port.state or "").partition(":")[2].strip().lower() or None,
        port.layer,
        port.firmware,
        pcie_state(snapshot, address, None, None),
        tuple(gpu.id for gpu in near),
    )


def gbps(rate: str | None) -> float | None:
    """Return a port's rate in Gbit/s.

    >>> gbps("400 Gb/sec (4X NDR)")
    400.0
    """
    found = re.match(r"\s*([0-9]+(?:\.[0-9]+)?)\s*Gb/sec", rate or "")
    return float(found[1]) if found else None


def _nearest(address: str | None, snapshot: Snapshot, gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs below the lowest bridge that a device has in common with any."""
    mine = _bridges(address, snapshot)
    shared = {gpu.id: len(set(mine) & set(_bridges(gpu.pci_address, snapshot))) for gpu in gpus}
    most = max(shared.values(), default=0)
    return [gpu for gpu in gpus if most and shared[gpu.id] == most]


def _bridges(address: str | None, snapshot: Snapshot) -> list[str]:
    """Return the bridges above a PCI device, those that are not the host's."""
    found: list[str] = []
    above = snapshot.pci.get(address or "", {}).get("parent")
    while above is not None and above not in found:
        found.append(above)
        above = snapshot.pci.get(above, {}).get("parent")
    return found


@dataclass(frozen=True, slots=True)
class HwlocMachine:
    """What lanescope takes from hwloc.

    Attributes
    ----------
    device_nodes
        For each PCI address the nearest NUMA node with cores, where exactly one is.
    """

    cpu: str | None
    nodes: tuple[NumaNode, ...]
    device_nodes: dict[str, int] = field(default_factory=dict)


def parse_hwloc(xml: str) -> HwlocMachine:
    """Read hwloc 2.x XML.

    Raises
    ------
    ValueError
        If it is no hwloc topology.
    """
    try:
        root = ET.fromstring(xml)
    except ET.ParseError as error:
        raise ValueError(f"hwloc's XML cannot be read: {error}") from error
    objects = list(root.iter("object"))
    cores = [_core(o) for o in objects if o.get("type") == "Core"]
    caches = _last_level_caches(objects)
    nodes: list[NumaNode] = []
    taken: set[int] = set()
    for o in sorted(objects, key=lambda o: int(o.get("os_index", -1))):
        # a GPU's memory may be a NUMA node as well, but is reached as the GPU's
        if o.get("type") == "NUMANode" and o.get("subtype") != "GPUMemory":
            # hwloc gives memory without CPUs (CXL, HBM) those of the node beside it
            cpus = cpu_numbers(o.get("cpuset")) - taken
            taken |= cpus
            nodes.append(_node(o, cpus, cores, caches))
    models = {
        info.get("value")
        for o in objects
        if o.get("type") == "Package"
        for info in o.findall("info")
        if info.get("name") == "CPUModel"
    }
    with_cores = {n.index for n in nodes if n.cores}
    model = models.pop() if len(models) == 1 else None
    return HwlocMachine(model, tuple(nodes), _devices(root, with_cores))


def _core(core: ET.Element) -> tuple[int, ...]:
    units = (o for o in core.iter("object") if o.get("type") == "PU")
    return tuple(sorted(int(o.get("os_index", 0)) for o in units))


def _last_level_caches(objects: list[ET.Element]) -> list[tuple[set[int], int]]:
    """CPUs and bytes of each cache of the highest data-cache level there is."""
    by_level: dict[int, list[tuple[set[int], int]]] = {}
    for o in objects:
        if o.get("type", "").endswith("Cache") and o.get("cache_type") in ("0", "1"):
            entry = (cpu_numbers(o.get("cpuset")), int(o.get("cache_size", 0)))
            by_level.setdefault(int(o.get("depth", 0)), []).append(entry)
    return by_level[max(by_level)] if by_level else []


def _node(
    node: ET.Element,
    cpus: set[int],
    cores: list[tuple[int, ...]],
    caches: list[tuple[set[int], int]],
) -> NumaNode:
    cache = sum(size for shared, size in caches if shared & cpus)
    return NumaNode(
        index=int(node.get("os_index", 0)),
        cores=tuple(sorted(core for core in cores if core and core[0] in cpus)),
        memory_bytes=int(node.get("local_memory", 0)),  # not written where there is none
        cache_bytes=cache or None,
    )


def _devices(root: ET.Element, with_cores: set[int]) -> dict[str, int]:
    found: dict[str, int] = {}

    def visit(element: ET.Element, nodeset: str | None) -> None:
        near = element.get("nodeset") or nodeset
        address = element.get("pci_busid")
        nodes = cpu_numbers(near) & with_cores
        if address is not None and len(nodes) == 1:
            found[address] = min(nodes)
        for child in element.findall("object"):
            visit(child, near)

    for top in root.findall("object"):
        visit(top, None)
    return found


def cpu_numbers(mask: str | None) -> set[int]:
    """Return the numbers in an hwloc bitmap such as ``0x0000000f,0xffffffff``.

    Words of 32 bits, the highest first; an empty word stands for zero. Endless
    bitmaps (``0xf...f``) count as empty.
    """
    if not mask or "..." in mask:
        return set()
    value = 0
    for word in mask.split(","):
        value = value << 32 | int(word or "0", 16)
    return {bit for bit in range(value.bit_length()) if value >> bit & 1}
