from lanescope.machine import sysfs


def test_pci_devices_and_their_bridges(tmp_path):
    real = tmp_path / "devices/pci0000:00/0000:00:01.0/0000:01:00.0"
    real.mkdir(parents=True)
    (real / "vendor").write_text("0x10de\n")
    (real / "config").write_bytes(bytes(4096))
    listed = tmp_path / "bus/pci/devices"
    listed.mkdir(parents=True)
    (listed / "0000:01:00.0").symlink_to(real)
    (listed / "0000:00:01.0").symlink_to(real.parent)
    devices = sysfs.pci_devices(tmp_path)
    assert devices["0000:01:00.0"]["vendor"] == "0x10de"
    assert devices["0000:01:00.0"]["parent"] == "0000:00:01.0"
    assert len(devices["0000:01:00.0"]["config"]) == 512
    assert devices["0000:00:01.0"]["parent"] is None
    assert devices["0000:00:01.0"]["vendor"] is None


def test_nothing_there(tmp_path):
    assert sysfs.pci_devices(tmp_path) == {}
    assert sysfs.dmi_table(tmp_path) is None
    assert sysfs.memory_bytes(tmp_path) is None
    assert sysfs.cpu_model(tmp_path) is None
