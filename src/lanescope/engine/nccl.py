"""Copies by NVIDIA's NCCL: a process for each GPU, all of them ranks of one communicator.

NCCL is opened where it is installed, and asked for nothing but what its users call: send, receive
and all-reduce, without buffers registered before. NVLink multicast (NVLS) is off unless
``NCCL_NVLS_ENABLE`` says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lanescope.copies import Experiment
from lanescope.copies.terms import Operation
from lanescope.engine.process import Message, Process, answers_of, clocks_text
from lanescope.errors import NotMeasuredError
from lanescope.machine.part_names import own_number, part_number

if TYPE_CHECKING:
    from lanescope.engine.processes import Processes

#: Turns NVLink multicast on in NCCL.
MULTICAST = "NCCL_NVLS_ENABLE"
_SEED = 0x5EED0000


@dataclass
class Communicator:
    """Ranks that have joined: a process each, in the order of its ranks.

    Attributes
    ----------
    version
        Of NCCL, such as ``2.29.7``.
    """

    processes: tuple[Process, ...]
    version: str

    @property
    def is_whole(self) -> bool:
        """Whether all of its processes are still there."""
        return all(one.is_alive() for one in self.processes)


@dataclass
class _Part:
    """What one rank does."""

    process: Process
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
        self._parts = [_Part(process) for process in self._communicator.processes]
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
        _answers([part.process for part in self._parts])

    def run_gated(
        self, windows: int, loops: int, shares: Sequence[int] = (), queues: Sequence[int] = ()
    ) -> list[list[float]]:
        """Return each copy's boundaries in seconds since the first one began."""
        assert not queues, "nobody looks here for copies that take turns"
        for part in self._parts:
            part.process.synchronise()
        for part in self._parts:
            part.process.ask({"do": "run", "windows": windows, "loops": loops})
        answers = _answers([part.process for part in self._parts])
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
        return sum(one["mismatches"] for one in _answers([p.process for p in self._parts]))

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
    version = _answers(ranks)[0]["version"]
    made = Communicator(ranks, version_text(version))
    processes.communicators = {gpus: made}  # the processes have left the one before
    return made


def version_text(version: int) -> str:
    """Return NCCL's version in words.

    >>> version_text(22907)
    '2.29.7'
    """
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def _answers(processes: Sequence[Process]) -> list[Message]:
    """Return every rank's answer; where one is lost the others wait for it, and are ended."""
    try:
        return answers_of(processes)
    except NotMeasuredError:
        for process in processes:
            process.lost = True
            process.kill()
        raise
