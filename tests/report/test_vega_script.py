"""Vega's script in a page, and the file of the user's cache that it stays in."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from lanescope.report import document_page as page_plots

SOURCE = "window.vegaEmbed = 'ü</script>';"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What the converter was called for; the cache is below an empty folder."""
    calls: list[str] = []

    def bundle(snippet: str) -> str:
        calls.append(snippet)
        return SOURCE

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(page_plots, "version", lambda name: "1.2.3")
    monkeypatch.setitem(sys.modules, "vl_convert", SimpleNamespace(javascript_bundle=bundle))
    monkeypatch.setattr(page_plots, "vega_script", page_plots.vega_script.__wrapped__)
    return calls


def cached(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "lanescope" / "vega-1.2.3.js"


def test_it_is_made_once_for_each_version(made, tmp_path: Path):
    first = page_plots.vega_script()
    assert first == page_plots.vega_script()
    assert len(made) == 1
    assert cached(tmp_path).exists()
    assert "BSD-3-Clause" in first
    assert first.count("</script>") == 1


@pytest.mark.parametrize("content", [b"", b"\xff\n\xfe", b"0" * 64 + b"\nalert(1)"])
def test_a_file_that_is_not_whole_is_made_anew(made, tmp_path: Path, content: bytes):
    page_plots.vega_script()
    whole = cached(tmp_path).read_bytes()
    cached(tmp_path).write_bytes(content)
    assert "alert" not in page_plots.vega_script()
    assert len(made) == 2
    assert cached(tmp_path).read_bytes() == whole


def test_a_file_that_anybody_can_write_is_not_used(made, tmp_path: Path):
    page_plots.vega_script()
    os.chmod(cached(tmp_path), 0o666)
    page_plots.vega_script()
    assert len(made) == 2


def test_without_a_cache_the_page_has_its_script(made, tmp_path: Path):
    (tmp_path / "cache").touch()  # a file: nobody can make a folder there, not even root
    assert SOURCE.partition("<")[0] in page_plots.vega_script()
    assert page_plots.vega_script() is not None
    assert len(made) == 2


def test_a_pipe_in_its_place_holds_nobody(made, tmp_path: Path):
    cached(tmp_path).parent.mkdir(parents=True)
    os.mkfifo(cached(tmp_path))
    assert page_plots.vega_script() is not None


def test_without_vl_convert_there_is_none(made, monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(page_plots, "version", missing)
    assert page_plots.vega_script() is None


def test_a_package_that_cannot_be_imported_is_as_good_as_none(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert page_plots.vega_script() is None
