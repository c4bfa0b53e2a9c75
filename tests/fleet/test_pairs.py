"""Plans of pairs of nodes, as data; what makes a matrix of made-up rates slow."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from lanescope.errors import InputError
from lanescope.fleet.pairs import (
    PairPlan,
    SuspectKind,
    all_pairs,
    bisection,
    located,
    opposite,
    planned,
    racks_of,
    sample,
    with_good_ones,
)


def require_rounds(rounds):
    """Nobody is busy twice in a round, and no pair comes twice."""
    for one in rounds:
        nodes = [node for pair in one for node in pair]
        assert len(set(nodes)) == len(nodes)
    pairs = [pair for one in rounds for pair in one]
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


@pytest.mark.parametrize("nodes", [2, 3, 4, 7, 8, 63, 64])
def test_all_pairs_in_as_few_rounds_as_there_can_be(nodes):
    rounds = all_pairs(nodes)
    assert require_rounds(rounds) == set(combinations(range(nodes), 2))
    assert len(rounds) == nodes - 1 + nodes % 2


@pytest.mark.parametrize("nodes", [2, 5, 8, 72])
def test_opposite_is_one_round_across_the_middle(nodes):
    (one,) = opposite(nodes)
    require_rounds([one])
    assert {b - a for a, b in one} == {nodes // 2}
    assert len(one) == nodes // 2


@pytest.mark.parametrize("nodes", [2, 8, 13, 72])
def test_bisection_halves_until_neighbours(nodes):
    rounds = bisection(nodes)
    require_rounds(rounds)
    assert len(rounds) == (nodes - 1).bit_length()
    assert rounds[0] == opposite(nodes)[0]
    assert {node for one in rounds for pair in one for node in pair} == set(range(nodes))


def test_a_sample_grows_as_the_fleet_and_reaches_every_node_within_and_between_racks():
    counts = {}
    for nodes in (64, 256, 1024):
        racks = [f"r{number // 16}" for number in range(nodes)]
        rounds = sample(racks)
        pairs = require_rounds(rounds)
        counts[nodes] = len(pairs) / nodes
        assert len(rounds) <= 10
        for node in range(nodes):
            partners = {a + b - node for a, b in pairs if node in (a, b)}
            assert any(racks[one] == racks[node] for one in partners)
            assert any(racks[one] != racks[node] for one in partners)
    assert max(counts.values()) < 2.6
    assert max(counts.values()) - min(counts.values()) < 0.2
    assert sample(racks) == rounds, "the same every time"


def test_suspects_meet_good_nodes_only():
    rounds = with_good_ones([3, 5, 9], [0, 1, 2, 4])
    pairs = require_rounds(rounds)
    for suspect in (3, 5, 9):
        met = {a + b - suspect for a, b in pairs if suspect in (a, b)}
        assert len(met) == 2
        assert met <= {0, 1, 2, 4}


@pytest.mark.parametrize("plan", PairPlan)
@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_small_fleets(plan, nodes):
    rounds = planned(plan, ["r"] * nodes)
    pairs = [pair for one in rounds for pair in one]
    assert pairs == ([(0, 1)] if nodes == 2 and plan is not PairPlan.NONE else [])


def test_racks_by_name_file_and_slurm():
    hosts = ["r1n01", "r1n02", "r12n01.cluster"]
    assert racks_of(hosts) == ["r1", "r1", "r12"]
    assert racks_of(["node7", "node8"]) == ["", ""]
    assert racks_of(["a", "b"], "a rack1 # near the door\n\nb rack2\n") == ["rack1", "rack2"]
    switches = ("s0 Nodes=n[01-02,10],login", "s1 Nodes=m3", "top Switches=s[0-1]")
    slurm = "\n".join(f"SwitchName={one}" for one in switches)
    assert racks_of(["n01", "n10", "login", "m3"], slurm) == ["s0", "s0", "s0", "s1"]


def test_a_node_that_a_text_does_not_name_has_the_rack_of_its_name():
    assert racks_of(["a", "r7n1"], "a r1") == ["r1", "r7"]


def test_a_list_of_slurm_has_ranges_at_several_places():
    slurm = "SwitchName=s0 Nodes=r[1-2]n[08-10],x"
    hosts = ["r1n08", "r2n10", "x", "r3n08"]
    assert racks_of(hosts, slurm) == ["s0", "s0", "s0", "r3"]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ("n[1-x]", "no list of nodes"),
        ("n[1-3", "no list of nodes"),
        ("n[3-1]", "no list of nodes"),
        ("n[\N{SUPERSCRIPT TWO}]", "no list of nodes"),
        ("a,,b", "no list of nodes"),
        ("n[1-999999999]", "has more than 100,000 nodes"),
        ("a[1-999]b[1-999]c[1-999]", "has more than 100,000 nodes"),
    ],
)
def test_a_wrong_list_of_nodes_is_one_sentence(nodes, words):
    with pytest.raises(InputError, match=words):
        racks_of(["a"], f"SwitchName=s0 Nodes={nodes}")


def test_a_line_without_a_rack_is_named():
    with pytest.raises(InputError, match="line 2 of the racks is 'n2'; write a node and its rack"):
        racks_of(["n1", "n2"], "n1 r1\nn2\n")


@pytest.mark.parametrize("text", ["n1 a\nn1 b", "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n1"])
def test_a_node_in_two_racks_is_one_sentence(text):
    with pytest.raises(InputError, match="n1 is in the racks a and b; name one"):
        racks_of(["n1", "n2"], text)


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
    assert (found.what, found.names, found.ambiguous) == (SuspectKind.NODE, (HOSTS[node],), False)
    assert found.loss == pytest.approx(0.2, abs=0.03)


def test_two_slow_nodes_are_named(plan):
    found = located(rates(plan, nodes=[3, 20]), HOSTS, RACKS)
    assert {one.names for one in found} == {(HOSTS[3],), (HOSTS[20],)}


@pytest.mark.parametrize("seed", range(10))
def test_a_slow_uplink_is_its_racks(plan, seed):
    (found,) = located(rates(plan, seed, racks=["r2"]), HOSTS, RACKS)
    assert (found.what, found.names) == (SuspectKind.RACK, ("r2",))


def test_a_slow_pair_between_sound_nodes():
    (found,) = located(rates(PLANS["all"], pairs=[(4, 17)]), HOSTS, RACKS)
    assert (found.what, found.names, found.ambiguous) == (
        SuspectKind.PAIR,
        (HOSTS[4], HOSTS[17]),
        False,
    )


def test_of_two_nodes_that_only_met_each_other_nobody_knows_which():
    made = {(0, 1): 12.0, (2, 3): 12.1, (4, 5): 7.0, (6, 7): 11.9}
    (found,) = located(made, HOSTS)
    assert (found.what, found.names, found.ambiguous) == (
        SuspectKind.PAIR,
        (HOSTS[4], HOSTS[5]),
        True,
    )


def test_nothing_measured_is_nothing_found():
    assert located({}, HOSTS) == []
