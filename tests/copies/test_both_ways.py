"""Kernels that copy both ways at once: their limits, and the one kernel that does both."""

import dataclasses

import pytest

from lanescope.copies.experiment import experiment_of
from lanescope.copies.grammar import parse_copies
from lanescope.copies.kernel_shapes import sm_shapes
from lanescope.copies.limit import limits
from lanescope.errors import InputError


def copies(machine, text):
    return parse_copies(text, machine)


def rates(machine, text):
    return [limit.gbs for limit in limits(machine, experiment_of(copies(machine, text)))]


def test_each_line_that_a_kernel_reads_takes_a_request_of_the_writes_direction(two_gpus):
    # 128 B of payload with 24 B around it, and 24 B for the request: PCIe 5.0 x16 is 63.0 GB/s
    assert rates(two_gpus, "h0 <-> g0 @sm") == pytest.approx(
        [63.015 / ((152 + 24) / 128)] * 2, rel=1e-3
    )
    assert rates(two_gpus, "g0 -> h0 @sm") == pytest.approx([63.015 / (152 / 128)], rel=1e-3)


def test_reads_of_lines_over_nvlink_take_a_flit_of_the_other_direction(two_gpus):
    raw = 18 * 26.5625
    reads = "g1 -> g0 @sm by g0, g0 -> g1 @sm by g1"
    assert rates(two_gpus, reads) == pytest.approx([raw / ((128 + 16 + 16) / 128)] * 2)
    writes = "g0 <-> g1 @sm"
    assert rates(two_gpus, writes) == pytest.approx([raw * 128 / 144] * 2)


def test_opposing_kernels_of_a_gpu_go_in_step(two_gpus):
    down, up = sm_shapes(copies(two_gpus, "h0 <-> g0 @sm"), two_gpus)
    assert (down.in_step_with, up.in_step_with) == (None, 0)
    assert (up.sms, up.chunk_bytes) == (down.sms, down.chunk_bytes)


def test_each_gpu_has_its_own_pair(two_gpus):
    text = "h0 -> g0 @sm, h0 -> g1 @sm, g0 -> h0 @sm, g1 -> h0 @sm, h0 -> g0 @sm"
    steps = [s.in_step_with for s in sm_shapes(copies(two_gpus, text), two_gpus)]
    assert steps == [None, None, 0, 1, None]


@pytest.mark.parametrize(
    "text",
    [
        "h0 <-> g0 @sm:4",  # a shape that was chosen is kept
        "h0 <-> g0 @ce",
        "h0 -> g0 @sm, g0 -> h0 @ce",
        "h0 -> g0 @sm 1MiB, g0 -> h0 @sm 2MiB",
        "g0 <-> g1 @sm",
        "h0 -> g0 @sm, g1 -> h0 @sm",
    ],
)
def test_what_goes_alone(two_gpus, text):
    shapes = sm_shapes(copies(two_gpus, text), two_gpus)
    assert all(shape.in_step_with is None for shape in shapes if shape)


def test_one_kernel_takes_its_sms_once(two_gpus):
    few = dataclasses.replace(
        two_gpus, gpus=tuple(dataclasses.replace(g, multiprocessors=10) for g in two_gpus.gpus)
    )
    assert sm_shapes(copies(few, "h0 <-> g0 @sm"), few)[0].sms == 8
    with pytest.raises(InputError, match="the copies take 12 at once"):
        sm_shapes(copies(few, "h0 <-> g0 @sm:6"), few)


@pytest.mark.parametrize(
    ("sms", "text"),
    [
        (132, "20x h0 -> g0 @sm, 20x g0 -> h0 @sm"),
        (14, "2x h0 -> g0 @sm, 2x g0 -> h0 @sm"),
        (10, "h0 <-> g0 @sm, g0 -> g0 @sm"),
        (6, "h0 <-> g0 @sm"),
        (1, "h0 <-> g0 @sm"),
    ],
)
def test_kernels_in_step_leave_the_others_their_share(two_gpus, sms, text):
    gpus = tuple(dataclasses.replace(g, multiprocessors=sms) for g in two_gpus.gpus)
    machine = dataclasses.replace(two_gpus, gpus=gpus)
    shapes = sm_shapes(copies(machine, text), machine)
    assert sum(shape.sms for shape in shapes if shape.in_step_with is None) <= sms


def test_memory_that_several_gpus_share_may_be_the_limit(two_gpus):
    nodes = tuple(dataclasses.replace(n, memory_gbs=None) for n in two_gpus.nodes)
    dark = dataclasses.replace(two_gpus, nodes=nodes)
    for machine, text, unknown in (
        (dark, "h0 <-> g0, h0 <-> g1", True),
        (dark, "h0 <-> g0", False),
        (two_gpus, "h0 <-> g0, h0 <-> g1", False),
        (dark, "g0 <-> g1", False),
    ):
        found = limits(machine, experiment_of(copies(machine, text)))
        assert all((limit.unknown is not None) is unknown for limit in found), text
