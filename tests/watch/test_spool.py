import pytest

from lanescope.machine import Gpu, Machine
from lanescope.watch.spool import gpu_numbers, read_spools

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
