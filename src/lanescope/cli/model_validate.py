"""``lanescope model validate``: what is predicted against what is measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.combinations import Excludes, combines
from lanescope.cli.model import ParametersOption
from lanescope.cli.options import JsonOption, OutOption, option, part_option
from lanescope.units.values import File, Value

if TYPE_CHECKING:
    from lanescope.model.transfer.parameters import LinkParameters
    from lanescope.model.validation.measured import Validation

#: The first one's cases are shown.
_PREDICTORS = ("replay", "equations")


@combines(Excludes("RUN", ("--gpu", "--grid", "--out"), "was measured already"))
def validate(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="A stored run, which is predicted again; no GPU is needed."
        ),
    ] = None,
    machine: ParametersOption = None,
    gpu: Annotated[int | None, part_option("--gpu", "GPU to measure; default 0.")] = None,
    grid: Annotated[
        str | None,
        option(
            Value("--grid"),
            metavar="XxYxZ",
            help="Points of the grids; default 1024x1024x42, the paper's.",
        ),
    ] = None,
    out: OutOption = None,
    json: JsonOption = False,
    plot: Annotated[
        Path | None,
        option(
            File("--plot", (".svg", ".png")),
            metavar="FILE",
            help="Draw measured and predicted bars to a .svg or .png file.",
        ),
    ] = None,
    predictor: Annotated[
        str | None,
        option(
            Value("--predictor"),
            metavar="NAME",
            help="equations, equations-shared or replay; default: replay, with equations beside it "
            "in the summary.",
        ),
    ] = None,
) -> None:
    """Run kernels by every method, predict each, and tell how far off that is.

    Kernels of an ocean model and two more, by Explicit, Streams, Implicit, Hybrid and Pageable;
    their outputs are compared with NumPy's. Predicted is from the parameters of 'model fit' and
    the time of each kernel alone.
    """
    from lanescope.cli.output import console
    from lanescope.model.overlap.predictors import predictor_named
    from lanescope.model.validation.compare import compare

    predictors = [predictor_named(name) for name in ([predictor] if predictor else _PREDICTORS)]
    if run is not None:
        validation, known = _stored(run, machine)
    else:
        validation, known = _measured(machine, gpu or 0, grid, out)
    compared = [compare(validation, known, one) for one in predictors]
    if plot is not None:
        from lanescope.report.validate_chart import write_bars

        write_bars(validation, compared[0], plot)
    if json:
        from lanescope.report.validate_json import validate_json

        print(validate_json(validation, compared))
    else:
        from lanescope.report.validate_tables import validate_parts

        shown = console()
        for part in validate_parts(validation, compared):
            shown.print(part, soft_wrap=isinstance(part, str))
    raise typer.Exit(1 if validation.wrong else 0)


def _stored(run: str, machine: str | None) -> tuple[Validation, LinkParameters]:
    """Read a run, and the parameters: those that are named, else its own, else this machine's."""
    from lanescope.errors import InputError
    from lanescope.model.transfer.stored import named_parameters
    from lanescope.model.validation.measured import find, load

    validation = load(find(run))
    if not validation.cases:
        raise InputError(f"{run!r} ended before the first case was measured; run it again")
    if machine is None and validation.parameters is not None:
        return validation, validation.parameters
    return validation, named_parameters(machine)


def _measured(
    machine: str | None, gpu: int, grid: str | None, out: Path | None
) -> tuple[Validation, LinkParameters]:
    from lanescope.grid.sides import parse_sides
    from lanescope.machine import discover
    from lanescope.model.transfer.stored import named_parameters
    from lanescope.model.validation.cases import GRID
    from lanescope.model.validation.measured import FILE
    from lanescope.model.validation.measuring import require_gpu
    from lanescope.model.validation.recording import record
    from lanescope.run.folders import new_run_folder, require_new

    sides = GRID if grid is None else parse_sides(grid, "--grid", "1024x1024x42")
    here = discover()
    require_gpu(here, gpu)
    known = named_parameters(machine)  # before anything is measured in vain
    folder = out or new_run_folder("validate")
    require_new(folder)
    from lanescope.cli.output import progress_bar

    with progress_bar("an ocean") as progress:
        try:
            return record(here, gpu, sides, known, folder, progress=progress), known
        finally:
            if (folder / FILE).is_file():
                print(
                    f"run: {folder}; 'lanescope model validate {folder}' shows it again",
                    file=sys.stderr,
                )
