"""What a watch loads: libraries that take long to load stay away where nothing needs them."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.mark.parametrize("module", ["pandas", "matplotlib"])
def test_a_watch_loads_none_that_it_does_not_need(module: str, tmp_path: Path) -> None:
    trap = tmp_path / "trap" / module
    trap.mkdir(parents=True)
    (trap / "__init__.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w')\n")
    subprocess.run(
        [
            *(sys.executable, "-m", "lanescope", "watch", "--out", tmp_path / "run"),
            *("--json", tmp_path / "told.json", "--", "true"),
        ],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "trap")},
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert (tmp_path / "run" / "report.html").exists()
    assert not (tmp_path / "loaded").exists()


def test_columns_are_read_without_pandas(tmp_path: Path) -> None:
    """What a watch reads of runs that are stored; pyarrow's own conversion would load it."""
    trap, path = tmp_path / "trap" / "pandas", tmp_path / "a.parquet"
    trap.mkdir(parents=True)
    (trap / "__init__.py").write_text("raise SystemExit('pandas was loaded')\n")
    columns = {"a": [0, 1, 2], "b": [0.5, 1.0, 1.5], "c": ["x", "y", "x"], "d": [True, False, True]}
    pq.write_table(pa.table(columns), path)
    code = (
        "import sys; from pathlib import Path\n"
        "from lanescope.codec.parquet import Holds, read_columns\n"
        "wanted = dict(zip('abcd', (Holds.WHOLE, Holds.NUMBER, Holds.TEXT, Holds.TRUTH)))\n"
        "read = read_columns(Path(sys.argv[1]), wanted)\n"
        "print({name: values.tolist() for name, values in read.items()})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        env={**os.environ, "PYTHONPATH": str(trap.parent)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == f"{columns}\n"
