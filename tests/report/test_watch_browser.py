"""Opens the page of a watch in a real browser and uses its timeline."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lanescope.report import timeline_html
from lanescope.trace.run import WatchRun
from lanescope.trace.timeline import Ranges
from tests.report import watch_factory
from tests.report.test_browser import opened, pytestmark
from tests.report.watch_factory import START
from tests.report.watch_factory import page as watch_page_html

__all__ = ["pytestmark"]

#: Waits for the timeline; then a test's own steps, each after a frame was drawn.
_PROBE = """<script>(async () => {
  const said = document.body.dataset;
  const main = document.getElementById("timeline-main");
  const canvas = main.querySelector("canvas");
  const frame = () => new Promise((done) => setTimeout(done, 20));
  const key = async (key) => {
    main.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await frame();
  };
  const point = async (kind, x, y) => {
    const { left, top } = main.getBoundingClientRect();
    const where = { clientX: left + x, clientY: top + y, bubbles: true, pointerId: 1 };
    main.dispatchEvent(new PointerEvent(kind, { ...where, pointerType: "mouse", button: 0 }));
    await frame();
  };
  const coloured = () => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  };
  const tip = () => document.getElementById("timeline-tip").innerText.replace(/\\s+/g, " ");
  main.setPointerCapture = () => {};  // there is no real pointer to capture
  while (!said.timeline && document.getElementById("timeline-failed").hidden) await frame();
  STEPS
  said.requests = performance.getEntriesByType("resource").length;
  said.over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
})();</script>"""


#: A browser without a window asks for hardly any frame while its clock is virtual.
_FRAMES = "<script>window.requestAnimationFrame = (draw) => setTimeout(draw, 1);</script>"


def used(run: WatchRun, steps: str, folder: Path, width: int = 1280) -> dict[str, str]:
    """Return what the steps noted on the page of a watch."""
    return used_page(watch_page_html(run), steps, folder, width)


def used_page(source: str, steps: str, folder: Path, width: int = 1280) -> dict[str, str]:
    """Return what the steps noted in the body's data, after a page without complaints."""
    probe = _PROBE.replace("STEPS", steps)
    source = source.replace("</body>", f"{probe}</body>")
    done = opened(source.replace("<body>", f"<body>{_FRAMES}", 1), width, folder)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    body = re.search(r"<body([^>]*)>", done.stdout)
    assert body is not None
    noted = dict(re.findall(r'data-([a-z]+)="([^"]*)"', body[1]))
    assert noted["requests"] == "0"
    return noted


@pytest.mark.parametrize(
    "run",
    [watch_factory.watch_run, watch_factory.two_gpu_watch, watch_factory.nasty_run],
    ids=["one GPU", "two GPUs", "nasty"],
)
@pytest.mark.parametrize("width", [1280, 420])
def test_the_timeline_is_drawn(run: Callable[[], WatchRun], width: int, tmp_path: Path):
    noted = used(run(), "said.colours = coloured();", tmp_path, width)
    assert int(noted["colours"]) > 8
    assert noted["over"] == "0"


def test_keys_lead_from_the_whole_run_to_a_single_copy(tmp_path: Path):
    run = watch_factory.watch_run()
    noted = used(
        run,
        """said.whole = said.timeline;
        await key("ArrowDown"); await key("0"); await key("n"); await key("p"); await key("Enter");
        said.tip = tip(); said.detail = document.getElementById("timeline-detail").textContent;
        said.single = said.timeline; await key("Escape"); await key("Home");""",
        tmp_path,
    )
    whole, single, back = (
        [float(x) for x in noted[k].split()] for k in ("whole", "single", "timeline")
    )
    assert whole == back
    copies = run.timeline.operations
    inside = (copies.start_ns - START >= single[0]) & (copies.end_ns - START <= single[1])
    assert inside.sum() == 1
    for words in (noted["tip"], noted["detail"]):
        assert "h2d copy" in words
        assert "device memory, asynchronous" in words
        assert "GB/s" in words
        assert "stream 7, process 4711, thread 4712" in words


def test_hovering_tells_rates_and_what_is_not_known(tmp_path: Path):
    noted = used(
        watch_factory.watch_run(),
        """const row = 80, left = 168, room = main.clientWidth - left;
        await point("pointermove", left + 0.01 * room, row); said.rate = tip();
        await point("pointermove", left + 0.505 * room, row); said.lost = tip();
        await point("pointermove", 10, 3);
        said.gone = document.getElementById("timeline-tip").hidden;""",
        tmp_path,
    )
    assert re.search(
        r"to GPU on the wire, g0 by pm mean 5\d\.\d GB/s, peak 5\d\.\d GB/s", noted["rate"]
    )
    assert "not known" in noted["lost"]
    assert noted["gone"] == "true"


def test_nvlink_has_rows_of_its_own_and_is_no_wire_traffic(tmp_path: Path):
    nvlink = dataclasses.replace(watch_factory.counters(seed=2), link="nvlink")
    told = dataclasses.replace(
        watch_factory.watch_run().timeline, counters=(nvlink, watch_factory.counters())
    )
    noted = used(
        watch_factory.watch_run(told),
        """const left = 168, room = main.clientWidth - left;
        await point("pointermove", left + 0.01 * room, 80); said.first = tip();
        await point("pointermove", left + 0.01 * room, 80 + 124); said.second = tip();""",
        tmp_path,
    )
    assert noted["first"].startswith("NVLink rx, g0 by pm mean 5")
    assert noted["second"].startswith("to GPU on the wire, g0 by pm mean 5")


def test_a_single_record_is_told_as_it_was_counted(tmp_path: Path):
    run = watch_factory.watch_run()
    noted = used(
        run,
        """const left = 168, room = main.clientWidth - left;
        const drag = async (from, to) => {
          await point("pointerdown", left + from * room, 80);
          await point("pointerup", left + to * room, 80);
        };
        await drag(0.05, 0.07); await drag(0.3, 0.34);
        await point("pointermove", left + 0.5 * room, 80); said.rate = tip();""",
        tmp_path,
    )
    begin, end = (float(x) for x in noted["timeline"].split())
    (counters,) = run.timeline.counters
    middle = int((begin + end) / 2) + START
    at = int(np.searchsorted(counters.end_ns, middle))
    rate = counters.rx_bytes[at] / (counters.end_ns[at] - counters.start_ns[at])
    told = re.search(r"([\d.]+) GB/s, [\d.]+ .iB [\d.]+ µs from ([\d. ]+) s", noted["rate"])
    assert told is not None
    assert float(told[1]) == pytest.approx(rate, rel=0.006)
    assert round(float(told[2].replace(" ", "")) * 1e9) == counters.end_ns[at - 1] - START


def test_dragging_zooms_to_the_span(tmp_path: Path):
    noted = used(
        watch_factory.watch_run(),
        """const left = 168, room = main.clientWidth - left;
        await point("pointerdown", left + 0.25 * room, 80);
        await point("pointermove", left + 0.6 * room, 80);
        await point("pointerup", left + 0.75 * room, 80);""",
        tmp_path,
    )
    begin, end = (float(x) for x in noted["timeline"].split())
    assert begin == pytest.approx(0.25e9, rel=0.01)
    assert end == pytest.approx(0.75e9, rel=0.01)


def test_reduced_timelines_are_drawn_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeline_html, "MOST_RECORDS", 1_000)
    monkeypatch.setattr(timeline_html, "MOST_OPERATIONS", 40)
    noted = used(
        watch_factory.watch_run(),
        """await point("pointermove", 168 + 0.01 * (main.clientWidth - 168), 80); said.rate = tip();
        await key("ArrowDown"); said.texts = "";
        for (let i = 0; i < 8; i++) { await key("n"); said.texts += tip(); }""",
        tmp_path,
    )
    assert re.search(r"peak 5\d\.\d GB/s", noted["rate"])
    assert "short operations, merged: h2d copy" in noted["texts"]


def test_ranges_can_be_hidden_as_a_gpu_can(tmp_path: Path) -> None:
    run = watch_factory.watch_run()
    ranges = Ranges.of(
        ("step",), pid=[1], thread=[1], start_ns=[START], end_ns=[0], pushed=[True], name=[0]
    )
    run = replace(run, timeline=replace(run.timeline, ranges=ranges))
    steps = """
  said.words = document.getElementById("timeline-gpus").innerText;
  const before = canvas.height;
  document.querySelectorAll("#timeline-gpus input")[1].click();
  await frame();
  said.lower = before - canvas.height;
"""
    noted = used(run, steps, tmp_path)
    assert noted["words"].split() == ["g0", "ranges"]
    assert int(noted["lower"]) > 0
