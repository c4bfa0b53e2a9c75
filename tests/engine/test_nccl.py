"""Copies by NCCL: which rank does what, what is refused, and what happens where a rank is lost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place, Timing
from lanescope.copies.copy import copies_text
from lanescope.copies.experiment import between_processes, experiment_of
from lanescope.copies.grammar import parse_copies
from lanescope.engine import process, processes
from lanescope.engine.core import reason_for
from lanescope.engine.process import received, send
from lanescope.engine.processes import Processes
from lanescope.engine.worker import NCCL_VARIABLE, nccl_library
from lanescope.errors import InputError, NotMeasuredError
from tests.findings.machine.simulator import nvswitched

MACHINE = nvswitched(4)
PLACES = (Place("g0", Memory.DEVICE), Place("g1", Memory.DEVICE))


def experiment(text):
    return experiment_of(parse_copies(text, MACHINE))


def all_reduce(gpus, size=1 << 20):
    places = [Place(f"g{i}", Memory.DEVICE) for i in range(gpus)]
    ring = zip(places, [*places[1:], places[0]], strict=True)
    copies = tuple(Copy(a, b, size, Engine.NCCL, Operation.ALL_REDUCE) for a, b in ring)
    return Experiment("sum", "sum", copies, Timing.PROCESSES)


def test_the_process_of_a_gpu_answers_where_there_is_no_nccl():
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "lanescope.engine.worker", str(theirs.fileno())]
    environment = os.environ | {NCCL_VARIABLE: "libnone.so"}
    with ours, theirs:
        worker = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()
        send(ours, {"do": "nccl_id"})
        answer, _ = received(ours)
    assert worker.wait(60) == 0
    assert "libnone.so" in " ".join(answer["error"])


@pytest.fixture
def started(monkeypatch):
    monkeypatch.setattr(process, "WORKER", "tests.engine.made_up_worker")
    monkeypatch.setattr(process, "_END_SECONDS", 0.2)
    found = Processes()
    yield found
    children = [one.child for one in found._known.values()]
    found.end()
    assert all(child.poll() is not None for child in children)


@pytest.mark.parametrize("text", ["g0 -> g1 @nccl", "g1 -> g3 @nccl 1MiB, g3 -> g1 @nccl 1MiB"])
def test_copies_by_nccl_are_read_written_and_run_as_others(started, text):
    made = experiment(text)
    assert made.timing is Timing.PROCESSES
    assert copies_text(made.copies) == text
    assert between_processes(made) == made
    copies = started.copies(made, [None] * len(made.copies))
    boundaries = copies.run_gated(3, 2)
    assert [len(one) for one in boundaries] == [4] * len(made.copies)
    assert min(one[0] for one in boundaries) == 0
    assert copies.count_mismatches() == 0
    assert not copies.staged(0)
    assert "NCCL 2.29.7, NVLS off" in copies.describe()
    started.drop()


def test_ranks_are_the_gpus_in_order_and_each_copy_has_a_sender_and_a_receiver(started):
    asked = []
    made = experiment("g3 -> g1 @nccl 1MiB, g0 -> g3 @nccl 1MiB")
    for gpu in ("g0", "g1", "g3"):
        one = started.of(gpu)
        ask = one.ask

        def listen(message, *rest, ask=ask, gpu=gpu):
            asked.append((gpu, message))
            ask(message, *rest)

        one.ask = listen
    started.copies(made, [None, None])
    joins = {gpu: m["rank"] for gpu, m in asked if m["do"] == "join"}
    assert joins == {"g0": 0, "g1": 1, "g3": 2}
    parts = {gpu: m for gpu, m in asked if m["do"] == "operate"}
    first, second = processes._SEED, processes._SEED + 1
    assert parts["g3"]["sends"] == [[1, 1 << 20, first]]
    assert parts["g1"]["receives"] == [[2, 1 << 20, first]]
    assert parts["g0"]["sends"] == [[2, 1 << 20, second]]
    assert parts["g3"]["receives"] == [[0, 1 << 20, second]]
    started.drop()
    started.copies(made, [None, None])
    assert sum(m["do"] == "join" for _, m in asked) == 3, "the communicator is used again"
    started.drop()


def test_an_all_reduce_is_a_ring_of_copies(started):
    made = all_reduce(4)
    copies = started.copies(made, [None] * 4)
    assert len(copies.run_gated(2, 1)) == 4
    started.drop()


@pytest.mark.parametrize("fate", ["die in join", "die in run"])
def test_where_a_rank_dies_nobody_waits_for_it(started, monkeypatch, fate):
    monkeypatch.setenv("MADE_UP_FATE", fate)
    made = experiment("g0 <-> g1 @nccl")
    begin = time.monotonic()
    monkeypatch.setattr(process, "ANSWER_SECONDS", 2.0)
    with pytest.raises(NotMeasuredError, match=r"the process of g\d (has ended|did not answer)"):
        started.copies(made, [None, None]).run_gated(1, 1)
    assert time.monotonic() - begin < 30
    started.drop()
    monkeypatch.delenv("MADE_UP_FATE")
    assert started.copies(made, [None, None]).run_gated(1, 1), "new ranks join"
    started.drop()


def test_what_arrived_wrong_is_counted_by_every_rank(started, monkeypatch):
    monkeypatch.setenv("MADE_UP_FATE", "mismatch")
    assert started.copies(all_reduce(3), [None] * 3).count_mismatches() == 3
    started.drop()


def test_multicast_is_off_by_default(started, monkeypatch):
    monkeypatch.setenv(processes.MULTICAST, "1")
    copies = started.copies(experiment("g0 -> g1 @nccl"), [None])
    assert "NVLS on" in copies.describe()
    assert process._USUAL[processes.MULTICAST] == "0"
    started.drop()


def test_a_library_can_be_named(monkeypatch):
    monkeypatch.setenv(NCCL_VARIABLE, "/opt/nccl/libnccl.so.2")
    assert nccl_library() == "/opt/nccl/libnccl.so.2"
    monkeypatch.delenv(NCCL_VARIABLE)
    assert nccl_library().endswith("libnccl.so.2")


def test_what_is_missing_is_said_with_a_remedy():
    failure = reason_for("dlopen", 0, "no nccl", "libnccl.so.2: no such file", "processes.cpp:1")
    assert str(failure.error).startswith("NVIDIA's NCCL cannot be opened: libnccl.so.2")
    assert "pip install nvidia-nccl-cu13" in str(failure.error)
    failure = reason_for("ncclSend", 3, "NCCL failed", "internal error", "processes.cpp:1")
    assert "NCCL_DEBUG=WARN" in str(failure.error)
    assert not failure.device_lost


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h0 -> g0 @nccl", "between two GPUs"),
        ("g0 -> g0 @nccl", "between two GPUs"),
        ("g0 -> g1 @nccl by g1", "from their source"),
        ("g0 -> g1 @nccl:4", "takes at most 0"),
        ("g0 -> g1 @nccl, g1 -> g0", "by nothing but NCCL"),
        ("g0 -> g1 @nccl 1MiB, g1 -> g0 @nccl 2MiB", "of one size"),
    ],
)
def test_what_nccl_cannot_do_is_refused(text, words):
    with pytest.raises(InputError, match=words):
        experiment(text)


def test_nothing_but_nccl_does_an_all_reduce():
    with pytest.raises(InputError, match="only NCCL does an all-reduce"):
        Copy(*PLACES, 1 << 20, Engine.CE, Operation.ALL_REDUCE)
    with pytest.raises(InputError, match=r"use Timing\.PROCESSES"):
        Experiment("sum", "sum", all_reduce(2).copies)
