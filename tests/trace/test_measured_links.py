import dataclasses
import shutil
from pathlib import Path

import pytest

from lanescope.store.store import read_run
from lanescope.trace.limits import (
    DIRECTIONS,
    NVLINK_DIRECTIONS,
    measured_links,
    measured_nodes,
    runs_of,
)

RECORDED = Path(__file__).parents[2] / "benchmarks" / "results" / "h200-x2" / "check"


@pytest.fixture
def machine():
    return read_run(RECORDED).manifest.machine


def test_what_check_measured_is_what_links_carry(tmp_path, machine):
    shutil.copytree(RECORDED, tmp_path / "20260101-000000-check")
    links = measured_links(runs_of(machine, tmp_path))
    assert set(links) == {
        (gpu, direction) for gpu in (0, 1) for direction in (*DIRECTIONS, *NVLINK_DIRECTIONS)
    }
    assert all(55 < links[gpu, direction].gbs < 56 for gpu in (0, 1) for direction in DIRECTIONS)
    assert all(
        300 < links[gpu, direction].gbs < 450 for gpu in (0, 1) for direction in NVLINK_DIRECTIONS
    )
    assert links[0, "h2d"].run == "20260101-000000-check"


def test_runs_of_others_and_damaged_ones_tell_nothing(tmp_path, machine):
    folder = tmp_path / "20260101-000000-check"
    shutil.copytree(RECORDED, folder)
    (folder / "manifest.json").write_text("{")
    assert measured_links(runs_of(machine, tmp_path)) == {}
    assert measured_links(runs_of(machine, tmp_path / "none")) == {}


def test_by_the_node_of_the_host_memory(tmp_path, machine):
    shutil.copytree(RECORDED, tmp_path / "20260101-000000-check")
    by_node, links = (
        measured_nodes(runs_of(machine, tmp_path)),
        measured_links(runs_of(machine, tmp_path)),
    )
    assert set(by_node) == {(gpu, direction, 0) for gpu in (0, 1) for direction in DIRECTIONS}
    assert all(by_node[gpu, direction, 0] == links[gpu, direction] for gpu, direction, _ in by_node)


def test_results_of_other_gpus_are_not_read(tmp_path, machine):
    shutil.copytree(RECORDED, tmp_path / "20260101-000000-check")
    other = dataclasses.replace(machine, gpus=machine.gpus[:1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lanescope.trace.limits.read_run", lambda folder: pytest.fail("read"))
        assert list(runs_of(other, tmp_path)) == []
