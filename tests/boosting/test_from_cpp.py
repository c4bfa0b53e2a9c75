"""The library's copies of pageable memory, with sanitizers, over the driver for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from lanescope.boosting.running import read_folder
from tests.boosting.programs import ALWAYS, boosted, driver_variables, needs_boost, run
from tests.native.programs import program


@pytest.mark.native
def test_bytes_order_and_errors(tmp_path: Path) -> None:
    tallies = tmp_path / "tallies"
    tallies.mkdir()
    variables = {"LANESCOPE_BOOST": ALWAYS.text(), "LANESCOPE_BOOST_FOLDER": str(tallies)}
    done = run([program("host_copies")], {**driver_variables(tmp_path), **variables})
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")
    found = read_folder(tallies)
    assert {name: found.carried[name].copies for name in ("h2d", "d2h")} == {"h2d": 4, "d2h": 4}
    assert {reason: one.copies for reason, one in found.by_reason().items()} == {"small": 8}


@needs_boost
@pytest.mark.native
def test_a_boosted_process_has_one_ring_and_one_tally(tmp_path: Path) -> None:
    done, tally = boosted([program("host_copies")], driver_variables(tmp_path), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")
    assert tally.processes == 1
    assert tally.all_carried().copies == 8
    assert tally.by_reason()["small"].copies == 8
