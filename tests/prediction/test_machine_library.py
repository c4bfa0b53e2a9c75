"""GPUs by name: their links, what is published of them, and what follows from a measured one."""

import re
from pathlib import Path

import pytest

from lanescope.errors import InputError
from lanescope.machine.pcie import payload_gbs
from lanescope.prediction.costs import next_seconds, single_seconds
from lanescope.prediction.equations import Equations
from lanescope.prediction.explanation import why
from lanescope.prediction.other_links import (
    BASE,
    gpu_named,
    known_gpus,
    library_parameters,
    link_named,
    machine_of,
)
from lanescope.prediction.parameters import Origin
from lanescope.prediction.predictor import Workload
from lanescope.prediction.rank import rank
from lanescope.prediction.stored_parameters import dumps, named_parameters, parse

DOCUMENT = (Path(__file__).parents[2] / "docs" / "model.md").read_text(encoding="utf-8")
MEASURED = named_parameters(BASE)
DERIVED = [name for name in known_gpus() if name != BASE]


@pytest.mark.parametrize("name", DERIVED)
def test_every_gpu_has_parameters_with_their_sources(name):
    gpu, found = gpu_named(name), library_parameters(name, MEASURED)
    assert (found.name, found.gpu, found.link) == (name, gpu.gpu, gpu.link)
    assert found.origin is Origin.DERIVED
    assert found.errors is None  # nobody compared them with anything
    assert gpu.source in found.source
    assert "derived from h200" in found.source
    assert parse(dumps(found), name) == found
    limits = gpu.limits_gbs or payload_gbs(link_named(gpu.link))
    for cost, limit in zip((found.h2d, found.d2h), limits, strict=True):
        assert 0.8 * limit < 1e-9 / cost.per_byte.value < limit
        assert 1e-9 / cost.per_byte.low < 1.07 * limit


@pytest.mark.parametrize("name", DERIVED)
def test_no_size_of_copies_is_faster_than_their_link(name):
    found = library_parameters(name, MEASURED)
    for direction in (found.h2d, found.d2h):
        for size in (1 << power for power in range(12, 39)):
            least = size * direction.per_byte.value * 0.998
            assert single_seconds(direction, size).value >= least
            for streams in (2, 8, 64, 256):
                assert next_seconds(direction, size, streams).value >= least


@pytest.mark.parametrize("name", ["v100-pcie", "a100-sxm", "rtx-4090"])
def test_no_copy_is_faster_by_a_slower_link(name):
    found = library_parameters(name, MEASURED)
    for cost in ("h2d", "d2h", "pageable_h2d", "pageable_d2h", "fresh_d2h"):
        slow, fast = getattr(found, cost), getattr(MEASURED, cost)
        for size in (1 << power for power in range(12, 31)):
            assert single_seconds(slow, size).value >= single_seconds(fast, size).value * 0.999
            assert next_seconds(slow, size).value >= next_seconds(fast, size).value * 0.999


def test_published_rates_come_before_scaled_ones():
    found = library_parameters("rtx-4090", MEASURED)
    value, low, high = gpu_named("rtx-4090").h2d_gbs
    assert 1e-9 / found.h2d.per_byte.value == pytest.approx(value)
    assert 1e-9 / found.h2d.per_byte.low >= high
    assert 1e-9 / found.h2d.per_byte.high <= low
    assert "pinned copies published" in found.source
    assert "G scaled" in library_parameters("a100-sxm", MEASURED).source


def test_what_is_only_a_link_says_so():
    assert "only its link is known" in library_parameters("mi300x", MEASURED).source
    assert library_parameters("gh200", MEASURED).pageable_h2d is None


def test_several_of_a_gpu_have_links_of_their_own():
    machine = machine_of("a100-sxm", 4)
    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA A100-SXM4-80GB"] * 4
    assert len({link.b for link in machine.links}) == 4
    assert machine_of("gh200", 2).links[0].payload_gbs == (450.0, 450.0)


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="no GPU is named 'a100-sx'; did you mean a100-sxm"):
        gpu_named("a100-sx")
    with pytest.raises(InputError, match="there are v100-pcie, "):
        gpu_named("zz")


def test_the_document_lists_every_gpu():
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| ([^|]+) \|", DOCUMENT, re.M))
    for name, gpu in known_gpus().items():
        assert rows[name].strip() == gpu.gpu + " (measured)" * (name == BASE)


@pytest.mark.parametrize(("name", "gib"), [("l4", 24), ("a100-sxm", 80), ("mi300x", 192)])
def test_a_workload_larger_than_the_gpus_own_memory_is_said(name, gib):
    """Not than that of the GPU whose parameters were moved."""
    known = library_parameters(name, MEASURED)
    assert known.memory_bytes == gib << 30
    counts, size = [1, 2], (gib << 30) // 2
    fits = rank(Workload(size, size, 1e-3), known, Equations(), counts)
    large = rank(Workload(size + 1, size, 1e-3), known, Equations(), counts)
    assert "of memory do not hold" not in why(fits)
    assert f"The GPU's {gib} GiB of memory do not hold" in why(large)


def test_the_gpu_that_was_measured_has_its_own_parameters():
    assert library_parameters(BASE, MEASURED) is MEASURED
    assert (MEASURED.gpu, MEASURED.link) == (gpu_named(BASE).gpu, gpu_named(BASE).link)
