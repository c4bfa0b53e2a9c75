"""Programs that copy in ways that are hard to carry print and end as they do without a boost."""

from __future__ import annotations

from pathlib import Path

import pytest

from lanescope.boosting.running import BoostOptions
from tests.boosting.programs import boosted, driver_variables, needs_boost, run
from tests.native.programs import program

pytestmark = needs_boost

#: Cases of native/tests/boosted.cpp; for each how many copies are carried at least, and of which
#: reasons some go by the driver.
CASES: dict[str, tuple[int, set[str]]] = {
    "sizes": (16, {"small"}),
    "streams": (8, {"not_to_a_gpu"}),
    "default": (4, set()),
    "threads": (50, set()),
    "contexts": (16, {"context"}),
    "others": (0, {"not_pageable", "not_to_a_gpu", "context", "small"}),
    "fresh": (7, set()),
    "forbidden": (1, {"memory"}),
    "capture": (2, {"captured"}),
    "forks": (2, {"forked"}),
    "failing": (1, {"failed"}),
    "early": (2, {"busy"}),
    "direct": (24, set()),
}


@pytest.mark.parametrize("case", CASES)
def test_bytes_order_and_errors_are_those_of_the_driver(case: str, tmp_path: Path) -> None:
    environment = driver_variables(tmp_path)
    alone = run([program("boosted"), case], environment)
    done, tally = boosted([program("boosted"), case], environment, tmp_path)
    assert alone.returncode == 3
    assert alone.stdout
    assert (done.returncode, done.stdout, done.stderr) == (3, alone.stdout, alone.stderr)
    least, reasons = CASES[case]
    assert tally.all_carried().copies >= least
    if case != "forbidden":  # a process that ends by a signal in the driver has counted nothing yet
        assert reasons <= tally.by_reason().keys()


@pytest.mark.parametrize("case", ["sizes", "fresh"])
def test_a_ring_that_is_smaller_than_a_copy(case: str, tmp_path: Path) -> None:
    """Its slots are used again, and not before the GPU has read them."""
    environment = {**driver_variables(tmp_path), "MOCK_LAG_US": "400"}
    options = BoostOptions(threads=2, always=True, ring_bytes=16 << 20)
    alone = run([program("boosted"), case], driver_variables(tmp_path))
    done, tally = boosted([program("boosted"), case], environment, tmp_path, options)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert tally.ring_bytes == 16 << 20
    assert tally.all_carried().copies >= CASES[case][0]


def test_a_context_that_is_no_more_gives_its_ring_back(tmp_path: Path) -> None:
    environment = driver_variables(tmp_path)
    alone = run([program("boosted"), "resets"], environment)
    options = BoostOptions(threads=2, always=True, ring_bytes=16 << 20)  # for two lanes
    done, tally = boosted([program("boosted"), "resets"], environment, tmp_path, options)
    assert (done.returncode, done.stdout, done.stderr) == (3, alone.stdout, "")
    assert tally.all_carried().copies == 12
    assert tally.ring_bytes == 16 << 20


@pytest.mark.parametrize("lookup", ["dlsym", "proc"])
@pytest.mark.parametrize("case", ["default", "threads"])
def test_however_the_program_finds_the_driver(lookup: str, case: str, tmp_path: Path) -> None:
    environment = {**driver_variables(tmp_path), "LOOKUP": lookup}
    alone = run([program("boosted"), case], environment)
    done, tally = boosted([program("boosted"), case], environment, tmp_path)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert tally.all_carried().copies >= CASES[case][0]


@pytest.mark.parametrize(
    ("options", "variables", "reason"),
    [
        (BoostOptions(threads=2, only="d2h"), {}, "excluded"),
        (BoostOptions(threads=2, dry_run=True), {}, "dry"),
        (BoostOptions(threads=2), {"MOCK_NO_ROOM": "1"}, "room"),
    ],
    ids=["only", "dry run", "nothing can be pinned"],
)
def test_what_is_not_carried_goes_by_the_driver(
    options: BoostOptions, variables: dict[str, str], reason: str, tmp_path: Path
) -> None:
    environment = {**driver_variables(tmp_path), **variables}
    alone = run([program("boosted"), "default"], environment)
    done, tally = boosted([program("boosted"), "default"], environment, tmp_path, options)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert tally.carried["h2d"].copies == 0
    assert tally.by_driver[reason, "h2d"].copies >= 2
    assert (tally.carried["d2h"].copies > 0) == (options.only == "d2h")


@pytest.mark.parametrize("case", ["fresh", "forbidden", "default"])
def test_kernels_that_populate_no_pages(case: str, tmp_path: Path) -> None:
    """Older than 5.14: a byte of each page is read, or written back, through the kernel."""
    environment = {**driver_variables(tmp_path), "OLD_KERNEL": "1"}
    alone = run([program("boosted"), case], environment)
    done, tally = boosted([program("boosted"), case], environment, tmp_path)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert "no filter" not in done.stdout
    assert tally.all_carried().copies >= CASES[case][0]


def test_kernels_and_sandboxes_by_which_memory_cannot_be_looked_at(tmp_path: Path) -> None:
    environment = {**driver_variables(tmp_path), "OLD_KERNEL": "2"}
    alone = run([program("boosted"), "default"], environment)
    done, tally = boosted([program("boosted"), "default"], environment, tmp_path)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert tally.all_carried().copies == 0
    assert tally.by_reason().keys() == {"memory"}


def test_few_cores_carry_nothing(tmp_path: Path) -> None:
    environment = driver_variables(tmp_path)
    command = ["taskset", "-c", "0", program("boosted"), "default"]
    done, tally = boosted(command, environment, tmp_path, BoostOptions())
    assert done.returncode == 3
    assert tally.all_carried().copies == 0
    assert tally.by_reason()["cores"].copies == 4


def test_the_driver_is_tried_in_turns(tmp_path: Path) -> None:
    """A copy that is not carried is counted, and its time learned from."""
    environment = {**driver_variables(tmp_path), "MOCK_PAGEABLE_US": "1000", "MOCK_LAG_US": "0"}
    done, tally = boosted(
        [program("boosted"), "threads"], environment, tmp_path, BoostOptions(threads=2)
    )
    assert done.returncode == 3
    assert tally.all_carried().copies > 0
    assert tally.by_reason()["compared"].copies > 0
    both = tally.all_carried().copies + sum(one.copies for one in tally.by_reason().values())
    assert both == 96  # each copy once


@pytest.mark.parametrize(
    "case", ["threads", "direct", "capture", "failing", "early", "fresh", "resets"]
)
@pytest.mark.parametrize("sanitizer", ["boosted_sanitized", "boosted_threads"])
@pytest.mark.native
def test_sanitizers_find_nothing(case: str, sanitizer: str, tmp_path: Path) -> None:
    environment = driver_variables(tmp_path)
    alone = run([program("boosted"), case], environment)
    folder = tmp_path / "tallies"
    folder.mkdir()
    environment |= {"LANESCOPE_BOOST": "threads=2 always", "LANESCOPE_BOOST_FOLDER": str(folder)}
    done = run([program(sanitizer), case], environment)
    assert (done.returncode, done.stdout, done.stderr) == (3, alone.stdout, "")
    assert list(folder.glob("boost.*"))
