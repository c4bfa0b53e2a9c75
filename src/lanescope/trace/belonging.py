"""Refuses files of a stored watch that are another's, or were emptied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from pathlib import Path

from lanescope.errors import InputError
from lanescope.trace.timeline import Timeline
from lanescope.trace.watch_folder import WatchManifest

_REMEDY = "name another run"
_PROBE = "probe"


def require_own_time(path: Path, stored: Sequence[Sized], possible: Iterable[int]) -> None:
    """Refuse a file with a part of which no record is of the time of the watch.

    What is stored was looked at before, so single records may be wrong, and not all.

    Parameters
    ----------
    stored
        The records of each part.
    possible
        How many of each have a time that can be.

    Raises
    ------
    InputError
        If there is such a part.
    """
    for records, count in zip(stored, possible, strict=True):
        if len(records) and not count:
            raise InputError(
                f"{path}: no record is of the time of this watch, so it is another's; {_REMEDY}"
            )


def require_whole(
    counters: Path,
    probes: Path,
    operations: Path,
    processes: Path,
    manifest: WatchManifest,
    timeline: Timeline,
) -> None:
    """Refuse files that lack what the manifest, or one of the others, says is there.

    Parameters
    ----------
    counters, probes, operations, processes
        Where the timeline was read from.

    Raises
    ------
    InputError
        If one lacks something.
    """
    if manifest.damage:  # it was left out, and that is said
        return
    known = {process.pid for process in timeline.processes}
    if others := sorted(timeline.operations.values("pid") - known):
        raise InputError(
            f"{operations}: column 'pid' holds {others[0]}, and {processes} has no such process: "
            f"they do not belong together; {_REMEDY}"
        )
    there = {name for one in timeline.counters for name in (one.source, _of(one.source, one.gpu))}
    there |= {_of(_PROBE, one.gpu) for one in timeline.probes}
    for source in manifest.sources:
        if source.used and source.samples and source.name not in there:
            path = probes if source.name.startswith(_PROBE) else counters
            raise InputError(
                f"{path}: 'series' lacks {source.name}, which took {source.samples:,} samples in "
                f"this watch; {_REMEDY}"
            )


def _of(source: str, gpu: int) -> str:
    """Return how the source of a GPU is called."""
    return f"{source}.g{gpu}"
