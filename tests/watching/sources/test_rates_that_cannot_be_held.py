"""Sampling where samples come faster than they can be fetched, of GPUs that are pretended."""

import dataclasses
import json
import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from lanescope.findings.trace import evaluate_watch
from lanescope.report.terminal import renderables
from lanescope.studies.watch_report import summary_json, watch_page_html, watch_terminal
from lanescope.trace.counter_spool import SpoolTail, counters_in, read_counters
from lanescope.trace.spool_records import sidecar_of
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Counters, Timeline
from lanescope.trace.wire import default_model, payload_records
from lanescope.watching.live import LiveWatch
from lanescope.watching.session import Watch, watch
from lanescope.watching.sources import start_all
from lanescope.watching.sources.pm import PmSource
from tests.native.mock_gpu import use_mock
from tests.native.programs import program
from tests.patience import until

MS = 1_000_000


@pytest.fixture
def machine(two_gpus, monkeypatch):
    use_mock(monkeypatch, program("mock_gpu"))
    first = two_gpus.gpus[0]
    gpus = [
        dataclasses.replace(first, index=i, uuid=f"GPU-{i}", compute_capability=(9, 0))
        for i in range(8)
    ]
    return dataclasses.replace(two_gpus, gpus=tuple(gpus))


def known(path):
    found = read_counters(path)
    return np.asarray(found.known).sum()


def lengths(counters):
    """How long the known records are, ns, each once, in order of time."""
    found = (counters.end_ns - counters.start_ns)[counters.known]
    return found[np.append(True, np.diff(found) != 0)].tolist()


def sampled(machine, folder, samples, **options):
    source = PmSource(machine.gpus[0], folder, decode_period_ns=5 * MS, **options)
    source.start()
    until(lambda: known(source.spool) >= samples)
    return source.stop(), read_counters(source.spool)


def test_eight_gpus_are_sampled_every_10_us_without_loss(machine, tmp_path):
    running = [PmSource(gpu, tmp_path, interval_ns=10_000) for gpu in machine.gpus]
    for source in running:
        source.prepare()
    for source in running:
        source.start()
    until(lambda: all(known(source.spool) >= 20_000 for source in running))
    reports = [source.stop() for source in running]
    for source, report in zip(running, reports, strict=True):
        found = read_counters(source.spool)
        assert (report.reason, report.rate_note, report.lost_samples) == (None, None, 0)
        assert (found.interval_ns, found.gpu) == (10_000, source.gpu.index)
        assert report.samples == np.asarray(found.known).sum() == len(found) - 1
        assert lengths(found) == [10_000]


def test_a_rate_that_runs_over_is_lowered_until_it_holds(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("MOCK_PM", "narrow")
    report, found = sampled(machine, tmp_path, 1000, interval_ns=2000)
    assert report.reason is None
    assert report.rate_note.startswith(
        "g0: 2 µs could not be sampled without loss here; sampled every 8 µs since second "
    )
    assert found.interval_ns == 8000
    assert lengths(found) == [8000]
    said = json.loads(sidecar_of(tmp_path / "pm.g0.bin").read_text())
    assert [interval for _, interval in said["changes"]] == [4000, 8000]
    assert said["restarts"] == 2
    assert said["restart_seconds"] > 0


def test_samples_before_and_after_stand_in_one_series(machine, tmp_path, monkeypatch):
    """Every byte that was counted counts, each sample with its own length."""
    monkeypatch.setenv("MOCK_PM", "overflow")
    report, found = sampled(machine, tmp_path, 1500, interval_ns=100_000)
    assert "sampled every 200 µs" in report.rate_note
    assert found.interval_ns == 200_000
    assert lengths(found) == [100_000, 200_000]
    assert found.rx_bytes.sum() == 1000 * report.samples
    assert (~found.known).sum() == 2  # the first one, and what was not sampled in between


def test_what_fetching_takes_is_enough_to_know_it(machine, tmp_path, monkeypatch):
    """A sample takes 4 µs to be fetched: every 2 µs is too often, before anything is lost."""
    monkeypatch.setenv("MOCK_PM", "slow")
    source = PmSource(machine.gpus[0], tmp_path, interval_ns=2000, decode_period_ns=5 * MS)
    source.start()
    until(lambda: read_counters(source.spool).interval_ns >= 8000)
    until(lambda: lengths(read_counters(source.spool))[-1] >= 8000)
    assert source.stop().rate_note is not None
    found = read_counters(source.spool)
    assert lengths(found)[0] == 2000
    assert lengths(found)[-1] == found.interval_ns


def test_values_that_cannot_be_learned_lower_the_rate_by_no_more_than_is_needed(
    machine, tmp_path, monkeypatch
):
    """CUPTI takes 8 µs for those of a sample: every 2 µs is four times too often."""
    monkeypatch.setenv("MOCK_PM", "dear")
    source = PmSource(machine.gpus[0], tmp_path, interval_ns=2000, decode_period_ns=5 * MS)
    source.start()
    until(lambda: read_counters(source.spool).interval_ns >= 8000)
    until(lambda: lengths(read_counters(source.spool))[-1] >= 8000)
    report = source.stop()
    found = read_counters(source.spool)
    said = json.loads(sidecar_of(source.spool).read_text())
    # At once, unless so few cores are free that samples are lost before their cost is known.
    assert max(interval for _, interval in said["changes"][:2]) >= 16_000
    assert "no whole numbers" in report.learned.state
    assert said["learned"]["state"] == report.learned.state
    assert report.asked >= report.samples == np.asarray(found.known).sum()


def test_a_rate_is_raised_again_where_samples_cost_less_than_they_did(
    machine, tmp_path, monkeypatch
):
    """The header says the longest interval; each sample has its own length."""
    monkeypatch.setenv("MOCK_PM", "starting")
    source = PmSource(machine.gpus[0], tmp_path, interval_ns=5000, decode_period_ns=5 * MS)
    source.start()
    source.settle()
    lowered = read_counters(source.spool).interval_ns
    assert lowered >= 20_000  # more where cores are scarce
    until(lambda: lengths(read_counters(source.spool))[-1] < lowered)
    report = source.stop()
    found = read_counters(source.spool)
    assert found.interval_ns == lowered
    assert lengths(found)[:3] == [5000, lowered, lowered // 2]
    assert re.match(
        rf"g0: 5 µs could not be sampled without loss here; sampled every {lowered // 1000} µs "
        rf"since second \d\.\d, every {lowered // 2000} µs since second \d\.\d",
        report.rate_note,
    )


def test_the_program_starts_when_the_rate_is_known(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("MOCK_PM", "slow")
    gpus = machine.gpus[:2]
    sources = [PmSource(g, tmp_path, interval_ns=2000, decode_period_ns=5 * MS) for g in gpus]
    running = []
    assert start_all(sources, running) == {"pm.g0": None, "pm.g1": None}
    intervals = [read_counters(source.spool).interval_ns for source in sources]
    for source in running:
        source.stop()
    assert min(intervals) >= 8000


@pytest.mark.parametrize("mode", ["dead", "broken"])
def test_who_cannot_find_out_does_not_wait_for_long(mode, machine, tmp_path, monkeypatch):
    monkeypatch.setenv("MOCK_PM", mode)
    source = PmSource(machine.gpus[0], tmp_path, interval_ns=2000)
    assert start_all([source], []) == {"pm.g0": None}
    assert source.stop().reason.startswith("Sampling ended early")


def test_nvlinks_are_sampled_as_rarely(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("MOCK_PM", "narrow")
    report, found = sampled(machine, tmp_path, 500, interval_ns=2000, nvlink=True)
    nvlink = read_counters(tmp_path / "pm-nvlink.g0.bin")
    assert report.rate_note is not None
    assert (found.interval_ns, nvlink.interval_ns, nvlink.link) == (8000, 8000, "nvlink")
    assert np.array_equal(found.end_ns, nvlink.end_ns)


def test_whoever_reads_the_spool_meanwhile_learns_of_it(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("MOCK_PM", "overflow")
    source = PmSource(machine.gpus[0], tmp_path, interval_ns=100_000, decode_period_ns=5 * MS)
    tail, live = SpoolTail(source.spool), LiveWatch(tmp_path, machine)
    source.start()
    until(lambda: known(source.spool) > 10)
    pieces = list(tail.read())
    live.look(int(pieces[-1].end_ns[-1]))
    until(lambda: read_counters(source.spool).interval_ns == 200_000)
    until(lambda: lengths(read_counters(source.spool))[-1] == 200_000)
    source.stop()
    pieces += tail.read()
    assert pieces[-1].interval_ns == 200_000
    assert sum(map(len, pieces)) == len(read_counters(source.spool))
    frame = live.look(int(pieces[-1].end_ns[-1]))
    assert frame.directions[0].interval_ns == 200_000
    assert counters_in(source.spool).interval_ns == 200_000


def test_the_summary_says_so_and_its_windows_are_of_the_longer_interval(
    machine, tmp_path, monkeypatch
):
    monkeypatch.setenv("MOCK_PM", "narrow")

    class Enough:
        program, traceable, notes = (), False, ()

        def wait(self, environment):
            until(lambda: known(tmp_path / "run/spool/pm.g0.bin") > 2000)

    def sources(spool):
        return [PmSource(machine.gpus[0], spool, interval_ns=2000, decode_period_ns=5 * MS)]

    run = watch(Watch(machine, Enough(), "lanescope watch", sources, tmp_path / "run"))
    evaluation = evaluate_watch(run, tmp_path / "none")
    sentence = "2 µs could not be sampled without loss here; sampled every 8 µs since second"
    told = summary_json(evaluation.summary)
    assert sentence in " ".join(told["notes"])
    (cost,) = told["costs"]
    assert cost["learned"]["state"] == "in use"
    assert cost["asked"] > 0
    assert run.manifest.sources[0].learned is not None
    console = Console(width=400, file=StringIO())
    console.print(*renderables(watch_terminal(run, evaluation)))
    assert console.file.getvalue().count(sentence) == 1
    assert "could not be sampled without loss" in watch_page_html(run, evaluation)
    assert "pm, 8 µs" in evaluation.summary.directions[0].source
    (counters,) = run.timeline.counters
    assert counters.interval_ns == 8000


def test_what_the_sampler_itself_writes_is_taken_off_sample_by_sample():
    """Half of the time a sample every 2 µs and half every 8 µs: 92 bytes each, and no payload."""
    ends = 10**18 + np.cumsum(np.repeat([2000, 8000], [4000, 1000]))
    sent = np.full(ends.size, 92)
    none = np.zeros(ends.size, np.int64)
    everywhere = np.ones(ends.size, bool)
    counters = Counters("pm", 0, 8000, ends, none, sent, everywhere, own=~everywhere)
    ((_, rows),) = payload_records(counters, default_model("pm", own=True), int(ends[0]) - 2000)
    assert np.abs(rows[:, :2]).max() < 1e-6
    summary = summarise(Timeline(int(ends[0]), int(ends[-1]), (counters,)))
    assert [round(one.rates.payload_bytes) for one in summary.directions] == [0, 0]
