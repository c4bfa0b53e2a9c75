import pytest

from lanescope.machine import Gpu, Machine
from lanescope.trace import store
from lanescope.trace.operations import Operations
from lanescope.trace.store import gpu_numbers, numbers_by_address, read_spools
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Process
from lanescope.trace.trace_spool import Trace
from tests.report.watch_factory import summary_text
from tests.trace.test_trace_spool import operation, text

UUIDS = ("GPU-11aa", "GPU-11bb", "GPU-2222")
MACHINE = Machine(
    name="three", nodes=(), gpus=tuple(Gpu(i, "GPU", uuid=u) for i, u in enumerate(UUIDS))
)


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        (None, (0, 1, 2)),
        ("", ()),
        ("2,0", (2, 0)),
        (" 1 , 2 ", (1, 2)),
        ("GPU-2222,GPU-11b", (2, 1)),
        ("GPU-11,0", ()),  # two begin like this
        ("0,7,1", (0,)),  # the driver stops at what it does not know
        ("1,-1,2", (1,)),
    ],
)
def test_a_process_numbers_the_gpus_that_it_sees(visible, numbers):
    assert gpu_numbers(visible, MACHINE) == numbers


ADDRESSED = Machine(
    name="two",
    nodes=(),
    gpus=(Gpu(0, "slow", pci_address="0000:0a:00.0"), Gpu(1, "fast", pci_address="0000:c1:00.0")),
)


@pytest.mark.parametrize(
    ("gpus", "numbers"),
    [
        ({}, None),
        ({0: "0000:C1:00.0", 1: "0000:0A:00.0"}, (1, 0)),  # the fastest first
        ({0: "0000:c1:00.0"}, (1,)),
        ({0: "0000:c1:00.0", 1: ""}, None),
        ({0: "0000:ff:00.0"}, None),
    ],
)
def test_a_process_that_tells_the_addresses_of_its_gpus_is_believed(gpus, numbers):
    assert numbers_by_address(gpus, ADDRESSED) == numbers


@pytest.mark.parametrize("in_memory", [False, True])
def test_copies_go_to_the_gpu_with_the_address_whatever_its_number(
    tmp_path, monkeypatch, in_memory
):
    line = b'{"source": "trace", "version": 1, "pid": 5, "command": ["a"], "start_ns": 1}\n'
    content = line + text(10, 0, "0000:c1:00.0") + text(10, 1, "0000:0a:00.0") + operation(100, 1)
    (tmp_path / "trace.5.bin").write_bytes(content)
    if not in_memory:
        monkeypatch.setattr(store, "MOST_BYTES_IN_MEMORY", 0)
    (piece,) = read_spools(tmp_path, ADDRESSED, 0, 1000).operations.pieces()
    assert (piece.source_device.tolist(), piece.destination_device.tolist()) == ([-1], [1])


def test_a_kind_of_memory_that_a_newer_cupti_has_is_unknown(tmp_path):
    line = b'{"source": "trace", "version": 1, "pid": 5, "command": ["a"], "start_ns": 1}\n'
    newer = bytearray(operation(100, 1))
    newer[37:39] = bytes([23, 200])  # source and destination
    (tmp_path / "trace.5.bin").write_bytes(line + bytes(newer))
    (piece,) = read_spools(tmp_path, ADDRESSED, 0, 1000).operations.pieces()
    assert (piece.source_kind.tolist(), piece.destination_kind.tolist()) == ([0], [0])


def test_an_empty_folder_is_an_empty_timeline(tmp_path):
    timeline = read_spools(tmp_path, MACHINE, 5, None)
    assert (timeline.start_ns, timeline.end_ns) == (5, 5)
    assert timeline.counters == ()
    assert len(timeline.operations) == 0


def test_what_a_process_left_unfinished_is_told(tmp_path, monkeypatch):
    trace = Trace(Operations.empty(), Process(7, "app", 1, 9), 3, (), None)
    monkeypatch.setattr(store, "_traces", lambda *_: [trace])
    timeline = read_spools(tmp_path, MACHINE, 0, 10)
    assert timeline.processes[0].unfinished == 3
    summary = summarise(timeline)
    assert summary.losses.unfinished == 3
    assert "3 operations had not ended with the process" in summary_text(summary)
