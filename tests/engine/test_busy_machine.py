"""A machine whose cores are all busy makes numbers worse, never late."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

import lanescope
from lanescope._core import native
from lanescope.engine.sampling import PATIENCE_SECONDS
from tests.patience import PATIENCE_S

CPUS = sorted(os.sched_getaffinity(0))
#: Of what one call that was planned for a fraction of a second takes where others have the CPUs.
BATCH_S = 10


@contextmanager
def busy_cores(each=3):
    """Keep every core busy with so many processes."""
    code = "while True: pass"
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(each * len(CPUS))]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait(timeout=PATIENCE_S)


def team(size, cpus):
    topology = native.Topology()
    pool = native.BufferPool(topology)
    place = native.PlaceSpec(native.Memory.pageable, 0)
    spec = native.HostCopySpec(place, place, size, native.Operation.copy, cpus)
    return native.HostTeam(topology, pool, [spec])


def test_threads_that_wait_for_each_other_end_when_they_should():
    """A thousand meetings take that many turns of the scheduler, unless they are cut short."""
    with busy_cores():
        begin = time.monotonic()
        (spans,) = team(1 << 20, CPUS).run(100_000, 0.5)
        assert time.monotonic() - begin < BATCH_S
    assert 0 < len(spans) < 100_000


def test_one_pass_is_made_however_little_time_there_is():
    (spans,) = team(1 << 16, CPUS).run(10, 0.0)
    assert len(spans) == 1


@pytest.mark.usefixtures("small_arrays")
def test_a_check_ends_a_while_after_its_budget(tmp_path):
    plan = lanescope.Plan(target=1e-9, budget_seconds=0.1)
    with busy_cores():
        run = lanescope.check(cases=["host-copy/h0/1-core"], plan=plan, out=tmp_path / "run")
    (result,) = run.results
    assert result.copies, result.not_measured
    assert result.stop.spent_seconds < 0.1 + PATIENCE_SECONDS + BATCH_S


@pytest.mark.usefixtures("small_arrays")
def test_a_check_ends_within_the_time_it_is_given(tmp_path):
    """And a second or two, of which as many are made here as there are processes for a core."""
    begin = time.monotonic()
    with busy_cores():
        plan = lanescope.Plan(target=1e-9, within_seconds=3)
        run = lanescope.check(cases=["host-*"], plan=plan, out=tmp_path / "run")
    assert time.monotonic() - begin < 3 + BATCH_S
    assert len(run.results) >= 2
