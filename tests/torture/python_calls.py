"""Wrong calls of everything that Python programs use, from a seed; run as a program.

A call begins right, and one or two of its arguments become something from a pool, go, change
places, or are joined by others. What comes of it must be a result where all arguments may stand
there (`right_arguments`, written apart from the code under test), and else one sentence.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import io
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
from lanescope import Engine, LanescopeError, Memory, Operation, Timing
from lanescope.boosting import arrays
from lanescope.compression import channel
from lanescope.compression.deciding import Always, Decision
from lanescope.compression.parcels import read_parcel
from lanescope.compression.rule import CodecCost, LinkCost
from lanescope.copies import Access, Submission
from lanescope.copies.experiment import Case, Cell, Matrix
from lanescope.machine import (
    Gpu,
    Latencies,
    Link,
    LinkKind,
    NumaNode,
    PcieLink,
    Switch,
    machine_named,
)
from lanescope.prediction.costs import Rules
from lanescope.prediction.equations import Equations
from lanescope.prediction.graphs import graph_for
from lanescope.prediction.predictor import Method, Workload
from lanescope.prediction.replay import Replay
from lanescope.prediction.stored_parameters import named_parameters
from lanescope.results import (
    CopyResult,
    Source,
    Statistics,
    Status,
    Verdict,
)
from lanescope.store.run import Manifest
from lanescope.studies import running
from lanescope.studies.nvbandwidth_cases import CaseOptions
from lanescope.studies.taruc import (
    ContentionParameters,
    NurmaParameters,
    Only,
    Parameters,
    SizeParameters,
)
from tests.compression.gpu_stand_ins import Core
from tests.fake_backend import FakeBackend
from tests.torture.right_arguments import K20, Tensor, right_at

H200S = machine_named("h200-x2")
#: As if it were here: `running.backend_for` gives a fake.
HERE = dataclasses.replace(H200S, described=False)
FAKE = FakeBackend(lambda copy, batch: [copy.bytes / 50e9] * 6)
HOST, GPU = lanescope.Place("h0", Memory.PINNED), lanescope.Place("g0", Memory.DEVICE)
COPY = lanescope.Copy(HOST, GPU, 1 << 20, Engine.CE)
EXPERIMENT = lanescope.Experiment("mine", "mine", (COPY,))
WORK = Workload(1 << 20, 1 << 20, 1e-3)
STATISTICS = Statistics(6, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0)
VERDICT = Verdict(Status.HEALTHY, "it is")
COPY_RESULT = CopyResult(COPY, np.ones(6), STATISTICS, 58.0, "PCIe", VERDICT)
MANIFEST = Manifest("check", "x", "2026-11-22T10:00:00+00:00", "0", H200S)
CELL, MATRIX = Cell(0, 0, "mine", (0,)), Matrix("", "x", 1, 1, ())
STREAM = lanescope.compress(np.arange(9.0))
ROOT = Path(__file__).resolve().parents[2]
STORED, WATCHED = ROOT / "benchmarks/results/h200-x1/model", ROOT / "tests/data/h200-watch/idle"
SMALL = Parameters(overhead=SizeParameters(min_bytes=100, max_bytes=100))
LINK = LinkCost(50.0)
CODEC = CodecCost(400.0, 500.0)


def calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Return by name what is called, and arguments that are right."""
    plan = lanescope.Plan(0.5, 0.0)
    one = {"machine": H200S, "plan": plan}
    here = {"machine": HERE, "plan": plan, "gpus": [0]}
    deep = {
        name: getattr(importlib.import_module(f"lanescope.{module}"), name)
        for module, name in (
            ("prediction.rank", "rank"),
            ("prediction.replay", "replay"),
            ("studies.ocean.case", "ocean"),
            ("compression.rule", "break_even"),
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
        "nccl": here | {"sizes": [1 << 20], "gpus": [0, 1]},
        "streams": here | {"size_bytes": 1 << 20, "counts": [1, 2]},
        "measure": one | {"experiment": EXPERIMENT, "backend": FAKE},
        "taruc": one | {"parameters": SMALL, "benchmarks": ["overhead"], "only": Only(gpus=(0,))},
        "compress": {"values": np.arange(9.0), "codec": "delta", "threads": 1},
        "decompress": {"stream": STREAM},
        "to_gpu": {"array": np.arange(9.0), "out": Tensor(np.arange(9.0)), "gpu": 0},
        "to_host": {"tensor": Tensor(np.arange(9.0)), "out": np.arange(9.0)},
        "boost": {},
        "predict": {
            "h2d_bytes": 1 << 20,
            "d2h_bytes": 64,
            "kernel_seconds": 1e-3,
            "streams": [1, 2],
        }
        | {"parameters": K20},
        "fit": {"run": str(STORED / "fit")},
        "validate": {"run": str(STORED / "validate"), "predictor": "equations"},
        "advise": {"run": str(WATCHED), "parameters": K20},
        "read_run": {"folder": "stored"},
        "load_machine": {"path": "machine.toml"},
        "discover": {},
        "node": {"within": 3.0},
        "topo": {"machine": H200S},
        "watch": {"program": ["true"], "sources": ["trace"], "interval_seconds": 1e-3},
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
        SizeParameters: {"min_bytes": 8, "max_bytes": 64},
        NurmaParameters: {"gap_bytes": 8},
        ContentionParameters: {"repeats": 1},
        Parameters: {"tag": "x", "host": SizeParameters()},
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
    _copy_nothing()
    how = {"workload": WORK, "method": Method.STREAMS, "streams": 2, "parameters": K20}
    peer, host = _channels()
    parcel, leaving = host.begin_offload(Tensor(np.arange(9.0)))
    pages = host.offload_many([])
    methods = {
        H200S.node: {"index": 0},
        H200S.gpu: {"index": 1},
        Equations().predict: how,
        Replay().predict: how,
        peer.send: {"values": Tensor(np.arange(9.0)), "tag": "x"},
        host.offload: {"values": Tensor(np.arange(9.0))},
        host.restore: {"parcel": parcel},
        host.begin_offload: {"values": Tensor(np.arange(9.0)), "tag": "x"},
        host.begin_restore: {"parcel": parcel, "out": Tensor(np.arange(9.0))},
        host.join: {"record": leaving, "stream": 0},
        host.prepare: {"size": 64},
        host.offload_many: {"arrays": [], "tag": "x"},
        host.restore_many: {"parcel": pages},
        host.trim: {"keep_bytes": 64},
        host.load: {"source": _saved(pages)},
        peer.send_many: {"arrays": []},
        read_parcel: {"source": _saved(pages)},
        peer.synchronize: {},
        peer.last.wait: {},
    }
    return (
        {name: (getattr(lanescope, name), right) for name, right in named.items()}
        | {target.__name__: (target, right) for target, right in told.items()}
        | {target.__qualname__: (target, right) for target, right in methods.items()}
    )


def _saved(parcel: Any) -> bytes:
    file = io.BytesIO()
    parcel.save(file)
    return file.getvalue()


def _channels() -> list[lanescope.Channel]:
    """Return a channel to a GPU, with a transfer, and one to the host, with cores that are none."""
    names = ("DeviceChannel", "HostChannel", "reach_each_other")
    kept = {name: getattr(channel.native, name) for name in names}
    try:
        Core.prepare = lambda self, size: None  # type: ignore[attr-defined]
        Core.trim = lambda self, keep_bytes: 0  # type: ignore[attr-defined]
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


def _copy_nothing() -> None:
    """Have `to_gpu` and `to_host` check what they are given, and do no more."""
    for name in ("copy_to_gpu", "copy_to_host"):
        setattr(arrays, name, lambda *given: None)
    arrays.current_stream = lambda framework, gpu: 0
    arrays.new_host_array = lambda framework, shape, dtype: np.empty(shape)


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
        *(
            lanescope.Place,
            lanescope.check,
            Parameters(),
            Only(),
            SizeParameters(),
            CaseOptions(),
            Verdict,
        ),
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
    channel.require_gpus = _require_two
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
