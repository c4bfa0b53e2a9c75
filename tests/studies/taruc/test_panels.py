from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lanescope.studies.taruc.views import MOST_CURVES, panels

FIELDS = ("node", "thread", "memory", "pattern")
points = st.lists(st.tuples(*(st.integers(0, 4) for _ in FIELDS)), max_size=40, unique=True)


def value(one, field):
    return one[FIELDS.index(field)]


# a busy machine is no fault of the property
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(points, st.sampled_from([(), ("memory",), ("node", "pattern")]))
def test_every_series_is_in_one_panel_and_can_be_told_apart(series, apart):
    found = panels(series, FIELDS, value, apart)
    assert sorted(m for p in found for m in p.members) == sorted(series)
    for panel in found:
        assert len(panel.members) <= MOST_CURVES
        names = {tuple(value(m, f) for f in panel.varying) for m in panel.members}
        assert len(names) == len(panel.members) or len(panel.members) == 1
        for field in apart:
            assert len({value(m, field) for m in panel.members}) == 1


def test_the_first_fields_are_compared():
    series = [(n, t, m, 0) for n in range(2) for t in range(2) for m in range(3)]
    found = panels(series, FIELDS, value)
    assert [p.varying for p in found] == [("node", "thread")] * 3
    assert [p.fixed for p in found] == [{"memory": m} for m in range(3)]


def test_nothing_makes_no_panels():
    assert panels([], FIELDS, value) == ()
