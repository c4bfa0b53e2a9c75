"""Where runs are kept, and how they are found again."""

from __future__ import annotations

import difflib
import os
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from lanescope.codec.atomic import writing_to
from lanescope.errors import InputError, argument, command

#: Files of runs that are no table of results, and what reads them.
_READ_BY = {
    "validation.json": "model validate {}",
    "link-parameters.json": "model predict --parameters {}",
    "fit.json": "model fit {}",
    "fleet.json": "fleet report {}",
    "compress.json": "bench compress --from {}",
}
MANIFEST = "manifest.json"
#: Where MPI and Slurm tell each process which one it is.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def default_runs_folder() -> Path:
    """Return where runs are kept when no folder is named.

    ``$LANESCOPE_RUNS``, else ``lanescope/runs`` under ``$XDG_DATA_HOME`` or
    ``~/.local/share``.
    """
    if named := os.environ.get("LANESCOPE_RUNS"):
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "lanescope" / "runs"


def new_run_folder(verb: str, runs: Path | None = None) -> Path:
    """Make an empty folder for a new run under the runs folder, which nobody else gets.

    Raises
    ------
    InputError
        If it cannot be made.
    """
    base = (runs or default_runs_folder()) / f"{datetime.now():%Y%m%d-%H%M%S}-{verb}"
    folder, count = base, 1
    with writing_to(base.parent):
        base.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                folder.mkdir()
            except FileExistsError:  # of the same second: of another process, or an earlier one
                count += 1
                folder = base.with_name(f"{base.name}-{count}")
            else:
                return folder


def new_or_temporary_folder(verb: str) -> tuple[Path, tuple[str, ...]]:
    """Return a folder for a new run, and a note where it is not among the others.

    A home that cannot be written, as on some nodes of a cluster, costs nobody the measurement.
    """
    try:
        return new_run_folder(verb), ()
    except InputError as error:
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"lanescope-{verb}-"))
        except OSError:
            raise error from None
        return folder, (f"The run is stored in {folder}: {error}.",)


def result_place(folder: Path, name: str, here: str | None = None) -> tuple[Path, str | None]:
    """Return where a file goes that is made of a stored run when nobody says, and why elsewhere.

    Parameters
    ----------
    name
        What it is called in a run folder.
    here
        What it is called in the current folder; None: the folder's name stands before it.

    Returns
    -------
    tuple
        A path in the run's folder and None where that lies under the runs folder; else a path in
        the current folder and a sentence: a folder from elsewhere stays as it is.
    """
    real, runs = folder.resolve(), default_runs_folder()
    if real.is_relative_to(runs.resolve()):
        return folder / name, None
    place = Path(here or f"{real.name}.{name}")
    return place, f"{folder} is not under {runs} and stays as it is: {name} goes to {place}"


def require_new(folder: Path, *, resumable: bool = False) -> None:
    """Refuse a folder for a new run that is not new or empty.

    Parameters
    ----------
    resumable
        Whether the verb has ``--resume``.

    Raises
    ------
    InputError
        If it is a file, holds a run, or anything else.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a new or an empty folder with {argument.out}")
    if is_there(folder / MANIFEST):
        rest = f", or go on with this one by {argument.resume}" if resumable else ""
        raise InputError(
            f"{folder} holds a run; name a new or an empty folder with {argument.out}{rest}"
            + one_for_each_process(folder)
        )
    if any(folder.iterdir()):
        raise InputError(
            f"{folder} holds files; name a new or an empty folder with {argument.out}"
            + one_for_each_process(folder)
        )


def one_for_each_process(folder: Path) -> str:
    """Return how processes of a job get folders of their own; empty where this is of none."""
    ranks = (name for name in _RANKS if name in os.environ)
    return next(
        (f", for each process its own: --out '{folder}-%q{{{name}}}'" for name in ranks), ""
    )


def find_run(name: str, made_by: str = "check") -> Path:
    """Return the folder of a run by path, by name, or ``latest``.

    Parameters
    ----------
    made_by
        The command that makes such a run, for who has none.

    Raises
    ------
    InputError
        If there is none.
    """
    runs = default_runs_folder()
    if name == "latest" and not is_there(Path(name) / MANIFEST) and (newest := _newest(runs)):
        return newest
    # whatever it is: it is refused where it is read
    for folder in (Path(name), runs / name):
        if is_there(folder / MANIFEST):
            return folder
    for folder in (Path(name), runs / name):
        for file, words in _READ_BY.items():
            if is_there(folder / file):
                raise InputError(f"{name!r} has no {MANIFEST}; {command(words, name)} reads it")
    if Path(name).is_dir():
        above = Path(name).resolve().parent
        remedy = f"name {above}" if is_there(above / MANIFEST) else "name a run's folder"
        raise InputError(f"{name!r} is not a run folder: it has no {MANIFEST}; {remedy}")
    if Path(name).exists():
        remedy = "name a run's folder, or an SQLite export of Nsight Systems"
        if own := _READ_BY.get(Path(name).name):
            remedy = f"{command(own, name)} reads it"
        raise InputError(f"{name!r} is a file and no run; {remedy}")
    remedy = f"{command(made_by)} makes one"
    with suppress(OSError):
        names = [folder.name for folder in runs.iterdir()]
        if alike := difflib.get_close_matches(name, names, 1):
            remedy = f"did you mean {alike[0]!r}?"
        elif names:
            remedy = "'lanescope runs' lists them"
    raise InputError(f"no run {name!r} here or under {runs}; {remedy}")


def is_there(path: Path) -> bool:
    """Return whether a path leads to anything, a symbolic link too: none is followed to say so."""
    return os.path.lexists(path)


def _newest(runs: Path) -> Path | None:
    """Return the run whose manifest was written last; None where there is none."""
    times = {}
    with suppress(OSError):
        for folder in runs.iterdir():
            with suppress(OSError):  # no run, or removed meanwhile
                times[folder] = os.lstat(folder / MANIFEST).st_mtime
    return max(times, key=lambda folder: times[folder], default=None)
