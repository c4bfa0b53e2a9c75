"""Which way the driver is asked to take between two GPUs."""

from __future__ import annotations

from enum import StrEnum


class Route(StrEnum):
    """Which way the driver is asked to take between two GPUs, or inside one.

    ``peer``: cudaMemcpyPeerAsync, with peer access enabled where there is any.
    ``uva``: cudaMemcpyAsync, which finds both places by their unified addresses;
    peer access as above.
    ``staged``: cudaMemcpyPeerAsync without peer access: through host memory.
    """

    PEER = "peer"
    UVA = "uva"
    STAGED = "staged"
