"""Copies between processes: what is shared, what is said where it cannot be, and who ends."""

from __future__ import annotations

import itertools
import os
import time

import pytest

from lanescope.copies.experiment import Timing, between_processes, experiment_of
from lanescope.copies.grammar import parse_copies
from lanescope.copies.kernel_shapes import sm_shapes
from lanescope.engine import process as module
from lanescope.engine.process import received, send, socket_pair
from lanescope.engine.processes import VARIABLE, Processes, Sharing
from lanescope.errors import InputError, NotMeasuredError
from tests.findings.machine.simulator import nvswitched


def experiment(text, gpus=2):
    machine = nvswitched(gpus)
    made = between_processes(experiment_of(parse_copies(text, machine)))
    return made, sm_shapes(made.copies, machine)


@pytest.fixture
def started(monkeypatch):
    """Processes over a made-up core."""
    monkeypatch.setattr(module, "WORKER", "tests.engine.made_up_worker")
    found = Processes()
    yield found
    children = [process.child for process in found._known.values()]
    found.end()
    assert all(child.poll() is not None for child in children)


def test_messages_keep_apart_and_carry_descriptors(tmp_path):
    ours, theirs = socket_pair()
    with ours, theirs, (tmp_path / "file").open("w") as file:
        send(ours, {"number": 1}, [file.fileno()])
        send(ours, {"number": 2})
        first, (descriptor,) = received(theirs)
        assert first == {"number": 1}
        os.write(descriptor, b"through the copy")
        os.close(descriptor)
        assert received(theirs) == ({"number": 2}, [])
        ours.close()
        with pytest.raises(EOFError):
            received(theirs)
    assert (tmp_path / "file").read_text() == "through the copy"


@pytest.mark.parametrize("text", ["g0 -> g1", "g0 <-> g1", "g0 -> g0", "g1 -> g0 by g0 @sm"])
def test_memory_is_shared_by_the_first_way_that_works(started, text):
    made, shapes = experiment(text)
    copies = started.copies(made, shapes)
    assert copies.sharing is Sharing.DESCRIPTOR
    assert copies.refused == {Sharing.FABRIC: "cuMemCreate: not permitted"}
    assert "memory shared by a POSIX file descriptor" in copies.describe()
    assert "not by a fabric handle: cuMemCreate: not permitted" in copies.describe()
    boundaries = copies.run_gated(3, 2)
    assert len(boundaries) == len(made.copies)
    assert min(one[0] for one in boundaries) == 0
    for one in boundaries:
        lengths = [b - a for a, b in itertools.pairwise(one)]
        assert lengths == pytest.approx([0.02] * 3)
    assert copies.count_mismatches() == 0
    started.drop()


def test_the_process_of_each_end_is_another(started):
    made, shapes = experiment("g0 -> g0")
    started.copies(made, shapes)
    assert sorted(started._known) == ["g0", "g0, the second"]
    started.drop()
    made, shapes = experiment("h0 -> g0, h0 -> g1")
    copies = started.copies(made, shapes)
    assert sorted(started._known) == ["g0", "g0, the second", "g1"]
    assert copies.sharing is None
    assert "use no memory of each other" in copies.describe()
    started.drop()


def test_where_nothing_can_be_shared_every_way_is_named(started, monkeypatch):
    monkeypatch.setenv("MADE_UP_FATE", "no-descriptor")
    made, shapes = experiment("g0 -> g1")
    with pytest.raises(NotMeasuredError) as caught:
        started.copies(made, shapes)
    for words in ("a fabric handle", "a POSIX file descriptor", "CUDA IPC"):
        assert f"{words}: cuMemCreate: not permitted" in str(caught.value)


def test_one_way_can_be_named(started, monkeypatch):
    made, shapes = experiment("g0 -> g1")
    monkeypatch.setenv(VARIABLE, "ipc")
    with pytest.raises(NotMeasuredError, match="processes: CUDA IPC: cuMemCreate: not permitted"):
        started.copies(made, shapes)
    monkeypatch.setenv(VARIABLE, "carrier pigeon")
    with pytest.raises(InputError, match="give one of fabric, descriptor, ipc"):
        started.copies(made, shapes)


def test_a_process_that_dies_is_named_and_the_next_experiment_has_a_new_one(started, monkeypatch):
    monkeypatch.setenv("MADE_UP_FATE", "die")
    made, shapes = experiment("g0 -> g1")
    copies = started.copies(made, shapes)
    with pytest.raises(NotMeasuredError, match="the process of g0 has ended"):
        copies.run_gated(1, 1)
    started.drop()
    monkeypatch.delenv("MADE_UP_FATE")
    again = started.copies(made, shapes)
    assert again.run_gated(1, 1)
    started.drop()


def test_a_process_that_hangs_is_not_waited_for(started, monkeypatch):
    monkeypatch.setattr(module, "_END_SECONDS", 0.1)
    monkeypatch.setenv("MADE_UP_FATE", "hang")
    made, shapes = experiment("g0 -> g1")
    copies = started.copies(made, shapes)
    monkeypatch.setattr(module, "ANSWER_SECONDS", 1.0)  # not before: to start may take longer
    for process in started._known.values():
        process.connection.settimeout(1.0)
    begin = time.monotonic()
    with pytest.raises(NotMeasuredError, match="did not answer in 1 s"):
        copies.run_gated(1, 1)
    assert time.monotonic() - begin < 30


def test_what_arrived_wrong_is_counted(started, monkeypatch):
    monkeypatch.setenv("MADE_UP_FATE", "mismatch")
    made, shapes = experiment("g0 <-> g1")
    assert started.copies(made, shapes).count_mismatches() == 2
    started.drop()


def test_what_no_process_of_a_gpu_does_is_refused():
    made = experiment_of(parse_copies("h0 -> h0 @cpu", nvswitched(2)))
    with pytest.raises(InputError, match="leave out threads"):
        between_processes(made)


def test_an_experiment_between_processes_has_a_name_of_its_own():
    made, _ = experiment("g0 -> g1")
    assert made.timing is Timing.PROCESSES
    assert made.name == "processes: g0 -> g1"
    assert made.title.endswith("a process for each GPU")
