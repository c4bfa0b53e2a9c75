"""What predictors are told, a workload and its methods, and what every one of them answers.

Also the predictors by name, and how far they may be off. That comes from
``benchmarks/model/across_machines.py``, which compares stored fits with what other machines of the
same kind measured: transfers of fits, and workloads that nothing was fitted to. All rounds count,
also those that something disturbed."""

from __future__ import annotations

import difflib
import importlib.resources
import json
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

from lanescope.calls import checked
from lanescope.codec.fields import build, shown
from lanescope.errors import InputError
from lanescope.prediction.parameters import Direction, HostBuffer, LinkParameters, Origin
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import Bytes
from lanescope.units.words import time_text

SPREAD_FILE = "spread.json"
NAMES = ("equations", "equations-shared", "replay")


class Method(StrEnum):
    """As van Werkhoven et al. (2014), section VII, name them; and with pageable memory."""

    EXPLICIT = "Explicit"
    """All copies in, the kernel, all copies back; pinned memory, one stream."""
    STREAMS = "Streams"
    """Cut into parts, each on its own stream: copies and kernels overlap."""
    IMPLICIT = "Implicit"
    """The kernel reads and writes mapped host memory; nothing is copied."""
    HYBRID = "Hybrid"
    """As Streams, but the kernels write mapped host memory."""
    PAGEABLE = "Pageable"
    """As Explicit, but memory is not pinned."""


#: Methods that are cut into parts, each on a stream of its own.
STREAMED = (Method.STREAMS, Method.HYBRID)
#: Methods whose kernels read or write the host's memory.
MAPPED = (Method.IMPLICIT, Method.HYBRID)


def copies_of(size: int, arrays: int, streams: int) -> int:
    """Return into how many copies each array of a direction is cut, of work in so many parts.

    As many, but one where an array has fewer bytes than that: it goes to the GPU with the first
    part, and back with the last one.
    """
    return streams if size // arrays >= streams else 1


@dataclass(frozen=True, slots=True)
@checked
class Workload:
    """One round: bytes to the GPU, a kernel, bytes back.

    Attributes
    ----------
    h2d_bytes, d2h_bytes
        Of payload in each direction.
    kernel_seconds
        What the kernel takes with all of its data in the GPU's memory, in one launch.
    h2d_arrays, d2h_arrays
        Into how many arrays the bytes of a direction are divided: as many copies for each stream,
        or in all, where an array has fewer bytes than there are streams.
    most_streams
        Into how many equal parts it can be cut; None: any number.
    needs_previous
        True where a part needs the input of the part before it and of the first one.
    returns_later
        How many of the arrays that go back are complete only with the part after theirs.
    mapped_reads, mapped_writes
        How often each byte crosses the link when the kernel reads and writes the host's memory in
        place: 1, more where it does so again, less where it skips some.
    mapped_contention
        By how much copies to the GPU and the kernel's writes of mapped memory slow each other, as a
        share of what a fit's kernel does, which writes as fast as it can: 0, not at all.
    mapped_assumed
        True where nobody has said how often that is: `Ranking.chosen` is then no such method.
    steps
        How many times, one after another, the kernel reads, computes and writes: the waves of its
        thread blocks, times the passes of a loop in each. None: so many that all of it overlaps.
    fresh_output
        Whether the memory that bytes go back to has not been used before, as a new array's: of
        Pageable.
    host_cached
        Whether the program has just written what goes to the GPU, and read what came back, so that
        the host's caches hold both: of Pageable.
    kernel_parts
        What the kernel takes for one of so many equal parts, alone: pairs of a number of parts and
        seconds. Without any it takes a share of `kernel_seconds`.
    has_kernel
        False: copies alone. A kernel of no seconds is launched all the same.
    flops, device_bytes
        Operations of the kernel, and bytes that it moves to and from the GPU's memory; for
        the roofline. None: not known.
    """

    h2d_bytes: Bytes
    d2h_bytes: Bytes
    kernel_seconds: float
    h2d_arrays: int = 1
    d2h_arrays: int = 1
    most_streams: int | None = None
    needs_previous: bool = False
    returns_later: int = 0
    mapped_reads: float = 1.0
    mapped_writes: float = 1.0
    mapped_contention: float = 1.0
    flops: float | None = None
    device_bytes: float | None = None
    mapped_assumed: bool = False
    steps: float | None = None
    fresh_output: bool = False
    host_cached: bool = False
    kernel_parts: tuple[tuple[int, float], ...] = ()
    has_kernel: bool = True

    def h2d_copies(self, streams: int) -> int:
        """Return into how many copies each array to the GPU is cut; see `copies_of`."""
        return copies_of(self.h2d_bytes, self.h2d_arrays, streams)

    def d2h_copies(self, streams: int) -> int:
        """Return into how many copies each array back is cut; see `copies_of`."""
        return copies_of(self.d2h_bytes, self.d2h_arrays, streams)

    def pageable(self, direction: Direction) -> HostBuffer:
        """Return which memory Pageable copies in a direction."""
        if self.fresh_output and direction is Direction.D2H:
            return HostBuffer.NEW
        return HostBuffer.CACHED if self.host_cached else HostBuffer.USED

    def part_seconds(self, share: float) -> float:
        """Return what the kernel takes for a share of the work, alone.

        Straight between the shares that are known, and on from the two smallest below them; never
        less than its share of the fastest pace that is known.
        """
        known = {1.0: self.kernel_seconds} | {1 / n: seconds for n, seconds in self.kernel_parts}
        if len(known) == 1:
            return self.kernel_seconds * share
        shares = sorted(known)
        right = min(max(bisect_left(shares, share), 1), len(shares) - 1)
        a, b = shares[right - 1], shares[right]
        seconds = known[a] + (known[b] - known[a]) * (share - a) / (b - a)
        return max(seconds, share * min(seconds / part for part, seconds in known.items()))


@dataclass(frozen=True, slots=True)
class Prediction:
    """The time of one round of a workload by one method.

    Attributes
    ----------
    method, streams
        By which, and into how many parts it is cut (1 for methods without streams).
    seconds
        With its 95 % interval.
    predictor
        ``equations`` or ``replay``.
    busiest
        What the time goes to most: ``h2d``, ``d2h``, ``kernel``, ``calls``.
    """

    method: Method
    streams: int
    seconds: Estimate
    predictor: str
    busiest: str


class Predictor(Protocol):
    """Predicts a workload on a machine that is told by its parameters.

    Attributes
    ----------
    name
        By which users name it.
    is_slow
        Whether to try some numbers of streams takes so long that not all can be tried.
    """

    name: str
    is_slow: bool

    def predict(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> Prediction:
        """Return the time of one round.

        Raises
        ------
        NotMeasuredError
            If the parameters lack what the method takes (mapped or pageable memory).
        """

    def value(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return the middle of what `predict` returns, in seconds, for less work if there is one.

        Raises
        ------
        NotMeasuredError
            As `predict` does.
        """

    def least(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return seconds that `value` is not below, for much less work; 0 where none are known.

        Raises
        ------
        NotMeasuredError
            As `predict` does.
        """


def predictor_named(name: str) -> Predictor:
    """Return a predictor; only its own module is loaded.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name in ("equations", "equations-shared"):
        from lanescope.prediction.equations import Equations

        return Equations(shared=name == "equations-shared")
    if name == "replay":
        from lanescope.prediction.replay import Replay

        return Replay()
    near = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
    raise InputError(f"no predictor is named {shown(name)}; {hint}")


def predictor_for(parameters: LinkParameters) -> Predictor:
    """Return the predictor that suits parameters when nobody names one.

    The replay where they were measured, or derived from such a fit, as it takes all that a fit
    knows; the equations with published ones, which were published for them.
    """
    fitted = parameters.origin is Origin.MEASURED or parameters.measured is not None
    return predictor_named("replay" if fitted else "equations")


#: A mapped byte crosses the link no less and no more often than so.
_CROSSINGS = 1 / 64, 1024.0
#: It crosses once where a round takes as long as that predicts within the first share, or where its
#: kernel takes the time, within the second.
_SAME, _NEAR = 0.02, 0.25


def with_crossings(
    workload: Workload,
    measured: Mapping[Method, float],
    parameters: LinkParameters,
    predictor: Predictor,
) -> Workload:
    """Return a workload that knows how often its kernel reads and writes a mapped byte.

    So often that a round is predicted to take what was measured. Hybrid tells the writes, then
    Implicit the reads, or the writes where nothing is read. That is the kernel's own: it holds for
    other sizes and links, as far as it reaches memory in the same manner there.

    Parameters
    ----------
    measured
        Seconds of a round with one stream, by Hybrid, Implicit or both.

    Raises
    ------
    InputError
        If a round cannot take as long.
    """
    found = workload
    for method in (Method.HYBRID, Method.IMPLICIT):
        if method not in measured:
            continue
        of_reads = method is Method.IMPLICIT and found.h2d_bytes > 0
        if not of_reads and not found.d2h_bytes:
            raise InputError(f"{method}: nothing goes back, so that its time tells nothing")
        now = found

        def crossing(count: float, now: Workload = now, of_reads: bool = of_reads) -> Workload:
            if of_reads:
                return replace(now, mapped_reads=count)
            return replace(now, mapped_writes=count)

        def taken(count: float, method: Method = method) -> float:
            one = predictor.predict(crossing(count), method, 1, parameters)
            return float(one.seconds.value)

        found = crossing(_crossings(taken, measured[method]))
    return replace(found, mapped_assumed=False)


def _crossings(taken: Callable[[float], float], seconds: float) -> float:
    """Return with how many crossings of a byte a round takes so long."""
    low, high = _CROSSINGS
    least, once, most = map(taken, (low, 1.0, high))
    by_kernel = (1 - _NEAR) * least <= seconds < least and once <= (1 + _SAME) * least
    if by_kernel or abs(once - seconds) <= _SAME * seconds:
        return 1.0
    if not least <= seconds <= most:
        raise InputError(
            f"a round of {time_text(seconds)} is {'less' if seconds < least else 'more'} than the "
            f"{time_text(least)} to {time_text(most)} that it takes by these parameters where its "
            f"mapped bytes cross the link {low:.2g} to {high:g} times; measure it on the machine "
            "of the parameters, with one stream"
        )
    while high > low * 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if taken(middle) < seconds else (low, middle)
    return high


#: Rounds in many short parts take longer than copies and writes that slow each other explain.
MOST_CONTENTION = 1.5


def with_contention(
    workload: Workload,
    streams: int,
    seconds: float,
    parameters: LinkParameters,
    predictor: Predictor,
) -> Workload:
    """Return a workload that knows its `Workload.mapped_contention`.

    So much that a round by Hybrid is predicted to take what was measured, or the least or the most
    that comes near. How densely a kernel writes neither its bytes nor its time alone tells. As
    `with_crossings`, it is the kernel's own.

    Parameters
    ----------
    streams, seconds
        Of a round by Hybrid with two or more streams.

    Raises
    ------
    InputError
        If a round cannot take nearly as long.
    """

    def at(share: float) -> Workload:
        return replace(workload, mapped_contention=share)

    def taken(share: float) -> float:
        return predictor.value(at(share), Method.HYBRID, streams, parameters)

    low, high = 0.0, MOST_CONTENTION
    least, most = taken(low), taken(high)
    if not (1 - _NEAR) * least <= seconds <= (1 + _NEAR) * most:
        span = " to ".join(dict.fromkeys((time_text(least), time_text(most))))
        raise InputError(
            f"a round of {time_text(seconds)} is {'less' if seconds < least else 'more'} than the "
            f"{span} that Hybrid with {streams} streams takes by "
            "these parameters; measure it on their machine, with that number of streams"
        )
    while high - low > 0.001:
        middle = (low + high) / 2
        low, high = (middle, high) if taken(middle) < seconds else (low, middle)
    return at(high)


#: The largest errors of the paper's own predictions (van Werkhoven et al. 2014, section VII), as
#: shares of the measured time: for parameters that nobody compared with transfers. Pageable
#: memory is not in the paper; it gets the largest of the others.
PUBLISHED_ERRORS = {
    Method.EXPLICIT: 0.0973,
    Method.IMPLICIT: 0.0385,
    Method.STREAMS: 0.0646,
    Method.HYBRID: 0.1075,
    Method.PAGEABLE: 0.1075,
}


def error_band(
    parameters: LinkParameters, workload: Workload, method: Method, streams: int = 1
) -> tuple[float, float]:
    """Return by which factors the low and the high end of an interval are moved.

    By `Errors.p95`, or by `PUBLISHED_ERRORS` where nobody compared the parameters with transfers;
    and, but for published parameters, by `spread_of` a method on other days and machines where
    that is more: parameters derived from a fit know no more than it.
    """
    known = parameters.errors
    share = min(PUBLISHED_ERRORS[method] if known is None else known.p95, 1.0)
    fitted = known is not None or parameters.measured is not None
    fitted = fitted and parameters.origin is not Origin.PUBLISHED
    found = spread_of(workload, method, streams) if fitted else None
    if found is None:
        return 1 - share, 1 + share
    return min(1 - share, found.low), max(1 + share, found.high)


@dataclass(frozen=True, slots=True)
class Spread:
    """Where 95 % of the measured times lie, as shares of the predicted one.

    Attributes
    ----------
    regime
        Such as ``single``: see `regime_of`.
    most_bytes
        Of a copy up to which it holds; None: any.
    low, high
        Shares.
    count
        Of times compared.
    """

    regime: str
    most_bytes: int | None
    low: float
    high: float
    count: int


@lru_cache(maxsize=1)
def spreads() -> tuple[Spread, ...]:
    """Return the shares that ship, by regime and rising size."""
    file = importlib.resources.files("lanescope.prediction") / SPREAD_FILE
    table = json.loads(file.read_text(encoding="utf-8"))
    return tuple(build(Spread, one, "spreads", number) for number, one in enumerate(table))


def spread_of(workload: Workload, method: Method, streams: int) -> Spread | None:
    """Return the share that holds for a method of a workload; None where none is known."""
    regime = regime_of(workload, method, streams)
    size = copy_bytes(workload, method, streams)
    return next(
        (
            one
            for one in spreads()
            if one.regime == regime and (one.most_bytes is None or size <= one.most_bytes)
        ),
        None,
    )


def regime_of(workload: Workload, method: Method, streams: int) -> str:
    """Return what a prediction is of.

    ``single``: copies one after the other; ``many``: on many streams, one way or both;
    ``pageable`` and ``fresh``; ``implicit`` and ``hybrid``, each with ``-assumed`` where nobody
    said how the kernel reaches mapped memory.
    """
    if method is Method.PAGEABLE:
        return "fresh" if workload.fresh_output else "pageable"
    if method in MAPPED:
        return f"{method.lower()}{'-assumed' if workload.mapped_assumed else ''}"
    return "many" if method in STREAMED and streams > 1 else "single"


def copy_bytes(workload: Workload, method: Method, streams: int) -> int:
    """Return the bytes of one copy, of the direction with more of them."""
    parts = streams if method in STREAMED else 1
    return max(
        workload.h2d_bytes // (workload.h2d_arrays * workload.h2d_copies(parts)),
        workload.d2h_bytes // (workload.d2h_arrays * workload.d2h_copies(parts)),
    )
