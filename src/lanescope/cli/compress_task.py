"""Measures arrays for ``lanescope bench compress``, and stores what there is as it goes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from lanescope.cli.compress_gpus import GpuPlan
from lanescope.compression.arrays import Entry, Opened
from lanescope.compression.device import Device
from lanescope.compression.stream import Codec
from lanescope.studies.compress.json import CompressRequest
from lanescope.studies.compress.measuring import array_results
from lanescope.studies.compress.on_gpus import Gpus
from lanescope.studies.compress.results import ArrayResult

#: In a run folder.
FILE = "compress.json"
#: Of the time at most this share goes into writing: a file of hundreds of tensors grows long.
_WRITING_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be measured.

    Attributes
    ----------
    budget_seconds
        Of the host's CPUs; None: not their speeds.
    plan
        None: nothing on GPUs.
    codecs
        Which are measured, besides raw; None: all that there are.
    """

    opened: Opened
    device: Device
    dimensionalities: Sequence[int]
    budget_seconds: float | None
    asked: CompressRequest
    plan: GpuPlan | None = None
    codecs: tuple[Codec, ...] | None = None


def measured(task: Task, out: Path | None) -> tuple[ArrayResult, ...]:
    """Measure all arrays; what there is when this is cut off is stored.

    Raises
    ------
    InputError
        If the folder cannot be written to, or something cannot be measured.
    MismatchError
        If an array does not come back as it was.
    """
    from lanescope.cli.output import progress_bar
    from lanescope.codec.atomic import write_atomically, writing_to
    from lanescope.studies.compress.json import compress_json

    folder = _new_folder(out)
    results: list[ArrayResult] = []
    entries = task.opened.entries

    def write(*, complete: bool = False) -> None:
        text = compress_json(results, task.asked, task.opened.left_out, complete=complete)
        with writing_to(folder):
            write_atomically(folder / FILE, text.encode())

    write()  # a kill before the first codec leaves a run that reads back, too
    due, complete = 0.0, False
    try:
        with (
            progress_bar("looking at the arrays") as show,
            task.plan.begin() if task.plan is not None else nullcontext() as gpus,
        ):
            for done, entry in enumerate(entries):

                def on_step(step: str, name: str = entry.name, done: int = done) -> None:
                    if show is not None:
                        show(f"{name}: {step}", done, len(entries))

                for result in _steps(task, entry, gpus, on_step):
                    results[done:] = [result]
                    begun = time.monotonic()
                    if begun >= due:
                        write()
                        ended = time.monotonic()
                        due = ended + (ended - begun) / _WRITING_SHARE
        complete = True
    finally:
        if results:
            write(complete=complete)
            print(f"run:  {folder / FILE}", file=sys.stderr)
    return tuple(results)


def _steps(
    task: Task, entry: Entry, gpus: Gpus | None, on_step: Callable[[str], object]
) -> Iterator[ArrayResult]:
    """Yield what is known of an array, more each time."""
    for result in array_results(
        entry, task.device, task.dimensionalities, task.budget_seconds, on_step, task.codecs
    ):
        yield result
    if gpus is not None:
        yield from gpus.measure(result, entry.load(), on_step)


def _new_folder(out: Path | None) -> Path:
    from lanescope.codec.atomic import writing_to
    from lanescope.store.folders import new_run_folder, require_new

    folder = out or new_run_folder("compress")
    with writing_to(folder):
        require_new(folder)
        folder.mkdir(parents=True, exist_ok=True)
    return folder
