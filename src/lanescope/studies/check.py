"""``check``: every path of a machine, and whether it is healthy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.copies.requirements import require_fits
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.studies.catalogue import CHECK_BYTES, select_cases
from lanescope.studies.options import MOST_PARTS, size_option
from lanescope.studies.running import machine_differences
from lanescope.studies.study import Argument, Listing, Option, Study, Work
from lanescope.units.sizes import Size, size_of
from lanescope.units.values import Value, Whole

EXPECT = Option(
    Value("--expect"),
    "FILE.toml",
    "Compare this machine with a machine file, as saved by 'topo --save': exit with 4 where a part "
    "is missing or different.",
)
EXPECT_GPUS = Option(
    Whole("--expect-gpus", 0, MOST_PARTS, "more are in no machine"),
    "N",
    "Exit with 4 unless so many GPUs can be used.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Check(Study):
    """Measure every path of this machine and say whether it is healthy.

    Prints a table and writes a page. Exit code: 0 all paths are well, 1 a path is
    slower than it should be, 2 bad input, 3 not everything measured and --strict (5 where
    only other processes stood in the way), 4 the machine is not as --expect says.

    Attributes
    ----------
    cases
        Patterns of experiment names such as ``h2d/*``; all for none.
    size_bytes
        Size of one copy to, from or between GPUs.
    expected
        What the machine should be like: a `Machine`, a machine file or a shipped name.
        Differences are in the run's manifest, as `missing`.
    expected_gpus
        How many GPUs there should be that can be used.
    """

    verb: ClassVar[str] = "check"
    title: ClassVar[str] = "Check"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.5)
    listable: ClassVar[bool] = True

    cases: Annotated[
        Sequence[str], Argument("[CASE]...", "Only these cases, such as 'h2d/*'.", tuple)
    ] = ()
    size_bytes: Annotated[
        Size, size_option("Bytes of one copy to, from or between GPUs.", "512MiB")
    ] = CHECK_BYTES
    expected: Annotated[Machine | StrPath | None, EXPECT] = None
    expected_gpus: Annotated[int | None, EXPECT_GPUS] = None

    def work(self, machine: Machine) -> Work:
        """Return the chosen cases, and how the machine differs from what is expected."""
        size = size_of(self.size_bytes)
        require_fits(machine, size)
        experiments = select_cases(machine, size, self.cases)
        if not experiments:
            raise InputError(
                f"machine {machine.name!r} has no path to measure; give it nodes or GPUs"
            )
        complete = machine.gpus or self.cases or machine.described
        return Work(
            experiments,
            missing=machine_differences(machine, self.expected, self.expected_gpus),
            unmeasured=() if complete else machine.notes[:1],
            notes=(
                ("The size has no effect: it is that of copies of GPUs, and there are none.",)
                if size != CHECK_BYTES and not machine.gpus
                else ()
            ),
        )

    def listing(self, machine: Machine, plan: Plan) -> Listing:
        """Return a line for each case."""
        size = size_of(self.size_bytes)
        require_fits(machine, size)
        cases = select_cases(machine, size, self.cases)
        return Listing([f"{one.name:32} {one.title}" for one in cases])
