"""The report of a fleet: what is wrong with which node, worst first."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from lanescope._version import __version__
from lanescope.codec.fields import Moment
from lanescope.document.blocks import (
    Badge,
    Block,
    Bullets,
    Code,
    ColumnOf,
    Document,
    Headline,
    Kind,
    Section,
    Table,
    TableCell,
    Text,
    Tone,
)
from lanescope.errors import ExitCode
from lanescope.fleet.compare import (
    Difference,
    Outlier,
    differences,
    node_chart,
    outliers,
    pair_chart,
)
from lanescope.fleet.exchange import PairRate
from lanescope.fleet.media import Medium
from lanescope.fleet.pairs import Blamed, SuspectKind, located
from lanescope.history.document import LevelComparison, value_text
from lanescope.report.format import count_text, gbs_text, percent_text
from lanescope.studies.node_report import NodeReport, NodeState

SCHEMA_VERSION = 1
#: The surest first.
_JUDGES = ("expected", "data", "limit", "peers", "history", "none", "majority")
#: Of a node's GPUs one that exchanges less than this share of what the others do is named.
_SLOW_GPU_SHARE = 0.9
#: Of fewer pairs nobody can say which is slow.
_FEWEST_PAIRS = 3
#: What of wrong data is counted.
_UNIT_OF = {Medium.NCCL: "value"}
_TONES = {
    NodeState.HEALTHY: Tone.GOOD,
    NodeState.LIMITED: Tone.GOOD,
    NodeState.SICK: Tone.BAD,
    NodeState.MISSING: Tone.BAD,
}
#: In this order nodes need somebody's attention.
_ORDER = (
    NodeState.MISSING,
    NodeState.SICK,
    NodeState.FAILED,
    NodeState.NOT_MEASURED,
    NodeState.BUSY,
    NodeState.LIMITED,
    NodeState.HEALTHY,
)
_SOUND = (NodeState.LIMITED, NodeState.HEALTHY)
#: Who finds what a node by itself cannot; these make the exit code 1.
_BY_OTHERS = ("data", "peers", "history")


def urgency(node: NodeReport) -> int:
    """Return how many states need somebody's attention before that of a node."""
    return _ORDER.index(node.state)


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that is wrong with a node.

    Attributes
    ----------
    kind
        A fault's kind, ``slower-than-peers``, ``slower-than-before``, ``configuration``,
        ``slow-node``, ``slow-rack``, ``slow-pair`` or ``wrong-data`` of the network, or the state
        of a node that was not measured or names no fault.
    part
        With UUID and slot where it is a GPU; empty where the whole node is meant.
    judged_by
        ``limit`` (what its links allow), ``peers`` (nodes of the same kind), ``history`` (earlier
        runs of the same hardware), ``expected`` (a machine file), ``data`` (what was sent is not
        what arrived), ``majority`` (what most nodes have), or ``none``: nothing is known of it.
    share
        How much is lost, of 1; None where that is no number.
    """

    host: str
    kind: str
    part: str
    sentence: str
    judged_by: str
    share: float | None
    remedy: str
    confirm: str


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What the checks of many nodes come to.

    Attributes
    ----------
    absent
        Ranks or nodes that should have reported and did not, with the reason.
    suspects
        Worst first.
    pairs
        What pairs of nodes exchanged, in the order in which they did.
    """

    schema_version: int
    tool_version: str
    began: Moment
    nodes: tuple[NodeReport, ...]
    absent: tuple[str, ...]
    suspects: tuple[Suspect, ...]
    pairs: tuple[PairRate, ...]

    @property
    def states(self) -> Counter[NodeState]:
        """How many nodes are in each state."""
        return Counter(node.state for node in self.nodes)

    @property
    def behind(self) -> frozenset[str]:
        """Hosts that are sound by themselves, and slower than peers or than they were."""
        sound = {one.host for one in self.nodes if one.state in _SOUND}
        return frozenset(
            one.host for one in self.suspects if one.judged_by in _BY_OTHERS and one.host in sound
        )

    def _counts(self) -> Iterator[str]:
        """Yield how many nodes are how, the worst first; each node counts once."""
        behind = self.behind
        states = Counter(node.state for node in self.nodes if node.host not in behind)
        for state in _ORDER:
            if state is _SOUND[0] and behind:
                yield f"{len(behind)} slower than others or than before"
            if states[state]:
                yield f"{states[state]} {state}"

    @property
    def headline(self) -> str:
        """Return in a sentence how the fleet is."""
        counts = list(self._counts())
        if self.absent:
            counts.append(f"{len(self.absent)} without a report")
        count = len(self.nodes) + len(self.absent)
        if self.pairs and not count:
            worst = "".join(f" Worst: {one.sentence}" for one in self.suspects[:1])
            few = len(self.pairs) < _FEWEST_PAIRS
            none = " Too few to compare with each other." if few else " None is slow."
            return f"{count_text(len(self.pairs), 'pair')} of nodes.{worst or none}"
        worst = "".join(f" Worst: {one.host}: {one.sentence}" for one in self.suspects[:1])
        return f"{count_text(count, 'node')}: {', '.join(counts) or 'nothing measured'}.{worst}"

    @property
    def all_answered(self) -> bool:
        """Whether every rank is still there, as far as its messages tell."""
        return not self.absent and all(one.gbs is not None or one.why for one in self.pairs)

    def exit_code(self, *, strict: bool) -> int:
        """Return what the command ends with; `strict` counts what was not measured, too."""
        states = self.states
        if states[NodeState.MISSING]:
            return ExitCode.NOT_AS_EXPECTED
        if states[NodeState.SICK] or any(one.judged_by in _BY_OTHERS for one in self.suspects):
            return ExitCode.SLOW
        unknown = states[NodeState.NOT_MEASURED] + states[NodeState.FAILED] + len(self.absent)
        if strict and (unknown or not self.nodes):
            return ExitCode.NOT_MEASURED
        return ExitCode.BUSY if strict and states[NodeState.BUSY] else ExitCode.OK

    def as_json(self) -> str:
        """Return everything as one JSON object."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False) + "\n"

    def blocks(self) -> list[Block]:
        """Return the report as blocks: what is wrong, then every node."""
        return [*self._wrong(), *([self._every()] if self.nodes else [])]

    def document(self) -> Document:
        """Return the report as a page."""
        bad = (
            any(self.states[state] for state in (NodeState.SICK, NodeState.MISSING))
            or self.suspects
        )
        headline = Headline(self.headline, Tone.BAD if bad else Tone.GOOD)
        charts = [one for one in (node_chart(self.nodes), pair_chart(self.pairs)) if one]
        sections = (
            Section("suspects", "What is wrong", list(self._wrong())),
            Section("nodes", "Every node", [*charts, *([self._every()] if self.nodes else [])]),
        )
        facts = (count_text(len(self.nodes), "node"), f"lanescope {self.tool_version}")
        return Document(
            "lanescope fleet check",
            "Fleet",
            self.began,
            facts,
            ("lanescope fleet check",),
            headline,
            sections,
            self.tool_version,
        )

    def _wrong(self) -> Iterator[Block]:
        if self.suspects:
            columns: list[ColumnOf[Suspect]] = [
                ColumnOf("node", lambda one: TableCell(one.host, strong=True)),
                ColumnOf("part", lambda one: one.part or "the node"),
                ColumnOf("what is wrong", _what_is_wrong),
                ColumnOf("judged by", lambda one: one.judged_by),
                ColumnOf("confirm", lambda one: Code(one.confirm) if one.confirm else None),
            ]
            yield Table.of("What is wrong, worst first", columns, self.suspects)
        if self.absent:
            yield Bullets([f"Not measured: {one}." for one in self.absent])
        known = [one.gbs for one in self.pairs if one.gbs is not None]
        if known:
            yield Text(
                f"{count_text(len(known), 'pair')} of nodes exchanged data: in each direction "
                f"{gbs_text(min(known))} to {gbs_text(max(known))} GB/s, median "
                f"{gbs_text(median(known))}."
            )

    def _every(self) -> Table:
        columns: list[ColumnOf[NodeReport]] = [
            ColumnOf("node", lambda node: node.host),
            ColumnOf("state", _state_badge),
            ColumnOf("GPUs", lambda node: len(node.parts), Kind.COUNT),
            ColumnOf(
                "least share of a limit",
                _least_share,
                Kind.SHARE,
                "Of all paths that have a limit.",
            ),
            ColumnOf("seconds", lambda node: f"{node.seconds:.1f}", Kind.FIGURES),
            ColumnOf("what it says", lambda node: node.sentence),
        ]
        nodes = sorted(self.nodes, key=lambda node: (urgency(node), node.host))
        return Table.of("Every node", columns, nodes)


def _what_is_wrong(one: Suspect) -> TableCell:
    return TableCell(one.sentence, below=(one.remedy,) if one.remedy else ())


def _state_badge(node: NodeReport) -> Badge:
    return Badge(str(node.state), _TONES.get(node.state, Tone.OPEN))


def fleet_report(
    nodes: Sequence[NodeReport],
    absent: Sequence[str],
    began: str,
    pairs: Sequence[PairRate] = (),
    racks: Mapping[str, str] | None = None,
    before: Mapping[str, Sequence[LevelComparison]] | None = None,
) -> FleetReport:
    """Return what the reports of many nodes come to, and what their pairs exchanged.

    Parameters
    ----------
    racks
        Of each host.
    before
        How each host's paths lie in the history of their hardware.
    """
    suspects = [
        *(one for node in nodes for one in _own_suspects(node)),
        *_slower_parts(outliers(nodes), nodes),
        *_network(pairs, racks or {}),
        *filter(None, (_slower_than_before(*one) for one in (before or {}).items())),
        *map(_different, differences(nodes)),
    ]
    suspects.sort(key=lambda one: (_JUDGES.index(one.judged_by), -(one.share or 0)))
    return FleetReport(
        SCHEMA_VERSION,
        __version__,
        began,
        tuple(nodes),
        tuple(absent),
        tuple(suspects),
        tuple(pairs),
    )


def _own_suspects(node: NodeReport) -> Iterator[Suspect]:
    parts = {part.id: str(part) for part in node.parts}
    for fault in node.faults:
        judged_by = "expected" if fault.kind == "missing" else "limit"
        at = ", ".join(parts.get(one, one) for one in fault.parts)
        yield Suspect(
            node.host,
            fault.kind,
            at,
            fault.sentence,
            judged_by,
            None,
            fault.remedy,
            fault.confirm,
        )
    if node.unfit and not node.faults:
        judged_by = "expected" if node.state is NodeState.MISSING else "limit"
        yield Suspect(node.host, str(node.state), "", node.sentence, judged_by, None, "", "")
    if node.state in (NodeState.NOT_MEASURED, NodeState.FAILED, NodeState.BUSY):
        yield Suspect(node.host, str(node.state), "", node.sentence, "none", None, "", "")


def _slower_parts(found: Sequence[Outlier], nodes: Sequence[NodeReport]) -> Iterator[Suspect]:
    """Yield for each node the GPUs that most of its slow paths share, one after the other.

    Those that a fault of the node's own names are left out, with their paths.
    """
    for node in nodes:
        left = [one for one in found if one.host == node.host]
        known = {part for fault in node.faults for part in fault.parts}
        names = {part.id: str(part) for part in node.parts}
        left = [one for one in left if not known & set(_ends(one))]
        while left:
            counts = Counter(end for one in left for end in _ends(one) if end in names)
            part = max(counts, key=lambda end: counts[end], default=None)
            mine = left if part is None else [one for one in left if part in _ends(one)]
            yield _slower(mine, names.get(part or "", ""))
            left = [one for one in left if one not in mine]


def _ends(one: Outlier) -> tuple[str, str]:
    return one.rate.source, one.rate.destination


def _slower(found: Sequence[Outlier], part: str) -> Suspect:
    worst = min(found, key=lambda one: one.effect)
    return Suspect(
        worst.host,
        "slower-than-peers",
        part,
        f"{count_text(len(found), 'path')} slower than on other nodes of its kind, most "
        f"{worst.rate.path}: {gbs_text(worst.rate.gbs)} GB/s, {percent_text(-worst.effect)} less "
        f"than the median of {worst.peers} nodes ({gbs_text(worst.median_gbs)}); "
        f"{worst.deviations:.1f} deviations, {worst.threshold:.1f} allowed.",
        "peers",
        -worst.effect,
        "Compare the node with a sound one: link state, clocks, other load.",
        f"lanescope check '{worst.rate.experiment}'",
    )


def _slower_than_before(host: str, against_history: Sequence[LevelComparison]) -> Suspect | None:
    slower = [one for one in against_history if one.slower]
    worst = min(slower, key=lambda one: one.shift.effect if one.shift else 0.0, default=None)
    if worst is None or worst.shift is None or worst.usual is None:
        return None
    return Suspect(
        host,
        "slower-than-before",
        ", ".join(worst.observation.devices),
        f"{count_text(len(slower), 'path')} slower than in earlier runs, most "
        f"{worst.observation.label}: {value_text(worst.observation.value, worst.observation.unit)},"
        f" {percent_text(-worst.shift.effect)} less than the level of {worst.runs} runs "
        f"({value_text(worst.usual, worst.observation.unit)}).",
        "history",
        -worst.shift.effect,
        "Measure again; then look at what changed since: driver, firmware, slot.",
        f"lanescope history changes {host}",
    )


def _different(one: Difference) -> Suspect:
    return Suspect(
        one.host,
        "configuration",
        one.field,
        f"{one.field} is {one.found or 'not there'}; {percent_text(one.share)} of the nodes have "
        f"{one.usual}.",
        "majority",
        None,
        "",
        "lanescope topo",
    )


def _network(pairs: Sequence[PairRate], racks: Mapping[str, str]) -> Iterator[Suspect]:
    hosts = list(dict.fromkeys(name for one in pairs for name in (one.first, one.second)))
    number = {host: place for place, host in enumerate(hosts)}
    rates = {}
    for one in pairs:
        ends = sorted((number[one.first], number[one.second]))
        if one.gbs is not None:
            rates[ends[0], ends[1]] = one.gbs
        else:
            told = f"{one.first} and {one.second} did not end their exchange."
            told = f"{told[:-1]}: {one.why}" if one.why else told
            yield Suspect(
                f"{one.first}, {one.second}", "no-exchange", "", told, "none", None, "", ""
            )
        if one.wrong:
            yield Suspect(
                f"{one.first}, {one.second}",
                "wrong-data",
                "network",
                f"{count_text(one.wrong, _UNIT_OF.get(one.medium, 'byte'))} that {one.first} and "
                f"{one.second} exchanged arrived other than sent.",
                "data",
                None,
                "Let each exchange with another node; look for errors of links, memory and GPUs.",
                "",
            )
    for blamed in located(rates, hosts, [racks.get(host, "") for host in hosts]):
        yield _slow_network(blamed, pairs)


def _slow_network(one: Blamed, pairs: Sequence[PairRate]) -> Suspect:
    loss = percent_text(one.loss)
    names = " and ".join(one.names)
    if one.what is SuspectKind.PAIR:
        sentence = f"{names} exchange {loss} less than other pairs."
        if one.ambiguous:
            sentence += " One of them is slow, and nothing says which: one of both met nobody else."
    else:
        sentence = (
            f"The network of {one.what} {names} is slow: {count_text(one.pairs, 'pair')} with it "
            f"exchange {loss} less than others, by the median."
        )
        sentence += _slowest_gpu([p for p in pairs if set(one.names) & {p.first, p.second}])
    remedy = "Look at its network: rate and errors of the link, cable, port of the switch."
    host = ", ".join(one.names)
    return Suspect(host, f"slow-{one.what}", "network", sentence, "peers", one.loss, remedy, "")


def _slowest_gpu(pairs: Sequence[PairRate]) -> str:
    """Return a sentence on the GPU whose exchanges by NCCL are slower than those of the others."""
    rates = [median(of_one) for of_one in zip(*(p.gpus for p in pairs if p.gpus), strict=False)]
    slowest = min(rates, default=0.0)
    others = [rate for rate in rates if rate > slowest]
    if not others or slowest > _SLOW_GPU_SHARE * median(others):
        return ""
    return (
        f" Its GPU {rates.index(slowest)} is the slowest with {gbs_text(slowest)} GB/s, "
        f"{gbs_text(median(others))} the others: look at the NIC next to it."
    )


def _least_share(node: NodeReport) -> float | None:
    shares = [r.gbs / r.limit_gbs for r in node.rates if r.gbs is not None and r.limit_gbs]
    return min(shares, default=None)
