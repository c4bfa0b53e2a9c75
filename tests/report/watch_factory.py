"""Watches made of numbers, as sources would have seen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from lanescope.document.blocks import Block
from lanescope.document.contents import Finding
from lanescope.findings.trace import evaluate_watch
from lanescope.machine import Machine
from lanescope.report.terminal import renderables
from lanescope.store.folder import State
from lanescope.studies.watch_blocks import summary_sections
from lanescope.studies.watch_report import watch_page_html
from lanescope.trace.codes import MemoryKind, OperationCode
from lanescope.trace.run import SourceRecord, WatchManifest, WatchRun
from lanescope.trace.summary import Summary
from lanescope.trace.timeline import Counters, Operations, Process, Timeline
from tests.report import factory

START = 1_795_000_000_123_456_789
PID = 4711
SOURCES = (
    SourceRecord("pm", True, samples=10_000, lost_samples=12, cpu_seconds=0.0312),
    SourceRecord(
        "counters", False, "NVML has no byte counters here", "update the driver to 550 or newer"
    ),
    SourceRecord("trace", True, cpu_seconds=None),
)


def counters(
    n: int = 10_000, interval_ns: int = 100_000, gpu: int = 0, source: str = "pm", seed: int = 1
) -> Counters:
    """Bursts to and from a GPU, with noise; a hundredth in the middle was lost."""
    random = np.random.default_rng(seed)
    end_ns = START + interval_ns * np.arange(1, n + 1) + random.integers(-40, 40, n)
    phase = (np.arange(n) / max(1, n) * 20) % 1
    full = 55 * interval_ns  # 55 GB/s
    rx = np.where(phase < 0.4, full * random.normal(1, 0.01, n), random.integers(80, 200, n))
    tx = np.where((phase > 0.3) & (phase < 0.6), full * 0.9 * random.random(n), rx * 0.06)
    known = np.ones(n, bool)
    known[:1] = False
    known[n // 2 : n // 2 + n // 100] = False
    rx, tx = (np.abs(column).astype(np.int64) for column in (rx, tx))
    return Counters(source, gpu, interval_ns, end_ns, rx, tx, known, 12, 0.0312)


def operations(n: int = 300, seconds: float = 1.0, gpu: int = 0, seed: int = 1) -> Operations:
    """Rounds of a copy there, a kernel and a copy back; every third copy from pageable memory."""
    random = np.random.default_rng(seed)
    what = np.resize([OperationCode.COPY, OperationCode.KERNEL, OperationCode.COPY], n)
    back = np.arange(n) % 3 == 2
    copied = what == OperationCode.COPY
    size = np.where(copied, 1 << random.integers(12, 24, n), 0)
    each = seconds * 1e9 / max(1, n)
    start = START + (each * np.arange(n)).astype(np.int64)
    lasted = np.where(copied, 1500 + size / 55, random.integers(3_000, 60_000, n))
    host = np.where(np.arange(n) // 3 % 3 == 0, MemoryKind.PAGEABLE, MemoryKind.PINNED)
    device = MemoryKind.DEVICE
    ends: dict[str, Any] = {
        "source_kind": np.where(copied, np.where(back, device, host), 0),
        "destination_kind": np.where(copied, np.where(back, host, device), 0),
        "source_device": np.where(back, gpu, -1),
        "destination_device": np.where(back, -1, gpu),
    }
    return Operations.of(
        ("", "cudaMemcpyAsync", "void matmul<float>(float const*, float*, int)"),
        pid=np.full(n, PID),
        what=what,
        start_ns=start,
        end_ns=start + np.minimum(lasted, each * 0.95).astype(np.int64),
        bytes=size,
        asynchronous=copied,
        device=np.full(n, gpu),
        stream=np.where(back, 14, 7),
        thread=np.full(n, PID + 1),
        name=np.where(copied, 1, 2),
        **ends,
    )


def watch_run(
    timeline: Timeline | None = None,
    machine: Machine | None = None,
    folder: Path | None = None,
    **more: Any,
) -> WatchRun:
    """A watch of one second of ``./matmul``, unless told otherwise."""
    if timeline is None:
        timeline = Timeline(
            START, START + 10**9, (counters(),), operations(), (process(), process(PID + 9))
        )
    manifest = WatchManifest(
        command="lanescope watch -- ./matmul --size 3200",
        program=("./matmul", "--size", "3200"),
        started="2026-11-20T14:03:11.25+01:00",
        tool_version="0.4.0",
        machine=machine or factory.two_gpus(),
        start_ns=timeline.start_ns,
        end_ns=timeline.end_ns,
        exit_code=0,
        state=State.COMPLETE,
        sources=SOURCES,
    )
    return WatchRun(replace(manifest, **more), timeline, folder)


def process(pid: int = PID) -> Process:
    """One process; only the first was traced whole."""
    whole = pid == PID
    end_ns = START + 990_000_000 if whole else None
    return Process(pid, "./matmul --size 3200", START + 2_000_000, end_ns, whole, 0 if whole else 7)


def two_gpu_watch() -> WatchRun:
    """Both GPUs, two sources on the first."""
    several = (
        counters(),
        counters(1_000, 1_000_000, source="counters", seed=2),
        counters(gpu=1, seed=3),
    )
    both = Operations.concat([operations(), operations(90, gpu=1, seed=2)])
    return watch_run(Timeline(START, START + 10**9, several, both, (process(),)))


def nasty_run() -> WatchRun:
    """Every text is an attack."""
    some = operations(30)
    named = Operations.of(
        ("", factory.NASTY, factory.NASTY),
        **{k: getattr(some, k) for k in ("what", "start_ns", "end_ns", "bytes", "name")},
    )
    timeline = Timeline(START, START + 10**9, (), named, (Process(1, factory.NASTY, START),))
    return watch_run(
        timeline,
        Machine(factory.NASTY),
        Path(f"/runs/{factory.NASTY}"),
        program=(factory.NASTY, factory.NASTY),
        command=factory.NASTY,
        notes=(factory.NASTY,),
        sources=(SourceRecord(factory.NASTY, False, factory.NASTY, factory.NASTY),),
    )


def shown(sections: Sequence[Block], width: int = 160) -> str:
    """What a terminal shows of blocks."""
    console = Console(width=width, record=True, file=StringIO())
    for part in renderables(sections):
        console.print(part, soft_wrap=True)
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def summary_text(summary: Summary, findings: Sequence[Finding] = ()) -> str:
    """What a terminal shows of a summary."""
    return shown(summary_sections(summary, findings))


def page(run: WatchRun, **options: Any) -> str:
    """The page of a watch, whatever earlier runs have measured."""
    return watch_page_html(run, evaluate_watch(run, Path("/nowhere")), **options)
