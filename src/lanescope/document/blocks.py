"""The blocks that a report consists of. Values only: `lanescope.report` draws them.

A verb returns blocks; a terminal, the page and a notebook show the same ones. Numbers stay
numbers until they are drawn: a column says what they are, and so how they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from lanescope.document.contents import AnyChart, Bars, Chart, Finding, HeatMap, Snippet
from lanescope.units.estimate import Estimate


class Style(StrEnum):
    """How a sentence stands out."""

    PLAIN = "plain"
    STRONG = "strong"
    QUIET = "quiet"
    WARNING = "warning"


class Tone(StrEnum):
    """What a word says about what it stands at; never by colour alone."""

    GOOD = "good"
    BAD = "bad"
    WRONG = "wrong"  # faster than can be
    OPEN = "open"  # something is missing
    QUIET = "quiet"
    PREDICTED = "predicted"


class Kind(StrEnum):
    """What the numbers of a column are, and so how they are written."""

    TEXT = "text"
    COUNT = "count"
    GBS = "GB/s"
    SECONDS = "seconds"  # with the unit that suits each
    BYTES = "bytes"
    SUM = "sum"  # of bytes, always in binary units, so that sums can be compared
    SHARE = "share"  # of 1, written in percent
    FINE_SHARE = "fine share"  # the same with two decimals
    ERROR = "error"  # the same with its sign
    FACTOR = "factor"  # a number with two decimals
    FIGURES = "figures"  # text, but right-aligned and in one line as numbers are
    HALF_WIDTH = "half-width"  # a share, written with ±
    BAR = "bar"  # a share of 1, drawn


@dataclass(frozen=True, slots=True)
class Span:
    """Two ends of a column's kind; None where unknown."""

    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Badge:
    """A word that judges, with a sign for those who see no colours."""

    word: str
    tone: Tone
    sign: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A badge with its reason, and what to do; None where nothing is."""

    badge: Badge
    reason: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class SectionLink:
    """Words that lead to a section or a part of the same document."""

    words: str
    key: str


@dataclass(frozen=True, slots=True)
class Code:
    """What a reader may type or paste."""

    words: str


#: A sentence, with code or badges in it where it has some.
Words: TypeAlias = str | tuple["str | Code | Badge", ...]


@dataclass(frozen=True, slots=True)
class TableCell:
    """A value of a table that needs more than its column says.

    Attributes
    ----------
    below
        Lines below the value that matter less.
    hint
        What a page shows where the value is pointed at.
    mark
        Stands behind the value; a note of the table says what it means.
    tint
        How strongly a page colours it, 0 to 1: the nearer to its limit, the stronger.
    badge
        What is wrong with it.
    """

    value: Value
    strong: bool = False
    tone: Tone | None = None
    below: tuple[str, ...] = ()
    hint: str | None = None
    mark: str = ""
    tint: float | None = None
    badge: Badge | None = None


Value: TypeAlias = (
    "str | int | float | Span | Estimate | Badge | Judgement | Code | SectionLink | None"
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    hint
        What it means, in a sentence.
    """

    title: str
    kind: Kind = Kind.TEXT
    hint: str | None = None


Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class ColumnOf(Generic[Thing]):
    """A column of a table that has a row for each of some things.

    Attributes
    ----------
    shows
        Returns what stands there of a thing.
    """

    title: str
    shows: Callable[[Thing], Value | TableCell]
    kind: Kind = Kind.TEXT
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of a table under a heading; an empty heading shows none."""

    rows: Sequence[Sequence[Value | TableCell]]
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; its first column names the row.

    Attributes
    ----------
    notes
        What marks and columns mean, below it.
    """

    title: str
    columns: Sequence[Column]
    groups: Sequence[Group]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        title: str,
        columns: Sequence[ColumnOf[Thing]],
        things: Iterable[Thing],
        notes: tuple[str, ...] = (),
    ) -> Table:
        """Return a table with a row for each thing."""
        heads = [Column(one.title, one.kind, one.hint) for one in columns]
        rows = [[column.shows(one) for column in columns] for one in things]
        return cls(title, heads, [Group(rows)], notes)


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence or several."""

    words: Words
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Bullets:
    """Sentences that stand for themselves."""

    items: Sequence[Words]
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Facts:
    """Terms and what is true of them."""

    pairs: Sequence[tuple[str, Words]]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks for those who want to know more: a terminal leaves them out, a page folds them.

    Attributes
    ----------
    summary
        What a page shows of them first; without one it shows them like others.
    on_terminal
        Whether a terminal shows them all the same.
    opened
        Whether a page begins with them unfolded.
    """

    blocks: Sequence[Block]
    summary: str = ""
    on_terminal: bool = False
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Subsection:
    """A part of a section, under a heading of its own; parts stand beside each other.

    Attributes
    ----------
    about
        What it is, in a sentence.
    wide
        Whether it takes a whole line of the page.
    """

    key: str
    title: str
    about: str
    blocks: Sequence[Block]
    wide: bool = False


@dataclass(frozen=True, slots=True)
class TintedTable:
    """A table whose cells are tinted by what they reach; its first column names the row."""

    table: Table


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings, the most important first.

    Attributes
    ----------
    brief
        Whether evidence is folded; it is for findings of which there are many.
    """

    found: Sequence[Finding]
    brief: bool = False


@dataclass(frozen=True, slots=True)
class CodeListing:
    """Lines of code as they are, and as they should be.

    Attributes
    ----------
    marks
        What they belong to, such as numbers of a table's rows; empty for none.
    """

    snippet: Snippet
    marks: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture that is SVG already, such as that of a machine's topology.

    Attributes
    ----------
    wide
        Whether it must not shrink to a phone's width.
    """

    svg: str
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Download:
    """A file that a page holds and saves on request.

    Attributes
    ----------
    about
        What is in it, in a few words.
    """

    name: str
    content: str
    about: str


@dataclass(frozen=True, slots=True, eq=False)
class TimelineBlock:
    """What happened when, as a page draws it; a terminal has none.

    Attributes
    ----------
    data
        Plain values, which say by numbers where their columns are.
    columns
        The columns, packed: see `lanescope.report.timeline_html`.
    notes
        What it does not show as it was recorded; sentences.
    """

    data: Mapping[str, Any]
    columns: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a heading; `key` is unique in a document."""

    key: str
    title: str
    blocks: Sequence[Block] = field(default=())


Block: TypeAlias = (
    Text
    | Bullets
    | Facts
    | Table
    | TintedTable
    | AnyChart
    | Findings
    | CodeListing
    | Drawing
    | Download
    | TimelineBlock
    | Details
    | Subsection
    | Section
)
#: Those of them that are drawn as plots.
CHARTS = (Chart, Bars, HeatMap)


def charts_of(blocks: Iterable[Block]) -> Iterator[AnyChart]:
    """Yield the charts among some blocks, also of those inside others, in order."""
    for block in blocks:
        if isinstance(block, CHARTS):
            yield block
        elif isinstance(block, Details | Subsection | Section):
            yield from charts_of(block.blocks)


@dataclass(frozen=True, slots=True)
class Banner:
    """What nobody may overlook; `more` is said in the same breath, less loudly."""

    words: str
    more: str = ""
    tone: Tone = Tone.BAD


@dataclass(frozen=True, slots=True)
class Headline:
    """What a document comes to, in words, and what asks for something to be done."""

    words: str
    tone: Tone
    blocks: Sequence[Block] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report.

    Attributes
    ----------
    title
        As a window shows it.
    heading
        What it is about.
    started
        When that was; ISO 8601 with the offset from UTC.
    facts
        A few words each: state, versions.
    commands
        Command lines that made it.
    tool_version
        Of the lanescope that measured.
    """

    title: str
    heading: str
    started: str
    facts: Sequence[str]
    commands: Sequence[str]
    headline: Headline | None
    sections: Sequence[Section]
    tool_version: str
    banners: Sequence[Banner] = ()
