"""``bench sweep``: copies of many sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from lanescope.argument_names import argument
from lanescope.calls import checked
from lanescope.copies.place import Memory
from lanescope.copies.requirements import chosen_gpus, largest_sweep_bytes, require_fits
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.studies.catalogue import sweep_experiments
from lanescope.studies.options import gpu_option, size_option
from lanescope.studies.study import Option, Study, Work
from lanescope.units.sizes import Size, doubling_sizes, size_of, size_text
from lanescope.units.values import OneOf

_MEMORIES = (Memory.PINNED, Memory.PAGEABLE)


def _memories() -> Sequence[str]:
    return _MEMORIES


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Sweep(Study):
    """Sweep copy sizes between host and GPU: delay, plateau, size that fills the link.

    Sizes double. Pinned memory is timed by GPU events and by the host's clock,
    pageable memory by the host's clock.

    Attributes
    ----------
    smallest, largest
        Bytes of a copy; None is 2 GiB, or what memory allows.
    sizes
        Bytes of a copy, instead of these.
    gpus
        Numbers of the GPUs; None takes the first.
    memories
        Kinds of host memory; None takes both.
    """

    verb: ClassVar[str] = "sweep"
    title: ClassVar[str] = "Sweep"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.2)
    of_what: ClassVar[str] = "one size"

    smallest: Annotated[Size, size_option("Smallest copy.", "16B", "--min")] = 16
    largest: Annotated[
        Size | None, size_option("Largest copy; default 2GiB or what fits.", None, "--max")
    ] = None
    sizes: Sequence[Size] | None = None
    gpus: Annotated[int | Sequence[int] | None, gpu_option("GPU to sweep")] = None
    memories: Annotated[
        Sequence[Memory] | None,
        Option(
            OneOf("--memory", _memories),
            "KIND",
            "Host memory: pinned or pageable; default both.",
            repeated=True,
        ),
    ] = None

    def work(self, machine: Machine) -> Work:
        """Return a copy for each size, direction and kind of memory."""
        gpus = chosen_gpus(machine, self.gpus)
        if self.sizes is None:
            sizes = self._doubling(largest_sweep_bytes(machine, gpus))
        else:
            sizes = tuple(size_of(size) for size in self.sizes)
            require_fits(machine, max(sizes, default=0), gpus)
        memories = _MEMORIES if self.memories is None else self.memories
        return Work(sweep_experiments(machine, gpus, sizes, memories))

    def _doubling(self, most: int) -> tuple[int, ...]:
        first = size_of(self.smallest)
        last = most if self.largest is None else size_of(self.largest)
        if max(first, last) > most:
            name, size = ("largest", last) if last > most else ("smallest", first)
            raise InputError(
                f"a copy of {size_text(size)} does not fit: at most {size_text(most)}, a quarter "
                f"of the smallest memory on the way; lower {getattr(argument, name)}"
            )
        return doubling_sizes(first, last)
