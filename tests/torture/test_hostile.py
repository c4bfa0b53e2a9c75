"""Files made to hold or fill the machine of whoever reads them: refused in time and memory."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.patience import PATIENCE_S
from tests.torture.stored import RESULTS, SPOOLS
from tests.trace.nsys_captures import capture

#: Of CPU, which others on the machine take none of: 2 s for the reading, the rest to start.
_CPU_S = 4
_MOST_BYTES = 500 << 20

Make = Callable[[Path], list[str]]


def _deep_machine(folder: Path) -> list[str]:
    (folder / "deep.toml").write_text("x = " + "[" * 1_000_000)
    return ["topo", "--machine", str(folder / "deep.toml")]


def _long_number(folder: Path) -> list[str]:
    (folder / "long.toml").write_text(f'name = "x"\n[[nodes]]\nindex = {"9" * 5000}\n')
    return ["topo", "--machine", str(folder / "long.toml")]


def _negative_memory(folder: Path) -> list[str]:
    (folder / "less.toml").write_text('name = "x"\n[[nodes]]\nindex = 0\nmemory_bytes = -1\n')
    return ["topo", "--machine", str(folder / "less.toml")]


def _link_to_itself(folder: Path) -> list[str]:
    text = 'name = "x"\n[[nodes]]\nindex = 0\n[[links]]\na = "h0"\nb = "h0"\nkind = "socket"\n'
    (folder / "loop.toml").write_text(text)
    return ["topo", "--machine", str(folder / "loop.toml")]


def _watch(folder: Path) -> Path:
    shutil.copytree(RESULTS / "h200-x1/watch/matmul", folder / "watch")
    return folder / "watch"


def _report(path: Path) -> list[str]:
    return ["report", str(path), "--json"]


def _deep_manifest(folder: Path) -> list[str]:
    watch = _watch(folder)
    (watch / "manifest.json").write_text('{"x":' * 1_000_000)
    return _report(watch)


def _manifest_with(end_ns: str) -> Make:
    def make(folder: Path) -> list[str]:
        watch = _watch(folder)
        told = json.loads((watch / "manifest.json").read_text()) | {"end_ns": "HERE"}
        (watch / "manifest.json").write_text(json.dumps(told).replace('"HERE"', end_ns))
        return _report(watch)

    return make


def _sparse_manifest(folder: Path) -> list[str]:
    watch = _watch(folder)
    os.truncate(watch / "manifest.json", 1 << 40)
    return _report(watch)


def _many_operations(folder: Path) -> list[str]:
    watch = _watch(folder)
    _repeat_first_row(watch / "operations.parquet", 1 << 20)
    return _report(watch)


def _many_counters(folder: Path) -> list[str]:
    watch = _watch(folder)
    told = json.loads((watch / "manifest.json").read_text())
    most = (told["end_ns"] - told["start_ns"]) // 1000
    _repeat_first_row(watch / "counters.parquet", most + 1)
    return _report(watch)


def _long_group(folder: Path) -> list[str]:
    watch = _watch(folder)
    rows = pa.table({"start_ns": np.zeros(5 << 20, np.int64)})
    pq.write_table(rows, watch / "operations.parquet", row_group_size=5 << 20)
    return _report(watch)


def _many_samples(folder: Path) -> list[str]:
    run = folder / "run"
    shutil.copytree(RESULTS / "h200-x2/latency", run)
    _repeat_first_row(run / "samples.parquet", 4 << 20)
    return _report(run)


def _repeat_first_row(path: Path, count: int) -> None:
    first = pq.read_table(path).slice(0, 1)
    rows = first.take(pa.array(np.zeros(count, np.int64)))
    pq.write_table(rows, path, compression="zstd")


def _endless_view(folder: Path) -> list[str]:
    path = capture(folder / "capture.sqlite")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
    with sqlite3.connect(path) as database:
        for table in ("CUPTI_ACTIVITY_KIND_MEMCPY", "StringIds", "PROCESSES"):
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            database.execute(f"DROP TABLE {table}")
            as_columns = ", ".join(f"i AS {name}" for name in columns)
            database.execute(f"CREATE VIEW {table} AS {endless}{as_columns} FROM n")
    database.close()
    return _report(path)


def _sparse_spool(folder: Path) -> list[str]:
    watch = _watch(folder)
    shutil.copytree(SPOOLS, watch / "spool")
    os.truncate(next((watch / "spool").glob("trace.*.bin")), 1 << 40)
    return _report(watch)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_deep_machine, id="deep TOML"),
        pytest.param(_long_number, id="number of 5000 digits in TOML"),
        pytest.param(_negative_memory, id="negative memory"),
        pytest.param(_link_to_itself, id="link to itself"),
        pytest.param(_deep_manifest, id="deep JSON"),
        pytest.param(_manifest_with("1e40"), id="end at 1e40"),
        pytest.param(_manifest_with("9" * 5000), id="number of 5000 digits in JSON"),
        pytest.param(_manifest_with("9" * 25), id="end after the last time"),
        pytest.param(_sparse_manifest, id="manifest of 1 TiB"),
        pytest.param(_many_operations, id="a million alike operations"),
        pytest.param(_many_counters, id="more counters than time"),
        pytest.param(_long_group, id="5 million operations in a group"),
        pytest.param(_many_samples, id="4 million alike samples"),
        pytest.param(_endless_view, id="endless view"),
    ],
)
def test_what_would_hold_or_fill_the_machine_is_refused(tmp_path: Path, make: Make) -> None:
    done, most_bytes = limited(make(tmp_path))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert len(done.stderr) < 700
    assert most_bytes < _MOST_BYTES


def test_a_spool_of_1_tib_is_left_out_and_named(tmp_path: Path) -> None:
    done, _ = limited(_sparse_spool(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    assert any(" is left out: " in note for note in json.loads(done.stdout)["notes"])


#: Starts a command with a limit, as a small process: what a large one takes is counted as its
#: child's. Says on its last line of output what the command took most.
_LIMITED = """
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]),) * 2)
code = subprocess.call(sys.argv[2:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code if code >= 0 else 128 - code)
"""


def limited(command: list[str]) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a command line that is ended when it takes too much CPU; return its most bytes, too."""
    lanescope = [sys.executable, "-m", "lanescope", *command]
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(_CPU_S), *lanescope],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    *out, most = done.stdout.splitlines()
    told = subprocess.CompletedProcess(lanescope, done.returncode, "".join(out), done.stderr)
    return told, int(most) << 10
