"""What a machine is made of: the values that everything else works on.

Parts are named the way copies name them: ``h0`` is NUMA node 0 with its memory
and cores, ``g0`` is GPU 0, ``s0`` a PCIe switch, ``nvswitch`` the NVLink fabric.
Of several nodes as one machine the parts are ``n0.g0`` and so on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from lanescope.calls import checked
from lanescope.codec.fields import Positive, PositiveInt
from lanescope.errors import InputError, MissingPartError
from lanescope.machine.part_names import part_name
from lanescope.machine.pcie import PcieLink, line_rate_gbs, payload_gbs


class LinkKind(StrEnum):
    """What connects two parts."""

    PCIE = "pcie"
    NVLINK = "nvlink"
    SOCKET = "socket"


@dataclass(frozen=True, slots=True)
@checked
class NumaNode:
    """One NUMA node: memory and the cores next to it.

    Attributes
    ----------
    index
        The operating system's number.
    cores
        For each physical core the processing units (hardware threads) on it,
        by the operating system's numbers. Empty for a node without cores.
    memory_bytes
        Size of the node's memory, 0 for a node without any; None when unknown.
    cache_bytes
        Last-level cache of the node's cores, in sum; None when unknown.
    memory_gbs
        Peak of the node's memory modules, reads and writes together, in GB/s;
        None when their speed cannot be read.
    memory_detail
        Where `memory_gbs` comes from, or why it is not known.
    """

    index: int
    cores: tuple[tuple[int, ...], ...] = ()
    memory_bytes: int | None = None
    cache_bytes: int | None = None
    memory_gbs: Positive | None = None
    memory_detail: str | None = None

    @property
    def id(self) -> str:
        """The name that copies use, such as ``h0``."""
        return part_name("h", self.index)


@dataclass(frozen=True, slots=True)
@checked
class Gpu:
    """One GPU.

    Attributes
    ----------
    index
        CUDA's number of the device: of the command line by PCI address, of a program that imports
        lanescope the number that it knows the device by. Of several nodes as one machine see
        `lanescope.machine.part_names`.
    node
        The nearest NUMA node's index; None when the machine does not tell.
    pci_address
        Such as ``0000:17:00.0``.
    memory_gbs
        Peak of its own memory, reads and writes together, in GB/s; None when
        unknown.
    peers
        Indices of the GPUs whose memory it can reach directly; None when unknown.
    vbios
        Version of its firmware; None when unknown.
    nvlink_domain
        Cluster and clique of GPUs, on this node and others, that NVLink connects: what NVML calls
        fabric; None where it does not reach beyond the node.
    unavailable
        Why it cannot be used now, as a sentence; None when it can.
    """

    index: int
    name: str
    node: int | None = None
    pci_address: str | None = None
    uuid: str | None = None
    memory_bytes: PositiveInt | None = None
    compute_capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    copy_engines: int | None = None
    memory_gbs: Positive | None = None
    peers: tuple[int, ...] | None = None
    vbios: str | None = None
    nvlink_domain: str | None = None
    unavailable: str | None = None

    @property
    def id(self) -> str:
        """The name that copies use, such as ``g0``."""
        return part_name("g", self.index)


@dataclass(frozen=True, slots=True)
@checked
class Switch:
    """A PCIe switch or an NVLink switch that links meet in."""

    id: str
    name: str
    pci_address: str | None = None


@dataclass(frozen=True, slots=True)
@checked
class NvLink:
    """A bundle of NVLinks between two parts.

    Attributes
    ----------
    count
        Links in the bundle that are up.
    link_gbs
        Line rate of one link in one direction, GB/s.
    version
        NVLink generation; None when unknown.
    max_count
        Links that the part has; None when unknown.
    """

    count: PositiveInt
    link_gbs: Positive
    version: int | None = None
    max_count: int | None = None

    #: A packet of 256 bytes is 16 flits of data behind one flit of header, so
    #: that 16 of 17 bytes are payload. The same share turns the 26.5625 GB/s
    #: that an NVLink 4 signals into the 25 GB/s that its maker names.
    PAYLOAD_SHARE = 16 / 17
    #: Kernels move lines of 128 bytes: 8 flits of data behind one of header.
    LINE_PAYLOAD_SHARE = 8 / 9
    #: A kernel that reads asks for each line with a flit that goes the other way.
    LINE_REQUEST_SHARE = 1 / 8


@dataclass(frozen=True, slots=True)
@checked
class Link:
    """A connection between two parts, with its limit in each direction.

    Attributes
    ----------
    a, b
        The parts. For PCIe `a` is nearer to the host.
    raw_gbs
        What the wire carries one way after the line code, in GB/s; None when
        unknown.
    payload_gbs
        Payload limit (from `a` to `b`, from `b` to `a`) in GB/s; None when
        unknown.
    pcie, nvlink
        The link's own state, for links of that kind.
    """

    a: str
    b: str
    kind: LinkKind
    raw_gbs: Positive | None = None
    payload_gbs: tuple[Positive, Positive] | None = None
    pcie: PcieLink | None = None
    nvlink: NvLink | None = None

    @staticmethod
    def of_pcie(a: str, b: str, pcie: PcieLink) -> Link:
        """Return a PCIe link, its limits computed for the fully trained link.

        A link that is trained down keeps the limit it should have: that is
        what makes the loss visible.
        """
        best = pcie.at_best()
        raw = line_rate_gbs(best.generation, best.width)
        return Link(a, b, LinkKind.PCIE, raw, payload_gbs(best), pcie=pcie)

    @staticmethod
    def of_nvlink(a: str, b: str, nvlink: NvLink) -> Link:
        """Return a bundle of NVLinks with its limits."""
        raw = nvlink.count * nvlink.link_gbs
        payload = raw * NvLink.PAYLOAD_SHARE
        return Link(a, b, LinkKind.NVLINK, raw, (payload, payload), nvlink=nvlink)

    @property
    def label(self) -> str:
        """The link in a few words, such as ``PCIe 5.0 x16``."""
        if self.pcie is not None:
            return self.pcie.label
        if self.nvlink is not None:
            version = "" if self.nvlink.version is None else f" {self.nvlink.version}"
            return f"NVLink{version} x{self.nvlink.count}"
        return {LinkKind.PCIE: "PCIe", LinkKind.NVLINK: "NVLink"}.get(self.kind, "socket link")

    @property
    def best_label(self) -> str:
        """The same of the link as it would be fully trained up."""
        return self.label if self.pcie is None else self.pcie.at_best().label


@dataclass(frozen=True, slots=True)
@checked
class Nic:
    """A port of an RDMA NIC: InfiniBand or RoCE.

    Attributes
    ----------
    name
        The device's, such as ``mlx5_0``.
    node
        NUMA node that it is near; None when unknown.
    rate_gbps
        Rate of its link in 1e9 bits a second.
    state
        ``active``, ``down`` or another of the kernel's words.
    layer
        ``InfiniBand`` or ``Ethernet``.
    pcie
        State of the PCIe link above it.
    gpus
        Those below the lowest PCIe bridge that it shares with any, such as ``g0``; else those of
        its node.
    """

    name: str
    port: int = 1
    node: int | None = None
    pci_address: str | None = None
    rate_gbps: Positive | None = None
    state: str | None = None
    layer: str | None = None
    firmware: str | None = None
    pcie: PcieLink | None = None
    gpus: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Device and port, such as ``mlx5_0:1``."""
        return f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
@checked
class HostBandwidth:
    """What some GPUs together read and write of a node's memory at most, as measured.

    Attributes
    ----------
    node
        The NUMA node's index.
    gpus
        Indices of the GPUs: all that are near the node where its memory is the limit, fewer where
        they share a link to it, such as a PCIe switch that the machine does not show.
    read_gbs, write_gbs
        Bytes that all of them read of the memory, or write to it, in GB/s, nothing going the
        other way; None: it carries all that they ask for.
    both_gbs
        Reads and writes at the same time, in sum, a written byte counted `write_cost` times; None:
        it carries all that they ask for. Where only one of them goes on, it bounds nothing.
    write_cost
        See `both_gbs`.
    write_weight
        How the sum is shared: bytes that a GPU writes for each that another reads, both of
        them held up.
    at_capacity
        Share of a rate that they get where they ask for just as much. 1: all of it, and all that
        they ask for below; less: they are held up before, and get all of it only if they ask for
        far more.
    spread
        How far what was measured is from these rates at most, as a share of them.
    source
        By what and when they were measured.
    """

    node: int
    gpus: tuple[int, ...]
    read_gbs: Positive | None = None
    write_gbs: Positive | None = None
    both_gbs: Positive | None = None
    write_cost: Positive = 1.0
    write_weight: Positive = 1.0
    at_capacity: Positive = 1.0
    spread: float = 0.0
    source: str | None = None

    @property
    def rates(self) -> tuple[tuple[str, float], ...]:
        """What is known, in GB/s, each with its name; of both directions the sum of bytes."""
        named = (
            ("read", self.read_gbs),
            ("write", self.write_gbs),
            ("read and write", self.mixed_gbs),
        )
        return tuple((name, gbs) for name, gbs in named if gbs is not None)

    @property
    def mixed_gbs(self) -> float | None:
        """Sum of reads and writes where all are held up, in GB/s; None: they never are."""
        if self.both_gbs is None:
            return None
        return self.both_gbs * (1 + self.write_weight) / (1 + self.write_cost * self.write_weight)


@dataclass(frozen=True, slots=True)
@checked
class Latencies:
    """What a copy costs beyond its bytes, in microseconds; None when unknown.

    Only predictions use these: a measured machine tells its own.

    Attributes
    ----------
    h2d_us, d2h_us, d2d_us
        Time of a copy of a few bytes by a copy engine.
    pageable_gbs
        Rate of a copy from or to pageable memory, which the driver stages
        through pinned memory with a CPU core; GB/s.
    source
        Where the figures come from.
    """

    h2d_us: float | None = None
    d2h_us: float | None = None
    d2d_us: float | None = None
    pageable_gbs: Positive | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
@checked
class Machine:
    """A machine: discovered, or described in a file.

    Attributes
    ----------
    described
        True when it was read from a file; nothing can be measured on it.
    notes
        Plain sentences on what is not known or not there, each with a remedy.
    nics
        Ports of RDMA NICs.
    confidential
        Whether NVIDIA's Confidential Computing is on: copies with the host are encrypted.
    host_bandwidth
        What its GPUs together read and write of host memory, where ``model fit`` measured it.
    """

    name: str
    cpu: str | None = None
    nodes: tuple[NumaNode, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    switches: tuple[Switch, ...] = ()
    links: tuple[Link, ...] = ()
    driver: str | None = None
    cuda_version: str | None = None
    latencies: Latencies = field(default_factory=Latencies)
    notes: tuple[str, ...] = ()
    described: bool = False
    nics: tuple[Nic, ...] = ()
    confidential: bool = False
    host_bandwidth: tuple[HostBandwidth, ...] = ()

    def node(self, index: int) -> NumaNode:
        """Return the NUMA node with the operating system's number `index`.

        Raises
        ------
        InputError
            If there is none.
        """
        found = next((n for n in self.nodes if n.index == index), None)
        if found is None:
            raise self._has_no(f"NUMA node {index}", [n.index for n in self.nodes])
        return found

    def gpu(self, index: int) -> Gpu:
        """Return GPU number `index`.

        Raises
        ------
        InputError
            If there is none.
        """
        found = next((g for g in self.gpus if g.index == index), None)
        if found is None:
            raise self._has_no(f"GPU {index}", [g.index for g in self.gpus])
        return found

    def _has_no(self, part: str, known: list[int]) -> InputError:
        has = ", ".join(map(str, known)) or "none"
        error = InputError if self.described else MissingPartError
        return error(f"there is no {part} in machine {self.name!r}; it has {has}")

    def nearest_node(self, gpu: Gpu) -> NumaNode:
        """Return the node nearest to a GPU, or the first where the machine does not tell."""
        if gpu.node is not None:
            return self.node(gpu.node)
        return self.nodes[0]
