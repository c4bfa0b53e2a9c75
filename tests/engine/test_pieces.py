"""The session of a copy in pieces, with the core made up."""

import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Place, Submission, Timing
from lanescope.engine import native as backend_module
from lanescope.engine import special_sessions as module
from lanescope.engine.base import TimesSubmission
from lanescope.engine.core import reason_for
from lanescope.engine.native import NativeBackend
from lanescope.engine.special_sessions import PieceSession
from lanescope.errors import NotMeasuredError
from lanescope.studies.small import small_experiments

HOST, GPU = Place("h0", Memory.PINNED), Place("g0", Memory.DEVICE)


class Pieces:
    """Stands in for the core's PieceSet: every repetition takes the same time."""

    wrong = 0

    def __init__(self, topology, pool, spec, cpus):
        self.asked = []

    def run(self, repetitions):
        self.asked.append(repetitions)
        return [20e-6] * repetitions, [5e-6] * repetitions

    def count_mismatches(self):
        return self.wrong


@pytest.fixture
def core(monkeypatch):
    monkeypatch.setattr(module.native, "PieceSet", Pieces)
    return Pieces


def session_of(submission=Submission.BATCH, down=True, timing=Timing.HOST, host=HOST):
    ends = (host, GPU) if down else (GPU, host)
    engine = Engine.SM if submission.by_kernel else Engine.CE
    copy = Copy(*ends, 64 * 8, engine, pieces=8, submission=submission)
    return PieceSession(None, None, Experiment("x", "x", (copy,), timing))


def test_batches_grow_and_submission_is_timed(core):
    session = session_of()
    assert isinstance(session, TimesSubmission)
    assert session.submit_seconds() is None
    assert session.sample()[0] == pytest.approx([20e-6] * 6)
    assert 400 < len(session.sample()[0]) <= 500
    assert session.submit_seconds() == pytest.approx(5e-6)
    assert session.evidence() == ()


def test_the_method_says_what_is_timed(core):
    texts = {session_of(m).method for m in Submission}
    assert len(texts) == len(Submission)
    assert all(t.startswith("host clock from before the first call") for t in texts)
    assert "left out" in session_of(Submission.GRAPH).method
    assert "reads the pieces" in session_of(Submission.MAPPED).method
    assert "stores them" in session_of(Submission.MAPPED, down=False).method


def test_wrong_data_is_never_a_bandwidth(core, monkeypatch):
    monkeypatch.setattr(Pieces, "wrong", 3)
    with pytest.raises(NotMeasuredError, match="3 bytes in or between pieces are wrong"):
        session_of().check()
    with pytest.raises(NotMeasuredError, match="3 sums of what was read are wrong"):
        session_of(Submission.MAPPED).check()
    monkeypatch.setattr(Pieces, "wrong", 0)
    session_of().check()


def test_what_is_not_measured(core):
    with pytest.raises(NotMeasuredError, match="host's clock"):
        session_of(timing=Timing.GATE)
    with pytest.raises(NotMeasuredError, match="pageable"):
        session_of(host=Place("h0", Memory.PAGEABLE))


def test_copies_go_to_a_session_by_what_they_are(two_gpus, monkeypatch):
    monkeypatch.setattr(NativeBackend, "_open_nvml", lambda self: None)
    monkeypatch.setattr(NativeBackend, "_gpu_session", lambda self, e, g: "plain")
    monkeypatch.setattr(backend_module, "PieceSession", lambda *a: "pieces")
    backend = NativeBackend(two_gpus)
    found = set()
    for cell in small_experiments(two_gpus, two_gpus.gpus[:1], (64,), (1, 8)):
        with backend.prepare(cell) as session:
            found.add((cell.copies[0].pieces, cell.copies[0].submission, session))
    assert {(n, m) for n, m, session in found if session == "plain"} == {(1, Submission.SINGLE)}
    assert len(found) == 10


def test_a_call_that_the_driver_lacks_is_not_applicable():
    call = ("cudaMemcpyBatchAsync", 36, "cudaErrorCallRequiresNewerDriver", "detail", "here:1")
    failure = reason_for(*call)
    assert "Not applicable" in failure.error.reason
    assert "cudaMemcpyBatchAsync" in failure.error.reason
    assert not failure.device_lost
