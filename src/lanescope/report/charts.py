"""Charts: as specifications of Vega-Lite, the same for the page and for files, and as pictures.

Names of fields and all expressions are written here; what comes from a run stands in the data and
in the domains of scales, which Vega shows as it is.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

from lanescope.codec.files import write_atomically, write_named
from lanescope.document.contents import (
    AnyChart,
    Axis,
    Bar,
    BarRow,
    Bars,
    Chart,
    Curve,
    HeatCell,
    HeatMap,
    ShadedSpan,
    subtitle,
)
from lanescope.errors import InputError
from lanescope.report.format import axis_text, axis_title, ticks, x_values, y_values
from lanescope.report.html import DASHES, LIMIT_DASH, MARKERS, colour, figure, plain, text

Spec = dict[str, Any]
_HEIGHT, _ROW_HEIGHT, _PAIR_HEIGHT, _CELL_HEIGHT = 300, 26, 40, 34
#: Between marks and the ends of their axis; at the right of bars, for what stands there.
_ROOM, _BESIDE = 8, 112
#: Half of what the legend shows of a curve, and of its marker, in pixels.
_SAMPLE, _SAMPLE_MARKER = 16, 3.4
#: Of an entry of a legend beside its name, and of a letter in the widest of usual fonts.
_ENTRY_PIXELS, _LETTER_PIXELS = 56, 7.2
#: At the left of a legend, at least; by how much a letter can be wider than where a picture is
#: drawn, as it is shown in the reader's font.
_LEFT, _WIDER = 48, 0.9
#: Around a chart.
_PADDING = dict.fromkeys(("left", "top", "bottom", "right"), 5)
#: Seen on white and on near-black.
_GREY = "#78828e"
#: Cells are light in both themes.
_CELL_TEXT = "#1f2933"
#: Spans that take less of the axis have no room for their name.
_LEAST_NAMED = 0.05
#: The wheel alone scrolls the page, and so does a finger.
_ZOOM = {
    "name": "zoom",
    "select": {
        "type": "interval",
        "encodings": ["x"],
        "zoom": "wheel![event.shiftKey]",
        "translate": "[pointerdown[event.pointerType != 'touch'], window:pointerup]"
        " > window:pointermove!",
    },
    "bind": "scales",
}
_HINT = {
    "calculate": "isValid(datum.hint) ? datum.hint : isValid(datum.unit) && isValid(datum.y) ? "
    "datum.curve + '\\n' + format(datum.y, '.3~g') + ' ' + datum.unit : null",
    "as": "hint",
}
_SQUARE = "M-0.36,-0.36L0.36,-0.36L0.36,0.36L-0.36,0.36Z"
FORMATS = ("png", "svg")
_WIDTH, _MARGIN = 800, 12
#: Pixels of a PNG for each of a picture: 150 dots an inch where it is 8 inches wide.
_SCALE = 1.5
_Size = tuple[int, int, int]
#: Letters that fill a line, and pixels of a letter and of a line.
_TITLE: _Size = (88, 15, 20)
_SUBTITLE: _Size = (120, 12, 16)
_PANEL: _Size = (52, 12, 18)
_NOTE: _Size = (130, 11, 15)
_INK, _QUIET = "#1f2933", "#57606a"
_FONT = "sans-serif"
_CLIP = re.compile(r'(?<=id=")clip\d+|(?<=url\(#)clip\d+')


def specification(chart: AnyChart) -> Spec:
    """Return a chart without title and notes, as wide as what holds it."""
    match chart:
        case Chart():
            made = _curves(chart)
        case Bars():
            made = _bars(chart)
        case HeatMap():
            made = _cells(chart)
    fitted = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    return {**fitted, "height": height(chart), **made}


def height(chart: AnyChart) -> int:
    """Return the height of a chart without its axes' words and its legend, in pixels."""
    match chart:
        case Chart():
            return _HEIGHT
        case Bars():
            return (_PAIR_HEIGHT if _several(chart) else _ROW_HEIGHT) * len(chart.rows)
        case HeatMap():
            return _CELL_HEIGHT * len(chart.rows)


def theme(text: str, quiet: str, grid: str) -> Spec:
    """Return the configuration for a background, given the colours of text and lines on it."""
    size = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    lines = {"domainColor": grid, "gridColor": grid, "tickColor": grid}
    return {
        "background": "transparent",
        "aria": False,  # the place of a chart has its name; the tables have its numbers
        "axis": {**size, **lines, "labelColor": text, "titleColor": text, "labelLimit": 0},
        "legend": {"labelFontSize": 12, "labelColor": text, "labelLimit": 0},
        "view": {"stroke": None},
        "style": {"ink": {"color": text}, "quiet": {"color": quiet}},
    }


def _curves(chart: Chart) -> Spec:
    hue = _own("hue")
    shared = {
        "x": _axis(chart.x, x_values(chart), "x"),
        "y": _axis(chart.y, y_values(chart), "y"),
        "detail": _nominal("number"),
        "color": hue,
    }
    layers = []
    if any(c.low for c in chart.curves):
        band = {"y": {"field": "low"}, "y2": {"field": "high"}, "fillOpacity": {"value": 0.16}}
        layers.append(
            _layer({"type": "area", "clip": True, "opacity": 1}, band, "isValid(datum.low)")
        )
    for stairs in sorted({c.stairs for c in chart.curves}):
        mark: Spec = {"type": "line", "clip": True}
        mark |= {"interpolate": "step-before"} if stairs else {}
        look = {"strokeDash": _own("dash"), "strokeWidth": _amount("width")}
        layers.append(_layer(mark, look, f"datum.stairs == {json.dumps(stairs)}"))
    points = {"fill": hue, "shape": _own("marker"), "size": _amount("size")}
    points |= {"fillOpacity": _amount("solid"), "strokeOpacity": _amount("shown")}
    points["tooltip"] = _nominal("hint")
    mark = {"type": "point", "opacity": 1, "strokeWidth": 1.5, "clip": True}
    layers.append(_layer(mark, points, "isValid(datum.hint)") | {"params": [_ZOOM]})
    entries = [(c.name, _hue(c), _sample(c)) for c in chart.curves if c.named]
    return {
        "data": {"values": [_curve(chart, i) for i in range(len(chart.curves))]},
        "transform": [{"flatten": ["x", "y", "low", "high", "solid", "hint"]}, _HINT],
        "layer": [*_spans(chart), {"encoding": shared, "layer": layers}, _legend(entries)],
        **_meta(entries),
    }


def _curve(chart: Chart, number: int) -> Spec:
    curve = chart.curves[number]
    dash = LIMIT_DASH if curve.limit else DASHES[curve.dash % len(DASHES)]
    hollow = curve.hollow or (False,) * len(curve.x)
    made: Spec = {
        "number": number,
        "curve": plain(curve.name),
        "hue": _hue(curve),
        "dash": dash,
        "width": 1.5 if curve.limit or not curve.points else 2,
        "stairs": curve.stairs,
        "marker": _path(_marker(curve)),
        "size": 40 if len(curve.x) > 1 else 70,
        "shown": int(_has_points(curve)),
        "x": _numbers(curve.x),
        "y": _numbers(curve.y),
        "low": _numbers(curve.low),
        "high": _numbers(curve.high),
        "solid": [int(_has_points(curve) and not h) for h in hollow],
        "hint": [],
    }
    if curve.points or curve.limit:
        hints = curve.hints or [_hint(chart, curve, i) for i in range(len(curve.x))]
        made["hint"] = [plain(hint) for hint in hints]
    elif curve.named:
        made["unit"] = chart.y.unit
    return made


def _hint(chart: Chart, curve: Curve, i: int) -> str:
    lines = [
        curve.name,
        f"{axis_text(chart.x, curve.x[i])}: {axis_text(chart.y, curve.y[i])}",
    ]
    if curve.low:
        low, high = axis_text(chart.y, curve.low[i]), axis_text(chart.y, curve.high[i])
        lines.append(f"{chart.band}: {low} to {high}")
    if curve.hollow and curve.hollow[i]:
        lines.append("unresolved: the clock takes too much of it")
    return "\n".join(lines)


def _spans(chart: Chart) -> list[Spec]:
    """Shades, which say what they are when they are pointed at, and the names of the longer."""
    if not chart.spans:
        return []
    begin, end = chart.x.ends or (chart.spans[0].begin, chart.spans[-1].end)
    x = _axis(chart.x, x_values(chart), "begin")
    shade = {"x": x, "x2": {"field": "end"}, "color": _own("hue"), "opacity": _amount("opacity")}
    name = {"type": "text", "style": "ink", "angle": 270, "align": "right", "limit": 150}
    place = {"x": {**x, "field": "middle"}, "y": {"value": 4}, "text": _nominal("name")}
    layers = [
        _layer({"type": "rect", "clip": True}, {**shade, "tooltip": _nominal("hint")}),
        _layer({**name, "clip": True, "opacity": 0.75, "fontSize": 11}, place,
               f"datum.end - datum.begin >= {_LEAST_NAMED * (end - begin)}"),
    ]  # fmt: skip
    values = [{**_datum(span), "middle": (span.begin + span.end) / 2} for span in chart.spans]
    return [{"data": {"values": values}, "layer": layers}]


def _bars(chart: Bars) -> Spec:
    labels = _apart([plain(row.label) for row in chart.rows])
    hues = {plain(bar.name): bar.hue for row in chart.rows for bar in row.bars}
    y: Spec = {**_nominal("label"), "sort": None, "axis": {"title": None, "ticks": False}}
    y |= {"scale": {"domain": labels, "paddingInner": 0.38, "paddingOuter": 0.19}}
    shared: Spec = {"x": {**_axis(chart.x, (), "value"), "stack": None}, "y": y}
    if _several(chart):
        shared["yOffset"] = {**_nominal("name"), "sort": None, "scale": {"domain": list(hues)}}
    pale = {"condition": {"test": "datum.guess", "value": 0.55}, "value": 1}
    look = {"color": _own("hue"), "fillOpacity": pale, "tooltip": _nominal("hint")}
    low, high = {"x": {"field": "low"}}, {"x": {"field": "high"}}
    end = {"type": "tick", "style": "quiet", "thickness": 1.5, "size": 8}
    rule = {"type": "rule", "style": "quiet", "strokeWidth": 1.5}
    spread = "isValid(datum.low)"
    layers = [
        _layer({"type": "bar"}, look),
        _layer(rule, {**low, "x2": high["x"]}, spread),
        _layer(end, low, spread),
        _layer(end, high, spread),
    ]
    entries = [(name, hue, _SQUARE) for name, hue in hues.items()]
    if any(row.limit is not None for row in chart.rows):
        tick = {"type": "tick", "style": "ink", "thickness": 2.5, "size": 20}
        limit = {"x": {"field": "limit"}, "tooltip": _nominal("limit_hint")}
        layers.append(_layer(tick, limit, "isValid(datum.limit)"))
        entries.append(("limit", _GREY, "M0,-0.5L0,0.5"))
    text = {"type": "text", "style": "ink", "align": "left", "dx": 8, "fontSize": 12}
    text_at = {"y": y, "x": {"value": "width"}, "text": _nominal("beside")}
    return {
        "padding": {**_PADDING, "right": _BESIDE},
        "data": {
            "values": [
                # the first of a row has what stands beside them all
                {**(_datum(row) if bar is row.bars[0] else {}), **_datum(bar), "label": label}
                for row, label in zip(chart.rows, labels, strict=True)
                for bar in row.bars
            ]
        },
        "layer": [
            {"encoding": shared, "layer": layers},
            {**_layer(text, text_at, "isValid(datum.beside)"), "name": "beside"},
            _legend(entries),
        ],
        **_meta(entries, labels),
    }


def _several(chart: Bars) -> bool:
    return any(len(row.bars) > 1 for row in chart.rows)


def _cells(chart: HeatMap) -> Spec:
    place = {"x": _category(chart.x, chart.columns, "column")}
    place["y"] = _category(chart.y, chart.rows[::-1], "row")
    rect = {"type": "rect", "cornerRadius": 2, "strokeWidth": 0}
    look = {"color": _own("hue"), "tooltip": _nominal("hint")}
    text = {"type": "text", "color": _CELL_TEXT, "fontSize": 12, "tooltip": None}
    entries = [(name, hue, _SQUARE) for name, hue in chart.hues.items()]
    layers = [
        _layer(rect, {**place, **look}),
        {**_layer(text, {**place, "text": _nominal("text")}), "name": "cells"},
        _legend(entries),
    ]
    values = [{**_datum(cell), "hue": chart.hues[cell.name]} for cell in chart.cells]
    return {"data": {"values": values}, "layer": layers, **_meta(entries, chart.rows)}


def _datum(value: BarRow | Bar | HeatCell | ShadedSpan) -> Spec:
    """The numbers and texts of a part of a chart, by the names of its fields."""
    known = ((one.name, getattr(value, one.name)) for one in fields(value))
    return {
        name: plain(one) if isinstance(one, str) else one
        for name, one in known
        if not isinstance(one, tuple) and one not in (None, "")
    }


def _category(axis: Axis, names: Sequence[str], field: str) -> Spec:
    look = {"title": axis.label, "labelAngle": 0, "ticks": False, "domain": False}
    scale = {"domain": list(names), "paddingInner": 0.03}
    return {**_nominal(field), "sort": None, "axis": look, "scale": scale}


def _layer(mark: Spec, encoding: Spec, only: str = "") -> Spec:
    chosen = {"transform": [{"filter": only}]} if only else {}
    return {"mark": mark, **chosen, "encoding": encoding}


def _legend(entries: Iterable[tuple[str, str, str]]) -> Spec:
    """A layer that draws nothing but the legend: of each entry its name, hue and shape."""
    known = {plain(name): (hue, shape) for name, hue, shape in entries}
    names, hues = list(known), [hue for hue, _ in known.values()]
    look = {"title": None, "orient": "bottom", "symbolOpacity": 1, "symbolStrokeWidth": 2}
    colours = {**_nominal("curve"), "scale": {"domain": names, "range": hues}}
    shapes = {"domain": names, "range": [shape for _, shape in known.values()]}
    legend = {**look, "symbolSize": (2 * _SAMPLE) ** 2, "rowPadding": -8}
    return {
        "mark": {"type": "point", "opacity": 1},
        "data": {"values": []},
        "encoding": {
            "shape": {**_nominal("curve"), "scale": shapes, "legend": legend},
            "color": colours,
            "fill": colours,
        },
    }


def _meta(entries: Sequence[tuple[str, str, str]], labels: Iterable[str] = ()) -> Spec:
    """How wide an entry of the legend is, and what is left of it: how many stand in a line."""
    entry = _ENTRY_PIXELS + _LETTER_PIXELS * max((len(name) for name, *_ in entries), default=0)
    letters = max((len(part) for label in labels for part in label.split("\n")), default=0)
    left = max(_LEFT, _LETTER_PIXELS * letters)
    return {"usermeta": {"entry": round(entry), "left": round(left), "letters": letters}}


def _axis(about: Axis, values: Sequence[float], field: str) -> Spec:
    """A channel that shows a number, with the ticks of `chart_ticks`."""
    axis: Spec = {"title": axis_title(about), "labelOverlap": True}
    scale: Spec = {"zero": not about.log}
    where, words = ticks(about, values)
    known = [v for v in values if v > 0] if about.log else []
    if known:
        ends = [min(known), max(known)]
        if about.unit == "s" and where:
            ends = [min(ends[0], where[0]), max(ends[1], where[-1])]
        if ends[0] == ends[1]:
            ends = [ends[0] * 0.9, ends[1] * 1.1]
        shown = [(at, word) for at, word in zip(where, words, strict=True)
                 if ends[0] <= at <= ends[1]]  # fmt: skip
        places, texts = json.dumps([at for at, _ in shown]), json.dumps([w for _, w in shown])
        axis |= {"values": [at for at, _ in shown]}
        axis |= {"labelExpr": f"{texts}[indexof({places}, datum.value)]"}
        scale = {"type": "log", "domain": ends, "nice": False, "padding": _ROOM}
    elif about.ends:
        scale = {"domain": list(about.ends), "nice": False, "zero": False}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": scale}


def _nominal(field: str) -> Spec:
    return {"field": field, "type": "nominal"}


def _own(field: str) -> Spec:
    """What the datum itself says, such as its colour."""
    return {"field": field, "type": "nominal", "scale": None}


def _amount(field: str) -> Spec:
    """What the datum itself says, as a number."""
    return {**_own(field), "type": "quantitative"}


def _numbers(values: Iterable[float]) -> list[float | None]:
    """What JSON cannot hold becomes None, which Vega leaves out."""
    return [float(f"{v:.6g}") if isfinite(v) else None for v in values]


def _apart(labels: Iterable[str]) -> list[str]:
    """Labels, the second of a name with a number: each has a row of its own."""
    count: dict[str, int] = {}
    made = []
    for label in labels:
        count[label] = count.get(label, 0) + 1
        made.append(label if count[label] == 1 else f"{label} ({count[label]})")
    return made


def _hue(curve: Curve) -> str:
    return curve.hue or colour(curve.colour)


def _marker(curve: Curve) -> tuple[tuple[float, float], ...]:
    number = curve.colour if curve.marker is None else curve.marker
    return MARKERS[number % len(MARKERS)]


def _has_points(curve: Curve) -> bool:
    return curve.points and not curve.limit


def _sample(curve: Curve) -> str:
    """What the legend shows of a curve: a piece of its line, and its marker."""
    dash = LIMIT_DASH if curve.limit else DASHES[curve.dash % len(DASHES)]
    pieces, at, step = "", float(-_SAMPLE), 0
    while at < _SAMPLE and len(curve.x) > 1:
        end = min(at + dash[step % len(dash)], _SAMPLE) if dash[1] else _SAMPLE
        if step % 2 == 0:
            pieces += f"M{at / _SAMPLE:.3g},0L{end / _SAMPLE:.3g},0"
        at, step = end, step + 1
    if _has_points(curve):
        pieces += _path(_marker(curve), _SAMPLE_MARKER / _SAMPLE * (1 if len(curve.x) > 1 else 1.4))
    return pieces


def _path(corners: Sequence[tuple[float, float]], size: float = 1.0) -> str:
    return "M" + "L".join(f"{x * size:.2g},{y * size:.2g}" for x, y in corners) + "Z"


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Elements of SVG, and the room that they take in pixels."""

    elements: str
    width: float
    height: float


def write_charts(
    charts: Sequence[AnyChart], folder: Path, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write charts, a file for each format with the chart's key as its name; return the files.

    The folder is made where it is missing; without charts there are neither files nor a folder.

    Raises
    ------
    InputError
        If the folder is none or cannot be written to, a format is not one of
        `FORMATS`, or vl-convert is not installed.
    """
    if unknown := set(formats) - set(FORMATS):
        raise InputError(f"charts are not written as {sorted(unknown)[0]}; png and svg are known")
    if not charts:
        return []
    converter()
    with _explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for chart in charts:
            picture = picture_svg([chart], chart.title, subtitle(chart), chart.notes)
            named = [folder / f"{chart.key}.{name}" for name in formats]
            for path in named:
                write_atomically(path, _content(picture, path))
            paths += named
        return paths


def require_folder(folder: Path) -> None:
    """Refuse a folder for plots that cannot be made, before what is drawn is measured.

    Raises
    ------
    InputError
        If it is a file, or nothing can be written there.
    """
    with _explained(folder):
        if not folder.is_dir() and folder.parent.is_dir():
            folder.mkdir()
            folder.rmdir()  # made again once there is something to draw


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise InputError(f"{folder} is not a folder; name one for the plots") from error
    except OSError as error:
        raise InputError(
            f"cannot write plots into {folder}: {error.strerror}; name another folder"
        ) from error


def write_chart(chart: AnyChart, path: Path) -> None:
    """Write one chart to a file whose name ends in one of `FORMATS`.

    Raises
    ------
    InputError
        If it cannot be written, or vl-convert is not installed.
    """
    write_picture(picture_svg([chart], chart.title, subtitle(chart), chart.notes), path)


def write_picture(picture: str, path: Path) -> None:
    """Write what `picture_svg` returned to a file whose name ends in one of `FORMATS`.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    try:
        content = _content(picture, path)
        write_named(path, lambda file: file.write(content))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; name another place") from error


def _content(picture: str, path: Path) -> bytes:
    """Return what a picture is as a file of that name."""
    png = path.suffix == ".png"
    return converter().svg_to_png(picture, scale=_SCALE) if png else picture.encode()


def picture_svg(
    charts: Sequence[AnyChart],
    title: str,
    below: str,
    notes: Sequence[str],
    columns: int = 1,
) -> str:
    """Return charts with what stands above and below them as SVG.

    Several charts stand in columns, each with its own title.

    Raises
    ------
    InputError
        If vl-convert is not installed.
    """
    width = (_WIDTH - _MARGIN * (columns - 1)) / columns
    drawn = [_drawing(chart, width, i, titled=len(charts) > 1) for i, chart in enumerate(charts)]
    rows = [drawn[at : at + columns] for at in range(0, len(drawn), columns)]
    parts = [_words([title], _TITLE, bold=True), _words([below], _SUBTITLE, quiet=True)]
    parts += [_side_by_side(row) for row in rows]
    parts.append(_words(notes, _NOTE, quiet=True))
    picture = _stacked(parts)
    size = f'width="{_WIDTH}" height="{picture.height + 2 * _MARGIN:.0f}"'
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" {size}>'
        f'<rect width="100%" height="100%" fill="white"/>'
        f"{_moved(picture.elements, 0, _MARGIN)}</svg>\n"
    )


def chart_picture(chart: AnyChart) -> str:
    """Return a chart as a figure of a page, an SVG on white; a sentence without vl-convert."""
    try:
        drawn = _drawing(chart, _WIDTH, 0, titled=False)
    except InputError as error:
        return figure(chart, f"<p>{text(error)}</p>")
    return figure(
        chart,
        f'<svg class="plot" role="img" aria-label="{text(chart.title)}" '
        f'viewBox="0 0 {_WIDTH} {drawn.height:.0f}">'
        f'<rect width="100%" height="100%" fill="white"/>{drawn.elements}</svg>',
    )


def converter() -> Any:
    """Return the module that turns specifications into pictures.

    Raises
    ------
    InputError
        If it is not installed.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise InputError(
            "picture files need vl-convert-python, which is not installed: "
            "pip install vl-convert-python"
        ) from error
    return vl_convert


def _drawing(chart: AnyChart, width: float, number: int, *, titled: bool) -> _Drawing:
    """The chart of this number as Vega draws it, without the element around it."""
    spec = specification(chart)
    config = theme(_INK, _QUIET, "#dde2e8")
    config |= {"font": _FONT}
    meta = spec["usermeta"]
    config["legend"]["columns"] = max(1, int((width - meta["left"]) // meta["entry"]))
    spec["padding"] = {**_PADDING, **spec.get("padding", {})}
    spec["padding"]["left"] += round(_WIDER * meta["letters"])
    svg = converter().vegalite_to_svg(json.dumps({**spec, "width": width, "config": config}))
    found = re.match(r'<svg[^>]* width="([\d.]+)" height="([\d.]+)"[^>]*>(.*)</svg>\s*$', svg, re.S)
    assert found is not None
    # Vega counts its clips through all that it draws; the same numbers make the same picture
    clips = {
        name: f"clip{number}-{i}" for i, name in enumerate(dict.fromkeys(_CLIP.findall(found[3])))
    }
    elements = _CLIP.sub(lambda clip: clips[clip[0]], found[3])
    made = _Drawing(elements, width, float(found[2]))
    return _stacked([_words([chart.title], _PANEL, bold=True), made]) if titled else made


def _words(
    lines: Sequence[str], size: _Size, *, bold: bool = False, quiet: bool = False
) -> _Drawing:
    """Lines of text, broken where they are longer than a line holds."""
    letters, font, step = size
    broken = [part for line in lines for part in textwrap.wrap(line, letters)]
    look = f'font-family="{_FONT}" font-size="{font}" fill="{_QUIET if quiet else _INK}"'
    look += ' font-weight="bold"' if bold else ""
    shown = "".join(
        f'<text x="{_MARGIN}" y="{(i + 0.8) * step:.1f}" {look}>{text(line)}</text>'
        for i, line in enumerate(broken)
    )
    return _Drawing(shown, 0, step * len(broken))


def _stacked(parts: Sequence[_Drawing]) -> _Drawing:
    shown, below = "", 0.0
    for part in parts:
        shown += _moved(part.elements, 0, below)
        below += part.height
    return _Drawing(shown, max((part.width for part in parts), default=0), below)


def _side_by_side(parts: Sequence[_Drawing]) -> _Drawing:
    shown, right = "", 0.0
    for part in parts:
        shown += _moved(part.elements, right, 0)
        right += part.width + _MARGIN
    return _Drawing(shown, right, max(part.height for part in parts))


def _moved(elements: str, x: float, y: float) -> str:
    return f'<g transform="translate({x:g},{y:g})">{elements}</g>'
