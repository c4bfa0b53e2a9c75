import csv
import dataclasses

import numpy as np
import pytest

from lanescope.errors import InputError
from lanescope.report.watch_files import seconds_from, write_csv
from lanescope.trace.operations import Operations
from lanescope.trace.timeline import Counters, Timeline

NOW = 1_795_281_229_914_609_055


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def timeline():
    operations = Operations.of(
        ("", "cudaMemcpyAsync", 'a "kernel", <int>'),
        pid=[7, 7, 8],
        what=[0, 2, 3],
        start_ns=[NOW + 2_000, NOW, NOW - 1],
        end_ns=[NOW + 3_000, NOW + 10, NOW - 1],
        bytes=[(1 << 53) + 1, 0, 4096],
        source_kind=[2, 0, 5],
        destination_kind=[3, 0, 5],
        destination_device=[1, -1, 0],
        device=[1, 1, 0],
        asynchronous=[True, True, False],
        thread=[99, 99, -1],
        name=[1, 2, 0],
    )
    end = NOW + np.array([0, 100, 300])
    counted = np.array([0, (1 << 53) + 1, 5])
    counters = Counters("pm", 1, 100, end, counted, counted, np.array([False, True, False]))
    return Timeline(NOW, NOW + 5_000, (counters,), operations)


def test_records_tell_their_link(tmp_path):
    told = timeline()
    nvlink = dataclasses.replace(told.counters[0], link="nvlink")
    told = dataclasses.replace(told, counters=(*told.counters, nvlink))
    found = rows(write_csv(tmp_path, told)[1])
    assert [row["link"] for row in found] == ["pcie"] * 3 + ["nvlink"] * 3


def test_times_have_nine_digits_that_no_float_rounds():
    assert seconds_from(NOW, NOW + 1) == "0.000000001"
    assert seconds_from(NOW, NOW + 3_600_123_456_789) == "3600.123456789"
    assert seconds_from(NOW, NOW - 1) == "-0.000000001"


def test_copies_and_migrations_in_their_order_with_exact_numbers(tmp_path):
    copies, _ = write_csv(tmp_path / "new" / "folder", timeline())
    migration, copy = rows(copies)
    assert (migration["what"], migration["direction"]) == ("migration", "h2d")
    assert (migration["start_s"], migration["rate_gbs"]) == ("-0.000000001", "")
    assert (migration["thread"], migration["source_gpu"]) == ("", "")
    assert copy["moved_bytes"] == str((1 << 53) + 1)
    assert copy["start_ns"] == str(NOW + 2_000)
    assert (copy["start_s"], copy["end_s"]) == ("0.000002000", "0.000003000")
    assert (copy["source_memory"], copy["destination_memory"]) == ("pinned", "device")
    assert (copy["gpu"], copy["destination_gpu"], copy["call"]) == ("1", "1", "cudaMemcpyAsync")
    assert copy["call_start_ns"] == ""


def test_what_is_not_known_of_counters_is_empty(tmp_path):
    _, counters = write_csv(tmp_path, timeline())
    first, second, third = rows(counters)
    assert first["known"] == third["known"] == "0"
    assert first["to_gpu_wire_bytes"] == third["from_gpu_wire_gbs"] == ""
    assert second["to_gpu_wire_bytes"] == str((1 << 53) + 1)
    assert float(second["to_gpu_wire_gbs"]) == pytest.approx((1 << 53) / 100, rel=1e-5)
    assert third["start_ns"] == second["end_ns"] == str(NOW + 100)


def test_nothing_seen_is_headers_alone(tmp_path):
    for path in write_csv(tmp_path, Timeline(NOW, NOW)):
        assert len(path.read_text().splitlines()) == 1


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="cannot write to"):
        write_csv(tmp_path / "file", timeline())
