"""Heat maps of a fleet: what each GPU of a node carries, and what pairs of nodes exchange."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from lanescope.document.chart import Axis, HeatCell, HeatMap
from lanescope.fleet.exchange import PairRate
from lanescope.report.format import gbs_text, percent_text
from lanescope.studies.node.report import NodeReport

#: More rows are no picture any more; the tables have them.
_MOST_ROWS = 48
#: By which part of the median a rate falls short at most, and how that is coloured.
_BANDS = (
    (0.03, "as the others", "#8fd3b6"),
    (0.10, "3 to 10 % less", "#f0c27b"),
    (1.00, "more than 10 % less", "#e08a6a"),
)
_UNKNOWN, _GREY = "not measured", "#c9ced6"


def node_chart(nodes: Sequence[NodeReport]) -> HeatMap | None:
    """Return the GPUs of all nodes, by the paths of each that fall behind their median most.

    With the host that is the worst path, between GPUs the median one: a slow GPU makes one path of
    each other GPU slow, too.

    None where there are too few nodes to compare, or too many to draw.
    """
    gpus = list(dict.fromkeys(part.id for node in nodes for part in node.parts))
    if not gpus or not 2 < len(nodes) <= _MOST_ROWS:
        return None
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for node in nodes:
        for rate in node.rates:
            if rate.gbs is not None:
                values[rate.experiment, rate.path].append(rate.gbs)
    usual = {key: median(rates) for key, rates in values.items()}
    cells = [_gpu_cell(node, part.id, usual) for node in nodes for part in node.parts]
    hosts = tuple(node.host for node in nodes)
    axes = Axis("GPU"), Axis("Node")
    title = "Every GPU against the same GPU of the other nodes"
    about = (
        "Its worst path with the host, or the median one to GPUs, as a share of all nodes' median"
    )
    return _map("fleet-nodes", title, about, axes, tuple(gpus), hosts[::-1], cells)


def pair_chart(pairs: Sequence[PairRate]) -> HeatMap | None:
    """Return what pairs of nodes exchange; None without pairs, or with too many nodes to draw."""
    hosts = sorted({name for one in pairs for name in (one.first, one.second)})
    known = [one.gbs for one in pairs if one.gbs is not None]
    if not known or len(hosts) > _MOST_ROWS:
        return None
    usual = median(known)
    cells = []
    for one in pairs:
        share = None if one.gbs is None else one.gbs / usual
        for ends in ((one.first, one.second), (one.second, one.first)):
            hint = f"{one.first} and {one.second}: {gbs_text(one.gbs)} GB/s in each direction"
            cells.append(HeatCell(*ends, _band(share), _text(share), hint))
    axes = Axis("Node"), Axis("Node")
    title = "What pairs of nodes exchange"
    about = f"As a share of the median, {gbs_text(usual)} GB/s in each direction"
    return _map("fleet-pairs", title, about, axes, tuple(hosts), tuple(hosts[::-1]), cells)


def _gpu_cell(node: NodeReport, gpu: str, usual: dict[tuple[str, str], float]) -> HeatCell:
    gpus = {part.id for part in node.parts}
    shares: dict[bool, list[float]] = {True: [], False: []}
    for rate in node.rates:
        ends = {rate.source, rate.destination}
        if rate.gbs is not None and gpu in ends:
            shares[ends <= gpus].append(rate.gbs / usual[rate.experiment, rate.path])
    found = [min(shares[False])] if shares[False] else []
    found += [median(shares[True])] if shares[True] else []
    share = min(found, default=None)
    hint = f"{node.host} {gpu}: {_UNKNOWN if share is None else percent_text(share)}"
    return HeatCell(gpu, node.host, _band(share), _text(share), hint)


def _band(share: float | None) -> str:
    if share is None:
        return _UNKNOWN
    return next(name for most, name, _ in _BANDS if 1 - share <= most)


def _text(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"


def _map(
    key: str,
    title: str,
    about: str,
    axes: tuple[Axis, Axis],
    columns: tuple[str, ...],
    rows: tuple[str, ...],
    cells: Sequence[HeatCell],
) -> HeatMap:
    used = {cell.name for cell in cells}
    hues = {name: colour for _, name, colour in _BANDS if name in used}
    hues |= {_UNKNOWN: _GREY} if _UNKNOWN in used else {}
    return HeatMap(key, "nodes", title, about, *axes, columns, rows, tuple(cells), hues)
