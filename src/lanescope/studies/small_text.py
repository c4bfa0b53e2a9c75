"""What a map of small copies says, in sentences and in the texts of its cells."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from lanescope.experiment.submission import Submission
from lanescope.measurement.result import Result
from lanescope.report.format import bytes_text, count_text, gbs_text, percent_text, seconds_text
from lanescope.studies.small_maps import (
    Regime,
    SmallCell,
    SmallMap,
    inversions,
    largest_gain,
    regimes_by_count,
    regimes_by_size,
    small_maps,
    submit_shares,
)

#: When nearly all of the time is spent in the call, it is not the GPU that is waited for.
_BY_THE_THREAD = 0.8

#: Marks a cell in which another method may be as fast.
TIE = "~"

EXPLANATION = (
    f"{TIE}: another method is as fast, as far as the 95 % confidence intervals tell. mapped "
    "copies nothing: a kernel uses the data in host memory; where it leads, the fastest copy "
    "stands below."
)


def cell_lines(cell: SmallCell | None) -> tuple[str, ...]:
    """Return the fastest method with its GB/s; below it the fastest copy, if that is another."""
    best = cell.fastest() if cell is not None else None
    if cell is None or best is None:
        return ()
    if best is not Submission.MAPPED:
        return (_leader(cell, tuple(Submission), best),)
    copies = tuple(m for m in Submission if m is not Submission.MAPPED)
    copy = cell.fastest(copies)
    below = () if copy is None else (_leader(cell, copies, copy),)
    return (_leader(cell, tuple(Submission), best), *below)


def map_sentences(small: SmallMap) -> tuple[str, ...]:
    """Return all that a map tells: crossovers, what there is to gain, the host's share."""
    return (
        *_crossovers_by_size(small),
        *_crossovers_by_count(small),
        *_gain(small),
        *_inversions(small),
        *_in_place(small),
        *_host_share(small),
    )


def small_conclusion(results: Sequence[Result]) -> str:
    """Return the outcome of a run of maps in one sentence."""
    maps = small_maps(results)
    if not maps:
        return "No small copy could be measured."
    cells = sum(len(small.cells) for small in maps)
    paths = " and ".join(small.path for small in maps)
    clauses = [f"Small copies of {count_text(cells, 'cell')} mapped for {paths}; none is judged"]
    if missing := sum(not result.copies for result in results):
        clauses.append(f"{count_text(missing, 'measurement is', 'measurements are')} missing")
    if wrong := [v for result in results for v in result.verdicts if v.failed]:
        many = count_text(len(wrong), "cell is", "cells are")
        clauses.append(f"{many} {wrong[0].status}: {wrong[0].reason}")
    return "; ".join(clauses) + "."


def _leader(cell: SmallCell, methods: Sequence[Submission], best: Submission) -> str:
    mark = TIE if cell.ties(methods) else ""
    return f"{best} {gbs_text(cell.by_method[best].gbs)}{mark}"


def _crossovers_by_size(small: SmallMap) -> Iterator[str]:
    lines = [(n, regimes_by_size(small, n, small.copying)) for n in small.counts]
    for counts, found in _merged(lines):
        which = count_text(counts[0], "piece")
        if len(counts) > 1:
            which = f"{counts[0]} to {count_text(counts[-1], 'piece')}"
        yield f"{small.path}, {which}: {_regimes_text(found, bytes_text, 'every size')}."


def _crossovers_by_count(small: SmallMap) -> Iterator[str]:
    lines = [(s, regimes_by_count(small, s, small.copying)) for s in small.sizes]
    for sizes, found in _merged(lines):
        which = bytes_text(sizes[0])
        if len(sizes) > 1:
            which += f" to {bytes_text(sizes[-1])}"
        words = _regimes_text(found, lambda n: count_text(int(n), "piece"), "every count")
        yield f"{small.path}, pieces of {which}: {words}."


def _merged(
    lines: Sequence[tuple[int, tuple[Regime, ...]]],
) -> Iterator[tuple[list[int], tuple[Regime, ...]]]:
    """Put neighbouring lines that tell the same together."""
    for key, group in itertools.groupby(lines, key=lambda line: _shape(line[1])):
        members = list(group)
        if key:
            yield [value for value, _ in members], members[0][1]


def _shape(found: tuple[Regime, ...]) -> tuple[object, ...]:
    """What makes two lines tell the same; where the first regime begins does not count."""
    return tuple((r.method, None if i == 0 else r.first) for i, r in enumerate(found))


def _regimes_text(found: Sequence[Regime], unit: Callable[[float], str], everywhere: str) -> str:
    if len(found) == 1:
        return f"{found[0].method} at {everywhere}"
    later = [f"{r.method} from {unit(r.first)}" for r in found[1:]]
    return f"{', '.join([f'{found[0].method} below {unit(found[1].first)}', *later])} on"


def _gain(small: SmallMap) -> Iterator[str]:
    gain = largest_gain(small)
    if gain is not None:
        cell, method, factor = gain
        where = f"{count_text(cell.pieces, 'piece')} of {bytes_text(cell.piece_bytes)}"
        yield (
            f"{small.path}: most to gain with {where}, where {method} is {gbs_text(factor)} times "
            "as fast as single."
        )


def _inversions(small: SmallMap) -> Iterator[str]:
    for found in inversions(small):
        count = found.smaller.pieces
        took = [_piece_text(c, found.method) for c in (found.smaller, found.larger)]
        share = found.smaller.submit_share(found.method) or 0.0
        why = (
            f", and {percent_text(share)} of the former is spent in the call: it is the calling "
            "thread that moves so small pieces"
            if share > _BY_THE_THREAD
            else ""
        )
        yield (
            f"{small.path}: by {found.method} a piece of {took[0]} and one of {took[1]} "
            f"({count_text(count, 'piece')} each){why}."
        )


def _piece_text(cell: SmallCell, method: Submission) -> str:
    seconds = cell.seconds(method) / cell.pieces
    return f"{bytes_text(cell.piece_bytes)} takes {seconds_text(seconds)}"


def _in_place(small: SmallMap) -> Iterator[str]:
    both = [c for c in small.cells.values() if Submission.MAPPED in c.by_method]
    pairs = [(c, c.fastest(small.copying)) for c in both if small.copying != small.methods]
    known = [(c, best) for c, best in pairs if best is not None]
    if known:
        ahead = sum(c.is_faster(Submission.MAPPED, best) for c, best in known)
        yield (
            f"{small.path}: using the data in place (mapped) is faster than every copy of it in "
            f"{ahead} of {count_text(len(known), 'cell')}."
        )


def _host_share(small: SmallMap) -> Iterator[str]:
    shares = submit_shares(small)
    if shares:
        listed = ", ".join(f"{method} {percent_text(share)}" for method, share in shares.items())
        yield f"{small.path}: share of the time spent in the calls, median of all cells: {listed}."
