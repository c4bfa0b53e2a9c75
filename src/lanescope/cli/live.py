"""A watch that goes on: its view on the terminal of standard error, and one without an end.

rich draws views as well, and lays its lines out anew each time: that took half of what a live view
may take.
"""

from __future__ import annotations

import math
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from lanescope._core import native
from lanescope.cli.terminal_text import CLEAR_LINE_END, acting, can_be_drawn_on, is_terminal
from lanescope.errors import InputError, MissingPartError
from lanescope.trace.windows import window_text
from lanescope.units.words import duration_text

if TYPE_CHECKING:
    from rich.text import Text

    from lanescope.machine import Machine
    from lanescope.watching.live import LiveDirection, LiveFrame, LiveWatch

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CLEAR_BELOW = "\x1b[J"
#: What ECMA-48 calls the few styles that are used.
_ANSI = {"bold": "1", "dim": "2", "cyan": "36", "green": "32", "yellow": "33"}
#: What a terminal acts on, a character in its place: columns are counted.
_CONTROL = dict.fromkeys((*range(10), *range(11, 32), *range(127, 160)), "?")
_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = f"{'now':>7}{'peak 1 s':>10}{'peak':>7}{'of link':>9}{'lost':>7}  "
_NAME_WIDTH = 8
_STYLES = {"h2d": "cyan", "d2h": "green", "nvlink-rx": "cyan", "nvlink-tx": "green"}
_NOTHING = "nothing is counted yet"
_PERIOD_SECONDS = 0.1
#: A sample each ms: 50 times fewer than by default, which is fine enough for links of a machine.
_INTERVAL_NS = 1_000_000
#: The driver's counters begin anew every 34 ms at the fastest.
_PERIOD_NS = 10_000_000
#: Of the hardware's buffer, which holds two seconds; each fetching takes 1 ms of a core.
_DECODE_PERIOD_NS = 400_000_000


class Redrawn:
    """Draws texts over each other; what was drawn is gone at the end.

    Raises
    ------
    OSError
        From any method, if the terminal has gone.
    """

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._drawn = 0

    @property
    def columns(self) -> int:
        """How wide the terminal is."""
        return self._size().columns

    def draw(self, view: Text) -> None:
        """Draw lines in place of those before, as many as the terminal has room for."""
        size = self._size()
        lines = _lines(view, size.columns)[: max(size.lines - 1, 1)]
        content = "".join(f"{line}{CLEAR_LINE_END}\n" for line in lines)
        self._write(f"{self._up()}{content}{_CLEAR_BELOW}")
        self._drawn = len(lines)

    def __enter__(self) -> Redrawn:
        self._write(_HIDE_CURSOR)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(f"{self._up()}{_CLEAR_BELOW}{_SHOW_CURSOR}")

    def _up(self) -> str:
        return f"\r\x1b[{self._drawn}A" if self._drawn else "\r"

    def _size(self) -> os.terminal_size:
        found = os.get_terminal_size(self._terminal.fileno())
        return found if found.columns and found.lines else os.terminal_size((80, 24))

    def _write(self, content: str) -> None:
        self._terminal.write(content)
        self._terminal.flush()


def _lines(view: Text, columns: int) -> list[str]:
    """Return the lines of a text with the codes of its styles, each cut to the width."""
    styles = {} if os.environ.get("NO_COLOR") else _ANSI
    plain, lines, begin = view.plain.translate(_CONTROL), [], 0
    for line in plain.split("\n"):
        end = begin + len(line)
        cut = line if len(line) <= columns else line[: columns - 1] + "…"
        parts, at = [], begin
        for span in view.spans:  # in order, and none within another
            first, last = max(span.start, begin), min(span.end, begin + len(cut))
            if first < last and (code := styles.get(str(span.style))):
                parts += [cut[at - begin : first - begin], f"\x1b[{code}m"]
                parts += [cut[first - begin : last - begin], "\x1b[0m"]
                at = last
        lines.append("".join((*parts, cut[at - begin :])))
        begin = end + 1
    return lines


def live_text(frame: LiveFrame, width: int) -> Text:
    """Return the view of one moment.

    Parameters
    ----------
    width
        Columns of the terminal; what is short of room is the history.
    """
    from rich.text import Text

    names = [f"g{one.gpu} {one.direction.replace('-', ' ')}" for one in frame.directions]
    wide = max([_NAME_WIDTH, *(len(name) + 1 for name in names)])
    room = max(width - wide - len(_COLUMNS) - 1, 0)
    view = Text(no_wrap=True, overflow="ellipsis", end="")
    view.append(f"{'GB/s':{wide}}{_COLUMNS}{'last 60 s' if room else ''}\n", style="bold")
    for name, one in zip(names, frame.directions, strict=True):
        view.append(f"{name:{wide}}{_row(one)}")
        view.append(_history(one, room) + "\n", style=_STYLES[one.direction])
    lines = [f"watching for {frame.seconds:.0f} s", *(_sources(frame) or [_NOTHING])]
    view.append("; ".join(lines), style="dim")
    for problem in frame.problems:
        view.append(f"\n{problem}", style="yellow")
    return view


def sparkline(values: Sequence[float], highest: float) -> str:
    """Return a bar for each value, from 0 to `highest`; a blank for one that is not a number.

    >>> sparkline([0, 1, 2, math.nan, 4], 4.0)
    '▁▂▄ █'
    """
    scale = len(_BARS) / highest if highest > 0 else 0.0
    return "".join(
        " " if math.isnan(v) else _BARS[min(max(math.ceil(v * scale) - 1, 0), len(_BARS) - 1)]
        for v in values
    )


def _row(one: LiveDirection) -> str:
    rates, share = one.rates, one.share_of_limit
    of_link = "-" if share is None else f"{share:.0%}"
    now, second, ever = map(_gbs, (rates.now_gbs, rates.peak_second_gbs, rates.peak_gbs))
    return f"{now:>7}{second:>10}{ever:>7}{of_link:>9}{one.lost_samples:>7}  "


def _gbs(gbs: float | None) -> str:
    return "-" if gbs is None else f"{gbs:.2f}"


def _history(one: LiveDirection, room: int) -> str:
    history = one.rates.history_gbs
    shown = history[max(history.size - room, 0) :]
    return _bars(tuple(shown.tolist()), one.limit.gbs or 0.0)


@lru_cache(maxsize=256)  # it changes once a second, and is drawn ten times
def _bars(values: tuple[float, ...], least: float) -> str:
    highest = max([least, *(v for v in values if not math.isnan(v))])
    return sparkline(values, highest)


def _sources(frame: LiveFrame) -> list[str]:
    """What counts, each once, with the GPUs that it counts for."""
    gpus: dict[str, list[int]] = {}
    for one in frame.directions:
        every, over = window_text(one.interval_ns), window_text(one.peak_window_ns)
        of = " of NVLink" if one.direction.startswith("nvlink") else ""
        known = gpus.setdefault(f"{one.source}{of} every {every}, peaks over {over}", [])
        if one.gpu not in known:
            known.append(one.gpu)
    return [f"{', '.join(f'g{g}' for g in those)} by {what}" for what, those in gpus.items()]


def check_terminal(*, launches: bool) -> None:
    """Refuse a live view where there is no place for it.

    Parameters
    ----------
    launches
        Whether a program is run, whose output may go to the same terminal.

    Raises
    ------
    InputError
        If standard error cannot be drawn on, or the program's output would be drawn over.
    """
    if not can_be_drawn_on(sys.stderr):
        raise InputError(
            "--live draws on standard error, which is no terminal that can be drawn on; leave "
            "--live away, or do not redirect standard error"
        )
    if launches and is_terminal(sys.stdout):
        raise InputError(
            "--live would draw over what the program prints; redirect its output (> FILE), or "
            "run it in another terminal and watch it by --pid"
        )


@contextmanager
def live_view(folder: Path, machine: Machine) -> Iterator[None]:
    """Show what spools in a folder say, ten times a second, until the block is left.

    Whatever becomes of the terminal, the block goes on.
    """
    from lanescope.findings.trace import measured_ceilings
    from lanescope.watching.live import LiveWatch

    watch = LiveWatch(folder, machine, measured_ceilings(machine))
    ended = threading.Event()
    drawing = threading.Thread(target=_draw, args=(watch, ended), daemon=True)
    drawing.start()
    try:
        yield
    finally:
        ended.set()
        drawing.join()


def _draw(watch: LiveWatch, ended: threading.Event) -> None:
    terminal = acting(sys.stderr)
    assert terminal is not None, "it was looked at before"
    with suppress(OSError, ValueError), Redrawn(terminal) as view:  # the terminal has gone
        while not ended.wait(_PERIOD_SECONDS):
            view.draw(live_text(watch.look(native.watch_time_ns()), view.columns))


def watch_continuously(
    keep_ns: int,
    names: tuple[str, ...] | None,
    interval_ns: int | None,
    metrics: str | None,
    out: Path | None,
    most_bytes: int | None,
    *,
    quiet: bool,
) -> None:
    """Watch until Ctrl-C or SIGTERM, which ends it with exit code 0.

    Parameters
    ----------
    metrics
        Where they are served; None is the default place, ``off`` none.

    Raises
    ------
    MissingPartError
        If a source, or all counters, cannot watch here.
    InputError
        If the folder is another's, or the address is none or taken.
    """
    from lanescope.machine import discover
    from lanescope.watching.continuous import (
        DEFAULT_ADDRESS,
        ContinuousWatch,
        address_of,
        default_folder,
        metrics_of,
    )
    from lanescope.watching.requests import SourceRequest
    from lanescope.watching.source_choice import counters_for, counters_work, require_usable

    address = None if metrics == "off" else address_of(metrics or DEFAULT_ADDRESS)
    request = SourceRequest(
        names,
        interval_ns or _INTERVAL_NS,
        _PERIOD_NS,
        _DECODE_PERIOD_NS,
        traceable=False,
    )
    require_usable(machine := discover(), request)
    if names is None and not counters_work(machine, request):
        raise MissingPartError("no counters work here; see 'lanescope doctor'")
    wanted = ContinuousWatch(
        (out or default_folder()).absolute(),
        keep_ns,
        most_bytes,
        discover,
        lambda machine, spool: counters_for(machine, request, spool),
        shlex.join(["lanescope", *sys.argv[1:]]),
    )
    writer = wanted.writer()
    with _served(address, lambda: metrics_of(writer), asked=metrics is not None) as where:
        _say(f"storing the last {duration_text(keep_ns)} in {wanted.folder}{where}", quiet=quiet)
        wanted.run(writer, lambda: _say(_begun_anew(writer.problem), quiet=False))
    if writer.problem is not None:
        _say(writer.problem, quiet=False)
    if writer.lost_records:
        _say(f"records that could not be stored: {writer.lost_records:,}", quiet=False)
    _say(f"'lanescope report {wanted.folder} --last 10min' shows it", quiet=quiet)


def _begun_anew(problem: str | None) -> str:
    return f"sources say nothing; they begin anew{f'; {problem}' if problem else ''}"


@contextmanager
def _served(
    address: tuple[str, int] | None, text: Callable[[], str], *, asked: bool
) -> Iterator[str]:
    """Serve metrics, if anywhere; yield the words that say where.

    Raises
    ------
    InputError
        If the place is taken, and was `asked` for.
    """
    from lanescope.watching.continuous import address_text, serving

    if address is None:
        yield ""
        return
    with ExitStack() as stack:
        try:
            port = stack.enter_context(serving(address, text))
            where = f"; metrics at http://{address_text(address[0], port)}/metrics"
        except InputError as error:
            if asked:
                raise
            where = f"; {error}"
        yield where


def _say(words: str, *, quiet: bool) -> None:
    if not quiet:
        print(f"lanescope: {words}", file=sys.stderr, flush=True)
