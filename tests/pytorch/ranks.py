"""Several real processes of one process group, on loopback, that run a function each."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

try:
    import torch
    import torch.distributed as dist

    importlib.import_module("lanescope.torch.exchange")  # so that no rank has to
except ImportError:  # tests skip then
    pass

_PATIENCE_SECONDS = 60.0
#: From so many bytes on a tensor has a header in ranks over gloo: less than usual, for quick tests.
LEAST_BYTES = 64 << 10


@dataclass(frozen=True)
class Told:
    """What became of a rank.

    Attributes
    ----------
    value
        What its function returned.
    error
        The name of what it raised, and the sentence; empty if nothing.
    """

    value: Any = None
    kind: str = ""
    error: str = ""


#: A rank that said nothing before it ended.
GONE = Told(kind="gone")


def run(
    folder: Path,
    count: int,
    function: Callable[..., Any],
    *given: Any,
    timeout: float = 20,
    backend: str = "gloo",
) -> list[Told]:
    """Return what became of each rank of a new group; a rank's number is the first argument.

    Ranks are forked from one process that has imported PyTorch, once for all tests.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    store = folder / f"store-{len(list(folder.iterdir()))}"
    ends, processes = [], []
    for rank in range(count):
        here, there = context.Pipe(duplex=False)
        process = context.Process(
            target=_rank, args=(there, rank, count, store, timeout, backend, function, given)
        )
        process.start()
        there.close()
        ends.append(here)
        processes.append(process)
    told = [_told(end) for end in ends]
    for process in processes:
        process.join(_PATIENCE_SECONDS)
        assert process.exitcode is not None, "a rank does not end"
    return told


def values(
    folder: Path, count: int, function: Callable[..., Any], *given: Any, backend: str = "gloo"
) -> list[Any]:
    """Return what each rank's function returned; none may raise."""
    told = run(folder, count, function, *given, backend=backend)
    assert not [one.error or one.kind for one in told if one.kind], told
    return [one.value for one in told]


def _told(end: Connection) -> Told:
    assert wait([end], _PATIENCE_SECONDS), "a rank does not end"
    try:
        found: Told = end.recv()
    except EOFError:
        return GONE
    return found


def _rank(
    end: Connection,
    rank: int,
    count: int,
    store: Path,
    timeout: float,
    backend: str,
    function: Callable[..., Any],
    given: tuple[Any, ...],
) -> None:
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "NCCL_NVLS_ENABLE": "0"}
    torch.set_num_threads(1)
    dist.init_process_group(
        backend,
        store=dist.FileStore(str(store), count),
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=timeout),
    )
    if backend == "gloo":
        dist.barrier()  # a rank that ends at once would break the others' connections
        exchange = importlib.import_module("lanescope.torch.exchange")
        exchange.LEAST_BYTES["cpu"] = LEAST_BYTES
        pieces = importlib.import_module("lanescope.torch.pieces")
        pieces.PIECE_BYTES["cpu"] = (LEAST_BYTES, 4 * LEAST_BYTES)
    try:
        told = Told(function(rank, *given))
    except Exception as error:
        told = Told(None, type(error).__name__, str(error) or traceback.format_exc())
    end.send(told)
    end.close()
    os._exit(0)  # others may wait for this one, and are told so at once
