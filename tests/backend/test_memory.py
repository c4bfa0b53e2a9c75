import pytest

from lanescope.backend.memory import available_host_bytes

GIB = 1 << 30


@pytest.fixture
def system(tmp_path):
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {8 * GIB // 1024} kB\n")
    return tmp_path


def test_a_part_is_left_to_others(system):
    assert available_host_bytes(system, system) == int(8 * GIB * 0.8)


def test_a_container_gets_what_its_group_leaves(system):
    (system / "memory.max").write_text(f"{4 * GIB}\n")
    (system / "memory.current").write_text(f"{3 * GIB}\n")
    assert available_host_bytes(system, system) == int(GIB * 0.8)
    (system / "memory.max").write_text("max\n")
    assert available_host_bytes(system, system) == int(8 * GIB * 0.8)


def test_unknown(tmp_path):
    assert available_host_bytes(tmp_path, tmp_path) is None
