"""What of a node's configuration is read beside the machine."""

from dataclasses import replace

import pytest

from lanescope.studies.node_report import _acs, configuration_of
from tests.machine.test_pci_config import extended
from tests.report import factory


@pytest.fixture
def tree(tmp_path):
    """Make a GPU below bridges with these configuration spaces; return the root and a machine."""

    def make(*spaces):
        path = tmp_path / "devices" / "pci0000:16"
        for number, config in enumerate(spaces):
            path = path / f"0000:{0x16 + number:02x}:01.0"
            path.mkdir(parents=True)
            (path / "config").write_bytes(config)
        gpu = path / "0000:2a:00.0"
        gpu.mkdir(parents=True)
        links = tmp_path / "bus" / "pci" / "devices"
        links.mkdir(parents=True)
        (links / gpu.name).symlink_to(gpu)
        machine = factory.two_gpus()
        gpus = (replace(machine.gpus[0], pci_address=gpu.name),)
        return tmp_path, replace(machine, gpus=gpus)

    return make


@pytest.mark.parametrize(
    ("spaces", "words"),
    [
        ((extended(0x1D), extended(0x00), extended(0x04)), "redirects peers at 2 bridges"),
        ((extended(0x1D),), "redirects peers at 1 bridge"),
        ((extended(0x00), bytes(4096)), "off"),
        ((extended(0x1D), bytes(64)), None),
        ((), None),
    ],
)
def test_bridges_above_gpus_that_redirect_peers_are_counted(tree, spaces, words):
    root, machine = tree(*spaces)
    assert _acs(machine, root) == words


def test_what_cannot_be_read_is_left_out():
    found = configuration_of(factory.two_gpus())
    assert "ACS" not in found
    assert found["GPUs"] == "2"
