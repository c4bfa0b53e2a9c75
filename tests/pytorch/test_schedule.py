"""What a training step takes and holds by the schedule of saved tensors, on a clock of its own."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lanescope.torch.activations import Pool
from tests.pytorch.timed_link import Memory, TimedLink, TimedTensor

MIB = 1 << 20
#: What a block of a model like GPT saves, 2048 wide, of 8 x 1024 tokens in bf16: the norm's input
#: and output, query, key and value, attention's output, norm, and what a GELU gets and gives.
BLOCK = [one * MIB for one in (32, 32, 96, 32, 32, 32, 128, 128)]
BLOCKS = 12
#: Of a block, beside each tensor.
FORWARD_SECONDS, BACKWARD_SECONDS = 20e-3 / BLOCKS / len(BLOCK), 40e-3 / BLOCKS / len(BLOCK)


def step(
    link: TimedLink,
    pool: Pool,
    memory: Memory,
    gradients: int = 0,
    results: int = 0,
    sizes: list[int] = BLOCK * BLOCKS,
) -> None:
    """Run a step whose operations have so many results of their tensor's size amid backward."""
    saved = []
    for address, size in enumerate(sizes):
        link.compute(FORWARD_SECONDS)
        saved.append(pool.save(TimedTensor(memory, address, size), size))
    while saved:
        tensor = pool.use(saved.pop())
        memory.take(results * tensor.size)
        link.compute(BACKWARD_SECONDS)
        memory.give(results * tensor.size)
        del tensor
        memory.take(gradients // len(sizes))


def taken(
    gbs: float, ahead: int, gradients: int = 0, decode_seconds: float = 0
) -> tuple[float, TimedLink, Memory]:
    link, memory = TimedLink(gbs * 1e9, decode_seconds), Memory()
    step(link, Pool(link, 1 << 40, ahead), memory, gradients)
    return link.now, link, memory


@pytest.mark.parametrize("gbs", [55, 75])
def test_a_step_takes_little_longer_than_its_link(gbs: float) -> None:
    seconds, link, memory = taken(gbs, 1024 * MIB)
    assert memory.held == 0
    assert memory.peak <= 1024 * MIB + max(BLOCK)
    on_the_link = (link.out_bytes + link.back_bytes) / link.bytes_per_second
    assert seconds < 1.04 * on_the_link
    # what was saved last went nowhere, and what was leaving did not come back
    whole = sum(BLOCK) * BLOCKS
    assert link.out_bytes <= whole - 640 * MIB + max(BLOCK)
    assert link.back_bytes <= link.out_bytes - 256 * MIB + max(BLOCK)


@pytest.mark.parametrize("ahead", [1024 * MIB, 1280 * MIB])
@pytest.mark.parametrize("gradients", [0, 600 * MIB, 1200 * MIB])
def test_room_that_is_free_again_hides_what_comes_back(ahead: int, gradients: int) -> None:
    seconds, link, memory = taken(70, ahead, gradients, decode_seconds=0.6e-3)
    on_the_link = (link.out_bytes + link.back_bytes) / link.bytes_per_second
    assert seconds < 1.015 * on_the_link  # 1.06 with an eighth of the memory throughout
    # no more than the forward pass takes, or what there is at the end anyway
    assert memory.peak <= max(ahead, gradients + ahead // 8 + 32 * MIB)


def test_less_is_prefetched_while_large_tensors_are_in_use() -> None:
    """Otherwise the peak is where the largest are used, with all that may be prefetched."""
    ahead, gradients = 1280 * MIB, 1200 * MIB
    link, memory = TimedLink(70e9), Memory()
    step(link, Pool(link, 1 << 40, ahead), memory, gradients, results=2)
    alone = gradients + 3 * max(BLOCK)  # a link as fast as memory would take that
    assert memory.peak <= alone + 32 * MIB


def test_passes_that_follow_each_other_are_alike() -> None:
    link, memory = TimedLink(70e9), Memory()
    pool = Pool(link, 1 << 40, 1024 * MIB)
    ends = []
    for _ in range(3):
        step(link, pool, memory, 0)
        ends.append(link.now)
    first, *others = [b - a for a, b in pairwise([0.0, *ends])]
    assert others == pytest.approx([first, first], rel=0.01)


def test_a_fast_link_leaves_the_computation_as_it_is() -> None:
    seconds, _, _ = taken(900, 1024 * MIB)
    assert seconds < 1.1 * 60e-3


def test_less_memory_takes_longer_and_holds_less() -> None:
    found = [taken(55, ahead * MIB) for ahead in (128, 512, 1024, 2048)]
    assert [one[0] for one in found] == sorted((one[0] for one in found), reverse=True)
    assert [one[2].peak for one in found] == sorted(one[2].peak for one in found)


class Adapted:
    """Steps of a pool that is not given how much of the memory it may take."""

    def __init__(self) -> None:
        self.link, self.memory = TimedLink(55e9), Memory()
        self.pool = Pool(self.link, 1 << 40)

    def step(self, shrunk: int = 1) -> tuple[int, int, int]:
        """Run one with tensors so much smaller; return its peak, and the bytes out and back."""
        link, memory = self.link, self.memory
        memory.peak, out, back = memory.held, link.out_bytes, link.back_bytes
        step(link, self.pool, memory, sizes=[size // shrunk for size in BLOCK * BLOCKS])
        return memory.peak, link.out_bytes - out, link.back_bytes - back


def test_a_model_that_saves_much_has_as_much_room_as_ever() -> None:
    _, link, memory = taken(55, 1280 * MIB)
    adapted = Adapted()
    first_peak, *_ = adapted.step()
    assert first_peak <= memory.peak
    for _ in range(2):
        assert adapted.step() == (memory.peak, link.out_bytes, link.back_bytes)


@pytest.mark.parametrize("shrunk", [2, 4, 8])
def test_a_smaller_model_has_less_room_in_proportion(shrunk: int) -> None:
    adapted, large = Adapted(), Adapted()
    large.step()
    peak, *_ = large.step()
    for _ in range(3):
        assert adapted.step(shrunk)[0] <= peak // shrunk
    link = adapted.link
    out, back = (size / 3 / link.bytes_per_second for size in (link.out_bytes, link.back_bytes))
    assert link.now / 3 < 1.06 * (max(out, 20e-3) + max(back, 40e-3))


def test_a_pass_that_saves_hardly_anything_stays_on_the_gpu() -> None:
    assert Adapted().step(shrunk=160)[1:] == (0, 0)


def test_batches_of_several_sizes_have_the_room_of_the_largest() -> None:
    alone, mixed = Adapted(), Adapted()
    alone.step()
    largest = alone.step()
    mixed.step()
    for _ in range(3):
        assert mixed.step(shrunk=4)[0] <= 1280 * MIB
        assert mixed.step() == largest


def test_graphs_that_are_dropped_do_not_add_up() -> None:
    """As in an evaluation with gradients, which has no backward pass."""
    dropped, usual = Adapted(), Adapted()
    for _ in range(20):
        saved = [
            dropped.pool.save(TimedTensor(dropped.memory, address, size // 4), size // 4)
            for address, size in enumerate(BLOCK * BLOCKS)
        ]
        saved.clear()
    usual.step(shrunk=4)
    assert dropped.step(shrunk=4) == usual.step(shrunk=4)
