"""Programs that make tiny copies print and end as they do without `--batch`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from lanescope.boosting.running import BoostOptions
from lanescope.trace.trace_spool import read_trace_spool
from lanescope.watching.sources import injection
from lanescope.watching.sources.calls import CallsSource
from tests.boosting.programs import COMMAND, boosted, driver_variables, needs_boost, run
from tests.native.programs import ROOT, program

pytestmark = needs_boost

BATCH = BoostOptions(threads=2, batch=True)
#: Cases of native/tests/gathered.cpp, and how many copies of each are gathered at least. What is
#: not gathered depends on how far the GPU has come, and on pauses between copies.
CASES = {
    "sizes": 500,
    "overlaps": 40,
    "ends": 50,
    "default": 5,
    "late": 5,
    "threads": 200,
    "contexts": 20,
    "resets": 50,
    "others": 5,
    "streams": 10,
    "capture": 10,
    "waiting": 50,
    "forks": 20,
    "failing": 2,
    "forbidden": 20,
    "exits": 5,
    "ending": 10,
    "cancelled": 10,
}
NAMED = ROOT / "native/src/batch/driver_functions.inc"


#: What takes some seconds runs with the native tests.
LONG = {"cancelled", "capture"}


@pytest.mark.parametrize(
    "case",
    [pytest.param(one, marks=[pytest.mark.native] * (one in LONG)) for one in CASES],
)
def test_bytes_order_and_errors_are_those_of_the_driver(case: str, tmp_path: Path) -> None:
    environment = driver_variables(tmp_path)
    alone = run([program("gathered"), case], environment)
    done, tally = boosted([program("gathered"), case], environment, tmp_path, BATCH)
    assert alone.returncode == 3
    assert alone.stdout
    assert (done.returncode, done.stdout, done.stderr) == (3, alone.stdout, alone.stderr)
    assert tally.gathered.copies >= CASES[case]
    assert 1 <= tally.batches <= tally.gathered.copies
    assert tally.batching == ({"failed"} if case == "failing" else {"used"})


@pytest.mark.parametrize("lookup", ["dlsym", "proc", "linked proc"])
@pytest.mark.parametrize("case", ["ends", "contexts"])
def test_however_the_program_finds_the_driver(lookup: str, case: str, tmp_path: Path) -> None:
    environment = {**driver_variables(tmp_path), "LOOKUP": lookup}
    alone = run([program("gathered"), case], environment)
    done, tally = boosted([program("gathered"), case], environment, tmp_path, BATCH)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert tally.gathered.copies >= CASES[case]


def test_copies_that_cannot_be_made_are_an_error_of_one_call(tmp_path: Path) -> None:
    done, _ = boosted([program("gathered"), "lost"], driver_variables(tmp_path), tmp_path, BATCH)
    first, second, _ = done.stdout.splitlines()
    assert first == "told 1, then 0"
    assert second == "0"


@pytest.mark.parametrize(("version", "gathers"), [("12000", False), ("12080", True)])
def test_older_drivers(version: str, gathers: bool, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").symlink_to(program(f"mock_driver_{version}"))
    environment = driver_variables(tmp_path)
    alone = run([program("gathered"), "ends"], environment)
    done, tally = boosted([program("gathered"), "ends"], environment, tmp_path, BATCH)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert (tally.gathered.copies > 0) == gathers
    assert tally.batching == ({"used"} if gathers else {"old_driver"})


def test_a_dry_run_counts_what_would_be_gathered(tmp_path: Path) -> None:
    environment = driver_variables(tmp_path)
    alone = run([program("gathered"), "ends"], environment)
    options = BoostOptions(threads=2, batch=True, dry_run=True)
    done, tally = boosted([program("gathered"), "ends"], environment, tmp_path, options)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert tally.gathered.copies >= CASES["ends"]
    assert tally.by_reason()["small"].copies > tally.gathered.copies  # all by the driver
    assert tally.ring_bytes == 0


@pytest.mark.parametrize(
    "options",
    [BoostOptions(threads=2), BoostOptions(threads=2, batch=True, only="d2h")],
    ids=["without the option", "the other direction"],
)
def test_nothing_is_gathered(options: BoostOptions, tmp_path: Path) -> None:
    environment = driver_variables(tmp_path)
    alone = run([program("gathered"), "ends"], environment)
    done, tally = boosted([program("gathered"), "ends"], environment, tmp_path, options)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert (tally.gathered.copies, tally.batches, tally.batching) == (0, 0, {"unused"})


def test_no_memory_that_can_be_pinned(tmp_path: Path) -> None:
    environment = {**driver_variables(tmp_path), "MOCK_NO_ROOM": "1"}
    alone = run([program("gathered"), "ends"], environment)
    done, tally = boosted([program("gathered"), "ends"], environment, tmp_path, BATCH)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert (tally.gathered.copies, tally.batching) == (0, {"failed"})


@pytest.mark.parametrize("case", ["busy", "idle"])
def test_gpus_that_write_pageable_memory(case: str, tmp_path: Path) -> None:
    """What a stream may still write is not read before; what nothing writes is."""
    environment = {**driver_variables(tmp_path), "MOCK_SHARED": "1"}
    alone = run([program("gathered"), case], environment)
    done, tally = boosted([program("gathered"), case], environment, tmp_path, BATCH)
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert (tally.gathered.copies > 0) == (case == "idle")
    without = {**environment, "MOCK_SHARED": "0"}
    (tmp_path / "other").mkdir()
    _, tally = boosted([program("gathered"), case], without, tmp_path / "other", BATCH)
    assert tally.gathered.copies > 0


@pytest.mark.parametrize("case", ["order", "threads"])
def test_copies_by_functions_of_ours(case: str, tmp_path: Path) -> None:
    """They are made by the library that gathers, which has a ring already."""
    environment = {**driver_variables(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.boosting.copying", case]
    options = BoostOptions(threads=2, always=True, batch=True)
    done, tally = boosted(command, environment, tmp_path, options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")
    assert tally.processes == 1
    assert tally.all_carried().copies > 0


@pytest.mark.parametrize("lookup", ["linked", "dlsym", "proc"])
def test_a_watch_records_copies_that_are_gathered(
    lookup: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, as the program makes it: batches are nobody's."""
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    source = CallsSource(tmp_path, {})
    source.start()
    environment = {**driver_variables(tmp_path), "LOOKUP": lookup}
    alone = run([program("gathered"), "contexts"], environment)
    environment |= source.environment()
    done, tally = boosted([program("gathered"), "contexts"], environment, tmp_path, BATCH)
    source.stop()
    assert (done.returncode, done.stdout) == (3, alone.stdout)
    assert tally.gathered.copies >= CASES["contexts"]
    (spool,) = tmp_path.glob("trace.*.bin")
    of_all = 6 * 2 * (10 + 1 + 10)
    assert read_trace_spool(spool).operations.bytes.tolist() == [500] * of_all


def test_the_command_says_what_was_gathered(tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.json"
    words = ["boost", "--batch", "--json", numbers, "--", program("gathered"), "contexts"]
    done = run([sys.executable, "-c", COMMAND, *words], driver_variables(tmp_path))
    assert done.returncode == 3
    found = json.loads(numbers.read_text())["gathered"]
    line = next(line for line in done.stderr.splitlines() if "Gathered" in line)
    assert re.fullmatch(
        rf"lanescope boost: Gathered {found['copies']} copies of [0-9.]+ \w+ into "
        rf"{found['batches']} batches\.",
        line,
    )


def test_each_function_of_the_driver_has_a_stub_or_needs_none() -> None:
    """Of the driver that the build has headers of: a new one is to be added, or named here."""
    (headers,) = ROOT.glob(".venv/lib/python3*/site-packages/nvidia/cu*/include/cuda.h")
    text = re.sub(r"/\*.*?\*/", "", headers.read_text(), flags=re.DOTALL)
    sources = ROOT / "native/src"
    stubs, named = (sources / "boost/stubs.cpp").read_text(), sources / "batch/named_stubs.cpp"
    there = set(re.findall(r"LANESCOPE_NAMED\((\w+)\)", NAMED.read_text()))
    need_none = set(re.findall(r"\bcu[A-Z]\w*", stubs + named.read_text())) | {"cuInit"}
    exported = (sources / "intercept/exported.hpp").read_text()
    of_their_own = set(re.findall(r"\((cu[A-Z]\w*)", exported))
    macros = r"#define\s+cu[A-Z]\w*\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu[A-Z]\w*)"
    symbols = set(re.findall(macros, text)) | set(re.findall(r"CUDAAPI\s+(cu[A-Z]\w*)", text))
    missing = {
        symbol
        for symbol in symbols - there
        if symbol.split("_")[0] not in need_none
        and re.sub("_pt[ds][sz]$", "", symbol) not in of_their_own
    }
    assert len(there) > 500
    assert not missing


@pytest.mark.parametrize(
    ("sanitizer", "case"),
    [
        (sanitizer, case)
        for sanitizer, others in (
            ("gathered_sanitized", {"cancelled"}),  # the sanitizer's own stacks are lost
            ("gathered_threads", {"late"}),  # who polls a GPU's memory races
        )
        for case in CASES
        if case not in others
    ],
)
@pytest.mark.native
def test_sanitizers_find_nothing(sanitizer: str, case: str, tmp_path: Path) -> None:
    environment = driver_variables(tmp_path)
    alone = run([program("gathered"), case], environment)
    environment |= {"LANESCOPE_BOOST": "threads=2 batch"}
    done = run([program(sanitizer), case], environment)
    assert (done.returncode, done.stdout, done.stderr) == (3, alone.stdout, "")
