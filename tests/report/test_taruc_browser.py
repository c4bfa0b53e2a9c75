"""Opens a suite's page in a real browser."""

import re
from pathlib import Path

import pytest

from lanescope.studies.runs.document import page_html
from tests.report.test_browser import opened, pytestmark, with_script
from tests.taruc_plan import paper_machine
from tests.taruc_suite import suite_run

__all__ = ["pytestmark"]

RULER = """<script>
  const fold = document.querySelector("#host details:has(.plot)");
  const widths = () => [...document.querySelectorAll(".plot svg.marks")].map((svg) =>
    svg.getBoundingClientRect().right - svg.closest("section").getBoundingClientRect().right);
  const drawn = () => Number(document.body.dataset.plots);
  const wait = setInterval(() => {
    if (!drawn()) return;
    const root = document.documentElement;
    if (!root.dataset.first) {
      root.dataset.first = drawn();
      root.dataset.over = root.scrollWidth - root.clientWidth;
      root.dataset.beyond = Math.max(...widths()) > 0;
      fold.open = true;
    } else if (drawn() > Number(root.dataset.first)) {
      root.dataset.all = drawn();
      clearInterval(wait);
    }
  }, 100);
</script>"""


@pytest.mark.parametrize("width", [1280, 390])
def test_charts_are_drawn_and_folded_ones_when_they_are_opened(width: int, tmp_path: Path):
    source = page_html(suite_run(paper_machine(1, 1)))
    done = opened(with_script(source, RULER), width, tmp_path)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    found = dict(re.findall(r'data-(first|all|over|beyond)="(\w+)"', done.stdout[:2000]))
    places = len(re.findall('class="plot"', source))
    folded = re.search('<section id="host".*?</section>', source, re.DOTALL)
    assert folded is not None
    inside = len(re.findall('class="plot"', folded[0].partition("more chart")[2]))
    assert 0 < int(found["first"]) < places
    assert int(found["all"]) == int(found["first"]) + inside
    assert (found["over"], found["beyond"]) == ("0", "false")
