"""Text and JSON in nvbandwidth's shape, read the way that scripts read nvbandwidth's."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from lanescope.store.run import Run
from lanescope.studies.nvbandwidth import nvbandwidth_json, nvbandwidth_text
from lanescope.studies.runs.rows import cell_values
from tests.findings.machine.simulator import nvswitched
from tests.report import factory

HOST, PAIRS, BOTH, ALL, LATENCY = (
    "host_to_device_memcpy_ce",
    "device_to_device_memcpy_read_ce",
    "device_to_device_bidirectional_memcpy_write_sm",
    "one_to_all_write_ce",
    "host_device_latency_sm",
)


@dataclass
class Table:
    case: str
    caption: str
    rows: list[list[float | None]]
    total: float


def scraped(text: str) -> list[Table]:
    """Tables as line-by-line scripts find them: case, caption, columns, rows, blank, SUM."""
    tables, case = [], ""
    lines = iter(text.splitlines())
    for line in lines:
        if match := re.fullmatch(r"Running (\w+)\.", line):
            case = match[1]
        if not line.endswith(("(GB/s)", "(ns)")):
            continue
        columns = next(lines).split()
        assert columns == [str(i) for i in range(len(columns))]
        rows = []
        while row := next(lines).split():
            assert row[0] == str(len(rows))
            rows.append([None if cell == "N/A" else float(cell) for cell in row[1:]])
            assert len(rows[-1]) == len(columns)
        word, key, total = next(lines).split()
        assert word == "SUM"
        assert key.startswith(case)
        tables.append(Table(key, line, rows, float(total)))
    return tables


@pytest.fixture(scope="module")
def run() -> Run:
    return factory.bench_run()


def only(run: Run, **options: bool) -> dict:
    return json.loads(nvbandwidth_json(run, **options))["nvbandwidth"]


def test_the_header_names_versions_and_devices(run: Run):
    lines = nvbandwidth_text(run).splitlines()
    assert lines[0] == "nvbandwidth Version: v0.8"
    for line in (
        "CUDA Runtime Version: 13000",
        "CUDA Driver Version: 13000",
        "Driver Version: 580.159.04",
        "node-17",
        "Device 0: NVIDIA H200 (00000000:17:00)",
        "Device 1: NVIDIA H200 (00000000:27:00)",
    ):
        assert line in lines


def test_a_table_is_laid_out_as_nvbandwidth_does(run: Run):
    text = nvbandwidth_text(run)
    first = text[text.index("Running") :].split("\n\nRunning")[0]
    assert first.splitlines() == [
        "Running host_to_device_memcpy_ce.",
        "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
        "           0         1",
        " 0     55.67     55.67",
        "",
        "SUM host_to_device_memcpy_ce 111.35",
    ]


def test_every_table_can_be_scraped(run: Run):
    tables = scraped(nvbandwidth_text(run))
    results = {r.experiment.name: r for r in run.results}
    matrices = [(c, m) for c in run.manifest.cases for m in c.matrices]
    assert len(tables) == len(matrices) == 35 + 2 * 4
    for table, (case, matrix) in zip(tables, matrices, strict=True):
        assert table.case == "_".join(filter(None, (case.name, matrix.suffix)))
        assert table.caption == matrix.caption
        values = {(v.cell.row, v.cell.column): v.median for v in cell_values(matrix, results)}
        for r, row in enumerate(table.rows):
            assert row == [pytest.approx(values.get((r, c)), abs=0.0051) for c in range(len(row))]
        known = [cell for row in table.rows for cell in row if cell is not None]
        assert table.total == pytest.approx(sum(known), abs=0.01 * len(known))


def test_a_gpu_has_no_pair_with_itself():
    run = factory.bench_run(nvswitched(8), (PAIRS, LATENCY))
    pairs, latency = scraped(nvbandwidth_text(run))
    assert [[c is None for c in row] for row in pairs.rows] == np.eye(8, dtype=bool).tolist()
    assert len(latency.rows) == 1
    (matrix, _) = (c["bandwidth_matrix"] for c in only(run)["testcases"])
    assert [row.count("N/A") for row in matrix] == [1] * 8
    assert [row[i] for i, row in enumerate(matrix)] == ["N/A"] * 8


def test_means_and_medians(run: Run):
    def cell(mean: bool) -> tuple[float, float]:
        (table, *_) = scraped(nvbandwidth_text(run, mean=mean))
        shown = only(run, mean=mean)["testcases"][0]["bandwidth_matrix"][0][0]
        return table.rows[0][0] or 0.0, float(shown)

    (copy,) = run.results[0].copies
    rates = copy.copy.counted_bytes / copy.seconds / 1e9
    assert np.mean(rates) != pytest.approx(np.median(rates), rel=1e-4)
    assert cell(mean=False) == pytest.approx((np.median(rates),) * 2, abs=0.006)
    assert cell(mean=True) == pytest.approx((np.mean(rates),) * 2, abs=0.006)


def test_verbose_shows_samples_and_the_spread_of_cells():
    run = factory.bench_run(cases=(HOST, ALL), slow="g1")
    text = nvbandwidth_text(run, verbose=True)
    samples = re.findall(r"^\tSample (\d+): Host -> Device (\d): ([\d.]+)$", text, re.M)
    copies = [r.copies[0] for r in run.results[:2]]
    assert [int(device) for _, device, _ in samples] == [0] * 10 + [1] * 10
    shown = [float(s) for _, _, s in samples]
    assert shown == pytest.approx(
        [c.copy.counted_bytes / s / 1e9 for c in copies for s in c.seconds], abs=0.006
    )
    table = scraped(text)[0]
    low, high = sorted(cell or 0.0 for cell in table.rows[0])
    told = dict(re.findall(rf"^(MIN|MAX|AVG) {HOST} ([\d.]+)$", text, re.M))
    assert {k: float(v) for k, v in told.items()} == pytest.approx(
        {"MIN": low, "MAX": high, "AVG": (low + high) / 2}, abs=0.011
    )
    (variation,) = re.findall(rf"^COV {HOST} ([\d.]+) %$", text, re.M)
    worst = max(c.statistics.variation or 0 for c in copies)
    assert float(variation) == pytest.approx(worst * 100, abs=0.006)
    assert not re.search("^(MIN|MAX|AVG|COV|\t)", nvbandwidth_text(run), re.M)


def test_the_shape_of_the_json(run: Run):
    content = only(run)
    assert sorted(content) == [
        "CUDA Runtime Version",
        "Driver Version",
        "GPU Device list",
        "git_version",
        "testcases",
        "version",
    ]
    assert content["CUDA Runtime Version"] == 13000
    assert content["GPU Device list"][1] == "1: NVIDIA H200 (00000000:27:00): (node-17)"
    assert [c["name"] for c in content["testcases"]] == [c.name for c in run.manifest.cases]
    for case in content["testcases"]:
        assert set(case) == {
            *("name", "status", "bandwidth_description", "bandwidth_matrix", "sum"),
        }
        assert case["status"] == "Passed"
        cells = [cell for row in case["bandwidth_matrix"] for cell in row]
        assert all(isinstance(cell, str) for cell in cells)  # nvbandwidth's numbers are texts
        assert isinstance(case["sum"], float)


def test_json_keeps_the_words_and_the_sum_of_the_last_matrix():
    run = factory.bench_run(cases=(BOTH,))
    (case,) = only(run)["testcases"]
    assert case["bandwidth_description"].endswith("GPU(row) <-> GPU(column) Total bandwidth (GB/s)")
    assert len(case["bandwidth_matrix"]) == 3 * 2
    total = [float(c) for row in case["bandwidth_matrix"][4:] for c in row if c != "N/A"]
    assert case["sum"] == pytest.approx(sum(total), rel=1e-4)


def test_verbose_json_has_what_nvbandwidth_adds():
    run = factory.bench_run(cases=(HOST,), slow="g1")
    (case,) = only(run, verbose=True)["testcases"]
    cells = [float(c) for c in case["bandwidth_matrix"][0]]
    assert (case["min"], case["max"]) == pytest.approx((min(cells), max(cells)), rel=1e-4)
    assert case["average"] == pytest.approx(sum(cells) / 2, rel=1e-4)
    assert 0 < case["coefficient_of_variation"] < 0.1


def test_cases_that_do_not_apply_are_waived():
    run = factory.bench_run(nvswitched(1), (HOST, PAIRS))
    text = nvbandwidth_text(run)
    assert f"Waived: {PAIRS}: it takes two GPUs or more" in text.splitlines()
    assert [table.case for table in scraped(text)] == [HOST]
    _, waived = only(run)["testcases"]
    assert waived == {"name": PAIRS, "status": "Waived"}


def test_notes_are_lines_of_their_own_and_a_warning():
    run = factory.bench_run(cases=(HOST,))
    notes = ("Copies of 1MiB instead of 2MiB.", "Another.")
    noted = replace(run, manifest=replace(run.manifest, notes=notes))
    text = nvbandwidth_text(noted)
    assert re.findall("^NOTE: (.*)$", text, re.M) == list(notes)
    assert only(noted)["warning"] == " ".join(notes)
    assert scraped(text) == scraped(nvbandwidth_text(run))


def test_what_was_not_measured_has_a_reason_and_no_sum():
    run = factory.bench_run(cases=(HOST, PAIRS), missing="g1")
    text = nvbandwidth_text(run)
    assert "       N/A" in text
    assert f"SUM {HOST} 55.67" in text  # of those that were
    assert f"SUM {PAIRS}" not in text
    (error,) = re.findall("^Error: (.*)$", text, re.M)
    assert "exclusive-process mode" in error
    host, pairs = only(run)["testcases"]
    assert (host["status"], host["bandwidth_matrix"][0][1]) == ("Passed", "N/A")
    assert (pairs["status"], pairs["sum"], pairs["error"]) == ("Error", None, error)


@pytest.mark.parametrize(
    ("address", "cuda", "device", "version"),
    [
        (None, None, "N/A", None),
        ("17:00.0", "13", "17:00.0", None),
        ("0001:A7:1F.0", "12.9.1", "00000001:a7:1f", 12090),
    ],
)
def test_machine_files_may_leave_things_out(address, cuda, device, version):
    run = factory.bench_run(cases=(HOST,))
    machine = run.manifest.machine
    gpus = tuple(replace(g, pci_address=address) for g in machine.gpus)
    described = replace(machine, gpus=gpus, cuda_version=cuda, driver=None)
    changed = replace(run, manifest=replace(run.manifest, machine=described))
    text = nvbandwidth_text(changed)
    assert f"Device 0: NVIDIA H200 ({device})" in text
    assert f"CUDA Runtime Version: {version or 'N/A'}\n" in text
    assert "Driver Version: N/A\n" in text
    assert only(changed)["CUDA Runtime Version"] == version
