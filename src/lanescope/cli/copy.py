"""``lanescope copy``: any copies at the same time."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from lanescope.cli.combinations import ONE_FORMAT, PREDICTED, combines
from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    JsonOption,
    MachineOption,
    OutOption,
    StrictOption,
    WithinOption,
    budget_option,
    plan_of,
    samples_option,
    size_option,
    target_option,
)
from lanescope.errors import InputError
from lanescope.units.values import quoted


@combines(ONE_FORMAT, PREDICTED)
def copy(
    copies: Annotated[
        list[str],
        typer.Argument(
            metavar="COPIES",
            help="Such as 'h0 -> g0 @ce, g1 -> h0 @sm:16 64MiB, g0 <-> g1', in quotation marks; "
            "or without them h0 to g0.",
        ),
    ],
    size: Annotated[
        int, size_option("--size", "Bytes of a copy that names none.", shown="512MiB")
    ] = 512 << 20,
    samples: Annotated[int | None, samples_option()] = None,
    budget: Annotated[float, budget_option("Sampling time, at most.", "1.0")] = 1.0,
    target: Annotated[float, target_option("0.5%")] = 0.005,
    within: WithinOption = None,
    machine: MachineOption = None,
    out: OutOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    strict: StrictOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Measure copies that run at the same time, each and in sum, against what links allow.

    A copy is 'FROM -> TO', or FROM to TO, with options: a size (64MiB), an engine (@ce,
    @sm:16 for a kernel on 16 SMs, @cpu:4 for host threads), 'by g1' for who does it, 'on 0-3' for
    CPUs. h0.pageable names a kind of memory, '<->' copies both ways, '3x h0 -> g0'
    three times at once.
    """
    from lanescope import api
    from lanescope.cli.output import progress_on_terminal, show_run

    plan = plan_of(target, budget, within, samples=samples)
    _require_whole(copies)
    with progress_on_terminal() as progress:
        run = api.copy(
            " ".join(copies),
            machine,
            size_bytes=size,
            plan=plan,
            allow_busy=allow_busy,
            out=out,
            progress=progress,
        )
    raise typer.Exit(show_run(run, json=json, csv=csv, strict=strict))


def _require_whole(words: Sequence[str]) -> None:
    """Refuse words that the shell has changed.

    Of ``h0 -> g0`` without quotation marks ``h0 -`` is left, and our output is the file ``g0``.

    Raises
    ------
    InputError
        If a word ends with half an arrow, or is blank, as an empty variable of the shell is.
    """
    if len(words) > 1 and not all(word.strip() for word in words):
        raise InputError("one of the words that name copies is blank; leave it out")
    if not any(word.endswith(("-", "=")) for word in words):
        return
    written = ""
    with suppress(OSError, AttributeError, ValueError):  # no output, or none that is a file
        if stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
            file = Path(os.readlink(f"/proc/self/fd/{sys.stdout.fileno()}")).name
            written = f" and made the file {quoted(file)}, which you may delete"
    raise InputError(
        f"the shell took '>' for a redirection{written}; put the copies into quotation marks, as "
        "in 'h0 -> g0', or write h0 to g0"
    )
