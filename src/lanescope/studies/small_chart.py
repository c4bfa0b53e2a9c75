"""Heat maps of small copies: the fastest method by size and count of pieces."""

from __future__ import annotations

from lanescope.document.chart import Axis, HeatCell, HeatMap
from lanescope.experiment.submission import Submission
from lanescope.report.format import bytes_text, gbs_text, percent_text, seconds_text
from lanescope.studies.small_maps import SmallCell, SmallMap
from lanescope.studies.small_text import cell_lines

#: Light enough for dark text in both themes; each cell also names its method.
METHOD_COLOURS = {
    Submission.SINGLE: "#c9ced6",
    Submission.BATCH: "#8cc5e8",
    Submission.GRAPH: "#f0c27b",
    Submission.KERNEL: "#8fd3b6",
    Submission.MAPPED: "#dcb3d6",
}


def small_chart(small: SmallMap) -> HeatMap:
    """Return the heat map of one path, coloured by the fastest method."""
    fastest = {cell.fastest() for cell in small.cells.values()}
    return HeatMap(
        f"small-{small.path.lower().replace(' → ', '-')}",
        "small",
        f"Fastest way to hand over small copies, {small.path}",
        "In each cell: the method and its GB/s; ~ where another may be as fast",
        Axis("Number of pieces"),
        Axis("Size of a piece"),
        tuple(str(count) for count in small.counts),
        tuple(bytes_text(size) for size in small.sizes),
        tuple(_cell(small.path, cell) for cell in small.cells.values()),
        {str(method): METHOD_COLOURS[method] for method in Submission if method in fastest},
    )


def _cell(path: str, cell: SmallCell) -> HeatCell:
    lines = [f"{path}, {cell.pieces} × {bytes_text(cell.piece_bytes)}"]
    for method in sorted(cell.by_method, key=cell.seconds):
        share = cell.submit_share(method)
        calls = "" if share is None else f", {percent_text(share)} of it in the calls"
        gbs = gbs_text(cell.by_method[method].gbs)
        lines.append(f"{method}: {gbs} GB/s, {seconds_text(cell.seconds(method))}{calls}")
    return HeatCell(
        str(cell.pieces),
        bytes_text(cell.piece_bytes),
        str(cell.fastest()),
        next(iter(cell_lines(cell)), ""),
        "\n".join(lines),
    )
