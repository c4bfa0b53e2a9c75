"""Cases, copies and the search for SMs, called from Python."""

import dataclasses

import pytest

from lanescope import api
from lanescope.errors import InputError
from lanescope.machine import machine_named
from lanescope.results import Source, Status
from lanescope.store.store import read_run
from lanescope.studies import running
from lanescope.studies.nvbandwidth_cases import CaseOptions
from lanescope.studies.sms import sm_curves
from tests.fake_backend import FakeBackend

H200S = machine_named("h200-x2")


@pytest.fixture(autouse=True)
def runs(monkeypatch, tmp_path):
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def with_memory(machine, host, gpu):
    nodes = tuple(dataclasses.replace(n, memory_bytes=host) for n in machine.nodes)
    gpus = tuple(dataclasses.replace(g, memory_bytes=gpu) for g in machine.gpus)
    return dataclasses.replace(machine, nodes=nodes, gpus=gpus)


def test_all_cases_of_a_described_machine_are_predicted():
    run = api.bench(H200S)
    assert len(run.manifest.cases) == 35
    assert len(run.results) == 36
    assert run.manifest.notes == ()
    verdicts = {}
    for result in run.results:
        assert result.source is Source.PREDICTED
        if result.experiment.has_latency:
            assert result.not_measured.reason == "A latency is measured, not predicted."
        else:
            verdicts[result.experiment.name] = {v.status for v in result.verdicts}
    local = {"g0 -> g0", "g1 -> g1"}  # done in 0.2 ms: too short without a known latency
    assert {name for name in verdicts if verdicts[name] == {Status.NOT_MEASURED}} == local
    assert all(verdicts[name] == {Status.PREDICTED} for name in verdicts.keys() - local)
    assert read_run(run.folder) == run


def test_copies_shrink_to_the_memory_and_the_run_notes_it():
    run = api.bench(with_memory(H200S, 1 << 30, 8 << 30), cases=["host_to_all_memcpy_ce"])
    ((first, second),) = (r.experiment.copies for r in run.results)
    assert first.bytes == second.bytes == 256 << 20  # twice, in 80 % of 1 GiB
    (note,) = read_run(run.folder).manifest.notes
    assert note.startswith("Copies of 256 MiB instead of 512 MiB: ")
    assert "1 GiB of h0, which has 819 MiB free" in note


def test_options_and_choice_reach_the_run():
    options = CaseOptions(bytes=1 << 20, pairs=1)
    run = api.bench(H200S, cases=["4"], prefixes=["device_local_copy_s"], options=options)
    names = [case.name for case in run.manifest.cases]
    assert names == ["device_to_device_memcpy_read_ce", "device_local_copy_sm"]
    assert {c.bytes for r in run.results for c in r.experiment.copies} == {1 << 20}


def test_names_are_checked_before_the_machine(runs):
    plain = dataclasses.replace(H200S, gpus=(), links=())
    with pytest.raises(InputError, match="did you mean device_local_copy"):
        api.bench(plain, cases=["device_local_copi"])
    with pytest.raises(InputError, match="has no GPU, and every case takes one"):
        api.bench(plain)
    assert not runs.exists()


def test_copies_run_at_the_same_time():
    run = api.copy("h0 -> g0, 2x g0 -> g1 @sm by g1 1MiB", H200S, size_bytes=4 << 20)
    (result,) = run.results
    assert [c.bytes >> 20 for c in result.experiment.copies] == [4, 1, 1]
    assert result.experiment.name == (
        "h0 -> g0 4MiB, g0 -> g1 @sm by g1 1MiB, g0 -> g1 @sm by g1 1MiB"
    )
    assert read_run(run.folder) == run


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h0 -> g9", "column 7: this machine has no g9"),
        ("h0 -> g0 @sm:133", "g0 has 132 SMs, the copies take 133 at once"),
        ("g0 -> g1 @sm:9:0:50", "plain loads and stores keep no pace"),
        ("h0 -> g0, h0 -> h0 @cpu", "mixes host threads and GPU engines"),
        ("h0 -> g0 200GiB", "the copies take 200 GiB of g0 at once, which has 140 GiB"),
        ("2x g0 -> g1 71GiB", "142 GiB of g0"),
        ("g0 -> g0 71GiB", "142 GiB of g0"),
        ("100x h0 -> h0 @cpu 2GiB", "400 GiB of h0"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(runs, text, words):
    with pytest.raises(InputError, match=words):
        api.copy(text, H200S)
    assert not runs.exists()


def test_the_search_for_sms_goes_on_with_paces(monkeypatch):
    """The first round tells how fast kernels write to a peer; the second keeps that pace."""
    fake = FakeBackend(lambda copy, batch: [copy.bytes / 400e9] * 6)
    monkeypatch.setattr(running, "backend_for", lambda *args, **options: fake)
    seen = []
    run = api.sms(
        dataclasses.replace(H200S, described=False),
        gpus=[0, 0],  # what is named twice is measured once
        size_bytes=1 << 20,
        progress=lambda experiment, number, total: seen.append((number, total)),
    )
    names = [r.experiment.name for r in run.results]
    assert len(set(names)) == len(names) == len(seen)
    paced = [c for r in run.results for c in r.experiment.copies if c.pace_gbs]
    assert {c.path for c in paced} == {"g0 → g1"}
    assert {c.pace_gbs for c in paced} == {396.0}
    numbers, totals = zip(*seen, strict=True)
    assert numbers == tuple(range(1, len(names) + 1))
    assert sorted(set(totals)) == [len(names) - len(paced), len(names)]
    again = read_run(run.folder)
    assert again == run
    assert [c.path_ends for c in sm_curves(again.results)] == [
        c.path_ends for c in sm_curves(run.results)
    ]


def test_sms_are_not_found_by_describing():
    with pytest.raises(InputError, match="no GPU here whose SMs could copy"):
        api.sms(H200S)
