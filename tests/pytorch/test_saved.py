"""When saved tensors go and come, without PyTorch."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest

from lanescope.torch import activations
from lanescope.torch.activations import Pool
from tests.pytorch.copying_link import CopyingLink

MIB = 1 << 20


class Tensor:
    """As much of a tensor as a pool looks at."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.dtype, self.shape = "float32", (MIB // 4,)
        self._version = 0

    def data_ptr(self) -> int:
        return self.address


def pool(budget: int = 100, ahead: int = 8) -> tuple[Pool, CopyingLink]:
    link = CopyingLink(copy.copy, lambda tensor: True)
    return Pool(link, budget * MIB, ahead * MIB), link


def forward(pool: Pool, count: int) -> list:
    return [pool.save(Tensor(i), MIB) for i in range(count)]


def backward(pool: Pool, saved: list) -> list[int]:
    used = []
    while saved:
        used.append(pool.use(saved[-1]).address)
        saved.pop()
    return used


def test_each_comes_back_as_it_was() -> None:
    own, _ = pool(ahead=0)
    assert backward(own, forward(own, 10)) == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert (own.moved.tensors, own.moved.bytes) == (10, 10 * MIB)


def test_what_has_not_left_is_used_where_it_is() -> None:
    own, link = pool(ahead=8)  # five wait, two leave, one comes early
    backward(own, forward(own, 10))
    assert link.of("send") == [1, 2, 3, 4, 5]  # the backward pass begins with 6 to 10 here
    assert link.of("bring") == [3, 2, 1]  # 4 and 5 had not left
    assert own.moved.brought == 3
    assert own.moved.brought_bytes == 3 * MIB


def test_nothing_waits_for_what_is_used_where_it_is() -> None:
    own, link = pool(ahead=8)
    saved = forward(own, 10)
    link.events.clear()
    for _ in range(5):
        own.use(saved.pop())
    assert link.of("wait") == []
    assert link.of("bring") == [3]  # begun while the ones before are still leaving


def test_what_a_pass_took_is_there_for_the_next_one() -> None:
    own, link = pool(ahead=8)
    backward(own, forward(own, 10))
    assert link.of("reserve") == [5 * MIB]  # once a pass: five had left
    backward(own, forward(own, 12))
    assert link.of("reserve") == [5 * MIB, 7 * MIB]


def test_pinning_that_failed_is_not_tried_again() -> None:
    own, link = pool(ahead=8)
    link.most = 1
    for _ in range(2):
        backward(own, [one for one in forward(own, 10) if one is not None])
    assert len(link.of("reserve")) == 1


def test_no_more_memory_is_held_than_ahead() -> None:
    own, link = pool(ahead=8)
    tensors = [Tensor(i) for i in range(16)]
    there = [weakref.ref(tensor) for tensor in tensors]
    saved = []
    while tensors:
        saved.append(own.save(tensors[0], MIB))
        tensors.pop(0)
        gc.collect(0)  # what was made just now; all there is takes seconds in a large process
        assert sum(one() is not None for one in there) - len(tensors) <= 7
    # the GPU waits for a transfer before the memory may be used again
    assert link.of("wait") == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_what_comes_next_is_brought_before_its_use() -> None:
    own, link = pool(ahead=16)  # ten wait, four leave, two come early
    saved = forward(own, 20)
    for _ in range(14):
        own.use(saved.pop())
    link.events.clear()
    own.use(saved[5])
    # 6 to 3 were brought before; beside one in use there is room for no more
    assert link.events == [("wait", 6), ("wait", 6)]
    saved.pop()
    link.events.clear()
    own.use(saved.pop())
    assert link.events == [("bring", 2), ("wait", 5), ("wait", 5)]  # it waits for none of them
    own.use(saved.pop())
    own.use(saved.pop())
    assert link.of("bring") == [2]  # near the end there is room for one besides
    own.use(saved.pop())
    assert link.of("bring") == [2, 1]


def test_one_that_is_larger_than_the_room_is_brought_early() -> None:
    own, link = pool(ahead=8)
    large = own.save(Tensor(0), 2 * MIB)
    saved = [large, *forward(own, 9)]
    for _ in range(7):
        own.use(saved.pop())
    link.events.clear()
    own.use(saved.pop())
    assert link.events[0] == ("bring", 2)
    own.use(saved.pop())
    assert link.of("bring") == [2, 1]


def test_a_tensor_that_several_operations_save_is_sent_once() -> None:
    own, link = pool()
    tensor = Tensor(50)
    saved = [own.save(tensor, MIB) for _ in range(3)]
    assert saved[0] is saved[1] is saved[2]
    assert own.moved.shared == 2
    others = forward(own, 9)
    assert link.of("send") == [1, 2, 3, 4, 5]
    assert len(others) == 9
    assert [own.use(one).address for one in saved] == [50, 50, 50]


def test_the_same_place_with_other_values_is_another_tensor() -> None:
    own, link = pool(ahead=0)
    tensor = Tensor(5)
    first = own.save(tensor, MIB)
    own.use(first)
    tensor._version += 1
    assert own.save(tensor, MIB) is not first
    assert link.of("send") == [1, 2]


def test_a_change_in_place_is_an_error() -> None:
    own, _ = pool(ahead=0)
    tensor = Tensor(5)
    saved = own.save(tensor, MIB)
    tensor._version += 1
    with pytest.raises(RuntimeError, match="changed in place"):
        own.use(saved)
    other = Tensor(6)
    left = own.save(other, MIB)
    other._version += 1
    own.save(Tensor(7), MIB)  # takes the room of the one that left
    with pytest.raises(RuntimeError, match="changed in place"):
        own.use(left)


def test_without_room_on_the_host_tensors_stay() -> None:
    own, _ = pool(budget=4)
    saved = forward(own, 6)
    assert saved[4:] == [None, None]
    assert own.moved.stayed == 2
    saved = saved[:4]
    backward(own, saved)
    assert None not in forward(own, 4)  # their room is free again


def test_where_the_host_can_pin_no_more_tensors_stay() -> None:
    own, link = pool(ahead=0)
    link.most = 4
    saved = forward(own, 6)
    assert saved[5] is None
    assert own.moved.stayed == 2
    assert own.moved.tensors == 4
    assert link.of("send") == [1, 2, 3, 4, 5]  # one try was enough
    saved = saved[:5]
    assert backward(own, saved) == [4, 3, 2, 1, 0]
    link.most = 9
    assert None not in forward(own, 4)  # their room is free again


def test_those_that_wait_stay_where_the_host_can_pin_no_more() -> None:
    own, link = pool(ahead=8)
    link.most = 2
    saved = forward(own, 10)
    assert own.moved.stayed == 3  # one that could not be sent, and then those that were not tried
    assert link.of("send") == [1, 2, 3]
    saved = [one for one in saved if one is not None]
    assert backward(own, saved)[-3:] == [2, 1, 0]
    assert set(own.bytes.values()) == {0}


def test_a_retained_graph_is_used_twice() -> None:
    own, _ = pool()
    saved = forward(own, 6)
    for _ in range(2):
        assert [own.use(one).address for one in reversed(saved)] == [5, 4, 3, 2, 1, 0]


def test_a_graph_that_is_never_used_leaves_nothing() -> None:
    own, link = pool(budget=6, ahead=0)
    for _ in range(5):
        assert None not in forward(own, 6)
        gc.collect()
    waited = set(link.of("wait"))
    assert waited == set(link.of("send"))  # before its memory was free


def test_a_long_run_looks_at_what_is_there_alone() -> None:
    own, _ = pool()
    for _ in range(300):
        backward(own, forward(own, 20))
    assert not own._there
    assert not own._by_key
    assert set(own.bytes.values()) == {own._host_bytes} == {0}


def test_a_pass_begins_with_the_first_tensor_behind_a_backward_pass() -> None:
    own, link = pool()
    begun = []
    link.begin_pass = lambda: begun.append(own.moved.tensors)  # type: ignore[method-assign]
    for _ in range(3):
        backward(own, forward(own, 10))
    assert len(begun) == 2  # the first one pins memory, and begins with nothing


class CountingDict(dict):
    """Counts how often something is looked up."""

    lookups = 0

    def get(self, *arguments):
        self.lookups += 1
        return super().get(*arguments)


@pytest.mark.parametrize("ahead", [8, 2000])
def test_tensors_that_stay_on_the_gpu_are_not_looked_through(ahead: int) -> None:
    own, _ = pool(budget=10_000, ahead=ahead)
    own._there = CountingDict()
    count = 800
    backward(own, forward(own, count))
    assert own._there.lookups <= 2 * count


def test_a_graph_that_is_held_for_long_does_not_slow_others_down() -> None:
    own, link = pool(budget=10_000)
    held = forward(own, 5)
    for _ in range(activations.MOST_LOOKED_AT // 20 + 1):
        backward(own, forward(own, 20))
    link.events.clear()
    backward(own, forward(own, 20))
    assert min(link.of("bring")) > 5  # none of the graph that nobody uses
    assert len(held) == 5
