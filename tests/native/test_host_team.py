"""Host threads that work on whole arrays, on a CPU."""

import itertools

import pytest

from lanescope._core import native
from lanescope.results.turns import overlapping_spans
from tests.patience import until

OPERATIONS = ["copy", "scale", "add", "triad"]


def spec(size, operation="copy", cpus=(0,), memory="pageable"):
    place = native.PlaceSpec(getattr(native.Memory, memory), 0)
    return native.HostCopySpec(place, place, size, getattr(native.Operation, operation), cpus)


def team(*specs):
    topology = native.Topology()
    return native.HostTeam(topology, native.BufferPool(topology), list(specs))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_host_threads_move_every_element(operation, threads):
    cpus = [cpu % 2 for cpu in range(threads)]  # three threads share two CPUs
    size = 8 * 1_000_003  # an odd count, so that parts are unequal
    one = team(spec(size, operation, cpus))
    spans = one.run(3)[0]
    assert one.count_mismatches() == 0
    assert len(spans) == 3
    assert all(begin < end for begin, end in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 513])
def test_operations_are_exact_whichever_direction_they_store(streaming, count):
    if streaming and not native.has_streaming_stores():
        pytest.skip("this CPU has no streaming stores")
    # b is i, c is 2 * i and s is 3
    for operation, factor in zip(OPERATIONS, (1, 3, 3, 7), strict=True):
        kind = getattr(native.Operation, operation)
        results = native.testing.kernel_results(kind, streaming, count)
        assert results == [factor * i for i in range(count)]


@pytest.mark.parametrize("memory", ["pageable", "small_pages"])
def test_kinds_of_memory_that_need_no_driver(memory):
    both = team(spec(4 << 20, "triad", memory=memory))
    both.run(2)
    assert both.count_mismatches() == 0


def test_copies_at_once_run_free_until_all_are_through():
    copies = team(spec(1 << 20, cpus=[0]), spec(16 << 20, "triad", cpus=[1]))

    def run():
        spans = copies.run(5)
        assert [len(copy) >= 5 for copy in spans] == [True, True]
        return spans

    # whoever was through first went on: all but the ends of the other's repetitions count; where
    # other programs hold a CPU its thread may come too late
    until(lambda: all(len(kept) >= 4 for kept in overlapping_spans(run())))


def test_the_threads_of_one_of_several_copies_start_its_repetitions_together():
    copies = team(spec(8 << 20, cpus=[0, 1]), spec(8 << 20, "add", cpus=[1]))
    spans = copies.run(4)
    assert copies.count_mismatches() == 0
    for copy in spans:
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(copy))


def test_impossible_memory_is_an_error_not_a_crash():
    with pytest.raises(native.NativeError) as caught:
        team(spec(1 << 60))
    call, code, name, detail, where = caught.value.args
    assert "mmap" in call
    assert (code, name) == (12, "errno 12")
    assert detail
    assert "host_buffer.cpp:" in where


def test_memory_of_a_device_is_not_for_host_threads():
    for memory in ("device", "pool"):
        with pytest.raises(native.NativeError, match="do not work in memory of a device"):
            team(spec(64, memory=memory))
