"""How many copies at once fill a path, from numbers made up."""

import io

import pytest
from rich.console import Console

from lanescope import api
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import InputError
from lanescope.machine import machine_named
from lanescope.report.terminal import renderables
from lanescope.studies.sweep import Streams
from tests.fake_backend import FakeBackend
from tests.report.factory import run_of

H200S = machine_named("h200-x2")


def one_is_not_enough(copy, batch):
    """Copies of all bytes leave the link idle a tenth of the time; smaller ones overlap."""
    gbs = {64 << 20: 50.0, 32 << 20: 27.4, 16 << 20: 13.8}[copy.bytes]
    return [copy.bytes / gbs / 1e9 * w for w in [1.0] * 7 + [0.99, 1.01]]


def run(**options):
    study, results = Streams(**options), []
    work = study.work(H200S)
    measure_all(
        work.experiments,
        FakeBackend(one_is_not_enough),
        H200S,
        Plan(budget_seconds=0),
        results.append,
    )
    return run_of(results, H200S, verb="streams")


def test_the_fewest_copies_that_fill_a_path_are_named():
    assert Streams.conclusion(run(counts=(1, 2, 4))) == (
        "Filled to 98 % of the best: h0 → g0 by 2 copies, g0 → h0 by 2 copies."
    )


def test_the_table_has_a_row_for_each_number():
    console = Console(file=io.StringIO(), width=80)
    for part in renderables(Streams.report(run(counts=(4, 1)))):
        console.print(part)
    rows = [line.split() for line in console.file.getvalue().splitlines() if "%" in line]
    assert [row[:3] for row in rows] == [["1", "50.0", "90.6"], ["4", "55.2", "100.0"]] * 2


def test_all_copies_together_have_the_requested_bytes():
    for experiment in Streams(size_bytes="1MiB").work(H200S).experiments:
        assert sum(copy.bytes for copy in experiment.copies) == 1 << 20


def test_a_gpu_that_is_not_there_and_a_run_without_results():
    with pytest.raises(InputError, match="there is no GPU 9"):
        api.streams("taruc-2017", gpus=[9])
    with pytest.raises(InputError, match="0 copies at once cannot be"):
        api.streams("h200-x2", counts=[0])
    with pytest.raises(InputError, match="4 B are none for each of 8 copies"):
        api.streams("h200-x2", size_bytes=4)
    predicted = api.streams("h200-x2", counts=[1])
    assert "predicted bandwidth" in Streams.report(predicted)[0].blocks[0].title
    assert Streams.conclusion(run_of([], H200S, verb="streams")) is None
