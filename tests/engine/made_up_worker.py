"""A worker over a made-up core: its memory of GPUs is memory of files, which descriptors share.

``MADE_UP_FATE`` says what goes wrong: ``die`` or ``hang`` when copies run; ``fabric`` that memory
can be shared by a fabric handle, too. ``MADE_UP_CLOCK`` is how many seconds the clock is ahead.
"""

from __future__ import annotations

import enum
import mmap
import os
import sys
import time
import types

from lanescope._core import native as real
from lanescope.engine import worker

SECONDS = 0.01


class Sharing(enum.Enum):
    fabric = "fabric"
    descriptor = "descriptor"
    ipc = "ipc"


class SharedMemory:
    def __init__(self, device, size, sharing):
        by_fabric = sharing is Sharing.fabric and "fabric" in fate()
        by_descriptor = sharing is Sharing.descriptor and "no-descriptor" not in fate()
        if not by_fabric and not by_descriptor:
            raise real.NativeError("cuMemCreate", 800, "CUDA driver error", "not permitted", "here")
        self.address, self.size = os.memfd_create("made up"), size
        self.descriptor = self.address if by_descriptor else -1
        self.handle = f"/proc/{os.getpid()}/fd/{self.address}".encode() if by_fabric else b""
        os.ftruncate(self.address, size)

    def __del__(self):
        if hasattr(self, "address"):
            os.close(self.address)


class AttachedMemory:
    def __init__(self, device, size, sharing, handle, descriptor=-1):
        self.address = os.open(handle, os.O_RDWR) if handle else os.dup(descriptor)
        assert os.fstat(self.address).st_size == size

    def __del__(self):
        os.close(self.address)


class CopySet:
    def __init__(self, topology, pool, specs):
        self.specs = specs

    def run_gated(self, windows, loops, shares=()):
        if "die" in fate():
            os._exit(9)
        if "hang" in fate():
            time.sleep(600)
        time.sleep(SECONDS * (windows + 1))
        of_each = shares or [1] * len(self.specs)
        return [[SECONDS * loops * share * n for n in range(windows + 1)] for share in of_each]

    def count_mismatches(self):
        """Write to what is attached, and count what is not there afterwards."""
        for spec in self.specs:
            for place in (spec.source, spec.destination):
                if place.address:
                    os.pwrite(place.address, b"x", 0)
        return int("mismatch" in fate())


class StagedMemory:
    """Memory of a GPU that is memory of this process."""

    CONTENT = bytes(range(251)) * 300_000

    def __init__(self, device, descriptor, size):
        if "no GPU" in fate():
            raise real.NativeError("cudaSetDevice", 100, "cudaErrorNoDevice", "none", "here")
        self.pages, self.size = mmap.mmap(descriptor, 2 * size), size
        self.come = bytearray(size)

    def to_host(self, begin, size):
        self.pages[begin : begin + size] = self.CONTENT[begin : begin + size]

    def to_device(self, begin, size):
        there = self.size + begin
        self.come[begin : begin + size] = self.pages[there : there + size]

    def count_mismatches(self, size):
        return int(self.come[:size] != self.CONTENT[:size]) + int("mismatch" in fate())


class NcclRank:
    def __init__(self, library, id, ranks, rank, device):
        assert len(id) == 128
        if "die in join" in fate() and rank == 1:
            os._exit(9)
        self.version, self.rank = 22907, rank

    @staticmethod
    def unique_id(library):
        if "no nccl" in fate():
            raise real.NativeError("dlopen", 0, "no nccl", f"{library}: no such file", "here")
        return bytes(128)


class NcclOperations:
    """Arrives where the other end sends as many bytes of the same pattern."""

    def __init__(self, rank, sends, receives, reduced_bytes):
        self.rank, self.receives, self.reduced_bytes = rank.rank, receives, reduced_bytes
        self.sends = sends

    def run(self, windows, loops):
        if "die in run" in fate() and self.rank == 1:
            os._exit(9)
        if "die in run" in fate():
            time.sleep(600)  # as NCCL waits for the other rank
        return [SECONDS * loops * n for n in range(windows + 1)]

    def count_mismatches(self):
        return int("mismatch" in fate())


def fate():
    return os.environ.get("MADE_UP_FATE", "")


worker.native = types.SimpleNamespace(
    NativeError=real.NativeError,
    Topology=lambda: None,
    BufferPool=lambda topology: None,
    Sharing=Sharing,
    SharedMemory=SharedMemory,
    AttachedMemory=AttachedMemory,
    Memory=real.Memory,
    Route=real.Route,
    PlaceSpec=lambda memory, index, address=0: types.SimpleNamespace(
        memory=memory, index=index, address=address
    ),
    CopySpec=lambda source, destination, *rest, **more: types.SimpleNamespace(
        source=source, destination=destination, rest=rest, more=more
    ),
    SmShape=real.SmShape,
    CopySet=CopySet,
    StagedMemory=StagedMemory,
    cuda_devices=lambda: [{}] * int(os.environ.get("MADE_UP_GPUS", "2")),
    NcclRank=NcclRank,
    NcclTransfer=real.NcclTransfer,
    NcclOperations=NcclOperations,
)

if "MADE_UP_CLOCK" in os.environ:
    worker.time = types.SimpleNamespace(
        monotonic=lambda: time.monotonic() + float(os.environ["MADE_UP_CLOCK"])
    )

if __name__ == "__main__":
    worker.main(int(sys.argv[1]))
