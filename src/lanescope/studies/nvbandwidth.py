"""``bench``: the cases of nvbandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from lanescope.calls import checked
from lanescope.copies.notation import DEFAULT_BYTES
from lanescope.copies.requirements import fitting_size, missing_part, require_fits
from lanescope.engine.sampling import Plan
from lanescope.machine import Machine
from lanescope.machine.free_memory import free_bytes
from lanescope.studies.nvbandwidth_cases import CaseOptions, build_cases, choose, is_of_processes
from lanescope.studies.study import Study, Work


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Bench(Study):
    """Measure cases of nvbandwidth: copy engines and kernels, one way, both ways, all at once.

    A set of copies that several cases share is measured once. Copies that do not
    fit into memory are made smaller; the run's notes say so.

    Attributes
    ----------
    cases
        Names or numbers of `lanescope.studies.nvbandwidth_cases.case_list`; all for none.
    prefixes
        Beginnings of such names.
    options
        Size and kind of memory.
    affinity
        Bind submitting threads to the CPUs next to the memory.
    """

    verb: ClassVar[str] = "bench"
    title: ClassVar[str] = "Bench"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.4)

    cases: Sequence[str] = ()
    prefixes: Sequence[str] = ()
    options: CaseOptions | None = None
    affinity: bool = True

    def spans_nodes(self) -> bool:
        """Whether all of its cases are of several processes."""
        return all(map(is_of_processes, choose(self.cases, self.prefixes)))

    def work(self, machine: Machine) -> Work:
        """Return the experiments that the cells of the cases need."""
        names = choose(self.cases, self.prefixes)
        if not machine.gpus:
            raise missing_part(
                machine,
                f"machine {machine.name!r} has no GPU, and every case takes one; 'lanescope check' "
                "measures host memory, --machine works on a described machine",
            )
        wanted = self.options or CaseOptions()
        if wanted.bytes != DEFAULT_BYTES:  # what somebody chose does not shrink
            require_fits(machine, wanted.bytes)
        size, notes = fitting_size(
            wanted.bytes,
            lambda size: build_cases(machine, names, replace(wanted, bytes=size)).experiments,
            free_bytes(machine),
        )
        built = build_cases(machine, names, replace(wanted, bytes=size))
        return Work(built.experiments, notes=notes, cases=built.cases, affinity=self.affinity)
