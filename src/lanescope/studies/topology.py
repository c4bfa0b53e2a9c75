"""A machine as a picture, from Python: ``lanescope.topo()``."""

from __future__ import annotations

import dataclasses
import io
from dataclasses import dataclass
from typing import Any

from lanescope.document.blocks import Block, Drawing
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.report.topology_svg import topology_svg
from lanescope.report.tree import machine_tree
from lanescope.studies.analysis import AnalysisResult
from lanescope.studies.running import resolve_machine


@dataclass(frozen=True, slots=True, repr=False)
class Topology(AnalysisResult):
    """A machine: its text is a tree, a notebook shows its picture."""

    machine: Machine

    def __repr__(self) -> str:
        """Return the tree that ``lanescope topo`` prints."""
        from rich.console import Console

        console = Console(file=io.StringIO(), width=120)
        with console.capture() as captured:
            console.print(machine_tree(self.machine))
        return captured.get().rstrip()

    def blocks(self) -> list[Block]:
        """Return the picture."""
        return [Drawing(self.svg(), wide=True)]

    def svg(self) -> str:
        """Return the picture as SVG."""
        return topology_svg(self.machine)

    def as_dict(self) -> dict[str, Any]:
        """Return the machine as ``lanescope topo --json`` prints it."""
        return dataclasses.asdict(self.machine)


def topo(machine: Machine | StrPath | None = None) -> Topology:
    """Return what is in a machine and how it is linked.

    Parameters
    ----------
    machine
        None for this machine; a `Machine`, a machine file or a shipped name.

    Raises
    ------
    InputError
        If there is none of that name, or its file is damaged.
    """
    return Topology(resolve_machine(machine))
