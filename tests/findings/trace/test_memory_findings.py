"""Findings on managed memory, far NUMA nodes and data that is sent again."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.document.contents import Finding
from lanescope.findings.trace import find
from lanescope.findings.trace.links import BLOCK_BYTES, again_and_again, sent_again
from lanescope.machine import Machine, NumaNode, machine_named
from lanescope.trace.limits import Ceilings
from lanescope.trace.side_tables import HostCopies, Managed, ManagedKind, with_addresses
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Operations, Timeline
from tests.trace.timelines import MS, PAGEABLE, US, copies, timeline

MIB = 1 << 20
H200 = machine_named("h200-x2")
TWO_NODES = dataclasses.replace(H200, nodes=(*H200.nodes, NumaNode(1)))
MEASURED = Ceilings(
    {(0, "h2d"): 50.0, (0, "d2h"): 40.0},
    "measured by bench",
    {(0, "h2d", 0): 50.0, (0, "h2d", 1): 25.0},
)


def found(
    seen: Timeline, machine: Machine = H200, ceilings: Ceilings = MEASURED
) -> dict[str, Finding]:
    return {f.kind: f for f in find(seen, summarise(seen, machine), machine, ceilings)}


def managed(kinds: str, *, each: int = MIB, address: int = 1 << 33, lasts: int = MS) -> Managed:
    """Migrations of one place: > to the GPU, < back, with a pause as long as each."""
    n = len(kinds)
    code = {">": ManagedKind.TO_GPU, "<": ManagedKind.FROM_GPU, "!": ManagedKind.GPU_FAULT}
    start = np.arange(n) * 2 * lasts
    return Managed.of(
        pid=[7] * n,
        kind=[code[k] for k in kinds],
        start_ns=start,
        end_ns=start + lasts,
        value=[each] * n,
        address=[address] * n,
        device=[0] * n,
    )


def test_memory_that_goes_to_and_fro_gains_what_prefetching_would() -> None:
    seen = dataclasses.replace(timeline(), managed=managed("><><><"))
    one = found(seen)["managed-thrashing"]
    assert "1 block of 2 MiB migrated" in one.sentence
    assert "5 MiB in 5 migrations of 1024 KiB, which took 0.005 s" in one.sentence
    moved = 2 * MIB / 50e9 + 3 * MIB / 40e9
    assert one.gain_seconds.high == pytest.approx(0.005 - moved)
    assert one.basis.startswith("predicted")
    assert "measured by bench" in one.basis


@pytest.mark.parametrize("kinds", [">", ">>>>>>", "><", "><>", ">>>><<<<>>>>", "<<<<"])
def test_data_that_is_handed_over_does_not_thrash(kinds: str) -> None:
    seen = dataclasses.replace(timeline(), managed=managed(kinds))
    assert "managed-thrashing" not in found(seen)


def test_pages_of_a_block_turn_together_and_blocks_alone() -> None:
    rows = managed(">><<>><<")
    assert again_and_again(rows).tolist() == [2, 3, 4, 5, 6, 7]
    apart = dataclasses.replace(rows, address=rows.address + np.arange(8) * BLOCK_BYTES)
    assert again_and_again(apart).tolist() == []
    both = Managed.concat([rows, managed(">>", address=1 << 34)])
    assert again_and_again(both).tolist() == [2, 3, 4, 5, 6, 7]


def test_without_a_known_rate_no_gain_is_told() -> None:
    seen = dataclasses.replace(timeline(), managed=managed("><><><"))
    (one,) = find(seen, summarise(seen), None)
    assert one.gain_seconds is None


def called(rows: Operations, **columns: object) -> HostCopies:
    told = {
        "pid": rows.pid,
        "correlation": rows.correlation,
        "source": 1 << 20,
        "destination": 1 << 40,
        "bytes": rows.bytes,
        "node": -1,
        "hash": 5,
        "hashed": 1,
        "read_begin_ns": 0,
        "read_ns": 0,
        "same_bytes": 0,
        **columns,
    }
    return HostCopies.of(**{k: np.broadcast_to(v, len(rows)) for k, v in told.items()})  # type: ignore[call-overload]


def sent(count: int = 100, size: int = 10_000_000, **columns: object) -> Operations:
    return copies(count, size, lasts_ns=200 * US, correlation=1 + np.arange(count), **columns)


def test_far_memory_is_told_with_what_was_measured_of_it() -> None:
    rows = sent()
    nodes = np.where(np.arange(100) < 60, 1, np.where(np.arange(100) < 80, 0, -1))
    seen = dataclasses.replace(timeline(rows), host_copies=called(rows, node=nodes))
    one = found(seen, TWO_NODES)["far-node"]
    assert "in 60 h2d copies of g0 (75 % of those whose node is known)" in one.sentence
    assert "memory on h1; g0 is at h0" in one.sentence
    assert one.gain_seconds.high == pytest.approx(0.6 / 25 - 0.6 / 50)
    assert "190.7 MiB of which the kernel does not tell" in one.evidence[1]


def test_far_memory_without_a_measurement_is_told_without_a_gain() -> None:
    rows = sent()
    seen = dataclasses.replace(timeline(rows), host_copies=called(rows, node=1))
    one = found(seen, TWO_NODES, Ceilings({(0, "h2d"): 50.0}))["far-node"]
    assert one.gain_seconds is None
    assert "lanescope bench" in one.basis
    pageable = sent(host=PAGEABLE)
    staged = dataclasses.replace(timeline(pageable), host_copies=called(pageable, node=1))
    assert found(staged, TWO_NODES)["far-node"].gain_seconds is None


@pytest.mark.parametrize(("machine", "node"), [(TWO_NODES, 0), (TWO_NODES, -1), (H200, 1)])
def test_near_and_unknown_memory_is_fine(machine: Machine, node: int) -> None:
    rows = sent()
    seen = dataclasses.replace(timeline(rows), host_copies=called(rows, node=node))
    assert "far-node" not in found(seen, machine)


def test_what_is_sent_again_unchanged_gains_its_time_at_most() -> None:
    rows = sent()
    content = np.where(np.arange(100) < 50, 5, np.arange(100))
    seen = dataclasses.replace(timeline(rows), host_copies=called(rows, hash=content))
    one = found(seen)["unchanged-data"]
    assert "49 h2d copies of g0 (467.3 MiB, 49 % of the bytes sent)" in one.sentence
    assert one.gain_seconds.high == pytest.approx(49 * 200e-6)
    assert "No kernel, memset or copy within the GPU" in one.conditions[0]
    assert "were read" not in one.sentence


def test_where_only_some_copies_were_read_what_is_sent_again_says_so() -> None:
    rows = sent()
    some = called(rows, hash=5, hashed=np.arange(100) < 20)
    one = found(dataclasses.replace(timeline(rows), host_copies=some))["unchanged-data"]
    assert "19 h2d copies" in one.sentence
    assert "Only 190.7 MiB of 953.7 MiB were read: of the rest nothing is known." in one.sentence


def test_a_call_told_of_twice_is_one_copy() -> None:
    rows = sent()
    twice = HostCopies.concat([called(rows, hashed=0, hash=0), called(rows)])
    copied, told = with_addresses(rows, twice)
    assert len(copied) == len(told) == 100
    assert told.hashed.tolist() == [1] * 100
    shared = dataclasses.replace(rows, correlation=np.full(100, 3))  # a graph's copies
    assert len(with_addresses(shared, called(rows))[0]) == 0


def test_without_hashes_nothing_is_said_of_content() -> None:
    rows = sent()
    seen = dataclasses.replace(timeline(rows), host_copies=called(rows, hashed=0))
    assert "unchanged-data" not in found(seen)


@pytest.mark.parametrize(
    ("steps", "again"),
    [
        ([(0, 8, 1), (0, 8, 1)], [1]),
        ([(0, 8, 1), (0, 8, 2), (0, 8, 1)], []),
        ([(0, 8, 1), (4, 8, 3), (0, 8, 1)], []),  # a part was overwritten
        ([(0, 8, 1), (8, 8, 3), (0, 8, 1)], [2]),  # its neighbour was
        ([(4, 2, 1), (0, 8, 3), (4, 2, 1)], []),
        ([(0, 8, 1), (0, 4, 1), (0, 8, 1)], []),
        ([(0, 8, 1), (0, 8, None), (0, 8, 1)], []),  # one whose content was not read
        ([(0, 8, None), (0, 8, None)], []),
    ],
)
def test_only_the_same_content_at_just_the_same_place_is_there_already(
    steps: list[tuple[int, int, int | None]], again: list[int]
) -> None:
    assert sent_again(_called(steps)).tolist() == again


def test_copies_of_nothing_leave_places_as_they_are() -> None:
    steps: list[tuple[int, int, int | None]] = [(10, 8, 1), (10, 0, 2), (12, 0, 3), (10, 8, 1)]
    assert sent_again(_called(steps)).tolist() == [3]
    over: list[tuple[int, int, int | None]] = [(10, 0, 2), (5, 30, 4), (5, 30, 4)]
    assert sent_again(_called([*steps, *over])).tolist() == [3, 6]


def _called(steps: list[tuple[int, int, int | None]]) -> HostCopies:
    n = len(steps)
    return HostCopies.of(
        pid=[7] * n,
        correlation=range(1, n + 1),
        source=[0] * n,
        destination=[s[0] for s in steps],
        bytes=[s[1] for s in steps],
        node=[-1] * n,
        hash=[s[2] or 0 for s in steps],
        hashed=[int(s[2] is not None) for s in steps],
        read_begin_ns=[0] * n,
        read_ns=[0] * n,
        same_bytes=[0] * n,
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(1, 6), st.sampled_from([1, 2, None])),
        max_size=30,
    )
)
def test_places_are_those_of_a_memory_of_bytes(
    steps: list[tuple[int, int, int | None]],
) -> None:
    memory: list[object] = [None] * 20  # which whole copy each byte is of
    again = []
    for row, (begin, size, content) in enumerate(steps):
        whole = (begin, size, content)
        if content is not None and memory[begin : begin + size] == [whole] * size and size:
            again.append(row)
        memory[begin : begin + size] = [whole] * size
    # a copy that was cut by another is not whole any more, even where its bytes are left
    assert set(sent_again(_called(steps)).tolist()) <= set(again)
