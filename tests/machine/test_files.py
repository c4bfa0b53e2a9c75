import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.errors import InputError
from lanescope.machine import (
    Gpu,
    Latencies,
    Link,
    LinkKind,
    Machine,
    NumaNode,
    NvLink,
    PcieLink,
    Switch,
    load_machine,
    machine_named,
    save_machine,
    shipped_names,
)
from lanescope.machine.files import dumps_machine, parse_machine, require_sound
from lanescope.report.terminal import machine_tree

texts = st.text(min_size=1, max_size=20)
amounts = st.none() | st.integers(1, 1 << 50)
rates = st.floats(0.1, 500)
pcie = st.builds(
    PcieLink,
    st.integers(1, 6),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.none() | st.integers(1, 6),
    st.none() | st.sampled_from([1, 16]),
    st.none() | st.sampled_from([128, 256, 4096]),
    st.none() | st.just(512),
)


@st.composite
def machines(draw):
    nodes = tuple(
        NumaNode(i, ((2 * i,), (2 * i + 1,)), draw(amounts), draw(amounts), draw(st.none() | rates))
        for i in range(draw(st.integers(1, 3)))
    )
    gpus = tuple(
        Gpu(i, draw(texts), 0, memory_bytes=draw(amounts)) for i in range(draw(st.integers(0, 3)))
    )
    links = [Link.of_pcie("h0", g.id, draw(pcie)) for g in gpus]
    links += [Link.of_nvlink(g.id, "nvswitch", NvLink(18, draw(rates), 4)) for g in gpus]
    links += [
        Link("h0", n.id, LinkKind.SOCKET, payload_gbs=draw(st.none() | st.tuples(rates, rates)))
        for n in nodes[1:]
    ]
    return Machine(
        name=draw(texts),
        cpu=draw(st.none() | texts),
        nodes=nodes,
        gpus=gpus,
        switches=(Switch("nvswitch", "NVLink switch"),) if gpus else (),
        links=tuple(links),
        latencies=draw(st.builds(Latencies, h2d_us=st.none() | rates, source=st.none() | texts)),
        notes=tuple(draw(st.lists(texts, max_size=2))),
    )


@given(machines())
def test_what_is_written_reads_back(machine):
    again = parse_machine(dumps_machine(machine), "text")
    assert again == dataclasses.replace(machine, described=True)


def test_files(tmp_path, two_gpus):
    path = tmp_path / "machine.toml"
    save_machine(two_gpus, path)
    assert (
        machine_named(str(path))
        == load_machine(path)
        == dataclasses.replace(two_gpus, described=True)
    )


def test_shipped_machines():
    assert shipped_names() == ["h200-x2", "h200-x4", "p6000", "taruc-2017"]
    for name in shipped_names():
        machine = load_machine(name)
        assert machine == machine_named(name)
        assert machine.described
        assert machine.gpus
        assert machine.latencies.source
    assert machine_named("h200-x2").links[0].payload_gbs[0] == pytest.approx(58.4, abs=0.1)


def test_limits_follow_from_the_links_state():
    older = GOOD.replace("generation = 5", "generation = 3")
    computed = parse_machine(older, "text").links[0]
    assert computed.payload_gbs[0] == pytest.approx(14.6, abs=0.1)
    told = parse_machine(older + "payload_gbs = [12.0, 12]\n", "text").links[0]
    assert told.payload_gbs == (12.0, 12.0)


GOOD = """\
name = "x"

[[nodes]]
index = 0
cores = [[0], [1]]

[[gpus]]
index = 0
name = "g"

[[links]]
a = "h0"
b = "g0"
kind = "pcie"
pcie = { generation = 5, width = 16 }
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "word"),
    [
        ('name = "x"\n', "", 1, "'name' is missing"),
        ('name = "x"', "name = 7", 1, "'name' is 7, not a text"),
        ('name = "x"', 'name = "x"\ncolour = 1', 2, "unknown field 'colour'"),
        ("cores = [[0], [1]]", "cores = 2", 5, "'cores' must be a list"),
        ("cores = [[0], [1]]", 'cores = [["a"]]', 5, "'cores[0][0]' is 'a', not a whole number"),
        ("cores = [[0], [1]]", "memory_bytes = -1", 5, "'memory_bytes' is -1"),
        ('name = "g"\n', "", 7, "'name' is missing"),
        ('name = "g"', 'name = "g"\nnode = 3', 10, "no node 3"),
        ('name = "g"', 'name = "g"\n[[gpus]]\nindex = 0\nname = "h"', 11, "two parts 'g0'"),
        ('b = "g0"', 'b = "g7"', 13, "no part 'g7'"),
        ('kind = "pcie"', 'kind = "agp"', 14, "'agp'"),
        ("generation = 5", "generation = 9", 15, "'generation' is 9; it must be 1 to 6"),
        ("width = 16 }", "lanes = 16 }", 15, "unknown field 'lanes'"),
        ("width = 16 }", "width = 1000 }", 15, "'width' is 1000; it must be 1 to 32"),
        ('name = "g"', 'name = "g"\nmemory_gbs = 0', 10, "'memory_gbs' is 0.0; it must be above"),
        ("generation = 5, ", "", 15, "'generation' is missing"),
        ("pcie = { generation = 5, width = 16 }", "", 11, "'pcie' is missing"),
        ("[[links]]", "[[links]", 11, "not TOML"),
        ("width = 16 }", "width = 3 }", 15, "number 1, field 'width' is 3, not 1, 2, 4"),
        ("width = 16 }", "width = 8, max_width = 10 }", 15, "field 'max_width' is 10"),
        ("width = 16 }", "width = 16, max_payload_bytes = 7 }", 15, "is 7, not 128, 256"),
        ("width = 16 }", "width = 16, max_read_request_bytes = 100 }", 15, "is 100, not 128"),
        ('name = "g"', 'name = "g"\npeers = [7]', 10, "field 'peers': there is no GPU 7"),
        ('name = "g"', 'name = "g"\npeers = [0]', 10, "field 'peers' names g0 itself"),
        ("cores = [[0], [1]]", "cores = [[0], [1, 0]]", 5, "'cores': thread 0 is in two places"),
        ("cores = [[0], [1]]", "cores = [[0, 0]]", 5, "'cores': thread 0 is in two places"),
        ("cores = [[0], [1]]", "cores = [[]]", 5, "'cores[0]' has no hardware thread"),
        ("cores = [[0], [1]]", "cores = [[9999999999999]]", 5, "9999999999999 is the number of no"),
        (
            "\n[[gpus]]",
            "[[nodes]]\nindex = 1\ncores = [[2], [1]]\n[[gpus]]",
            8,
            "thread 1 is in two places, h0's core 1 the first",
        ),
        (
            "cores = [[0], [1]]",
            "memory_gbs = 76800000000",
            5,
            "[[nodes]] number 1, field 'memory_gbs' is 7.68e+10, more than any machine has; it is "
            "in GB/s (1e9 bytes a second)",
        ),
        ("cores = [[0], [1]]", "memory_bytes = 9000000000000000", 5, "'memory_bytes' is 9e+15"),
        ('name = "g"', 'name = "g"\nmemory_gbs = 4800000', 10, "'memory_gbs' is 4.8e+06"),
        ("width = 16 }", "width = 16 }\npayload_gbs = [29, 29200]", 16, "'payload_gbs' is 29200"),
        (
            'kind = "pcie"\npcie = { generation = 5, width = 16 }',
            'kind = "nvlink"\nnvlink = { count = 18, link_gbs = 26562.5 }',
            15,
            "field 'link_gbs' is 26562.5",
        ),
        ("[[links]]", "[latencies]\nh2d_us = 1e30\n[[links]]", 12, "field 'h2d_us' is 1e+30"),
        ("[[links]]", "[latencies]\npageable_gbs = 1e9\n[[links]]", 12, "'pageable_gbs' is 1e+09"),
        ('name = "x"', 'name = "x"\nswitches = [7]', 2, "'switches[0]' is 7, not a table"),
        ('a = "h0"\nb = "g0"', 'a = "g0"\nb = "h0"', 12, "'a' is the end nearer to the host"),
        (
            "width = 16 }",
            'width = 16 }\n[[links]]\na = "h0"\nb = "g0"\nkind = "pcie"\npcie = { generation = 3, '
            "width = 16 }",
            18,
            "there are two pcie links between h0 and g0; give one, with what they carry together",
        ),
    ],
)
def test_broken_files_are_answered_with_line_and_field(old, new, line, word):
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        parse_machine(GOOD.replace(old, new), "m.toml")
    message = str(caught.value)
    assert word in message
    assert f"line {line}" in message
    assert "m.toml" in message
    assert "\n" not in message


def test_no_nodes():
    with pytest.raises(InputError, match="nodes"):
        parse_machine('name = "x"', "m.toml")


@pytest.mark.parametrize("content", [b"\xff\xfe", b""])
def test_files_that_are_no_machine(tmp_path, content):
    (tmp_path / "m.toml").write_bytes(content)
    with pytest.raises(InputError):
        load_machine(tmp_path / "m.toml")
    with pytest.raises(InputError, match="cannot read"):
        load_machine(tmp_path / "missing.toml")
    with pytest.raises(InputError, match="did you mean h200-x"):
        machine_named("h200-x3")


@pytest.mark.parametrize("links", ["5", "[5]", '"a"', "{ a = 1 }"])
def test_links_that_are_no_tables(links):
    with pytest.raises(InputError, match=r"line 2: .*(list|table)"):
        parse_machine(f'name = "x"\nlinks = {links}\n[[nodes]]\nindex = 0\n', "m.toml")


def test_files_are_utf8_whatever_the_locale(tmp_path, two_gpus):
    path = tmp_path / "machine.toml"
    save_machine(dataclasses.replace(two_gpus, cpu="4 × CPU"), path)
    code = "import sys; from lanescope.machine import *; m = load_machine(sys.argv[1])"
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(
        [sys.executable, "-c", f"{code}; save_machine(m, sys.argv[1])", path],
        env=os.environ | ascii_only,
        check=True,
    )
    assert load_machine(path).cpu == "4 × CPU"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path, two_gpus):
    path = tmp_path / "m.toml"
    path.write_text("\ufeff" + dumps_machine(two_gpus))
    assert load_machine(path).gpus == two_gpus.gpus


def test_what_was_found_is_read_back_whatever_it_is():
    odd = GOOD.replace("width = 16 }", "width = 3 }").replace(
        'name = "g"', 'name = "g"\npeers = [4]'
    )
    assert parse_machine(odd, "m.toml", found=True).gpus[0].peers == (4,)
    with pytest.raises(InputError, match="line 16"):
        parse_machine(odd, "m.toml")


def test_several_nodes_have_threads_of_the_same_numbers():
    nodes = tuple(NumaNode(index, ((0,), (1,))) for index in (1000, 2000))
    machine = Machine("two", nodes=nodes)
    assert parse_machine(dumps_machine(machine), "m.toml").nodes == nodes


@pytest.mark.parametrize(
    ("kind", "label"), [("pcie", "PCIe"), ("nvlink", "NVLink"), ("socket", "socket link")]
)
def test_a_link_that_tells_its_kind_alone_is_called_by_it(kind, label):
    assert Link("h0", "g0", LinkKind(kind), payload_gbs=(10.0, 10.0)).label == label


def test_a_gpu_without_a_pcie_link_is_in_the_tree(two_gpus):
    machine = dataclasses.replace(two_gpus, links=two_gpus.links[1:], described=True)
    lines = [str(branch.label) for branch in machine_tree(machine).children]
    assert lines[0] == "driver not known"
    assert "g0: Test GPU, 16 GiB, no PCIe link known" in lines
    assert not any(line.startswith("g1: ") for line in lines)


def test_a_described_machine_of_a_program_is_looked_at_as_a_file_is(two_gpus):
    node = dataclasses.replace(two_gpus.nodes[0], memory_gbs=1e9)
    machine = dataclasses.replace(two_gpus, nodes=(node,), described=True)
    with pytest.raises(InputError, match=r"nodes\[0\], field 'memory_gbs' is 1e\+09"):
        require_sound(machine)


def test_the_example_of_the_document_is_a_machine_with_one_of_each():
    document = (Path(__file__).parents[2] / "docs" / "machine-files.md").read_text()
    example = re.search(r"```toml\n(.*?)```", document, re.DOTALL)[1]
    machine = parse_machine(example, "m.toml")
    assert len(machine.gpus) == len(machine.links) == 1
    one_core = dataclasses.replace(machine.nodes[0], cores=((0,),))
    (node,) = machine_tree(dataclasses.replace(machine, nodes=(one_core,))).children[1:]
    assert "h0: 1 core, 1 thread, " in str(node.label)
