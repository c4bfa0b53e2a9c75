"""A watch that goes on, as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from lanescope.watch.windows import window_text

if TYPE_CHECKING:
    from rich.text import Text

    from lanescope.watch.codes import FloatArray
    from lanescope.watch.live import LiveFrame, LiveWay

_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = f"{'now':>7}{'peak 1 s':>10}{'peak':>7}{'of link':>9}{'lost':>7}  "
_NAME_WIDTH = 8
_STYLES = {"h2d": "cyan", "d2h": "green", "nvlink-rx": "cyan", "nvlink-tx": "green"}
_NOTHING = "nothing is counted yet"


def live_text(frame: LiveFrame, width: int) -> Text:
    """Return the view of one moment.

    Parameters
    ----------
    width
        Columns of the terminal; what is short of room is the history.
    """
    from rich.text import Text

    names = [f"g{way.gpu} {way.direction.replace('-', ' ')}" for way in frame.ways]
    wide = max([_NAME_WIDTH, *(len(name) + 1 for name in names)])
    room = max(width - wide - len(_COLUMNS) - 1, 0)
    told = Text(no_wrap=True, overflow="ellipsis", end="")
    told.append(f"{'GB/s':{wide}}{_COLUMNS}{'last 60 s' if room else ''}\n", style="bold")
    for name, way in zip(names, frame.ways, strict=True):
        told.append(f"{name:{wide}}{_row(way)}")
        told.append(_history(way, room) + "\n", style=_STYLES[way.direction])
    lines = [f"watching for {frame.seconds:.0f} s", *(_sources(frame) or [_NOTHING])]
    told.append("; ".join(lines), style="dim")
    for problem in frame.problems:
        told.append(f"\n{problem}", style="yellow")
    return told


def sparkline(values: FloatArray, highest: float) -> str:
    """Return a bar for each value, from 0 to `highest`; a blank for one that is not a number.

    >>> import numpy as np
    >>> sparkline(np.array([0, 1, 2, np.nan, 4]), 4.0)
    '▁▂▄ █'
    """
    return _sparkline(values.tolist(), highest)


def _sparkline(values: Sequence[float], highest: float) -> str:
    scale = len(_BARS) / highest if highest > 0 else 0.0
    return "".join(
        " " if math.isnan(v) else _BARS[min(max(math.ceil(v * scale) - 1, 0), len(_BARS) - 1)]
        for v in values
    )


def _row(way: LiveWay) -> str:
    rates, share = way.rates, way.share_of_limit
    of_link = "-" if share is None else f"{share:.0%}"
    now, second, ever = map(_gbs, (rates.now_gbs, rates.peak_second_gbs, rates.peak_gbs))
    return f"{now:>7}{second:>10}{ever:>7}{of_link:>9}{way.lost_samples:>7}  "


def _gbs(gbs: float | None) -> str:
    return "-" if gbs is None else f"{gbs:.2f}"


def _history(way: LiveWay, room: int) -> str:
    history = way.rates.history_gbs
    shown = history[max(history.size - room, 0) :]
    return _bars(tuple(shown.tolist()), way.limit.gbs or 0.0)


@lru_cache(maxsize=256)  # it changes once a second, and is drawn ten times
def _bars(values: tuple[float, ...], least: float) -> str:
    highest = max([least, *(v for v in values if not math.isnan(v))])
    return _sparkline(values, highest)


def _sources(frame: LiveFrame) -> list[str]:
    """What counts, each once, with the GPUs that it counts for."""
    gpus: dict[str, list[int]] = {}
    for way in frame.ways:
        every, over = window_text(way.interval_ns), window_text(way.peak_window_ns)
        of = " of NVLink" if way.direction.startswith("nvlink") else ""
        known = gpus.setdefault(f"{way.source}{of} every {every}, peaks over {over}", [])
        if way.gpu not in known:
            known.append(way.gpu)
    return [f"{', '.join(f'g{g}' for g in those)} by {what}" for what, those in gpus.items()]
