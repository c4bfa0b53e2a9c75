"""Experiments made ready to run on this machine, by GPUs; what an event between copies costs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lanescope._core import native
from lanescope.copies import Copy, Engine, Experiment, Timing
from lanescope.copies.kernel_shapes import LOADS, SmShape
from lanescope.engine.core import CLOCK_SECONDS, copy_spec, require_equal
from lanescope.errors import NotMeasuredError
from lanescope.machine import Gpu
from lanescope.results import FloatArray, LinkEvidence
from lanescope.results.turns import (
    BY_WINDOWS,
    IN_TURNS,
    Groups,
    PossibleEngine,
    Turns,
    agreed_groups,
    groups_in_turns,
    merged_groups,
    overlapping_windows,
    queues_of,
    ran_at_once,
    seconds_in_turns,
)
from lanescope.units.sizes import size_text

if TYPE_CHECKING:
    from lanescope.machine.nvml import Nvml


#: So short that the event is a large part of the time.
_BYTES = 16
_WINDOWS = 100
#: A train of copies with one event at its end, and so many of them in a batch.
_TRAIN = 32
_TRAINS = 10
_ROUNDS = 5


class Gated(Protocol):
    """What runs copies behind a gate: the core's CopySet."""

    def run_gated(
        self, windows: int, loops: int, shares: Sequence[int] = (), queues: Sequence[int] = ()
    ) -> list[list[float]]:
        """Return boundaries of each copy's windows in seconds.

        With `shares` copy i does shares[i] times as many loops; with `queues` copies of the same
        number do their windows by turns.
        """


def event_seconds(copies: Gated) -> float:
    """Return what an event adds to the time of one copy, 0 or more.

    Parameters
    ----------
    copies
        One copy of a few bytes.
    """
    singles, trains = [], []
    for _ in range(_ROUNDS):
        singles.append(np.diff(copies.run_gated(_WINDOWS, 1)[0]))
        trains.append(np.diff(copies.run_gated(_TRAINS, _TRAIN)[0]) / _TRAIN)
    with_each = float(np.median(np.concatenate(singles)))
    with_few = float(np.median(np.concatenate(trains)))
    # with_each = copy + event, with_few = copy + event / train
    return max(0.0, (with_each - with_few) / (1 - 1 / _TRAIN))


class EventCosts:
    """What events cost each GPU on each way, found out once and kept."""

    def __init__(self, topology: native.Topology, pool: native.BufferPool) -> None:
        self._topology = topology
        self._pool = pool
        self._known: dict[tuple[object, ...], float] = {}

    def of(self, copy: Copy) -> float:
        """Return the seconds of an event between copies on the way of this one."""
        direction = _direction(copy)
        if direction not in self._known:
            short = dataclasses.replace(copy, bytes=_BYTES, access=None)
            copies = native.CopySet(self._topology, self._pool, [copy_spec(short)])
            self._known[direction] = event_seconds(copies)
        return self._known[direction]


def _direction(copy: Copy) -> tuple[object, ...]:
    """What may make a difference: neither the kind of host memory nor its node does."""
    ends = ("host" if end.is_host else end.part for end in (copy.source, copy.destination))
    return (copy.executing_gpu, *ends, copy.route)


#: A batch aims at this time, so that a signal is answered and a budget is kept.
_BATCH_SECONDS = 0.15
_FIRST_WINDOWS = 6
#: What may wait behind a closed gate: the driver's queue ends near 1,000 entries, and
#: a full queue would block the thread that has to open the gate.
MOST_QUEUED = 400
#: The numbers of loops of unequal copies are found in so many batches; each changes the rates.
_BALANCES = 4
_UNEQUAL = "short copies repeated within a window, so that all copies run throughout"
#: A copy ends early if it could be done so many times as often until the others end.
_EARLY = 1.6
#: A copy that does not wait behind the gate is submitted in this time at the latest, while others
#: go on for so large a share of theirs.
_SUBMIT_SECONDS, _SUBMIT_SHARE = 3e-6, 0.7
#: So many wait behind the gate; see `CopySet::run_gated`.
_MOST_WAITING = 900
#: Of unequal copies in a queue: how often the largest may be done in a round, how far the bytes of
#: the others may be from its, and how often one is done at most.
_TIMES, _ROUND_ERROR, _MOST_PER_ROUND = range(1, 5), 0.05, 64
#: An event after each copy costs a few µs, and so does a kernel's end of a window. Windows of
#: large copies are made at least this
#: long by more copies in each, so that it does not count; small copies are timed one by one.
_LONG_WINDOW_SECONDS = 4e-3
#: A group of operations of NCCL costs more than an event.
_LONG_GROUP_SECONDS = 8e-3
_LARGE_BYTES = 256 << 20


_ENGINE_WORDS = {Engine.CE: "copy engine", Engine.SM: "copy kernel", Engine.NCCL: "NCCL"}
_CLOCK_WORDS = {
    Engine.CE: "GPU events around the copies",
    Engine.SM: "the GPU's clock in kernels",
    Engine.NCCL: "events of the GPU that receives",
}


class GatedCopies(Gated, Protocol):
    """Copies with their memory: the core's CopySet, or those of several processes."""

    def run_on_host_clock(self, windows: int, shares: Sequence[int] = ()) -> list[list[float]]:
        """Return boundaries of each copy's calls in seconds; `shares` are of windows."""

    def count_mismatches(self) -> int:
        """Return how many bytes have not arrived."""

    def staged(self, copy: int) -> bool:
        """Whether a copy between GPUs goes through host memory."""


class GpuSession:
    """Copies by copy engines and kernels, behind the gate or by the host's clock.

    Parameters
    ----------
    words
        What there is to say of the method beside clock and engines.
    """

    def __init__(
        self,
        copies: GatedCopies,
        experiment: Experiment,
        gpus: tuple[Gpu, ...],
        nvml: Nvml | None,
        shapes: tuple[SmShape, ...] = (),
        words: str = "",
    ) -> None:
        self.batch_seconds = _BATCH_SECONDS
        self._copies = copies
        self._experiment = experiment
        self._gpus = gpus
        self._nvml = nvml
        self._shapes = shapes
        # of copies at once the first and the last window may not count
        self._windows = _FIRST_WINDOWS + 2 * (len(experiment.copies) > 1)
        # kernels that repeat chunks come round to all bytes after so many loops
        repeats = max((shape.chunk_repeats for shape in shapes), default=1)
        self._windows = max(self._windows, repeats)
        # the queue of many copies at once takes no fewer than at first, either
        self._fewest_windows = 2 if len(experiment.copies) == 1 else self._windows
        # a fast copy has to go on until a slow one has had a window
        self._least_windows = max(2, repeats)
        self._loops = 1
        # what the next batch may take, and a window of it, once a batch that counts has told
        self.next_seconds: float | None = None
        self._window_seconds: float | None = None
        self._most_windows = self._windows
        # how many times as often each copy is done: short ones more often than long ones
        self._shares = [1] * len(experiment.copies)
        self._balances = _BALANCES if self._may_balance() else 0
        # one launch does all windows: nothing waits in the queue
        # nor does NCCL wait behind a gate
        self._by_kernel = all(c.engine in (Engine.SM, Engine.NCCL) for c in experiment.copies)
        self._turns = Turns()
        # copies that a copy engine takes in turns do so window by window, in a queue of their own
        self._queues: list[int] = []
        # whether those of a queue do not run at once without it; None: not looked at yet
        self._queues_hold: bool | None = None
        # how often copies of a queue are done in a round, so that each carries as many bytes
        self._per_round = [1] * len(experiment.copies)
        self._suspected: Groups = ()
        self._looked = False  # whether the first batch that suspected something is behind us
        self._lanes = list(map(_lane, experiment.copies))
        self._replays = {gpu.id: self._replay_counter(gpu) for gpu in gpus}
        self.staged = any(copies.staged(i) for i in range(len(experiment.copies)))
        self.method = "; ".join(filter(None, (self._describe(), words)))

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        self._windows = self._fitting(self._in_time(self._windows))
        boundaries = self._run()
        self._window_seconds = None
        if self._rebalanced(boundaries):  # this batch told by how much; it does not count
            return [np.empty(0) for _ in boundaries]
        queued = sum(share + 1 for share in self._shares)
        most = max(self._fewest_windows, MOST_QUEUED // queued)
        if self._turns.groups and not self._queues:
            return self._sample_in_turns(boundaries, most)
        seconds = self._of_one(overlapping_windows(boundaries))
        if any(s.size == 0 for s in seconds):  # one copy ended before another had a full window
            self._windows = self._least_windows = min(self._windows * 2, most)
            # By the host's clock a thread that only started late looks as if it had waited.
            if self._experiment.timing is Timing.GATE:
                self._look_for_turns(boundaries)
            return [s[:0] for s in seconds]
        if self._queues and self._queues_hold is None:
            self._look_without_queues()  # what this one says may not hold
            return [s[:0] for s in seconds]
        longest = max(CLOCK_SECONDS, *(float(np.median(s)) for s in seconds))
        if self._loops != (loops := self._loops_for(longest, most // 2)):
            self._loops = loops  # this batch told how many; it does not count
            return [s[:0] for s in seconds]
        most = most if self._by_kernel else most // loops
        fewest, self._most_windows = min(self._least_windows, most), most
        # The time that a batch takes and not its windows' own: copies of a queue take turns. The
        # host's clock does not begin with the batch.
        self._window_seconds = max(b[-1] - b[0] for b in boundaries) / self._windows
        self._windows = int(np.clip(self.batch_seconds / (longest * loops), fewest, most))
        return seconds

    @property
    def shortest_seconds(self) -> float:
        """What a batch takes at least, with the window that warms up; see `FitsTime`."""
        return (self._least_windows + 1) * (self._window_seconds or 0.0)

    def _in_time(self, windows: int) -> int:
        """Return how many windows a batch has that takes the time that it shall take."""
        if self.next_seconds is None or not self._window_seconds:
            return windows
        fitting = int(self.next_seconds / self._window_seconds) - 1  # one more warms up
        return min(max(self._least_windows, fitting), self._most_windows)

    def _run(self) -> list[list[float]]:
        shares = () if max(self._shares) == 1 else (self._shares,)
        if self._experiment.timing is Timing.HOST:
            return self._copies.run_on_host_clock(self._windows, *shares)
        if self._queues:
            return self._copies.run_gated(self._windows, self._loops, self._shares, self._queues)
        return self._copies.run_gated(self._windows, self._loops, *shares)

    def _of_one(self, seconds: Sequence[FloatArray]) -> list[FloatArray]:
        """Return the seconds of single copies, of windows that hold several."""
        each = zip(seconds, self._shares_of_windows, strict=True)
        return [s / (self._loops * share) for s, share in each]

    @property
    def _shares_of_windows(self) -> list[int]:
        """Shares as far as they are within windows: by the host's clock every call is a window."""
        by_host = self._experiment.timing is Timing.HOST
        return [1] * len(self._shares) if by_host else self._shares

    def _may_balance(self) -> bool:
        """Whether copies may do more than others: NCCL's are a group."""
        copies = self._experiment.copies
        return len(copies) > 1 and all(copy.engine is not Engine.NCCL for copy in copies)

    def _require_submittable(self, shares: Sequence[int], longest_seconds: float) -> None:
        """Refuse copies that are so short beside others that none would be there in time."""
        if self._experiment.timing is Timing.HOST or max(shares) == 1:
            return
        by_engine = [
            (share, copy)
            for share, copy in zip(shares, self._experiment.copies, strict=True)
            if copy.engine is Engine.CE
        ]
        queued = sum(share + 1 for share, _ in by_engine)
        waiting = queued * (self._fewest_windows + 1) <= _MOST_WAITING
        if waiting or queued * _SUBMIT_SECONDS <= _SUBMIT_SHARE * longest_seconds:
            return
        _, short = max(by_engine, key=lambda one: one[0])
        longest = max(copy.bytes for copy in self._experiment.copies)
        raise NotMeasuredError(
            f"Copies of {size_text(short.bytes)} end faster than they can be submitted while one "
            f"of {size_text(longest)} runs.",
            "Give the short ones more bytes, or the long ones fewer.",
        )

    def _rebalanced(self, boundaries: Sequence[Sequence[float]]) -> bool:
        """Have copies that end long before others do more from now on; whether any does.

        A copy beside a slower one would end early, and the slow one go on alone.
        """
        if self._balances == 0 or (self._turns.groups and not self._queues):
            return False
        if self._experiment.timing is not Timing.HOST and self._groups_in_turns(boundaries):
            return False  # perhaps an engine takes them in turns: then nothing keeps them going
        self._balances -= 1
        each = [
            float(np.median(np.diff(one))) * rounds / share
            for one, share, rounds in zip(
                boundaries, self._shares_of_windows, self._per_round, strict=True
            )
        ]
        each = [each[first] for first in self._first_of_queue()]  # a queue has as many rounds
        longest = max(each)
        wanted = [
            rounds * max(1, round(longest / max(s, CLOCK_SECONDS)))
            for s, rounds in zip(each, self._per_round, strict=True)
        ]
        self._require_submittable(wanted, longest)
        # one that goes on longer than the others does no harm
        if all(w < _EARLY * s for w, s in zip(wanted, self._shares, strict=True)):
            self._balances = 0
            return False
        self._say(_UNEQUAL)
        self._shares = wanted
        return True

    def _say(self, words: str) -> None:
        """Add to the method what is not there yet."""
        if words not in self.method:
            self.method = f"{self.method}; {words}"

    def _say_no_more(self, *those: str) -> None:
        """Take from the method what does not hold any more."""
        for words in those:
            self.method = self.method.replace(f"; {words}", "")

    def turns(self) -> Turns:
        """Return which copies waited for others; see `KnowsTurns`."""
        return self._turns

    def _look_for_turns(self, boundaries: list[list[float]]) -> None:
        """Note which copies took turns, once a second batch has said the same.

        A first copy that wakes a sleeping link is late, too, but only once: later batches agree,
        too, where one has seen a part of what the other has.
        """
        groups = self._groups_in_turns(boundaries)
        agreed = agreed_groups(self._suspected, groups) if self._looked else ()
        if groups and groups == self._suspected:
            agreed = groups
        self._looked = self._looked or bool(self._suspected)
        if agreed:
            self._take_in_turns(merged_groups(self._turns.groups, agreed))
            groups = ()
        self._suspected = groups

    def _take_in_turns(self, groups: Groups) -> None:
        """Have those that a copy engine takes in turns do so from now on, window by window."""
        copies = self._experiment.copies
        by_engine = all(copies[n].engine is Engine.CE for group in groups for n in group)
        queued = by_engine and self._queues_hold is not False
        self._turns, self._windows = Turns(groups, by_windows=queued), self._fewest_windows
        self._queues = queues_of(groups, len(copies)) if queued else []
        self._queues_hold = None if queued else self._queues_hold
        may_balance = self._may_balance()
        if queued and may_balance:
            self._per_round = _per_round(groups, [copy.bytes for copy in copies])
        self._shares = list(self._per_round)
        self._balances = _BALANCES if queued and may_balance else 0
        self._say_no_more(_UNEQUAL, IN_TURNS, BY_WINDOWS)
        self._say(BY_WINDOWS if queued else IN_TURNS)

    def _look_without_queues(self) -> None:
        """Take queues back where their copies run at once without them, as one batch shows.

        What is found to take turns later is timed together then.
        """
        boundaries = self._copies.run_gated(self._windows, self._loops, self._shares)
        self._queues_hold = not ran_at_once(boundaries, self._turns.groups)
        if self._queues_hold:
            return
        self._turns, self._queues, self._suspected = Turns(), [], ()
        self._per_round = [1] * len(self._shares)
        self._shares = list(self._per_round)
        self._balances = _BALANCES if self._may_balance() else 0
        self._say_no_more(_UNEQUAL, BY_WINDOWS)

    def _first_of_queue(self) -> Sequence[int]:
        """Return of each copy the first one of its queue: without queues itself."""
        return self._queues or range(len(self._shares))

    def _groups_in_turns(self, boundaries: Sequence[Sequence[float]]) -> Groups:
        """Return which copies seem to wait for others, apart from those in their own queue."""
        firsts = sorted(set(self._first_of_queue()))
        found = groups_in_turns([boundaries[n] for n in firsts], [self._lanes[n] for n in firsts])
        return tuple(tuple(firsts[n] for n in group) for group in found)

    def _sample_in_turns(self, boundaries: list[list[float]], most: int) -> list[FloatArray]:
        seconds = seconds_in_turns(boundaries, self._turns.groups)
        empty = {number for number, s in enumerate(seconds) if s.size == 0}
        if empty - self._turns.unknown and self._windows < most:
            self._windows = min(self._windows * 2, most)
            return [s[:0] for s in seconds]
        self._turns = replace(self._turns, unknown=self._turns.unknown | empty)
        for number in self._turns.unknown:
            seconds[number] = np.diff(boundaries[number])
        return self._of_one(seconds)

    def _fitting(self, windows: int) -> int:
        """Return how many windows of this many can run."""
        return windows

    def _loops_for(self, longest_seconds: float, most: int) -> int:
        smallest = min(copy.bytes for copy in self._experiment.copies)
        if self._experiment.timing is Timing.HOST or self._loops > 1:
            return self._loops
        if self._by_kernel:
            by_nccl = any(copy.engine is Engine.NCCL for copy in self._experiment.copies)
            long_seconds = _LONG_GROUP_SECONDS if by_nccl else _LONG_WINDOW_SECONDS
            return max(1, math.ceil(long_seconds / longest_seconds))
        if smallest < _LARGE_BYTES:
            return self._loops
        return min(most, max(1, math.ceil(_LONG_WINDOW_SECONDS / longest_seconds)))

    def check(self) -> None:
        """Compare every byte; see `Session.check`."""
        require_equal(self._copies.count_mismatches(), "bytes")

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Return each GPU's link state, read right after the copies."""
        if self._nvml is None:
            return ()
        evidence = []
        for gpu in self._gpus:
            state = self._nvml.link_state(gpu.uuid) if gpu.uuid is not None else None
            if state is not None:
                before, after = self._replays[gpu.id], self._replay_counter(gpu)
                replays = None if before is None or after is None else max(0, after - before)
                generation, width = state
                evidence.append(LinkEvidence(gpu.id, generation, width, replays))
        return tuple(evidence)

    def _replay_counter(self, gpu: Gpu) -> int | None:
        if self._nvml is None or gpu.uuid is None:
            return None
        return self._nvml.replay_counter(gpu.uuid)

    def _describe(self) -> str:
        copies = self._experiment.copies
        who = " and ".join(dict.fromkeys(_ENGINE_WORDS[copy.engine] for copy in copies))
        shared = ", windows in which all copies ran" if len(copies) > 1 else ""
        route = "; no peer access, staged through host memory" if self.staged else ""
        if self._experiment.timing is Timing.HOST:
            return f"host clock from the call to the completed transfer{shared}, {who}{route}"
        clock = " and ".join(dict.fromkeys(_CLOCK_WORDS[copy.engine] for copy in copies))
        gate = "" if copies[0].engine is Engine.NCCL else ", queued behind a gate"
        return f"{clock}{gate}{shared}, {who}{route}{_shapes_text(self._shapes)}"


def _per_round(groups: Groups, sizes: Sequence[int]) -> list[int]:
    """Return how often each copy is done in a round of its queue, so that all carry as many bytes.

    That is what copies that share a link get. As near as small numbers come, and no more than
    `_MOST_PER_ROUND`.
    """
    found = [1] * len(sizes)
    for group in groups:
        largest = max(sizes[n] for n in group)
        if largest == min(sizes[n] for n in group):
            continue
        for times in _TIMES:
            each = [times * largest / sizes[n] for n in group]
            if all(abs(one / max(1, round(one)) - 1) <= _ROUND_ERROR for one in each):
                break
        for n, one in zip(group, each, strict=True):
            found[n] = min(_MOST_PER_ROUND, max(1, round(one)))
    return found


def _lane(copy: Copy) -> PossibleEngine:
    """Which engine may do a copy; which of a GPU's copy engines it is, the driver decides."""
    gpu, ends = copy.executing_gpu, (copy.source, copy.destination)
    direction = (ends[0].is_host, ends[1].is_host, ends[0].part == ends[1].part)
    return PossibleEngine((gpu, copy.engine), direction, leaves=ends[0].part == gpu)


def _shapes_text(shapes: tuple[SmShape, ...]) -> str:
    words = []
    in_step = any(shape.in_step_with is not None for shape in shapes)
    for shape in dict.fromkeys(s for s in shapes if s.in_step_with is None):
        how = f"bulk copies of {shape.chunk_bytes >> 10} KiB"
        pace = f" at {shape.pace_gbs:g} GB/s" if shape.pace_gbs else ""
        repeated = f", each {shape.chunk_repeats} times" if shape.chunk_repeats > 1 else ""
        who = f"{shape.sms} SM{'' if shape.sms == 1 else 's'}"
        words.append(f"{who} with {'loads' if shape.chunk_bytes == LOADS else how}{repeated}{pace}")
    step = ", both ways in step by one kernel" if in_step else ""
    return f" on {' and '.join(words)}{step}" if words else ""
