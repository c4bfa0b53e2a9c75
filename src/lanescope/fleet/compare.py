"""What sets a node apart from the others: its configuration, and its rates."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from lanescope.studies.node.report import NodeReport, Rate

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
        From how many on a path is called odd; by the wanted rate of false alarms.
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
    broken nodes do not move (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993). The
    threshold is that of a normal distribution, shared out among the paths of a node.

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
        threshold = _threshold(false_alarms, len(by_path), len(peers))
        for rates in by_path.values():
            found += _slow(rates, threshold)
    return sorted(found, key=lambda one: one.effect)


def _kinds(reports: Iterable[NodeReport]) -> list[list[NodeReport]]:
    """Nodes with the same CPU and the same GPUs, where there are enough of them."""
    kinds: dict[tuple[str | None, ...], list[NodeReport]] = defaultdict(list)
    for report in reports:
        models = tuple(part.name for part in report.parts)
        kinds[report.configuration.get("CPU"), *models].append(report)
    return [peers for peers in kinds.values() if len(peers) >= LEAST_PEERS]


def _threshold(false_alarms: float, paths: int, nodes: int) -> float:
    """Return from how many deviations on a path is odd; more where a few nodes say how they differ.

    The deviation of few values is itself uncertain by about 0.8 / sqrt(n) of it.
    """
    quantile = NormalDist().inv_cdf(1 - false_alarms / max(paths, 1))
    return quantile * (1 + 2 * 0.8 / math.sqrt(nodes))


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
