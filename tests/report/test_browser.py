"""Opens pages in a real browser: the only way to know that plots are drawn."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lanescope.report.page import page_html
from tests.report.conftest import RUNS

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH (apt install chromium)"),
]


@pytest.mark.parametrize("name", ["check", "sweep", "predicted sweep", "nasty"])
@pytest.mark.parametrize("width", [1280, 480])
def test_plots_are_drawn(name: str, width: int, tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text(page_html(RUNS[name]()), encoding="utf-8")
    places = len(re.findall('class="plot"', page.read_text(encoding="utf-8")))
    command = [
        str(BROWSER),
        *FLAGS,
        f"--window-size={width},2000",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []
    assert f'data-plots="{places}"' in done.stdout
    assert len(re.findall(r'<svg[^>]*class="main-svg"', done.stdout)) >= places > 0
    assert "alert(1)" not in re.findall("<script>(.*?)</script>", done.stdout[:20_000])
