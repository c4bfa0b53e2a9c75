"""Every method with its best number of streams, fastest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from lanescope.calls import checked
from lanescope.errors import InputError, NotMeasuredError, argument
from lanescope.prediction import equations
from lanescope.prediction.graphs import MOST_TASKS, task_count
from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.predictor import MAPPED, STREAMED, Method, Prediction, Predictor, Workload
from lanescope.units.sizes import size_text

_NO_KERNEL = "Without a kernel nothing reads or writes mapped memory."


class Tried:
    """Predictions of one method by rising numbers of streams.

    An interval takes a replay as long as the time itself does, and twice that: it is made when a
    prediction is looked at, not for all that a search goes through.

    Parameters
    ----------
    values
        Seconds by number of streams; one or more.
    predict
        Makes the prediction of a number, whose middle is that value.
    """

    def __init__(self, values: Mapping[int, float], predict: Callable[[int], Prediction]) -> None:
        self._values = dict(sorted(values.items()))
        self._make = predict
        self._made: dict[int, Prediction] = {}

    def __iter__(self) -> Iterator[Prediction]:
        return map(self._predict, self._values)

    def _predict(self, streams: int) -> Prediction:
        # not by lru_cache, which cannot be pickled
        if streams not in self._made:
            self._made[streams] = self._make(streams)
        return self._made[streams]

    def __len__(self) -> int:
        return len(self._values)

    @property
    def fastest_streams(self) -> int:
        """The number of streams that takes the least time; of equal ones the smallest."""
        return min(self._values, key=self._values.__getitem__)

    @property
    def best(self) -> Prediction:
        """That with the fewest streams of those that are nearly the fastest.

        Each stream costs memory and calls, and what is gained by more of them than these is less
        than a prediction is good for.
        """
        return self._predict(self.fewest_streams(min(self._values.values()) * (1 + NEARLY)))

    @property
    def most_streams(self) -> int:
        """The largest number of streams that was tried."""
        return max(self._values)

    def fewest_streams(self, seconds: float) -> int:
        """Return the smallest number of streams that takes so long or less."""
        return next(streams for streams, value in self._values.items() if value <= seconds)


#: What more streams have to gain to be worth it.
NEARLY = 0.01
#: Parts that are in the GPU's memory at once where it does not hold all of them: one of Streams
#: comes, one is computed and one goes, so that none waits for memory; what Hybrid writes is not in
#: it.
_PARTS_AT_ONCE = {Method.STREAMS: 3, Method.HYBRID: 2}
#: So many numbers of streams are tried whatever it takes; of more, some so far apart.
_FEW_COUNTS, _APART = 12, 2


@dataclass(frozen=True, slots=True)
class Skipped:
    """A method that cannot be predicted, and why.

    Attributes
    ----------
    possible
        False where no program could move the data so: the GPU's memory does not hold them.
    """

    method: Method
    reason: str
    possible: bool = True


@dataclass(frozen=True, slots=True)
class Ranking:
    """The methods of one workload on one machine.

    Attributes
    ----------
    workload, parameters
        Of which it is.
    best
        One prediction for each method, with its best number of streams (see `Tried`); fastest
        first.
    skipped
        The methods that are not in it.
    curves
        For each method its predictions by rising numbers of streams; one for methods without.
    closed_form
        The number of streams that the paper's closed forms give for Streams; None where they
        give none.
    """

    workload: Workload
    parameters: LinkParameters
    best: tuple[Prediction, ...]
    skipped: tuple[Skipped, ...]
    curves: dict[Method, Tried]
    closed_form: float | None = None

    @property
    def winner(self) -> Prediction:
        """The fastest."""
        return self.best[0]

    @property
    def chosen(self) -> Prediction:
        """The fastest of those whose time does not hang on what nobody said.

        Where it is only assumed how often mapped bytes cross the link, methods with mapped memory
        are not chosen, unless there is no other.
        """
        if not self.workload.mapped_assumed:
            return self.winner
        return next((one for one in self.best if one.method not in MAPPED), self.winner)

    @property
    def decided(self) -> bool:
        """Whether the fastest one's interval lies below the next one's."""
        return len(self.best) < 2 or self.best[0].seconds.high < self.best[1].seconds.low

    @property
    def level(self) -> tuple[Prediction, ...]:
        """The methods behind the first whose intervals overlap its own."""
        top = self.best[0].seconds.high
        return tuple(p for p in self.best[1:] if p.seconds.low <= top)


@checked
def rank(
    workload: Workload,
    parameters: LinkParameters,
    predictor: Predictor,
    streams: Sequence[int],
    methods: Sequence[Method] = tuple(Method),
) -> Ranking:
    """Predict every method at every number of streams, and sort.

    Of numbers of streams within 1 % of the fastest the smallest is taken; numbers that the
    workload cannot be cut into, or that are too many to be replayed, are left out, as are methods
    and numbers whose data the GPU's memory does not hold (see `least_parts`). Of many numbers a
    slow predictor tries some that are twice as large apart, and one on either side of the best of
    these.

    Raises
    ------
    InputError
        If nothing of the workload can be done, or not by any of the methods.
    """
    require_possible(workload)
    if not methods:
        raise InputError("no method is named; give one or more")
    counts = _possible(workload, streams)
    if predictor.is_slow:
        counts = tuple(n for n in counts if task_count(workload, n) <= MOST_TASKS) or counts[:1]
    curves: dict[Method, Tried] = {}
    skipped = []
    for method in methods:
        if method in MAPPED and not workload.has_kernel:
            skipped.append(Skipped(method, _NO_KERNEL))
            continue
        least = least_parts(workload, method, parameters)
        tried = tuple(n for n in (counts if method in STREAMED else (1,)) if least and n >= least)
        if not tried:
            skipped.append(Skipped(method, _no_room(workload, parameters, least), possible=False))
            continue
        try:
            curves[method] = _tried(workload, parameters, predictor, method, tried)
        except NotMeasuredError as error:
            skipped.append(Skipped(method, error.reason))
    if not curves:
        raise InputError(f"no method can be predicted: {skipped[0].reason}")
    best = sorted((curve.best for curve in curves.values()), key=lambda p: p.seconds.value)
    found = closed_form(workload, parameters)
    return Ranking(workload, parameters, tuple(best), tuple(skipped), curves, found)


def least_parts(workload: Workload, method: Method, parameters: LinkParameters) -> int | None:
    """Return the fewest parts in which the GPU's memory holds a method's data; None: in none.

    1 where it holds all of it, or its size is not known. Of independent parts that two copy engines
    move only so many are there at once that the next part waits for no memory, which is as fast.
    """
    room = parameters.memory_bytes
    held = {
        Method.IMPLICIT: 0,
        Method.HYBRID: workload.h2d_bytes,
    }.get(method, workload.h2d_bytes + workload.d2h_bytes)
    if room is None or held <= room:
        return 1
    needed = workload.needs_previous or workload.returns_later
    in_turn = parameters.copy_engines > 1 and not parameters.implicit_synchronisation
    if method not in _PARTS_AT_ONCE or needed or not in_turn:
        return None
    return -(-held * _PARTS_AT_ONCE[method] // room)


def _no_room(workload: Workload, parameters: LinkParameters, least: int | None) -> str:
    """Return why a method is not possible."""
    total, room = workload.h2d_bytes + workload.d2h_bytes, parameters.memory_bytes or 0
    parts = "" if least is None else f" in fewer than {least} parts"
    return (
        f"The GPU's {size_text(room)} of memory do not hold the {size_text(total)} of a round"
        f"{parts}."
    )


def _tried(
    workload: Workload,
    parameters: LinkParameters,
    predictor: Predictor,
    method: Method,
    counts: tuple[int, ...],
) -> Tried:
    """Try numbers of streams for a method."""
    predict = partial(_predicted, workload, parameters, predictor, method)

    def at(tried: Iterable[int]) -> dict[int, float]:
        return {n: predictor.value(workload, method, n, parameters) for n in tried}

    if not predictor.is_slow or len(counts) <= _FEW_COUNTS:
        return Tried(at(counts), predict)
    coarse = _coarse(counts)
    known = at(coarse)
    place = coarse.index(min(known, key=known.__getitem__))
    around = coarse[max(place - 1, 0) : place + 2]
    between = {(a + b) // 2 for a, b in pairwise(around)} & set(counts)
    return Tried(known | at(between - set(known)), predict)


def _predicted(
    workload: Workload,
    parameters: LinkParameters,
    predictor: Predictor,
    method: Method,
    streams: int,
) -> Prediction:
    return predictor.predict(workload, method, streams, parameters)


def _coarse(counts: tuple[int, ...]) -> list[int]:
    """Return some of rising counts, each twice the one before or more, and the last."""
    found = [counts[0]]
    for count in counts[1:]:
        if count >= found[-1] * _APART or count == counts[-1]:
            found.append(count)
    return found


def require_possible(workload: Workload) -> None:
    """Refuse a workload that no machine can do.

    Raises
    ------
    InputError
        If bytes lie in no array, or in more than there are bytes, or nothing is moved.
    """
    for what, arrays, size in (
        ("GPU", workload.h2d_arrays, workload.h2d_bytes),
        ("host", workload.d2h_arrays, workload.d2h_bytes),
    ):
        if arrays < 1:
            raise InputError(f"the workload's arrays to the {what} are {arrays}; give 1 or more")
        if 0 < size < arrays:
            raise InputError(
                f"{size} B to the {what} cannot be in {arrays} arrays; "
                "give fewer arrays, or more bytes"
            )
    if not workload.h2d_bytes and not workload.d2h_bytes:
        raise InputError(
            f"the workload moves no bytes; give bytes to the GPU ({argument.h2d_bytes}) or back "
            f"({argument.d2h_bytes})"
        )


def _possible(workload: Workload, streams: Sequence[int]) -> tuple[int, ...]:
    moved = [
        size // arrays
        for size, arrays in (
            (workload.h2d_bytes, workload.h2d_arrays),
            (workload.d2h_bytes, workload.d2h_arrays),
        )
        if size
    ]
    # A direction with few bytes is not cut, and forbids nothing; see `copies_of`.
    most = min(max(moved) if min(moved) else 0, workload.most_streams or max(moved))
    counts = tuple(sorted({n for n in streams if 1 <= n <= most}))
    if not counts:
        raise InputError(
            f"the workload cannot be cut into {', '.join(str(n) for n in streams[:3])} parts: "
            f"{most} at most; give other numbers of streams"
        )
    return counts


def closed_form(workload: Workload, parameters: LinkParameters) -> float | None:
    """Return the number of streams by the paper's section VI, for Streams; 1 or more.

    None where a kernel dominates two copy engines, or one with no implicit synchronisation: there
    the paper has no form. Without a gap there is no largest number.
    """
    found = _closed_form(workload, parameters)
    return None if found is None else max(found, 1.0)


def _closed_form(workload: Workload, parameters: LinkParameters) -> float | None:
    h2d = workload.h2d_bytes * parameters.h2d.per_byte.value
    d2h = workload.d2h_bytes * parameters.d2h.per_byte.value
    kernel = workload.kernel_seconds
    shorter = min(h2d, d2h)
    longer = parameters.h2d if h2d >= d2h else parameters.d2h
    both = (parameters.h2d.gap.value + parameters.d2h.gap.value) / 2
    if parameters.copy_engines > 1:
        gap = longer.gap.value
        if kernel > max(h2d, d2h) or not gap:
            return None
        return equations.most_streams_5(kernel, shorter, gap)
    if not parameters.implicit_synchronisation:
        if kernel > h2d + d2h or not shorter:
            return None
        return equations.fewest_streams_4(kernel, shorter, both)
    if kernel > h2d:
        gap = parameters.d2h.gap.value
        return equations.most_streams_1(h2d, gap) if gap else None
    return equations.most_streams_2(kernel, both) if both else None
