"""The patterns of copies that cases are made of: host and GPUs, pairs, one and all."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import (
    Cell,
    Experiment,
    Matrix,
    Unit,
    between_processes,
    experiment_of,
)
from lanescope.copies.terms import Memory, Place
from lanescope.machine import Gpu, Machine

#: nvbandwidth's ring for dependent loads.
CHASE_BYTES = 2 << 20

_NO_PEER = "these GPUs cannot reach each other's memory"
_NO_SECOND = "it takes two GPUs or more"
_NOT_SAMPLED = "this pair was not drawn"
_NOT_THE_PAIR = "another pair was named"


@dataclass
class Patterns:
    """Builds matrices for one machine and one engine; collects their experiments.

    Attributes
    ----------
    bytes
        Size of each copy.
    memory
        Kind of host memory.
    node
        NUMA node of the host memory; None takes the one nearest to each GPU.
    pairs
        How many pairs of GPUs to draw; None takes all.
    chunk_repeats
        Of copies with the host: see `Copy`.
    mover
        Who moves the bytes, in nvbandwidth's captions; None is the engine.
    pair
        Names of the only two GPUs that a pair is made of; None takes all.
    processes
        Whether a process for each GPU copies.
    """

    machine: Machine
    engine: Engine
    bytes: int
    memory: Memory = Memory.PINNED
    node: int | None = None
    pairs: int | None = None
    experiments: dict[str, Experiment] = field(default_factory=dict)
    chunk_repeats: int | None = None
    processes: bool = False
    mover: str | None = None
    pair: frozenset[str] | None = None

    # Copies

    def _host(self, gpu: Gpu) -> Place:
        node = self.machine.nearest_node(gpu) if self.node is None else self.machine.node(self.node)
        return Place(node.id, self.memory)

    def _down(self, gpu: Gpu) -> Copy:
        return self._with_host(self._host(gpu), _device(gpu))

    def _up(self, gpu: Gpu) -> Copy:
        return self._with_host(_device(gpu), self._host(gpu))

    def _with_host(self, source: Place, destination: Place) -> Copy:
        repeats = self.chunk_repeats
        return Copy(source, destination, self.bytes, self.engine, chunk_repeats=repeats)

    def _peer(self, source: Gpu, destination: Gpu, by: Gpu) -> Copy:
        executor = None if by is source else by.id
        return Copy(
            _device(source), _device(destination), self.bytes, self.engine, executor=executor
        )

    # Cells

    def _cell(self, row: int, column: int, copies: Sequence[Copy], measured: Iterable[int]) -> Cell:
        return Cell(row, column, self._experiment(copies), tuple(measured))

    def _experiment(self, copies: Sequence[Copy]) -> str:
        experiment = experiment_of(copies)
        if self.processes:
            experiment = between_processes(experiment)
        self.experiments.setdefault(experiment.name, experiment)
        return experiment.name

    def _row(self, caption: str, cell: Callable[[int, Gpu], Cell]) -> Matrix:
        gpus = self.machine.gpus
        cells = tuple(
            cell(column, gpu)
            if gpu.unavailable is None
            else Cell(0, column, not_applicable=_not_usable(gpu))
            for column, gpu in enumerate(gpus)
        )
        return Matrix("", self._caption(caption), 1, len(gpus), cells)

    def _caption(self, words: str) -> str:
        return f"memcpy {self.mover or self.engine.upper()} {words} bandwidth (GB/s)"

    # Host and GPUs

    def host(self, caption: str, *, down: bool, both: bool) -> Matrix:
        """Each GPU alone with the host, one way or both ways at once."""

        def cell(column: int, gpu: Gpu) -> Cell:
            copies = [self._down(gpu), self._up(gpu)]
            if not both:
                copies = [copies[0 if down else 1]]
            return self._cell(0, column, copies, [0 if down or not both else 1])

        return self._row(caption, cell)

    def all_host(self, caption: str, *, down: bool, both: bool) -> Matrix:
        """All GPUs with the host at once, one way or both."""
        gpus = usable(self.machine.gpus)
        copies = [self._down(g) for g in gpus] if down or both else []
        copies += [self._up(g) for g in gpus] if both or not down else []
        first = len(gpus) if both and not down else 0
        return self._row(
            caption, lambda c, gpu: self._cell(0, c, copies, [first + gpus.index(gpu)])
        )

    # Pairs of GPUs

    def pairs_matrix(self, caption: str, *, read: bool) -> Matrix:
        """Each ordered pair alone. The row's GPU works: it reads or it writes."""

        def copies(row: Gpu, column: Gpu) -> list[Copy]:
            ends = (column, row) if read else (row, column)
            return [self._peer(*ends, by=row)]

        return self._pairs("", self._caption(caption), copies, lambda row, column: (0,))

    def both_directions(self, caption: str, *, read: bool) -> tuple[Matrix, ...]:
        """Each pair both ways at once: towards the row's GPU, away from it, and the sum."""

        def copies(row: Gpu, column: Gpu) -> list[Copy]:
            first, second = sorted((row, column), key=lambda gpu: gpu.index)
            directions = ((second, first), (first, second))
            return [self._peer(s, d, by=d if read else s) for s, d in directions]

        word = "Read" if read else "Write"
        return tuple(
            self._pairs(f"{word.lower()}{n}" if n else "total", self._caption(text), copies, which)
            for n, text, which in (
                (1, f"{caption} {word}1", lambda r, c: (0 if r.index < c.index else 1,)),
                (2, f"{caption} {word}2", lambda r, c: (1 if r.index < c.index else 0,)),
                (0, f"{caption} Total", lambda r, c: (0, 1)),
            )
        )

    def _pairs(
        self,
        suffix: str,
        caption: str,
        copies: Callable[[Gpu, Gpu], list[Copy]],
        measured: Callable[[Gpu, Gpu], tuple[int, ...]],
        unit: Unit = Unit.GBS,
    ) -> Matrix:
        gpus = self.machine.gpus
        drawn = _drawn(gpus, self.pairs)
        cells = []
        for r, row in enumerate(gpus):
            for c, column in enumerate(gpus):
                if r == c:
                    continue
                if closed := next((g for g in (row, column) if g.unavailable), None):
                    cells.append(Cell(r, c, not_applicable=_not_usable(closed)))
                elif not reach_each_other(row, column):
                    cells.append(Cell(r, c, not_applicable=_NO_PEER))
                elif self.pair is not None and self.pair != {row.id, column.id}:
                    cells.append(Cell(r, c, not_applicable=_NOT_THE_PAIR))
                elif frozenset((row.index, column.index)) not in drawn:
                    cells.append(Cell(r, c, not_applicable=_NOT_SAMPLED))
                else:
                    cells.append(self._cell(r, c, copies(row, column), measured(row, column)))
        return Matrix(suffix, caption, len(gpus), len(gpus), tuple(cells), unit)

    # One GPU and all others

    def one_and_all(self, caption: str, *, towards_one: bool, one_works: bool) -> Matrix:
        """One GPU with all others at once; the sum over all of them."""

        def cell(column: int, one: Gpu) -> Cell:
            gpus = usable(self.machine.gpus)
            others = [g for g in gpus if g is not one and reach_each_other(g, one)]
            if not others:
                return Cell(0, column, not_applicable=_NO_PEER)
            ends = [(other, one) if towards_one else (one, other) for other in others]
            copies = [
                self._peer(s, d, by=one if one_works else (s if towards_one else d))
                for s, d in ends
            ]
            return self._cell(0, column, copies, range(len(copies)))

        return self._row(caption, cell)

    def bisection(self, caption: str) -> Matrix:
        """Each GPU writes to the one that is half of them away, all at once."""
        gpus = usable(self.machine.gpus)
        ends = [(gpu, gpus[(n + len(gpus) // 2) % len(gpus)]) for n, gpu in enumerate(gpus)]
        copies = [self._peer(source, destination, by=source) for source, destination in ends]
        reachable = all(reach_each_other(*pair) for pair in ends)

        def cell(column: int, gpu: Gpu) -> Cell:
            if not reachable:
                return Cell(0, column, not_applicable=_NO_PEER)
            return self._cell(0, column, copies, [gpus.index(gpu)])

        return replace(self._row("", cell), caption=caption)

    # Inside a GPU, and latencies

    def local(
        self, operation: Operation = Operation.COPY, chunk_bytes: int | None = None
    ) -> Matrix:
        """Each GPU within its own memory; `chunk_bytes` of a copy kernel is as of `Copy`."""

        def cell(column: int, gpu: Gpu) -> Cell:
            memory = _device(gpu)
            copy = Copy(
                memory,
                memory,
                self.bytes,
                self.engine,
                operation,
                chunk_bytes=chunk_bytes,
            )
            return self._cell(0, column, [copy], [0])

        matrix = self._row("", cell)
        what = "memcpy" if operation is Operation.COPY else str(operation)
        mover = "" if self.engine is Engine.CE else f"{self.mover or self.engine.upper()} "
        caption = f"{what} {mover}local GPU(column) bandwidth (GB/s)"
        return Matrix("", caption, matrix.rows, matrix.columns, matrix.cells)

    def host_latency(self) -> Matrix:
        """Dependent loads of each GPU from host memory."""

        def cell(column: int, gpu: Gpu) -> Cell:
            return self._chase(0, column, Place(self._host(gpu).part, Memory.PINNED), gpu)

        matrix = self._row("", cell)
        caption = "memory latency SM CPU(row) <-> GPU(column) (ns)"
        return Matrix("", caption, 1, matrix.columns, matrix.cells, Unit.NANOSECONDS)

    def peer_latency(self, operation: Operation = Operation.CHASE) -> Matrix:
        """Dependent loads of the row's GPU from the column's memory."""
        mover = self.mover or self.engine.upper()
        caption = f"Device to Device Latency {mover} GPU(row) <-> GPU(column) (ns)"

        def copies(row: Gpu, column: Gpu) -> list[Copy]:
            return [chase(_device(column), row, operation)]

        return self._pairs("", caption, copies, lambda row, column: (0,), Unit.NANOSECONDS)

    def _chase(self, row: int, column: int, place: Place, gpu: Gpu) -> Cell:
        return self._cell(row, column, [chase(place, gpu)], [0])


def chase(place: Place, gpu: Gpu, operation: Operation = Operation.CHASE) -> Copy:
    """Return dependent loads by a GPU from a ring of nvbandwidth's size at a place."""
    return Copy(place, _device(gpu), CHASE_BYTES, Engine.SM, operation, executor=gpu.id)


def reach_each_other(gpu: Gpu, other: Gpu) -> bool:
    """Whether both can reach the other's memory; unknown counts as yes."""
    return all(a.peers is None or b.index in a.peers for a, b in ((gpu, other), (other, gpu)))


def why_no_pairs(machine: Machine) -> str | None:
    """Why a machine has no pair of GPUs to copy between; None when it has."""
    if len(machine.gpus) < 2:
        return _NO_SECOND
    gpus = usable(machine.gpus)
    if len(gpus) < 2:
        return f"{_NO_SECOND}, and {why_unusable(machine)}"
    pairs = [(a, b) for a in gpus for b in gpus if a is not b]
    return None if any(reach_each_other(a, b) for a, b in pairs) else _NO_PEER


def usable(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs that can be measured."""
    return [gpu for gpu in gpus if gpu.unavailable is None]


def why_unusable(machine: Machine) -> str:
    """Why the first GPU that cannot be measured cannot."""
    return _not_usable(next(gpu for gpu in machine.gpus if gpu.unavailable is not None))


def _not_usable(gpu: Gpu) -> str:
    return f"{gpu.id} is not usable: {(gpu.unavailable or '').rstrip('.')}"


def _drawn(gpus: Sequence[Gpu], count: int | None) -> set[frozenset[int]]:
    """Pairs to measure: all, or so many drawn at random, the same ones every time."""
    pairs = [
        frozenset((a.index, b.index))
        for i, a in enumerate(gpus)
        for b in gpus[i + 1 :]
        if reach_each_other(a, b) and not a.unavailable and not b.unavailable
    ]
    if count is None or count >= len(pairs):
        return set(pairs)
    return set(random.Random(0).sample(pairs, count))


def _device(gpu: Gpu) -> Place:
    return Place(gpu.id, Memory.DEVICE)
