"""Several machines: nodes as one, and what a machine lacks of the one that was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lanescope.machine.machine import Gpu, HostBandwidth, Link, Machine, Nic, NumaNode, Switch
from lanescope.machine.part_names import node_of, number_on
from lanescope.machine.snapshot import NVSWITCH

#: So many nodes are named, of more the first and the last.
_NAMED = 4
#: The kernel keeps some of a node's memory for itself, now more and now less.
_MEMORY_SHARE = 0.97


def cluster_of(machines: Sequence[Machine]) -> Machine:
    """Return one machine of several, whose parts are named ``n0.h0``, ``n0.g0``, ``n1.h0``, ...

    GPUs of different nodes reach each other where they are in one NVLink domain: then the NVLink
    switches of these nodes are one. RDMA NICs are left out.
    """
    domains = {g.nvlink_domain: None for m in machines for g in m.gpus if g.nvlink_domain}
    switches = {domain: f"{NVSWITCH}{number}" for number, domain in enumerate(domains)}
    parts = [_Renamed(number, machine, switches) for number, machine in enumerate(machines)]
    gpus = [gpu for part in parts for gpu in part.gpus()]
    names = [machine.name for machine in machines]
    listed = names if len(names) <= _NAMED else [names[0], "...", names[-1]]
    return Machine(
        name=f"{len(names)} nodes: {', '.join(listed)}" if len(names) > 1 else names[0],
        cpu=_common([machine.cpu for machine in machines]),
        nodes=tuple(node for part in parts for node in part.nodes()),
        gpus=tuple(replace(gpu, peers=_peers(gpu, gpus)) for gpu in gpus),
        switches=tuple(dict.fromkeys(one for part in parts for one in part.switches())),
        links=tuple(link for part in parts for link in part.links()),
        driver=_common([machine.driver for machine in machines]),
        cuda_version=_common([machine.cuda_version for machine in machines]),
        confidential=any(machine.confidential for machine in machines),
        host_bandwidth=tuple(one for part in parts for one in part.host_bandwidth()),
        notes=(
            "; ".join(f"n{number} is {name}" for number, name in enumerate(names)) + ".",
            *(f"n{k}: {note}" for k, machine in enumerate(machines) for note in machine.notes),
        ),
    )


class _Renamed:
    """One of the machines, its parts as they are called among all."""

    def __init__(self, number: int, machine: Machine, switches: dict[str, str]) -> None:
        self._number, self._machine = number, machine
        domain = next((g.nvlink_domain for g in machine.gpus if g.nvlink_domain), None)
        self._nvswitch = None if domain is None else switches[domain]

    def nodes(self) -> list[NumaNode]:
        return [replace(one, index=self._of(one.index)) for one in self._machine.nodes]

    def gpus(self) -> list[Gpu]:
        return [
            replace(
                gpu,
                index=self._of(gpu.index),
                node=None if gpu.node is None else self._of(gpu.node),
                peers=None if gpu.peers is None else tuple(map(self._of, gpu.peers)),
            )
            for gpu in self._machine.gpus
        ]

    def switches(self) -> list[Switch]:
        return [replace(one, id=self._name(one.id)) for one in self._machine.switches]

    def links(self) -> list[Link]:
        return [
            replace(link, a=self._name(link.a), b=self._name(link.b))
            for link in self._machine.links
        ]

    def host_bandwidth(self) -> list[HostBandwidth]:
        return [
            replace(one, node=self._of(one.node), gpus=tuple(map(self._of, one.gpus)))
            for one in self._machine.host_bandwidth
        ]

    def _of(self, own: int) -> int:
        return number_on(self._number, own)

    def _name(self, part: str) -> str:
        if part == NVSWITCH and self._nvswitch is not None:
            return self._nvswitch
        return f"n{self._number}.{part}"


def _peers(gpu: Gpu, gpus: Sequence[Gpu]) -> tuple[int, ...]:
    """Return what a GPU reaches: its own node's peers, and those of other nodes in its domain."""
    own = [other.index for other in gpus if node_of(other.id) == node_of(gpu.id)]
    reached = set(own if gpu.peers is None else gpu.peers)  # unknown counts as yes
    if gpu.nvlink_domain is not None:
        reached |= {other.index for other in gpus if other.nvlink_domain == gpu.nvlink_domain}
    return tuple(sorted(reached - {gpu.index}))


def _common(values: Sequence[str | None]) -> str | None:
    """Return what all nodes have; of several the values, each once."""
    known = dict.fromkeys(value for value in values if value is not None)
    return " and ".join(known) or None


@dataclass(frozen=True, slots=True)
class _Field:
    """A property that is compared where the expected part states it."""

    name: str
    value: Callable[[Any], Any]
    text: Callable[[Any], str] = str
    same: Callable[[Any, Any], bool] = lambda expected, found: bool(expected == found)
    unknown: str | None = None  # what it means that the machine does not tell; None for nothing


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _memory_alike(expected: int, found: int) -> bool:
    return _MEMORY_SHARE <= found / expected <= 1 / _MEMORY_SHARE if expected else not found


def _near(gpu: Gpu) -> str | None:
    return None if gpu.node is None else f"h{gpu.node}"


def _capability(gpu: Gpu) -> str | None:
    return None if gpu.compute_capability is None else "{}.{}".format(*gpu.compute_capability)


def _lost_peers(gpu: Gpu) -> tuple[str, ...] | None:
    return None if gpu.peers is None else tuple(f"g{index}" for index in gpu.peers)


def _of_pcie(name: str) -> Callable[[Link], int | None]:
    return lambda link: None if link.pcie is None else getattr(link.pcie, name)


def _listed(values: Sequence[str]) -> str:
    return ", ".join(values) or "none"


_MEMORY = _Field("memory", lambda part: part.memory_bytes, _gib, _memory_alike)
_GPU = (
    _Field("model", lambda gpu: gpu.name),
    _Field("VBIOS", lambda gpu: gpu.vbios),
    _MEMORY,
    _Field("nearest node", _near),
    _Field("compute capability", _capability),
    _Field("SMs", lambda gpu: gpu.multiprocessors),
    _Field("copy engines", lambda gpu: gpu.copy_engines),
    _Field("direct access to", _lost_peers, _listed, lambda a, b: set(a) == set(b)),
)
_NODE = (
    _Field("cores", lambda node: len(node.cores)),
    _Field("hardware threads", lambda node: sum(map(len, node.cores))),
    _MEMORY,
)
_NIC = (
    _Field("state", lambda nic: nic.state),
    _Field("rate", lambda nic: nic.rate_gbps, "{:g} Gbit/s".format),
    _Field("link layer", lambda nic: nic.layer),
    _Field("firmware", lambda nic: nic.firmware),
    _Field("nearest GPUs", lambda nic: nic.gpus or None, _listed),
)
_MACHINE = (
    _Field("CPU", lambda machine: machine.cpu),
    _Field("driver", lambda machine: machine.driver, unknown="not there"),
    _Field("CUDA", lambda machine: machine.cuda_version, unknown="not there"),
)
_LINK = (
    # An idle link slows down to save power: what it can be, and how wide it is now, hold always.
    _Field("highest PCIe generation", _of_pcie("max_generation")),
    _Field("highest PCIe width", _of_pcie("max_width"), "x{}".format),
    _Field("PCIe width", _of_pcie("width"), "x{}".format),
    _Field("largest PCIe payload", _of_pcie("max_payload_bytes"), "{} B".format),
    _Field("NVLinks", lambda link: None if link.nvlink is None else link.nvlink.count),
)


def differences(expected: Machine, found: Machine) -> tuple[str, ...]:
    """Return what a machine lacks, or has otherwise, of an expected one; a sentence each.

    What makes one machine of a kind different from the next is not compared: its name, and
    its GPUs' UUIDs. Neither is what the expected machine does not state, or what this one
    does not let this user read.

    Parameters
    ----------
    expected
        As saved by ``lanescope topo --save``.
    """
    return tuple(_differences(expected, found))


def gpu_count_differences(expected: int, found: Machine) -> tuple[str, ...]:
    """Return a sentence where a machine has not so many usable GPUs; none where it has."""
    usable = [gpu for gpu in found.gpus if gpu.unavailable is None]
    if len(usable) == expected:
        return ()
    lost = [f"{gpu.id}: {gpu.unavailable}" for gpu in found.gpus if gpu.unavailable is not None]
    why = lost or (() if found.gpus else found.notes[:1])
    count = f"GPUs that can be used: {len(usable)} found, {expected} expected."
    return (" ".join((count, *map(_sentence, why))),)


def _differences(expected: Machine, found: Machine) -> Iterator[str]:
    yield from _compare("machine", _MACHINE, expected, found)
    yield from _parts("NUMA node", _NODE, _by_id(expected.nodes), _by_id(found.nodes))
    gpus = _by_id(found.gpus)
    yield from _parts("GPU", _GPU, _by_id(expected.gpus), gpus, _why_no_gpu(found))
    for gpu in found.gpus:
        if gpu.unavailable is not None:
            yield _sentence(f"{gpu.id} cannot be used: {gpu.unavailable}")
    if expected.nics:  # machine files did not always have them
        yield from _parts("NIC", _NIC, _by_id(expected.nics), _by_id(found.nics))
    known = {*_by_id(found.gpus), *_by_id(found.nodes)}
    wanted = {k: v for k, v in _by_ends(expected).items() if _there(k, known)}
    yield from _parts("link", _LINK, wanted, _by_ends(found))


def _parts(
    kind: str,
    fields: Sequence[_Field],
    expected: dict[str, Any],
    found: dict[str, Any],
    why: str = "",
) -> Iterator[str]:
    for name, part in expected.items():
        if name in found:
            yield from _compare(name, fields, part, found[name])
        else:
            model = f" ({part.name})" if isinstance(part, Gpu) else ""
            yield f"{kind} {name}{model} is expected and not there.{why}"
            why = ""  # one reason for all
    for name in found:
        if name not in expected and kind != "link":
            yield f"{kind} {name} is there and not expected."


def _compare(name: str, fields: Sequence[_Field], expected: Any, found: Any) -> Iterator[str]:
    for field in fields:
        wanted, there = field.value(expected), field.value(found)
        if wanted is None or (there is None and field.unknown is None):
            continue
        if there is None or not field.same(wanted, there):
            shown = field.unknown if there is None else field.text(there)
            yield f"{name}: {field.name}: {shown}, {field.text(wanted)} expected."


def _by_id(parts: Sequence[Gpu] | Sequence[NumaNode] | Sequence[Nic]) -> dict[str, Any]:
    return {part.id: part for part in parts}


def _by_ends(machine: Machine) -> dict[str, Link]:
    return {f"{link.a} - {link.b}": link for link in machine.links}


def _there(ends: str, known: set[str]) -> bool:
    """Whether the parts of a link are there: one that is not has its own sentence."""
    return all(end in known or end[0] not in "hg" for end in ends.split(" - "))


def _why_no_gpu(found: Machine) -> str:
    return "" if found.gpus or not found.notes else f" {found.notes[0]}"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
