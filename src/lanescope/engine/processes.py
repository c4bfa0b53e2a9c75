"""Copies between GPUs of different processes, by memory that they share, or by NCCL.

How memory is shared is tried in order, from what reaches furthest: by a fabric handle, which alone
reaches another node, by a POSIX file descriptor, by CUDA IPC. Each process copies, times and checks
as one alone would; what is common to them is the host's monotonic clock, by which windows in which
all copies ran are found. The clocks of other nodes are compared with it before each run.

NCCL is opened where it is installed, and asked for nothing but what its users call: send, receive
and all-reduce, without buffers registered before. NVLink multicast (NVLS) is off unless
``NCCL_NVLS_ENABLE`` says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lanescope._core import native
from lanescope.calls import shown
from lanescope.copies import Copy, Engine, Experiment, Place
from lanescope.copies.kernel_shapes import SmShape
from lanescope.copies.terms import Operation
from lanescope.engine.core import device_of
from lanescope.engine.process import GpuProcess, Message, answers_of, clocks_text, start
from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine.part_names import own_number, part_number

#: Names one of them, so that no other is tried.
VARIABLE = "LANESCOPE_SHARING"
#: Turns NVLink multicast on in NCCL.
MULTICAST = "NCCL_NVLS_ENABLE"
_SEED = 0x5EED0000


class Sharing(StrEnum):
    """How memory of a GPU is shared between processes, in the order in which it is tried."""

    FABRIC = "fabric"
    DESCRIPTOR = "descriptor"
    IPC = "ipc"


_WORDS = {
    Sharing.FABRIC: "a fabric handle",
    Sharing.DESCRIPTOR: "a POSIX file descriptor",
    Sharing.IPC: "CUDA IPC",
}


def ways() -> tuple[Sharing, ...]:
    """Return the ways of sharing that are to be tried.

    Raises
    ------
    InputError
        If ``$LANESCOPE_SHARING`` names none.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return tuple(Sharing)
    if named not in list(Sharing):
        raise InputError(
            f"{VARIABLE} is {shown(named)}; give one of {', '.join(Sharing)}, or leave it out"
        )
    return (Sharing(named),)


class Processes:
    """The processes of a run, which are started when they are first needed.

    Parameters
    ----------
    start
        Starts one by its GPU's name; on this node, or where the GPU is.
    """

    def __init__(self, start: Callable[[str], GpuProcess] = start) -> None:
        self._start = start
        self._known: dict[str, GpuProcess] = {}
        self._current: ProcessCopies | NcclCopies | None = None
        self.communicators: dict[tuple[str, ...], Communicator] = {}

    def of(self, owner: str) -> GpuProcess:
        """Return the process of a GPU; ``g0, the second`` is another one of it."""
        found = self._known.get(owner)
        if found is not None and found.is_alive():
            return found
        if found is not None:
            found.end()
        self._known[owner] = found = self._start(owner)
        return found

    def copies(
        self, experiment: Experiment, shapes: Sequence[SmShape | None]
    ) -> ProcessCopies | NcclCopies:
        """Make an experiment ready, until `drop` is called."""
        if experiment.copies[0].engine is Engine.NCCL:
            self._current = NcclCopies(self, experiment)
        else:
            self._current = ProcessCopies(self, experiment, shapes)
        return self._current

    def drop(self) -> None:
        """Give back what the last experiment has taken."""
        current, self._current = self._current, None
        if current is not None:
            with suppress(NotMeasuredError, native.NativeError):
                current.close()

    def end(self) -> None:
        """End them all."""
        for process in self._known.values():
            process.end()
        self._known.clear()


@dataclass
class _Part:
    """What one process does of an experiment."""

    process: GpuProcess
    numbers: list[int] = field(default_factory=list)
    copies: list[dict[str, Any]] = field(default_factory=list)


class ProcessCopies:
    """Copies of an experiment, each done by the process of its GPU.

    It is used as the core's ``CopySet`` is. Memory of the GPU at the other end belongs to that
    GPU's process; of a copy within one GPU the destination belongs to a second process of it.

    Parameters
    ----------
    shapes
        Of the kernels, as of `lanescope.copies.kernel_shapes.sm_shapes`.

    Attributes
    ----------
    sharing
        How memory is shared; of several ways that which reaches least far.
    refused
        Why those before it were not possible.
    """

    def __init__(
        self, processes: Processes, experiment: Experiment, shapes: Sequence[SmShape | None]
    ) -> None:
        self.sharing: Sharing | None = None
        self.refused: dict[Sharing, str] = {}
        self._parts: dict[str, _Part] = {}
        self._owners: dict[str, GpuProcess] = {}
        self._count = len(experiment.copies)
        try:
            for number, (copy, shape) in enumerate(zip(experiment.copies, shapes, strict=True)):
                self._add(processes, number, copy, shape)
            for part in self._parts.values():
                part.process.ask({"do": "prepare", "copies": part.copies})
            self._answers()
        except BaseException:
            with suppress(NotMeasuredError, native.NativeError):
                self.close()
            raise

    def _add(self, processes: Processes, number: int, copy: Copy, shape: SmShape | None) -> None:
        executor = copy.executing_gpu
        assert executor is not None, "see between_processes"
        part = self._parts.setdefault(executor, _Part(processes.of(executor)))
        places = {}
        for end, place in (("source", copy.source), ("destination", copy.destination)):
            is_own = place.is_host or (place.part == executor and not self._is_second(copy, end))
            if is_own:
                places[end] = _named(place)
                continue
            owner = place.part if place.part != executor else f"{executor}, the second"
            self._owners[owner] = processes.of(owner)
            id = 2 * number + (end == "destination")
            self._share(self._owners[owner], part.process, id, copy, place, device_of(copy))
            places[end] = {"memory": "device", "index": device_of(copy), "attached": id}
        part.copies.append(
            {
                **places,
                "bytes": copy.bytes,
                "device": device_of(copy),
                "cpus": list(copy.cpus),
                "sm": None if shape is None else _values(shape, part.numbers),
                "route": "uva",
            }
        )
        part.numbers.append(number)

    @staticmethod
    def _is_second(copy: Copy, end: str) -> bool:
        return copy.source.part == copy.destination.part and end == "destination"

    def _share(
        self, owner: GpuProcess, user: GpuProcess, id: int, copy: Copy, place: Place, device: int
    ) -> None:
        """Have one process share memory and another one use it, by the first way that works."""
        possible = [one for one in ways() if _reaches(one, owner, user)]
        for sharing in possible:
            if sharing in self.refused:
                continue
            try:
                self._share_by(sharing, owner, user, id, (copy.span_bytes, place.own_index, device))
            except native.NativeError as error:
                self.refused[sharing] = _reason(error)
                continue
            self.sharing = sharing  # what was refused before is not tried again: it only falls
            return
        refused = [f"{_WORDS[one]}: {self.refused[one]}" for one in possible]
        if len(possible) < len(ways()):
            refused.append("nothing else leaves a node")
        why = "; ".join(refused)
        raise NotMeasuredError(f"{place} cannot be shared between processes: {why}.")

    @staticmethod
    def _share_by(
        sharing: Sharing, owner: GpuProcess, user: GpuProcess, id: int, about: tuple[int, int, int]
    ) -> None:
        size, its_device, user_device = about
        made, descriptors = owner.done(
            {"do": "share", "id": id, "device": its_device, "size": size, "sharing": sharing}
        )
        try:
            user.done(
                {
                    "do": "attach",
                    "id": id,
                    "device": user_device,
                    "size": made["size"],
                    "sharing": sharing,
                    "handle": made["handle"],
                },
                descriptors,
            )
        finally:
            for one in descriptors:
                os.close(one)

    def run_gated(
        self, windows: int, loops: int, shares: Sequence[int] = (), queues: Sequence[int] = ()
    ) -> list[list[float]]:
        """Return each copy's boundaries in seconds since the first copy of all began."""
        assert not queues, "nobody looks here for copies that take turns"
        for part in self._parts.values():
            part.process.synchronise()
        for part in self._parts.values():
            own = [shares[number] for number in part.numbers] if shares else []
            part.process.ask({"do": "run", "windows": windows, "loops": loops, "shares": own})
        found: dict[int, list[float]] = {}
        for part, answer in self._answers():
            for number, boundaries in zip(part.numbers, answer["boundaries"], strict=True):
                begin = answer["end"] - max(max(one) for one in answer["boundaries"])
                found[number] = [begin + one for one in boundaries]
        first = min(boundaries[0] for boundaries in found.values())
        return [[one - first for one in found[number]] for number in range(self._count)]

    def run_on_host_clock(self, windows: int, shares: Sequence[int] = ()) -> list[list[float]]:
        """Nobody asks for it: an experiment has one way of timing."""
        raise AssertionError("processes are timed by their GPUs")

    def count_mismatches(self) -> int:
        """Return how many bytes have not arrived, by all processes."""
        for part in self._parts.values():
            part.process.ask({"do": "check"})
        return sum(answer["mismatches"] for _, answer in self._answers())

    def staged(self, copy: int) -> bool:
        """Whether a copy goes through host memory: shared memory is reached as it is."""
        return False

    def close(self) -> None:
        """Give the memory back: first where it is used, then where it is."""
        users = [part.process for part in self._parts.values()]
        for processes, owner in ((users, False), (list(self._owners.values()), True)):
            for process in processes:
                if not process.lost:  # its memory goes with it
                    process.done({"do": "drop", "owner": owner})

    def _answers(self) -> list[tuple[_Part, Message]]:
        """Return every part with its answer."""
        parts = list(self._parts.values())
        return list(zip(parts, answers_of([part.process for part in parts]), strict=True))

    def describe(self) -> str:
        """Return how memory was shared, and why not by what was tried before."""
        why = [f"not by {_WORDS[one]}: {words}" for one, words in self.refused.items()]
        how = "which use no memory of each other"
        if self.sharing is not None:
            how = f"memory shared by {_WORDS[self.sharing]}"
        clocks = clocks_text([part.process for part in self._parts.values()])
        return "; ".join([f"a process for each GPU, {how}", *why, *clocks])


def _reaches(sharing: Sharing, owner: GpuProcess, user: GpuProcess) -> bool:
    """Whether memory that is shared so might reach from one process to another."""
    if owner.node == user.node:
        return owner.node is None or sharing is not Sharing.DESCRIPTOR  # sockets carry descriptors
    # of two nodes that are one host, as containers may be, whoever names it knows
    return sharing is Sharing.FABRIC or (sharing is Sharing.IPC and VARIABLE in os.environ)


def _named(place: Place) -> dict[str, Any]:
    kind = str(place.memory).replace("-", "_")
    return {"memory": kind, "index": place.own_index}


def _values(shape: SmShape, numbers: list[int]) -> list[float]:
    """Return a shape as the core takes it, in step with one of the same process' copies."""
    step = -1 if shape.in_step_with is None else numbers.index(shape.in_step_with)
    return [shape.sms, shape.chunk_bytes, shape.pace_gbs, step, shape.chunk_repeats]


def _reason(error: native.NativeError) -> str:
    call, _, name, detail, *_ = error.args
    return f"{call}: {detail if name == 'CUDA driver error' else name}"


@dataclass
class Communicator:
    """Ranks that have joined: a process each, in the order of its ranks.

    Attributes
    ----------
    version
        Of NCCL, such as ``2.29.7``.
    """

    processes: tuple[GpuProcess, ...]
    version: str

    @property
    def is_whole(self) -> bool:
        """Whether all of its processes are still there."""
        return all(one.is_alive() for one in self.processes)


@dataclass
class _Rank:
    """What one rank does."""

    process: GpuProcess
    sends: list[list[int]] = field(default_factory=list)
    receives: list[list[int]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


class NcclCopies:
    """Copies of an experiment by NCCL, used as the core's ``CopySet`` is.

    A copy's times are those of the GPU that receives it. In an all-reduce each GPU's own count.
    """

    def __init__(self, processes: Processes, experiment: Experiment) -> None:
        copies = experiment.copies
        ends = {end.part for copy in copies for end in (copy.source, copy.destination)}
        gpus = tuple(sorted(ends, key=part_number))
        self._communicator = joined(processes, gpus)
        self._parts = [_Rank(process) for process in self._communicator.processes]
        reduces = copies[0].operation is Operation.ALL_REDUCE
        for number, copy in enumerate(copies):
            source, destination = (gpus.index(end.part) for end in (copy.source, copy.destination))
            if reduces:
                self._parts[source].numbers.append(number)
                continue
            self._parts[source].sends.append([destination, copy.bytes, _SEED + number])
            self._parts[destination].receives.append([source, copy.bytes, _SEED + number])
            self._parts[destination].numbers.append(number)
        for part in self._parts:
            part.process.ask(
                {
                    "do": "operate",
                    "sends": part.sends,
                    "receives": part.receives,
                    "reduced_bytes": copies[0].bytes if reduces else 0,
                }
            )
        _answers_of_ranks([part.process for part in self._parts])

    def run_gated(
        self, windows: int, loops: int, shares: Sequence[int] = (), queues: Sequence[int] = ()
    ) -> list[list[float]]:
        """Return each copy's boundaries in seconds since the first one began."""
        assert not queues, "nobody looks here for copies that take turns"
        for part in self._parts:
            part.process.synchronise()
        for part in self._parts:
            part.process.ask({"do": "run", "windows": windows, "loops": loops})
        answers = _answers_of_ranks([part.process for part in self._parts])
        found: dict[int, list[float]] = {}
        for part, answer in zip(self._parts, answers, strict=True):
            begin = answer["end"] - answer["boundaries"][0][-1]
            for number in part.numbers:
                found[number] = [begin + one for one in answer["boundaries"][0]]
        first = min(boundaries[0] for boundaries in found.values())
        return [[one - first for one in found[number]] for number in sorted(found)]

    def run_on_host_clock(self, windows: int, shares: Sequence[int] = ()) -> list[list[float]]:
        """Nobody asks for it: an experiment has one way of timing."""
        raise AssertionError("NCCL is timed by GPUs")

    def count_mismatches(self) -> int:
        """Return how many bytes have not arrived, by all ranks."""
        for part in self._parts:
            part.process.ask({"do": "check"})
        return sum(one["mismatches"] for one in _answers_of_ranks([p.process for p in self._parts]))

    def staged(self, copy: int) -> bool:
        """Whether a copy goes through host memory: NCCL does not say so."""
        return False

    def close(self) -> None:
        """Give the memory back; the communicator stays for the next experiment."""
        for part in self._parts:
            part.process.done({"do": "drop", "owner": True})

    def describe(self) -> str:
        """Return which NCCL, and how it was asked."""
        multicast = "off" if os.environ.get(MULTICAST, "0") == "0" else "on"
        how = f"NCCL {self._communicator.version}, NVLS {multicast}, a process for each GPU"
        return "; ".join([how, *clocks_text(self._communicator.processes)])


def joined(processes: Processes, gpus: tuple[str, ...]) -> Communicator:
    """Return a communicator of GPUs, in this order; made when it is first needed."""
    known = processes.communicators.get(gpus)
    if known is not None and known.is_whole:
        return known
    ranks = tuple(processes.of(gpu) for gpu in gpus)
    id = ranks[0].done({"do": "nccl_id"})[0]["id"]
    for rank, (gpu, process) in enumerate(zip(gpus, ranks, strict=True)):
        process.ask(
            {
                "do": "join",
                "id": id,
                "ranks": len(gpus),
                "rank": rank,
                "device": own_number(part_number(gpu)),
            }
        )
    version = _answers_of_ranks(ranks)[0]["version"]
    made = Communicator(ranks, version_text(version))
    processes.communicators = {gpus: made}  # the processes have left the one before
    return made


def version_text(version: int) -> str:
    """Return NCCL's version in words.

    >>> version_text(22907)
    '2.29.7'
    """
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def _answers_of_ranks(processes: Sequence[GpuProcess]) -> list[Message]:
    """Return every rank's answer; where one is lost the others wait for it, and are ended."""
    try:
        return answers_of(processes)
    except NotMeasuredError:
        for process in processes:
            process.lost = True
            process.kill()
        raise
