"""What a machine lacks of the one that was expected, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lanescope.machine.machine import Gpu, Link, Machine, Nic, NumaNode

#: The kernel keeps some of a node's memory for itself, now more and now less.
_MEMORY_SHARE = 0.97


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


def _peers(gpu: Gpu) -> tuple[str, ...] | None:
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
    _Field("direct access to", _peers, _listed, lambda a, b: set(a) == set(b)),
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
