import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.copies.limit import max_min_fair


def test_two_flows_share_a_resource():
    shares = max_min_fair([{"a": 1}, {"a": 1}], {"a": 10})
    assert [s.rate for s in shares] == [5, 5]


def test_a_flow_held_back_elsewhere_leaves_its_share():
    shares = max_min_fair([{"a": 1, "b": 1}, {"a": 1}], {"a": 10, "b": 2})
    assert [s.rate for s in shares] == pytest.approx([2, 8])
    assert [s.bottleneck for s in shares] == ["b", "a"]


def test_usage_counts():
    assert max_min_fair([{"a": 2}], {"a": 10})[0].rate == 5


def test_requests_are_not_held_up_by_data_that_fills_their_way():
    """Reads go on where the other direction, in which they ask, is full of writes."""
    read = {"down": 1, "up": 0.05}
    shares = max_min_fair([read, {"up": 1}, {"up": 1}], {"down": 50, "up": 50})
    assert [s.rate for s in shares] == pytest.approx([50, 23.75, 23.75])
    assert [s.bottleneck for s in shares] == ["down", "up", "up"]
    many = max_min_fair([read] * 30 + [{"up": 1}], {"down": 2000, "up": 50})
    assert many[0].rate == pytest.approx(50 / 2.5)  # together they are not little


def test_nothing_bounds_the_flow():
    assert max_min_fair([{"elsewhere": 1}], {"a": 1})[0].rate is None


resources = st.sampled_from("abcd")
flows = st.lists(st.dictionaries(resources, st.floats(0.1, 4), min_size=1), min_size=1, max_size=6)
capacities = st.fixed_dictionaries({r: st.floats(0.1, 100) for r in "abcd"})


@given(flows, capacities)
def test_no_resource_is_overfull_and_every_flow_has_a_full_one(flows, capacity):
    shares = max_min_fair(flows, capacity)
    load = {
        r: sum(f.get(r, 0) * s.rate for f, s in zip(flows, shares, strict=True)) for r in capacity
    }
    assert all(load[r] <= capacity[r] * (1 + 1e-9) for r in capacity)
    assert all(load[s.bottleneck] >= capacity[s.bottleneck] * (1 - 1e-9) for s in shares)
