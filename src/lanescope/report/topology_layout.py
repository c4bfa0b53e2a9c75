"""Where everything of the picture stands: pure arithmetic over boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lanescope.report.topology_boxes import LINE_PIXELS, Box

_COLUMN_GAP = 20.0
#: Free line above and below the text on a link.
_STUB = 16.0
#: Height of a lane that carries text, and of one that carries none.
LANE_PIXELS = 32.0
THIN_LANE_PIXELS = 9.0


@dataclass(frozen=True, slots=True)
class Lane:
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


def lanes(ends: Sequence[tuple[str, str]], boxes: dict[str, Box], text_width: float) -> list[Lane]:
    """Give sideways connections lanes in which none overlaps another.

    Each gets its own point of contact on its boxes, so that lines of different
    connections never lie on each other. Order is that of `ends`.
    """
    spans = [sorted((boxes[a].x, boxes[b].x)) for a, b in ends]
    order = sorted(range(len(ends)), key=lambda i: (spans[i][1] - spans[i][0], spans[i][0]))
    contacts = _contacts(ends, boxes)
    rows: list[list[tuple[float, float]]] = []
    placed: dict[int, Lane] = {}
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
        placed[i] = Lane(left, right, row)
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
