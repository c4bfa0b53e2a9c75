"""NCCL on GPUs: every byte arrives, and an all-reduce holds what every rank has added."""

from __future__ import annotations

import pytest

import lanescope
from lanescope._core import native
from lanescope.copies.experiment import experiment_of
from lanescope.copies.grammar import parse_copies
from lanescope.engine.processes import Processes
from lanescope.engine.worker import nccl_library
from tests.engine.test_nccl import all_reduce
from tests.engine.test_processes_gpu import gpus_here, two_gpus


def there_is_nccl() -> bool:
    try:
        native.NcclRank.unique_id(nccl_library())
    except native.NativeError:
        return False
    return True


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(gpus_here() < 1, reason="no GPU CUDA can use"),
    pytest.mark.skipif(not there_is_nccl(), reason="no NCCL"),
]


@pytest.fixture
def started():
    found = Processes()
    yield found
    found.drop()
    found.end()


@pytest.mark.parametrize("size", [8, 1000, 1 << 20])
def test_a_sum_over_one_gpu_is_what_it_had(size):
    rank = native.NcclRank(nccl_library(), native.NcclRank.unique_id(nccl_library()), 1, 0, 0)
    made = native.NcclOperations(rank, [], [], size)
    assert made.count_mismatches() > 0, "the sum was spoilt"
    boundaries = made.run(3, 2)
    assert len(boundaries) == 4
    assert boundaries == sorted(boundaries)
    assert made.count_mismatches() == 0


def test_a_gpu_that_sends_to_itself():
    rank = native.NcclRank(nccl_library(), native.NcclRank.unique_id(nccl_library()), 1, 0, 0)
    transfer = native.NcclTransfer(0, 3 << 20, 7)
    made = native.NcclOperations(rank, [transfer], [transfer], 0)
    assert made.count_mismatches() > 2 << 20
    made.run(2, 1)
    assert made.count_mismatches() == 0


def test_what_nccl_refuses_is_said():
    with pytest.raises(native.NativeError) as caught:
        native.NcclRank(nccl_library(), native.NcclRank.unique_id(nccl_library()), 1, 5, 0)
    assert caught.value.args[0] == "ncclCommInitRank"
    assert caught.value.args[2] == "NCCL failed"


@pytest.mark.multigpu
@two_gpus
@pytest.mark.parametrize("text", ["g0 -> g1 @nccl 64MiB", "g0 <-> g1 @nccl 1000B"])
def test_every_byte_arrives(started, text):
    made = experiment_of(parse_copies(text, lanescope.discover()))
    copies = started.copies(made, [None] * len(made.copies))
    assert copies.count_mismatches() > 900
    for boundaries in copies.run_gated(4, 3):
        assert len(boundaries) == 5
        assert boundaries == sorted(boundaries)
    assert copies.count_mismatches() == 0


@pytest.mark.multigpu
@two_gpus
@pytest.mark.parametrize("size", [8, 1002, 64 << 20])
def test_an_all_reduce_holds_what_every_gpu_has_added(started, size):
    copies = started.copies(all_reduce(2, size), [None, None])
    assert copies.count_mismatches() > 0
    copies.run_gated(3, 1)
    assert copies.count_mismatches() == 0


@pytest.mark.multigpu
@two_gpus
def test_bench_nccl_measures_every_operation(tmp_path):
    run = lanescope.nccl(sizes=[1 << 20, 64 << 20], gpus=[0, 1], out=tmp_path / "run")
    assert len(run.results) == 4 * 2
    for result in run.results:
        assert result.copies, result.not_measured
        assert all(copy.gbs > 0.1 for copy in result.copies)
    assert "all-reduce of 2 GPUs" in str(run)
