"""Where pages lie, by the kernel's account, as the compiled core asks for it."""

import numpy as np
import pytest

from lanescope._core import native
from lanescope.machine import discover


def test_where_pages_lie():
    data = np.ones(4 << 20, dtype=np.uint8)
    by_node, unknown = native.node_pages(data.ctypes.data, data.nbytes)
    if not by_node:
        pytest.skip("the kernel may not be asked where pages are")
    assert sum(by_node.values()) + unknown == pytest.approx(data.nbytes // 4096, abs=1)
    elsewhere = max(by_node) + 1
    with pytest.raises(native.NativeError) as caught:
        native.require_on_node(data.ctypes.data, data.nbytes, elsewhere)
    assert caught.value.args[2] == "pages elsewhere"
    assert f"100 % of the pages lie on other nodes than h{elsewhere}" in caught.value.args[3]
    if len(by_node) == 1:
        native.require_on_node(data.ctypes.data, data.nbytes, *by_node)


def test_pages_of_large_memory_are_a_sample():
    data = np.ones(64 << 20, dtype=np.uint8)
    by_node, unknown = native.node_pages(data.ctypes.data, data.nbytes)
    assert sum(by_node.values()) + unknown == 4096


def test_pages_that_nobody_touched_are_not_known():
    data = np.empty(64 << 20, dtype=np.uint8)
    by_node, unknown = native.node_pages(data.ctypes.data, data.nbytes)
    assert sum(by_node.values()) < 0.1 * unknown
    assert native.node_pages(data.ctypes.data, 0) == ({}, 0)


@pytest.mark.parametrize("kind", ["pageable", "small_pages"])
def test_memory_lies_on_the_node_that_was_asked_for(kind):
    """With one node nothing is bound; with several the core asks the kernel and would throw."""
    topology = native.Topology()
    pool = native.BufferPool(topology)
    memory = getattr(native.Memory, kind)
    for node in (n for n in discover().nodes if n.memory_bytes != 0):
        place = native.PlaceSpec(memory, node.index)
        loads = native.LoadProbe(topology, pool, place, 1 << 20, 64, 9999, None, False, 0, [])
        native.AllocationProbe(topology, place, 1 << 20, 0, []).run(2)
        loads.run(1, 1)
        assert loads.count_mismatches() == 0
