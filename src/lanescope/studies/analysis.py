"""What an analysis is: a question about transfers as a value, and a result that is a document.

A study plans experiments and measures them. An analysis answers from what was stored, or measures
what no set of copies is: graphs of copies and kernels. Its options are the fields of a dataclass,
as those of a study; its result is drawn as blocks and charts, and has one form as JSON.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

from lanescope._version import __version__
from lanescope.calls import checked
from lanescope.codec.fields import Moment
from lanescope.codec.files import fields_of as named_file
from lanescope.document.blocks import Banner, Block, Document, Headline, Section
from lanescope.document.contents import AnyChart, subtitle
from lanescope.errors import InputError
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.prediction.parameters import LinkParameters
from lanescope.store.folder import (
    RunFolder,
    State,
    new_or_temporary_folder,
    read_manifest,
    state_sentence,
)
from lanescope.studies import Option, as_function, fields_of, parameter_of
from lanescope.units.estimate import Estimate
from lanescope.units.values import Folder, Value

#: Called with what is measured next, how much is done, and how much there is.
Progress = Callable[[str, int, int], None]
#: Link parameters as the options of analyses take them.
Parameters = LinkParameters | StrPath | None
PARAMETERS = Option(
    Value("--parameters"),
    "Link parameters: gtx680, gtx-titan, h200, k20, a GPU such as a100-sxm, a JSON file or a run "
    "of 'model fit'; default: the newest fit of this machine.",
    metavar="NAME|FILE|RUN",
    old=("--machine",),
)
OutFolder = Annotated[
    StrPath | None, Option(Folder("--out"), "Run folder to write; default: a new one.")
]


class Observer(Protocol):
    """Who wants to know how far an analysis is that measures."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Take what is measured next, how much is done, and how much there is."""

    def stores(self, folder: Path) -> None:
        """Take the folder where from now on something is stored."""


class Silent:
    """An observer that does not care."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Do nothing."""

    def stores(self, folder: Path) -> None:
        """Do nothing."""


class AnalysisResult:
    """What an analysis found: one document, and each format is made of it."""

    __slots__ = ()
    #: Of the JSON; it changes when a key changes its meaning or goes.
    schema: ClassVar[int] = 1

    @property
    def exit_code(self) -> int:
        """What the command line ends with."""
        return 0

    def store(self) -> str | None:
        """Store what the command line leaves behind, and return a note on where; None without."""
        return None

    def in_brief(self) -> Sequence[str]:
        """Return a few lines: what it is, and what it comes to."""
        headline = self.headline()
        return [type(self).__name__.lower(), *([headline.words] if headline else ())]

    def __repr__(self) -> str:
        """Return `in_brief`, however much the result holds."""
        what, *lines = self.in_brief()
        return "\n".join([f"<{what}>", *lines])

    def headline(self) -> Headline | None:
        """Return what the result comes to, in words."""
        return None

    def blocks(self) -> Sequence[Block]:
        """Return the report; its charts are those of `charts`."""
        raise NotImplementedError

    def charts(self) -> Sequence[AnyChart]:
        """Return the charts."""
        return ()

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, with units in the names and None for the unknown."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Return `as_dict` as JSON."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False)

    def picture(self) -> str:
        """Return all charts as one SVG.

        Raises
        ------
        InputError
            If it has none, or vl-convert is not installed.
        """
        from lanescope.report.charts import picture_svg

        if not (charts := self.charts()):
            raise InputError("this result has nothing to plot: none of its numbers has a chart")
        first = charts[0]
        return picture_svg(charts, first.title, subtitle(first), first.notes)

    def plot(self) -> Any:
        """Return the charts: a notebook shows them, `save` writes files."""
        from lanescope.studies.runs.document import Plots

        return Plots(self.charts())

    def _repr_html_(self) -> str:
        from lanescope.studies.runs.document import blocks_fragment

        return blocks_fragment(self.blocks())


class PagedResult(AnalysisResult):
    """A result that can be written as a page."""

    __slots__ = ()

    def page_document(self) -> Document:
        """Return what the page shows."""
        raise NotImplementedError

    @checked
    def page(self, path: StrPath) -> Path:
        """Write the page, which needs no network, and return where.

        Raises
        ------
        InputError
            If it cannot be written.
        """
        from lanescope.codec.files import write_text
        from lanescope.report.document_page import document_page

        write_text(Path(path), document_page(self.page_document()))
        return Path(path)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A question about transfers.

    Attributes
    ----------
    verb
        Its name on the command line.
    title
        The heading of its page; empty where it has none.
    has_charts
        Whether its results have charts.
    """

    verb: ClassVar[str]
    title: ClassVar[str] = ""
    has_charts: ClassVar[bool] = True

    def result(self, observer: Observer) -> AnalysisResult:
        """Return the answer.

        Raises
        ------
        InputError
            If an option cannot be used.
        """
        raise NotImplementedError

    @classmethod
    def read(cls, folder: Path) -> AnalysisResult:
        """Return the result that a run folder holds; of analyses that have a title.

        Raises
        ------
        InputError
            If it cannot be read.
        """
        raise NotImplementedError


class AnalysisFunction(Protocol):
    """An analysis as a function."""

    def __call__(self, **options: Any) -> Any:
        """Return its result."""


def analysis_function(analysis: type[Analysis]) -> AnalysisFunction:
    """Return an analysis as a function, with its options as parameters."""
    parameters = [parameter_of(*one[:3]) for one in fields_of(analysis)]

    def call(**given: Any) -> AnalysisResult:
        return analysis(**given).result(Silent())

    about = re.sub(r"Attributes\n    -+", "Parameters\n    ----------", analysis.__doc__ or "")
    hints = inspect.signature(analysis.result, eval_str=True).return_annotation
    call.__name__ = call.__qualname__ = analysis.verb
    call.__doc__ = about
    as_function(call, parameters, hints)
    return call


def link_parameters(given: Parameters) -> LinkParameters:
    """Return the parameters that an option stands for.

    Raises
    ------
    InputError
        If there are none of that name, or they are of no link.
    """
    from lanescope.prediction.stored_parameters import named_parameters, require_possible

    if not isinstance(given, LinkParameters):
        return named_parameters(given)
    with named_file(f"link parameters {given.name}", "correct them"):
        require_possible(given)
    return given


def seconds_fields(one: Estimate) -> dict[str, float]:
    """Return an estimate of seconds as JSON has it."""
    return {"seconds": one.value, "low_seconds": one.low, "high_seconds": one.high}


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
    from lanescope.machine import discover
    from lanescope.store.run import command_line  # and NumPy, which a prediction does without

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
