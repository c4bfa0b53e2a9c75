"""``lanescope watch --all --keep``: for ever, with the last hours or days on the disk."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from lanescope.errors import InputError, MissingPartError
from lanescope.units.words import duration_text

#: A sample each ms: 50 times fewer than by default, which is fine enough for links of a machine.
_INTERVAL_NS = 1_000_000
#: The driver's counters begin anew every 34 ms at the fastest.
_PERIOD_NS = 10_000_000
#: Of the hardware's buffer, which holds two seconds; each fetching takes 1 ms of a core.
_DECODE_PERIOD_NS = 400_000_000


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
        If the folder is another's, or the address is taken.
    """
    from lanescope.machine import discover
    from lanescope.watching.continuous import ContinuousWatch, default_folder
    from lanescope.watching.metrics import metrics_of
    from lanescope.watching.source_choice import counters_for, counters_work, require_usable
    from lanescope.watching.source_request import SourceRequest

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
    with _served(metrics, lambda: metrics_of(writer)) as where:
        _say(f"storing the last {duration_text(keep_ns)} in {wanted.folder}{where}", quiet=quiet)
        wanted.run(writer, lambda: _say("sources say nothing; they begin anew", quiet=False))
    if writer.problem is not None:
        _say(writer.problem, quiet=False)
    _say(f"'lanescope report {wanted.folder} --last 10min' shows it", quiet=quiet)


@contextlib.contextmanager
def _served(metrics: str | None, text: object) -> Iterator[str]:
    from lanescope.watching.metrics import DEFAULT_ADDRESS, address_of, serving

    if metrics == "off":
        yield ""
        return
    with contextlib.ExitStack() as stack:
        host, port = address_of(metrics or DEFAULT_ADDRESS)
        try:
            port = stack.enter_context(serving((host, port), text))  # type: ignore[arg-type]
            where = f"; metrics at http://{host}:{port}/metrics"
        except InputError as error:
            if metrics is not None:
                raise
            where = f"; {error}"  # nobody asked for this place
        yield where


def _say(words: str, *, quiet: bool) -> None:
    if not quiet:
        print(f"lanescope: {words}", file=sys.stderr, flush=True)
