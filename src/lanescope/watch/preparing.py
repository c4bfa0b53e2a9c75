"""Prepares sources at the same time: setting up a GPU takes half a second."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lanescope.errors import NotMeasuredError
from lanescope.watch.sources.base import Source


def prepare_all(sources: Sequence[Source]) -> list[NotMeasuredError | None]:
    """Prepare sources and return for each what stands in its way; None when nothing does.

    One that is prepared already takes no time.
    """
    if not sources:
        return []
    with ThreadPoolExecutor(len(sources)) as threads:
        return list(threads.map(_prepared, sources))


def _prepared(source: Source) -> NotMeasuredError | None:
    try:
        source.prepare()
    except NotMeasuredError as error:
        return error
    return None
