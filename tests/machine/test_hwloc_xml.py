import pytest

from lanescope.machine.discovery import cpu_numbers, parse_hwloc

TWO_SOCKETS = """<topology version="2.0"><object type="Machine" nodeset="0x3" cpuset="0xff">
{}{}</object></topology>"""
SOCKET = """<object type="Package" cpuset="{cpus}" nodeset="{nodes}">
 <info name="CPUModel" value="A CPU"/>
 <object type="NUMANode" os_index="{n}" cpuset="{cpus}" nodeset="{nodes}" local_memory="{memory}"/>
 <object type="L3Cache" cpuset="{cpus}" cache_size="1000" depth="3" cache_type="0">
  <object type="L1iCache" cpuset="{cpus}" cache_size="9" depth="1" cache_type="2"/>
  <object type="Core" cpuset="{cpus}">
   <object type="PU" os_index="{a}"/><object type="PU" os_index="{b}"/>
  </object>
 </object>
 <object type="Bridge"><object type="PCIDev" pci_busid="0000:{n}0:00.0"/></object>
</object>"""


def socket(number, cpus, nodes, a, b):
    return SOCKET.format(n=number, cpus=cpus, nodes=nodes, memory=number * 4096, a=a, b=b)


def test_two_sockets():
    sockets = (socket(0, "0x11", "0x1", 4, 0), socket(1, "0x22", "0x2", 1, 5))
    host = parse_hwloc(TWO_SOCKETS.format(*sockets))
    assert host.cpu == "A CPU"
    assert [n.cores for n in host.nodes] == [((0, 4),), ((1, 5),)]
    assert [n.memory_bytes for n in host.nodes] == [0, 4096]
    assert [n.cache_bytes for n in host.nodes] == [1000, 1000]
    assert host.device_nodes == {"0000:00:00.0": 0, "0000:10:00.0": 1}


def test_memory_without_cores():
    far = '<object type="NUMANode" os_index="1" cpuset="0x0" nodeset="0x2" local_memory="8"/>'
    host = parse_hwloc(TWO_SOCKETS.format(socket(0, "0x11", "0x1", 0, 4), far))
    assert [n.cores for n in host.nodes] == [((0, 4),), ()]


@pytest.mark.parametrize(
    ("mask", "numbers"),
    [("0x5", {0, 2}), ("0x1,0x0", {32}), ("0x1,,0x2", {64, 1}), ("0x0", set()), (None, set())],
)
def test_bitmaps(mask, numbers):
    assert cpu_numbers(mask) == numbers


def test_no_topology():
    with pytest.raises(ValueError, match="hwloc"):
        parse_hwloc("<topology")


def test_memory_that_hwloc_puts_beside_cores_has_none_of_its_own():
    beside = '<object type="NUMANode" os_index="1" cpuset="0x11" nodeset="0x2" local_memory="8"/>'
    near = socket(0, "0x11", "0x1", 0, 4).replace('nodeset="0x1">', 'nodeset="0x3">', 1)
    host = parse_hwloc(TWO_SOCKETS.format(near, beside))
    assert [(n.cores, n.cache_bytes) for n in host.nodes] == [(((0, 4),), 1000), ((), None)]
    assert host.device_nodes == {"0000:00:00.0": 0}  # of the two the one with cores
