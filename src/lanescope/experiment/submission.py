"""How many small copies are handed to a GPU."""

from __future__ import annotations

from enum import StrEnum


class Submission(StrEnum):
    """How the pieces of a copy are handed to the GPU.

    ``single``: a call of cudaMemcpyAsync for each piece.
    ``batch``: one call of cudaMemcpyBatchAsync for all of them.
    ``graph``: one launch of a CUDA graph, made before, whose nodes are copies
    that wait for nothing.
    ``kernel``: one kernel that takes their addresses from a table and copies.
    ``mapped``: no copy. A kernel reads the pieces where they lie in host memory
    and sums them up, or makes them and stores them there.
    """

    SINGLE = "single"
    BATCH = "batch"
    GRAPH = "graph"
    KERNEL = "kernel"
    MAPPED = "mapped"

    @property
    def by_kernel(self) -> bool:
        """Whether a kernel moves the bytes, and not the engines that copies go to."""
        return self in (Submission.KERNEL, Submission.MAPPED)
