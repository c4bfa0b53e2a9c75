"""The end of a long watch: what becomes of its spools takes memory for a piece, and linear time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

LONG_RUN = Path(__file__).parents[2] / "benchmarks" / "watch" / "long_run.py"
#: 120 bytes each with its call: 200 MB, of which little is read at once.
OPERATIONS = 1_600_000
#: Columns are written a row group at a time, and the allocator keeps some. As columns in memory,
#: what is more of them would take 250.
SPARE_MIB = 100


def test_twice_the_records_take_no_more_memory(tmp_path, trials):
    if trials(1, 0):
        pytest.skip("takes half a minute; make torture runs it")
    once, twice = (finished(tmp_path, count) for count in (OPERATIONS, 2 * OPERATIONS))
    for step, (_, mib) in twice["steps_seconds_mib"].items():
        assert mib < once["steps_seconds_mib"][step][1] + SPARE_MIB, step
    assert twice["user_seconds"] < 4 * once["user_seconds"]  # four times would be quadratic


def finished(folder, operations):
    """Return what the end of a watch with so many operations took."""
    out = folder / f"{operations}.json"
    asked = ["--gpus", "1", "--records", "16000", "--operations", str(operations)]
    subprocess.run(
        [sys.executable, LONG_RUN, *asked, "--out", out],
        check=True,
        capture_output=True,
        timeout=10 * PATIENCE_S,
    )
    return json.loads(out.read_text())["finish"]
