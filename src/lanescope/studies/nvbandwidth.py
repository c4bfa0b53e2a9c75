"""``bench``: the cases of nvbandwidth; a run as nvbandwidth prints it, for scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from lanescope.calls import checked
from lanescope.copies.copy import DEFAULT_BYTES
from lanescope.copies.experiment import Case, Matrix
from lanescope.copies.requirements import fitting_size, free_bytes, missing_part, require_fits
from lanescope.engine.sampling import Plan
from lanescope.errors import argument, command
from lanescope.machine import Machine
from lanescope.results import Result
from lanescope.store.run import Run
from lanescope.studies.nvbandwidth_cases import CaseOptions, build_cases, choose, is_of_processes
from lanescope.studies.runs.rows import CellValue, cell_values
from lanescope.studies.study import Study, Work

#: Whose shape it is.
_VERSION = "v0.8"

_MISSING = "N/A"


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Bench(Study):
    """Measure cases of nvbandwidth: copy engines and kernels, one way, both ways, all at once.

    A set of copies that several cases share is measured once. Copies that do not
    fit into memory are made smaller; the run's notes say so.

    Attributes
    ----------
    cases
        Names or numbers of `lanescope.studies.nvbandwidth_cases.case_list`; all for none.
    prefixes
        Beginnings of such names.
    options
        Size and kind of memory.
    affinity
        Bind submitting threads to the CPUs next to the memory.
    """

    verb: ClassVar[str] = "bench"
    title: ClassVar[str] = "Bench"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.3, noisy_seconds=0.15)

    cases: Sequence[str] = ()
    prefixes: Sequence[str] = ()
    options: CaseOptions | None = None
    affinity: bool = True

    def spans_nodes(self) -> bool:
        """Whether all of its cases are of several processes."""
        return all(map(is_of_processes, choose(self.cases, self.prefixes)))

    def work(self, machine: Machine) -> Work:
        """Return the experiments that the cells of the cases need."""
        names = choose(self.cases, self.prefixes)
        if not machine.gpus:
            raise missing_part(
                machine,
                f"machine {machine.name!r} has no GPU, and every case takes one; "
                f"{command('check')} measures host memory, and {argument.machine} takes a "
                "described machine",
            )
        wanted = self.options or CaseOptions()
        if wanted.bytes != DEFAULT_BYTES:  # what somebody chose does not shrink
            require_fits(machine, wanted.bytes)
        size, notes = fitting_size(
            wanted.bytes,
            lambda size: build_cases(machine, names, replace(wanted, bytes=size)).experiments,
            free_bytes(machine),
        )
        built = build_cases(machine, names, replace(wanted, bytes=size))
        return Work(built.experiments, notes=notes, cases=built.cases, affinity=self.affinity)


def nvbandwidth_text(run: Run, *, mean: bool = False, verbose: bool = False) -> str:
    """Return a run of cases as nvbandwidth prints it.

    Parameters
    ----------
    mean
        Cells hold means and not medians.
    verbose
        With every sample, and the least, largest and mean cell of each matrix.
    """
    results = {r.experiment.name: r for r in run.results}
    lines = [*_header_lines(run)]
    for case in run.manifest.cases:
        lines += _case_lines(case, results, mean, verbose)
    return "\n".join(lines) + "\n"


def nvbandwidth_json(run: Run, *, mean: bool = False, verbose: bool = False) -> str:
    """Return a run of cases as nvbandwidth's JSON; see `nvbandwidth_text`."""
    results = {r.experiment.name: r for r in run.results}
    machine = run.manifest.machine
    content: dict[str, Any] = {
        "CUDA Runtime Version": _cuda_number(run),
        "Driver Version": machine.driver or _MISSING,
        "GPU Device list": [
            f"{gpu.index}: {_device_text(gpu.name, gpu.pci_address)}: ({machine.name})"
            for gpu in machine.gpus
        ],
        "git_version": _maker(run),
        "testcases": [_case_json(c, results, mean, verbose) for c in run.manifest.cases],
        "version": _VERSION,
    }
    if run.manifest.notes:
        content["warning"] = " ".join(run.manifest.notes)
    text = json.dumps({"nvbandwidth": content}, indent="\t", separators=(",", " : "))
    return text + "\n"


def _maker(run: Run) -> str:
    return f"lanescope {run.manifest.tool_version}"


def _cuda_number(run: Run) -> int | None:
    """CUDA's own number of a version: 13000 for 13.0."""
    match = re.match(r"(\d+)\.(\d+)", run.manifest.machine.cuda_version or "")
    return int(match[1]) * 1000 + int(match[2]) * 10 if match else None


def _device_text(name: str, pci_address: str | None) -> str:
    match = re.match(r"([0-9a-f]+):([0-9a-f]+):([0-9a-f]+)", pci_address or "", re.I)
    if match is None:  # a machine file may leave it out, or write it otherwise
        return f"{name} ({pci_address or _MISSING})"
    domain, bus, device = (int(number, 16) for number in match.groups())
    return f"{name} ({domain:08x}:{bus:02x}:{device:02x})"


def _header_lines(run: Run) -> list[str]:
    machine = run.manifest.machine
    cuda = _cuda_number(run)
    return [
        f"nvbandwidth Version: {_VERSION}",
        f"Built from Git version: {_maker(run)}",
        "",
        f"CUDA Runtime Version: {_MISSING if cuda is None else cuda}",
        f"CUDA Driver Version: {_MISSING if cuda is None else cuda}",
        f"Driver Version: {machine.driver or _MISSING}",
        "",
        machine.name,
        *(f"Device {g.index}: {_device_text(g.name, g.pci_address)}" for g in machine.gpus),
        "",
        *(f"NOTE: {note}" for note in run.manifest.notes),
    ]


def _case_lines(
    case: Case, results: Mapping[str, Result], mean: bool, verbose: bool
) -> Iterator[str]:
    if case.not_applicable is not None:
        yield f"Waived: {case.name}: {case.not_applicable}"
        yield ""
        return
    yield f"Running {case.name}."
    for matrix in case.matrices:
        values = cell_values(matrix, results)
        if verbose:
            yield from _sample_lines(values)
        yield matrix.caption
        yield from _matrix_lines(case, matrix, values, mean, verbose)


def _sample_lines(values: Sequence[CellValue]) -> Iterator[str]:
    for value in values:
        for copy in value.copies[: 1 if value.samples else 0]:
            ends = (copy.copy.source, copy.copy.destination)
            path = " -> ".join("Host" if p.is_host else f"Device {p.index}" for p in ends)
            for number, sample in enumerate(value.samples):
                yield f"\tSample {number}: {path}: {sample:.2f}"


def _matrix_lines(
    case: Case, matrix: Matrix, values: Sequence[CellValue], mean: bool, verbose: bool
) -> Iterator[str]:
    grid = _grid(matrix, values, mean)
    yield "  " + "".join(f"{column:10}" for column in range(matrix.columns))
    for number, row in enumerate(grid):
        cells = (_MISSING if v is None else f"{v:.2f}" for v in row)
        yield f"{number:2}" + "".join(f"{cell:>10}" for cell in cells)
    yield ""
    key = "_".join(filter(None, (case.name, matrix.suffix)))
    known = [v for row in grid for v in row if v is not None]
    if known:
        yield f"SUM {key} {sum(known):.2f}"
    else:
        yield f"Error: {_why_nothing(values)}"
    if verbose and known:
        yield f"MIN {key} {min(known):.2f}"
        yield f"MAX {key} {max(known):.2f}"
        yield f"AVG {key} {sum(known) / len(known):.2f}"
    variations = [v.variation for v in values if v.variation is not None]
    if verbose and variations:
        yield f"COV {key} {max(variations) * 100:.2f} %"
    yield ""


def _why_nothing(values: Sequence[CellValue]) -> str:
    """Why no cell has a number: of those that were to be measured, the first one's reason."""
    return next((v for v in values if v.cell.experiment), values[0]).verdict.reason


def _grid(matrix: Matrix, values: Sequence[CellValue], mean: bool) -> list[list[float | None]]:
    grid: list[list[float | None]] = [[None] * matrix.columns for _ in range(matrix.rows)]
    for value in values:
        grid[value.cell.row][value.cell.column] = value.mean if mean else value.median
    return grid


def _case_json(
    case: Case, results: Mapping[str, Result], mean: bool, verbose: bool
) -> dict[str, Any]:
    if case.not_applicable is not None:
        return {"name": case.name, "status": "Waived"}
    rows: list[list[str]] = []
    known: list[float] = []
    every: list[CellValue] = []
    for matrix in case.matrices:  # of several, nvbandwidth keeps the last one's words and sum
        values = cell_values(matrix, results)
        every += values
        grid = _grid(matrix, values, mean)
        rows += [[_MISSING if v is None else f"{v:.6g}" for v in row] for row in grid]
        known = [v for row in grid for v in row if v is not None]
    entry: dict[str, Any] = {
        "bandwidth_description": case.matrices[-1].caption,
        "bandwidth_matrix": rows,
        "name": case.name,
        "status": "Passed" if known else "Error",
        "sum": sum(known) if known else None,
    }
    if not known:
        entry["error"] = _why_nothing(every)
    variations = [v.variation for v in every if v.variation is not None]
    if verbose and known:
        entry |= {"min": min(known), "max": max(known), "average": sum(known) / len(known)}
        entry["coefficient_of_variation"] = max(variations) if variations else None
    return entry
