"""Plans of pairs, as data."""

from itertools import combinations

import pytest

from lanescope.errors import InputError
from lanescope.fleet.pairs import (
    Plan,
    all_pairs,
    bisection,
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


@pytest.mark.parametrize("plan", Plan)
@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_small_fleets(plan, nodes):
    rounds = planned(plan, ["r"] * nodes)
    pairs = [pair for one in rounds for pair in one]
    assert pairs == ([(0, 1)] if nodes == 2 and plan is not Plan.NONE else [])


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


def test_a_wrong_list_of_nodes_is_one_sentence():
    with pytest.raises(InputError, match="no list of nodes"):
        racks_of(["a"], "SwitchName=s0 Nodes=n[1-x]")


@pytest.mark.parametrize("text", ["n1 a\nn1 b", "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n1"])
def test_a_node_in_two_racks_is_one_sentence(text):
    with pytest.raises(InputError, match="n1 is in the racks a and b; name one"):
        racks_of(["n1", "n2"], text)
