"""``lanescope model fit``: measures what transfers between the host and a GPU cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.combinations import Excludes, combines
from lanescope.cli.options import JsonOption, OutOption, budget_option, option, part_option
from lanescope.units.values import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lanescope.machine import Machine
    from lanescope.model.transfer.parameters import LinkParameters
    from lanescope.model.transfer.samples import Measured

#: For each of the points, which are about 560.
_DEFAULT_BUDGET = 0.02


@combines(Excludes("RUN", ("--gpu", "--budget"), "was measured already"))
def model_fit(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Fit the samples of this run again; no GPU needed."),
    ] = None,
    gpu: Annotated[int, part_option("--gpu", "Which GPU.", "0")] = 0,
    budget: Annotated[
        float,
        budget_option("Sampling time for one point, about.", "0.02", most=60),
    ] = _DEFAULT_BUDGET,
    out: OutOption = None,
    json: JsonOption = False,
    plots: Annotated[
        Path | None,
        option(
            Folder("--plots"),
            metavar="DIR",
            help="Draw the transfers that were not fitted, measured and predicted, as SVG.",
        ),
    ] = None,
) -> None:
    """Measure L + o, G and g of a GPU's link, and all else that predictions take.

    Copies of 8 B to 1 GiB on 1 to 256 streams, both ways at once, kernels on mapped memory,
    pageable memory, launches; a fifth of the points is not fitted but compared.

    The fit is kept for this machine: `predict`, `validate` and `advise` take it.
    """
    from lanescope.cli.output import console
    from lanescope.cli.report import result_path
    from lanescope.model.transfer.fit import is_usable
    from lanescope.model.transfer.fit_run import fit_folder
    from lanescope.model.transfer.stored import FILE, dumps, keep, save

    folder = _stored(run) if run is not None else _measured(gpu, budget, out)
    parameters, measured = fit_folder(folder)
    if run is None or out is not None:
        save(parameters, (out or folder) / FILE)
    elif not json:
        save(parameters, result_path(folder, FILE))
    if run is None and is_usable(parameters):
        keep(parameters)
    if plots is not None:
        _draw(parameters, measured, plots)
    if json:
        print(dumps(parameters), end="")
        return
    from lanescope.report.fit_tables import fit_parts

    screen = console()
    for part in fit_parts(parameters, measured):
        screen.print(part, soft_wrap=isinstance(part, str))


def _draw(parameters: LinkParameters, measured: Sequence[Measured], folder: Path) -> None:
    from lanescope.codec.atomic import writing_to
    from lanescope.model.transfer.parameters import Way
    from lanescope.report.chart_files import write_chart
    from lanescope.report.fit_chart import fit_chart

    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for way in Way:
        write_chart(fit_chart(parameters, measured, way), folder / f"fit-{way}.svg")


def _stored(run: str) -> Path:
    from lanescope.model.transfer.fit_run import FACTS
    from lanescope.run.folders import default_runs_folder

    for folder in (Path(run), default_runs_folder() / run):
        if (folder / FACTS).is_file():
            return folder
    return Path(run)


def _measured(gpu: int, budget: float, out: Path | None) -> Path:
    import sys

    from lanescope.cli.output import progress_bar
    from lanescope.errors import InputError, MissingPartError, NotMeasuredError
    from lanescope.machine import discover
    from lanescope.model.transfer.fit_run import facts_of, store_samples
    from lanescope.run.folders import new_run_folder

    machine = discover()
    if gpu not in {one.index for one in machine.gpus}:
        raise MissingPartError(
            f"there is no GPU {gpu} here to be measured; 'lanescope model fit RUN' fits stored "
            "samples again, and 'lanescope model predict --machine NAME' takes the parameters of "
            "another machine"
        )
    facts = facts_of(machine, gpu, "lanescope model fit")
    folder = out or new_run_folder("fit")
    try:
        with progress_bar("allocating") as show:
            store_samples(folder, machine, facts, _points(machine, gpu, budget, show))
    except NotMeasuredError as error:
        raise InputError(f"g{gpu} cannot be measured: {error}") from error
    finally:
        print(f"run:  {folder}", file=sys.stderr)
    return folder


def _points(
    machine: Machine,
    gpu: int,
    budget: float,
    show: Callable[[str, int, int | None], None] | None,
) -> Iterator[Measured]:
    from lanescope.model.transfer.measuring import ROUNDS, TransferBench, measure_all
    from lanescope.model.transfer.points import plan

    points = plan()
    timed = measure_all(TransferBench(machine, gpu), points, budget)
    for done, one in enumerate(timed, start=1):
        if show is not None:
            show(f"{one.point.kind}", done, max(done, ROUNDS * len(points)))
        yield one
