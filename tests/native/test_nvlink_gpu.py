"""Counters of NVLink, while one GPU copies a known number of bytes to another."""

import json
import time

import numpy as np
import pytest

from lanescope._core import native
from lanescope.machine import discover
from lanescope.trace.counter_spool import read_all_counters
from lanescope.trace.limits import joined
from lanescope.trace.spool_records import sidecar_of
from lanescope.watching.sources import prepare_all, start_all
from lanescope.watching.sources.counters import CountersSource, counts_nvlink
from lanescope.watching.sources.pm import PmSource
from tests.native.test_gpu import DEVICE, GPUS, copies, spec

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.multigpu,
    pytest.mark.skipif(GPUS < 2, reason="fewer than two GPUs"),
]

SIZE, WINDOWS = 64 << 20, 15
PAYLOAD = SIZE * (WINDOWS + 1)  # 1 GiB: a run warms up once
#: Idle time on both sides, in case that is not counted which comes at once.
MARGIN_SECONDS = 1.0


@pytest.fixture(scope="module")
def machine():
    found = discover()
    if (0, 1) not in joined(found):
        pytest.skip("no NVLink joins the first two GPUs")
    return found


def by_the_driver(machine, folder):
    if not all(counts_nvlink(gpu) for gpu in machine.gpus[:2]):
        pytest.skip("the driver does not count on NVLink")
    return [CountersSource(machine.gpus[:2], folder, nvlinked=(0, 1))]


def by_the_hardware(machine, folder):
    sources = [PmSource(gpu, folder, nvlink=True) for gpu in machine.gpus[:2]]
    for source in sources:
        answer = source.available(machine)
        if not answer.ok:
            pytest.skip(answer.reason)
    assert prepare_all(sources) == [None, None]  # both at the same time, as a watch does
    return sources


@pytest.fixture(params=[by_the_driver, by_the_hardware])
def sources(request, machine, tmp_path):
    return request.param(machine, tmp_path)


def watched(sources, folder, copy):
    """Run a copy under the eyes of the counters: bytes (received, sent) over NVLink by GPU."""
    for source in sources:
        source.start()
    time.sleep(MARGIN_SECONDS)
    if copy is not None:
        copy.run_on_host_clock(WINDOWS)
    time.sleep(MARGIN_SECONDS)
    for source in sources:
        assert source.stop().reason is None
    found = [c for c in read_all_counters(folder) if c.link == "nvlink"]
    assert [c.gpu for c in found] == [0, 1]
    assert all(c.known[1:].all() for c in found)
    return [(int(c.rx_bytes.sum()), int(c.tx_bytes.sum())) for c in found]


@pytest.mark.parametrize("executor", [0, 1], ids=["write", "read"])
def test_a_copy_of_one_gib_is_counted_on_both_ends_and_one_direction(sources, tmp_path, executor):
    topology = native.Topology()
    job = spec(DEVICE, DEVICE, SIZE, executor=executor, destination_index=1)
    copy = copies(topology, native.BufferPool(topology), job)
    (back, sent), (received, answered) = watched(sources, tmp_path, copy)
    assert sent == pytest.approx(PAYLOAD, rel=0.01)
    assert received == pytest.approx(PAYLOAD, rel=0.01)
    assert back < 0.01 * PAYLOAD
    assert answered < 0.01 * PAYLOAD


def test_reading_the_counters_moves_nothing_over_nvlink(sources, tmp_path):
    for received, sent in watched(sources, tmp_path, None):
        assert max(received, sent) < 1 << 20


@pytest.mark.parametrize("interval_ns", [2_000, 10_000])
def test_the_rate_is_settled_before_anything_is_copied(machine, tmp_path, interval_ns):
    """What cannot be held is lowered once, within a second, and holds: 2 µs became 8 before."""
    sources = [
        PmSource(gpu, tmp_path, nvlink=True, interval_ns=interval_ns) for gpu in machine.gpus[:2]
    ]
    for source in sources:
        answer = source.available(machine)
        if not answer.ok:
            pytest.skip(answer.reason)
    running = []
    assert start_all(sources, running) == {"pm.g0": None, "pm.g1": None}
    settled_ns = time.time_ns()
    topology = native.Topology()
    job = spec(DEVICE, DEVICE, SIZE, executor=0, destination_index=1)
    copies(topology, native.BufferPool(topology), job).run_on_host_clock(WINDOWS)
    time.sleep(MARGIN_SECONDS)
    for source in running:
        assert source.stop().reason is None
    for source in sources:
        said = json.loads(sidecar_of(source.spool).read_text())
        print(source.name, said)  # what a new beginning takes: restart_seconds
        assert len(said["changes"]) <= (interval_ns < 10_000)
        assert all(at < 1 and to <= 8_000 for at, to in said["changes"])
    found = [c for c in read_all_counters(tmp_path) if c.link == "nvlink"]
    assert all(np.asarray(c.known)[np.asarray(c.end_ns) > settled_ns].all() for c in found)
    moved = [int(np.asarray(found[0].tx_bytes).sum()), int(np.asarray(found[1].rx_bytes).sum())]
    assert moved == pytest.approx([PAYLOAD] * 2, rel=0.01)
