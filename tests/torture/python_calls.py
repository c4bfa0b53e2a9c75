"""Wrong calls of everything that Python programs use, from a seed; run as a program.

A call begins right, and one or two of its arguments become something from a pool, go, change
places, or are joined by others. What comes of it must be a result where all arguments may stand
there (`RIGHT`, written apart from the code under test), and else one sentence.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import math
import os
import random
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import lanescope
from lanescope import Engine, LanescopeError, Memory, Operation, Timing, running
from lanescope.backend.fake import FakeBackend
from lanescope.compression import channel
from lanescope.compression.costs import CodecCost, LinkCost
from lanescope.compression.deciding import Always, Decision
from lanescope.compression.parcel import Parcel
from lanescope.experiment import Access, Caches, Pattern, Route, Submission
from lanescope.experiment.case import Case, Cell, Matrix, Unit
from lanescope.experiment.cases import CaseOptions
from lanescope.experiment.taruc import Benchmark, Contention, Nurma, Only, Parameters, Sizes
from lanescope.machine import (
    Gpu,
    Latencies,
    Link,
    LinkKind,
    NumaNode,
    NvLink,
    PcieLink,
    Switch,
    machine_named,
)
from lanescope.measurement.deadline import Deadline
from lanescope.measurement.result import (
    CopyResult,
    LinkEvidence,
    Source,
    Statistics,
    Status,
    Stop,
    Verdict,
)
from lanescope.model.overlap.equations import Equations
from lanescope.model.overlap.graphs import Order, graph_for
from lanescope.model.overlap.methods import Method
from lanescope.model.overlap.rates import Level, Rules
from lanescope.model.overlap.replay import Replay
from lanescope.model.overlap.tasks import TaskGraph
from lanescope.model.overlap.workload import Workload
from lanescope.model.transfer.stored import named_parameters
from lanescope.run.run import Manifest, State
from tests.compression.gpu_stand_ins import Core, stand_in

H200S = machine_named("h200-x2")
#: As if it were here: `running.backend_for` gives a fake.
HERE = dataclasses.replace(H200S, described=False)
FAKE = FakeBackend(lambda copy, batch: [copy.bytes / 50e9] * 6)
HOST, GPU = lanescope.Place("h0", Memory.PINNED), lanescope.Place("g0", Memory.DEVICE)
COPY = lanescope.Copy(HOST, GPU, 1 << 20, Engine.CE)
EXPERIMENT = lanescope.Experiment("mine", "mine", (COPY,))
WORK = Workload(1 << 20, 1 << 20, 1e-3)
K20 = named_parameters("k20")
STATISTICS = Statistics(6, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0)
VERDICT = Verdict(Status.HEALTHY, "it is")
COPY_RESULT = CopyResult(COPY, np.ones(6), STATISTICS, 58.0, "PCIe", VERDICT)
MANIFEST = Manifest("check", "x", "2026-11-22T10:00:00+00:00", "0", H200S)
CELL, MATRIX = Cell(0, 0, "mine", (0,)), Matrix("", "x", 1, 1, ())
STREAM = lanescope.compress(np.arange(9.0))
SMALL = Parameters(overhead=Sizes(min_bytes=100, max_bytes=100))
LINK = LinkCost(50.0)
CODEC = CodecCost(400.0, 500.0)

Tensor = stand_in("torch")

Right = Callable[[Any], bool]


def whole(least: int = 0) -> Right:
    """Return what whole numbers are right."""

    def right(value: Any) -> bool:
        if isinstance(value, np.ndarray | np.generic):
            if value.ndim or value.dtype.kind not in "iuf":
                return False
            value = value.item()
        if isinstance(value, float):
            return math.isfinite(value) and value == int(value) and least <= value < 2**63
        plain = isinstance(value, int) and not isinstance(value, bool)
        return plain and least <= value < 2**63

    return right


def number(value: Any) -> bool:
    """Whether a number is finite and not negative."""
    if isinstance(value, np.generic | np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iuf" and value >= 0
    real = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    return real and 0 <= value < 1e300


def size(value: Any) -> bool:
    """Whether it is a size in bytes that copies can have."""
    return value == "64MiB" if isinstance(value, str) else whole(1)(value) and value <= 2**50


def size_or_none(value: Any) -> bool:
    """Whether it is a size in bytes, or 0."""
    return size(value) or (whole()(value) and value == 0)


def flag(value: Any) -> bool:
    """Whether it is True or False."""
    return isinstance(value, bool | np.bool_)


def text(value: Any) -> bool:
    """Whether it is text."""
    return isinstance(value, str)


def path(value: Any) -> bool:
    """Whether a file may have this name."""
    return isinstance(value, str | Path) and str(value) != "" and min(str(value)) >= " "


def a(*kinds: type) -> Right:
    """Return which values of some types are right."""
    return lambda value: isinstance(value, kinds)


def member(enum: Any) -> Right:
    """Return which members are right: also by their value."""
    return lambda value: isinstance(value, str) and value in list(enum)


def several(right: Right, *, empty: bool = False) -> Right:
    """Return which lists are right: also one alone."""

    def rights(values: Any) -> bool:
        if isinstance(values, list | tuple | range) or getattr(values, "ndim", 0) == 1:
            return len(values) < 10**6 and (empty or len(values) > 0) and all(map(right, values))
        return right(values)

    return rights


def maybe(right: Right) -> Right:
    """Return the same, or None."""
    return lambda value: value is None or right(value)


def function(places: int) -> Right:
    """Return which functions take so many values."""

    def right(value: Any) -> bool:
        try:
            inspect.signature(value).bind(*range(places))
        except (TypeError, ValueError):
            return False
        return True

    return right


def array(value: Any) -> bool:
    """Whether a stream can hold it."""
    if isinstance(value, bytes | bytearray):
        return True
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iuf"


_MACHINE = maybe(lambda value: isinstance(value, lanescope.Machine) or path(value))
_NAMES = several(text, empty=True)
#: What may stand where, by the name of the parameter, or by call and parameter.
RIGHT: dict[str, Right] = {
    "bytes": size,
    "size_bytes": size,
    "machine": _MACHINE,
    "cases": _NAMES,
    "prefixes": _NAMES,
    "plan": maybe(a(lanescope.Plan)),
    "expected": _MACHINE,
    "missing": _NAMES,
    "unmeasured": _NAMES,
    "expected_gpus": maybe(whole()),
    "allow_busy": flag,
    "affinity": flag,
    "out": maybe(path),
    "progress": maybe(function(3)),
    "sizes": maybe(several(size)),
    "gpus": maybe(several(whole())),
    "memories": several(member(Memory)),
    "options": maybe(a(CaseOptions)),
    "copies": text,
    "counts": several(whole(1)),
    "methods": several(member(Submission)),
    "experiment": a(lanescope.Experiment),
    "backend": maybe(a(FakeBackend)),
    "parameters": maybe(lambda value: isinstance(value, Parameters) or path(value)),
    "benchmarks": maybe(several(member(Benchmark))),
    "only": maybe(a(Only)),
    "resume": flag,
    "values": array,
    "codec": text,
    "dtype": maybe(text),
    "dimensionality": lambda value: whole(1)(value) and value <= 32,
    "compress.dimensionality": whole(1),  # only GFC looks at it
    "threads": whole(),
    "compress.out": maybe(a(np.ndarray)),
    "decompress.out": maybe(a(np.ndarray)),
    "stream": lambda value: isinstance(value, np.ndarray | bytes),
    "framework": text,
    "folder": path,
    "path": path,
    "source": a(lanescope.Place),
    "destination": a(lanescope.Place),
    "engine": member(Engine),
    "operation": member(Operation),
    "cpus": several(whole(), empty=True),
    "executor": maybe(text),
    "sms": maybe(whole(1)),
    "chunk_bytes": maybe(whole()),
    "pace_gbs": maybe(number),
    "pieces": whole(1),
    "submission": member(Submission),
    "access": maybe(a(Access)),
    "route": maybe(member(Route)),
    "part": text,
    "memory": member(Memory),
    "name": text,
    "title": text,
    "Experiment.copies": several(a(lanescope.Copy)),
    "timing": member(Timing),
    "pattern": member(Pattern),
    "span_bytes": maybe(size),
    "stride_bytes": maybe(size),
    "caches": member(Caches),
    "target": lambda value: number(value) and 0 < value < 1,
    "budget_seconds": number,
    "within_seconds": maybe(number),
    "deadline": maybe(a(Deadline)),
    "samples": maybe(whole(1)),
    "verify": flag,
    "node": maybe(whole()),
    "pairs": maybe(whole(1)),
    "Only.memories": maybe(several(member(Memory), empty=True)),
    "patterns": flag,
    "Only.patterns": maybe(several(member(Pattern), empty=True)),
    "Only.caches": maybe(several(member(Caches), empty=True)),
    "Only.nodes": maybe(several(whole(), empty=True)),
    "Only.gpus": maybe(several(whole(), empty=True)),
    "run": flag,
    # the suite refuses 0, which a file may hold, too
    **dict.fromkeys(("gap_bytes", "min_bytes", "max_bytes", "burst_bytes"), size_or_none),
    "pcie_bytes": size_or_none,
    "block_bytes": maybe(size_or_none),
    "slab_bytes": maybe(size),
    "CodecCost.slab_bytes": size_or_none,
    "memory_bytes": maybe(whole()),
    "Contention.memory_bytes": maybe(size_or_none),
    "socket_bytes": maybe(size_or_none),
    "repeats": maybe(whole()),
    "tag": text,
    "steps_per_decade": whole(),
    **dict.fromkeys(("all_gpus", "all_memories", "sockets", "burst", "range", "sustained"), flag),
    **dict.fromkeys(("overhead", "host", "hostdev", "peer"), a(Sizes)),
    "nurma": a(Nurma),
    "contention": a(Contention),
    "Machine.cpu": maybe(text),
    "Machine.nodes": several(a(NumaNode), empty=True),
    "Machine.gpus": several(a(Gpu), empty=True),
    "switches": several(a(Switch), empty=True),
    "links": several(a(Link), empty=True),
    "driver": maybe(text),
    "cuda_version": maybe(text),
    "latencies": a(Latencies),
    "notes": several(text, empty=True),
    "described": flag,
    "index": whole(),
    "cores": several(several(whole(), empty=True), empty=True),
    "cache_bytes": maybe(whole()),
    **dict.fromkeys(("memory_gbs", "raw_gbs"), maybe(number)),
    **dict.fromkeys(("memory_detail", "pci_address", "uuid", "unavailable", "remedy"), maybe(text)),
    "compute_capability": maybe(several(whole())),
    **dict.fromkeys(("multiprocessors", "copy_engines", "replays"), maybe(whole())),
    "peers": maybe(several(whole(), empty=True)),
    **dict.fromkeys(("a", "b", "id", "reason", "suffix", "caption", "description"), text),
    "Link.kind": member(LinkKind),
    "payload_gbs": maybe(several(number)),
    "pcie": maybe(a(PcieLink)),
    "nvlink": maybe(a(NvLink)),
    **dict.fromkeys(("h2d_us", "d2h_us", "d2d_us", "pageable_gbs"), maybe(number)),
    "Latencies.source": maybe(text),
    "Result.source": member(Source),
    "Result.copies": several(a(CopyResult), empty=True),
    **dict.fromkeys(("method", "verb", "command", "started", "tool_version", "limit_reason"), text),
    "stop": maybe(a(Stop)),
    "not_measured": maybe(a(Verdict)),
    "Result.links": several(a(LinkEvidence), empty=True),
    "manifest": a(Manifest),
    "results": several(a(lanescope.Result), empty=True),
    "Run.folder": maybe(path),
    "Manifest.machine": a(lanescope.Machine),
    "state": member(State),
    "schema_version": whole(),
    "Manifest.cases": several(a(Case), empty=True),
    "Manifest.parameters": maybe(text),
    **dict.fromkeys(("h2d_bytes", "d2h_bytes"), size_or_none),
    "kernel_seconds": number,
    **dict.fromkeys(("h2d_arrays", "d2h_arrays", "returns_later"), whole()),
    "most_streams": maybe(whole()),
    "needs_previous": flag,
    **dict.fromkeys(("mapped_reads", "mapped_writes"), number),
    **dict.fromkeys(("flops", "device_bytes"), maybe(number)),
    "workload": a(Workload),
    "predictor": a(Equations, Replay),
    "streams": several(whole()),  # what cannot be is left out
    "rank.parameters": lambda value: value is K20,
    "rank.methods": several(member(Method)),
    "replay.parameters": lambda value: value is K20,
    "named_parameters.name": maybe(path),
    "runs": maybe(path),
    "graph_for.method": member(Method),
    "graph_for.streams": whole(1),
    "parts": maybe(whole(1)),
    "order": member(Order),
    "shared": flag,
    "Replay.name": text,
    "is_slow": flag,
    "rules": a(Rules),
    "before_share": number,
    "kernels_at_once": whole(),
    "in_call_order": maybe(flag),
    "many_waves": flag,
    "graph": a(TaskGraph),
    "level": member(Level),
    "replay.links": lambda value: value is None,
    **dict.fromkeys(("nx", "ny", "nz"), lambda value: whole(1)(value) and value < 2**31),
    "seed": whole(),
    "ratio": number,
    "break_even.codec": a(CodecCost),
    "link": a(LinkCost),
    "margin": number,
    **dict.fromkeys(("gbs", "first_seconds", "compress_gbs", "decompress_gbs"), number),
    "start_seconds": number,
    "array_bytes": whole(),
    "dimensions": whole(),
    "copy": a(lanescope.Copy),
    "seconds": a(np.ndarray),
    "statistics": a(Statistics),
    "limit_gbs": maybe(number),
    "verdict": a(Verdict),
    **dict.fromkeys(("submit_seconds", "clock_seconds"), maybe(number)),
    "own_rate": flag,
    "in_turns_with": several(whole(), empty=True),
    "status": member(Status),
    **dict.fromkeys(("row", "column", "rows", "columns", "generation", "width"), whole()),
    **dict.fromkeys(("max_generation", "max_width", "max_payload_bytes"), maybe(whole())),
    "max_read_request_bytes": maybe(whole()),
    "Cell.experiment": maybe(text),
    "measured": several(whole(), empty=True),
    "not_applicable": maybe(text),
    "cells": several(a(Cell), empty=True),
    "unit": member(Unit),
    "matrices": several(a(Matrix), empty=True),
    # without a GPU none is made
    **dict.fromkeys(("compression", "via", "slots", "restore_by"), lambda value: False),
    "Channel.source": whole(),
    "Channel.target": whole(),
    "patience_seconds": lambda value: number(value) and value <= 86400,
    **dict.fromkeys(("Channel.send.values", "Channel.offload.values"), a(Tensor)),
    **dict.fromkeys(("Channel.send.out", "Channel.restore.out"), lambda value: value is None),
    **dict.fromkeys(("Channel.send.tag", "Channel.offload.tag"), maybe(text)),
    "parcel": a(Parcel),
    "Channel.prepare.size": size_or_none,
    "compress": flag,
    **dict.fromkeys(("raw_seconds", "compressed_seconds"), maybe(number)),
    **dict.fromkeys(("Equations.predict.method", "Replay.predict.method"), member(Method)),
    **dict.fromkeys(("Equations.predict.streams", "Replay.predict.streams"), whole(1)),
    **dict.fromkeys(
        ("Equations.predict.parameters", "Replay.predict.parameters"), lambda value: value is K20
    ),
}


def calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Return by name what is called, and arguments that are right."""
    plan = lanescope.Plan(0.5, 0.0)
    one = {"machine": H200S, "plan": plan}
    here = {"machine": HERE, "plan": plan, "gpus": [0]}
    deep = {
        name: getattr(importlib.import_module(f"lanescope.{module}"), name)
        for module, name in (
            ("model.overlap.rank", "rank"),
            ("model.overlap.replay", "replay"),
            ("grid.profiles", "ocean"),
            ("compression.costs", "break_even"),
            ("compression.codec", "most_bytes"),
        )
    }
    named = {
        "check": one | {"cases": ["h2d/g0"]},
        "sweep": one | {"sizes": [64], "gpus": [1], "memories": [Memory.PINNED]},
        "bench": one | {"cases": ["device_local_copy"], "options": CaseOptions(1 << 20)},
        "copy": one | {"copies": "h0 -> g0"},
        "latency": here,
        "small": here | {"sizes": [64], "counts": [1], "methods": [Submission.SINGLE]},
        "sms": here | {"size_bytes": 1 << 20},
        "measure": one | {"experiment": EXPERIMENT, "backend": FAKE},
        "taruc": one | {"parameters": SMALL, "benchmarks": ["overhead"], "only": Only(gpus=(0,))},
        "compress": {"values": np.arange(9.0), "codec": "delta", "threads": 1},
        "decompress": {"stream": STREAM},
        "read_run": {"folder": "stored"},
        "load_machine": {"path": "machine.toml"},
        "discover": {},
        "Channel": {"source": 0, "target": 1, "slab_bytes": 1 << 20, "sms": 8},
        "Copy": {"source": HOST, "destination": GPU, "bytes": 64, "engine": Engine.CE},
        "Place": {"part": "h0", "memory": Memory.PINNED},
        "Experiment": {"name": "x", "title": "x", "copies": (COPY,)},
        "Plan": {"target": 0.1, "budget_seconds": 0.1, "samples": 7},
        "Machine": {"name": "x", "nodes": H200S.nodes, "gpus": H200S.gpus, "links": H200S.links},
        "Result": {"experiment": EXPERIMENT, "source": Source.MEASURED, "copies": (COPY_RESULT,)}
        | {"method": "x"},
        "Run": {"manifest": MANIFEST},
    }
    told = {
        Access: {"span_bytes": 1 << 20},
        CaseOptions: {"bytes": 64, "pairs": 1},
        Only: {"nodes": (0,), "memories": (Memory.PINNED,)},
        Sizes: {"min_bytes": 8, "max_bytes": 64},
        Nurma: {"gap_bytes": 8},
        Contention: {"repeats": 1},
        Parameters: {"tag": "x", "host": Sizes()},
        NumaNode: {"index": 0, "cores": ((0,),)},
        Gpu: {"index": 0, "name": "x"},
        Switch: {"id": "s0", "name": "x"},
        Link: {"a": "h0", "b": "g0", "kind": LinkKind.PCIE},
        Latencies: {"h2d_us": 1.0},
        PcieLink: {"generation": 4, "width": 16},
        Manifest: {"verb": "x", "command": "x", "started": "x", "tool_version": "0"}
        | {"machine": H200S},
        CopyResult: {"copy": COPY, "seconds": np.ones(6), "statistics": STATISTICS}
        | {"limit_gbs": 1.0, "limit_reason": "x", "verdict": VERDICT},
        Verdict: {"status": Status.SLOW, "reason": "x"},
        Cell: {"row": 0, "column": 0},
        Matrix: {"suffix": "", "caption": "", "rows": 1, "columns": 1, "cells": (CELL,)},
        Case: {"name": "x", "description": "x", "matrices": (MATRIX,)},
        Workload: {"h2d_bytes": 64, "d2h_bytes": 64, "kernel_seconds": 1.0},
        Equations: {},
        Replay: {},
        Rules: {"kernels_at_once": 1},
        LinkCost: {"gbs": 1.0},
        CodecCost: {"compress_gbs": 1.0, "decompress_gbs": 1.0},
        deep["rank"]: {"workload": WORK, "parameters": K20, "predictor": Equations()}
        | {"streams": [1, 2]},
        deep["replay"]: {"graph": graph_for(WORK, Method.EXPLICIT), "parameters": K20},
        deep["ocean"]: {"nx": 4, "ny": 4, "nz": 4},
        deep["break_even"]: {"ratio": 2.0, "codec": CODEC, "link": LINK},
        deep["most_bytes"]: {"array_bytes": 64},
        Decision: {"compress": True, "codec": "auto", "dimensionality": 1, "raw_seconds": None}
        | {"compressed_seconds": 1.0, "reason": "x"},
        Always: {"compress": True},
        graph_for: {"workload": WORK, "method": Method.STREAMS, "streams": 2},
        named_parameters: {"name": "k20"},
    }
    how = {"workload": WORK, "method": Method.STREAMS, "streams": 2, "parameters": K20}
    peer, host = _channels()
    parcel = host.offload(Tensor(np.arange(9.0)))
    methods = {
        H200S.node: {"index": 0},
        H200S.gpu: {"index": 1},
        Equations().predict: how,
        Replay().predict: how,
        peer.send: {"values": Tensor(np.arange(9.0)), "tag": "x"},
        host.offload: {"values": Tensor(np.arange(9.0))},
        host.restore: {"parcel": parcel},
        host.prepare: {"size": 64},
        peer.synchronize: {},
        peer.last.wait: {},
    }
    return (
        {name: (getattr(lanescope, name), right) for name, right in named.items()}
        | {target.__name__: (target, right) for target, right in told.items()}
        | {target.__qualname__: (target, right) for target, right in methods.items()}
    )


def _channels() -> list[lanescope.Channel]:
    """Return a channel to a GPU, with a transfer, and one to the host, with cores that are none."""
    names = ("DeviceChannel", "HostChannel", "reach_each_other")
    kept = {name: getattr(channel.native, name) for name in names}
    try:
        Core.prepare = lambda self, size: None  # type: ignore[attr-defined]
        channel.native.DeviceChannel = channel.native.HostChannel = Core
        channel.native.reach_each_other = lambda one, other: True
        channel.current_stream = lambda framework, gpu: 0
        channel.new_array = lambda framework, shape, dtype, gpu: Tensor(np.empty(shape), gpu)
        both = [lanescope.Channel(0, there, compression="off") for there in (1, "host")]
        both[0].send(Tensor(np.arange(9.0)))
        return both
    finally:
        for name, value in kept.items():
            setattr(channel.native, name, value)


class Evil:
    """Raises whatever it is asked."""

    def _raise(self, *args: Any, **kwargs: Any) -> Any:
        raise ValueError("evil")

    __eq__ = __bool__ = __len__ = __iter__ = __index__ = __fspath__ = __float__ = __repr__ = _raise
    __hash__ = object.__hash__
    __str__ = _raise


class Number(float):
    """A float by another name."""


def pool() -> list[Any]:
    """Return what arguments become."""
    return [
        *(None, True, False, -1, 0, 1, 2, 2.0, 1.5, -0.5, math.nan, math.inf, -math.inf, 1e30),
        *(2**70, -(2**70), 10**5000, 2**62, 1e-300, Number(2), 1j, Fraction(1, 2)),
        *("", "x", "64MiB", "-1", "0", "h0", "auto", "host", "raw", "\0", "x" * 5000, "\ud800"),
        *("a\nb", "../..", "h200-x2", "pinned", "ce", b"", b"x", bytearray(3), memoryview(b"abc")),
        *(
            [],
            [None],
            [[]],
            [0],
            [-1],
            ["x"],
            [1.5],
            [math.nan],
            (),
            (1, 2, 3),
            {},
            {"a": 1},
            set(),
        ),
        *({1}, frozenset(), range(3), range(10**12), iter(()), (x for x in "ab"), ..., object()),
        *(Path(), Path("p"), Path("/"), Path("/proc/self/mem"), Path("x\0y"), Evil(), Evil),
        *(np.zeros(3), np.zeros(3, bool), np.zeros((2, 2)), np.array(5), np.int64(3), np.uint8(1)),
        *(np.float32(1.5), np.float16("nan"), np.datetime64(5, "ns"), np.zeros(2, object)),
        *(np.bool_(True), np.zeros(2, "M8[s]"), np.zeros(2, "V2"), np.zeros(2, ">f4"), np.zeros(0)),
        *(
            np.zeros(2, [("a", "f4")]),
            np.zeros(4)[::2],
            np.ma.masked_array([1.0], [1]),
            np.array("x"),
        ),
        *(np.zeros(3, complex), np.longdouble(1), np.timedelta64(1, "s"), np.arange(3), np.ndarray),
        *(lambda: 0, lambda *given: 0, abs, int, type, sys, NotImplemented, Exception("x")),
        *(Engine.CPU, Memory.DEVICE, Memory.PAGEABLE, Timing.GATE, Operation.TRIAD, Engine),
        *(lanescope.Plan(), COPY, GPU, EXPERIMENT, H200S, WORK, K20, STATISTICS, MANIFEST, FAKE),
        *(lanescope.Place, lanescope.check, Parameters(), Only(), Sizes(), CaseOptions(), Verdict),
    ]


@dataclasses.dataclass
class Trial:
    """A call that may be wrong.

    Attributes
    ----------
    may_stand
        Whether every argument may stand where it does.
    """

    name: str
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    may_stand: bool


def right_at(call: str, argument: str) -> Right:
    """Return what may stand in a call's argument; one that nobody thought of is a `KeyError`."""
    return RIGHT.get(f"{call}.{argument}") or RIGHT[argument]


def make(rng: random.Random, known: dict[str, Any]) -> Trial:
    """Return a call."""
    name = rng.choice(list(known))
    target, good = known[name]
    kwargs = dict(good)
    names = list(inspect.signature(target).parameters)
    values = pool()
    args: tuple[Any, ...] = ()
    for _ in range(rng.choice((1, 1, 2))):
        match rng.randrange(10):
            case 0 if len(kwargs) > 1:
                one, other = rng.sample(list(kwargs), 2)
                kwargs[one], kwargs[other] = kwargs[other], kwargs[one]
            case 1 if kwargs:
                kwargs.pop(rng.choice(list(kwargs)))
            case 2:
                kwargs[rng.choice(("case", "Machine", "x", "self", "args"))] = rng.choice(values)
            case 3:
                args = (*args, *rng.choices(values, k=rng.choice((1, len(names) + 1))))
            case _ if names:
                kwargs[rng.choice(names)] = rng.choice(values)
    if "machine" in names and kwargs.get("machine") is None:
        kwargs["machine"] = H200S  # None would measure
    try:
        given = inspect.signature(target).bind(*args, **kwargs).arguments.items()
    except TypeError:
        return Trial(name, target, args, kwargs, False)
    may_stand = all(right_at(name, argument)(value) for argument, value in given)
    return Trial(name, target, args, kwargs, may_stand)


def outcome(trial: Trial) -> str | None:
    """Return what is wrong with what came of a call, or None."""
    try:
        trial.target(*trial.args, **trial.kwargs)
    except LanescopeError as error:
        return _no_sentence(str(error))
    except TypeError as error:
        own = f"{trial.name}.__init__()" in str(error) or f"{trial.name}()" in str(error)
        return None if own else f"TypeError: {error}"
    except BaseException as error:  # whatever it is, it is not ours
        return f"{type(error).__name__}: {_text(error)}"
    return None if trial.may_stand else "it was taken"


def _no_sentence(words: str) -> str | None:
    first, *more = words.split("\n")
    caret = bool(more) and first.startswith("column ")  # shows the place in the text
    if (more and not caret) or not 10 < len(first) < 600:
        return f"no sentence: {words[:200]!r}"
    for leaked in ("object at 0x", "Traceback", "<lambda>", "incompatible function arguments"):
        if leaked in words:
            return f"leaks {leaked!r}: {words[:200]}"
    return f"ends with a full stop: {words}" if words.endswith(".") and "GPU" not in words else None


def _text(value: Any) -> str:
    try:
        return " ".join(repr(value).split())[:160]
    except Exception:
        return f"<{type(value).__name__}>"


def _require_two(*gpus: int) -> None:
    for gpu in gpus:
        if gpu not in (0, 1):
            raise lanescope.InputError(f"there is no GPU {gpu} here, there are two of them")


def main() -> None:
    """Make the trials of a seed in this folder; print what is wrong, a line of JSON for each."""
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    warnings.simplefilter("ignore")
    os.fsync = lambda handle: None  # what is written is thrown away
    running.backend_for = lambda machine, **options: (  # type: ignore[assignment]
        running.ModelBackend(machine) if machine.described else FAKE
    )
    Path("machine.toml").write_text('name = "x"\n[[nodes]]\nindex = 0\n')
    lanescope.check(H200S, cases=["h2d/g0"], out="stored")
    rng = random.Random(seed)
    channel._require_gpus = _require_two
    known = calls()
    for number_ in range(count):
        trial = make(rng, known)
        given = [*map(_text, trial.args), *(f"{n}={_text(v)}" for n, v in trial.kwargs.items())]
        said = f"{trial.name}({', '.join(given)})"
        Path("last").write_text(f"{number_}: {said}", encoding="utf-8", errors="replace")
        if (wrong := outcome(trial)) is not None:
            print(json.dumps({"call": said, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main()
