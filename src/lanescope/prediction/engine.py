"""Predicts experiments on a described machine from its limits and latencies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from math import ceil
from operator import attrgetter

import numpy as np

from lanescope.copies import Copy, Engine, Experiment, Memory
from lanescope.copies.limit import Limit, limits, missing_field, staging_node
from lanescope.copies.patterns import reach_each_other
from lanescope.errors import NotMeasuredError
from lanescope.machine import Machine
from lanescope.results.result import FloatArray, LinkEvidence, Source
from lanescope.units.bandwidth import transfer_seconds
from lanescope.units.sizes import size_text
from lanescope.units.words import time_text

#: Copies that take this long are predicted without a known latency: it is a per cent or so.
_LATENCY_FREE_SECONDS = 1e-3
_MIB = 1 << 20

#: What limits may depend on: not how many bytes a copy moves, from which addresses, and on
#: which CPUs.
_FIELDS = attrgetter(
    *(f.name for f in fields(Copy) if f.name not in ("bytes", "pieces", "access", "cpus"))
)


class ModelBackend:
    """Every copy takes its latency and goes at its limit: an upper bound, not a habit."""

    source = Source.PREDICTED

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[tuple[object, ...], tuple[Limit, ...]] = {}

    @contextmanager
    def prepare(self, experiment: Experiment) -> Iterator[ModelSession]:
        """Predict the experiment; see `Backend.prepare`."""
        for copy in experiment.copies:
            _require_reachable(self._machine, copy)
        yield ModelSession(self._machine, experiment, self._limits(experiment))

    def _limits(self, experiment: Experiment) -> tuple[Limit, ...]:
        """Return the limits of a set; of sets that differ in size alone they are the same."""
        key = tuple(map(_FIELDS, experiment.copies))
        if key not in self._known:
            self._known[key] = limits(self._machine, experiment)
        return self._known[key]


class ModelSession:
    """One predicted experiment."""

    staged = False

    def __init__(self, machine: Machine, experiment: Experiment, bounds: tuple[Limit, ...]) -> None:
        known = machine.latencies.source or "none given: latency left out"
        self.method = f"predicted: latency + bytes / limit of the links; latencies: {known}"
        self._seconds = [
            _seconds(machine, copy, bound)
            for copy, bound in zip(experiment.copies, bounds, strict=True)
        ]

    def sample(self) -> list[FloatArray]:
        """Return one predicted time for each copy."""
        return [np.array([seconds]) for seconds in self._seconds]

    def check(self) -> None:
        """Nothing was moved."""

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Nothing was seen."""
        return ()


def _require_reachable(machine: Machine, copy: Copy) -> None:
    gpus = [machine.gpu(p.index) for p in (copy.source, copy.destination) if not p.is_host]
    for gpu in gpus:
        if gpu.unavailable is not None:
            raise NotMeasuredError(f"{gpu.id} is not usable: {gpu.unavailable}")
    by_kernel = copy.engine is Engine.SM and len(gpus) == 2 and gpus[0] != gpus[1]
    if by_kernel and not reach_each_other(*gpus):
        raise NotMeasuredError(
            f"{gpus[0].id} and {gpus[1].id} cannot reach each other's memory, and a kernel takes "
            "no copy through the host.",
            "Take the copy engine.",
        )


def _seconds(machine: Machine, copy: Copy, bound: Limit) -> float:
    if copy.operation.is_latency:
        raise NotMeasuredError("A latency is measured, not predicted.", "Run it on the machine.")
    if copy.engine is Engine.NCCL:
        raise NotMeasuredError("NCCL is measured, not predicted.", "Run it on the machine.")
    rate = bound.gbs
    if Memory.PAGEABLE in (copy.source.memory, copy.destination.memory) and not _host_only(copy):
        staging = machine.latencies.pageable_gbs
        if staging is None:
            raise NotMeasuredError(
                "The machine file does not say how fast pageable memory is staged.",
                "Give pageable_gbs under [latencies] there.",
            )
        rate = staging if rate is None else min(rate, staging)
    if rate is None:
        raise NotMeasuredError(
            f"Nothing to predict from: {bound.reason}.", missing_field(machine, copy)
        )
    transfer = transfer_seconds(copy.counted_bytes, rate)
    if _host_only(copy) and transfer < _LATENCY_FREE_SECONDS:
        least = copy.bytes * _LATENCY_FREE_SECONDS / transfer
        raise NotMeasuredError(
            f"A host copy of {size_text(copy.bytes)} takes {time_text(transfer)} at its limit: a "
            "good part of so short a time is call and cache, which limits do not tell.",
            f"Predict one of {size_text(ceil(least / _MIB) * _MIB)} or more, or run it on the "
            "machine.",
        )
    latency = _latency_seconds(machine, copy)
    if latency is None and transfer < _LATENCY_FREE_SECONDS:
        raise NotMeasuredError(
            "Of a copy this short a good part is latency, which the machine file does not tell.",
            "Give h2d_us, d2h_us and d2d_us under [latencies] there.",
        )
    return (latency or 0.0) + transfer


def _host_only(copy: Copy) -> bool:
    return copy.source.is_host and copy.destination.is_host


def _latency_seconds(machine: Machine, copy: Copy) -> float | None:
    if _host_only(copy):
        return 0.0
    known = machine.latencies
    if staging_node(machine, copy) is not None:  # one copy to the host, one from it
        both = (known.d2h_us, known.h2d_us)
        return None if None in both else sum(filter(None, both)) * 1e-6
    if copy.source.is_host:
        latency = known.h2d_us
    else:
        latency = known.d2h_us if copy.destination.is_host else known.d2d_us
    return None if latency is None else latency * 1e-6
