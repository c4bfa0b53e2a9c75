"""All studies by their verb; a new one is a file here and an entry of this table."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from lanescope.studies.analysis import Analysis
    from lanescope.studies.study import Study


class Entry(NamedTuple):
    """Where a study is, and what is known of it before it is imported.

    Attributes
    ----------
    place
        File and class.
    summary
        The first sentence of its docstring, so that the help of all verbs is quick.
    group
        The command that it is one of; empty for a command of its own, None for none.
    """

    place: str
    summary: str
    group: str | None = "bench"


#: In the order of the help.
STUDIES = {
    "check": Entry(
        "check.Check", "Measure every path of this machine and say whether it is healthy.", ""
    ),
    "copy": Entry(
        "copy.Copies",
        "Measure copies that run at the same time, each and in sum, against what links allow.",
        "",
    ),
    "node": Entry(
        "node.NodeCheck",
        "Say in one line whether this node may run jobs, and which part is broken if not.",
        None,
    ),
    "bench": Entry(
        "nvbandwidth.Bench",
        "Measure cases of nvbandwidth: copy engines and kernels, one way, both ways, all at once.",
        None,
    ),
    "sweep": Entry(
        "sweep.Sweep",
        "Sweep copy sizes between host and GPU: delay, plateau, size that fills the link.",
    ),
    "latency": Entry(
        "latency.Latency",
        "Measure latencies of a GPU: loads by memory, launches, small copies, round trips.",
    ),
    "small": Entry(
        "small.Small",
        "Map small copies between host and GPU: which method to hand them over is the fastest.",
    ),
    "sms": Entry(
        "sms.Sms",
        "Find the fewest SMs that carry 98 % of what kernels can, for each path of a GPU.",
    ),
    "streams": Entry(
        "sweep.Streams",
        "Find how many copies at once it takes to fill a path, for each direction of a GPU.",
    ),
    "nccl": Entry(
        "nccl.Nccl",
        "Measure NCCL's send and receive, one way and both ways, and all-reduce between GPUs.",
    ),
    "taruc": Entry(
        "taruc.study.Suite",
        "Measure what topology, NUMA and contention cost: micro-benchmarks by a parameter file.",
        None,
    ),
    "overhead": Entry(
        "taruc.micro_benchmarks.Overhead",
        "Measure what allocating, first touching and releasing memory costs.",
    ),
    "host": Entry(
        "taruc.micro_benchmarks.Host", "Measure copies of blocks by one thread between NUMA nodes."
    ),
    "hostdev": Entry(
        "taruc.micro_benchmarks.HostDev",
        "Measure copies of blocks between host memory and GPUs, each way.",
    ),
    "peer": Entry(
        "taruc.micro_benchmarks.Peer",
        "Measure copies from GPU to GPU: peer, by unified addresses, staged through the host.",
    ),
    "nurma": Entry(
        "taruc.micro_benchmarks.Nurma",
        "Measure single loads of memory: strided and in random order, dependent and independent.",
    ),
    "contention": Entry(
        "taruc.micro_benchmarks.Contention",
        "Measure what many cost each other: at memory channels, between sockets, over PCIe.",
    ),
}


#: Questions about transfers that no run of experiments answers; see `lanescope.studies.analysis`.
ANALYSES = {
    "predict": Entry(
        "predict.Predict",
        "Predict what each method of moving a workload's data takes, and rank them.",
        "model",
    ),
    "fit": Entry(
        "fit.Fit",
        "Measure L + o, G and g of a GPU's link, and all else that predictions take.",
        "model",
    ),
    "validate": Entry(
        "ocean.validate.Validate",
        "Run kernels by every method, predict each, and say how far off that is.",
        "model",
    ),
    "compress": Entry(
        "compress.study.Compress",
        "Compress arrays without loss by every codec: how small, how fast, and whether it pays.",
    ),
    "advise": Entry(
        "advise.Advise",
        "Say what pinned memory, streams, mapped memory or batches would gain, and when not.",
        None,
    ),
}


def study_named(verb: str) -> type[Study] | None:
    """Return the study of a verb; None where it is none."""
    found: type[Study] | None = _named(STUDIES, verb)
    return found


def analysis_named(verb: str) -> type[Analysis] | None:
    """Return the analysis of a verb; None where it is none."""
    found: type[Analysis] | None = _named(ANALYSES, verb)
    return found


def stored_analysis(folder: Path) -> type[Analysis] | None:
    """Return the analysis whose result a run folder holds; None where it is another run."""
    from lanescope.store.folder import verb_of

    found = analysis_named(verb_of(folder))
    return found if found is not None and found.title else None


def _named(known: dict[str, Entry], verb: str) -> Any:
    if verb not in known:
        return None
    module, _, name = known[verb].place.rpartition(".")
    return getattr(importlib.import_module(f"lanescope.studies.{module}"), name)
