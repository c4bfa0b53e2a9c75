"""Stored runs and fleets' checks as records of the history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lanescope.errors import InputError
from lanescope.fleet.folder import MANIFEST as FLEET
from lanescope.fleet.folder import read
from lanescope.history.records import Record, record_of_node, record_of_run
from lanescope.store.folder import MANIFEST
from lanescope.store.folders import default_runs_folder, find_run
from lanescope.store.store import read_run
from lanescope.studies.node.report import State


def stored_below(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs of paths and of fleets' checks at or below a folder, in order.

    The nodes of a fleet's check are part of it; watches, fits and so on are no runs of paths.
    """
    fleets = {path.parent for path in folder.rglob(FLEET)}
    runs = {path.parent for path in folder.rglob(MANIFEST) if _has_paths(path.parent)}
    yield from sorted(fleets | {run for run in runs if fleets.isdisjoint(run.parents)})


def _has_paths(folder: Path) -> bool:
    return (folder / "results.parquet").is_file() or (folder / "results").is_dir()


def folders_of(names: Sequence[str]) -> list[Path]:
    """Return the folders of runs and fleets that are named, or below those named.

    Parameters
    ----------
    names
        Folders or names of runs; none for the runs folder.

    Raises
    ------
    InputError
        If there is none of a name, or no runs folder.
    """
    if not names:
        folder = default_runs_folder()
        if not folder.is_dir():
            raise InputError(f"there is no runs folder {folder}; 'lanescope check' begins one")
        return list(stored_below(folder))
    found: list[Path] = []
    for name in names:
        below = list(stored_below(Path(name))) if Path(name).is_dir() else []
        found += below or [find_run(name)]
    return found


def records_of(folder: Path) -> list[Record]:
    """Return what a run, or each node of a fleet's check, measured.

    Raises
    ------
    InputError
        If it is neither, cannot be read, or holds predictions.
    """
    if not (folder / FLEET).is_file():
        record = record_of_run(read_run(folder))
        return [record] if record.observations else []
    _, reports, _ = read(folder)
    place = str(folder)
    return [record_of_node(one, place) for one in reports if one.state is not State.FAILED]
