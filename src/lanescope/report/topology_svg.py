"""A picture of a machine: nodes on top, switches, GPUs, and NVLink at the bottom."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from lanescope.machine import Link, LinkKind, Machine
from lanescope.report.html import text as escape
from lanescope.report.topology_layout import (
    LANE_PIXELS,
    LINE_PIXELS,
    THIN_LANE_PIXELS,
    Box,
    TextLine,
    every_box,
    forest,
    lanes,
    link_label,
    nvswitch_boxes,
    payload_text,
    place,
)

_LIGHT = """
.ls-topology{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
--ground:#fff;--ink:#1f2933;--quiet:#5b6672;--line:#8b96a3;--box:#f4f6f8;--edge:#c3cbd4;
--gpu:#edf6f1;--gpu-edge:#7db89c;--fabric:#f1edf8;--fabric-edge:#9d86cc;--warn:#b34700}"""
_DARK = """
.ls-topology{--ground:#161b22;--ink:#e3e8ee;--quiet:#9aa6b2;--line:#6f7b88;--box:#1f262e;
--edge:#414c58;--gpu:#16281f;--gpu-edge:#3f7a5f;--fabric:#241f33;--fabric-edge:#6f5aa0;
--warn:#ff9a57}"""
_RULES = """
.ls-topology .ground,.ls-topology .patch{fill:var(--ground)}
.ls-topology text{fill:var(--ink)}
.ls-topology text.quiet{fill:var(--quiet)}
.ls-topology text.title{font-size:15px;font-weight:600}
.ls-topology text.name{font-weight:600}
.ls-topology text.warn,.ls-topology text.notice{fill:var(--warn);font-weight:600}
.ls-topology .box{fill:var(--box);stroke:var(--edge)}
.ls-topology .gpu .box{fill:var(--gpu);stroke:var(--gpu-edge)}
.ls-topology .nvswitch .box{fill:var(--fabric);stroke:var(--fabric-edge)}
.ls-topology .gone .box{fill:var(--box);stroke:var(--edge);stroke-dasharray:4 3}
.ls-topology .gone text{fill:var(--quiet)}
.ls-topology .link{fill:none;stroke:var(--line);stroke-width:1.6}
.ls-topology .thin{stroke-width:1}
.ls-topology .nvlink{stroke:var(--fabric-edge)}
.ls-topology .down{stroke:var(--warn);stroke-width:2.4}
.ls-topology .unknown{stroke-dasharray:3 4}"""

STYLE = f"{_LIGHT}{_RULES}@media screen and (prefers-color-scheme:dark){{{_DARK}}}"


def draw_box(box: Box, width: float | None = None) -> str:
    """Return a box with its lines; `width` replaces its own width."""
    wide = box.width if width is None else width
    gone = box.kind == "gpu" and box.hint is not None
    hint = "" if box.hint is None else f"<title>{escape(box.hint)}</title>"
    lines = "".join(
        draw_text(box.x, box.y + 8 + LINE_PIXELS * (i + 0.75), line, "middle")
        for i, line in enumerate(box.lines)
    )
    return (
        f'<g class="{box.kind}{" gone" if gone else ""}">{hint}<rect class="box" '
        f'x="{box.x - wide / 2:.1f}" y="{box.y:.1f}" width="{wide:.1f}" '
        f'height="{box.height:.1f}" rx="7"/>{lines}</g>'
    )


def draw_bracket(left: float, right: float, boxes_y: float, level: float, style: str) -> str:
    """Return a line from a box out to a lane and back to another box."""
    return (
        f'<path class="{style}" d="M{left:.1f} {boxes_y:.1f}V{level:.1f}'
        f'H{right:.1f}V{boxes_y:.1f}"/>'
    )


def draw_label(x: float, middle: float, lines: Sequence[TextLine]) -> list[str]:
    """Return text on a link, on a patch of the background so that the line does not cross it."""
    if not lines:
        return []
    wide = max(line.width for line in lines) + 8
    height = len(lines) * LINE_PIXELS
    top = middle - height / 2
    patch = (
        f'<rect class="patch" x="{x - wide / 2:.1f}" y="{top:.1f}" width="{wide:.1f}" '
        f'height="{height:.1f}"/>'
    )
    texts = [
        draw_text(x, top + LINE_PIXELS * (i + 0.75), ln, "middle") for i, ln in enumerate(lines)
    ]
    return [patch, *texts]


def draw_text(x: float, y: float, line: TextLine, anchor: str) -> str:
    """Return a line of text, its base line at `y`."""
    return (
        f'<text class="{line.style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(line.text)}</text>"
    )


_MARGIN = 20.0
#: With this many nodes or more, a full mesh is drawn as one line that all share.
_MESH_NODES = 3


def topology_svg(machine: Machine) -> str:
    """Return the machine as an SVG image that stands alone, as a file or inside HTML."""
    header = _header_lines(machine)
    sockets = _sideways(machine, LinkKind.SOCKET, {n.id for n in machine.nodes})
    gpu_links = _sideways(machine, LinkKind.NVLINK, {g.id for g in machine.gpus})
    roots = forest(machine)
    top = _MARGIN + len(header) * (LINE_PIXELS + 2) + 14
    right, _ = place(roots, _MARGIN, top)
    boxes = {box.id: box for box in every_box(roots)}
    above, socket_height = _sockets(machine, sockets, boxes)
    right, bottom = place(roots, _MARGIN, top + socket_height)
    above, _ = _sockets(machine, sockets, boxes)
    below, bottom = _gpu_links(gpu_links, boxes, bottom)
    fabric, right, bottom = _fabric(machine, boxes, right, bottom)
    parts = [
        *above,
        *(part for box in boxes.values() for part in _links_below(box)),
        *below,
        *fabric,
        *(draw_box(box) for box in boxes.values()),
    ]
    if not boxes:
        header.append(TextLine("no parts are known", "quiet"))
        bottom = top + LINE_PIXELS
    width = max([right + _MARGIN, *(_MARGIN * 2 + line.width * 1.2 for line in header)])
    return _document(machine, header, parts, width, bottom + _MARGIN)


def _document(
    machine: Machine, header: Sequence[TextLine], parts: Sequence[str], width: float, height: float
) -> str:
    title = escape(f"Topology of {machine.name}")
    head = "".join(
        draw_text(_MARGIN, _MARGIN + 12 + i * (LINE_PIXELS + 2), line, "start")
        for i, line in enumerate(header)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ls-topology" role="img" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'aria-label="{title}"><title>{title}</title><style>{STYLE}</style>'
        f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>'
        f"{head}{''.join(parts)}</svg>"
    )


def _header_lines(machine: Machine) -> list[TextLine]:
    lines = [TextLine(machine.name, "title")]
    if machine.cpu is not None:
        lines.append(TextLine(machine.cpu))
    if machine.described:
        lines.append(TextLine("described, not measured here", "notice"))
    if not machine.gpus:
        lines.append(TextLine("no GPU", "quiet"))
    return lines


def _sideways(machine: Machine, kind: LinkKind, ends: set[str]) -> list[Link]:
    return [ln for ln in machine.links if ln.kind is kind and ln.a in ends and ln.b in ends]


def _sockets(
    machine: Machine, links: Sequence[Link], boxes: dict[str, Box]
) -> tuple[list[str], float]:
    """Draw socket links above the nodes; return them and the height they take."""
    if not links:
        return [], 0.0
    pairs = {frozenset((ln.a, ln.b)) for ln in links}
    names = [n.id for n in machine.nodes]
    mesh = pairs == {frozenset(p) for p in combinations(names, 2)}
    alike = len({ln.payload_gbs for ln in links}) == 1
    if len(names) >= _MESH_NODES and mesh and alike:
        return _mesh(links[0], [boxes[name] for name in names])
    known = any(ln.payload_gbs is not None for ln in links)
    texts = [_one_line(ln) if known or len(links) == 1 else None for ln in links]
    step = LANE_PIXELS if known or len(links) == 1 else THIN_LANE_PIXELS
    widest = max((t.width for t in texts if t is not None), default=0.0) + 16
    found = lanes([(ln.a, ln.b) for ln in links], boxes, widest)
    parts = []
    for link, lane, label in zip(links, found, texts, strict=True):
        y = min(boxes[link.a].y, boxes[link.b].y)
        level = y - 18 - lane.row * step
        parts.append(draw_bracket(lane.left, lane.right, y, level, "link thin"))
        if label is not None:
            parts += draw_label((lane.left + lane.right) / 2, level, (label,))
    return parts, 18 + max(lane.row for lane in found) * step + 14


def _mesh(link: Link, nodes: Sequence[Box]) -> tuple[list[str], float]:
    y, level = nodes[0].y, nodes[0].y - 22
    xs = [box.x for box in nodes]
    drops = " ".join(f"M{x:.1f} {level:.1f}V{y:.1f}" for x in xs)
    path = f"M{min(xs):.1f} {level:.1f}H{max(xs):.1f} {drops}"
    rate = "" if link.payload_gbs is None else f", {payload_text(link)}"
    label = TextLine(f"socket links between all nodes{rate}", "quiet")
    middle = (min(xs) + max(xs)) / 2
    return [
        f'<path class="link thin" d="{path}"/>',
        *draw_label(middle, level - 12, (label,)),
    ], 46.0


def _links_below(box: Box) -> list[str]:
    """Draw the links from a box to its children: one bar, and a drop to each."""
    if not box.children:
        return []
    parts = []
    start = box.y + box.height
    bar = start + 14
    xs = [child.x for child in box.children]
    parts.append(f'<path class="link" d="M{box.x:.1f} {start:.1f}V{bar:.1f}"/>')
    if len(xs) > 1 or abs(xs[0] - box.x) > 0.5:
        low, high = min([*xs, box.x]), max([*xs, box.x])
        parts.append(f'<path class="link" d="M{low:.1f} {bar:.1f}H{high:.1f}"/>')
    for child in box.children:
        style = "link down" if child.trained_down else "link" if child.linked else "link unknown"
        parts.append(f'<path class="{style}" d="M{child.x:.1f} {bar:.1f}V{child.y:.1f}"/>')
        middle = child.y - 16 - len(child.label) * LINE_PIXELS / 2
        parts += draw_label(child.x, middle, child.label)
    return parts


def _gpu_links(
    links: Sequence[Link], boxes: dict[str, Box], bottom: float
) -> tuple[list[str], float]:
    """Draw NVLinks that go straight from GPU to GPU, below the GPUs."""
    if not links:
        return [], bottom
    texts = [_one_line(ln) for ln in links]
    widest = max(line.width for line in texts) + 16
    found = lanes([(ln.a, ln.b) for ln in links], boxes, widest)
    lines, labels = [], []
    for link, lane, label in zip(links, found, texts, strict=True):
        y = max(boxes[p].y + boxes[p].height for p in (link.a, link.b))
        level = bottom + 22 + lane.row * LANE_PIXELS
        lines.append(draw_bracket(lane.left, lane.right, y, level, "link nvlink"))
        labels += draw_label((lane.left + lane.right) / 2, level + 11, (label,))
    rows = max(lane.row for lane in found)
    return lines + labels, bottom + 22 + rows * LANE_PIXELS + 22


def _fabric(
    machine: Machine, boxes: dict[str, Box], width: float, bottom: float
) -> tuple[list[str], float, float]:
    """Draw NVLink switches as bars below all their GPUs; return the new right and bottom end."""
    parts: list[str] = []
    for switch in nvswitch_boxes(machine):
        links = [
            (boxes[other], ln)
            for ln in machine.links
            for other in (ln.a if ln.b == switch.id else ln.b,)
            if ln.kind is LinkKind.NVLINK and switch.id in (ln.a, ln.b) and other in boxes
        ]
        if not links:
            continue
        text_height = 2 * LINE_PIXELS
        y = bottom + text_height + 34
        left = min(box.x - box.width / 2 for box, _ in links)
        right = max(box.x + box.width / 2 for box, _ in links)
        for box, link in links:
            start = box.y + box.height
            parts.append(f'<path class="link nvlink" d="M{box.x:.1f} {start:.1f}V{y:.1f}"/>')
            parts += draw_label(box.x, bottom + 17 + text_height / 2, link_label(link))
        switch.x, switch.y = max((left + right) / 2, _MARGIN + switch.width / 2), y
        parts.append(draw_box(switch, max(right - left, switch.width)))
        width = max(width, switch.x + switch.width / 2)
        bottom = y + switch.height
    return parts, width, bottom


def _one_line(link: Link) -> TextLine:
    if link.payload_gbs is None:
        return TextLine(link.label, "quiet")
    return TextLine(f"{link.label}, {payload_text(link)}", "quiet")
