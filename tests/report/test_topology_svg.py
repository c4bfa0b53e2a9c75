from __future__ import annotations

import itertools
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from lanescope.machine import Link, LinkKind, Machine, NvLink
from lanescope.report.topology_layout import TextLine
from lanescope.report.topology_svg import topology_svg
from tests.report import factory
from tests.report.factory import NASTY, PCIE5

SVG = "{http://www.w3.org/2000/svg}"
MESH = tuple(Link(f"h{i}", f"h{j}", LinkKind.SOCKET) for j in range(8) for i in range(j))
DIRECT = tuple(
    Link.of_nvlink(f"g{i}", f"g{j}", NvLink(4, 25.0, 3)) for j in range(8) for i in range(j)
)


def many(gpus: int) -> Machine:
    machine = factory.two_gpus()
    links = tuple(Link.of_pcie("h0", f"g{i}", PCIE5) for i in range(gpus))
    return replace(machine, gpus=tuple(factory.gpu(i) for i in range(gpus)), links=links)


MACHINES = {
    "host only": factory.host_only(),
    "two GPUs": factory.two_gpus(),
    "eight GPUs": factory.eight_gpus(),
    "five GPUs": many(5),
    "eight nodes": replace(
        factory.eight_gpus(),
        nodes=tuple(factory.node(i) for i in range(8)),
        links=factory.eight_gpus().links[1:] + MESH,
    ),
    "a chain of nodes": replace(
        factory.eight_gpus(8), nodes=tuple(factory.node(i) for i in range(8))
    ),
    "direct NVLink": replace(many(8), links=many(8).links + DIRECT),
    "no links": replace(factory.two_gpus(), links=()),
    "a ring of switches": replace(
        factory.two_gpus(),
        links=(Link.of_pcie("g0", "g1", PCIE5), Link.of_pcie("g1", "g0", PCIE5)),
    ),
    "nothing": Machine("empty"),
    "markup": replace(factory.nasty_run().manifest.machine),
}


def parsed(machine: Machine) -> ElementTree.Element:
    return ElementTree.fromstring(topology_svg(machine))


def words(machine: Machine) -> list[str]:
    return [element.text or "" for element in parsed(machine).iter(f"{SVG}text")]


def text_rectangles(root: ElementTree.Element) -> list[tuple[float, float, float, float, str]]:
    found = []
    for element in root.iter(f"{SVG}text"):
        width = TextLine(element.text or "", element.get("class", "plain")).width
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        left = x if element.get("text-anchor") == "start" else x - width / 2
        found.append((left, y - 10, left + width, y + 3, element.text or ""))
    return found


@pytest.mark.parametrize("name", list(MACHINES))
def test_no_text_overlaps_another_or_leaves_the_picture(name: str):
    root = parsed(MACHINES[name])
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    rectangles = text_rectangles(root)
    for left, top, right, bottom, text in rectangles:
        assert 0 <= left < right <= width, text
        assert 0 <= top < bottom <= height, text
    for a, b in itertools.combinations(rectangles, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, (a[4], b[4])


@pytest.mark.parametrize("name", list(MACHINES))
def test_every_part_is_drawn_inside(name: str):
    root = parsed(MACHINES[name])
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.get("x", 0)), float(box.get("y", 0))
        assert x >= 0
        assert y >= 0
        assert x + float(box.get("width", 0)) <= width + 0.1
        assert y + float(box.get("height", 0)) <= height + 0.1
    shown = words(MACHINES[name])
    for part in (*MACHINES[name].nodes, *MACHINES[name].gpus):
        assert part.id in shown


def test_links_say_what_they_are_and_can_carry():
    shown = words(factory.two_gpus())
    assert shown.count("PCIe 5.0 x16") == 2
    assert shown.count("58.4 ↓ 57.6 ↑ GB/s") == 2
    assert shown.count("450 GB/s each way") == 2


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"generation": 3}, "runs at Gen 3 of 5"),
        ({"width": 8}, "runs at x8 of x16"),
        ({"generation": 4, "width": 4}, "runs at Gen 4 x4"),
    ],
)
def test_a_link_that_is_trained_down_warns(change: dict[str, int], warning: str):
    root = parsed(factory.two_gpus(replace(PCIE5, **change)))
    warned = [t.text for t in root.iter(f"{SVG}text") if t.get("class") == "warn"]
    assert warned == [warning]
    assert len([p for p in root.iter(f"{SVG}path") if p.get("class") == "link down"]) == 1


def test_an_unavailable_gpu_tells_why():
    root = parsed(factory.eight_gpus())
    gone = [g for g in root.iter(f"{SVG}g") if "gone" in (g.get("class") or "")]
    assert [g.findtext(f"{SVG}title") for g in gone] == ["It has fallen off the bus (Xid 79)."]


def test_a_described_machine_says_so():
    machine = factory.two_gpus()
    assert "described, not measured here" not in words(machine)
    assert "described, not measured here" in words(replace(machine, described=True))


def test_it_stands_alone():
    source = topology_svg(factory.two_gpus())
    assert source.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "prefers-color-scheme" in source
    assert "href" not in source


def test_names_are_escaped():
    assert NASTY in words(factory.nasty_run().manifest.machine)
    assert "<script" not in topology_svg(factory.nasty_run().manifest.machine)
