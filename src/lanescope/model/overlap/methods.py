"""The ways in which a program can move what its kernel needs."""

from __future__ import annotations

from enum import StrEnum


class Method(StrEnum):
    """As van Werkhoven et al. (2014), section VII, name them; and with pageable memory."""

    EXPLICIT = "Explicit"
    """All copies in, the kernel, all copies back; pinned memory, one stream."""
    STREAMS = "Streams"
    """Cut into parts, each on its own stream: copies and kernels overlap."""
    IMPLICIT = "Implicit"
    """The kernel reads and writes mapped host memory; nothing is copied."""
    HYBRID = "Hybrid"
    """As Streams, but the kernels write mapped host memory."""
    PAGEABLE = "Pageable"
    """As Explicit, but memory is not pinned."""


#: Methods that are cut into parts, each on a stream of its own.
STREAMED = (Method.STREAMS, Method.HYBRID)
