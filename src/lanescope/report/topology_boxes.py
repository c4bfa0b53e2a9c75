"""The parts of a machine as boxes with text, joined into a forest by their PCIe links."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

from lanescope.machine import Gpu, Link, LinkKind, Machine, NumaNode, Switch
from lanescope.report.format import bytes_text, count_text, gbs_text

FONT_PIXELS = 12
LINE_PIXELS = 17
_PADDING = 12
#: Longer lines are broken, so that a long product name does not widen its column.
_LINE_CHARACTERS = 22


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text with its style: ``name``, ``plain``, ``quiet`` or ``warn``."""

    text: str
    style: str = "plain"

    @property
    def width(self) -> float:
        """Pixels that the line takes at most in a usual sans-serif font."""
        cells = sum(1.8 if unicodedata.east_asian_width(c) in "WF" else 1.0 for c in self.text)
        return cells * FONT_PIXELS * (0.64 if self.style == "name" else 0.58)


@dataclass(slots=True)
class Box:
    """A part with its place in the forest; `x`, `y` (middle, top) come from the layout."""

    id: str
    kind: str
    lines: tuple[Line, ...]
    hint: str | None = None
    label: tuple[Line, ...] = ()
    linked: bool = False
    trained_down: bool = False
    children: list[Box] = field(default_factory=list)
    level: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        """Width of the box in pixels."""
        return max([84.0, *(line.width for line in self.lines)]) + 2 * _PADDING

    @property
    def height(self) -> float:
        """Height of the box in pixels."""
        return len(self.lines) * LINE_PIXELS + 2 * _PADDING - 4

    @property
    def label_width(self) -> float:
        """Width of the text on the link from above."""
        return max((line.width for line in self.label), default=0.0) + 12


def forest(machine: Machine) -> list[Box]:
    """Return the topmost boxes; NUMA nodes first, then parts that hang on nothing."""
    boxes = {n.id: _node_box(n) for n in machine.nodes}
    nvlinked = {p for ln in machine.links if ln.kind is LinkKind.NVLINK for p in (ln.a, ln.b)}
    pcie_ends = {p for ln in machine.links if ln.kind is LinkKind.PCIE for p in (ln.a, ln.b)}
    for switch in machine.switches:
        if switch.id in pcie_ends or switch.id not in nvlinked:
            boxes[switch.id] = _switch_box(switch)
    boxes |= {g.id: _gpu_box(g) for g in machine.gpus}
    placed: set[str] = set()
    for link in machine.links:
        if link.kind is LinkKind.PCIE and link.b not in placed:
            _hang(boxes, link, placed)
    _hang_unlinked(machine, boxes, placed)
    roots = [box for key, box in boxes.items() if key not in placed]
    _set_levels(roots)
    return roots


def nvswitch_boxes(machine: Machine) -> list[Box]:
    """Return the NVLink switches, which stand below the GPUs."""
    gpus = {g.id for g in machine.gpus}
    ends = {p for ln in machine.links if ln.kind is LinkKind.NVLINK for p in (ln.a, ln.b)}
    pcie_ends = {p for ln in machine.links if ln.kind is LinkKind.PCIE for p in (ln.a, ln.b)}
    names = {s.id: s.name for s in machine.switches}
    return [
        Box(
            part, "nvswitch", tuple(Line(w.text, "name") for w in _wrapped(names.get(part) or part))
        )
        for part in sorted(ends - gpus - pcie_ends)
    ]


def link_label(link: Link) -> tuple[Line, ...]:
    """Return what stands on a link: its kind, its payload limit, and a warning."""
    pcie = link.pcie
    first = link.label
    if pcie is not None:
        best = pcie.at_best()
        first = f"PCIe {best.generation}.0 x{best.width}"
    lines = [Line(first)]
    if link.payload_gbs is not None:
        lines.append(Line(payload_text(link), "quiet"))
    if warning := trained_down_text(link):
        lines.append(Line(warning, "warn"))
    return tuple(lines)


def payload_text(link: Link) -> str:
    """Return the payload limit of both directions; down is away from the host."""
    if link.payload_gbs is None:
        return gbs_text(None)
    there, back = (gbs_text(v) for v in link.payload_gbs)
    if link.kind is LinkKind.PCIE:
        return f"{there} ↓ {back} ↑ GB/s"
    return f"{there} GB/s each way" if there == back else f"{there} → {back} ← GB/s"


def trained_down_text(link: Link) -> str | None:
    """Return how far a PCIe link runs below what it could, or None."""
    pcie = link.pcie
    if pcie is None or not pcie.trained_down:
        return None
    best = pcie.at_best()
    if pcie.width == best.width:
        return f"runs at Gen {pcie.generation} of {best.generation}"
    if pcie.generation == best.generation:
        return f"runs at x{pcie.width} of x{best.width}"
    return f"runs at Gen {pcie.generation} x{pcie.width}"


def _hang(boxes: dict[str, Box], link: Link, placed: set[str]) -> None:
    parent, child = boxes.get(link.a), boxes.get(link.b)
    if parent is None or child is None or parent.kind == "gpu" or _within(child, parent):
        return
    parent.children.append(child)
    placed.add(child.id)
    child.label, child.linked = link_label(link), True
    child.trained_down = link.pcie is not None and link.pcie.trained_down


def _hang_unlinked(machine: Machine, boxes: dict[str, Box], placed: set[str]) -> None:
    """Put GPUs without a known link under the node that they belong to."""
    for gpu in machine.gpus:
        parent = None if gpu.node is None else boxes.get(f"h{gpu.node}")
        if gpu.id not in placed and parent is not None:
            parent.children.append(boxes[gpu.id])
            boxes[gpu.id].label = (Line("link not known", "quiet"),)
            placed.add(gpu.id)


def _within(box: Box, wanted: Box) -> bool:
    """Whether hanging `box` under `wanted` would close a ring."""
    return box is wanted or any(_within(child, wanted) for child in box.children)


def _set_levels(roots: list[Box]) -> None:
    """Number the layers: nodes 0, switches by depth, all GPUs on the last one."""
    gpus: list[Box] = []
    deepest = 0
    waiting = [(box, 0) for box in roots]
    while waiting:
        box, depth = waiting.pop()
        box.level = depth if box.kind != "switch" else max(depth, 1)
        if box.kind == "gpu":
            gpus.append(box)
        else:
            deepest = max(deepest, box.level)
        waiting += [(child, box.level + 1) for child in box.children]
    for gpu in gpus:
        gpu.level = deepest + 1


def _node_box(node: NumaNode) -> Box:
    lines = [Line(node.id, "name")]
    if node.cores:
        threads = sum(len(core) for core in node.cores)
        cores = count_text(len(node.cores), "core")
        more = f", {threads} threads" if threads > len(node.cores) else ""
        lines.append(Line(cores + more))
    else:
        lines.append(Line("no cores"))
    if node.memory_bytes is not None:
        size = f"{bytes_text(node.memory_bytes)} " if node.memory_bytes else "no "
        lines.append(Line(f"{size}memory"))
    if node.memory_gbs is not None:
        lines.append(Line(f"memory limit {gbs_text(node.memory_gbs)} GB/s", "quiet"))
    else:
        lines.append(Line("memory limit not known", "quiet"))
    return Box(node.id, "node", tuple(lines), hint=node.memory_detail)


def _switch_box(switch: Switch) -> Box:
    return Box(switch.id, "switch", (Line(switch.id, "name"), *_wrapped(switch.name)))


def _gpu_box(gpu: Gpu) -> Box:
    lines = [Line(gpu.id, "name"), *_wrapped(gpu.name)]
    if gpu.memory_bytes is not None:
        lines.append(Line(f"{bytes_text(gpu.memory_bytes)} memory"))
    if gpu.pci_address is not None:
        lines.append(Line(gpu.pci_address, "quiet"))
    if gpu.unavailable is None:
        return Box(gpu.id, "gpu", tuple(lines))
    lines.append(Line("not available", "warn"))
    return Box(gpu.id, "gpu", tuple(lines), hint=gpu.unavailable)


def _wrapped(name: str) -> list[Line]:
    lines: list[str] = []
    for word in name.split():
        if lines and len(lines[-1]) + 1 + len(word) <= _LINE_CHARACTERS:
            lines[-1] += f" {word}"
        else:
            lines += [word[i : i + _LINE_CHARACTERS] for i in range(0, len(word), _LINE_CHARACTERS)]
    return [Line(line) for line in lines]
