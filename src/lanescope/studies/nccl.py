"""``bench nccl``: what NCCL, as it is installed, carries between GPUs, of one node or several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.copies.copy import Copy, Engine
from lanescope.copies.experiment import Experiment, Timing
from lanescope.copies.requirements import chosen_gpus, missing_part, require_fits
from lanescope.copies.terms import Memory, Operation, Place
from lanescope.document.blocks import Column, Group, Kind, Section, Style, Table, Text
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError
from lanescope.machine import Gpu, Machine
from lanescope.results import Result
from lanescope.store.run import Run
from lanescope.studies import gpu_option
from lanescope.studies.study import Option, Study, Work
from lanescope.units.sizes import Size, size_of, size_text
from lanescope.units.values import Sizes
from lanescope.units.words import rate_text

#: What the experiments are called, in front.
PREFIX = "nccl/"
SIZES = (1 << 20, 16 << 20, 256 << 20, 1 << 30)
_LEGEND = (
    "GB/s are bytes of one array over the time of one operation, as nccl-tests' algorithm "
    "bandwidth; of all-reduces also the bus bandwidth, times 2 (n - 1) / n for n GPUs, which is "
    "what each GPU sends. Buffers are not registered with NCCL; NVLink multicast (NVLS) is off "
    "unless NCCL_NVLS_ENABLE=1."
)


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Nccl(Study):
    """Measure NCCL's send and receive, one way and both ways, and all-reduce between GPUs.

    A process for each GPU; every byte is compared. NCCL is the one that is installed: its Python
    package, the loader's, or that of LANESCOPE_NCCL.

    Attributes
    ----------
    gpus
        Numbers of the GPUs; None takes all.
    sizes
        Bytes of each operation.
    """

    verb: ClassVar[str] = "nccl"
    title: ClassVar[str] = "NCCL between GPUs"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.4)
    judges_paths: ClassVar[bool] = False
    of_what: ClassVar[str] = "one operation of one size"
    predicted: ClassVar[bool] = False

    gpus: Annotated[int | Sequence[int] | None, gpu_option("GPU to take part (all)")] = None
    sizes: Annotated[
        Sequence[Size],
        Option(
            Sizes("--sizes", spans=True),
            "Bytes of each operation, such as 1MiB,256MiB or 1MiB-256MiB.",
            "1MiB,16MiB,256MiB,1GiB",
        ),
    ] = SIZES

    def spans_nodes(self) -> bool:
        """GPUs of all nodes take part."""
        return True

    def work(self, machine: Machine) -> Work:
        """Return each operation with each size; the largest first, so that memory is made once."""
        if machine.described:
            raise InputError(f"machine {machine.name!r} is described; NCCL is only measured")
        wanted = [gpu.index for gpu in machine.gpus] if self.gpus is None else self.gpus
        gpus = chosen_gpus(machine, wanted) if machine.gpus else []
        if len(gpus) < 2:
            raise missing_part(
                machine,
                f"NCCL copies between GPUs, and {machine.name!r} has {len(gpus)} to measure here; "
                "it takes two",
            )
        sizes = sorted({size_of(one) for one in self.sizes}, reverse=True)
        if not sizes:
            raise InputError("no size is named; give one such as 1MiB")
        require_fits(machine, sizes[0], gpus)
        return Work([one.of(size) for one in _operations(gpus) for size in sizes])

    @classmethod
    def conclusion(cls, run: Run) -> str | None:
        """Return the best rate of each operation."""
        best: dict[str, float] = {}
        for result in _measured(run.results):
            words = result.experiment.title.rpartition(", ")[0]
            best[words] = max(best.get(words, 0.0), result.copies[0].gbs or 0.0)
        words = ", ".join(f"{name} {rate_text(gbs)}" for name, gbs in best.items())
        return f"At most, each copy: {words}." if best else None

    @classmethod
    def report(cls, run: Run) -> Sequence[Section]:
        """Return a row for each operation and a column for each size."""
        by_name: dict[str, dict[int, Result]] = defaultdict(dict)
        for result in _measured(run.results):
            title = result.experiment.title.rpartition(", ")[0]
            by_name[title][result.experiment.copies[0].bytes] = result
        sizes = sorted({size for found in by_name.values() for size in found})
        columns = [Column("each copy, GB/s"), *(Column(size_text(s), Kind.GBS) for s in sizes)]
        rows = []
        for title, found in by_name.items():
            rates = [_lowest(found[size]) if size in found else None for size in sizes]
            rows.append((title, *rates))
            some = next(iter(found.values())).experiment
            if some.copies[0].operation is Operation.ALL_REDUCE:
                factor = bus_factor(len(some.copies))
                bus = [None if rate is None else rate * factor for rate in rates]
                rows.append((f"{title}, bus bandwidth", *bus))
        if not rows:
            return ()
        table = Table("Medians of NCCL's operations", columns, [Group(rows)])
        return [Section("nccl", cls.title, [table, Text(_LEGEND, Style.QUIET)])]


@dataclass(frozen=True, slots=True)
class _Operation:
    """What NCCL does: between which GPUs, and what that is called."""

    name: str
    title: str
    ways: tuple[tuple[str, str], ...]
    operation: Operation = Operation.COPY

    def of(self, size: int) -> Experiment:
        """Return it with a size."""
        copies = tuple(
            Copy(
                Place(source, Memory.DEVICE),
                Place(destination, Memory.DEVICE),
                size,
                Engine.NCCL,
                self.operation,
            )
            for source, destination in self.ways
        )
        name = f"{PREFIX}{self.name}/{size_text(size)}"
        return Experiment(name, f"{self.title}, {size_text(size)}", copies, Timing.PROCESSES)


def _operations(gpus: Sequence[Gpu]) -> list[_Operation]:
    """Return what is measured: its number grows as that of the GPUs."""
    ids = [gpu.id for gpu in gpus]
    next_ones = [*pairwise(ids), (ids[-1], ids[0])]
    pairs = next_ones if len(ids) > 2 else next_ones[:1]
    found = [_Operation(f"send/{a}-{b}", f"send {a} → {b}", ((a, b),)) for a, b in next_ones]
    found += [_Operation(f"both/{a}-{b}", f"send {a} ⇄ {b}", ((a, b), (b, a))) for a, b in pairs]
    ring = tuple(next_ones)
    if len(ids) > 2:
        found.append(_Operation("ring", f"all {len(ids)} GPUs send to the next", ring))
    words = f"all-reduce of {len(ids)} GPUs"
    found.append(_Operation("all-reduce", words, ring, Operation.ALL_REDUCE))
    return found


def bus_factor(gpus: int) -> float:
    """Return what each GPU sends for each byte that is reduced: 2 (n - 1) / n (nccl-tests)."""
    return 2 * (gpus - 1) / gpus


def _measured(results: Iterable[Result]) -> list[Result]:
    return [one for one in results if one.experiment.name.startswith(PREFIX) and one.copies]


def _lowest(result: Result) -> float | None:
    """Return the rate of the slowest copy: that is what a program waits for."""
    return min((one.gbs for one in result.copies if one.gbs is not None), default=None)
