"""``lanescope bench params``: parameter files checked and converted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lanescope.cli.options import option
from lanescope.units.values import File


def params(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_NAME",
            help="A parameter file (TOML, or TARUC's .in), or a suite that ships: default, taruc.",
        ),
    ] = "default",
    out: Annotated[
        Path | None, option(File("--out", (".toml",)), "Where to; default: print it.")
    ] = None,
) -> None:
    """Write the parameters of a suite as TOML, from TARUC's own .in file or any other.

    Checks them on the way: what is wrong is named by line. Every parameter is written, with
    what it means, so that this also makes a file to begin with.
    """
    from lanescope.codec.atomic import write_text
    from lanescope.studies.taruc.parameter_file import parameters_named, parameters_text

    text = parameters_text(parameters_named(file).parameters)
    if out is None:
        print(text, end="")
        return
    write_text(out, text)
    print(out)
