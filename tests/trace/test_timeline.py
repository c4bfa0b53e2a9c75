from __future__ import annotations

import numpy as np
import pytest

from lanescope.trace.timeline import Counters, DirectionCode, MemoryKind, OperationCode, Operations

PAGEABLE, PINNED, DEVICE, MANAGED = 1, 2, 3, 5


def copies(*ends: tuple[int, int, int, int], what: int = OperationCode.COPY) -> Operations:
    """Copies by (source kind, source device, destination kind, destination device)."""
    source, source_device, destination, destination_device = zip(*ends, strict=True)
    return Operations.of(
        what=[what] * len(ends),
        source_kind=source,
        source_device=source_device,
        destination_kind=destination,
        destination_device=destination_device,
    )


def test_directions_follow_the_kinds_of_memory() -> None:
    found = copies(
        (PAGEABLE, -1, DEVICE, 0),
        (DEVICE, 0, PINNED, -1),
        (DEVICE, 0, DEVICE, 0),
        (DEVICE, 0, DEVICE, 1),
        (PINNED, -1, PAGEABLE, -1),
    )
    assert [DirectionCode(d).label for d in found.direction] == ["h2d", "d2h", "d2d", "p2p", "h2h"]
    assert found.host_memory.tolist() == [PAGEABLE, PINNED, 0, 0, PAGEABLE]


def test_pinned_memory_is_in_the_host_whatever_device_is_noted() -> None:
    assert copies((PINNED, 0, DEVICE, 0)).direction.tolist() == [DirectionCode.H2D]


def test_managed_memory_is_where_its_device_says() -> None:
    found = copies((MANAGED, -1, DEVICE, 0), (MANAGED, 0, PINNED, -1), (MANAGED, 0, DEVICE, 0))
    assert found.direction.tolist() == [DirectionCode.H2D, DirectionCode.D2H, DirectionCode.D2D]
    assert found.host_memory[0] == MemoryKind.MANAGED


@pytest.mark.parametrize("what", [OperationCode.KERNEL, OperationCode.MEMSET])
def test_what_is_no_copy_has_no_direction(what: OperationCode) -> None:
    found = copies((PAGEABLE, -1, DEVICE, 0), what=what)
    assert found.direction.tolist() == [DirectionCode.NONE]
    assert not found.moves.any()


def test_migrations_move_bytes_but_nobody_asked_for_a_copy() -> None:
    found = copies((MANAGED, -1, MANAGED, 0), what=OperationCode.MIGRATION)
    assert found.direction.tolist() == [DirectionCode.H2D]
    assert not found.is_copy.any()


def test_concat_renumbers_names() -> None:
    first = Operations.of(("", "a", "b"), name=[1, 2, 0], pid=[1, 1, 1])
    second = Operations.of(("", "b"), name=[1], pid=[2])
    both = Operations.concat([first, second])
    assert [both.names[i] for i in both.name] == ["a", "b", "", "b"]
    assert both.pid.tolist() == [1, 1, 1, 2]


def test_nothing_concatenated_is_empty() -> None:
    assert len(Operations.concat([])) == len(Operations.empty()) == 0


def test_rows_by_mask_keep_names() -> None:
    two = Operations.of(("", "k"), name=[0, 1], bytes=[1, 2])
    one = two.rows(two.bytes > 1)
    assert (one.names[one.name[0]], one.bytes.tolist()) == ("k", [2])


def test_unknown_threads_and_devices_are_minus_one() -> None:
    assert Operations.of(pid=[1]).thread.tolist() == [-1]
    assert Operations.of(pid=[1]).source_device.tolist() == [-1]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        Operations.of(pid=[1], bytes=[1, 2])


def test_records_start_where_the_one_before_ends() -> None:
    ends = np.array([10, 20, 40])
    counters = Counters("pm", 0, 10, ends, ends, ends, np.array([False, True, True]))
    assert counters.start_ns.tolist() == [10, 10, 20]
    assert counters.rows(slice(1, 3)).known.tolist() == [False, True]
