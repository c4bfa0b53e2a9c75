"""Two real processes that meet by a store of torch.distributed, and notice each other's end."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

from lanescope.compression.meeting import InStore, PeerConnection, connect, listen  # noqa: E402
from lanescope.torch import ranks, routes  # noqa: E402
from tests.pytorch.ranks import GONE, run  # noqa: E402


def meet_and_end(rank: int, how: str) -> tuple[dict[str, Any], list[bool]]:
    """Return what the other rank said, and how it ended."""
    place = InStore(routes.store_of(dist.group.WORLD), "a channel")
    connection = (listen if rank == 0 else connect)(place, 10)
    ends: list[bool] = []
    line = PeerConnection(connection, ends.append, lambda: None, 10)
    line.tell({"from": rank})
    said = line.hear(10)
    if rank == 1:
        if how == "over":
            line.tell({"over": True})
            line.wait_for_end(10)
        os._exit(0)
    begun = time.monotonic()
    line.wait_for_end(10)
    assert time.monotonic() - begun < 5
    line.close()
    return said, ends


@pytest.mark.parametrize("how", ["over", "gone"])
def test_they_meet_and_the_end_of_one_is_noticed(tmp_path: Path, how: str) -> None:
    first, second = run(tmp_path, 2, meet_and_end, how)
    assert first.error == ""
    assert first.value == ({"from": 1}, [how == "over"])
    assert second == GONE


def same_place(rank: int) -> str:
    store = routes.store_of(dist.group.WORLD)
    store.set(f"place {rank}", ranks.place())
    store.wait([f"place {1 - rank}"])
    return str(ranks.place() == store.get(f"place {1 - rank}").decode())


def test_processes_of_one_node_have_one_place(tmp_path: Path) -> None:
    assert [one.value for one in run(tmp_path, 2, same_place)] == ["True", "True"]
