import dataclasses
from unittest.mock import Mock

import numpy as np
import pytest

from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine import Gpu, Machine
from lanescope.trace.counter_spool import RECORD, counter_header, read_all_counters
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Timeline
from lanescope.watching.live import LiveWatch
from lanescope.watching.requests import SourceRequest
from lanescope.watching.source_choice import examine, nvlink_text, sources_for
from lanescope.watching.sources import Availability
from lanescope.watching.sources.counters import CountersSource, ThroughputSource
from lanescope.watching.sources.pm import PmSource

MACHINE = Machine(
    name="two",
    nodes=(),
    gpus=(Gpu(0, "GPU", uuid="GPU-a"), Gpu(1, "GPU", uuid="GPU-b"), Gpu(2, "GPU", unavailable="x")),
)


@pytest.fixture
def working(monkeypatch):
    """Let those sources work whose classes are put into the set."""
    works = {PmSource, CountersSource, ThroughputSource}

    def available(self, machine, *, thorough=False):
        return Availability(type(self) in works)

    for source in tuple(works):
        monkeypatch.setattr(source, "available", available)
        monkeypatch.setattr(source, "prepare", lambda self: None)
    return works


def names(tmp_path, asked=None):
    return [source.name for source in sources_for(MACHINE, asked or SourceRequest(), tmp_path)]


def test_the_best_counters_that_work_watch_and_calls(tmp_path, working):
    assert names(tmp_path) == ["pm.g0", "pm.g1", "calls"]
    working.remove(PmSource)
    assert names(tmp_path) == ["counters", "calls"]
    working.remove(CountersSource)
    assert names(tmp_path) == ["throughput.g0", "throughput.g1", "calls"]
    working.remove(ThroughputSource)
    assert names(tmp_path) == ["calls"]


@pytest.mark.parametrize("asked", ["trace", "kernels", "managed", "addresses", "hashes"])
def test_what_cupti_alone_tells_is_traced(tmp_path, working, asked):
    found = names(tmp_path, SourceRequest(**{asked: True}))
    assert found == ["pm.g0", "pm.g1", "calls", "trace"]  # calls: where the trace is missing


def test_lines_of_python_are_of_calls_alone(tmp_path):
    (calls,) = sources_for(MACHINE, SourceRequest(("calls",), python_bytes=4096), tmp_path)
    assert calls._python_bytes == 4096
    wrong = [{one: True} for one in ("trace", "kernels", "managed", "addresses", "hashes")]
    for request in (*wrong, {"names": ("pm",)}, {"names": ("trace",)}):
        with pytest.raises(InputError, match="leave out these, or python_bytes"):
            SourceRequest(python_bytes=4096, **request)
    with pytest.raises(InputError, match="only programs that lanescope runs"):
        SourceRequest(python_bytes=4096, traceable=False)


def test_where_a_gpu_is_refused_the_next_counters_watch_too(tmp_path, working, monkeypatch):
    def taken(self):
        if self.name == "pm.g1":
            raise NotMeasuredError("Another profiler has it.")

    monkeypatch.setattr(PmSource, "prepare", taken)
    assert names(tmp_path) == ["pm.g0", "pm.g1", "counters", "calls"]


def test_those_that_are_named_watch_whether_or_not_they_say_they_work(tmp_path, working):
    working.clear()
    assert names(tmp_path, SourceRequest(("trace", "pm"))) == ["trace", "pm.g0", "pm.g1"]
    with pytest.raises(InputError, match="no source 'pn'; use pm, counters"):
        SourceRequest(("pn",))


def test_doctor_says_whose_nvlinks_are_counted(two_gpus, monkeypatch):
    assert nvlink_text(MACHINE) == "none"
    monkeypatch.setattr(
        "lanescope.watching.source_choice.counts_nvlink", lambda gpu: gpu.index == 1
    )
    assert nvlink_text(two_gpus) == (
        "bytes of g1 are counted by source counters; the driver does not count bytes of g0"
    )


def test_gpus_with_nvlinks_are_counted_there_too(two_gpus, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("lanescope.watching.sources.counters.counts_nvlink", asked.append)
    monkeypatch.setattr("lanescope.watching.sources.counters.native.NvmlCounters", Mock())
    gpus = tuple(dataclasses.replace(g, uuid=f"GPU-{g.index}") for g in two_gpus.gpus)
    for machine in (MACHINE, dataclasses.replace(two_gpus, gpus=gpus)):
        (source,) = sources_for(machine, SourceRequest(names=("counters",)), tmp_path)
        source.start()
    assert [gpu.uuid for gpu in asked] == ["GPU-0", "GPU-1"]  # none of those without links


def test_doctor_asks_every_source(tmp_path, working):
    found = {one.name: one.works for one in examine(MACHINE, tmp_path)}
    expected = {"pm.g0", "pm.g1", "counters", "throughput.g0", "throughput.g1", "trace"}
    assert expected <= set(found)
    assert found["counters"]


def test_what_is_traced_is_what_was_asked_for(tmp_path):
    asked = SourceRequest(("trace",), kernels=True, managed=True, hashes=True)
    (trace,) = sources_for(MACHINE, asked, tmp_path)
    kinds = ("copy", "memset", "call", "range", "kernel", "migration", "address", "hash")
    assert trace._kinds == kinds
    for one in ("managed", "addresses", "hashes"):
        with pytest.raises(InputError, match="addresses, hashes and python_bytes"):
            SourceRequest(traceable=False, **{one: True})


def test_a_new_source_is_a_line_of_the_registry(tmp_path, working, monkeypatch):
    from lanescope.cli.watch import _source_names
    from lanescope.watching import source_choice

    class Packets:
        name = "packets"

        def available(self, machine, *, thorough=False):
            return Availability(ok=True)

        def prepare(self):
            pass

    kind = source_choice.SourceKind(lambda machine, asked, folder: [Packets()], counts=True)
    monkeypatch.setitem(source_choice.SOURCES, "packets", kind)
    working.clear()
    assert names(tmp_path) == ["packets", "calls"]
    assert names(tmp_path, SourceRequest(("packets",))) == ["packets"]
    assert "packets" in _source_names()
    assert ("packets", True) in [(one.name, one.works) for one in examine(MACHINE, tmp_path)]


def test_what_a_new_source_counts_is_read_drawn_live_and_summed(tmp_path):
    second, now = 10**9, 1_795_281_230 * 10**9
    found = np.zeros(2000, RECORD)
    found["end_ns"] = now + np.arange(1, 2001) * 10**6
    found["rx_bytes"] = 10**7
    header = counter_header("packets", 0, 10**6).encode()
    (tmp_path / "packets.g0.bin").write_bytes(header + found.tobytes())
    (counters,) = read_all_counters(tmp_path)
    assert (counters.source, int(counters.rx_bytes.sum())) == ("packets", 2000 * 10**7)
    summary = summarise(Timeline(now, now + 2 * second, (counters,)))
    assert [direction.label for direction in summary.directions] == ["g0.h2d", "g0.d2h"]
    assert summary.directions[0].source.startswith("packets")
    frame = LiveWatch(tmp_path, MACHINE).look(now + 2 * second)
    assert frame.directions[0].source == "packets"
