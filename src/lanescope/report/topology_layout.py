"""The parts of a machine as boxes with text, and where they stand."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from lanescope.machine import Gpu, Link, LinkKind, Machine, NumaNode, Switch
from lanescope.report.format import bytes_text, count_text, gbs_text

FONT_PIXELS = 12
LINE_PIXELS = 17
_PADDING = 12
#: Longer lines are broken, so that a long product name does not widen its column.
_LINE_CHARACTERS = 22


@dataclass(frozen=True, slots=True)
class TextLine:
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
    lines: tuple[TextLine, ...]
    hint: str | None = None
    label: tuple[TextLine, ...] = ()
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
            part,
            "nvswitch",
            tuple(TextLine(w.text, "name") for w in _wrapped(names.get(part) or part)),
        )
        for part in sorted(ends - gpus - pcie_ends)
    ]


def link_label(link: Link) -> tuple[TextLine, ...]:
    """Return what stands on a link: its kind, its payload limit, and a warning."""
    lines = [TextLine(link.best_label)]
    if link.payload_gbs is not None:
        lines.append(TextLine(payload_text(link), "quiet"))
    if warning := trained_down_text(link):
        lines.append(TextLine(warning, "warn"))
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
            boxes[gpu.id].label = (TextLine("link not known", "quiet"),)
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
    lines = [TextLine(node.id, "name")]
    if node.cores:
        threads = sum(len(core) for core in node.cores)
        cores = count_text(len(node.cores), "core")
        more = f", {threads} threads" if threads > len(node.cores) else ""
        lines.append(TextLine(cores + more))
    else:
        lines.append(TextLine("no cores"))
    if node.memory_bytes is not None:
        size = f"{bytes_text(node.memory_bytes)} " if node.memory_bytes else "no "
        lines.append(TextLine(f"{size}memory"))
    if node.memory_gbs is not None:
        lines.append(TextLine(f"memory limit {gbs_text(node.memory_gbs)} GB/s", "quiet"))
    else:
        lines.append(TextLine("memory limit not known", "quiet"))
    return Box(node.id, "node", tuple(lines), hint=node.memory_detail)


def _switch_box(switch: Switch) -> Box:
    return Box(switch.id, "switch", (TextLine(switch.id, "name"), *_wrapped(switch.name)))


def _gpu_box(gpu: Gpu) -> Box:
    lines = [TextLine(gpu.id, "name"), *_wrapped(gpu.name)]
    if gpu.memory_bytes is not None:
        lines.append(TextLine(f"{bytes_text(gpu.memory_bytes)} memory"))
    if gpu.pci_address is not None:
        lines.append(TextLine(gpu.pci_address, "quiet"))
    if gpu.unavailable is None:
        return Box(gpu.id, "gpu", tuple(lines))
    lines.append(TextLine("not available", "warn"))
    return Box(gpu.id, "gpu", tuple(lines), hint=gpu.unavailable)


def _wrapped(name: str) -> list[TextLine]:
    lines: list[str] = []
    for word in name.split():
        if lines and len(lines[-1]) + 1 + len(word) <= _LINE_CHARACTERS:
            lines[-1] += f" {word}"
        else:
            lines += [word[i : i + _LINE_CHARACTERS] for i in range(0, len(word), _LINE_CHARACTERS)]
    return [TextLine(line) for line in lines]


_COLUMN_GAP = 20.0
#: Free line above and below the text on a link.
_STUB = 16.0
#: Height of a lane that carries text, and of one that carries none.
LANE_PIXELS = 32.0
THIN_LANE_PIXELS = 9.0


@dataclass(frozen=True, slots=True)
class CrossLink:
    """A sideways connection between two boxes: where it starts, ends and how far out.

    Attributes
    ----------
    left, right
        Horizontal positions of its ends.
    row
        Number of the lane, 0 next to the boxes.
    """

    left: float
    right: float
    row: int


def place(roots: Sequence[Box], left: float, top: float) -> tuple[float, float]:
    """Set the position of every box; return the right and the bottom end."""
    x = left
    for root in roots:
        width = _span(root)
        _place_across(root, x, width)
        x += width + _COLUMN_GAP
    bottom = _place_down(roots, top)
    return (x - _COLUMN_GAP if roots else left), bottom


def every_box(roots: Sequence[Box]) -> list[Box]:
    """Return all boxes of the forest, parents before children."""
    boxes: list[Box] = []
    waiting = list(reversed(roots))
    while waiting:
        box = waiting.pop()
        boxes.append(box)
        waiting += reversed(box.children)
    return boxes


def lanes(
    ends: Sequence[tuple[str, str]], boxes: dict[str, Box], text_width: float
) -> list[CrossLink]:
    """Give sideways connections lanes in which none overlaps another.

    Each gets its own point of contact on its boxes, so that lines of different
    connections never lie on each other. Order is that of `ends`.
    """
    spans = [sorted((boxes[a].x, boxes[b].x)) for a, b in ends]
    order = sorted(range(len(ends)), key=lambda i: (spans[i][1] - spans[i][0], spans[i][0]))
    contacts = _contacts(ends, boxes)
    rows: list[list[tuple[float, float]]] = []
    placed: dict[int, CrossLink] = {}
    for i in order:
        left, right = sorted(contacts[i])
        middle, need = (left + right) / 2, max(right - left, text_width) / 2 + 8
        low, high = middle - need, middle + need
        free = (
            number
            for number, taken in enumerate(rows)
            if all(high < other[0] or low > other[1] for other in taken)
        )
        row = next(free, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append((low, high))
        placed[i] = CrossLink(left, right, row)
    return [placed[i] for i in range(len(ends))]


def _contacts(ends: Sequence[tuple[str, str]], boxes: dict[str, Box]) -> list[tuple[float, float]]:
    touching: dict[str, list[tuple[float, int]]] = {}
    for i, (a, b) in enumerate(ends):
        touching.setdefault(a, []).append((boxes[b].x, i))
        touching.setdefault(b, []).append((boxes[a].x, i))
    point: dict[tuple[str, int], float] = {}
    for part, others in touching.items():
        box = boxes[part]
        step = (box.width - 24) / (len(others) + 1)
        for place_number, (_, i) in enumerate(sorted(others), start=1):
            point[part, i] = box.x - box.width / 2 + 12 + step * place_number
    return [(point[a, i], point[b, i]) for i, (a, b) in enumerate(ends)]


def _span(box: Box) -> float:
    below = sum(_span(child) for child in box.children)
    below += _COLUMN_GAP * max(0, len(box.children) - 1)
    return max(box.width, box.label_width, below)


def _place_across(box: Box, left: float, width: float) -> None:
    box.x = left + width / 2
    spans = [_span(child) for child in box.children]
    x = box.x - (sum(spans) + _COLUMN_GAP * max(0, len(spans) - 1)) / 2
    for child, span in zip(box.children, spans, strict=True):
        _place_across(child, x, span)
        x += span + _COLUMN_GAP


def _place_down(roots: Sequence[Box], top: float) -> float:
    boxes = every_box(roots)
    levels = sorted({box.level for box in boxes})
    y = top
    for level in levels:
        members = [box for box in boxes if box.level == level]
        text = max((len(box.label) for box in members), default=0)
        if level != levels[0] and text:
            y += text * LINE_PIXELS + 3 * _STUB
        elif level != levels[0]:
            y += 2 * _STUB
        for box in members:
            box.y = y
        y += max(box.height for box in members)
    return y
