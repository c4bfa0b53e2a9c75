"""What the rules look at: the paths of a run, their cells, and the topology."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lanescope.copies import Copy, Engine, Experiment, Operation, Timing
from lanescope.copies.experiment import needs_host_clock
from lanescope.copies.limit import Limit, limits
from lanescope.machine import Link, LinkKind, Machine
from lanescope.machine.part_names import part_number
from lanescope.results import CopyResult, LinkEvidence, Result, Source, most_gbs
from lanescope.results.verdict import JUDGED_BYTES
from lanescope.units.sizes import bandwidth_gbs

#: A list of more names than this is cut: nobody reads it to the end.
_MOST_NAMES = 8


def names(parts: Iterable[str], last: str = "and") -> str:
    """Return names as a list in words: ``g0, g1 and g2``."""
    listed = list(parts)
    if len(listed) > _MOST_NAMES:
        listed = [*listed[: _MOST_NAMES - 1], f"{len(listed) - _MOST_NAMES + 1} more"]
    return f" {last} ".join(p for p in (", ".join(listed[:-1]), *listed[-1:]) if p)


def percent_below(gbs: float, reference_gbs: float) -> str:
    """Return how far a rate is below another, such as ``12 %``."""
    return f"{(1 - gbs / reference_gbs) * 100:.0f} %"


def in_order(parts: Iterable[str]) -> tuple[str, ...]:
    """Return parts once each, by letter and number: ``g2`` before ``g10``."""
    return tuple(sorted(set(parts), key=lambda part: (part.rstrip("0123456789"), len(part), part)))


def cut(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the first lines of evidence, and how many more there are."""
    if len(lines) <= _MOST_NAMES:
        return tuple(lines)
    return (*lines[: _MOST_NAMES - 1], f"and {len(lines) - _MOST_NAMES + 1} more like these")


#: From, to, and whether the GPU that does the copy reads it from elsewhere.
CopyRoute = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class MeasuredCopy:
    """A copy that counts, as its experiment saw it.

    Attributes
    ----------
    gbs
        Measured, in GB/s.
    most_gbs
        At the fast end of its 95 % interval, in GB/s; `gbs` where that is not known.
    limit
        Its ceiling in this experiment.
    staged
        Whether the driver took it through host memory.
    links
        Link states seen under the load of its experiment.
    """

    experiment: Experiment
    copy: Copy
    gbs: float
    most_gbs: float
    limit: Limit
    staged: bool
    links: tuple[LinkEvidence, ...] = ()

    @property
    def over_host(self) -> bool:
        """Whether it has an end in host memory."""
        return self.copy.source.is_host or self.copy.destination.is_host

    @property
    def down(self) -> bool:
        """Whether it goes from the host to a GPU."""
        return self.copy.source.is_host

    @property
    def gpu(self) -> str:
        """The GPU of a copy from or to the host."""
        return (self.copy.destination if self.down else self.copy.source).part

    @property
    def host(self) -> str:
        """The node of a copy from or to the host."""
        return (self.copy.source if self.down else self.copy.destination).part

    @property
    def ends(self) -> tuple[str, str]:
        """Both parts, in the order of the machine's numbers."""
        first, second = sorted(
            (self.copy.source.part, self.copy.destination.part), key=lambda p: (len(p), p)
        )
        return first, second

    @property
    def text(self) -> str:
        """The measurement in a line, for evidence."""
        known = self.limit.gbs is not None
        limit = f", limit {self.limit.gbs:.1f} GB/s ({self.limit.reason})" if known else ""
        return f"{self.experiment.name}: {self.copy.path} {self.gbs:.1f} GB/s{limit}"

    @property
    def route(self) -> CopyRoute:
        """What this copy has in common with others of the same path."""
        source, destination = self.copy.source.part, self.copy.destination.part
        # Copies may come to tell which GPU does them; today that is the source, if it is one.
        return source, destination, self.copy.is_read


MeasuredSet = tuple[MeasuredCopy, ...]


@dataclass(frozen=True, slots=True)
class PathMatrix:
    """All experiments that count, one for each set of ways that run at once.

    Attributes
    ----------
    runs
        The copies of an experiment by their sorted ways. Of experiments with the
        same ways the largest copies timed on the GPU are kept.
    memory_gbs
        For each node the best rate at which host threads copied within its memory,
        read and written bytes together, in GB/s.
    """

    machine: Machine
    runs: Mapping[tuple[CopyRoute, ...], MeasuredSet]
    memory_gbs: Mapping[str, float]

    @property
    def alone(self) -> Iterator[MeasuredCopy]:
        """Copies that ran with no other at the same time."""
        return (run[0] for run in self.runs.values() if len(run) == 1)

    @property
    def together(self) -> Iterator[MeasuredSet]:
        """Experiments of several copies."""
        return (run for run in self.runs.values() if len(run) > 1)

    def of_routes(self, *routes: CopyRoute) -> MeasuredSet | None:
        """Return the experiment that has exactly these ways, or None."""
        return self.runs.get(tuple(sorted(routes)))

    def host_copies(self, gpu: str, down: bool) -> dict[str, MeasuredCopy]:
        """Return a GPU's copies from (`down`) or to the host that ran alone, by node."""
        copies = (s for s in self.alone if s.over_host and s.gpu == gpu and s.down == down)
        return {copy.host: copy for copy in copies}

    def best_host_copy(self, gpu: str, down: bool) -> MeasuredCopy | None:
        """Return a GPU's fastest copy from or to a node, to be compared with other GPUs.

        None where the node that is told to be near was not measured: a far one
        says nothing about the GPU's own link.
        """
        copies = self.host_copies(gpu, down)
        near = self.machine.gpu(part_number(gpu)).node
        if not copies or (near is not None and f"h{near}" not in copies):
            return None
        return max(copies.values(), key=lambda copy: copy.gbs)

    def best_host_copies(self, gpu: str) -> tuple[MeasuredCopy, ...]:
        """Return `best_host_copy` of both directions, as far as known."""
        both = (self.best_host_copy(gpu, down) for down in (True, False))
        return tuple(copy for copy in both if copy is not None)


def matrix_of(machine: Machine, results: Sequence[Result]) -> PathMatrix:
    """Return what counts of some results: measured, by copy engines, large and pinned."""
    runs: dict[tuple[CopyRoute, ...], MeasuredSet] = {}
    memory: dict[str, float] = {}
    for result in results:
        if result.source is Source.PREDICTED or len(result.copies) != len(result.experiment.copies):
            continue
        _note_memory(memory, result)
        if not all(_counts(machine, copy) for copy in result.experiment.copies):
            continue
        if result.groups_in_turns or not all(copy.own_rate for copy in result.copies):
            continue  # some waited for others: no rate that a rule could go by
        run = _run(machine, result)
        key = tuple(sorted(measured_copy.route for measured_copy in run))
        if run and (key not in runs or _weight(run) >= _weight(runs[key])):
            runs[key] = run
    return PathMatrix(machine, runs, memory)


def _run(machine: Machine, result: Result) -> MeasuredSet:
    bounds = limits(machine, result.experiment)
    return tuple(
        _measured_copy(result, copy, limit)
        for copy, limit in zip(result.copies, bounds, strict=True)
    )


def _measured_copy(result: Result, of: CopyResult, limit: Limit) -> MeasuredCopy:
    gbs = _gbs(of)
    most = most_gbs(of.copy, of.seconds) or gbs
    return MeasuredCopy(result.experiment, of.copy, gbs, most, limit, result.staged, result.links)


def _gbs(result: CopyResult) -> float:
    return bandwidth_gbs(result.copy.counted_bytes, result.statistics.median_seconds)


def _counts(machine: Machine, copy: Copy) -> bool:
    known = {node.id for node in machine.nodes} | {gpu.id for gpu in machine.gpus}
    return (
        copy.engine is Engine.CE
        and copy.operation is Operation.COPY
        and not needs_host_clock(copy)
        # Each piece of a copy is as dear as a small copy.
        and copy.bytes // copy.pieces >= JUDGED_BYTES
        and {copy.source.part, copy.destination.part} <= known
        and copy.source.part != copy.destination.part
    )


def _weight(run: MeasuredSet) -> tuple[bool, int]:
    gated = run[0].experiment.timing is Timing.GATE
    return gated, min(copy.copy.bytes for copy in run)


def _note_memory(memory: dict[str, float], result: Result) -> None:
    copy, node = result.copies[0].copy, result.copies[0].copy.source.part
    within = len(result.copies) == 1 and copy.destination.part == node
    if within and copy.engine is Engine.CPU and copy.operation is Operation.COPY:
        memory[node] = max(memory.get(node, 0.0), _gbs(result.copies[0]))


def pcie_link_of(machine: Machine, part: str) -> Link | None:
    """Return the PCIe link above a GPU or switch, or None when it is not known."""
    return next((ln for ln in machine.links if ln.kind is LinkKind.PCIE and ln.b == part), None)


def above(machine: Machine, part: str) -> tuple[str, ...]:
    """Return the parts between a GPU and its node, upwards and with the node: ``s0, h0``."""
    found: list[str] = []
    link = pcie_link_of(machine, part)
    while link is not None and link.a not in found:
        found.append(link.a)
        link = pcie_link_of(machine, link.a)
    return tuple(found)


def narrowest_gbs(machine: Machine, gpu: str) -> float | None:
    """Return what the narrowest PCIe link above a GPU carries one way, in GB/s.

    None where a link on the way is not known.
    """
    links = [pcie_link_of(machine, part) for part in (gpu, *above(machine, gpu)[:-1])]
    rates = [None if link is None else link.raw_gbs for link in links]
    return None if None in rates else min((r for r in rates if r is not None), default=None)


def below(machine: Machine, parts: Iterable[str]) -> frozenset[str]:
    """Return the GPUs that are among some parts or hang below them."""
    wanted = set(parts)
    return frozenset(
        gpu.id for gpu in machine.gpus if gpu.id in wanted or wanted & set(above(machine, gpu.id))
    )


def shared_by_only(machine: Machine, gpus: Iterable[str], others: Iterable[str]) -> str | None:
    """Return the lowest part that is above all of some GPUs (two or more) and none of others."""
    paths = [above(machine, gpu) for gpu in gpus]
    if len(paths) < 2:
        return None
    elsewhere = {part for gpu in others for part in above(machine, gpu)}
    common = (part for part in paths[0] if all(part in path for path in paths))
    return next((part for part in common if part not in elsewhere), None)


def pci_address(machine: Machine, part: str) -> str | None:
    """Return a GPU's or switch's PCI address, or None when it is not known."""
    known = {gpu.id: gpu.pci_address for gpu in machine.gpus}
    known |= {switch.id: switch.pci_address for switch in machine.switches}
    return known.get(part)


def lspci_of(machine: Machine, part: str) -> str:
    """Return the option of lspci that picks a part, or all of NVIDIA where that is unknown."""
    address = pci_address(machine, part)
    return "-d 10de:" if address is None else f"-s {address}"
