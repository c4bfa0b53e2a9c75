"""What a transfer takes, and what each task of a graph costs which server.

A program takes time for each call besides the driver: libraries and interpreters need some µs
before each. One thread makes all calls, so a round of many short copies takes as long as that
thread does, whatever the link can carry. What tasks cost is taken from the parameters of a machine,
at one end or the middle of all of their intervals, as plain numbers in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from functools import lru_cache
from math import inf

from lanescope.calls import checked
from lanescope.prediction.parameters import (
    CopyCost,
    Direction,
    Duplex,
    HostBuffer,
    Launching,
    LinkParameters,
    Mapped,
)
from lanescope.units.estimate import Estimate, Surface, TimeCurve
from lanescope.units.words import time_text

#: A curve that is the same at all sizes has these; larger ones go on as it does.
_ANY_SIZE = (1, 1 << 40)
#: Of the time that the bytes of a short copy take, where its gap both ways was not measured:
#: a copy of 85 KiB to 512 KiB lost 0.4 to 0.6 of it (benchmarks/results/h200-x1/machines/a).
_MOST_GAP_SHARE = 0.5
Slowdowns = tuple[float, float, float, float]  # of the first four flows


def single_seconds(direction: CopyCost, size: float) -> Estimate:
    """Return the time of one copy: ``L + o + B * G``, or as measured at such sizes."""
    if direction.single is not None:
        return direction.single.at(size)
    return _line(direction.first, direction.per_byte, size)


def next_seconds(direction: CopyCost, size: float, copies: float = inf) -> Estimate:
    """Return what a further copy of that size costs: ``g + B * G``, or as measured.

    `copies` is how many there are of them; by default as many as were measured.
    """
    if direction.next is not None:
        return direction.next.at(size, copies)
    return _line(direction.gap, direction.per_byte, size)


def transfer_seconds(direction: CopyCost, size: int, streams: int) -> Estimate:
    """Return the time of so many bytes, cut into equal copies on as many streams.

    ``L + o + B * G + g * (streams - 1)`` (van Werkhoven et al. 2014, section V), where L + o and
    g depend on the size of the copies if they were measured so.
    """
    if size < 0 or streams < 1:
        raise ValueError("a transfer has 0 or more bytes and 1 or more streams")
    first, further = single_seconds(direction, size / streams), Estimate.exactly(0.0)
    if streams > 1:
        further = next_seconds(direction, size / streams, streams)
    more = streams - 1
    return Estimate(
        first.value + more * further.value,
        first.low + more * further.low,
        first.high + more * further.high,
    )


def mapped_seconds(mapped: Mapped, reads: float, writes: float) -> tuple[Estimate, Estimate]:
    """Return how long so many bytes read and written by one kernel keep each direction busy.

    Both are slower than alone by the same factor, as one thread reads and then writes.
    """
    factor = Estimate.exactly(1.0)
    if mapped.mixture is not None and reads and writes:
        reading = reads * mapped.read_per_byte.value
        writing = writes * mapped.write_per_byte.value
        factor = mapped.mixture.at(writing / (reading + writing))
    return (
        _times(mapped.read_per_byte, factor, reads),
        _times(mapped.write_per_byte, factor, writes),
    )


def _times(per_byte: Estimate, factor: Estimate, size: float) -> Estimate:
    return Estimate(
        size * per_byte.value * factor.value,
        size * per_byte.low * factor.low,
        size * per_byte.high * factor.high,
    )


def _line(start: Estimate, slope: Estimate, size: float) -> Estimate:
    return Estimate(
        start.value + size * slope.value,
        start.low + size * slope.low,
        start.high + size * slope.high,
    )


def at_contention(parameters: LinkParameters, share: float) -> LinkParameters:
    """Return the parameters for a kernel with such a `Workload.mapped_contention`."""
    both, mapped, paced = parameters.explicit_mapped, parameters.mapped, parameters.paced
    if share == 1 or both is None or mapped is None:
        return parameters
    both = replace(
        both,
        h2d_per_byte=_slowed_by(both.h2d_per_byte, parameters.h2d.per_byte.value, share),
        d2h_per_byte=_slowed_by(both.d2h_per_byte, mapped.write_per_byte.value, share),
    )
    if paced is not None:
        paced = replace(
            paced,
            h2d_factors=tuple(_slowed_by(one, 1.0, share) for one in paced.h2d_factors),
            kernel_factors=tuple(_slowed_by(one, 1.0, share) for one in paced.kernel_factors),
        )
    return replace(parameters, explicit_mapped=both, paced=paced)


def _slowed_by(both: Estimate, alone: float, share: float) -> Estimate:
    """Return what takes a share of the additional time that `both` takes, its ends as far apart."""
    value = alone + share * (both.value - alone)
    return both.map(lambda end: end * value / both.value)


def with_host_time(parameters: LinkParameters, seconds: float) -> LinkParameters:
    """Return the parameters for a program whose calls each take so many seconds more.

    A copy alone takes that much longer; a further one as long as its call and that, if it is longer
    than the copy needs behind another.
    """
    if not seconds:
        return parameters
    known = parameters.launching or Launching(*[Estimate.exactly(0.0)] * 4)
    return replace(
        parameters,
        name=f"{parameters.name} with {time_text(seconds)} of the program for each call",
        h2d=_queued(parameters.h2d, seconds),
        d2h=_queued(parameters.d2h, seconds),
        pageable_h2d=_staged(parameters.pageable_h2d, seconds),
        pageable_d2h=_staged(parameters.pageable_d2h, seconds),
        cached_h2d=_staged(parameters.cached_h2d, seconds),
        cached_d2h=_staged(parameters.cached_d2h, seconds),
        fresh_d2h=_staged(parameters.fresh_d2h, seconds),
        launching=replace(
            known, first=_later(known.first, seconds), call=_later(known.call, seconds)
        ),
    )


def _queued(cost: CopyCost, seconds: float) -> CopyCost:
    """Return what copies cost that are handed over without waiting for them."""
    call = _called(cost, seconds)
    gap = longer(cost.gap, Estimate.exactly(seconds)) if cost.next is None else cost.gap
    return replace(_alone(cost, seconds), call=call, gap=gap, next=_bounded(cost.next, call))


def _staged(cost: CopyCost | None, seconds: float) -> CopyCost | None:
    """Return what copies of pageable memory cost, during whose calls the thread does nothing else.

    A call returns before its copy has ended, so that the program goes on meanwhile; the next copy
    waits for that end.
    """
    if cost is None:
        return None
    if cost.call is None or cost.next is None or cost.engine is None:
        further = cost.next and Surface(
            cost.next.streams, tuple(_raised(curve, seconds) for curve in cost.next.curves)
        )
        return replace(_alone(cost, seconds), gap=_later(cost.gap, seconds), next=further)
    call = _raised(cost.call, seconds)
    return replace(
        _alone(cost, seconds),
        next=_bounded(cost.next, call),
        engine=_at_least(cost.engine, call),
    )


def _bounded(further: Surface | None, call: TimeCurve) -> Surface | None:
    """Return what further copies cost where the thread takes so long for each."""
    if further is None:
        return None
    return Surface(further.streams, tuple(_at_least(curve, call) for curve in further.curves))


def _at_least(curve: TimeCurve, call: TimeCurve) -> TimeCurve:
    seconds = zip(curve.sizes, curve.seconds, strict=True)
    return TimeCurve(curve.sizes, tuple(longer(one, call.at(size)) for size, one in seconds))


def _alone(cost: CopyCost, seconds: float) -> CopyCost:
    single = None if cost.single is None else _raised(cost.single, seconds)
    return replace(cost, first=_later(cost.first, seconds), single=single)


def _called(cost: CopyCost, seconds: float) -> TimeCurve:
    if cost.call is None:
        return TimeCurve(_ANY_SIZE, (Estimate.exactly(seconds),) * 2)
    return _raised(cost.call, seconds)


def _raised(curve: TimeCurve, seconds: float) -> TimeCurve:
    return TimeCurve(curve.sizes, tuple(_later(one, seconds) for one in curve.seconds))


def _later(one: Estimate, seconds: float) -> Estimate:
    return one.map(lambda known: known + seconds)


def longer(one: Estimate, other: Estimate) -> Estimate:
    """Return the longer of both, and of both ends."""
    return Estimate(max(one.value, other.value), max(one.low, other.low), max(one.high, other.high))


class IntervalPart(StrEnum):
    """Which number of each interval is taken."""

    LOW = "low"
    VALUE = "value"
    HIGH = "high"

    def of(self, estimate: Estimate) -> float:
        """Return that number."""
        if self is IntervalPart.VALUE:
            return estimate.value
        return estimate.low if self is IntervalPart.LOW else estimate.high


class Flow(IntEnum):
    """What goes on at some rate, and shares it with others."""

    COPY_IN = 0
    COPY_BACK = 1
    READING = 2
    WRITING = 3
    COMPUTING = 4


@dataclass(frozen=True, slots=True)
@checked
class Rules:
    """What the parameters of a machine do not tell.

    Attributes
    ----------
    before_share
        Share of a task's latency that passes before its server begins; the rest passes after
        its end, until the host and tasks on other servers see it.
    kernels_at_once
        Kernels of different streams that a GPU runs at the same time; each gets an equal share
        of its throughput. 1: a kernel fills the GPU, the next begins as it ends.
    in_call_order
        True where a server takes its tasks in the order of the calls, False where in the order
        in which they become ready. None: by call on GPUs with one copy engine or implicit
        synchronisation, which have a single queue, else by readiness.
    many_waves
        With implicit synchronisation: True where the last thread blocks of a kernel start about
        when it ends, as it has many more than fit; False where all start at once.
    """

    before_share: float = 0.5
    kernels_at_once: int = 1
    in_call_order: bool | None = None
    many_waves: bool = True

    def by_call(self, parameters: LinkParameters) -> bool:
        """Return whether servers take their tasks in the order of the calls."""
        if parameters.implicit_synchronisation:
            return True
        if self.in_call_order is not None:
            return self.in_call_order
        return parameters.copy_engines == 1


@dataclass(frozen=True, slots=True)
class TaskCost:
    """What one task costs besides what flows; all in seconds.

    Attributes
    ----------
    call
        The host is held.
    before
        From then, or from the end of what it waits for, to the begin on its server.
    fixed
        Its server is held, and nothing flows.
    flowing
        Its bytes flow, when nothing slows them; of a kernel 0.
    recovery
        Its server is held after the bytes have flowed.
    after
        From the end to when the host sees it.
    returns_early
        Of pageable copies: how much before the host would see the end the call returns.
    """

    call: float = 0.0
    before: float = 0.0
    fixed: float = 0.0
    flowing: float = 0.0
    recovery: float = 0.0
    after: float = 0.0
    returns_early: float = 0.0


class ParameterValues:
    """The parameters of one machine as numbers.

    Parameters
    ----------
    parameters
        Of the machine.
    level
        Which number of each interval.
    rules
        What the parameters do not tell.
    """

    def __init__(self, parameters: LinkParameters, level: IntervalPart, rules: Rules) -> None:
        self.parameters = parameters
        self.rules = rules
        self._level = level
        launching = parameters.launching
        self.event_call = 0.0 if launching is None else level.of(launching.event_call)
        self.kernel_gap = 0.0 if launching is None else level.of(launching.gap)
        self.copy = lru_cache(maxsize=None)(self._copy)
        self.kernel = lru_cache(maxsize=None)(self._kernel)
        self.slowdowns = lru_cache(maxsize=None)(self._slowdowns)
        self.mapped_seconds = lru_cache(maxsize=None)(self._mapped_seconds)
        self.opposed_gap = lru_cache(maxsize=None)(self._opposed_gap)

    def _mapped_seconds(self, reads: int, writes: int) -> tuple[float, float]:
        """Return how long a kernel's reads and writes of host memory take, nothing else moving."""
        reading, writing = mapped_seconds(self._mapped(), reads, writes)
        return self._level.of(reading), self._level.of(writing)

    def _opposed_gap(self, by_kernel: bool, size: int, flowing: float) -> float:
        """Return how much longer a copy holds its engine while bytes go the other way.

        `by_kernel` tells whether only a kernel moves those, in mapped memory; the copy has so many
        bytes, which take so many seconds. Of short copies beside a kernel no fit measures it: they
        wait as beside copies.
        """
        known = self.parameters
        both = known.explicit_mapped if by_kernel else known.duplex
        if both is None or both.gap is None:
            return 0.0
        gaps = both.gaps
        if by_kernel and gaps is None and known.duplex is not None:
            gaps = known.duplex.gaps
        if gaps is not None:
            return self._level.of(gaps.at(size))
        gap = self._level.of(both.gap)
        return gap if by_kernel else min(gap, _MOST_GAP_SHARE * flowing)

    def _copy(self, direction: Direction, size: int, memory: HostBuffer) -> TaskCost:
        cost = self.parameters.copies_of(memory, direction)
        pageable, of = memory is not HostBuffer.PINNED, self._level.of
        # what the host does of a pageable copy is all of the engine's time
        call = 0.0 if cost.call is None or pageable else of(cost.call.at(size))
        if cost.engine is None:
            engine = of(cost.gap) + size * of(cost.per_byte)
        else:
            engine = of(cost.engine.at(size))
        flowing = min(engine, size * of(cost.per_byte))
        fixed = engine - flowing
        single = of(single_seconds(cost, size))
        latency = single - call - engine
        # Where one copy takes less than call and engine, the host sees it while the engine is
        # still held.
        recovery = min(fixed, max(0.0, -latency))
        before, after = self._split(latency)
        early = 0.0
        if pageable:
            # The host begins to stage at once; a further copy may follow while this one ends.
            before, after = 0.0, before + after
            early = single - of(next_seconds(cost, size))
        return TaskCost(call, before, fixed - recovery, flowing, recovery, after, early)

    def _kernel(self, mapped: bool) -> TaskCost:
        launching = self.parameters.launching
        call = 0.0 if launching is None else self._level.of(launching.call)
        first = 0.0 if launching is None else self._level.of(launching.first)
        if mapped:
            first = self._level.of(self._mapped().first)
        before, after = self._split(first - call)
        return TaskCost(call=call, before=before, after=after)

    def _split(self, latency: float) -> tuple[float, float]:
        before = max(0.0, latency) * self.rules.before_share
        return before, max(0.0, latency) - before

    def _mapped(self) -> Mapped:
        if self.parameters.mapped is None:
            raise self.parameters.missing("what kernels cost that use mapped host memory")
        return self.parameters.mapped

    def _slowdowns(
        self, copy_in: bool, copy_back: bool, reading: float, writing: float
    ) -> Slowdowns:
        """How many times as long each flow takes while these flow.

        Copies both ways, and mapped reads against copies back, by `LinkParameters.duplex`;
        copies to the GPU against mapped writes by `explicit_mapped`. Of two that apply the
        larger. What a kernel reads and writes itself slows each other already in
        `mapped_seconds`.

        Parameters
        ----------
        reading, writing
            Shares of their pace at which mapped reads and writes would go if nothing slowed them.
            Where that is little, copies the other way get what these leave: both together have
            room for as much as they move when neither is held back.
        """
        known = self.parameters
        back_in = self._ratios(known.duplex, known.h2d.per_byte, known.d2h.per_byte)
        slow_in, slow_back, slow_read, slow_write = 1.0, 1.0, 1.0, 1.0
        if copy_in and copy_back:
            slow_in, slow_back = back_in
        if reading and copy_back:
            slow_read, other = back_in
            slow_back = max(slow_back, _with_mapped(other, slow_read, reading))
        if known.mapped is not None and writing and copy_in:
            one, other = back_in
            if known.explicit_mapped is not None:
                write = known.mapped.write_per_byte
                one, other = self._ratios(known.explicit_mapped, known.h2d.per_byte, write)
            one, other = self._with_writes(one, other, writing)
            slow_in, slow_write = max(slow_in, one), max(slow_write, other)
        return slow_in, slow_back, slow_read, slow_write

    def _with_writes(self, one: float, other: float, share: float) -> tuple[float, float]:
        """How many times as long copies in and mapped writes take that want a share of their pace.

        `one` and `other` are those of a share of 1.
        """
        paced = self.parameters.paced
        if paced is None:
            return _with_mapped(one, other, share), other
        copies = paced.h2d_at(share, Estimate.exactly(one))
        kernel = paced.kernel_at(share, Estimate.exactly(other))
        # A kernel that takes so much longer writes at so much less than its share of the pace.
        return max(1.0, self._level.of(copies)), max(1.0, self._level.of(kernel) / share)

    def _ratios(
        self, duplex: Duplex | None, h2d_alone: Estimate, d2h_alone: Estimate
    ) -> tuple[float, float]:
        if duplex is None:
            return 1.0, 1.0
        of = self._level.of
        return (
            _ratio(of(duplex.h2d_per_byte), of(h2d_alone)),
            _ratio(of(duplex.d2h_per_byte), of(d2h_alone)),
        )


def _with_mapped(slow: float, slow_mapped: float, share: float) -> float:
    """How many times as long copies take beside mapped traffic that wants a share of its pace."""
    left = 1 / slow + 1 / slow_mapped - min(share, 1 / slow_mapped)
    return 1 / min(left, 1.0)


def _ratio(both: float, alone: float) -> float:
    return max(1.0, both / alone) if alone > 0 else 1.0
