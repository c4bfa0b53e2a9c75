"""Several nodes as one machine: names, what reaches what, and the limits that follow."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lanescope.copies.copy import copies_text
from lanescope.copies.experiment import between_processes, experiment_of
from lanescope.copies.grammar import names_nodes, parse_copies
from lanescope.copies.limit import limits
from lanescope.copies.patterns import reach_each_other
from lanescope.copies.terms import Memory, Place
from lanescope.errors import InputError
from lanescope.machine.files import dumps_machine, parse_machine
from lanescope.machine.part_names import part_name, part_number
from lanescope.machine.several import cluster_of
from tests.findings.machine.simulator import nvswitched, switched

DOCUMENT = Path(__file__).parents[2].joinpath("docs", "copy.md").read_text()


def in_domain(name, domain, gpus=2):
    machine = nvswitched(gpus)
    own = tuple(replace(gpu, nvlink_domain=domain) for gpu in machine.gpus)
    return replace(machine, name=name, gpus=own)


def limit(machine, text):
    (found,) = limits(machine, between_processes(experiment_of(parse_copies(text, machine))))
    return found


@pytest.fixture
def joined():
    """Two nodes in one NVLink domain, and one in none."""
    return cluster_of([in_domain("a", "c/1"), in_domain("b", "c/1"), nvswitched(2)])


@pytest.mark.parametrize("name", ["h0", "g12", "n0.g0", "n17.h3", "n998.g999"])
def test_names_and_numbers_are_of_each_other(name):
    assert part_name(name.rpartition(".")[2][0], part_number(name)) == name
    assert Place(name, Memory.PINNED if "h" in name else Memory.DEVICE).index == part_number(name)


@pytest.mark.parametrize("name", ["n0", "n0.s0", "n01.g0", "n1000.g0", "n0.n0.g0", "N0.g0"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InputError, match="is no part of a machine"):
        Place(name, Memory.DEVICE)


def test_parts_are_named_by_their_node(joined):
    assert [gpu.id for gpu in joined.gpus] == [f"n{n}.g{g}" for n in range(3) for g in range(2)]
    assert [joined.gpu(gpu.index) for gpu in joined.gpus] == list(joined.gpus)
    assert [joined.nearest_node(gpu).id for gpu in joined.gpus[2:4]] == ["n1.h0", "n1.h0"]
    assert {link.a for link in joined.links if link.b == "n1.g0"} == {"n1.h0"}
    assert joined.notes[0] == f"n0 is a; n1 is b; n2 is {nvswitched(2).name}."


def test_nodes_in_one_domain_share_its_switch(joined):
    first, *_, other, alone = joined.gpus[0], joined.gpus[2], joined.gpus[4]
    assert reach_each_other(first, other)
    assert not reach_each_other(first, alone)
    found = limit(joined, "n0.g0 -> n1.g1")
    assert found.gbs == limit(nvswitched(2), "g0 -> g1").gbs
    assert found.reason == "NVLink 4 x18 between n0.g0 and nvswitch0"
    assert limit(joined, "n0.g0 -> n2.g1").gbs is None


def test_a_copy_within_a_node_has_the_limit_that_it_has_there(joined):
    for text in ("{}g0 -> {}g1", "{}h1 -> {}g0", "{}g0 -> {}h0 @sm"):
        alone = limit(nvswitched(2), text.format("", ""))
        assert limit(joined, text.format("n1.", "n1.")).gbs == alone.gbs


def test_nodes_without_nvlink_stay_apart():
    machine = cluster_of([switched(), switched()])
    assert {link.a.partition(".")[0] for link in machine.links} == {"n0", "n1"}
    assert limit(machine, "n0.g0 -> n1.g0").gbs is None


def test_only_gpus_reach_another_node(joined):
    with pytest.raises(InputError, match="only GPUs reach memory of another node"):
        parse_copies("n0.h0 -> n1.g0", joined)


@pytest.mark.parametrize(
    "text", ["n0.g0 -> n1.g1", "n1.h0.pageable -> n1.g0 1MiB", "n0.g1 -> n2.g0 @sm by n0.g1"]
)
def test_texts_with_nodes_are_read_back(joined, text):
    assert names_nodes(text)
    assert copies_text(parse_copies(text, joined)) == text


def test_it_is_stored_as_any_machine(joined):
    stored = parse_machine(dumps_machine(joined), "stored")
    assert replace(stored, described=joined.described) == joined


def test_of_many_nodes_the_first_and_the_last_are_named():
    many = cluster_of([in_domain(f"host{n}", None, 1) for n in range(9)])
    assert many.name == "9 nodes: host0, ..., host8"


@pytest.mark.parametrize("text", re.findall(r"lanescope copy '(n[^']+)'", DOCUMENT))
def test_the_sets_in_the_document_can_be_measured(text):
    machine = cluster_of([in_domain(f"host{n}", "c/1", 8) for n in range(4)])
    assert between_processes(experiment_of(parse_copies(text, machine))).copies
