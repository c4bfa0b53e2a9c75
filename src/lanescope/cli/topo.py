"""``lanescope topo``: the machine as a tree and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lanescope.cli.options import JsonOption, MachineOption


def topo(
    machine: MachineOption = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Save as a machine file for --machine."),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the machine into this file.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what is in this machine and how it is linked."""
    from lanescope import api
    from lanescope.cli.output import console, write_text

    resolved = api.resolve_machine(machine)
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
        return
    from lanescope.report.tree import machine_tree

    console().print(machine_tree(resolved))
