"""The micro-benchmarks by name."""

from __future__ import annotations

from enum import StrEnum


class Benchmark(StrEnum):
    """The micro-benchmarks; each is also a verb, and the first part of its points' names."""

    OVERHEAD = "overhead"
    HOST = "host"
    HOSTDEV = "hostdev"
    PEER = "peer"
    NURMA = "nurma"
    CONTENTION = "contention"

    @property
    def needs_gpu(self) -> bool:
        """Whether a machine without a GPU has nothing of it."""
        return self in (Benchmark.HOSTDEV, Benchmark.PEER)


#: What people call them.
TITLES = {
    Benchmark.OVERHEAD: "Memory overhead",
    Benchmark.HOST: "Host to host copies",
    Benchmark.HOSTDEV: "Host and GPU copies",
    Benchmark.PEER: "Copies between GPUs",
    Benchmark.NURMA: "Random and strided access",
    Benchmark.CONTENTION: "Contention",
}
