"""Machines and experiments that many tests use."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path

import pytest
from hypothesis import settings

from lanescope._core import native
from lanescope.copies import Copy, Engine, Experiment, Memory, Place, Timing
from lanescope.machine import Gpu, Link, LinkKind, Machine, NumaNode, NvLink, PcieLink, Switch

# The same examples every time, so that a change and not chance turns a test red;
# HYPOTHESIS_PROFILE=default looks for new ones. A slow machine fails no example.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_collection_finish() -> None:
    """Have no garbage collection look at the thousands of tests again: 8 % of their time."""
    gc.collect()
    gc.freeze()


GEN5 = PcieLink(5, 16, 5, 16, max_payload_bytes=256, max_read_request_bytes=4096)


def host_to_gpu(size: int = 512 << 20, gpu: int = 0) -> Copy:
    return Copy(Place("h0", Memory.PINNED), Place(f"g{gpu}", Memory.DEVICE), size, Engine.CE)


def gpu_to_host(size: int = 512 << 20, gpu: int = 0) -> Copy:
    return Copy(Place(f"g{gpu}", Memory.DEVICE), Place("h0", Memory.PINNED), size, Engine.CE)


def gpu_to_gpu(source: int, destination: int, size: int = 512 << 20) -> Copy:
    places = (Place(f"g{i}", Memory.DEVICE) for i in (source, destination))
    return Copy(*places, size, Engine.CE)


def experiment_of(*copies: Copy, name: str = "case") -> Experiment:
    pageable = any(c.source.memory is Memory.PAGEABLE for c in copies)
    return Experiment(name, name, copies, Timing.HOST if pageable else Timing.GATE)


@pytest.fixture
def results_folder() -> Path:
    """The stored runs that README and docs cite."""
    return Path(__file__).parents[1] / "benchmarks" / "results"


@pytest.fixture
def source_folder() -> Path:
    return Path(__file__).parents[1] / "src" / "lanescope"


@pytest.fixture(scope="session")
def small_cache_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This machine as hwloc describes it, but with caches of 1 MiB."""
    path = tmp_path_factory.mktemp("hwloc") / "machine.xml"
    text = native.Topology().xml()
    path.write_text(re.sub(r'cache_size="\d+"', f'cache_size="{1 << 20}"', text))
    return path


@pytest.fixture
def small_arrays(monkeypatch: pytest.MonkeyPatch, small_cache_file: Path) -> None:
    """Have 64 MiB measured in host memory, here and in processes that are started.

    It is four times the last-level cache else, of which virtual machines may show hundreds of MiB:
    to allocate that takes seconds.
    """
    monkeypatch.setenv("HWLOC_XMLFILE", str(small_cache_file))


@pytest.fixture
def two_gpus() -> Machine:
    """A node of 4 cores, two GPUs on PCIe 5.0 x16 of their own, and an NVLink switch."""
    return Machine(
        name="two-gpus",
        nodes=(NumaNode(0, ((0,), (1,), (2,), (3,)), 64 << 30, 32 << 20, 200.0, "DDR5"),),
        gpus=tuple(Gpu(i, "Test GPU", node=0, memory_bytes=16 << 30) for i in (0, 1)),
        switches=(Switch("nvswitch", "NVSwitch"),),
        links=(
            Link.of_pcie("h0", "g0", GEN5),
            Link.of_pcie("h0", "g1", GEN5),
            Link.of_nvlink("g0", "nvswitch", NvLink(18, 26.5625, 4)),
            Link.of_nvlink("g1", "nvswitch", NvLink(18, 26.5625, 4)),
        ),
    )


@pytest.fixture
def two_sockets() -> Machine:
    """Two nodes; both GPUs share a PCIe switch on node 1; the sockets' link is unknown."""
    nodes = tuple(NumaNode(i, ((2 * i,), (2 * i + 1,)), 64 << 30, 32 << 20) for i in (0, 1))
    return Machine(
        name="two-sockets",
        nodes=nodes,
        gpus=tuple(Gpu(i, "Test GPU", node=1) for i in (0, 1)),
        switches=(Switch("s0", "PCIe switch"),),
        links=(
            Link("h0", "h1", LinkKind.SOCKET),
            Link.of_pcie("h1", "s0", GEN5),
            Link.of_pcie("s0", "g0", GEN5),
            Link.of_pcie("s0", "g1", GEN5),
        ),
    )
