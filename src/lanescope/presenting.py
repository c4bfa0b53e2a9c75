"""Who shows runs and results: the studies do, and they stand above what they show.

Nothing is imported here, as `lanescope` itself imports it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    from lanescope.results import Result
    from lanescope.store.run import Run

    class Presenter(Protocol):
        """What shows results and runs; `lanescope.studies.runs.document` says how."""

        def result_text(self, result: Result, /) -> str:
            """Return what a prompt shows of a result."""

        def results_html(self, results: Iterable[Result], /) -> str:
            """Return what a notebook shows of some results."""

        def run_text(self, run: Run, /) -> str:
            """Return what a prompt shows of a run."""

        def run_html(self, run: Run, /) -> str:
            """Return what a notebook shows of a run."""

        def run_json(self, run: Run, /) -> str:
            """Return everything of a run as JSON."""

        def page_html(self, run: Run, /) -> str:
            """Return the page of a run."""

        def plots_of(self, run: Run, /) -> Any:
            """Return the charts of a run, which a notebook shows and `save` writes."""


_load: Callable[[], Presenter]


def present_by(load: Callable[[], Presenter]) -> None:
    """Name what loads the presenter; it is called when something is shown."""
    global _load
    _load = load


def presenter() -> Presenter:
    """Return what shows runs and results."""
    return _load()
