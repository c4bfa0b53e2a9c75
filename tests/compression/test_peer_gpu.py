"""Channels between two processes on GPUs: what comes out is what went in, bit by bit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from lanescope import LanescopeError
from lanescope.compression.peer import PeerReceiver, PeerSender

with warnings.catch_warnings():  # of PyTorch's, about others
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

GPUS = torch.cuda.device_count()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS < 1, reason="no GPU that PyTorch can use"),
    pytest.mark.filterwarnings("ignore"),
]
TWO = [pytest.mark.multigpu, pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")]
PAIRS = [(0, 0), pytest.param((0, 1), marks=TWO), pytest.param((1, 0), marks=TWO)]

if GPUS:
    from tests.compression.peer_process import ARRAYS, SHAPE
    from tests.compression.test_channel_gpu import made_up, same


@pytest.fixture
def process(tmp_path: Path):
    """Start the other process; end it afterwards."""
    started = []

    def start(role: str, gpu: int, compression: str = "off") -> subprocess.Popen:
        words = [
            sys.executable, "-m", "tests.compression.peer_process", role, str(tmp_path / "meet"),
            str(gpu), compression,
        ]  # fmt: skip
        env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        started.append(subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def ended(process: subprocess.Popen) -> None:
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said[-2000:]


def send_often(channel: PeerSender, values: torch.Tensor) -> None:
    """Send until it is told that nobody takes it."""
    for _ in range(20):
        channel.send(values)
        channel.last.wait(30)


def receive_and_wait(channel: PeerReceiver) -> None:
    channel.receive()
    channel.last.wait()


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("compression", ["off", "on", "auto"])
def test_arrays_of_another_process_come_as_they_were(tmp_path, process, pair, compression):
    other = process("send", pair[0], compression)
    with PeerReceiver(pair[1], tmp_path / "meet", patience_seconds=60) as channel:
        for seed, (dtype, size) in enumerate(ARRAYS):
            got = channel.receive()
            assert same(got, made_up(dtype, size, seed, pair[1])), (dtype, size)
        assert any(one.decision.compress for one in channel.log) or compression != "on"
        channel.last.wait()
    ended(other)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("compression", ["off", "on"])
@pytest.mark.parametrize("usual", [False, True])  # slabs, which have more chunks then
def test_arrays_reach_another_process_as_they_were(tmp_path, process, pair, compression, usual):
    other = process("receive", pair[1])
    shape = {} if usual else SHAPE
    with PeerSender(
        pair[0], tmp_path / "meet", compression=compression, patience_seconds=60, **shape
    ) as channel:
        for seed, (dtype, size) in enumerate(ARRAYS):
            values = made_up(dtype, size, seed, pair[0])
            channel.send(values)
            values.zero_()
        large = channel.last
        outcome = large.wait(60)
        assert outcome.seconds > 0
        assert outcome.compressed == (compression == "on")
        assert (outcome.wire_bytes < outcome.raw_bytes) == (compression == "on")
    ended(other)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_sending_process_that_ends_is_an_error(tmp_path, process, pair):
    process("die-sending", pair[0])
    channel = PeerReceiver(pair[1], tmp_path / "meet", patience_seconds=60)
    assert same(channel.receive(), made_up(torch.float32, 1 << 20, 0, pair[1]))
    begun = time.monotonic()
    # Announced, and never sent: `receive` says so if the end was noticed before, `wait` if not.
    with pytest.raises(LanescopeError, match="the sending process has ended amid the transfer"):
        receive_and_wait(channel)
    torch.cuda.synchronize(pair[1])  # the stream goes on
    assert time.monotonic() - begun < 20
    channel.close()
    assert torch.ones(5, device=f"cuda:{pair[1]}").sum().item() == 5  # the GPU is of use


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("compression", ["off", "on"])
def test_a_receiving_process_that_ends_is_an_error(tmp_path, process, pair, compression):
    process("die-receiving", pair[1])
    channel = PeerSender(
        pair[0], tmp_path / "meet", compression=compression, patience_seconds=60, **SHAPE
    )
    values = made_up(torch.float32, 64 << 20, 1, pair[0])
    begun = time.monotonic()
    with pytest.raises(LanescopeError, match=r"process (of the channel )?has ended"):
        send_often(channel, values)
    torch.cuda.synchronize(pair[0])
    assert time.monotonic() - begun < 20
    channel.close()
    assert torch.ones(5, device=f"cuda:{pair[0]}").sum().item() == 5


def test_a_process_that_takes_nothing_is_late(tmp_path, process):
    other = process("receive", 0)
    channel = PeerSender(0, tmp_path / "meet", compression="off", patience_seconds=60, **SHAPE)
    values = made_up(torch.float32, 64 << 20)
    channel.send(values)  # not what it is to be
    channel._patience = 1.0
    os.kill(other.pid, 19)  # SIGSTOP
    with pytest.raises(LanescopeError, match="late by more than"):
        send_often(channel, values)
    torch.cuda.synchronize()
    other.kill()
    channel.close()
