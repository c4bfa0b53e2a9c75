"""Pages of the docs: links lead somewhere, the index lists all, the README stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.narrow_link import ROOT, made_up

PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*/README.md")),
)
INDEX = ROOT / "docs" / "README.md"


def links_of(page: Path) -> list[str]:
    """Return the targets within the repository."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)
    return [one for one in targets if "://" not in one]


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    for link in links_of(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors_of(target), link


def test_every_page_is_in_the_index():
    listed = {link.partition("#")[0] for link in links_of(INDEX)}
    assert {page.name for page in INDEX.parent.glob("*.md")} - {INDEX.name} <= listed


def test_the_readme_is_read_in_some_minutes():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 1000


def test_the_sick_machine_is_the_one_that_is_made_up(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    run = made_up(tmp_path / "run")
    slow = [one for one in run.results for v in one.verdicts if v.status == "slow"]
    assert len(slow) == 4
    assert "4 of 12 paths are slow" in text
    assert (ROOT / "docs" / "examples" / "narrow-link" / "results.parquet").exists()
