"""Copies as text and back."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.copies import Copy, Engine, Memory, Place
from lanescope.copies.copy import copies_text
from lanescope.copies.grammar import parse_copies
from lanescope.copies.terms import HOST_MEMORIES, UNPINNED
from lanescope.machine import Gpu, Machine, NumaNode

MACHINE = Machine(
    "some",
    nodes=tuple(NumaNode(i, ((2 * i,), (2 * i + 1,))) for i in range(2)),
    gpus=tuple(Gpu(i, "Test GPU") for i in range(3)),
)
DOWN = Copy(Place("h0", Memory.PINNED), Place("g0", Memory.DEVICE), 512 << 20, Engine.CE)

_GPUS = st.sampled_from(MACHINE.gpus).map(lambda gpu: Place(gpu.id, Memory.DEVICE))
_SIZES = st.integers(1, 1 << 40) | st.integers(1, 40).map(lambda power: 1 << power)


def _hosts(memories=HOST_MEMORIES):
    return st.builds(Place, st.sampled_from(["h0", "h1"]), st.sampled_from(memories))


_SHAPES = st.fixed_dictionaries(
    {
        "sms": st.none() | st.integers(1, 999),
        "chunk_bytes": st.none() | st.integers(0, 4096).map(lambda lines: 16 * lines),
        "pace_gbs": st.none() | st.integers(1, 10**9).map(lambda rate: rate / 1000),
        "chunk_repeats": st.none() | st.integers(1, 1024),
    }
)


@st.composite
def some_copy(draw):
    engine = draw(st.sampled_from(Engine))
    if engine is Engine.CPU:
        place = _hosts([Memory.PAGEABLE])
        source = draw(place)
        cores = MACHINE.nodes[source.index].cores
        cpus = tuple(core[0] for core in cores[: draw(st.integers(0, len(cores)))])
        return Copy(source, draw(place), draw(_SIZES), engine, cpus=cpus)
    if engine is Engine.NCCL:
        ends = draw(st.lists(_GPUS, min_size=2, max_size=2, unique=True))
        return Copy(*ends, draw(_SIZES), engine)
    hosts = _hosts([m for m in HOST_MEMORIES if engine is Engine.CE or m not in UNPINNED])
    ends = draw(st.permutations([draw(_GPUS), draw(_GPUS | hosts)]))
    executors = [None, *(place.part for place in ends if not place.is_host)]
    return Copy(
        *ends,
        draw(_SIZES),
        engine,
        executor=draw(st.sampled_from(executors)),
        **(draw(_SHAPES) if engine is Engine.SM else {}),
    )


@given(st.lists(some_copy(), min_size=1, max_size=5))
def test_what_is_written_reads_back(copies):
    assert parse_copies(copies_text(copies), MACHINE) == copies


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "h0 -> g0"),
        ({"bytes": 1 << 20}, "h0 -> g0 1MiB"),
        ({"source": Place("h0", Memory.HUGE)}, "h0.huge -> g0"),
        ({"engine": Engine.SM, "executor": "g0"}, "h0 -> g0 @sm by g0"),
        ({"engine": Engine.SM, "sms": 9, "chunk_bytes": 0}, "h0 -> g0 @sm:9:0"),
        ({"engine": Engine.SM, "chunk_bytes": 16 << 10}, "h0 -> g0 @sm:auto:16KiB"),
        ({"engine": Engine.SM, "sms": 4, "pace_gbs": 50}, "h0 -> g0 @sm:4:auto:50"),
    ],
)
def test_what_is_usual_is_left_out(changes, text):
    assert copies_text([dataclasses.replace(DOWN, **changes)]) == text
