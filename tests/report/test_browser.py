"""Opens pages in a real browser: the only way to know that plots are drawn."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lanescope.studies.runs.document import page_html
from tests.patience import PATIENCE_S
from tests.report import factory
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


def with_script(source: str, element: str) -> str:
    """Return a page with one more script at its end; strings of others hold ``</body>``, too."""
    before, body, after = source.rpartition("</body>")
    return f"{before}{element}{body}{after}"


def opened(source: str, width: int, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Return what a browser makes of a page in a window of this many pixels."""
    page = folder / "page.html"
    page.write_text(source, encoding="utf-8")
    command = [
        str(BROWSER),
        *FLAGS,
        *flags,
        f"--window-size={width},2000",
        f"--user-data-dir={folder / 'profile'}",
        "--dump-dom",
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)


@pytest.mark.parametrize("width", [1280, 390])
def test_wide_matrices_scroll_in_their_own_box(width: int, tmp_path: Path):
    ruler = """<script>
      const root = document.documentElement, boxes = [...document.querySelectorAll(".scroll")];
      root.dataset.over = root.scrollWidth - root.clientWidth;
      root.dataset.scrolled = boxes.some((box) => box.scrollWidth > box.clientWidth);
    </script>"""
    source = page_html(factory.bench_run(factory.eight_gpus(), slow="g7"))
    shown = opened(with_script(source, ruler), width, tmp_path).stdout
    assert 'data-over="0"' in shown
    assert f'data-scrolled="{str(width < 400).lower()}"' in shown


#: Says of a page by how much it is wider than its window, and which texts its charts cut.
CUTS = """<script>addEventListener("load", () => setTimeout(() => {
  const root = document.documentElement, cut = [];
  for (const svg of document.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      const { left, right, width } = text.getBoundingClientRect();
      if (width && (left < box.left - 2 || right > box.right + 2)) cut.push(text.textContent);
    }
  }
  root.dataset.cut = `${root.scrollWidth - root.clientWidth} ${cut.join(", ")}`;
  root.dataset.dark = matchMedia("(prefers-color-scheme: dark)").matches;
}, 3000))</script>"""


@pytest.mark.parametrize("name", ["check", "sweep"])
@pytest.mark.parametrize("static", [False, True], ids=["drawn", "static"])
@pytest.mark.parametrize("width", [420, 1400, 1920])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_is_cut_at_any_width(
    name: str, static: bool, width: int, dark: bool, tmp_path: Path
):
    source = page_html(RUNS[name](), static=static)
    source = re.sub("<meta http-equiv=[^>]*>", "", source) if static else source  # for our script
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    shown = opened(with_script(source, CUTS), width, tmp_path, scheme).stdout
    assert f'data-dark="{str(dark).lower()}"' in shown
    assert 'data-cut="0 "' in shown, re.findall('data-cut="[^"]*"', shown)


@pytest.mark.parametrize("name", ["check", "sweep", "predicted sweep", "nasty"])
@pytest.mark.parametrize("width", [1280, 480])
def test_plots_are_drawn(name: str, width: int, tmp_path: Path):
    source = page_html(RUNS[name]())
    places = len(re.findall('class="plot"', source))
    done = opened(source, width, tmp_path)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []
    assert f'data-plots="{places}"' in done.stdout
    assert len(re.findall(r'<svg[^>]*class="marks"', done.stdout)) >= places > 0
    assert "alert(1)" not in re.findall("<script>(.*?)</script>", done.stdout[:20_000])
