"""From a matrix of pairs to what makes it slow; rates are made up, with scatter."""

import numpy as np
import pytest

from lanescope.fleet.locate import What, located
from lanescope.fleet.pairs import all_pairs, sample

RACKS = [f"r{number // 8}" for number in range(32)]
HOSTS = [f"r{number // 8}n{number % 8}" for number in range(32)]


def rates(plan, seed=0, nodes=(), racks=(), pairs=(), factor=0.8, spread=0.01):
    random = np.random.default_rng(seed)
    made = {}
    for a, b in (pair for one in plan for pair in one):
        rate = 12.0 * (1 + spread * random.standard_normal())
        rate *= 0.9 if RACKS[a] != RACKS[b] else 1
        if {a, b} & set(nodes) or (a, b) in pairs:
            rate *= factor
        if RACKS[a] != RACKS[b] and {RACKS[a], RACKS[b]} & set(racks):
            rate *= factor
        made[a, b] = rate
    return made


PLANS = {"all": all_pairs(32), "sample": sample(RACKS)}


@pytest.fixture(params=PLANS)
def plan(request):
    return PLANS[request.param]


@pytest.mark.parametrize("seed", range(20))
def test_a_sound_fleet_blames_nobody(plan, seed):
    assert located(rates(plan, seed), HOSTS, RACKS) == []


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("node", [0, 13, 31])
def test_a_slow_node_is_named(plan, node, seed):
    (found,) = located(rates(plan, seed, nodes=[node]), HOSTS, RACKS)
    assert (found.what, found.names, found.ambiguous) == (What.NODE, (HOSTS[node],), False)
    assert found.loss == pytest.approx(0.2, abs=0.03)


def test_two_slow_nodes_are_named(plan):
    found = located(rates(plan, nodes=[3, 20]), HOSTS, RACKS)
    assert {one.names for one in found} == {(HOSTS[3],), (HOSTS[20],)}


@pytest.mark.parametrize("seed", range(10))
def test_a_slow_uplink_is_its_racks(plan, seed):
    (found,) = located(rates(plan, seed, racks=["r2"]), HOSTS, RACKS)
    assert (found.what, found.names) == (What.RACK, ("r2",))


def test_a_slow_pair_between_sound_nodes():
    (found,) = located(rates(PLANS["all"], pairs=[(4, 17)]), HOSTS, RACKS)
    assert (found.what, found.names, found.ambiguous) == (What.PAIR, (HOSTS[4], HOSTS[17]), False)


def test_of_two_nodes_that_only_met_each_other_nobody_knows_which():
    made = {(0, 1): 12.0, (2, 3): 12.1, (4, 5): 7.0, (6, 7): 11.9}
    (found,) = located(made, HOSTS)
    assert (found.what, found.names, found.ambiguous) == (What.PAIR, (HOSTS[4], HOSTS[5]), True)


def test_nothing_measured_is_nothing_found():
    assert located({}, HOSTS) == []
