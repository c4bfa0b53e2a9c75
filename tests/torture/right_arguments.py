"""What may stand in an argument of a public call: written apart from the code that checks it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import lanescope
from lanescope import Engine, Memory, Operation, Timing
from lanescope.compression.pages import PageParcel
from lanescope.compression.rule import CodecCost, LinkCost
from lanescope.compression.transfers import Parcel, Record
from lanescope.copies import Access, Caches, Pattern, Purpose, Route, Submission
from lanescope.copies.experiment import Case, Cell, Matrix, Unit
from lanescope.engine.base import Deadline
from lanescope.machine import (
    Gpu,
    HostBandwidth,
    Latencies,
    Link,
    LinkKind,
    Nic,
    NumaNode,
    NvLink,
    PcieLink,
    Switch,
    machine_named,
)
from lanescope.prediction.costs import IntervalPart, Rules
from lanescope.prediction.equations import Equations
from lanescope.prediction.graphs import Order, TaskGraph
from lanescope.prediction.predictor import Method, Workload
from lanescope.prediction.replay import Replay
from lanescope.prediction.stored_parameters import named_parameters
from lanescope.results import (
    CopyResult,
    LinkEvidence,
    Source,
    Statistics,
    Status,
    Stop,
    Verdict,
)
from lanescope.store.folder import State
from lanescope.store.run import Against, Manifest
from lanescope.studies.nvbandwidth_cases import CaseOptions
from lanescope.studies.taruc import (
    Benchmark,
    ContentionParameters,
    NurmaParameters,
    Only,
    Parameters,
    SizeParameters,
)
from lanescope.units.sizes import size_of
from tests.compression.gpu_stand_ins import stand_in
from tests.fake_backend import FakeBackend

H200S = machine_named("h200-x2")
#: As if it were here: `running.backend_for` gives a fake.

Tensor = stand_in("torch")

K20 = named_parameters("k20")

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


def nothing(value: Any) -> bool:
    """Whether it is a list of nothing."""
    return isinstance(value, list | tuple) and len(value) == 0


def saved_parcel(value: Any) -> bool:
    """Whether it is the bytes of a parcel that was saved."""
    return isinstance(value, bytes) and value[:4] == b"LSCP"


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
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iufbc"


def nine(value: Any) -> bool:
    """Whether it is an array like the one that is on a GPU."""
    return type(value) is np.ndarray and value.shape == (9,) and value.dtype == np.float64


_MACHINE = maybe(lambda value: isinstance(value, lanescope.Machine) or path(value))
_NAMES = several(text, empty=True)
#: What may stand where, by the name of the parameter, or by call and parameter.
RIGHT: dict[str, Right] = {
    "bytes": size,
    "size_bytes": size,
    "processes": flag,
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
    "memories": maybe(several(member(Memory))),
    "options": maybe(a(CaseOptions)),
    "copies": text,
    "counts": several(whole(1)),
    "methods": maybe(several(member(Submission))),
    "smallest": size,
    "sweep.largest": maybe(size),
    "largest": size,
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
    "decompress.max_bytes": maybe(size),
    **dict.fromkeys(("compress.base", "decompress.base"), lambda value: value is None),
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
    "chunk_repeats": maybe(whole(1)),
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
    "purpose": member(Purpose),
    "staged": flag,
    "pattern": member(Pattern),
    "span_bytes": maybe(size),
    "stride_bytes": maybe(size),
    "caches": member(Caches),
    "target": lambda value: number(value) and 0 < value < 1,
    "budget_seconds": number,
    "within_seconds": maybe(number),
    "noisy_seconds": maybe(number),
    "node.within": number,
    "node.expected": maybe(path),
    "deadline": maybe(a(Deadline)),
    "samples": maybe(whole(1)),
    "verify": flag,
    "node": maybe(whole()),
    "pairs": maybe(whole(1)),
    "pair": maybe(several(text)),
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
    "ContentionParameters.memory_bytes": maybe(size_or_none),
    "socket_bytes": maybe(size_or_none),
    "repeats": maybe(whole()),
    "tag": text,
    "steps_per_decade": whole(),
    **dict.fromkeys(("all_gpus", "all_memories", "sockets", "burst", "range", "sustained"), flag),
    **dict.fromkeys(("overhead", "host", "hostdev", "peer"), a(SizeParameters)),
    "nurma": a(NurmaParameters),
    "contention": a(ContentionParameters),
    "Machine.cpu": maybe(text),
    "Machine.nodes": several(a(NumaNode), empty=True),
    "Machine.gpus": several(a(Gpu), empty=True),
    "switches": several(a(Switch), empty=True),
    "nics": several(a(Nic), empty=True),
    "host_bandwidth": several(a(HostBandwidth), empty=True),
    "links": several(a(Link), empty=True),
    "driver": maybe(text),
    "cuda_version": maybe(text),
    "latencies": a(Latencies),
    "notes": several(text, empty=True),
    "described": flag,
    "confidential": flag,
    "index": whole(),
    "cores": several(several(whole(), empty=True), empty=True),
    "cache_bytes": maybe(whole()),
    **dict.fromkeys(("memory_gbs", "raw_gbs"), maybe(number)),
    **dict.fromkeys(
        ("memory_detail", "pci_address", "uuid", "vbios", "nvlink_domain", "unavailable", "remedy"),
        maybe(text),
    ),
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
    "was_read": flag,
    "against": maybe(a(Against)),
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
    **dict.fromkeys(("mapped_reads", "mapped_writes", "mapped_contention"), number),
    **dict.fromkeys(("predict.mapped_reads", "predict.mapped_writes"), maybe(number)),
    "predict.mapped_contention": maybe(number),
    **dict.fromkeys(("mapped_assumed", "fresh_output", "host_cached", "has_kernel"), flag),
    "steps": maybe(number),
    "Workload.kernel_parts": lambda value: value == (),
    "host_seconds": number,
    "what_if": lambda value: value is None,
    "predict.kernel_watches": lambda value: value in ((), []),
    "predict.kernel_parts": lambda value: value in ((), [], {}),
    "predict.measured": lambda value: value in ((), [], {}),
    "share": number,
    **dict.fromkeys(("flops", "device_bytes"), maybe(number)),
    "workload": a(Workload),
    "predictor": a(Equations, Replay),
    "streams": several(whole()),  # what cannot be is left out
    "rank.parameters": lambda value: value is K20,
    "rank.methods": several(member(Method)),
    **dict.fromkeys(
        ("predict.parameters", "validate.parameters", "advise.parameters"),
        maybe(lambda value: value is K20 or path(value)),
    ),
    "predict.streams": lambda value: isinstance(value, str) or several(whole(1))(value),
    "predict.kernel_seconds": maybe(number),
    "on": several(text, empty=True),
    "peak_flops": maybe(number),
    "predict.gpus": maybe(whole(1)),
    **dict.fromkeys(("predict.predictor", "validate.predictor", "grid"), maybe(text)),
    **dict.fromkeys(("fit.run", "validate.run"), maybe(path)),
    "advise.run": path,
    "advise.predictor": text,
    "fit.gpu": whole(),
    "validate.gpu": maybe(whole()),
    "replay.parameters": lambda value: value is K20,
    "named_parameters.name": maybe(path),
    "runs": maybe(path),
    "graph_for.method": member(Method),
    "graph_for.streams": whole(1),
    "parts": maybe(whole(1)),
    "order": member(Order),
    "program": lambda value: value == ["true"],
    "everything": lambda value: value is False,
    **dict.fromkeys(("pid", "watch.seconds"), lambda value: value is None),
    "sources": lambda value: value is None or value in ("trace", ["trace"], ("trace",)),
    "interval_seconds": lambda value: value == 1e-3,
    **dict.fromkeys(("watch.trace", "boost", "kernels", "managed", "addresses", "hashes"), flag),
    "python_bytes": maybe(size),
    "max_spool_bytes": maybe(lambda value: size(value) and size_of(value) >= 1 << 20),
    "shared": flag,
    "Replay.name": text,
    "is_slow": flag,
    "rules": a(Rules),
    "before_share": number,
    "kernels_at_once": whole(),
    "in_call_order": maybe(flag),
    "many_waves": flag,
    "graph": a(TaskGraph),
    "level": member(IntervalPart),
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
    **dict.fromkeys(
        (f"Channel.{call}.values" for call in ("send", "offload", "begin_offload")), a(Tensor)
    ),
    "Channel.begin_restore.out": a(Tensor),
    "Channel.join.record": a(Record),
    "Channel.join.stream": whole(),
    **dict.fromkeys(("Channel.send.out", "Channel.restore.out"), lambda value: value is None),
    **dict.fromkeys(
        (f"Channel.{call}.base" for call in ("send", "offload", "restore")),
        lambda value: value is None,
    ),
    **dict.fromkeys(
        (f"Channel.{call}.tag" for call in ("send", "offload", "begin_offload")), maybe(text)
    ),
    "parcel": a(Parcel),
    **dict.fromkeys(
        ("Channel.restore_many.out", "Channel.send_many.out", "Channel.restore_many.which"),
        maybe(nothing),
    ),
    **dict.fromkeys(("Channel.offload_many.arrays", "Channel.send_many.arrays"), nothing),
    **dict.fromkeys(("pages", "out_pages"), lambda value: value is None),
    **dict.fromkeys(("Channel.offload_many.tag", "Channel.send_many.tag"), maybe(text)),
    "Channel.offload_many.together": flag,
    "Channel.restore_many.parcel": a(PageParcel),
    "Channel.trim.keep_bytes": size_or_none,
    **dict.fromkeys(("Channel.load.source", "read_parcel.source"), saved_parcel),
    "Channel.load.framework": maybe(member(("torch", "cupy"))),
    "read_parcel.framework": member(("numpy", "torch")),
    "Channel.prepare.size": size_or_none,
    "to_gpu.array": nine,
    **dict.fromkeys(("to_gpu.out", "to_host.tensor"), a(Tensor)),
    "to_gpu.gpu": lambda value: value is None or (whole()(value) and value == 0),
    "to_host.out": maybe(nine),
    "compress": flag,
    **dict.fromkeys(("raw_seconds", "compressed_seconds"), maybe(number)),
    **dict.fromkeys(("Equations.predict.method", "Replay.predict.method"), member(Method)),
    **dict.fromkeys(("Equations.predict.streams", "Replay.predict.streams"), whole(1)),
    **dict.fromkeys(
        ("Equations.predict.parameters", "Replay.predict.parameters"), lambda value: value is K20
    ),
}


def right_at(call: str, argument: str) -> Right:
    """Return what may stand in a call's argument; one that nobody thought of is a `KeyError`."""
    return RIGHT.get(f"{call}.{argument}") or RIGHT[argument]
