"""Exchanges between pairs of nodes, by a plan: in both directions at once."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from lanescope.codec.fields import FieldError, build
from lanescope.fleet.locate import slow_pairs
from lanescope.fleet.media import Done, Exchange, Medium, exchange_through
from lanescope.fleet.pairs import Pair, Round, in_rounds, with_good_ones
from lanescope.fleet.ranks import MpiRanks
from lanescope.studies.node.report import Host
from lanescope.units.bandwidth import bandwidth_gbs

_FURTHER_TRIES = 3
_END = b"end"
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class PairRate:
    """What two nodes exchanged.

    Attributes
    ----------
    first, second
        Their host names.
    gbs
        Payload in each direction while the other one was as busy, 1e9 bytes a second, the median;
        None where the exchange did not end.
    bytes, seconds
        Of one exchange, in each direction; every repetition of the best try.
    tries
        How often they exchanged: those that were slow do so again.
    medium
        What they exchanged through.
    gpus
        GB/s of each pair of GPUs in each direction, by NCCL: the slower one of both ends.
    wrong
        Bytes that arrived other than they were sent.
    why
        Why there is no rate, where that is known.
    """

    first: Host
    second: Host
    gbs: float | None
    bytes: int
    seconds: tuple[float, ...]
    tries: int = 1
    medium: Medium = Medium.HOST
    gpus: tuple[float, ...] = ()
    wrong: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Order:
    """What rank 0 has another rank do."""

    partner: int


class Leader:
    """Rank 0, which has ranks exchange by plans, round after round, and takes part.

    A rank that does not answer is left out from then on.

    Parameters
    ----------
    hosts
        The ranks that take part, and their nodes; numbers of a plan are their places in it.
    medium
        What they exchange through.
    """

    def __init__(
        self, ranks: MpiRanks, hosts: Mapping[int, str], medium: Medium = Medium.HOST
    ) -> None:
        self._ranks, self._hosts, self._medium = ranks, hosts, medium
        self._exchange = exchange_through(medium, ranks)
        self._order = list(hosts)
        self._gone: set[int] = set()

    def measured(self, rounds: Iterable[Round]) -> Iterator[tuple[Pair, PairRate]]:
        """Yield what the pairs of a plan exchange."""
        for one in rounds:
            of_ranks = {pair: (self._order[pair[0]], self._order[pair[1]]) for pair in one}
            pairs = {pair: ends for pair, ends in of_ranks.items() if not self._gone & set(ends)}
            answers = _round(self._ranks, self._exchange, list(pairs.values()))
            for pair, ends in pairs.items():
                found = [answers[rank] for rank in ends if rank in answers]
                self._gone |= {rank for rank in ends if rank not in answers}
                yield pair, replace(_rate(ends, self._hosts, found), medium=self._medium)

    def end(self) -> None:
        """Let the others go."""
        self._exchange.end()
        for rank in self._order:
            if rank != self._ranks.rank:
                self._ranks.order(rank, _END)


def exchanged(
    leader: Leader,
    rounds: Sequence[Round],
    racks: Sequence[str],
    store: Callable[[PairRate], object] = lambda rate: None,
) -> list[PairRate]:
    """Return what the pairs of a plan exchange; slow ones try again, and the best try counts.

    A link that is worse stays so, and what disturbed one exchange is gone by the next. Nodes of
    pairs that are still slow then meet others of which no pair is: who is slow with those, too, is
    to blame, and who is not was the other's partner.

    Parameters
    ----------
    store
        Gets every try as it comes.
    """
    tries: list[tuple[Pair, PairRate]] = []

    def measure(rounds: Iterable[Round]) -> None:
        for pair, rate in leader.measured(rounds):
            store(rate)
            tries.append((pair, rate))

    measure(rounds)
    for number in range(_FURTHER_TRIES):
        known = {pair: one.gbs for pair, one in best_tries(tries).items() if one.gbs is not None}
        slow = slow_pairs(known, racks)
        if number == 1:
            measure(_with_good_ones(slow, known))
        measure(in_rounds(slow))
    leader.end()
    return list(best_tries(tries).values())


def _with_good_ones(slow: Collection[Pair], known: Collection[Pair]) -> Iterable[Round]:
    """Return new pairs of the nodes of slow pairs with nodes that have no slow pair."""
    suspects = sorted({end for pair in slow for end in pair})
    good = sorted({end for pair in known for end in pair} - set(suspects))
    if len(suspects) > len(good):  # most are suspect: it is no single node's
        return ()
    rounds = with_good_ones(suspects, good)
    return (tuple(pair for pair in one if pair not in known) for one in rounds)


def best_tries(tries: Iterable[tuple[Key, PairRate]]) -> dict[Key, PairRate]:
    """Return for each pair its best try, and how many there were."""
    best: dict[Key, PairRate] = {}
    for key, rate in tries:
        before = best.get(key)
        if before is None:
            best[key] = rate
            continue
        better = rate if (rate.gbs or 0.0) > (before.gbs or 0.0) else before
        best[key] = replace(better, tries=before.tries + 1)
    return best


def follow(ranks: MpiRanks, deadline: float, medium: Medium = Medium.HOST) -> None:
    """Exchange as rank 0 says, until it says that this was all, or the deadline."""
    exchange = exchange_through(medium, ranks)
    try:
        _followed(ranks, exchange, deadline)
    finally:
        exchange.end()


def _followed(ranks: MpiRanks, exchange: Exchange, deadline: float) -> None:
    while (text := ranks.next_order(deadline)) is not None and text != _END:
        try:
            order = build(_Order, json.loads(text))
        except (ValueError, FieldError):
            return  # of another version
        done = exchange.with_partner(order.partner)
        ranks.answer(_encoded(done), time.monotonic() + exchange.seconds)


def _round(ranks: MpiRanks, exchange: Exchange, pairs: Sequence[Pair]) -> dict[int, Done]:
    """Have all pairs exchange at once; return what each rank says that answers in time."""
    deadline = time.monotonic() + 2 * exchange.seconds
    own, wanted = None, set()
    for pair in pairs:
        for rank, partner in (pair, pair[::-1]):
            if rank == ranks.rank:
                own = partner
            else:
                ranks.order(rank, json.dumps({"partner": partner}).encode())
                wanted.add(rank)
    answers = {} if own is None else {ranks.rank: exchange.with_partner(own)}
    for rank, text in ranks.answers(wanted, deadline):
        try:
            answers[rank] = build(Done, json.loads(text))
        except (ValueError, FieldError):
            continue  # of another version: it has not answered
    return answers


def _encoded(done: Done) -> bytes:
    return json.dumps(dataclasses.asdict(done)).encode()


def _rate(pair: Pair, hosts: Mapping[int, str], found: Sequence[Done]) -> PairRate:
    """Return a pair's rate by the times of both, of each repetition the longer one."""
    names = hosts[pair[0]], hosts[pair[1]]
    ended = [done for done in found if done.seconds]
    if len(ended) < 2:
        why = "; ".join(
            f"{hosts[pair[1 - pair.index(d.partner)]]}: {d.why}" for d in found if d.why
        )
        return PairRate(*names, None, 0, (), why=why)
    seconds = tuple(map(max, *(done.seconds for done in ended)))
    size, gpus = ended[0].bytes, tuple(map(min, *(done.gpus for done in ended)))
    wrong = sum(done.wrong for done in ended)
    rate = bandwidth_gbs(size, median(seconds))
    return PairRate(*names, rate, size, seconds, gpus=gpus, wrong=wrong)
