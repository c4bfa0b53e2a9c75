"""Opens the page of ``advise --what-if`` in a real browser."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from lanescope.findings.advice.phases import find_phases
from lanescope.findings.advice.what_if import parse_edits, what_if
from lanescope.report.document_page import document_page
from lanescope.studies.what_if import WhatIf
from tests.findings.advice.made_up import LINK
from tests.findings.advice.programs import PAGEABLE, looped
from tests.report import watch_factory
from tests.report.test_browser import pytestmark
from tests.report.test_watch_browser import used_page

__all__ = ["pytestmark"]


def test_both_schedules_and_their_critical_paths_are_drawn(tmp_path: Path) -> None:
    operations = looped(20, 100 * 10**6, 2000.0, host=PAGEABLE).operations()
    run = watch_factory.watch_run()
    timeline = dataclasses.replace(run.timeline, operations=operations)
    run = dataclasses.replace(run, timeline=timeline)
    phases = what_if(find_phases(operations, kernels=True), parse_edits("pin,prefetch"), LINK)
    shown = WhatIf(run, ("pin", "prefetch"), LINK.name, phases)
    noted = used_page(
        document_page(shown.page_document()),
        """said.boxes = [...document.querySelectorAll("#timeline-gpus label")]
          .map((one) => one.innerText.trim()).join();
        said.colours = coloured();""",
        tmp_path,
    )
    assert noted["boxes"] == "before,after"
    assert int(noted["colours"]) > 8
