"""What is said of copies, from numbers that are made up."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from lanescope.boosting.running import BoostTurns
from lanescope.boosting.tally import (
    DIRECTIONS,
    REASONS,
    ComparedCopies,
    Count,
    Tally,
    as_dict,
    lines_of,
    predicted_seconds,
    read_tally,
    sum_of,
)

NONE, UNKNOWN = Count(), ComparedCopies()
NOTHING = Tally(0, {n: Count() for n in DIRECTIONS}, {n: ComparedCopies() for n in DIRECTIONS}, {})


def tally_of(
    carried: Count = NONE,
    compared: ComparedCopies = UNKNOWN,
    by_driver: dict[tuple[str, str], Count] | None = None,
    **others: object,
) -> Tally:
    return Tally(
        1,
        {"h2d": carried, "d2h": Count(), "either": Count()},
        {"h2d": compared, "d2h": ComparedCopies(), "either": ComparedCopies()},
        by_driver or {},
        **others,  # type: ignore[arg-type]
    )


def lines(tally: Tally, *, dry_run: bool = False) -> list[str]:
    return lines_of(tally, from_bytes=1 << 18, dry_run=dry_run)


def test_a_gain_is_reported_with_what_it_is_known_of() -> None:
    whole, part = Count(100, 14 << 30, 0.41), Count(98, 13 << 30, 0.38)
    known = ComparedCopies(part, 1.3)
    by_driver = {
        ("compared", "h2d"): Count(3, 3 << 27, 0.03),
        ("small", "h2d"): Count(1000, 5 << 20),
        ("small", "d2h"): Count(1, 100),
    }
    first, second = lines(tally_of(whole, known, by_driver))
    assert first == (
        "Carried 100 copies of 14 GiB in 410 ms (36.7 GB/s): 100 to GPUs. Of 93% of the bytes the "
        "driver's time is known by like copies of this run: 380 ms in place of 1.3 s."
    )
    assert second == (
        "By the driver: 3 copies of 384 MiB in 30 ms (13.4 GB/s) to know what the driver takes; "
        "1,001 copies of 5 MiB smaller than 256 KiB."
    )


def test_a_dry_run_predicts_and_says_that_it_does() -> None:
    dry = {("dry", "h2d"): Count(2, 2 << 30, 0.2)}
    tally = tally_of(by_driver=dry, usable_threads=8, link=(32.0, 16))
    first, second = lines(tally, dry_run=True)
    assert first.endswith("by the driver: 2 copies of 2 GiB in 200 ms (10.7 GB/s).")
    assert second.startswith("Predicted, not measured: 52.")
    slow = tally_of(by_driver=dry, usable_threads=2, link=(32.0, 16))
    count = dry["dry", "h2d"]
    few, many = predicted_seconds(slow, count), predicted_seconds(tally, count)
    assert few is not None
    assert many is not None
    assert few > 3 * many  # two threads copy less than the link carries
    assert predicted_seconds(tally_of(by_driver=dry, usable_threads=8), count) is None


@pytest.mark.parametrize("dry_run", [False, True])
def test_no_process_is_reported(dry_run: bool) -> None:
    (line,) = lines(NOTHING, dry_run=dry_run)
    assert line.startswith("No process of the program was reached")
    assert as_dict(NOTHING, from_bytes=1, dry_run=dry_run)["processes"] == 0


def test_turns_are_reported_for_gain_and_loss() -> None:
    assert BoostTurns().text() == ""
    assert BoostTurns((2.0, 3.0, 2.5), (1.5, 1.7, 1.6)).text() == (
        "In 3 turns with and without, the program ended 0.9 s earlier boosted: 1.6 s (1.5 to 1.7) "
        "in place of 2.5 s (2 to 3); medians, least to most."
    )
    assert "ended 0.5 s later boosted" in BoostTurns((1.0,), (1.5,)).text()


def test_each_reason_has_its_words() -> None:
    by_driver = {(reason, "h2d"): Count(1, 1 << 20, 1e-3) for reason in REASONS}
    (_, told, _) = lines(tally_of(by_driver=by_driver))
    assert told.count(";") == len(REASONS) - 1
    assert len(
        as_dict(tally_of(by_driver=by_driver), from_bytes=1, dry_run=False)["by_driver"]
    ) == (len(REASONS))


@pytest.mark.parametrize(
    ("count", "batching", "dry_run", "said"),
    [
        (63, "used", False, "Gathered 63 copies of 63 KiB into 1 batch."),
        (1, "failed", False, "Gathered 1 copy of 1 KiB into 1 batch. Some failed, and no more"),
        (63, "used", True, "63 copies of 63 KiB would be gathered into 1 batch."),
        (0, "old_driver", False, "the driver makes no batches; those of CUDA 12.8 and newer do."),
        (0, "failed", False, "no memory could be pinned for it"),
        (0, "unused", True, "of 64 KiB at most, followed each other in one stream."),
    ],
)
def test_what_was_gathered_is_said(count: int, batching: str, dry_run: bool, said: str) -> None:
    tally = tally_of(
        gathered=Count(count, count << 10),
        batches=min(count, 1),
        batching=frozenset({batching}),
    )
    found = lines_of(tally, from_bytes=1 << 18, dry_run=dry_run, batch=True)
    assert said in found[1]
    assert not any(said in line for line in lines(tally, dry_run=dry_run))
    numbers = as_dict(tally, from_bytes=1 << 18, dry_run=dry_run)["gathered"]
    assert numbers == {"copies": count, "bytes": count << 10, "batches": min(count, 1)}


def test_files_that_are_none_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "boost.1.0"
    assert read_tally(path) is None
    for content in (b"", b"x" * 100, bytes(8 * 1000)):
        path.write_bytes(content)
        assert read_tally(path) is None
    assert sum_of([]) == NOTHING


def test_a_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    counts = 3 * len(DIRECTIONS)
    numbers = [0x31_54_53_4F_4F_42_53_4C, 77]
    numbers += [1, 100, 5 * 10**9, *[0] * (counts - 3)]
    numbers += [0] * counts + [0, 0, 0]
    numbers += [*[0] * (counts * (len(REASONS) - 1)), *[0] * 6, 4, 5, 6]  # the last, unknown ways
    numbers += [10**9, 1 << 23, 2, 320, 16, 8]
    numbers += [63, 64512, 0, 2, 1]
    path = tmp_path / "boost.77.0"
    path.write_bytes(struct.pack(f"<{len(numbers)}Q", *numbers))
    found = read_tally(path)
    assert found is not None
    assert found.carried["h2d"] == Count(1, 100, 5.0)
    ((key, count),) = found.by_driver.items()
    assert (key, count.copies, count.total_bytes) == (("compared", "either"), 4, 5)
    assert count.seconds == pytest.approx(6e-9)
    assert (found.setup_seconds, found.ring_bytes, found.link) == (1.0, 1 << 23, (32.0, 16))
    assert (found.gathered, found.batches, found.batching) == (Count(63, 64512), 2, {"used"})
    both = sum_of([found, found])
    assert (both.gathered.copies, both.batches, both.batching) == (126, 4, {"used"})
    assert (both.processes, both.carried["h2d"].copies, both.usable_threads) == (2, 2, 8)
