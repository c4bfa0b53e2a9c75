"""Opposing copies that lose unequally: numbers of two real H200s, and planted ones."""

from __future__ import annotations

import pytest

from lanescope.copies import Copy, Experiment
from lanescope.findings.machine import diagnose
from tests.findings.machine.simulator import (
    down,
    h200s,
    measured,
    nvswitched,
    peer,
    simulate,
    switched,
    up,
)

#: Two H200s in a virtual machine with one node, measured in GB/s.
ALONE = [
    *(measured((down(i), 55.57)) for i in (0, 1)),
    *(measured((up(i), 55.44)) for i in (0, 1)),
    *(measured((down(i), 52.3), (up(i), 50.7)) for i in (0, 1)),
    measured((peer(0, 1), 393.0)),
    measured((peer(1, 0), 393.2)),
    measured((peer(0, 1), 380.0), (peer(1, 0), 379.0)),
]
ALL_AT_ONCE = measured((down(0), 42.4), (up(0), 52.57), (down(1), 42.05), (up(1), 52.93))
BOTH_AND_UP = measured((down(0), 43.25), (up(0), 52.17), (up(1), 55.33))
BOTH_AND_DOWN = measured((down(0), 49.45), (up(0), 51.02), (down(1), 54.08))
CROSSED = measured((down(0), 55.39), (up(1), 55.41))


def test_the_healthy_matrix_has_none():
    assert diagnose(h200s(), [*ALONE, BOTH_AND_DOWN, CROSSED]) == ()


@pytest.mark.parametrize("more", [[], [BOTH_AND_UP, BOTH_AND_DOWN, CROSSED]])
def test_reads_lose_when_two_gpus_copy_both_directions(more):
    (found,) = diagnose(h200s(), [*ALONE, ALL_AT_ONCE, *more])
    assert (found.kind, found.parts) == ("asymmetric-opposing", ("h0", "g0", "g1"))
    assert "host to device keeps 76 %" in found.sentence
    assert "device to host 95 %" in found.sentence
    assert "fabric of h0, not a link" in found.sentence
    assert len(found.evidence) == 1 + bool(more)
    assert "42.4 GB/s (76 % of alone)" in found.evidence[0]


def test_without_the_rates_alone_nothing_is_known():
    assert diagnose(h200s(), [ALL_AT_ONCE]) == ()


@pytest.mark.parametrize("make", [switched, nvswitched])
@pytest.mark.parametrize("reads_lose", [True, False])
def test_a_planted_loss_is_found(make, reads_lose):
    def fault(case: Experiment, copy: Copy, gbs: float) -> float:
        many = len({c.path for c in case.copies}) > 2
        both = len({c.source.is_host for c in case.copies}) == 2
        return gbs * (0.7 if many and both and copy.source.is_host is reads_lose else 1)

    (found,) = diagnose(make(), simulate(make(), fault=fault))
    assert found.kind == "asymmetric-opposing"
    assert ("reads host memory has to wait" in found.sentence) is reads_lose


def test_one_gpu_alone_is_a_matter_of_its_link():
    results = [*ALONE[:4], measured((down(0), 30.0), (up(0), 52.0))]
    (found,) = diagnose(h200s(), results)
    assert found.parts == ("h0", "g0")
    assert "root port" in found.sentence
