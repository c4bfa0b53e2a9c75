"""The compiled core as it is called: copies in its form, graphs of tasks, failures as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from lanescope._core import native
from lanescope.copies import Caches, Copy, Place, Route
from lanescope.copies.kernel_shapes import SmShape
from lanescope.copies.terms import PLAIN, Operation
from lanescope.engine.base import TooLateError
from lanescope.errors import NotMeasuredError
from lanescope.machine import Machine
from lanescope.machine.part_names import own_number, part_number
from lanescope.results import FloatArray

_WORK = {Operation.READ: native.SmWork.read, Operation.WRITE: native.SmWork.write}
#: No clock here has finer steps.
CLOCK_SECONDS = 1e-9
#: Reason and remedy, by CUDA's name of the error.
_KNOWN = {
    "cudaErrorMemoryAllocation": (
        "There is not enough free memory on the GPU, or not enough host memory to pin.",
        "End what uses it, raise 'ulimit -l', or take a smaller size.",
    ),
    "cudaErrorDevicesUnavailable": (
        "CUDA cannot begin on the GPU: it is in exclusive-process mode and held by another "
        "process, or it has no memory left.",
        "End that process, or ask the administrator for the default compute mode.",
    ),
    "cudaErrorInsufficientDriver": (
        "There is no NVIDIA driver, or it is too old for CUDA 13.0.",
        "Install driver 580 or newer.",
    ),
    "cudaErrorUnsupportedPtxVersion": (
        "The NVIDIA driver is older than CUDA 13.0, which compiled lanescope's kernels.",
        "Install driver 580 or newer.",
    ),
    "cudaErrorNoDevice": ("CUDA sees no GPU.", "Look at nvidia-smi and CUDA_VISIBLE_DEVICES."),
    "cudaErrorTimeout": (
        "The GPU did not answer in time.",
        "Look for Xid errors in the kernel log (dmesg).",
    ),
    "gate timeout": (
        "The copies could not be queued before the gate opened by itself.",
        "Look for other load on the CPUs, and try again.",
    ),
    "no peer access": (
        "The GPUs cannot reach each other's memory, and a kernel needs that.",
        "Use the copy engine; 'nvidia-smi topo -p2p r' shows what is possible.",
    ),
    "chunk too large": (
        "A ring of chunks this large does not fit into the shared memory of an SM.",
        "Give a smaller chunk.",
    ),
    "kernel apart": (
        "The thread blocks of a copy kernel did not all run at the same time.",
        "Look for other programs on the GPU, as under MPS, or take fewer SMs.",
    ),
    "binding forbidden": (
        "This process may not bind memory to a NUMA node.",
        "A container needs CAP_SYS_NICE for that (docker run --cap-add SYS_NICE).",
    ),
    "no huge pages": (
        "The kernel gives no huge pages.",
        "Write 'madvise' or 'always' to /sys/kernel/mm/transparent_hugepage/enabled, and look for "
        "fragmented memory.",
    ),
    "no cache flush": (
        "No instruction of this CPU is known that flushes its caches.",
        "Leave the caches warm.",
    ),
    "cudaErrorCallRequiresNewerDriver": (
        "Not applicable: this driver is too old for the call.",
        "Install a newer one.",
    ),
    "cudaErrorNotSupported": ("Not applicable: this driver or GPU does not do it.", None),
    "cudaErrorHostMemoryAlreadyRegistered": ("The host memory is pinned already.", None),
}
#: What the core refuses before any driver is asked; the detail says why.
_REFUSED_BY_CORE = {
    "bad tasks",
    "bad numbers",
    "bad memory",
    "bad grid",
    "no grid",
    "level too large",
    "no such levels",
}
#: After these the device answers nothing any more in this process.
_DEVICE_LOST = {
    "cudaErrorTimeout",
    "cudaErrorLaunchFailure",
    "cudaErrorLaunchTimeout",
    "cudaErrorIllegalAddress",
    "cudaErrorECCUncorrectable",
    "cudaErrorNvlinkUncorrectable",
    "cudaErrorHardwareStackError",
    "cudaErrorContained",
    "cudaErrorDevicesUnavailable",
    "cudaErrorUnknown",
}
#: What a call is ended by when the time for making something ready is over.
_TOO_LATE = "too late"
_FEWEST, _MOST = 5, 200
#: Runs before those that count: the core's own, and one whose time tells how many follow.
UNCOUNTED_RUNS = 2


def place_spec(place: Place) -> native.PlaceSpec:
    """Return a place as the core takes it."""
    kind = str(place.memory).replace("-", "_")
    return native.PlaceSpec(getattr(native.Memory, kind), place.own_index)


def device_of(copy: Copy) -> int:
    """Return the number, on its node, of the GPU whose engine works; host threads have none."""
    assert copy.executing_gpu is not None, "host threads have a session of their own"
    return own_number(part_number(copy.executing_gpu))


def copy_spec(copy: Copy, shape: SmShape | None = None) -> native.CopySpec:
    """Return a copy as the core takes it; `shape` is that of its kernel, if it has one."""
    sm = None
    if shape is not None:
        step = -1 if shape.in_step_with is None else shape.in_step_with
        sm = native.SmShape(
            shape.sms,
            shape.chunk_bytes,
            shape.pace_gbs,
            step,
            shape.chunk_repeats,
            _WORK.get(copy.operation, native.SmWork.copy),
        )
    ends = place_spec(copy.source), place_spec(copy.destination)
    access = copy.access or PLAIN
    return native.CopySpec(
        *ends,
        copy.bytes,
        device_of(copy),
        list(copy.cpus),
        sm,
        span_bytes=copy.span_bytes,
        pattern=getattr(native.BlockPattern, str(access.pattern)),
        flushed=access.caches is Caches.FLUSHED,
        route=getattr(native.Route, str(copy.route or Route.UVA)),
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed call means.

    Attributes
    ----------
    error
        To raise for this experiment.
    device_lost
        Whether later experiments on the same GPU need not be tried.
    """

    error: NotMeasuredError
    device_lost: bool


def reason_for(call: str, code: int, name: str, detail: str, where: str) -> Failure:
    """Explain a `NativeError` by its arguments."""
    if name == _TOO_LATE:
        return Failure(TooLateError(), device_lost=False)
    if name in _KNOWN:
        reason, remedy = _KNOWN[name]
    elif name == "no code":
        reason = f"{detail[:1].upper()}{detail[1:]}."
        remedy = "Build it for this GPU (LANESCOPE_ARCHITECTURES=all make), or install a release."
    elif name == "pages elsewhere":
        reason = f"{detail[:1].upper()}{detail[1:]}."
        remedy = "Free memory of that node, and look at /proc/sys/kernel/numa_balancing."
    elif name in _DEVICE_LOST:
        reason = f"The GPU failed in the middle: {detail}."
        remedy = "Look for Xid errors in the kernel log (dmesg); a reset or reboot may be needed."
    elif name in _REFUSED_BY_CORE:
        reason, remedy = f"{detail[:1].upper()}{detail[1:]}.", None
    elif name == "no nccl":
        reason = f"NVIDIA's NCCL cannot be opened: {detail}."
        remedy = "pip install nvidia-nccl-cu13, or name libnccl.so.2 in LANESCOPE_NCCL."
    elif name == "NCCL failed":
        reason, remedy = f"NCCL refused: {detail}.", "Set NCCL_DEBUG=WARN to see why."
    elif name == "errno 12":
        reason, remedy = "The system has not enough memory.", "Take a smaller size."
    else:
        who = "driver" if name.startswith("cudaError") else "system"
        reason, remedy = f"The {who} refused: {detail}.", None
    numbered = name if name == f"errno {code}" else f"{name} {code}"
    trace = f"[{call}: {numbered}, {where}]"
    return Failure(NotMeasuredError(f"{reason} {trace}", remedy), name in _DEVICE_LOST)


def require_equal(mismatches: int, unit: str, verb: str = "arrived") -> None:
    """Raise `NotMeasuredError` if what arrived is not what was sent."""
    if mismatches:
        raise NotMeasuredError(
            f"{mismatches} {unit} {verb} wrong: the data was corrupted on the way.",
            "Look for ECC and Xid errors in the kernel log; do not trust this path.",
        )


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """Seconds of each run: shape (runs,).

    Attributes
    ----------
    calls
        Until the last call had returned.
    seconds
        From the first call until the host had seen the end of all.
    held
        What the device took alone, once all was handed over; None where nothing was held back.
    """

    calls: FloatArray
    seconds: FloatArray
    held: FloatArray | None = None


def near_cpu(machine: Machine, gpu: int) -> list[int]:
    """Return one CPU of the NUMA node next to a GPU, or none where no node is known.

    One, as a thread that wanders from core to core makes its calls in two or three different times.
    The last, as the first ones of a machine often have its interrupts.
    """
    node = machine.gpu(gpu).node
    alone = len(machine.nodes) == 1
    cores = [core for one in machine.nodes if alone or one.index == node for core in one.cores]
    return [cores[-1][0]] if cores else []


def measure_graph(
    graph: native.TaskGraph, budget_seconds: float, *, held: bool = False
) -> TaskTimes:
    """Run a graph again and again for about so long; at least five times, at most 200.

    Raises
    ------
    NotMeasuredError
        If the GPU fails or does not answer.
    """
    with native_errors():
        first = graph.run(1)[0].seconds
        runs = int(np.clip(budget_seconds / max(first, 1e-9), _FEWEST, _MOST))
        times = graph.run(runs)
        alone = np.array(graph.run_held(runs)) if held else None
    calls = np.array([one.call_seconds for one in times])
    return TaskTimes(calls, np.array([one.seconds for one in times]), alone)


@contextmanager
def native_errors() -> Iterator[None]:
    """Turn what the core says of a GPU into one sentence.

    Raises
    ------
    NotMeasuredError
        If the core could not do what it was asked for.
    """
    try:
        yield
    except native.NativeError as error:
        raise reason_for(*error.args).error from error


def copy_task(
    down: bool,
    offset: int,
    size: int,
    *,
    stream: int = 0,
    array: int = 0,
    after: Sequence[int] = (),
) -> native.TaskSpec:
    """Return a copy of a part of an array to the GPU, or back."""
    kind = native.TaskKind.h2d if down else native.TaskKind.d2h
    return native.TaskSpec(
        kind, stream=stream, array=array, offset=offset, bytes=size, after=list(after)
    )


def kernel_task(
    first: int = 0, count: int = 0, *, stream: int = 0, after: Sequence[int] = ()
) -> native.TaskSpec:
    """Return a launch of the graph's kernel."""
    return native.TaskSpec(
        native.TaskKind.kernel, stream=stream, first=first, count=count, after=list(after)
    )
