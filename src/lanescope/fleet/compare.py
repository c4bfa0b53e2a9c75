"""What sets a node apart from the others: its configuration and its rates; both as heat maps."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from lanescope.document.contents import Axis, HeatCell, HeatMap
from lanescope.fleet.exchange import PairRate
from lanescope.report.format import gbs_text, percent_text
from lanescope.studies.node_report import NodeReport, Rate

#: Of so many nodes of a kind at least, a median and its spread say something.
LEAST_PEERS = 5
#: Of nodes of a kind more than this share must agree for another value to be odd.
_MAJORITY = 0.5
#: Smaller differences from the peers are none, however sure they are.
LEAST_EFFECT = 0.03
#: How many healthy nodes in so many may be called odd.
FALSE_ALARMS = 1e-3
#: Median absolute deviation to standard deviation, for a normal distribution.
_MAD_TO_SIGMA = 1.4826
#: Rates of a path that is sound differ by this at least, as a share, from node to node.
_LEAST_SIGMA = 0.002
#: Of fewer nodes the deviation itself is so uncertain that tails are those of 3 degrees.
_MANY_PEERS = 64
_FEW_DEGREES, _MANY_DEGREES = 3, 5
_NUMBER = re.compile(r"\bg[0-9]+\b")
#: More rows are no picture any more; the tables have them.
_MOST_CHART_ROWS = 48
#: By which part of the median a rate falls short at most, and how that is coloured.
_COLOUR_BANDS = (
    (0.03, "as the others", "#8fd3b6"),
    (0.10, "3 to 10 % less", "#f0c27b"),
    (1.00, "more than 10 % less", "#e08a6a"),
)
_UNKNOWN, _GREY = "not measured", "#c9ced6"


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of a node's configuration that is not as on most nodes.

    Attributes
    ----------
    found
        The node's value; None where it has none.
    usual, share
        What most nodes have, and how many of them.
    """

    host: str
    field: str
    found: str | None
    usual: str
    share: float


@dataclass(frozen=True, slots=True)
class Outlier:
    """A path of a node that is slower than the same path of its peers.

    Attributes
    ----------
    effect
        Its rate over the peers' median, less 1.
    deviations
        How many robust standard deviations that is.
    threshold
        From how many on a path is called odd; by the wanted rate of false alarms, and lower where
        an experiment of another kind with the same part says so, too.
    peers
        How many nodes of the same kind the median is of, this one included.
    """

    host: str
    rate: Rate
    median_gbs: float
    effect: float
    deviations: float
    threshold: float
    peers: int


def differences(reports: Sequence[NodeReport]) -> list[Difference]:
    """Return what differs from most nodes, where most nodes agree."""
    known = [report for report in reports if report.configuration]
    fields = dict.fromkeys(name for report in known for name in report.configuration)
    return [one for name in fields for one in _odd(known, name)]


def _odd(reports: Sequence[NodeReport], name: str) -> Iterator[Difference]:
    values = {report.host: report.configuration.get(name) for report in reports}
    (usual, count), *_ = Counter(values.values()).most_common(1)
    share = count / len(values)
    if usual is None or share <= _MAJORITY:
        return  # as many ways as nodes: nothing is usual
    for host, value in values.items():
        if value != usual:
            yield Difference(host, name, value, usual, share)


def outliers(reports: Iterable[NodeReport], false_alarms: float = FALSE_ALARMS) -> list[Outlier]:
    """Return paths that are slower than those of nodes of the same kind, the worst first.

    Each path is compared with its peers by median and median absolute deviation, which a few
    broken nodes do not move (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993). Rates
    of sound nodes have heavier tails than normal ones, all the more where few nodes say how wide
    they are: thresholds are those of Student's t. A part that is broken is slow in experiments of
    several kinds: two of them together say so from a lower threshold on than one alone.

    Parameters
    ----------
    false_alarms
        Share of healthy nodes that may be called odd, about.
    """
    found: list[Outlier] = []
    for peers in _kinds(reports):
        by_path: dict[tuple[str, str], list[tuple[str, Rate]]] = defaultdict(list)
        for report in peers:
            for rate in report.rates:
                if rate.gbs is not None:
                    by_path[rate.experiment, rate.path].append((report.host, rate))
        alone, together = _thresholds(false_alarms, by_path, len(peers))
        slow = [one for rates in by_path.values() for one in _slow(rates, together)]
        found += _confirmed(slow, alone)
    return sorted(found, key=lambda one: one.effect)


def _kinds(reports: Iterable[NodeReport]) -> list[list[NodeReport]]:
    """Nodes with the same CPU and the same GPUs, where there are enough of them."""
    kinds: dict[tuple[str | None, ...], list[NodeReport]] = defaultdict(list)
    for report in reports:
        models = tuple(part.name for part in report.parts)
        kinds[report.configuration.get("CPU"), *models].append(report)
    return [peers for peers in kinds.values() if len(peers) >= LEAST_PEERS]


def _thresholds(
    false_alarms: float, paths: Collection[tuple[str, str]], nodes: int
) -> tuple[float, float]:
    """Return from how many deviations on a path is odd: alone, and with one of another kind."""
    degrees = _MANY_DEGREES if nodes >= _MANY_PEERS else _FEW_DEGREES
    kinds = len({_kind(experiment) for experiment, _ in paths})
    pairs = max(math.comb(kinds, 2), 1)
    alone = t_quantile(false_alarms / 2 / max(len(paths), 1), degrees)
    return alone, t_quantile(math.sqrt(false_alarms / 2 / pairs), degrees)


def _kind(experiment: str) -> str:
    """Return what an experiment has in common with the same one of other GPUs."""
    return _NUMBER.sub("g", experiment)


def t_quantile(tail: float, degrees: int) -> float:
    """Return the value that Student's t of 3 or 5 degrees exceeds with a probability.

    By bisection of the closed form (Abramowitz and Stegun, 26.7.3).
    """
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_tail(middle, degrees) > tail else (low, middle)
    return high


def _t_tail(value: float, degrees: int) -> float:
    angle = math.atan(value / math.sqrt(degrees))
    cosine = math.cos(angle)
    series = cosine if degrees == 3 else cosine + 2 / 3 * cosine**3
    return 0.5 - (angle + math.sin(angle) * series) / math.pi


def _slow(rates: Sequence[tuple[str, Rate]], threshold: float) -> Iterator[Outlier]:
    if len(rates) < LEAST_PEERS:
        return
    values = [rate.gbs or 0.0 for _, rate in rates]
    middle = median(values)
    spread = _MAD_TO_SIGMA * median(abs(value - middle) for value in values)
    sigma = max(spread, _LEAST_SIGMA * middle)
    for host, rate in rates:
        value = rate.gbs or 0.0
        deviations, effect = (value - middle) / sigma, value / middle - 1
        if deviations < -threshold and effect < -LEAST_EFFECT:
            yield Outlier(host, rate, middle, effect, -deviations, threshold, len(rates))


def _confirmed(slow: Sequence[Outlier], alone: float) -> Iterator[Outlier]:
    """Yield what is odd by itself, or with an experiment of another kind with the same part."""
    kinds: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in slow:
        for end in (one.rate.source, one.rate.destination):
            kinds[one.host, end].add(_kind(one.rate.experiment))
    for one in slow:
        ends = (one.rate.source, one.rate.destination)
        if any(len(kinds[one.host, end]) > 1 for end in ends):
            yield one
        elif one.deviations > alone:
            yield replace(one, threshold=alone)


def node_chart(nodes: Sequence[NodeReport]) -> HeatMap | None:
    """Return the GPUs of all nodes, by the paths of each that fall behind their median most.

    With the host that is the worst path, between GPUs the median one: a slow GPU makes one path of
    each other GPU slow, too.

    None where there are too few nodes to compare, or too many to draw.
    """
    gpus = list(dict.fromkeys(part.id for node in nodes for part in node.parts))
    if not gpus or not 2 < len(nodes) <= _MOST_CHART_ROWS:
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
    return _heat_map("fleet-nodes", title, about, axes, tuple(gpus), hosts[::-1], cells)


def pair_chart(pairs: Sequence[PairRate]) -> HeatMap | None:
    """Return what pairs of nodes exchange; None without pairs, or with too many nodes to draw."""
    hosts = sorted({name for one in pairs for name in (one.first, one.second)})
    known = [one.gbs for one in pairs if one.gbs is not None]
    if not known or len(hosts) > _MOST_CHART_ROWS:
        return None
    usual = median(known)
    cells = []
    for one in pairs:
        share = None if one.gbs is None else one.gbs / usual
        for ends in ((one.first, one.second), (one.second, one.first)):
            hint = f"{one.first} and {one.second}: {gbs_text(one.gbs)} GB/s in each direction"
            cells.append(HeatCell(*ends, _colour_band(share), _share_text(share), hint))
    axes = Axis("Node"), Axis("Node")
    title = "What pairs of nodes exchange"
    about = f"As a share of the median, {gbs_text(usual)} GB/s in each direction"
    return _heat_map("fleet-pairs", title, about, axes, tuple(hosts), tuple(hosts[::-1]), cells)


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
    return HeatCell(gpu, node.host, _colour_band(share), _share_text(share), hint)


def _colour_band(share: float | None) -> str:
    if share is None:
        return _UNKNOWN
    return next(name for most, name, _ in _COLOUR_BANDS if 1 - share <= most)


def _share_text(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"


def _heat_map(
    key: str,
    title: str,
    about: str,
    axes: tuple[Axis, Axis],
    columns: tuple[str, ...],
    rows: tuple[str, ...],
    cells: Sequence[HeatCell],
) -> HeatMap:
    used = {cell.name for cell in cells}
    hues = {name: colour for _, name, colour in _COLOUR_BANDS if name in used}
    hues |= {_UNKNOWN: _GREY} if _UNKNOWN in used else {}
    return HeatMap(key, "nodes", title, about, *axes, columns, rows, tuple(cells), hues)
