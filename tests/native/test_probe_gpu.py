"""A probe of a real GPU's link, alone and while copies go on."""

import json
import threading
import time

import numpy as np
import pytest

from lanescope._core import native
from lanescope.machine import discover
from lanescope.trace.probe import Sign, probed_directions, read_probe
from lanescope.trace.spool_records import sidecar_of
from lanescope.watching.sources.probe import ProbeSource
from tests.native.test_gpu import DEVICE, GPUS, PINNED, copies, spec

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]

SECONDS = 0.3
#: 4 GiB take 80 ms on the fastest link there is.
SIZE, WINDOWS = 256 << 20, 15


@pytest.fixture(scope="module")
def machine():
    return discover()


@pytest.fixture
def source(machine, tmp_path):
    return usable(machine, ProbeSource(machine.gpus[0], tmp_path))


def usable(machine, source):
    answer = source.available(machine, thorough=True)
    if not answer.ok:
        pytest.skip(f"{answer.reason} {answer.remedy}")
    return source


def probed(source, seconds=SECONDS):
    source.start()
    time.sleep(seconds)
    report = source.stop()
    assert report.reason is None
    return read_probe(source.spool)


def test_alone_bandwidths_and_delays_are_plausible(source):
    found = probed(source)
    for direction in probed_directions((found,)):
        assert direction.records > 500
        assert 1 < direction.undisturbed_gbs < 60
        assert 0 < direction.undisturbed_delay_seconds < 1e-3
        assert (
            direction.probe_busy_share > 0.02
        )  # a gentle one stays below 0.01; a busy host holds it up
    assert np.all(np.diff(found.begin_ns) > 0)
    said = json.loads(sidecar_of(source.spool).read_text())
    assert said["records"] == len(found)


def test_times_are_those_of_the_host(source):
    before = time.time_ns()
    found = probed(source, 0.05)
    assert before < found.begin_ns[0]
    assert found.end_ns[-1] < time.time_ns()


def test_copies_of_others_slow_the_probe(source):
    topology = native.Topology()
    busy = copies(topology, native.BufferPool(topology), spec(PINNED, DEVICE, SIZE))
    busy.run_on_host_clock(1)
    source.start()
    time.sleep(SECONDS)
    begin = time.time_ns()
    busy.run_on_host_clock(WINDOWS)
    end = time.time_ns()
    time.sleep(SECONDS)
    assert source.stop().reason is None
    down = read_probe(source.spool).one_direction(0)
    # one copy of the probe may wait for all of the others
    during = (down.begin_ns + down.delay_ns <= end) & (down.end_ns >= begin)
    assert during.any()
    gbs = down.gbs
    taken = down.rows(during)
    mean = taken.chunk_bytes * len(taken) / float(taken.copy_ns.sum())
    assert mean < 0.8 * np.median(gbs[~during])
    (direction, _) = probed_directions((read_probe(source.spool),))
    held = [e for e in direction.episodes if e.sign is Sign.LINK]
    assert any(begin <= e.end_ns and e.start_ns <= end for e in held)


def test_a_gentle_probe_takes_little(machine, tmp_path):
    found = probed(usable(machine, ProbeSource(machine.gpus[0], tmp_path, gentle=True)), 1.0)
    assert 20 < len(found) < 60  # two records each 50 ms
    assert all(direction.probe_busy_share < 0.01 for direction in probed_directions((found,)))


def test_a_stop_is_at_once(source):
    source.start()
    before = time.monotonic()
    source.stop()
    assert time.monotonic() - before < 1


def test_two_probes_of_one_gpu_end_well(machine, tmp_path):
    sources = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        sources.append(usable(machine, ProbeSource(machine.gpus[0], tmp_path / name)))
    threads = [threading.Thread(target=probed, args=(one,)) for one in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(read_probe(one.spool)) > 0 for one in sources)
