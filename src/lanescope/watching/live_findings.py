"""What is wrong with links while they are watched, as far as that can be known cheaply."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lanescope.machine import Link, Machine, PcieLink
from lanescope.machine.links import link_states
from lanescope.machine.pcie import is_outrun
from lanescope.trace.limits import DIRECTIONS, pcie_links
from lanescope.trace.link_error_log import FAULTS, LinkErrors, risen
from lanescope.watching.live import LiveDirection

TRAINED_DOWN, ERRORS, LOST, FULL = "trained-down", "link-errors", "lost-samples", "link-full"
#: A link that is used less may sleep: it slows down at rest, to save power.
USED_SHARE = 0.05
#: States of links are read so often, and only where they are used.
STATE_SECONDS = 10.0
#: A link is full above this share of what it can carry, for more than half of so many looks.
FULL_SHARE, FULL_LOOKS = 0.9, 60
#: Samples that were lost count for so long.
LOST_SECONDS = 60.0
#: Nothing is known of a longer pause between two looks: the machine was suspended.
_LONGEST_SECONDS = 10.0

States = Callable[[Machine], Mapping[str, PcieLink]]
_Key = tuple[int, str]


@dataclass(frozen=True, slots=True)
class LiveFinding:
    """Something that may be wrong with a GPU's links.

    Attributes
    ----------
    kind
        ``trained-down``, ``link-errors``, ``lost-samples`` or ``link-full``.
    active
        Whether it holds now.
    seconds
        For how long it has held since the start, in sum.
    """

    gpu: int
    kind: str
    active: bool
    seconds: float


@dataclass(slots=True)
class _Loss:
    """How many samples were lost, and when that last became more."""

    count: int = 0
    risen_at: float | None = None


@dataclass
class LiveFindings:
    """Findings of a watch that goes on; what is not known yet is none of them.

    Attributes
    ----------
    states
        Reads what links run at; for tests.
    found
        By GPU and kind.
    links
        PCIe links as they were when last read in use, with the part below each.
    """

    states: States = link_states
    found: tuple[LiveFinding, ...] = ()
    links: tuple[Link, ...] = ()
    _machine: Machine | None = None
    _active: dict[_Key, bool] = field(default_factory=dict)
    _seconds: dict[_Key, float] = field(default_factory=dict)
    _full: dict[_Key, deque[bool]] = field(default_factory=dict)
    _lost: dict[tuple[int, str, str], _Loss] = field(default_factory=dict)
    _down: dict[int, int] = field(default_factory=dict)
    _read: dict[str, Link] = field(default_factory=dict)
    _errors: dict[int, LinkErrors] = field(default_factory=dict)
    _looked_at: float | None = None
    _states_at: float | None = None

    def begin(self, machine: Machine) -> None:
        """Look at a machine from now on; what was counted goes on."""
        self._machine, self._states_at, self._looked_at = machine, None, None
        self._read.clear()
        self._down.clear()
        self._lost.clear()

    def look(self, directions: Sequence[LiveDirection], now: float) -> None:
        """Take what links carry at a time, seconds of any steady clock."""
        self._count_seconds(now)
        for one in directions:
            self._take_loss(one, now)
            self._take_use(one)
        used = {one.gpu for one in directions if (one.share_of_limit or 0.0) >= USED_SHARE}
        due = self._states_at is None or now - self._states_at >= STATE_SECONDS
        if used and due and self._machine is not None:
            self._states_at = now
            self._take_states(self._machine, sorted(used), directions)
        self.found = tuple(
            LiveFinding(gpu, kind, active, self._seconds.get((gpu, kind), 0.0))
            for (gpu, kind), active in sorted(self._active.items())
        )

    def take_errors(self, readings: Sequence[LinkErrors]) -> None:
        """Take error counters as they are now; those that rose since the last time count."""
        for now in readings:
            if (before := self._errors.get(now.gpu)) is not None:
                more = [getattr(risen(before, now), name) for name in FAULTS]
                if known := [count for count in more if count is not None]:
                    self._active[now.gpu, ERRORS] = any(known)
            self._errors[now.gpu] = now

    def _count_seconds(self, now: float) -> None:
        lasted = 0.0 if self._looked_at is None else min(now - self._looked_at, _LONGEST_SECONDS)
        self._looked_at = now
        for key, active in self._active.items():
            self._seconds[key] = self._seconds.get(key, 0.0) + (lasted if active else 0.0)

    def _take_loss(self, one: LiveDirection, now: float) -> None:
        loss = self._lost.setdefault((one.gpu, one.direction, one.source), _Loss())
        if one.lost_samples > loss.count:
            loss.risen_at = now
        loss.count = one.lost_samples
        times = [of.risen_at for (gpu, *_), of in self._lost.items() if gpu == one.gpu]
        recent = any(at is not None and now - at < LOST_SECONDS for at in times)
        self._active[one.gpu, LOST] = recent

    def _take_use(self, one: LiveDirection) -> None:
        if one.share_of_limit is None:
            return
        looks = self._full.setdefault((one.gpu, one.direction), deque(maxlen=FULL_LOOKS))
        looks.append(bool(one.share_of_limit >= FULL_SHARE))
        every = (of for (gpu, _), of in self._full.items() if gpu == one.gpu)
        self._active[one.gpu, FULL] = any(2 * sum(looks) > FULL_LOOKS for looks in every)

    def _take_states(
        self, machine: Machine, gpus: Sequence[int], directions: Sequence[LiveDirection]
    ) -> None:
        states = self.states(machine)
        for gpu in gpus:
            rates = _pcie_rates(directions, gpu)
            below = list(_links_now(machine, gpu, states))
            self._read |= {link.b: link for link in below}
            if not below:
                continue
            down = any(_is_down(link, rates) for link in below)
            # once may be a link that has not woken up yet
            self._down[gpu] = self._down.get(gpu, 0) + 1 if down else 0
            self._active[gpu, TRAINED_DOWN] = self._down[gpu] > 1
        self.links = tuple(self._read[part] for part in sorted(self._read))


def _links_now(machine: Machine, gpu: int, states: Mapping[str, PcieLink]) -> Iterator[Link]:
    for link in pcie_links(machine, gpu):
        if (now := states.get(link.b)) is not None:
            yield Link.of_pcie(link.a, link.b, now)


def _is_down(link: Link, rates_gbs: Sequence[float | None]) -> bool:
    pcie = link.pcie
    return pcie is not None and pcie.trained_down and not is_outrun(pcie, rates_gbs)


def _pcie_rates(directions: Sequence[LiveDirection], gpu: int) -> list[float | None]:
    own = {one.direction: one.rates.now_gbs for one in directions if one.gpu == gpu}
    return [own.get(direction) for direction in DIRECTIONS]
