"""Commands that GPUs of several nodes may take part in, started by MPI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from lanescope.fleet.remote_processes import Nodes
    from lanescope.studies.study import Study


@contextmanager
def nodes_for(study: Study, machine: str | None, *, allow_busy: bool) -> Iterator[Nodes | None]:
    """Yield the nodes that MPI has started a study on; None where it measures this one alone.

    Ranks but the first end here, once the first one has.

    Parameters
    ----------
    machine
        What the study is predicted for; None where it measures.
    """
    if machine is not None or not study.spans_nodes():
        yield None
        return
    from lanescope.errors import LanescopeError
    from lanescope.fleet.ranks import ranks_here
    from lanescope.fleet.remote_processes import nodes_of

    ranks = ranks_here()
    if ranks.size == 1 and not study.names_nodes():
        yield None
        return
    try:
        nodes = nodes_of(ranks, allow_busy=allow_busy)
    except LanescopeError as error:
        ranks.give_up(error)
        raise
    if nodes is None:
        raise typer.Exit(0)
    try:
        yield nodes
    except BaseException as error:
        nodes.leave(error)
        raise
    nodes.leave(None)
