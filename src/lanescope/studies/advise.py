"""``advise``: the repeated phases of a watched program, and what changes of it would gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from lanescope.calls import checked
from lanescope.document.blocks import (
    Block,
    Bullets,
    CodeListing,
    Column,
    Document,
    Group,
    Kind,
    Section,
    Style,
    Table,
    Text,
)
from lanescope.document.blocks import (
    Value as BlockValue,
)
from lanescope.document.contents import Snippet
from lanescope.errors import InputError, argument
from lanescope.findings.advice import advise, other_machine, phases_of
from lanescope.findings.advice.advice import Advice, Change, PhaseAdvice
from lanescope.findings.advice.phase import CopyKind, Phase
from lanescope.findings.advice.what_if import NamedEdit, parse_edits, what_if
from lanescope.kinds import StrPath
from lanescope.prediction.predictor import Method, predictor_named
from lanescope.report import format as fmt
from lanescope.studies import Option
from lanescope.studies.analysis import (
    PARAMETERS,
    Analysis,
    Observer,
    PagedResult,
    Parameters,
    link_parameters,
)
from lanescope.studies.what_if import WhatIf
from lanescope.trace.run import WatchManifest, WatchRun
from lanescope.units.estimate import Estimate
from lanescope.units.values import Unread, Value
from lanescope.units.words import enumeration, shortened

_MOST_COMMAND = 60
_UNREAD = (
    "keep finds nothing in this watch, as what copies carry was not read: 'lanescope advise -- "
    "PROGRAM' and 'lanescope watch --kernels --hash -- PROGRAM' read it."
)
#: Where mean and median of rounds differ by more, the mean is said, too.
_UNLIKE = 0.15
#: Copies that are slower than this while kernels run share the link with them.
_SLOWED = 1.25
_NOW = {
    Method.PAGEABLE: "one after the other, by pageable memory",
    Method.EXPLICIT: "one after the other, by pinned memory",
    Method.STREAMS: "overlapped, by pinned memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Advise(Analysis):
    """Say what pinned memory, streams, mapped memory or batches would gain, and when not.

    Takes a watch with its kernels ('watch --kernels'), or runs a program and watches it: that
    keeps its input, output and exit code, and the advice goes to standard error.

    Attributes
    ----------
    run
        A watch: its folder or name, ``latest``, or an SQLite export of Nsight Systems.
    parameters
        Link parameters: a name that ships, a GPU such as ``a100-sxm``, a file, a run of ``model
        fit``, or a `LinkParameters`; None for those of this machine.
    predictor
        ``replay``, ``equations`` or ``equations-shared``.
    what_if
        Edits in place of advice, such as ``"pin,prefetch"``: what the measured rounds would take.
        One or several of ``pin``, ``async``, ``prefetch``, ``batch``, ``batch=SIZE``, ``defer``,
        ``keep``, ``mapped``, ``copies=FACTOR``, ``kernels=FACTOR``.
    """

    verb: ClassVar[str] = "advise"
    has_charts: ClassVar[bool] = False

    run: StrPath = "latest"
    parameters: Annotated[Parameters, PARAMETERS] = None
    predictor: Annotated[
        str, Option(Value("--predictor"), "replay, equations or equations-shared.", "replay")
    ] = "replay"
    what_if: Annotated[
        str | None, Option(Unread("--what-if"), "Replay the rounds under edits.", metavar="EDITS")
    ] = None

    def result(self, observer: Observer) -> Advised | WhatIf:
        """Return what is advised of a watch, or what edits make of it."""
        return self.advisor()(stored_watch(str(self.run)))

    def advisor(self) -> Callable[[WatchRun], Advised | WhatIf]:
        """Return what advises on a watch, once its parameters and its predictor are there."""
        if self.what_if is not None:
            if self.predictor != "replay":
                raise InputError(
                    f"{argument.what_if} replays measured rounds, and nothing else predicts them; "
                    f"leave {argument.predictor} away"
                )
            return _replaying(parse_edits(self.what_if), self.parameters)
        from lanescope.findings.trace import measured_ceilings

        parameters, predictor = link_parameters(self.parameters), predictor_named(self.predictor)

        def advised(run: WatchRun) -> Advised:
            ceilings = measured_ceilings(run.manifest.machine)
            return Advised(advise(run, parameters, predictor, ceilings), run.manifest)

        return advised


def _replaying(
    edits: tuple[NamedEdit, ...], given: Parameters
) -> Callable[[WatchRun], Advised | WhatIf]:
    """Return what replays a watch under edits; without parameters where no edit needs any."""
    needed = given is not None or any(one.predicts for one in edits)
    parameters = link_parameters(given) if needed else None

    def replaying(run: WatchRun) -> WhatIf:
        phases = phases_of(run)
        found = what_if(phases, edits, parameters)
        names = tuple(one.text for one in edits)
        notes = [_UNREAD] if "keep" in names and not run.timeline.host_copies.hashed.any() else []
        if parameters is None:
            return WhatIf(run, names, None, found, tuple(notes))
        notes += other_machine(run, parameters, phases)
        return WhatIf(run, names, parameters.name, found, tuple(notes))

    return replaying


def stored_watch(name: str) -> WatchRun:
    """Return the watch that is named by its folder or its name, or is a capture of nsys.

    Raises
    ------
    InputError
        If there is none.
    """
    from lanescope.store.folder import find_run
    from lanescope.trace.nsys import read_nsys
    from lanescope.trace.store import read_watch

    path = Path(name)
    if path.is_file():
        return read_nsys(path)
    return read_watch(find_run(name, made_by="advise -- PROGRAM"))


@dataclass(frozen=True, slots=True, repr=False)
class Advised(PagedResult):
    """What is advised of a watch, phase by phase.

    Attributes
    ----------
    manifest
        Of the watch; its page needs it.
    """

    advice: Advice
    manifest: WatchManifest | None = None

    def in_brief(self) -> list[str]:
        """Return of how much it is advice, and the change that gains most."""
        advice = self.advice
        phases = fmt.count_text(len(advice.phases), "phase")
        lines = [
            f"advice on {phases} of a watch of {fmt.seconds_text(advice.seconds)}, by "
            f"{advice.predictor} with the parameters of {advice.parameters}"
        ]
        first = next((one for one in advice.phases if one.advised), None)
        if first is None:
            return [*lines, "No change is advised."]
        phase, change = first.phase, first.advised[0]
        return [
            *lines,
            f"Process {phase.pid} on g{phase.gpu}, phase {phase.number}: {change.kind} gains "
            f"{fmt.estimate_text(change.round_gain_seconds)} of a round (predicted)",
        ]

    def blocks(self) -> list[Section]:
        """Return what each phase does in words, and a table of its changes."""
        return [*self._sections(titled=True)]

    def page_document(self) -> Document:
        """Return the page: the same under the titles of the phases.

        Raises
        ------
        InputError
            If nobody knows which watch it is of.
        """
        manifest = self.manifest
        if manifest is None:
            raise InputError("this advice knows no watch; take that of lanescope.advise(run=RUN)")
        return Document(
            title="lanescope advise",
            heading="What would make its transfers faster",
            started=manifest.started,
            facts=(manifest.machine.name, f"lanescope {manifest.tool_version}"),
            commands=(manifest.command,),
            headline=None,
            sections=(*self._sections(titled=False),),
            tool_version=manifest.tool_version,
        )

    def _sections(self, *, titled: bool) -> Iterator[Section]:
        """Yield all sections; a terminal, which has no headings, needs titles in the text."""
        advice = self.advice
        head = (
            f"Watched {fmt.seconds_text(advice.seconds)}. Predicted by {advice.predictor} with the "
            f"parameters of {advice.parameters}; in brackets 95 % intervals. Each change is "
            "predicted on its own: gains must not be added up. Kernels and the host are taken to "
            "need as long as in this run."
        )
        yield Section("advice", "Advice", [Text(head)])
        for at, one in enumerate(advice.phases):
            command = advice.commands.get(one.phase.pid, "")
            section = phase_section(one, command, advice.phases[:at])
            yield section if titled else replace(section, blocks=section.blocks[1:])
        if advice.notes:
            yield Section("notes", "Notes", [*map(Text, advice.notes)])

    def as_dict(self) -> dict[str, Any]:
        """Return all phases and changes; times are seconds."""
        advice = self.advice
        return {
            "version": self.schema,
            "seconds": advice.seconds,
            "parameters": advice.parameters,
            "predictor": advice.predictor,
            "phases": [
                {**_phase_fields(one), "command": advice.commands.get(one.phase.pid)}
                for one in advice.phases
            ],
            "notes": list(advice.notes),
        }


def phase_section(one: PhaseAdvice, command: str, above: Sequence[PhaseAdvice] = ()) -> Section:
    """Return one phase: what it does, what the model says of that, and its changes.

    Parameters
    ----------
    above
        Phases that are shown before; what stands there is not said again.
    """
    phase, advised = one.phase, one.advised
    named = f" ({shortened(command, _MOST_COMMAND)})" if command else ""
    title = f"Process {phase.pid}{named} on g{phase.gpu}, phase {phase.number}"
    blocks: list[Block] = [Text(title, Style.STRONG)]
    key = f"phase-{phase.pid}-{phase.gpu}-{phase.number}"
    if once := _once(one, above):
        blocks += map(Text, [*[*_measured(phase)][:2], once])
        return Section(key, title, blocks)
    blocks += map(Text, [*_measured(phase), *_present(one), *one.notes])
    if advised:
        blocks += [_table(advised), Bullets([*_in_words(one, advised)])]
        blocks += _code(advised, above)
        if conditions := _grouped(advised, lambda change: change.conditions):
            blocks += [Text("Only if:"), Bullets(conditions)]
    elif one.changes or one.described:
        blocks.append(Text("No change is advised."))
    if one.not_worth:
        blocks += [Text("Not worth it:"), Bullets(_not_worth(one.not_worth))]
    return Section(key, title, blocks)


def _once(one: PhaseAdvice, above: Sequence[PhaseAdvice]) -> str | None:
    """Return what is said of a phase that ran once, below others; None where that is not enough.

    The begin of a loop is advised what the loop is. What pins memory is nothing for one round.
    """
    advised, own = one.advised, (one.phase.pid, one.phase.gpu)
    others = [o for o in above if (o.phase.pid, o.phase.gpu) == own and o.advised]
    if not advised or not others or one.phase.rounds_in_run > 1:
        return None
    if {change.kind for change in advised} <= {c.kind for other in others for c in other.advised}:
        return "It ran once; what is advised above holds for it, too."
    if any(change.gain_seconds is not None for change in advised):
        return None
    gain = fmt.estimate_text(advised[0].round_gain_seconds)
    return (
        "It ran once, and to pin memory for one round takes longer than it gains. Done again and "
        f"again with the same buffers, {advised[0].kind} would gain {gain} of it (predicted)."
    )


def _measured(phase: Phase) -> Iterator[str]:
    """What a round does and takes, all of it measured."""
    rounds = fmt.count_text(phase.rounds_in_run, "round")
    known = "" if phase.rounds == phase.rounds_in_run else f" (of which {phase.rounds} were seen)"
    period = phase.period_seconds
    every = "" if period is None else f", one every {fmt.seconds_text(period.value)}"
    copies = "; ".join(map(_copy, phase.copies))
    kernels = "no kernel" if phase.kernel_seconds is not None else "kernels were not traced"
    if phase.kernel_seconds is not None and phase.launches:
        launches = fmt.count_text(phase.launches, "kernel or memset", "kernels and memsets")
        kernels = f"{launches} in {fmt.seconds_text(phase.kernel_seconds.value)}"
    mean = phase.mean_seconds.value
    unlike = abs(mean - phase.seconds.value) > _UNLIKE * phase.seconds.value
    in_the_mean = f", {fmt.seconds_text(mean)} in the mean" if unlike else ""
    yield f"Measured: {rounds}{known} of {fmt.estimate_text(phase.seconds)}{in_the_mean}{every}."
    yield f"A round: {copies}; {kernels}; on {fmt.count_text(phase.streams, 'stream')}."
    if phase.call_gap_seconds is not None:
        yield (
            f"From one copy's call to the next the program takes "
            f"{fmt.seconds_text(phase.call_gap_seconds)} ('model predict --host-time')."
        )
    hidden, pauses = phase.hidden_seconds.value, phase.host_seconds.value
    behind = f"{fmt.seconds_text(hidden)} of copies are" if hidden else "No copy is"
    of_which = f", of which {fmt.seconds_text(pauses)} are pauses of the host" if pauses else ""
    yield (
        f"{behind} hidden behind kernels or copies the other way; the GPU is idle for "
        f"{fmt.seconds_text(phase.idle_seconds.value)}{of_which}."
    )


def _copy(kind: CopyKind) -> str:
    count = round(kind.count)
    calls = "asynchronous" if kind.asynchronous else "synchronous"
    size = fmt.bytes_text(kind.typical_bytes)
    if kind.least_bytes != kind.most_bytes:
        size = f"{fmt.bytes_text(kind.least_bytes)} to {fmt.bytes_text(kind.most_bytes)}"
    noun = f"{calls} {kind.direction} {'copy' if count == 1 else 'copies'}"
    return f"{count} {noun} of {size}, {kind.memory.label} memory, {fmt.seconds_text(kind.seconds)}"


def _present(one: PhaseAdvice) -> Iterator[str]:
    """What the model says of a phase as it is."""
    phase = one.phase
    if phase.method is not None:
        cut = f" in {phase.parts} parts" if phase.method is Method.STREAMS else ""
        yield f"That is {phase.method}: {_NOW[phase.method]}{cut}."
    if one.predicted_seconds is not None and one.error is not None and one.described:
        pauses = " without the host's pauses" if phase.host_seconds.value else ""
        yield (
            f"Predicted as it is{pauses}: {fmt.estimate_text(one.predicted_seconds)}, "
            f"{one.error * 100:+.1f} % against measured."
        )
    slowed = phase.slowed_by_kernels
    if one.reason is not None and slowed is not None and slowed > _SLOWED:
        yield (
            f"Copies to the GPU take {slowed:.1f} times as long while kernels run as without: "
            "kernels that read or write mapped host memory use the link, too, and a trace does "
            "not show it."
        )
    if one.reason is not None:
        alone = "The changes below come from the replay of measured rounds alone."
        yield (
            f"The model does not describe this phase: {one.reason}. "
            f"{alone if one.changes else 'It advises nothing.'}"
        )


def _table(changes: Sequence[Change]) -> Table:
    columns = [
        Column("", Kind.COUNT),
        Column("change"),
        Column("gain of a round", Kind.SECONDS),
        Column("share", Kind.SHARE),
    ]
    rows: list[list[BlockValue]] = [
        [number, change.kind, change.round_gain_seconds, change.effect]
        for number, change in enumerate(changes, 1)
    ]
    gains = [change.gain_seconds for change in changes]
    if any(gains):
        columns.append(Column("of the run", Kind.SECONDS, hint="Gain of all rounds of the run"))
        for row, gain in zip(rows, gains, strict=True):
            row.append(None if gain is None else gain.value)
    return Table("", columns, [Group(rows)])


def _in_words(one: PhaseAdvice, changes: Sequence[Change]) -> Iterator[str]:
    now = fmt.seconds_text(one.base_seconds)
    for number, change in enumerate(changes, 1):
        then = fmt.estimate_text(change.seconds)
        remedy = f"{change.remedy[0].upper()}{change.remedy[1:]}"
        yield f"{number}. {remedy}: a round takes {then} in place of {now}."
    apart = [str(n) for n, c in enumerate(changes, 1) if any(map(c.excludes, changes))]
    if apart:
        yield f"Of {enumeration(apart)} a program can take one."
    yield from (
        f"Predicted by {line}." for line in _grouped(changes, lambda c: c.evidence, after=True)
    )


def _code(changes: Sequence[Change], above: Sequence[PhaseAdvice]) -> Iterator[Block]:
    """The steps of all changes in the program's language, each once."""
    where: dict[Snippet, list[int]] = {}
    for number, change in enumerate(changes, 1):
        for snippet in change.code:
            where.setdefault(snippet, []).append(number)
    shown = {snippet for one in above for change in one.advised for snippet in change.code}
    new = [snippet for snippet in where if snippet not in shown]
    if len(new) < len(where):
        old = [snippet.what for snippet in where if snippet in shown]
        yield Text(f"Code of {', '.join(old)}: see above.")
    for snippet in new:
        yield CodeListing(snippet, _numbers(where[snippet], changes))


def _grouped(
    changes: Sequence[Change],
    lines: Callable[[Change], Sequence[str]],
    *,
    after: bool = False,
) -> list[str]:
    """Return lines of changes, each once with the numbers of the changes that have it."""
    where: dict[str, list[int]] = {}
    for number, change in enumerate(changes, 1):
        for line in lines(change):
            where.setdefault(line, []).append(number)
    found = [(line, _numbers(numbers, changes)) for line, numbers in where.items()]
    return [f"{line} ({which})" if after else f"({which}) {line}" for line, which in found]


def _not_worth(changes: Sequence[Change]) -> list[str]:
    kinds: dict[str, list[str]] = {}
    for change in changes:
        kinds.setdefault(change.why or "", []).append(change.kind)
    return [f"{', '.join(same)}: {why}" for why, same in kinds.items()]


def _numbers(numbers: Sequence[int], changes: Sequence[Change]) -> str:
    return "all" if len(numbers) == len(changes) > 1 else ", ".join(map(str, numbers))


def _phase_fields(one: PhaseAdvice) -> dict[str, Any]:
    phase = one.phase
    return {
        "pid": phase.pid,
        "gpu": phase.gpu,
        "number": phase.number,
        "measured": {name: _plain(getattr(phase, name)) for name in _MEASURED},
        "method": phase.method,
        "parts": phase.parts,
        "waited": list(phase.waited),
        "endless": phase.endless,
        "workload": asdict(phase.workload),
        "base_seconds": one.base_seconds,
        "predicted_seconds": _plain(one.predicted_seconds),
        "predicted_over_measured": None if one.error is None else one.error + 1,
        "described": one.described,
        "reason": one.reason,
        "changes": [_change_fields(change, one.changes) for change in one.changes],
        "notes": list(one.notes),
    }


#: What was measured of a phase.
_MEASURED = (
    *("rounds", "rounds_in_run", "seconds", "mean_seconds", "period_seconds"),
    *("h2d_seconds", "d2h_seconds"),
    *("kernel_seconds", "hidden_seconds", "idle_seconds", "host_seconds", "copies", "streams"),
    *("launches", "call_gap_seconds", "part_seconds", "slowed_by_kernels"),
)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [asdict(kind) | {"memory": kind.memory.label} for kind in value]
    return asdict(value) if isinstance(value, Estimate) else value


def _change_fields(change: Change, others: tuple[Change, ...]) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "steps": list(change.steps),
        "waits_once": change.waits_once,
        "sentence": change.remedy,
        "method": change.method,
        "streams": change.streams,
        "predicted_seconds": _plain(change.seconds),
        "predicted_gain_seconds": _plain(change.round_gain_seconds),
        "predicted_run_gain_seconds": _plain(change.gain_seconds),
        "worth": change.worth,
        "why_not": change.why,
        "conditions": list(change.conditions),
        "predicted_pin_seconds": _plain(change.pin_seconds),
        "break_even_rounds": change.break_even_rounds,
        "basis": change.evidence[0],
        "code": "\n".join(one.after for one in change.code if one.after) or None,
        "snippets": [asdict(one) for one in change.code],
        "excludes": [other.kind for other in others if change.excludes(other)],
    }
