"""Programs of which it is known what they do again and again, as a trace would tell them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.trace.codes import OperationCode
from lanescope.trace.run import WatchManifest, WatchRun
from lanescope.trace.timeline import Operations, Process, Timeline

PAGEABLE, PINNED, DEVICE, MANAGED = 1, 2, 3, 5
US = 1_000
#: Bytes each µs that copies take here: those of `made_up.LINK`.
RATE = {PINNED: 55_500, PAGEABLE: 10_000, MANAGED: 10_000}


@dataclass
class Program:
    """A process on one GPU; its host calls one thing after the other.

    Times in µs. `jitter` is the standard deviation of each duration as a share of it.
    """

    pid: int = 7
    gpu: int = 0
    jitter: float = 0.0
    now: float = 1_000_000.0
    seed: int = 1
    rows: list[dict[str, int]] = field(default_factory=list)
    streams: dict[int, float] = field(default_factory=dict)
    engines: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._number = 0

    def copy(
        self, size: int, *, down: bool, host: int = PINNED, wait: bool = False, stream: int = 7
    ) -> None:
        lasts = 1.0 + size / RATE[host]
        ends, places = (
            ((host, DEVICE), (-1, self.gpu)) if down else ((DEVICE, host), (self.gpu, -1))
        )
        begun = self.now
        end = self._run("in" if down else "out", stream, lasts + (4.0 if wait else 0.0), 2.0, {
            "what": OperationCode.COPY,
            "bytes": size,
            "source_kind": ends[0],
            "destination_kind": ends[1],
            "source_device": places[0],
            "destination_device": places[1],
            "asynchronous": not wait,
        })  # fmt: skip
        if wait:
            self.now = end + 1.0
        self.rows[-1] |= {"call_start_ns": round(begun * US), "call_end_ns": round(self.now * US)}

    def kernel(self, lasts: float, *, stream: int = 7) -> None:
        self._run("work", stream, lasts, 3.0, {"what": OperationCode.KERNEL, "asynchronous": True})

    def wait(self) -> None:
        """Wait for all that was handed over."""
        self.now = max((self.now, *self.streams.values()))

    def host(self, lasts: float) -> None:
        """Do something else."""
        self.now += self._jittered(lasts)

    def _run(
        self, engine: str, stream: int, lasts: float, call: float, row: dict[str, int]
    ) -> float:
        begin = max(self.now + call, self.streams.get(stream, 0.0), self.engines.get(engine, 0.0))
        end = begin + self._jittered(lasts)
        self.now += call
        self.streams[stream] = self.engines[engine] = end
        self._number += 1
        told = {
            "pid": self.pid,
            "device": self.gpu,
            "context": 1,
            "stream": stream,
            "correlation": self._number,
            "thread": 7,
            "start_ns": round(begin * US),
            "end_ns": round(end * US),
            "call_start_ns": 0,
            "call_end_ns": 0,
            "bytes": 0,
            "source_kind": 0,
            "destination_kind": 0,
            "source_device": -1,
            "destination_device": -1,
        }
        self.rows.append(told | row)
        return end

    def _jittered(self, lasts: float) -> float:
        return lasts * max(self._random.gauss(1.0, self.jitter), 0.3) if self.jitter else lasts

    def operations(self) -> Operations:
        rows = sorted(self.rows, key=lambda row: row["start_ns"])
        return Operations.of(**{key: [row[key] for row in rows] for key in rows[0]})


def looped(
    rounds: int,
    size: int,
    kernel: float = 1000.0,
    *,
    host: int = PINNED,
    wait: bool = True,
    between: float = 100.0,
    **columns: object,
) -> Program:
    """Bytes in, a kernel, as many bytes out, again and again."""
    program = Program(**columns)  # type: ignore[arg-type]
    for _ in range(rounds):
        program.copy(size, down=True, host=host, wait=wait)
        if kernel:
            program.kernel(kernel)
        program.copy(size, down=False, host=host, wait=wait)
        program.wait()
        program.host(between)
    return program


def overlapped(rounds: int, parts: int, size: int, kernel: float, **columns: object) -> Program:
    """The same, each round cut into parts on streams of their own, then waited for."""
    program = Program(**columns)  # type: ignore[arg-type]
    for _ in range(rounds):
        for part in range(parts):
            program.copy(size // parts, down=True, stream=20 + part)
            program.kernel(kernel / parts, stream=20 + part)
            program.copy(size // parts, down=False, stream=20 + part)
        program.wait()
        program.host(100.0)
    return program


MACHINE = Machine(
    name="made-up",
    nodes=(NumaNode(0, ((0,),)), NumaNode(1, ((1,),))),
    gpus=(Gpu(0, "NVIDIA H200", node=0), Gpu(1, "NVIDIA H200", node=1)),
)


def run_of(
    *operations: Operations, command: str = "lanescope watch --kernels -- ./app", **columns: object
) -> WatchRun:
    """A stored watch of such programs."""
    found = Operations.concat(operations)
    pids = sorted(set(found.pid.tolist()))
    processes = tuple(Process(pid, "./app", 1) for pid in pids)
    told = Timeline(1, 10_000_000_000, (), found, processes, **columns)  # type: ignore[arg-type]
    manifest = WatchManifest(command, ("./app",), "2026-11-21", "0.3.0", MACHINE, 1, 10_000_000_000)
    return WatchRun(manifest, told)
