from dataclasses import replace

from lanescope.machine import Link, NvLink
from lanescope.machine.files import dumps_machine, parse_machine
from lanescope.machine.several import differences, gpu_count_differences
from tests.conftest import GEN5


def test_a_saved_machine_is_what_it_was(two_gpus):
    saved = parse_machine(dumps_machine(two_gpus), "saved")
    assert differences(saved, two_gpus) == ()


def test_its_name_and_its_gpus_serial_numbers_are_not_compared(two_gpus):
    other = [replace(gpu, uuid="GPU-1", pci_address="0000:99:00.0") for gpu in two_gpus.gpus]
    assert differences(replace(two_gpus, name="node-17", gpus=tuple(other)), two_gpus) == ()


def test_a_missing_gpu_is_named_once(two_gpus):
    left = tuple(link for link in two_gpus.links if "g1" not in (link.a, link.b))
    found = replace(two_gpus, gpus=two_gpus.gpus[:1], links=left)
    assert differences(two_gpus, found) == ("GPU g1 (Test GPU) is expected and not there.",)
    (more,) = differences(found, replace(two_gpus, links=left))
    assert more == "GPU g1 is there and not expected."


def test_each_part_that_differs_is_named(two_gpus):
    narrow = replace(GEN5, width=8)
    found = replace(
        two_gpus,
        driver="570.1",
        nodes=(replace(two_gpus.nodes[0], memory_bytes=32 << 30),),
        gpus=(replace(two_gpus.gpus[0], name="Other"), two_gpus.gpus[1]),
        links=(
            Link.of_pcie("h0", "g0", narrow),
            *two_gpus.links[1:3],
            Link.of_nvlink("g1", "nvswitch", NvLink(17, 26.5625, 4)),
        ),
    )
    assert differences(replace(two_gpus, driver="580.2"), found) == (
        "machine: driver: 570.1, 580.2 expected.",
        "h0: memory: 32.0 GiB, 64.0 GiB expected.",
        "g0: model: Other, Test GPU expected.",
        "h0 - g0: PCIe width: x8, x16 expected.",
        "g1 - nvswitch: NVLinks: 17, 18 expected.",
    )


def test_what_is_not_stated_or_cannot_be_read_is_no_difference(two_gpus):
    unread = Link.of_pcie("h0", "g0", replace(GEN5, max_payload_bytes=None))
    found = replace(two_gpus, driver="580.2", links=(unread, *two_gpus.links[1:]))
    assert differences(two_gpus, found) == ()
    less = replace(two_gpus.nodes[0], memory_bytes=int((64 << 30) * 0.98))
    assert differences(two_gpus, replace(two_gpus, nodes=(less,))) == ()


def test_a_lost_link_and_a_sick_gpu_are_named(two_gpus):
    sick = replace(two_gpus.gpus[1], unavailable="It has fallen off the bus")
    found = replace(two_gpus, gpus=(two_gpus.gpus[0], sick), links=two_gpus.links[:3])
    assert differences(two_gpus, found) == (
        "g1 cannot be used: It has fallen off the bus.",
        "link g1 - nvswitch is expected and not there.",
    )
    assert gpu_count_differences(2, found) == (
        "GPUs that can be used: 1 found, 2 expected. g1: It has fallen off the bus.",
    )
    assert gpu_count_differences(2, two_gpus) == ()
    none = replace(two_gpus, gpus=(), notes=("There is no driver.", "Other."))
    (sentence,) = gpu_count_differences(2, none)
    assert sentence.endswith("2 expected. There is no driver.")


def test_parts_that_are_too_many_are_named_in_order(two_gpus):
    found = replace(two_gpus, gpus=tuple(replace(two_gpus.gpus[0], index=i) for i in range(8)))
    more = [text.split()[1] for text in differences(two_gpus, found) if "not expected" in text]
    assert more == ["g2", "g3", "g4", "g5", "g6", "g7"]
