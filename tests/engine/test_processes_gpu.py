"""Copies between processes on GPUs: every byte arrives, by each way of sharing that there is."""

from __future__ import annotations

import pytest

import lanescope
from lanescope._core import native
from lanescope.copies.experiment import between_processes, experiment_of
from lanescope.copies.grammar import parse_copies
from lanescope.copies.kernel_shapes import sm_shapes
from lanescope.engine.processes import VARIABLE, Processes, Sharing


def gpus_here() -> int:
    try:
        return len(native.cuda_devices())
    except native.NativeError:
        return 0


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(gpus_here() < 1, reason="no GPU CUDA can use")]
two_gpus = pytest.mark.skipif(gpus_here() < 2, reason="fewer than two GPUs")


@pytest.fixture
def started():
    found = Processes()
    yield found
    found.drop()
    found.end()


def prepared(started, text):
    machine = lanescope.discover()
    made = between_processes(experiment_of(parse_copies(text, machine)))
    return started.copies(made, sm_shapes(made.copies, machine))


@pytest.mark.parametrize("text", ["g0 -> g0 64MiB", "g0 -> g0 64MiB @sm", "2x g0 -> g0 8MiB"])
@pytest.mark.parametrize("sharing", [Sharing.DESCRIPTOR, Sharing.IPC])
def test_two_processes_on_one_gpu(started, monkeypatch, sharing, text):
    monkeypatch.setenv(VARIABLE, sharing)
    copies = prepared(started, text)
    assert copies.sharing is sharing
    assert copies.count_mismatches() > 4 << 20  # the destination was spoilt
    for boundaries in copies.run_gated(4, 1):
        assert len(boundaries) == 5
        assert boundaries == sorted(boundaries)
    assert copies.count_mismatches() == 0


def test_a_host_and_a_gpu(started):
    copies = prepared(started, "h0 <-> g0 32MiB, h0 <-> g0 32MiB @sm")
    copies.run_gated(4, 1)
    assert copies.count_mismatches() == 0


@pytest.mark.multigpu
@two_gpus
@pytest.mark.parametrize("engine", ["", " @sm"])
@pytest.mark.parametrize("text", ["g0 <-> g1 64MiB{0}", "g0 -> g1 64MiB{0} by g1"])
def test_each_gpu_has_a_process(started, text, engine):
    copies = prepared(started, text.format(engine))
    copies.run_gated(4, 1)
    assert copies.count_mismatches() == 0
    assert copies.sharing in Sharing


def test_memory_that_nobody_shares_is_refused():
    with pytest.raises(native.NativeError):
        native.AttachedMemory(0, 2 << 20, native.Sharing.ipc, b"short")
