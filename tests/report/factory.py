"""Runs made of numbers, as reports get them from measuring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from lanescope.copies import Copy, Engine, Experiment
from lanescope.copies.limit import limits
from lanescope.engine.base import ModelBackend
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import NotMeasuredError
from lanescope.machine import (
    Gpu,
    Latencies,
    Link,
    LinkKind,
    Machine,
    NumaNode,
    NvLink,
    PcieLink,
    Switch,
)
from lanescope.results import Result
from lanescope.store.folder import State
from lanescope.store.run import Manifest, Run
from lanescope.studies.check import check_experiments
from lanescope.studies.nvbandwidth_cases import CaseOptions, build_cases, choose
from lanescope.studies.sweep import sweep_experiments
from lanescope.units.sizes import rising_sizes
from tests.fake_backend import FakeBackend

GIB = 1 << 30
PCIE5 = PcieLink(5, 16, 5, 16, max_payload_bytes=256, max_read_request_bytes=512)
NASTY = "a <b> & \"c\" 'd' </script><script>alert(1)</script>"


def node(index: int, cores: int = 16, gbs: float | None = 307.2) -> NumaNode:
    first = index * cores * 2
    return NumaNode(
        index,
        cores=tuple((first + i, first + cores + i) for i in range(cores)),
        memory_bytes=252 * GIB,
        cache_bytes=105 << 20,
        memory_gbs=gbs,
        memory_detail="8 modules of 4800 MT/s" if gbs else "memory modules cannot be read here",
    )


def gpu(index: int, near: int | None = 0, **more: object) -> Gpu:
    known = Gpu(
        index,
        "NVIDIA H200",
        near,
        f"0000:{0x17 + index * 16:02x}:00.0",
        memory_bytes=141 * GIB,
        compute_capability=(9, 0),
        multiprocessors=132,
        copy_engines=3,
    )
    return replace(known, **more)  # type: ignore[arg-type]


def two_gpus(pcie: PcieLink = PCIE5, gbs: float | None = None, name: str = "node-17") -> Machine:
    fabric = NvLink(18, 26.5625, 4, 18)
    return Machine(
        name=name,
        cpu="Intel Xeon Platinum 8480+",
        nodes=(node(0, gbs=gbs),),
        gpus=(gpu(0), gpu(1)),
        switches=(Switch("nvswitch", "NVSwitch"),),
        links=(
            Link.of_pcie("h0", "g0", pcie),
            Link.of_pcie("h0", "g1", PCIE5),
            Link.of_nvlink("g0", "nvswitch", fabric),
            Link.of_nvlink("g1", "nvswitch", fabric),
        ),
        driver="580.159.04",
        cuda_version="13.0",
        notes=("The speed of the memory modules cannot be read; run as root to see it.",),
    )


def eight_gpus(nodes: int = 2) -> Machine:
    """Two switches on each of two nodes, two GPUs on each switch."""
    fabric = NvLink(18, 26.5625, 4, 18)
    links = [Link(f"h{i}", f"h{i + 1}", LinkKind.SOCKET) for i in range(nodes - 1)]
    switches = [Switch(f"s{i}", "PCIe 5.0 switch", f"0000:{i}0:00.0") for i in range(4)]
    gpus = []
    for i in range(8):
        slow = replace(PCIE5, generation=3) if i == 5 else PCIE5
        if i % 2 == 0:
            links.append(Link.of_pcie(f"h{i // 4}", f"s{i // 2}", PCIE5))
        links.append(Link.of_pcie(f"s{i // 2}", f"g{i}", slow))
        links.append(Link.of_nvlink(f"g{i}", "nvswitch", fabric))
        gone = "It has fallen off the bus (Xid 79)." if i == 6 else None
        gpus.append(gpu(i, i // 4, unavailable=gone))
    return Machine(
        name="dgx-3",
        cpu="2 x Intel Xeon Platinum 8480C",
        nodes=tuple(node(i, 56) for i in range(nodes)),
        gpus=tuple(gpus),
        switches=(*switches, Switch("nvswitch", "NVSwitch")),
        links=tuple(links),
        driver="580.159.04",
    )


def host_only() -> Machine:
    return Machine(name="plain-host", cpu="AMD EPYC 9654", nodes=(node(0, 12, None),))


def run_of(results: list[Result], machine: Machine, **more: object) -> Run:
    manifest = Manifest(
        verb="check",
        command="lanescope check",
        started="2026-11-20T14:03:11.482+01:00",
        tool_version="0.1.0",
        machine=machine,
        state=State.COMPLETE,
    )
    return Run(replace(manifest, **more), tuple(results))  # type: ignore[arg-type]


@cache
def check_run(machine: Machine | None = None, slow: str = "", missing: str = "") -> Run:
    """A check; paths to the part `slow` get half, those to `missing` are not measured."""
    machine = machine or two_gpus()
    ceilings = {
        (e.name, i): bound.gbs
        for e in check_experiments(machine)
        for i, bound in enumerate(limits(machine, e))
    }
    results: list[Result] = []
    for experiment in check_experiments(machine):
        backend = FakeBackend(_player(experiment, ceilings, slow, missing))
        measure_all([experiment], backend, machine, Plan(budget_seconds=0.0), results.append)
    return run_of(results, machine)


def _player(
    experiment: Experiment, ceilings: dict[tuple[str, int], float | None], slow: str, missing: str
):
    def seconds(copy: Copy, batch: int) -> list[float]:
        if missing and missing in (copy.source.part, copy.destination.part):
            raise NotMeasuredError(
                "The GPU is in exclusive-process mode or held by another process.",
                "End that process, or ask the administrator for the default compute mode.",
            )
        ceiling = ceilings[experiment.name, experiment.copies.index(copy)]
        gbs = (ceiling or 210.0) * (0.953 if (ceiling or 999) < 100 else 0.88)
        if copy.engine is Engine.CPU:
            gbs = 180.0 if len(copy.cpus) > 1 else 13.4
        if copy.destination.part == slow:
            gbs *= 0.5
        wobble = [1.0, 1.004, 0.997, 1.011, 0.999, 1.002, 1.001, 1.018, 0.998, 1.0]
        return [copy.counted_bytes / gbs / 1e9 * w for w in wobble]

    return seconds


@cache
def bench_run(
    machine: Machine | None = None,
    cases: tuple[str, ...] = (),
    *,
    slow: str = "",
    missing: str = "",
) -> Run:
    """Cases of nvbandwidth, all by default; `slow` and `missing` as in `check_run`."""
    machine = machine or two_gpus()
    built = build_cases(machine, choose(cases), CaseOptions())
    results: list[Result] = []
    for experiment in built.experiments:
        ceilings = {(experiment.name, i): b.gbs for i, b in enumerate(limits(machine, experiment))}
        backend = FakeBackend(_player(experiment, ceilings, slow, missing))
        measure_all([experiment], backend, machine, Plan(budget_seconds=0.0), results.append)
    return run_of(results, machine, verb="bench", command="lanescope bench", cases=built.cases)


@cache
def sweep_run(machine: Machine | None = None, points: int = 28) -> Run:
    machine = machine or two_gpus()
    sizes = rising_sizes(16, 16 << (points - 1))

    def seconds(copy: Copy, batch: int) -> list[float]:
        down = copy.source.is_host
        pageable = "pageable" in (copy.source.memory, copy.destination.memory)
        rate, delay = (9.0, 4.1e-6) if pageable else (55.6 if down else 54.8, 1.4e-6)
        delay *= 1.0 if down else 1.25
        knee = 0.9 if 4096 < copy.bytes < 65536 else 1.0
        time = delay + copy.bytes / rate / 1e9 / knee
        return [time * w for w in (1.0, 1.03, 0.98, 1.06, 0.99, 1.01, 1.002, 1.12, 0.97, 1.0)]

    experiments = sweep_experiments(machine, machine.gpus[:1], sizes)
    results: list[Result] = []
    backend = FakeBackend(seconds)
    measure_all(experiments, backend, machine, Plan(budget_seconds=0.0), results.append)
    return run_of(results, machine, verb="sweep", command="lanescope sweep --gpu 0")


@cache
def predicted_run(verb: str = "check") -> Run:
    machine = replace(
        two_gpus(gbs=307.2),
        described=True,
        latencies=Latencies(1.4, 1.7, 2.1, 9.0, "measured on one H200 host"),
    )
    experiments: Sequence[Experiment] = check_experiments(machine)
    built = build_cases(machine, choose(), CaseOptions())
    if verb == "bench":
        experiments = built.experiments
    if verb == "sweep":
        experiments = sweep_experiments(machine, machine.gpus[:1], rising_sizes(16, 2 * GIB))
    results: list[Result] = []
    measure_all(experiments, ModelBackend(machine), machine, Plan(), results.append)
    command = f"lanescope {verb} --machine described.json"
    cases = built.cases if verb == "bench" else ()
    return run_of(results, machine, verb=verb, command=command, cases=cases)


@cache
def nasty_run() -> Run:
    """Every text that a user or a driver can set holds markup."""
    machine = replace(
        two_gpus(name=NASTY),
        cpu=NASTY,
        driver=NASTY,
        notes=(NASTY,),
        switches=(Switch("nvswitch", NASTY),),
        gpus=(gpu(0, name=NASTY), gpu(1, unavailable=NASTY)),
    )
    run = check_run(machine, slow="g0")
    results = [
        replace(
            r,
            experiment=replace(r.experiment, title=NASTY, name=f"{NASTY}{i}"),
            method=NASTY,
            copies=tuple(
                replace(c, limit_reason=NASTY, verdict=replace(c.verdict, reason=NASTY))
                for c in r.copies
            ),
        )
        for i, r in enumerate(run.results)
    ]
    return run_of(results, machine, command=NASTY, tool_version=NASTY, verb=NASTY)
