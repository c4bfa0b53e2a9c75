"""What pairs exchange, try by try, and whom a slow pair then meets."""

from lanescope.fleet.exchange import PairRate, exchanged
from lanescope.fleet.locate import What, located
from lanescope.fleet.pairs import Plan, planned


class MadeUpLeader:
    """Exchanges over a network in which some nodes are slow, and first tries are disturbed."""

    def __init__(self, slow, disturbed=()):
        self.slow, self.disturbed = slow, set(disturbed)
        self.tried = []
        self.ended = False

    def measured(self, rounds):
        for pairs in rounds:
            assert len({end for pair in pairs for end in pair}) == 2 * len(pairs)
            for pair in pairs:
                share = min(self.slow.get(end, 1.0) for end in pair)
                if pair in self.disturbed and pair not in self.tried:
                    share *= 0.7
                self.tried.append(pair)
                yield pair, PairRate(f"n{pair[0]}", f"n{pair[1]}", 10.0 * share, 1, ())

    def end(self):
        self.ended = True


def blamed(leader, plan, nodes):
    racks = [""] * nodes
    rates = exchanged(leader, planned(plan, racks), racks)
    by_pair = {(int(one.first[1:]), int(one.second[1:])): one.gbs for one in rates}
    assert leader.ended
    return located(by_pair, [f"n{n}" for n in range(nodes)], racks)


def test_of_two_nodes_that_met_nobody_else_good_ones_tell_which_is_slow():
    leader = MadeUpLeader({3: 0.8})
    (found,) = blamed(leader, Plan.OPPOSITE, 16)
    assert (found.what, found.names, found.ambiguous) == (What.NODE, ("n3",), False)
    met = {pair for pair in leader.tried if 3 in pair}
    assert len(met) >= 3


def test_sound_pairs_exchange_once():
    leader = MadeUpLeader({})
    assert blamed(leader, Plan.ALL, 8) == []
    assert len(leader.tried) == 28


def test_a_disturbed_try_is_made_good_by_the_next():
    leader = MadeUpLeader({}, disturbed=[(0, 1), (2, 5)])
    assert blamed(leader, Plan.ALL, 8) == []
    assert sorted(leader.tried).count((0, 1)) == 2
    assert len(leader.tried) == 30


def test_where_most_are_suspect_nobody_is_tried_with_good_ones():
    leader = MadeUpLeader(dict.fromkeys(range(3), 0.8))
    blamed(leader, Plan.OPPOSITE, 8)
    assert set(leader.tried) == {(n, n + 4) for n in range(4)}
