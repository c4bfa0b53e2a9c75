"""What blocks of a document hold: charts, and findings with their evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from lanescope.units.estimate import Estimate

#: What a band around a curve may be.
PERCENTILES = "5th to 95th percentile"
INTERVAL = "95 % interval"
EXTREMES = "slowest to fastest participant"


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes
    ----------
    unit
        ``B`` and ``s`` are shown with prefixes, such as ``64 KiB`` and ``10 µs``;
        anything else stands in the axis' title.
    ends
        First and last value; None for those of the data.
    """

    label: str
    unit: str = ""
    log: bool = False
    ends: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve.

    Attributes
    ----------
    x, y
        By ascending x; a y that is not a number is a gap.
    low, high
        Ends of its band at each point; empty where it has none.
    hollow
        For each point whether it is not resolved; empty when all are.
    colour, dash
        Numbers: curves that share one have something in common. The colour's
        number also chooses the marker.
    limit
        Whether it is a ceiling and no measurement.
    hue
        ``#rrggbb`` in place of the colour's number.
    marker
        Number of the marker in place of the colour's.
    hints
        What each point says when it is pointed at; empty for its values.
    points
        Whether its points have markers.
    stairs
        Whether each value holds from the point before to its own.
    named
        Whether the legend has it.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    hollow: tuple[bool, ...] = ()
    colour: int = 0
    dash: int = 0
    limit: bool = False
    hue: str = ""
    marker: int | None = None
    hints: tuple[str, ...] = ()
    points: bool = True
    stairs: bool = False
    named: bool = True


@dataclass(frozen=True, slots=True)
class ShadedSpan:
    """A part of the x axis with a name, which is shaded; the name shows where there is room."""

    begin: float
    end: float
    name: str
    hue: str
    opacity: float = 0.13
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves.

    Attributes
    ----------
    key
        Of every kind of chart: unique within a run; the names of its files.
    section
        Of every kind of chart: the part of the report that it belongs to.
    band
        What the bands of its curves are; empty without bands.
    notes
        Of every kind of chart: what is missing, and why; sentences.
    main
        Whether it is among the first that a reader should see.
    """

    key: str
    section: str
    title: str
    subtitle: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    band: str = ""
    notes: tuple[str, ...] = ()
    main: bool = True
    spans: tuple[ShadedSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar with whiskers.

    Attributes
    ----------
    name
        In the legend; bars that share it share a hue.
    low, high
        Ends of the whisker; None without one.
    hint
        What it says when it is pointed at, a line each.
    guess
        Whether it was predicted: it is drawn pale.
    """

    name: str
    hue: str
    value: float
    low: float | None = None
    high: float | None = None
    hint: str = ""
    guess: bool = False


@dataclass(frozen=True, slots=True)
class BarRow:
    """Bars of one thing, the limit that they share, and what stands beside them."""

    label: str
    bars: tuple[Bar, ...]
    limit: float | None = None
    limit_hint: str = ""
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Rows of horizontal bars; see `Chart` for what all kinds share."""

    key: str
    section: str
    title: str
    subtitle: str
    x: Axis
    rows: tuple[BarRow, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A cell at a column and a row of a heat map, coloured by what it is called."""

    column: str
    row: str
    name: str
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Cells in columns and rows, from the left and from the bottom; `hues` are in the legend."""

    key: str
    section: str
    title: str
    subtitle: str
    x: Axis
    y: Axis
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: tuple[HeatCell, ...]
    hues: dict[str, str]
    notes: tuple[str, ...] = ()


AnyChart: TypeAlias = Chart | Bars | HeatMap


def subtitle(chart: AnyChart) -> str:
    """Return what all of a chart has in common, and what its bands are."""
    band = f"Band: {chart.band}" if isinstance(chart, Chart) and chart.band else ""
    return ". ".join(part for part in (chart.subtitle, band) if part)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A few lines of a program as they are, and as a remedy has them.

    Attributes
    ----------
    what
        What is done, in a word, such as ``pin``.
    language
        Of the lines, such as ``PyTorch``.
    before, after
        The lines, without an end of line at their end.
    why_none
        Why there are none; empty where there are.
    """

    what: str
    language: str
    before: str = ""
    after: str = ""
    why_none: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong or could be better.

    Attributes
    ----------
    kind
        Stable identifier, such as ``trained-down`` or ``far-numa``; docs/cases.md#diagnoses lists
        those of measured paths.
    sentence
        What it is, in plain words, with the parts named.
    evidence
        What shows it, a line each: numbers, or names of experiments.
    confirm
        Shell command that confirms it.
    remedy
        What to do; empty where it is only to be known.
    parts
        The parts of the machine at fault or affected, such as ``("g1",)``.
    fault
        Whether a part is worse than it should be, so that a check fails; otherwise
        it is how this machine is built, and to be counted on.
    effect
        How large the difference is, as a share: of findings of one kind the largest comes first.
    gain_seconds
        Predicted: by how much what was watched would shrink, with its interval; None where nothing
        predicts it.
    basis
        How the gain was predicted, or why it was not.
    conditions
        What must hold for the remedy to be right, and to gain this.
    code
        The remedy in the program's language; empty where it is not in the program.
    """

    kind: str
    sentence: str
    evidence: tuple[str, ...]
    confirm: str
    remedy: str = ""
    parts: tuple[str, ...] = ()
    fault: bool = False
    effect: float = 0.0
    gain_seconds: Estimate | None = None
    basis: str = ""
    conditions: tuple[str, ...] = ()
    code: tuple[Snippet, ...] = ()
