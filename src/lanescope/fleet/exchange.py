"""Rates of pairs of nodes: exchanged by a plan, or imported from nccl-tests and perftest.

Exchanges go in both directions at once. Of rates that the other programs print only that of the
largest size counts. nccl-tests name their hosts; perftest does not, so its files are called
``HOST--HOST.txt``.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import filterfalse
from pathlib import Path
from statistics import median
from typing import TypeVar

from lanescope.codec.fields import FieldError, build
from lanescope.codec.files import read_text
from lanescope.errors import InputError
from lanescope.fleet.media import ExchangeReport, Medium, RankExchange, exchange_through
from lanescope.fleet.pairs import Pair, Round, in_rounds, slow_pairs, with_good_ones
from lanescope.fleet.ranks import MpiRanks
from lanescope.studies.node_report import Host, is_host
from lanescope.units.sizes import bandwidth_gbs

_FURTHER_TRIES = 3
_END = b"end"
Key = TypeVar("Key")
_RANK = re.compile(r"^#\s+Rank\s+\d+.*\s+on\s+(\S+)\s+device\s", re.M)
_FIRST_RANK = re.compile(r"^#\s+Rank\s+0\s", re.M)
_NCCL_TEST = re.compile(r"^# Collective test starting: (\S+)", re.M)
#: Size, count, type, operation, root; then time, algbw, busbw and #wrong, and in place the same.
_NCCL_ROW = re.compile(
    r"^\s*(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(\S+)"
    r"(?:[^\S\n]+[\d.]+){0,3}[^\S\n]*(\S*)",
    re.M,
)
_PERFTEST = re.compile(r"^\s*(\S.*\bBW) Test\s*$", re.M)
_PERFTEST_UNIT = re.compile(r"BW average\s*\[(\S+)\]")
_PERFTEST_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", re.M)
#: GB/s of each unit; perftest's MB are 2^20 bytes.
_UNITS = {
    "Gb/sec": 0.125,
    "MB/sec": (1 << 20) * 1e-9,
    "MiB/sec": (1 << 20) * 1e-9,
}


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
        Bytes, by NCCL values, that arrived other than they were sent, in all tries.
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
    """Return for each pair its best try, how many there were, and what arrived wrong in all."""
    best: dict[Key, PairRate] = {}
    for key, rate in tries:
        before = best.get(key)
        if before is None:
            best[key] = rate
            continue
        better = rate if (rate.gbs or 0.0) > (before.gbs or 0.0) else before
        best[key] = replace(better, tries=before.tries + 1, wrong=before.wrong + rate.wrong)
    return best


def follow(ranks: MpiRanks, deadline: float, medium: Medium = Medium.HOST) -> None:
    """Exchange as rank 0 says, until it says that this was all, or the deadline."""
    exchange = exchange_through(medium, ranks)
    try:
        _followed(ranks, exchange, deadline)
    finally:
        exchange.end()


def _followed(ranks: MpiRanks, exchange: RankExchange, deadline: float) -> None:
    while (text := ranks.next_order(deadline)) is not None and text != _END:
        try:
            order = build(_Order, json.loads(text))
        except (ValueError, FieldError):
            return  # of another version
        done = exchange.with_partner(order.partner)
        encoded = json.dumps(dataclasses.asdict(done)).encode()
        ranks.answer(encoded, time.monotonic() + exchange.seconds)


def _round(
    ranks: MpiRanks, exchange: RankExchange, pairs: Sequence[Pair]
) -> dict[int, ExchangeReport]:
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
            answers[rank] = build(ExchangeReport, json.loads(text))
        except (ValueError, FieldError):
            continue  # of another version: it has not answered
    return answers


def _rate(pair: Pair, hosts: Mapping[int, str], found: Sequence[ExchangeReport]) -> PairRate:
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


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file says.

    Attributes
    ----------
    test
        Program and what it counted, such as ``sendrecv_perf of 16 ranks, 1073741824 B``: only
        rates of one test can be compared.
    """

    test: str
    rate: PairRate


def imported(files: Iterable[Path]) -> tuple[str, list[PairRate]]:
    """Return the test that some files hold results of, and the rates of their pairs.

    The best of several tries counts.

    Raises
    ------
    InputError
        If a file is no such result, is not of two nodes, or they are of different tests.
    """
    found = [(file, read_result(file)) for file in _files(files)]
    for file, one in found:
        for host in filterfalse(is_host, (one.rate.first, one.rate.second)):
            raise InputError(
                f"{file} is of {host!r}, which is no node's name; give one without blanks, "
                "quotation marks and commas"
            )
    if not found:
        raise InputError("there is no file to import; name results of nccl-tests or perftest")
    first_file, first = found[0]
    for file, one in found:
        if one.test != first.test:
            raise InputError(
                f"{file} is of another test ({one.test}) than {first_file} ({first.test}), and "
                "their rates cannot be compared; import each test by itself"
            )
    return first.test, _slower_directions([one.rate for _, one in found])


def _slower_directions(rates: Iterable[PairRate]) -> list[PairRate]:
    """Return a rate for each pair; of both orders, which may be two directions, the slower."""
    found: dict[frozenset[str], PairRate] = {}
    for one in best_tries(((one.first, one.second), one) for one in rates).values():
        pair = frozenset((one.first, one.second))
        if (other := found.get(pair)) is None:
            found[pair] = one
            continue
        slower = min(other, one, key=lambda rate: rate.gbs or 0.0)
        found[pair] = replace(slower, wrong=other.wrong + one.wrong)
    return list(found.values())


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.iterdir() if one.is_file())
        else:
            yield path


def read_result(file: Path) -> Imported:
    """Return what a file of nccl-tests or perftest says. Raises `InputError`."""
    text = read_text(file)
    if _RANK.search(text):
        return _of_nccl_tests(file, text)
    if _NCCL_ROW.search(text):
        raise InputError(
            f"{file} is of nccl-tests, but the lines that name its hosts are missing ('# Rank 0 "
            "... on HOST device 0'); store all that each run prints, in a file of its own"
        )
    if found := _PERFTEST.search(text):
        return _of_perftest(file, text, found[1])
    raise InputError(f"{file} is no output of nccl-tests or of a bandwidth test of perftest")


def _of_nccl_tests(file: Path, text: str) -> Imported:
    ranks = _RANK.findall(text)
    if (runs := len(_FIRST_RANK.findall(text))) > 1:
        raise InputError(f"{file} holds {runs} runs of nccl-tests; give each a file of its own")
    hosts = list(dict.fromkeys(ranks))
    if len(hosts) != 2:
        raise InputError(f"{file} is of {len(hosts)} hosts; a pair of nodes has two")
    rows = _NCCL_ROW.findall(text)
    if not rows:
        raise InputError(f"{file} has no row with a result; it may be cut off")
    size, time, _, bus, *_ = max(rows, key=lambda row: int(row[0]))
    named = _NCCL_TEST.search(text)
    name = named[1] if named else "nccl-tests"
    rate = PairRate(
        hosts[0],
        hosts[1],
        float(bus) or None,
        int(size),
        (float(time) * 1e-6,),
        medium=Medium.NCCL,
        wrong=sum(int(text) for row in rows for text in row[4:] if text.isdecimal()),
    )
    return Imported(f"{name} of {len(ranks)} ranks, {size} B", rate)


def _of_perftest(file: Path, text: str, name: str) -> Imported:
    hosts = file.name.removesuffix(file.suffix).split("--")
    if len(hosts) != 2 or not all(hosts):
        raise InputError(
            f"{file}: perftest does not name its hosts; call the file HOST--HOST{file.suffix}"
        )
    first, second = hosts
    if first == second:
        raise InputError(f"{file} is of {first} and itself; a pair of nodes has two")
    unit, rows = _PERFTEST_UNIT.search(text), _PERFTEST_ROW.findall(text)
    if unit is None or unit[1] not in _UNITS or not rows:
        raise InputError(f"{file} has no row with a rate in Gb/sec or MB/sec; it may be cut off")
    size, _, _, average, _ = max(rows, key=lambda row: int(row[0]))
    gbs = float(average) * _UNITS[unit[1]]
    seconds = (int(size) * 1e-9 / gbs,) if gbs else ()
    rate = PairRate(first, second, gbs or None, int(size), seconds, medium=Medium.RDMA)
    return Imported(f"{name} of perftest, {size} B, {unit[1]}", rate)
