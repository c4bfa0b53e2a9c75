"""A chart as data: what the page and the picture files both draw."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    """

    label: str
    unit: str = ""
    log: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve.

    Attributes
    ----------
    x, y
        By ascending x.
    low, high
        Ends of its band at each point; empty where it has none.
    hollow
        For each point whether it is not resolved; empty when all are.
    colour, dash
        Numbers: curves that share one have something in common. The colour's
        number also chooses the marker.
    limit
        Whether it is a ceiling and no measurement.
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


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart.

    Attributes
    ----------
    key
        Unique within a run; the names of its files.
    section
        The part of the report that it belongs to.
    band
        What the bands of its curves are; empty without bands.
    notes
        What is missing, and why; sentences.
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
    notes: tuple[str, ...] = field(default=())
    main: bool = True
