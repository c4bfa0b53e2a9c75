"""The marks that the picture is made of, as pieces of SVG."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.report.html import text as escape
from lanescope.report.topology_boxes import LINE_PIXELS, Box, Line


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


def draw_label(x: float, middle: float, lines: Sequence[Line]) -> list[str]:
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


def draw_text(x: float, y: float, line: Line, anchor: str) -> str:
    """Return a line of text, its base line at `y`."""
    return (
        f'<text class="{line.style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(line.text)}</text>"
    )
