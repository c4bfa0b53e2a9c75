"""The source that probes: when it can, what it says when not, what it leaves; no GPU needed."""

import dataclasses
import json
import time

import pytest

from lanescope._core import native
from lanescope.errors import InputError, NotMeasuredError
from lanescope.trace import time_checks
from lanescope.trace.codes import LATEST_NS
from lanescope.trace.probe import read_probe
from lanescope.trace.spool_records import sidecar_of
from lanescope.trace.store import read_watch
from lanescope.trace.summarise import summarise
from lanescope.watching.launcher import Launched
from lanescope.watching.requests import SourceRequest
from lanescope.watching.session import Watch, watch
from lanescope.watching.source_choice import every_source, sources_for
from lanescope.watching.sources import Availability
from lanescope.watching.sources.calls import CallsSource
from lanescope.watching.sources.counters import CountersSource, ThroughputSource
from lanescope.watching.sources.pm import PmSource
from lanescope.watching.sources.probe import ProbeSource
from lanescope.watching.sources.trace import TraceSource
from tests.patience import longer_and_longer

MS = 1_000_000


def refused(name, detail="no"):
    def refuse(*_, **__):
        raise native.NativeError("cudaCall", 1, name, detail, "here.cpp:1")

    return refuse


@pytest.fixture
def opened(monkeypatch):
    """A GPU that can be probed: what it was opened with."""
    asked = []

    def probe(**arguments):
        asked.append(arguments)
        return native.testing.programmed_probe(
            [5_000, 20_000] * 20, False, 0, arguments["path"], arguments["header"]
        )

    monkeypatch.setattr(native, "require_shared_gpu", lambda _: None)
    monkeypatch.setattr(native, "LinkProbe", probe)
    return asked


def test_a_probe_leaves_a_spool_with_its_sidecar(opened, two_gpus, tmp_path):
    source = ProbeSource(two_gpus.gpus[1], tmp_path)
    assert source.name == "probe.g1"
    assert source.environment() == {}
    assert source.available(two_gpus, thorough=True).ok
    assert not list(tmp_path.iterdir())  # a trial leaves nothing
    for seconds in longer_and_longer(0.02):
        source.start()
        time.sleep(seconds)
        report = source.stop()
        if len(read_probe(source.spool)) == 20:  # all that there are
            break
        source.spool.unlink()
    assert report.reason is None
    assert report.cpu_seconds is not None
    found = read_probe(tmp_path / "probe.g1.bin")
    assert (found.gpu, found.chunk_bytes, len(found)) == (1, 204_800, 20)
    assert found.cpu_seconds == report.cpu_seconds
    said = json.loads(sidecar_of(source.spool).read_text())
    assert (said["records"], said["rounds"], said["errors"]) == (20, 10, [])


def test_gentle_is_rare_and_takes_little_of_the_link(opened, two_gpus, tmp_path):
    ProbeSource(two_gpus.gpus[0], tmp_path, 4096, gentle=True).start()
    ProbeSource(two_gpus.gpus[1], tmp_path).start()
    told = [(one["chunk_bytes"], one["period_ns"], one["most_share"]) for one in opened]
    assert told == [(4096, 50 * MS, 0.01), (204_800, 0, 1.0)]


def test_a_source_that_never_started_has_nothing_to_say(two_gpus, tmp_path):
    assert ProbeSource(two_gpus.gpus[0], tmp_path).stop().reason is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("exclusive GPU", "shut the program out"),
        ("cudaErrorNoDevice", "no GPU"),
        ("cudaErrorInsufficientDriver", "too old"),
        ("cudaErrorMemoryAllocation", "not enough free memory"),
    ],
)
def test_what_stands_in_the_direction_is_a_sentence(
    opened, monkeypatch, two_gpus, tmp_path, name, words
):
    source = ProbeSource(two_gpus.gpus[0], tmp_path)
    monkeypatch.setattr(native, "LinkProbe", refused(name))
    answer = source.available(two_gpus, thorough=True)
    assert words in answer.reason
    assert answer.remedy
    with pytest.raises(NotMeasuredError, match=words):
        source.start()
    assert source.stop().reason is None
    monkeypatch.setattr(native, "require_shared_gpu", refused(name))
    assert words in source.available(two_gpus).reason


def test_gpus_that_are_not_there_are_told(two_gpus, tmp_path):
    source = ProbeSource(two_gpus.gpus[0], tmp_path)
    described = dataclasses.replace(two_gpus, described=True)
    assert "only described" in source.available(described).reason


@pytest.mark.parametrize("chunk", [0, 3, (1 << 30) + 1])
def test_chunks_that_cannot_be_are_told(two_gpus, tmp_path, chunk):
    with pytest.raises(InputError, match="4 B to 1 GiB"):
        ProbeSource(two_gpus.gpus[0], tmp_path, chunk)
    with pytest.raises(InputError, match="4 B to 1 GiB"):
        SourceRequest(chunk_bytes=chunk)


def stub(monkeypatch, **working):
    kinds = {
        "pm": PmSource,
        "counters": CountersSource,
        "throughput": ThroughputSource,
        "calls": CallsSource,
        "trace": TraceSource,
        "probe": ProbeSource,
    }
    for name, kind in kinds.items():
        answer = Availability(working.get(name, False))
        monkeypatch.setattr(kind, "available", lambda *_, answer=answer, **__: answer)


@pytest.mark.parametrize(
    ("working", "chosen"),
    [
        ({"pm": True, "probe": True}, ["pm.g0", "pm.g1", "calls"]),
        ({"calls": True, "probe": True}, ["calls"]),
        ({"probe": True}, ["probe.g0", "probe.g1", "calls"]),
        ({}, ["calls"]),
    ],
)
def test_a_probe_is_chosen_where_nothing_else_works(
    monkeypatch, two_gpus, tmp_path, working, chosen
):
    stub(monkeypatch, **working)
    found = sources_for(two_gpus, SourceRequest(chunk_bytes=4096), tmp_path)
    assert [source.name for source in found] == chosen
    assert all(s.gentle and s.chunk_bytes == 4096 for s in found if isinstance(s, ProbeSource))


def test_a_probe_that_is_asked_for_fills_the_link(two_gpus, tmp_path):
    found = sources_for(two_gpus, SourceRequest(("probe",)), tmp_path)
    assert [(s.name, s.gentle) for s in found] == [("probe.g0", False), ("probe.g1", False)]
    (first, *_) = sources_for(two_gpus, SourceRequest(("probe",), gentle=True), tmp_path)
    assert first.gentle


def test_a_watch_keeps_and_tells_what_was_probed(opened, two_gpus, tmp_path, monkeypatch):
    # the clock of a programmed probe begins at 0
    monkeypatch.setattr(time_checks, "MARGIN_NS", LATEST_NS)

    def sources(folder):
        return sources_for(two_gpus, SourceRequest(("probe",)), folder)

    for seconds in longer_and_longer(0.1):
        folder, program = tmp_path / f"run-{seconds}", Launched(("sleep", str(seconds)))
        run = watch(Watch(two_gpus, program, "lanescope watch", sources, folder))
        if all(len(probe) == 20 for probe in run.timeline.probes):  # all that there are
            break
    assert [(record.name, record.used) for record in run.manifest.sources] == [
        ("probe.g0", True),
        ("probe.g1", True),
    ]
    back = read_watch(folder).timeline
    assert [(probe.gpu, len(probe)) for probe in back.probes] == [(0, 20), (1, 20)]
    told = summarise(back, two_gpus)
    assert [(direction.gpu, direction.direction) for direction in told.probed] == [
        (gpu, direction) for gpu in (0, 1) for direction in ("h2d", "d2h")
    ]
    assert [cost.source for cost in told.costs] == ["probe of g0", "probe of g1"]


def test_doctor_examines_probes(two_gpus, tmp_path):
    names = [source.name for source in every_source(two_gpus, tmp_path)]
    assert names[-2:] == ["probe.g0", "probe.g1"]
