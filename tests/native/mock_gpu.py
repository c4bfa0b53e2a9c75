"""A GPU that a small library pretends to have, for samplers of counters."""

from __future__ import annotations

from pathlib import Path

import pytest


def use_mock(monkeypatch: pytest.MonkeyPatch, library: Path) -> None:
    """Let CUDA, CUPTI and NVML be the pretending library."""
    for name in ("LANESCOPE_LIBCUDA", "LANESCOPE_CUPTI", "LANESCOPE_NVML"):
        monkeypatch.setenv(name, str(library))
    for name in ("MOCK_PM", "MOCK_REFUSES", "MOCK_NVLINK"):
        monkeypatch.delenv(name, raising=False)
