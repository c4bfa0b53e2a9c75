"""Predictions as tables and lines of the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table

from lanescope.model.overlap.methods import STREAMED
from lanescope.model.overlap.question import Answer
from lanescope.model.overlap.rank import Ranking
from lanescope.model.overlap.roofline import Bounds
from lanescope.model.overlap.words import bound_text, method_text, why
from lanescope.report.format import bytes_text, gbs_text, seconds_text, time_spread_text

if TYPE_CHECKING:
    from lanescope.model.overlap.several import Several


def predict_parts(answer: Answer) -> Iterator[Table | str]:
    """Return what the terminal shows, from top to bottom."""
    ranking = answer.ranking
    known = ranking.parameters
    yield (
        f"Predicted by {answer.predictor} for {known.name}: {known.gpu}, "
        f"{known.link}, {known.origin} parameters"
    )
    yield workload_text(ranking)
    yield _methods(ranking)
    yield f"Bounds (predicted): {bounds_text(answer.bounds)}"
    if answer.printed is not None:
        yield f"With one bandwidth for both directions (predicted): {bounds_text(answer.printed)}"
    yield _best_streams(ranking)
    yield ""
    yield why(ranking)
    if answer.on:
        yield ""
        yield _links(answer)
    if answer.several is not None:
        yield ""
        yield _several(answer.several, ranking)
        yield several_text(answer.several)


def workload_text(ranking: Ranking) -> str:
    """Return the workload in one line."""
    work = ranking.workload
    into = bytes_text(work.h2d_bytes) if work.h2d_bytes else "nothing"
    back = bytes_text(work.d2h_bytes) if work.d2h_bytes else "nothing"
    kernel = seconds_text(work.kernel_seconds)
    kernel = f"a kernel of {kernel}" if work.kernel_seconds else "no kernel"
    return f"Each round: {into} to the GPU, {kernel}, {back} back"


def _methods(ranking: Ranking) -> Table:
    table = Table(title="Methods, fastest first (predicted)", title_justify="left")
    for name, justify in (
        ("method", "left"),
        ("streams", "right"),
        ("time", "right"),
        ("95 % interval", "right"),
        ("bound by", "left"),
        ("× fastest", "right"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for one in ranking.best:
        table.add_row(
            str(one.method),
            str(one.streams) if one.method in STREAMED else "–",
            seconds_text(one.seconds.value),
            time_spread_text(one.seconds.low, one.seconds.high),
            bound_text(one),
            f"{one.seconds.value / ranking.winner.seconds.value:.2f}",
        )
    return table


def bounds_text(bounds: Bounds) -> str:
    """Return three bounds in one line, each with its interval where it has one."""
    named = (
        ("full overlap", bounds.full_overlap),
        ("no overlap", bounds.zero_overlap),
        ("mapped memory", bounds.mapped),
    )
    told = []
    for name, seconds in named:
        more = []
        if seconds.low < seconds.high:
            more.append(time_spread_text(seconds.low, seconds.high))
        if (rate := bounds.rate(seconds)) is not None:
            more.append(f"{gbs_text(rate * 1e-9)} GFLOP/s")
        text = f"{name} {seconds_text(seconds.value)}"
        told.append(f"{text} ({', '.join(more)})" if more else text)
    return ", ".join(told)


def _best_streams(ranking: Ranking) -> str:
    told = [method_text(one) for one in ranking.best if one.method in STREAMED]
    return f"Best numbers of streams (predicted): {', '.join(told) or 'none was predicted'}"


def _links(answer: Answer) -> Table:
    table = Table(title="On other links (predicted)", title_justify="left")
    table.add_column("link")
    table.add_column("fastest method")
    table.add_column("time", justify="right")
    table.add_column("95 % interval", justify="right")
    table.add_column("times as fast", justify="right")
    now = answer.ranking.winner.seconds.value
    for ranking in (answer.ranking, *answer.on):
        best = ranking.winner
        label = ranking.parameters.link
        table.add_row(
            f"{label} (as it is)" if ranking is answer.ranking else label,
            method_text(best) + ("" if ranking.decided else ", not decided"),
            seconds_text(best.seconds.value),
            time_spread_text(best.seconds.low, best.seconds.high),
            f"{now / best.seconds.value:.2f}",
        )
    return table


def _several(several: Several, ranking: Ranking) -> Table:
    title = f"On {several.gpus} GPUs at once (predicted by replay)"
    table = Table(title=title, title_justify="left")
    table.add_column("method")
    table.add_column("time", justify="right")
    table.add_column("95 % interval", justify="right")
    table.add_column("× one GPU", justify="right")
    alone = {one.method: one.seconds.value for one in ranking.best}
    for one in sorted(several.predictions, key=lambda p: p.seconds.value):
        table.add_row(
            method_text(one),
            seconds_text(one.seconds.value),
            time_spread_text(one.seconds.low, one.seconds.high),
            f"{one.seconds.value / alone[one.method]:.2f}",
        )
    return table


def several_text(several: Several) -> str:
    """Return what the GPUs share, in a sentence."""
    began = f"One thread of {several.machine} begins a round on each GPU; "
    if not several.shared:
        return (
            f"{began}that they share anything whose speed is known, its machine file does not "
            "tell: give the nodes' memory_gbs where the host's memory may be the limit."
        )
    return f"{began}they share {', '.join(several.shared)}, max-min fairly."
