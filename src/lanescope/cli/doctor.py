"""``lanescope doctor``: which ways of watching work here, and what stands in the way of others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.options import JsonOption, flag
from lanescope.cli.terminal_text import wrapped
from lanescope.errors import ExitCode

if TYPE_CHECKING:
    from lanescope.machine import Machine
    from lanescope.watching.source_choice import Examined


def doctor(
    as_json: JsonOption = False,
    cost: Annotated[
        bool, flag("--cost", "Also measure what tracing costs a program here, in a minute.")
    ] = False,
) -> None:
    """Say which sources of watch work on this machine, and for each other why not and what to do.

    Each is tried for a moment. The exit code is 0 when at least one works, 4 otherwise.
    """
    import tempfile

    from lanescope.machine import discover
    from lanescope.watching.source_choice import examine

    machine = discover()
    with tempfile.TemporaryDirectory() as folder:
        found = examine(machine, Path(folder))
    if as_json:
        import dataclasses
        import json

        print(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
    else:
        _print(machine, found)
    if cost:
        _measure_cost(machine, as_json)
    raise typer.Exit(ExitCode.OK if any(one.works for one in found) else ExitCode.NOT_AS_EXPECTED)


def _print(machine: Machine, found: Sequence[Examined]) -> None:
    from lanescope.watching.source_choice import nvlink_text

    width = max((len(one.name) for one in found), default=0)
    for one in found:
        why = " ".join(filter(None, (one.reason, one.remedy)))
        word = "works" if one.works else "does not work."
        line = f"{one.name:{width}}  {word}{' ' + why if why else ''}"
        print(wrapped(line, sys.stdout, " " * (width + 2)))
    if machine.gpus:
        print(wrapped(f"NVLink: {nvlink_text(machine)}", sys.stdout))
    else:
        words = "There is no GPU here that the driver knows: nothing can be watched."
        print(wrapped(words, sys.stdout))


def _measure_cost(machine: Machine, as_json: bool) -> None:
    """Measure what tracing costs, and keep it for the summaries of watches."""
    from lanescope.errors import InputError, MissingPartError, NotMeasuredError
    from lanescope.report.format import seconds_text
    from lanescope.trace.run import store_cost
    from lanescope.watching.cost import TRACING_ROUNDS, TRACING_TURNS, measure_tracing_cost

    if not machine.gpus:
        raise MissingPartError(
            "there is no GPU here to measure what tracing costs; leave out --cost"
        )
    try:
        cost = measure_tracing_cost(machine)
    except NotMeasuredError as error:
        raise InputError(f"what tracing costs cannot be measured: {error}") from error
    path = store_cost(cost)
    stream = sys.stderr if as_json else sys.stdout
    words = (
        f"Tracing: a copy and its call take {seconds_text(cost.copy_seconds)} longer "
        f"({seconds_text(cost.copy_low)} to {seconds_text(cost.copy_high)}), a kernel "
        f"{seconds_text(cost.kernel_seconds)} ({seconds_text(cost.kernel_low)} to "
        f"{seconds_text(cost.kernel_high)}), where the program waits for each: medians and "
        f"range of {TRACING_TURNS} turns of {TRACING_ROUNDS:,} rounds with and without it. "
        f"Kept in {path}."
    )
    print(wrapped(words, stream), file=stream)
