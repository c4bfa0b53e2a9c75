"""What a suite has shown, in words: differences beyond both intervals and above 3 %.

Those of contention stand here: what saturates, who gets less, what is shared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from lanescope.document.contents import Finding
from lanescope.machine import Machine
from lanescope.results import CopyResult, Result
from lanescope.studies.taruc.compare import (
    LEAST,
    finding,
    steps_differ,
    sums_differ,
    total_gbs,
)
from lanescope.studies.taruc.contended import (
    Scaling,
    ScalingSetting,
    ScalingStep,
    SuiteResults,
    suite_of,
)
from lanescope.studies.taruc.findings_alone import (
    device_findings,
    host_findings,
    load_findings,
    overhead_findings,
)
from lanescope.studies.taruc.parameters import Benchmark
from lanescope.studies.taruc.points import field_text, percent
from lanescope.units.words import enumeration, rate_text

#: What comes first among findings of different kinds; all others follow.
_FIRST = (
    "far-host-memory",
    "shared-link",
    "unfair",
    "saturation",
    "far-pcie",
    "sync-async",
    "far-device-copies",
    "staged-peers",
    "allocate-pinned",
    "first-touch",
    "tlb-random-chase",
    "cache-steps",
    "random-loads",
    "all-gpus",
    "between-sockets",
    "far-loads",
)
#: Below this index the participants are told to share unfairly.
_FAIR = 0.9
#: A link that is used less than this is not what holds copies back.
_FULL_SHARE = 0.75
#: Of the operations that show the same the first of these is told.
_TELLING = ("triad", "copy", "add", "scale")


def findings(machine: Machine, results: Sequence[Result]) -> tuple[Finding, ...]:
    """Return every finding of a suite, the most telling ones first.

    The first of each kind come before the second of any, so that one effect that
    shows in many places does not hide the others.
    """
    suite = suite_of(machine, results)
    if suite.predicted:
        return ()
    found = [
        *host_findings(suite),
        *device_findings(suite),
        *overhead_findings(suite),
        *load_findings(suite),
        *_contention_findings(suite),
    ]
    by_kind: dict[str, list[Finding]] = defaultdict(list)
    for one in sorted(found, key=lambda f: -f.effect):
        by_kind[one.kind].append(one)
    places = {kind: place for place, kind in enumerate(_FIRST)}
    ordered = [
        (number, places.get(kind, len(_FIRST)), one)
        for kind, listed in by_kind.items()
        for number, one in enumerate(listed)
    ]
    return tuple(one for _, _, one in sorted(ordered, key=lambda entry: entry[:2]))


def _contention_findings(suite: SuiteResults) -> list[Finding]:
    """Return what threads and streams that run at the same time show."""
    kinds: dict[str, list[Scaling]] = defaultdict(list)
    for scaling in suite.scalings:
        kinds[scaling.contention.kind].append(scaling)
    return [
        *_saturation(kinds["memory"]),
        *_sockets(kinds["sockets"], kinds["memory"]),
        *_sharing(kinds["pcie"]),
        *_far(kinds["pcie"]),
        *_unfair(suite.scalings),
    ]


def _saturation(scalings: Sequence[Scaling]) -> Iterable[Finding]:
    """With how many threads the memory of some nodes is full."""
    described: set[str] = set()
    for scaling in sorted(scalings, key=_telling):
        enough, steps = scaling.enough, scaling.measured
        who = scaling.contention.who
        if enough is None or who in described or enough.count >= steps[-1].count:
            continue
        first, last = steps[0], steps[-1]
        # Full is what grows more slowly than its threads, for certain.
        linear = total_gbs([first]) * enough.count / first.count
        grown = total_gbs([last]) < linear * last.count / enough.count * (1 - LEAST)
        interval = last.interval_gbs
        if not grown or interval is None or interval[1] >= linear * last.count / enough.count:
            continue
        described.add(who)
        yield finding(
            "saturation",
            Benchmark.CONTENTION,
            f"{enough.count} {'thread fills' if enough.count == 1 else 'threads fill'} the memory "
            f"of {enumeration(scaling.contention.members)}: {rate_text(total_gbs([enough]))} of "
            f"{scaling.contention.operation}; {last.count} threads get "
            f"{rate_text(total_gbs([last]))}{_limit_words(last)}.",
            (enough.experiment, last.experiment),
            1 - total_gbs([last]) / (linear * last.count / enough.count),
        )


def _limit_words(step: ScalingStep) -> str:
    if step.share_of_limit is None:
        return ""
    return f", {percent(step.share_of_limit)} of the limit ({step.first_full})"


def _telling(scaling: Scaling) -> int:
    operation = scaling.contention.operation
    return _TELLING.index(operation) if operation in _TELLING else len(_TELLING)


def _sockets(crossing: Sequence[Scaling], local: Sequence[Scaling]) -> Iterable[Finding]:
    """What the way between sockets costs, against threads that stay at home."""
    described: set[str] = set()
    for scaling in sorted(crossing, key=_telling):
        mine = scaling.contention
        home = next(
            (
                s
                for s in local
                if s.contention.operation == mine.operation
                and s.contention.who == mine.who.split()[0]
            ),
            None,
        )
        if mine.direction == "both" or mine.who in described or home is None:
            continue
        if scaling.best is None or (same := home.at(scaling.best.count)) is None:
            continue
        here, there = total_gbs([same]), total_gbs([scaling.best])
        if there < here and steps_differ(same, scaling.best):
            described.add(mine.who)
            yield finding(
                "between-sockets",
                Benchmark.CONTENTION,
                f"{scaling.best.count} threads get {rate_text(there)} of {mine.operation} between "
                f"sockets ({mine.who}), {percent(1 - there / here)} less than within "
                f"{home.contention.who} ({rate_text(here)}).",
                (scaling.best.experiment, same.experiment),
                1 - there / here,
            )


def _sharing(scalings: Sequence[Scaling]) -> Iterable[Finding]:
    """Sets of GPUs that together get less than alone in sum: of each set the worst way."""
    alone = {s.contention: s for s in scalings if len(s.contention.members) == 1}
    worst: dict[str, tuple[tuple[float, bool], Finding]] = {}
    for scaling in scalings:
        mine = scaling.contention
        singles = [alone.get(_alone(mine, gpu)) for gpu in mine.members]
        found = [s for s in singles if s is not None]
        if len(mine.members) < 2 or len(found) < len(singles):
            continue
        # both ways in turns, one way goes on alone when the other is through
        for step in (s for s in scaling.measured if mine.direction != "both" or not s.in_turns):
            steps = [s for one in found if (s := one.at(step.count)) is not None]
            if len(steps) < len(found) or not sums_differ([step], steps):
                continue
            loss = 1 - total_gbs([step]) / total_gbs(steps)
            rank = (round(loss, 2), mine.where == "near")
            if loss > 0 and (mine.who not in worst or rank > worst[mine.who][0]):
                worst[mine.who] = (rank, _shared(mine, step, steps, loss))
    yield from (one for _, one in worst.values())


def _alone(contention: ScalingSetting, gpu: str) -> ScalingSetting:
    return ScalingSetting(
        contention.kind, gpu, contention.operation, contention.direction, contention.where
    )


def _shared(
    mine: ScalingSetting, step: ScalingStep, steps: Sequence[ScalingStep], loss: float
) -> Finding:
    how = f"{field_text('direction', mine.direction)}, {field_text('where', mine.where)}"
    return finding(
        "shared-link" if len(mine.members) == 2 else "all-gpus",
        Benchmark.CONTENTION,
        f"{enumeration(mine.members)} share a link or memory: together they get "
        f"{rate_text(total_gbs([step]))} ({how}, {step.count} a GPU), {percent(loss)} less than "
        f"alone in sum ({rate_text(total_gbs(steps))}); {_bottleneck(step)}.",
        (step.experiment, *(s.experiment for s in steps)),
        loss,
    )


def _bottleneck(step: ScalingStep) -> str:
    """What holds the participants back, as far as the limit model explains what they get."""
    if step.first_full is None or "no speed is known" in step.first_full:
        return "the limit model knows no limit"
    link = step.first_full.partition(",")[0]
    share = step.share_of_limit
    if share is None:
        return f"{link} saturates first"
    reached = f"{percent(share)} of the limit is reached"
    if share >= _FULL_SHARE:
        return f"{link} saturates first, {reached}"
    return (
        f"it is not {link}, the narrowest known, that is full ({reached}), but something without "
        "a known limit that they share, such as the host's memory"
    )


def _far(scalings: Sequence[Scaling]) -> Iterable[Finding]:
    """What far host memory costs GPUs: the worst of the largest set of GPUs, and of one."""
    near = {
        (s.contention.who, s.contention.direction): s
        for s in scalings
        if s.contention.where == "near"
    }
    worst: dict[int, tuple[float, Finding]] = {}
    for scaling in scalings:
        mine = scaling.contention
        base = near.get((mine.who, mine.direction))
        if mine.where != "far" or base is None or scaling.best is None:
            continue
        same = base.at(scaling.best.count)
        if same is None or not steps_differ(same, scaling.best):
            continue
        here, there = total_gbs([same]), total_gbs([scaling.best])
        size = len(mine.members)
        if 1 - there / here > max(0.0, worst[size][0] if size in worst else 0.0):
            one = finding(
                "far-pcie",
                Benchmark.CONTENTION,
                f"Far memory costs {enumeration(mine.members)} {percent(1 - there / here)}: "
                f"{rate_text(here)} to {rate_text(there)} ("
                f"{field_text('direction', mine.direction)}, {scaling.best.count} "
                f"{'stream' if scaling.best.count == 1 else 'streams'} a GPU).",
                (same.experiment, scaling.best.experiment),
                1 - there / here,
            )
            worst[size] = (1 - there / here, one)
    yield from (worst[size][1] for size in sorted(worst, reverse=True)[:1])
    yield from (worst[size][1] for size in sorted(worst)[:1] if len(worst) > 1)


def _unfair(scalings: Sequence[Scaling]) -> Iterable[Finding]:
    """The least fair step of each kind and set of nodes or GPUs."""
    worst: dict[tuple[str, str], tuple[float, Scaling, ScalingStep]] = {}
    for scaling in sorted(scalings, key=_telling):
        for step in scaling.measured:
            fairness = step.fairness or 1.0
            key = (scaling.contention.kind, scaling.contention.who)
            least = worst[key][0] if key in worst else _FAIR
            if fairness < least and not step.shares_cpus and _ends_differ(step):
                worst[key] = (fairness, scaling, step)
    for fairness, scaling, step in worst.values():
        ordered = sorted(step.participants, key=lambda p: p.gbs or 0.0)
        others = [p.gbs or 0.0 for p in ordered[1:]]
        mine = scaling.contention
        what = mine.operation if mine.kind != "pcie" else field_text("direction", mine.direction)
        yield finding(
            "unfair",
            Benchmark.CONTENTION,
            f"{len(ordered)} {'streams' if mine.kind == 'pcie' else 'threads'} on {mine.who} "
            f"({what}) share unfairly, Jain's index {fairness:.2f}: {_name(ordered[0])} gets "
            f"{rate_text(ordered[0].gbs or 0.0)}, the others {rate_text(sum(others) / len(others))}"
            " on average.",
            (step.experiment,),
            1 - fairness,
        )


def _ends_differ(step: ScalingStep) -> bool:
    ordered = sorted(step.participants, key=lambda p: p.gbs or 0.0)
    ends = [ScalingStep(1, step.experiment, (p,)) for p in (ordered[0], ordered[-1])]
    return steps_differ(*ends)


def _name(participant: CopyResult) -> str:
    copy = participant.copy
    if copy.executing_gpu is not None:
        return f"the one of {copy.executing_gpu} ({copy.path})"
    return f"the thread on CPU {copy.cpus[0]}" if copy.cpus else "one"
