"""Advice on a terminal: what each phase does in words, and a table of changes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from lanescope.model.advice.advice import Advice, PhaseAdvice
from lanescope.model.advice.change import Change
from lanescope.model.advice.phase import CopyKind, Phase
from lanescope.model.overlap.methods import Method
from lanescope.model.transfer.estimate import Estimate
from lanescope.report import format as fmt
from lanescope.report.summary_text import table_lines

_MOST_COMMAND = 60

_NOW = {
    Method.PAGEABLE: "one after the other, by pageable memory",
    Method.EXPLICIT: "one after the other, by pinned memory",
    Method.STREAMS: "overlapped, by pinned memory",
}


def advice_text(advice: Advice) -> Text:
    """Return what is advised, phase by phase."""
    blocks = [
        [
            f"Watched {fmt.seconds_text(advice.seconds)}. Predicted by {advice.predictor} with the "
            f"parameters of {advice.parameters}; in brackets 95 % intervals. Each change is "
            "predicted on its own: gains must not be added up.",
        ],
        *(phase_lines(one, advice.commands.get(one.phase.pid, "")) for one in advice.phases),
        list(advice.notes),
    ]
    text = Text("\n\n".join("\n".join(block) for block in blocks if block))
    text.highlight_regex(r"(?m)^Process .*", "bold")
    return text


def phase_lines(one: PhaseAdvice, command: str) -> list[str]:
    """Return the lines of one phase."""
    phase = one.phase
    name = f" ({_short(command)})" if command else ""
    lines = [
        f"Process {phase.pid}{name} on g{phase.gpu}, phase {phase.number}",
        *_measured(phase),
        *_present(one),
        *one.notes,
    ]
    advised = one.advised
    if advised:
        lines += ["", *table_lines(_table(advised, phase)), *_told(advised)]
    elif one.described:
        lines.append("No change is advised.")
    if one.not_worth:
        lines.append("Not worth it:")
        lines += [
            f"  {c.kind}: round {_interval(c.seconds)} (predicted); {c.why}" for c in one.not_worth
        ]
    return lines


def _measured(phase: Phase) -> list[str]:
    """Return what a round does and takes, all of it measured."""
    rounds = fmt.count_text(phase.rounds_in_run, "round")
    known = "" if phase.rounds == phase.rounds_in_run else f" (of which {phase.rounds} were seen)"
    period = phase.period_seconds
    every = "" if period is None else f", one every {fmt.seconds_text(period.value)}"
    copies = "; ".join(map(_copy, phase.copies))
    kernels = "kernels were not traced"
    if phase.kernel_seconds is not None:
        launches = fmt.count_text(phase.launches, "kernel or memset", "kernels and memsets")
        kernels = f"{launches} in {fmt.seconds_text(phase.kernel_seconds.value)}"
    return [
        f"Measured: {rounds}{known} of {_interval(phase.seconds)}{every}.",
        f"A round: {copies}; {kernels}; on {fmt.count_text(phase.streams, 'stream')}.",
        f"Of its time {fmt.seconds_text(phase.hidden_seconds.value)} of copies are hidden behind "
        f"kernels or copies the other way; the GPU is idle for "
        f"{fmt.seconds_text(phase.idle_seconds.value)}, of which "
        f"{fmt.seconds_text(phase.host_seconds.value)} are pauses of the host.",
    ]


def _copy(kind: CopyKind) -> str:
    count = round(kind.count)
    way = "asynchronous" if kind.asynchronous else "synchronous"
    size = (
        fmt.bytes_text(kind.typical_bytes)
        if kind.least_bytes == kind.most_bytes
        else (f"{fmt.bytes_text(kind.least_bytes)} to {fmt.bytes_text(kind.most_bytes)}")
    )
    noun = f"{way} {kind.way} {'copy' if count == 1 else 'copies'}"
    return f"{count} {noun} of {size}, {kind.memory.label} memory, {fmt.seconds_text(kind.seconds)}"


def _present(one: PhaseAdvice) -> list[str]:
    phase = one.phase
    lines = []
    if phase.method is not None:
        cut = f" in {phase.parts} parts" if phase.method is Method.STREAMS else ""
        lines.append(f"That is {phase.method}: {_NOW[phase.method]}{cut}.")
    if one.predicted_seconds is not None and one.error is not None:
        pauses = " without the host's pauses" if phase.host_seconds.value else ""
        lines.append(
            f"Predicted as it is{pauses}: {_interval(one.predicted_seconds)}, "
            f"{one.error * 100:+.1f} % against measured."
        )
    if one.reason is not None:
        lines.append(f"The model does not describe this phase: {one.reason}. It advises nothing.")
    return lines


def _table(changes: Sequence[Change], phase: Phase) -> list[tuple[str, ...]]:
    head = (
        "",
        "change",
        "round, predicted",
        "gain of a round",
        "share",
        "gain of the run",
        "not with",
    )
    rows: list[tuple[str, ...]] = [head]
    for number, change in enumerate(changes, 1):
        others = [str(i) for i, other in enumerate(changes, 1) if change.excludes(other)]
        rows.append(
            (
                str(number),
                change.kind,
                _interval(change.seconds),
                _interval(change.gain_seconds),
                fmt.percent_text(change.gain_seconds.value / phase.seconds.value),
                _interval(change.run_gain_seconds),
                ", ".join(others),
            )
        )
    return rows


def _told(changes: Sequence[Change]) -> list[str]:
    """Return each change in words; conditions that several share are told once."""
    lines: list[str] = []
    where: dict[str, list[int]] = {}
    for number, change in enumerate(changes, 1):
        lines.append(
            f"{number}. {change.sentence[0].upper()}{change.sentence[1:]}; {change.basis}."
        )
        for condition in change.conditions:
            where.setdefault(condition, []).append(number)
    if where:
        lines.append("Only if:")
    for condition, numbers in where.items():
        of = "all" if len(numbers) == len(changes) else ", ".join(map(str, numbers))
        lines.append(f"  ({of}) {condition}")
    return lines


def _interval(one: Estimate) -> str:
    if one.low == one.high:
        return fmt.seconds_text(one.value)
    if one.low < 0:
        value, low, high = (_signed(seconds) for seconds in (one.value, one.low, one.high))
        return f"{value} ({low} to {high})"
    return f"{fmt.seconds_text(one.value)} ({fmt.time_spread_text(one.low, one.high)})"


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{fmt.seconds_text(abs(seconds))}"


def _short(command: str) -> str:
    return command if len(command) <= _MOST_COMMAND else f"{command[: _MOST_COMMAND - 1]}…"
