"""All studies by their verb; a new one is a file here and a line of this table."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lanescope.studies.study import Study

#: The class in the file of this name, or of the one before its dot, and the first sentence of its
#: help: studies are imported when they are used, so that the help of all is quick.
STUDIES = {
    "check": ("Check", "Measure every path of this machine and say whether it is healthy."),
    "bench": (
        "nvbandwidth.Bench",
        "Measure every pattern of copies: the cases of nvbandwidth, all of them by default.",
    ),
    "copy": (
        "Copies",
        "Measure copies that run at the same time, each and in sum, against what links allow.",
    ),
    "taruc": ("Suite", "Measure what topology, NUMA and contention cost."),
    "overhead": (
        "taruc.Overhead",
        "Measure what allocating, first touching and releasing memory costs.",
    ),
    "host": ("taruc.Host", "Measure copies of blocks by one thread between NUMA nodes."),
    "hostdev": (
        "taruc.HostDev",
        "Measure copies of blocks between host memory and GPUs, each way.",
    ),
    "peer": (
        "taruc.Peer",
        "Measure copies from GPU to GPU: peer, by unified addresses, staged through the host.",
    ),
    "nurma": (
        "taruc.Nurma",
        "Measure single loads of memory: strided and in random order, dependent and independent.",
    ),
    "contention": (
        "taruc.Contention",
        "Measure what many cost each other: at memory channels, between sockets, over PCIe.",
    ),
    "latency": (
        "Latency",
        "Measure latencies of a GPU: loads by memory, launches, small copies, round trips.",
    ),
    "small": (
        "Small",
        "Map small copies between host and GPU: which method to hand them over is the fastest.",
    ),
    "sms": (
        "Sms",
        "Find the fewest SMs that carry 98 % of what kernels can, for each path of a GPU.",
    ),
    "sweep": (
        "Sweep",
        "Sweep copy sizes between host and GPU: delay, plateau, size that fills the link.",
    ),
}


def study_named(verb: str) -> type[Study] | None:
    """Return the study of a verb; None where it is none."""
    if verb not in STUDIES:
        return None
    module, _, name = STUDIES[verb][0].rpartition(".")
    imported = importlib.import_module(f"lanescope.studies.{module or verb}")
    found: type[Study] = getattr(imported, name)
    return found
