"""What each task of a graph costs which server, and how much flows slow each other down.

Everything is taken from the parameters of a machine, at one end or the middle of all of their
intervals, as plain numbers in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache

from lanescope.calls import checked
from lanescope.errors import NotMeasuredError
from lanescope.prediction.parameters import CopyCost, Direction, Duplex, LinkParameters, Mapped
from lanescope.prediction.seconds import mapped_seconds, next_seconds, single_seconds
from lanescope.units.estimate import Estimate


class Level(StrEnum):
    """Which number of each interval is taken."""

    LOW = "low"
    VALUE = "value"
    HIGH = "high"

    def of(self, estimate: Estimate) -> float:
        """Return that number."""
        if self is Level.VALUE:
            return estimate.value
        return estimate.low if self is Level.LOW else estimate.high


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
class Cost:
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


#: Of the time that the bytes of a short copy take, where its gap both ways was not measured:
#: a copy of 85 KiB to 512 KiB lost 0.4 to 0.6 of it (benchmarks/results/h200-x1/machines/a).
_MOST_GAP_SHARE = 0.5

Slowdowns = tuple[float, float, float, float]  # of the first four flows


class Rates:
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

    def __init__(self, parameters: LinkParameters, level: Level, rules: Rules) -> None:
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
        bytes, which take so many seconds.
        """
        known = self.parameters
        both = known.explicit_mapped if by_kernel else known.duplex
        if both is None or both.gap is None:
            return 0.0
        if both.gaps is not None:
            return self._level.of(both.gaps.at(size))
        gap = self._level.of(both.gap)
        return gap if by_kernel else min(gap, _MOST_GAP_SHARE * flowing)

    def _copy(self, direction: Direction, size: int, pageable: bool, fresh: bool = False) -> Cost:
        cost = self._direction(direction, pageable, fresh)
        of = self._level.of
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
        return Cost(call, before, fixed - recovery, flowing, recovery, after, early)

    def _kernel(self, mapped: bool) -> Cost:
        launching = self.parameters.launching
        call = 0.0 if launching is None else self._level.of(launching.call)
        first = 0.0 if launching is None else self._level.of(launching.first)
        if mapped:
            first = self._level.of(self._mapped().first)
        before, after = self._split(first - call)
        return Cost(call=call, before=before, after=after)

    def _split(self, latency: float) -> tuple[float, float]:
        before = max(0.0, latency) * self.rules.before_share
        return before, max(0.0, latency) - before

    def _direction(self, direction: Direction, pageable: bool, fresh: bool) -> CopyCost:
        if not pageable:
            return self.parameters.copies(direction)
        known = self.parameters
        cost = known.pageable_h2d if direction is Direction.H2D else known.pageable_d2h
        if fresh:
            cost = known.fresh_d2h
        if cost is None:
            what = "new pageable memory" if fresh else "pageable memory"
            raise NotMeasuredError(
                f"{known.name} does not tell what copies of {what} cost.",
                "Measure them there with `lanescope model fit`.",
            )
        return cost

    def _mapped(self) -> Mapped:
        if self.parameters.mapped is None:
            raise NotMeasuredError(
                f"{self.parameters.name} does not tell what kernels cost that read and write "
                "mapped host memory.",
                "Measure them there with `lanescope model fit`.",
            )
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
