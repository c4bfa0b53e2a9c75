"""Charts as picture files, for papers and slides."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanescope.codec.atomic import write_atomically, write_named
from lanescope.document.contents import AnyChart, subtitle
from lanescope.errors import InputError
from lanescope.report.html import figure, text
from lanescope.report.vega import specification, theme

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
    config["legend"]["columns"] = max(1, int((width - 40) // spec["usermeta"]["entry"]))
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
