"""What carries each copy, by how long earlier ones took: the rule in worlds that are made up."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.native.programs import program

DRIVER, RING = 0, 1
MIB = 1 << 20
#: Seconds of a copy by a carrier: of its bytes, whether its memory is fresh, its number.
World = Callable[[int, int, bool, int], float]


class Rule:
    """The rule of native/src/boost/decision.cpp, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def choose(self, size: int, fresh: bool = False, direction: int = 0) -> tuple[int, bool]:
        self._say(f"choose {direction} {fresh:d} {size}")
        carrier, trial = self._answer().split()
        return int(carrier), trial == "1"

    def leaves(self, size: int, fresh: bool = False, direction: int = 0) -> bool:
        self._say(f"leave {direction} {fresh:d} {size}")
        return self._answer().strip() == "1"

    def learn(
        self, size: int, carrier: int, seconds: float, fresh: bool = False, direction: int = 0
    ) -> None:
        self._say(f"learn {direction} {fresh:d} {size} {carrier} {seconds!r}")

    def expected(self, size: int, carrier: int, direction: int = 0) -> float:
        self._say(f"expected {direction} 0 {size} {carrier}")
        return float(self._answer())


@pytest.fixture
def rule() -> Iterator[Rule]:
    with subprocess.Popen(
        [program("boost_decision")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Rule(process)


@dataclass
class Spent:
    """What a workload took, and would have taken with the faster carrier, or one, each time."""

    seconds: float = 0
    best: float = 0
    by: tuple[float, float] = (0, 0)
    carriers: tuple[int, ...] = ()


def play(rule: Rule, copies: list[tuple[int, bool]], world: World) -> Spent:
    spent = Spent()
    chosen = []
    for number, (size, fresh) in enumerate(copies):
        carrier, _ = rule.choose(size, fresh)
        by = (world(DRIVER, size, fresh, number), world(RING, size, fresh, number))
        rule.learn(size, carrier, by[carrier], fresh)
        spent.seconds += by[carrier]
        spent.best += min(by)
        spent.by = (spent.by[0] + by[0], spent.by[1] + by[1])
        chosen.append(carrier)
    spent.carriers = tuple(chosen)
    return spent


def noisy(driver_gbs: float, ring_gbs: float, seed: int = 1) -> World:
    """A world of two rates, with 30 µs for each copy by the ring and 10 by the driver."""
    noise = random.Random(seed)

    def seconds(carrier: int, size: int, fresh: bool, number: int) -> float:
        del fresh, number
        rate, fixed = (ring_gbs, 30e-6) if carrier == RING else (driver_gbs, 10e-6)
        return (fixed + size / rate / 1e9) * noise.uniform(0.95, 1.15)

    return seconds


def test_the_faster_one_carries_and_trials_cost_little(rule: Rule) -> None:
    spent = play(rule, [(64 * MIB, False)] * 300, noisy(12, 40))
    assert spent.seconds < 1.05 * spent.best + 0.01
    assert spent.seconds < 0.36 * spent.by[DRIVER]
    assert spent.carriers[:6] == (RING, RING, DRIVER, DRIVER, RING, RING)  # in turns by twos


def test_where_the_ring_is_slower_it_carries_nothing_but_trials(rule: Rule) -> None:
    """As on a machine whose cores are all busy."""
    spent = play(rule, [(16 * MIB, False)] * 400, noisy(12, 5))
    assert spent.seconds < 1.07 * spent.by[DRIVER]
    assert spent.carriers[20:].count(RING) < 0.03 * 380


def test_a_gain_that_is_none_is_not_taken(rule: Rule) -> None:
    spent = play(rule, [(16 * MIB, False)] * 400, lambda _, size, *__: size / 12e9)
    assert spent.carriers[10:].count(RING) < 0.05 * 390


def test_sizes_are_learned_from_apart(rule: Rule) -> None:
    copies = [(size, False) for _ in range(200) for size in (MIB // 4, 64 * MIB)]

    def world(carrier: int, size: int, fresh: bool, number: int) -> float:
        del fresh, number
        if carrier == DRIVER:
            return size / 12e9
        return 60e-6 + size / 40e9  # slower below 1 MiB

    spent = play(rule, copies, world)
    assert spent.seconds < 1.05 * spent.best + 0.01
    assert spent.carriers[100::2].count(DRIVER) > 140
    assert spent.carriers[101::2].count(RING) > 140


def test_fresh_memory_is_learned_from_apart(rule: Rule) -> None:
    copies = [(32 * MIB, number % 2 == 0) for number in range(200)]

    def world(carrier: int, size: int, fresh: bool, number: int) -> float:
        del number
        rates = {(DRIVER, True): 2, (RING, True): 15, (DRIVER, False): 20, (RING, False): 18}
        return size / rates[carrier, fresh] / 1e9

    spent = play(rule, copies, world)
    assert spent.seconds < 1.12 * spent.best
    assert spent.carriers[100::2].count(RING) > 45
    assert spent.carriers[101::2].count(DRIVER) > 45


def test_a_few_huge_copies_are_not_spent_on_trials(rule: Rule) -> None:
    """A model is loaded once: what the driver takes may cost 5 % of the time, and 10 ms."""
    spent = play(rule, [(1024 * MIB, False)] * 8, noisy(10, 40))
    assert spent.seconds < 1.1 * spent.best + 0.01


def test_what_changes_is_noticed(rule: Rule) -> None:
    """Cores that were free are busy from the half on, and free again at the end."""

    def world(carrier: int, size: int, fresh: bool, number: int) -> float:
        del fresh
        busy = 400 <= number < 1200
        return size / ((4 if busy else 40) if carrier == RING else 12) / 1e9

    spent = play(rule, [(8 * MIB, False)] * 2400, world)
    assert spent.carriers[420:1200].count(RING) < 25
    assert spent.carriers[2300:].count(RING) > 95
    assert spent.seconds < 1.2 * spent.best


def test_stalls_turn_nothing_off(rule: Rule) -> None:
    stalls = random.Random(7)
    quiet = noisy(12, 36)

    def world(carrier: int, size: int, fresh: bool, number: int) -> float:
        return quiet(carrier, size, fresh, number) * (20 if stalls.random() < 0.05 else 1)

    carriers = play(rule, [(8 * MIB, False)] * 600, world).carriers
    assert carriers[20:].count(RING) > 0.95 * 580


def test_what_is_not_taught_changes_nothing(rule: Rule) -> None:
    for _ in range(50):
        assert rule.choose(MIB) == (RING, True)
    rule.learn(MIB, RING, 0.0)
    rule.learn(MIB, RING, float("nan"))
    rule.learn(0, RING, 1.0)
    assert rule.expected(MIB, RING) == 0
    rule.learn(MIB, RING, 1e-4)
    assert rule.expected(2 * MIB, RING) == pytest.approx(2e-4)  # from the next size
    assert rule.expected(1 << 30, RING) == 0  # too far away
    assert rule.expected(MIB, RING, direction=1) == 0


def test_what_is_settled_is_left_to_the_driver_between_trials(rule: Rule) -> None:
    """As copies are carried: first without a look at the memory, else by choice; trials teach."""
    chosen = []
    for number in range(4000):
        ring_s = 100e-6 if number < 2000 else 20e-6  # cores become free
        if rule.leaves(MIB):
            chosen.append("left")
            continue
        carrier, trial = rule.choose(MIB)
        chosen.append("ring" if carrier == RING else "driver")
        if carrier == RING or trial:
            rule.learn(MIB, carrier, ring_s if carrier == RING else 50e-6)
    assert chosen[:12].count("left") == 0  # nothing is known yet
    assert chosen[20:2000].count("left") > 0.95 * 1980
    assert 4 <= chosen[20:2000].count("ring") < 40  # the other carrier is tried again
    assert chosen[-500:].count("ring") > 480


def test_nothing_is_left_to_the_driver_where_the_ring_is_faster(rule: Rule) -> None:
    for _ in range(300):
        assert not rule.leaves(MIB)
        carrier, _ = rule.choose(MIB)
        rule.learn(MIB, carrier, 20e-6 if carrier == RING else 50e-6)
    assert not rule.leaves(MIB, fresh=True)
    assert not rule.leaves(64)
