"""The run folder of an analysis that stores its result, and the page of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from lanescope._version import __version__
from lanescope.codec.fields import Moment
from lanescope.document.blocks import Banner, Document, Section
from lanescope.kinds import StrPath
from lanescope.machine import Machine, discover
from lanescope.store.folder import (
    RunFolder,
    State,
    new_or_temporary_folder,
    read_manifest,
    state_sentence,
)
from lanescope.store.run import command_line
from lanescope.studies.analysis import Analysis, AnalysisResult


@dataclass(frozen=True, slots=True)
class AnalysisManifest:
    """What the folder of an analysis says about itself.

    Attributes
    ----------
    started
        ISO 8601 with the offset from UTC.
    """

    command: str
    started: Moment
    tool_version: str
    machine: Machine
    state: State = State.RUNNING


@contextmanager
def analysis_folder(
    verb: str, out: StrPath | None, machine: Machine | None = None
) -> Iterator[RunFolder]:
    """Begin the run folder of an analysis; in the end its manifest says how far it came.

    Parameters
    ----------
    out
        None: a new one under the runs folder.
    machine
        On which it is measured; None: this one, which is looked at.

    Raises
    ------
    InputError
        If it holds something, or cannot be written.
    """
    started = datetime.now().astimezone().isoformat(timespec="seconds")
    manifest = AnalysisManifest(command_line(verb), started, __version__, machine or discover())
    path = new_or_temporary_folder(verb)[0] if out is None else Path(out)
    with RunFolder.begin(path, verb, manifest) as folder:
        state = State.INTERRUPTED
        try:
            yield folder
            state = State.COMPLETE
        finally:
            folder.update(replace(manifest, state=state))


def analysis_document(analysis: type[Analysis], folder: Path, found: AnalysisResult) -> Document:
    """Return the page of a stored result: what it comes to, the report, and its charts."""
    manifest = read_manifest(AnalysisManifest, folder)
    blocks, charts = found.blocks(), Section("charts", "Charts", found.charts())
    sections = [one for one in blocks if isinstance(one, Section)]
    others = [one for one in blocks if not isinstance(one, Section)]
    heading = f"{analysis.title}, {manifest.machine.name}"
    return Document(
        title=f"lanescope {analysis.verb}: {manifest.machine.name}",
        heading=heading,
        started=manifest.started,
        facts=(manifest.machine.name, f"lanescope {manifest.tool_version}"),
        commands=(manifest.command,),
        headline=found.headline(),
        sections=(*sections, charts, Section("notes", "Notes", others)),
        tool_version=manifest.tool_version,
        banners=[Banner(words)] if (words := state_sentence(manifest.state)) else (),
    )
