"""The process of one GPU in copies between processes; started by `lanescope.engine.processes`.

It does what it is sent, one message after the other, and ends when its connection does. Each answer
has ``error``, which is null, or the arguments of the core's error.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lanescope._core import native
from lanescope.engine.process import Message, received, send

Answer = tuple[Message, list[int]]
#: Peer, bytes and seed of each of what a rank sends or receives.
Transfers = list[tuple[int, int, int]]
#: Names NCCL, where the one that is found is not the one that is meant.
NCCL_VARIABLE = "LANESCOPE_NCCL"
_NCCL = "libnccl.so.2"
_NCCL_PACKAGE = "nvidia.nccl"


class Worker:
    """Memory that is shared, memory of others, and one set of copies."""

    def __init__(self) -> None:
        self._topology = native.Topology()
        self._pool = native.BufferPool(self._topology)
        self._shared: dict[int, native.SharedMemory] = {}
        self._attached: dict[int, native.AttachedMemory] = {}
        self._copies: native.CopySet | None = None
        self._staged: native.StagedMemory | None = None
        self._communicator: native.NcclRank | None = None
        self._operations: native.NcclOperations | None = None
        self._does: dict[str, Callable[..., Answer]] = {
            "share": self.share,
            "attach": self.attach,
            "prepare": self.prepare,
            "devices": self.devices,
            "stage": self.stage,
            "to_host": self.to_host,
            "to_device": self.to_device,
            "staged_check": self.staged_check,
            "nccl_id": self.nccl_id,
            "join": self.join,
            "operate": self.operate,
            "run": self.run,
            "check": self.check,
            "drop": self.drop,
        }

    def do(self, message: Message, descriptors: list[int]) -> Answer:
        """Do what a message says."""
        values = dict(message)
        return self._does[values.pop("do")](descriptors, **values)

    def share(self, _: list[int], id: int, device: int, size: int, sharing: str) -> Answer:
        """Allocate memory that other processes can use."""
        memory = native.SharedMemory(device, size, getattr(native.Sharing, sharing))
        self._shared[id] = memory
        own = [memory.descriptor] if memory.descriptor >= 0 else []
        return {"size": memory.size, "handle": memory.handle.hex()}, own

    def attach(
        self, descriptors: list[int], id: int, device: int, size: int, sharing: str, handle: str
    ) -> Answer:
        """Make another process' memory usable here."""
        self._attached[id] = native.AttachedMemory(
            device,
            size,
            getattr(native.Sharing, sharing),
            bytes.fromhex(handle),
            *descriptors,
        )
        return {}, []

    def prepare(self, _: list[int], copies: list[dict[str, Any]]) -> Answer:
        """Make a set of copies ready: fill the sources and spoil the destinations."""
        self._copies = None
        specs = [
            native.CopySpec(
                self._place(copy["source"]),
                self._place(copy["destination"]),
                copy["bytes"],
                copy["device"],
                copy["cpus"],
                None if copy["sm"] is None else native.SmShape(*copy["sm"]),
                route=getattr(native.Route, copy["route"]),
            )
            for copy in copies
        ]
        self._copies = native.CopySet(self._topology, self._pool, specs)
        return {}, []

    def _place(self, place: dict[str, Any]) -> native.PlaceSpec:
        kind = getattr(native.Memory, place["memory"])
        if "shared" in place:
            return native.PlaceSpec(kind, place["index"], self._shared[place["shared"]].address)
        if "attached" in place:
            return native.PlaceSpec(kind, place["index"], self._attached[place["attached"]].address)
        return native.PlaceSpec(kind, place["index"])

    def devices(self, _: list[int]) -> Answer:
        """Count the GPUs that this process can use."""
        return {"count": len(native.cuda_devices())}, []

    def stage(self, descriptors: list[int], device: int, size: int) -> Answer:
        """Use memory that another process sends and receives from, and as much of a GPU."""
        self._staged = native.StagedMemory(device, descriptors[0], size)
        return {}, []

    def to_host(self, _: list[int], begin: int, size: int) -> Answer:
        """Copy a part of what leaves to the host."""
        assert self._staged is not None, "staged before"
        self._staged.to_host(begin, size)
        return {}, []

    def to_device(self, _: list[int], begin: int, size: int) -> Answer:
        """Copy a part of what has come to the GPU."""
        assert self._staged is not None, "staged before"
        self._staged.to_device(begin, size)
        return {}, []

    def staged_check(self, _: list[int], size: int) -> Answer:
        """Count the bytes that have come wrong."""
        assert self._staged is not None, "staged before"
        return {"mismatches": self._staged.count_mismatches(size)}, []

    def nccl_id(self, _: list[int]) -> Answer:
        """Make what all ranks of a communicator are given."""
        return {"id": native.NcclRank.unique_id(nccl_library()).hex()}, []

    def join(self, _: list[int], id: str, ranks: int, rank: int, device: int) -> Answer:
        """Leave the last communicator and join one, which waits for all of its ranks."""
        self._operations = self._communicator = None
        self._communicator = native.NcclRank(nccl_library(), bytes.fromhex(id), ranks, rank, device)
        return {"version": self._communicator.version}, []

    def operate(
        self, _: list[int], sends: Transfers, receives: Transfers, reduced_bytes: int
    ) -> Answer:
        """Make what this rank sends, receives and reduces ready."""
        assert self._communicator is not None, "joined before"
        self._operations = self._copies = None
        self._operations = native.NcclOperations(
            self._communicator,
            [native.NcclTransfer(*one) for one in sends],
            [native.NcclTransfer(*one) for one in receives],
            reduced_bytes,
        )
        return {}, []

    def run(self, _: list[int], windows: int, loops: int, shares: Sequence[int] = ()) -> Answer:
        """Run the copies, and say when that ended by the clock of all processes of the node."""
        if self._operations is not None:
            boundaries = [self._operations.run(windows, loops)]
        else:
            assert self._copies is not None, "prepared before"
            boundaries = self._copies.run_gated(windows, loops, shares)
        return {"end": time.monotonic(), "boundaries": boundaries}, []

    def check(self, _: list[int]) -> Answer:
        """Count the bytes that have not arrived."""
        made = self._operations or self._copies
        assert made is not None, "prepared before"
        return {"mismatches": made.count_mismatches()}, []

    def drop(self, _: list[int], owner: bool) -> Answer:
        """Give back copies and attached memory, and as the last step shared memory."""
        self._copies = self._operations = None
        self._attached.clear()
        if owner:
            self._shared.clear()
        return {}, []


def main(descriptor: int) -> None:
    """Answer messages until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which closes its end
    connection = socket.socket(fileno=descriptor)
    worker = Worker()
    while True:
        try:
            message, descriptors = received(connection)
        except (EOFError, OSError):
            return
        try:
            answer, own = worker.do(message, descriptors)
            answer = {"error": None, **answer}
        except native.NativeError as error:
            answer, own = {"error": [str(one) for one in error.args]}, []
        finally:
            for one in descriptors:
                os.close(one)
        try:
            send(connection, answer, own)
        except OSError:
            return


def nccl_library() -> str:
    """Return NCCL from its Python package, else the name that the loader looks for."""
    if named := os.environ.get(NCCL_VARIABLE):
        return named
    try:
        package = find_spec(_NCCL_PACKAGE)
    except ModuleNotFoundError:  # of what it would lie in
        return _NCCL
    folders = (package.submodule_search_locations or ()) if package else ()
    paths = (Path(folder, "lib", _NCCL) for folder in folders)
    return str(next(filter(Path.is_file, paths), _NCCL))


if __name__ == "__main__":
    main(int(sys.argv[1]))
