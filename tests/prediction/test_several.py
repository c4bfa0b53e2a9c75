"""The same workload on several GPUs at once."""

from dataclasses import replace

import pytest

from lanescope.errors import InputError
from lanescope.machine import Link
from lanescope.machine.pcie import PcieLink, payload_gbs
from lanescope.prediction.equations import Equations
from lanescope.prediction.other_links import BASE, library_parameters, machine_of
from lanescope.prediction.predictor import Method, Workload
from lanescope.prediction.rank import rank
from lanescope.prediction.replay import Replay, on_several
from lanescope.prediction.stored_parameters import named_parameters
from lanescope.studies.predicted import several_text
from tests.studies.link_parameters import fitted

WORK = Workload(400_000_000, 200_000_000, 0.001)


@pytest.fixture(scope="module")
def ranking():
    return rank(WORK, fitted(), Replay(), (1, 4, 16))


def with_memory(machine, gbs):
    return replace(machine, nodes=tuple(replace(n, memory_gbs=gbs) for n in machine.nodes))


def test_gpus_with_links_of_their_own_take_about_as_long_as_one(ranking, two_gpus):
    both = on_several(ranking, 2, with_memory(two_gpus, None))
    assert (both.shared, both.unknown) == ((), ("the memory of h0",))
    alone = {one.method: one.seconds.value for one in ranking.best}
    for one in both.predictions:
        if one.method is Method.PAGEABLE:  # one thread stages one copy after the other
            assert one.seconds.value == pytest.approx(2 * alone[one.method], rel=0.05)
        else:
            assert one.seconds.value == pytest.approx(alone[one.method], rel=0.05)


def test_gpus_of_different_nodes_share_nothing(ranking, two_gpus):
    (node,) = two_gpus.nodes
    one, other = two_gpus.gpus
    links = [link for link in two_gpus.links if link.b in ("g0", "g1") and link.a == node.id]
    apart = replace(
        two_gpus,
        nodes=(node, replace(node, index=1)),
        gpus=(one, replace(other, node=1)),
        links=(links[0], replace(links[1], a="h1")),
    )
    both = on_several(ranking, 2, with_memory(apart, None))
    assert (both.shared, both.unknown) == ((), ())
    assert several_text(both).endswith("they share nothing on their way to the host's memory.")


def test_slow_memory_is_shared(ranking, two_gpus):
    fast = on_several(ranking, 2, with_memory(two_gpus, 400.0))
    slow = on_several(ranking, 2, with_memory(two_gpus, 40.0))
    assert fast.shared == slow.shared == ("the memory of h0",)
    for quick, long in zip(fast.predictions, slow.predictions, strict=True):
        assert long.seconds.low <= long.seconds.value <= long.seconds.high
        if long.method is not Method.PAGEABLE:
            assert long.seconds.value > 1.2 * quick.seconds.value
    # 40 GB/s carry what both copy there and back at the least in 1.2 GB / 40 GB/s
    assert min(p.seconds.value for p in slow.predictions) > 1.2 / 40


def test_the_numbers_of_gpus_do_not_matter(ranking, two_gpus):
    slow = with_memory(two_gpus, 40.0)
    numbers = {"g0": 3, "g1": 7}
    gpus = tuple(replace(gpu, index=numbers[gpu.id]) for gpu in slow.gpus)
    names = {old: f"g{new}" for old, new in numbers.items()}
    links = tuple(
        replace(link, a=names.get(link.a, link.a), b=names.get(link.b, link.b))
        for link in slow.links
    )
    others = on_several(ranking, 2, replace(slow, gpus=gpus, links=links))
    assert others == on_several(ranking, 2, slow)


def test_not_so_many_gpus(ranking, two_gpus):
    with pytest.raises(InputError, match="gpus 3: two-gpus has 2; name a machine that has"):
        on_several(ranking, 3, two_gpus)


@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-sxm", "v100-pcie", "gh200"])
def test_no_method_is_faster_on_several_gpus_than_on_one(gpu):
    # by the equations Hybrid takes 1.7 times what it does by the replay on an h100-sxm
    known = library_parameters(gpu, named_parameters(BASE))
    best = rank(Workload(700_000_000, 350_000_000, 0.012), known, Equations(), range(1, 65))
    found = on_several(best, 4, machine_of(gpu, 4))
    for several, one in zip(found.predictions, found.one_gpu, strict=True):
        assert (several.method, several.streams) == (one.method, one.streams)
        assert several.seconds.value >= one.seconds.value * (1 - 1e-9)


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("PCIe 5.0 x16", ""),
        ("PCIe 5.0 x8", "PCIe 5.0 x8, which carries 29.2 GB/s to it at most; that of g0 in"),
        ("PCIe 6.0 x16", "PCIe 6.0 x16, which carries "),
        ("NVLink-C2C", ""),  # whose limit is not known
    ],
)
def test_links_that_are_not_those_of_the_parameters_are_said(ranking, two_gpus, link, said):
    of_link = replace(ranking, parameters=replace(fitted(), link=link))
    both = on_several(of_link, 2, with_memory(two_gpus, 400.0))
    assert said in both.unlike
    assert bool(both.unlike) == bool(said)
    assert several_text(both).endswith(both.unlike)


def test_no_copy_is_faster_than_a_gpus_own_slower_link(ranking, two_gpus):
    """One of two GPUs is on four lanes of PCIe 3.0: its copies take as long as they do there."""
    narrow = PcieLink(3, 4)
    links = tuple(
        Link.of_pcie(one.a, one.b, narrow) if one.b == "g1" else one for one in two_gpus.links
    )
    machine = with_memory(replace(two_gpus, links=links), 400.0)
    known = replace(ranking, parameters=replace(fitted(), link="PCIe 5.0 x16"))
    found = on_several(known, 2, machine)
    into, back = payload_gbs(narrow)
    least = max(WORK.h2d_bytes / into, WORK.d2h_bytes / back) * 1e-9
    assert min(one.seconds.low for one in found.predictions) > 0.7 * least
    values = {one.method: one.seconds.value for one in found.predictions}
    assert min(values.values()) >= least * (1 - 1e-9)
    both = (WORK.h2d_bytes / into + WORK.d2h_bytes / back) * 1e-9
    assert values[Method.EXPLICIT] == pytest.approx(both + WORK.kernel_seconds, rel=0.01)
    assert "that of g1 in" in found.unlike
    assert found.shared == ("the memory of h0",)
    # g0 has the link of the parameters: alone it takes what they say
    alone = {one.method: one.seconds.value for one in ranking.best}
    assert {one.method: one.seconds.value for one in found.one_gpu} == pytest.approx(alone)
    turned = replace(machine, gpus=machine.gpus[::-1])  # alone is the first one, g1 now
    slow = on_several(known, 2, turned).one_gpu
    assert min(one.seconds.value for one in slow) >= least * (1 - 1e-9)


def test_a_link_that_a_machine_file_does_not_tell_is_said(ranking, two_gpus):
    bare = replace(two_gpus, links=(), described=True)
    of_link = replace(ranking, parameters=replace(fitted(), link="PCIe 5.0 x16"))
    said = on_several(of_link, 2, with_memory(bare, 400.0)).unlike
    assert said.startswith("How g0 is linked to h0 two-gpus does not tell")
