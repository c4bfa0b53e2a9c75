"""Figures as plain dictionaries in Plotly.js's schema.

Nothing here imports plotly: its Python package is slow to load, and the page
needs only its JavaScript. Colours of text and grid are left to the page, which
knows whether it is light or dark; traces whose colour follows the text carry
``meta: "text"``.
"""

from __future__ import annotations

from lanescope.report.plot_check import check_figure
from lanescope.report.plot_sweep import bandwidth_figure, time_figure

__all__ = ["bandwidth_figure", "check_figure", "time_figure"]
