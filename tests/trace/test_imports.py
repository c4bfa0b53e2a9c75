"""What a watch loads: libraries that take long to load stay away where nothing needs them."""

import os
import subprocess
import sys
from pathlib import Path

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
