"""``lanescope topo``: the machine as a tree and as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lanescope.cli.options import (
    Excludes,
    ExpectGpusOption,
    ExpectOption,
    JsonOption,
    MachineOption,
    combines,
    option,
)
from lanescope.errors import ExitCode
from lanescope.units.values import File, Folder


@combines(Excludes("--record", ("--machine",), "records this machine, --machine names another"))
def topo(
    machine: MachineOption = None,
    save: Annotated[
        Path | None, option(File("--save", (".toml",)), "Save as a machine file for --machine.")
    ] = None,
    svg: Annotated[
        Path | None, option(File("--svg", (".svg",)), "Draw the machine into this file.")
    ] = None,
    record: Annotated[
        Path | None,
        option(
            Folder("--record"),
            "Record this machine for a bug report, without its names and serial numbers.",
        ),
    ] = None,
    expect: ExpectOption = None,
    expect_gpus: ExpectGpusOption = None,
    json: JsonOption = False,
) -> None:
    """Show what is in this machine and how it is linked.

    With --expect or --expect-gpus: exit code 4 where something is missing or different.
    """
    from lanescope.cli.output import console
    from lanescope.codec.files import write_text
    from lanescope.studies.running import machine_differences, resolve_machine

    if record is not None:
        _record(record)
    resolved = resolve_machine(machine)
    missing = machine_differences(resolved, expect, expect_gpus)
    if save is not None:
        from lanescope.machine import save_machine

        save_machine(resolved, save)
    if svg is not None:
        from lanescope.report.topology_svg import topology_svg

        write_text(svg, topology_svg(resolved))
    if json:
        import dataclasses
        from json import dumps

        print(dumps(dataclasses.asdict(resolved), indent=2))
    else:
        from lanescope.report.terminal import machine_tree

        console().print(machine_tree(resolved))
    for difference in missing:
        print(f"missing: {difference}", file=sys.stderr)
    raise typer.Exit(ExitCode.NOT_AS_EXPECTED if missing else ExitCode.OK)


def _record(folder: Path) -> None:
    from lanescope.errors import InputError
    from lanescope.machine.snapshot import redacted, take_snapshot

    try:
        redacted(take_snapshot(), folder.name).save(folder)
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}; name another") from error
