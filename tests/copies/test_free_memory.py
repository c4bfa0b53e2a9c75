import pytest

from lanescope.copies.requirements import available_host_bytes, available_node_bytes

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


@pytest.mark.parametrize(
    ("line", "group", "most", "used", "cached"),
    [
        ("0::/job/step", "job", "memory.max", "memory.current", "inactive_file"),
        ("0::/../job/step", "job", "memory.max", "memory.current", "inactive_file"),
        (
            *("5:cpu,memory:/job/step", "memory/job"),
            *("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_a_batch_job_gets_what_its_group_leaves(system, line, group, most, used, cached):
    (system / "self").mkdir()
    (system / "self" / "cgroup").write_text(f"3:cpuset:/elsewhere\n{line}\n")
    folder = system / group
    folder.mkdir(parents=True)
    (folder / most).write_text(f"{4 * GIB}\n")
    (folder / used).write_text(f"{3 * GIB}\n")
    assert available_host_bytes(system, system) == int(GIB * 0.8)
    # cached files are given back
    (folder / "memory.stat").write_text(f"anon 1\n{cached} {GIB}\n")
    assert available_host_bytes(system, system) == int(2 * GIB * 0.8)


def test_what_a_node_can_give(tmp_path):
    assert available_node_bytes(0, tmp_path) is None
    (tmp_path / "node0").mkdir()
    lines = ("MemTotal: 900 kB", "MemFree: 100 kB", "Active: 70 kB", "Inactive(file): 60 kB")
    text = "".join(f"Node 0 {line}\n" for line in lines)
    (tmp_path / "node0" / "meminfo").write_text(text)
    assert available_node_bytes(0, tmp_path) == int(160 * 1024 * 0.8)


def test_unknown(tmp_path):
    assert available_host_bytes(tmp_path, tmp_path) is None
