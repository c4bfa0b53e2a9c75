"""What a level of ``lanescope node`` measures."""

from dataclasses import replace

import pytest

from lanescope.studies.node.study import Level, level_experiments, level_within
from tests.report import factory


@pytest.mark.parametrize(
    ("seconds", "level"), [(10, "quick"), (44, "quick"), (60, "full"), (600, "long")]
)
def test_time_decides_how_much_is_measured(seconds, level):
    assert level_within(seconds) is Level(level)


@pytest.mark.parametrize("machine", [factory.two_gpus(), factory.eight_gpus()], ids=["2", "8"])
def test_quick_reaches_every_gpu_in_every_direction_once(machine):
    copies = [e.copies for e in level_experiments(machine, Level.QUICK)]
    assert all(len(one) == 1 for one in copies)
    ends = [(c.source, c.destination) for (c,) in copies]
    for gpu in machine.gpus:
        into = [s for s, d in ends if d.part == gpu.id]
        out_of = [d for s, d in ends if s.part == gpu.id]
        for others in (into, out_of):
            assert sorted(place.is_host for place in others) == [False, True]
    assert len(copies) == 4 * len(machine.gpus) - len(machine.gpus)


def test_one_gpu_has_no_next_one():
    machine = factory.two_gpus()
    alone = replace(machine, gpus=machine.gpus[:1], switches=(), links=machine.links[:1])
    names = [e.name for e in level_experiments(alone, Level.QUICK)]
    assert names == ["h2d/g0", "d2h/g0"]


def test_full_measures_gpus_first_then_all_at_once_then_the_host():
    machine = factory.eight_gpus()
    full = level_experiments(machine, Level.FULL)
    counts = [len(e.copies) for e in full]
    assert sorted(counts)[-3:] == [8, 8, 16]
    is_host = [e.copies[0].executing_gpu is None for e in full]
    assert is_host == sorted(is_host), "memory of the host comes last"
    assert len({e.name for e in full}) == len(full)


def test_long_holds_full_and_every_case_of_nvbandwidth():
    machine = factory.two_gpus()
    full, long = (level_experiments(machine, level) for level in (Level.FULL, Level.LONG))
    assert {e.name for e in full} < {e.name for e in long}
    assert any(c.operation.is_latency for e in long for c in e.copies)
    assert len({e.name for e in long}) == len(long)


def test_without_gpus_the_memory_of_the_host_is_measured():
    machine = factory.host_only()
    for level in Level:
        assert {e.copies[0].executing_gpu for e in level_experiments(machine, level)} == {None}
