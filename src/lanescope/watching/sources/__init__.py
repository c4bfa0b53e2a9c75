"""Sources of a watch: what every one of them can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lanescope.errors import NotMeasuredError
from lanescope.machine import Machine
from lanescope.trace.watch_folder import SampleLearning, SourceRecord


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a source can watch here.

    Attributes
    ----------
    reason, remedy
        A sentence each: what stands in the way and what to do; None when nothing does, or
        nothing can be done.
    """

    ok: bool
    reason: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What a source says when it has stopped.

    Attributes
    ----------
    reason, remedy
        What went wrong on the way, and what to do; None when all is well.
    samples, lost_samples, gaps
        Of counters: records with known bytes, intervals of which nothing is known, and
        runs of those; None for other sources.
    asked
        Samples whose values CUPTI was asked for, as none like them was remembered.
    learned
        Of how values follow from samples; None of other sources than ``pm``.
    cpu_seconds
        Processor time of its threads; None when unknown.
    wall_seconds
        From start to stop; None when unknown.
    rate_note
        A sentence where the requested rate could not be held; None where it could.
    """

    reason: str | None = None
    remedy: str | None = None
    samples: int | None = None
    lost_samples: int | None = None
    gaps: int | None = None
    asked: int | None = None
    cpu_seconds: float | None = None
    wall_seconds: float | None = None
    rate_note: str | None = None
    learned: SampleLearning | None = None


class WatchSource(Protocol):
    """Something that watches.

    Attributes
    ----------
    name
        As it stands in reports and names of spools.
    """

    @property
    def name(self) -> str:
        """The source's name."""

    def available(self, machine: Machine, *, thorough: bool = False) -> Availability:
        """Say whether it can watch `machine`; cheaply, unless a `thorough` trial is wanted."""

    def prepare(self) -> None:
        """Do all of `start` that takes time; sources are prepared at the same time, in threads.

        Raises
        ------
        NotMeasuredError
            If it cannot watch now.
        """

    def start(self) -> None:
        """Begin to watch, after `prepare`.

        Raises
        ------
        NotMeasuredError
            If it cannot; the program runs all the same.
        """

    def stop(self) -> SourceReport:
        """End what `start` began."""

    def environment(self) -> Mapping[str, str]:
        """Return the variables that the watched program has to be started with."""


@runtime_checkable
class Settling(Protocol):
    """A source that finds out after its start how often it can look."""

    def settle(self) -> None:
        """Wait until that is known, for seconds at most: what changes then loses no byte."""


def prepare_all(sources: Sequence[WatchSource]) -> list[NotMeasuredError | None]:
    """Prepare sources and return for each what stands in its way; None when nothing does.

    One that is prepared already takes no time.
    """
    if not sources:
        return []
    if len(sources) == 1:
        return [_prepared(sources[0])]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(sources)) as threads:
        return list(threads.map(_prepared, sources))


def _prepared(source: WatchSource) -> NotMeasuredError | None:
    try:
        source.prepare()
    except NotMeasuredError as error:
        return error
    return None


def start_all(
    sources: Sequence[WatchSource], running: list[WatchSource]
) -> dict[str, SourceRecord | None]:
    """Start all sources; what stands in the way of one is told and harms nobody.

    Those that run are added to `running`, also when somebody interrupts. It returns when it is
    known how often each can look.
    """
    found: dict[str, SourceRecord | None] = {}
    for source, refusal in zip(sources, prepare_all(sources), strict=True):
        found[source.name] = None
        try:
            if refusal is not None:
                raise refusal
            source.start()
            running.append(source)
        except NotMeasuredError as error:
            found[source.name] = SourceRecord(source.name, False, error.reason, error.remedy)
    for source in running:
        if isinstance(source, Settling):
            source.settle()
    return found
