import pytest

from lanescope.machine import Gpu, Machine
from lanescope.report.summary_text import summary_text
from lanescope.watch import spool
from lanescope.watch.operations import Operations
from lanescope.watch.spool import gpu_numbers, read_spools
from lanescope.watch.summarise import summarise
from lanescope.watch.timeline import Process
from lanescope.watch.trace_spool import Trace

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


def test_an_empty_folder_is_an_empty_timeline(tmp_path):
    timeline = read_spools(tmp_path, MACHINE, 5, None)
    assert (timeline.start_ns, timeline.end_ns) == (5, 5)
    assert timeline.counters == ()
    assert len(timeline.operations) == 0


def test_what_a_process_left_unfinished_is_told(tmp_path, monkeypatch):
    trace = Trace(Operations.empty(), Process(7, "app", 1, 9), 3, (), None)
    monkeypatch.setattr(spool, "_traces", lambda folder: [trace])
    timeline = read_spools(tmp_path, MACHINE, 0, 10)
    assert timeline.processes[0].unfinished == 3
    summary = summarise(timeline)
    assert summary.losses.unfinished == 3
    assert "3 operations had not ended with the process" in summary_text(summary).plain
