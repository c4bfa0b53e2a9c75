"""`lanescope.to_gpu` and `to_host`: bytes, order, what is carried, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanescope
from lanescope.boosting.running import BoostOptions, read_folder
from lanescope.boosting.tally import Tally
from lanescope.errors import InputError
from tests.boosting.programs import ALWAYS, boosted, driver_variables, needs_boost, run
from tests.compression.gpu_stand_ins import stand_in

Tensor, CupyArray = stand_in("torch"), stand_in("cupy")
ROOT = Path(__file__).resolve().parents[2]
#: For each case how many copies are carried, if all are that can be; None: that differs.
CASES: dict[str, int | None] = {"sizes": 16, "order": 6, "pinned": 0, "threads": None}


def command(case: str) -> list[str]:
    return [sys.executable, "-m", "tests.boosting.copying", case]


def direct(
    case: str, folder: Path, options: BoostOptions = ALWAYS
) -> tuple[subprocess.CompletedProcess[str], Tally]:
    """Run a case in a process that is not boosted."""
    tallies = folder / "tallies"
    tallies.mkdir()
    variables = {
        "LANESCOPE_BOOST": options.text(),
        "LANESCOPE_BOOST_FOLDER": str(tallies),
        "PYTHONPATH": str(ROOT),
    }
    done = run(command(case), {**driver_variables(folder), **variables})
    return done, read_folder(tallies)


@needs_boost
@pytest.mark.parametrize("case", CASES)
def test_bytes_and_order(case: str, tmp_path: Path) -> None:
    done, tally = direct(case, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")
    carried = tally.all_carried().copies
    if CASES[case] is None:
        assert carried + sum(one.copies for one in tally.by_reason().values()) == 32  # each once
        assert carried > 0
    else:
        assert carried == CASES[case]
    if case == "pinned":
        assert tally.by_reason()["not_pageable"].copies == 2


@needs_boost
@pytest.mark.parametrize("case", ["sizes", "pinned"])
def test_a_boosted_process_makes_each_copy_once(case: str, tmp_path: Path) -> None:
    environment = {**driver_variables(tmp_path), "PYTHONPATH": str(ROOT)}
    done, tally = boosted(command(case), environment, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")
    assert tally.all_carried().copies == CASES[case]
    by_driver = {reason: count.copies for reason, count in tally.by_reason().items()}
    assert by_driver == ({"small": 15} if case == "sizes" else {"not_pageable": 2})


@needs_boost
def test_copies_that_are_not_carried_are_made_by_the_driver(tmp_path: Path) -> None:
    done, tally = direct("order", tmp_path, BoostOptions(threads=2, dry_run=True))
    assert (done.returncode, done.stdout) == (0, "well\n")
    assert tally.all_carried().copies == 0
    assert tally.by_reason()["dry"].copies == 6


@needs_boost
def test_what_the_driver_refuses_is_one_sentence(tmp_path: Path) -> None:
    done, _ = direct("refused", tmp_path)
    assert done.returncode == 0, done.stderr
    captured = "the current stream is captured into a CUDA graph"
    said = done.stdout.splitlines()
    assert f"LanescopeError: cannot copy 1048576 bytes from GPU 0: {captured}" in said[0]
    assert f"LanescopeError: cannot copy 1048576 bytes to GPU 0: {captured}" in said[1]
    assert said[2] == (
        "LanescopeError: cannot copy 2097152 bytes from GPU 0: the driver says "
        "'invalid argument' (1)"
    )
    assert said[3] == (
        "LanescopeError: cannot copy 3 bytes from GPU 7: the driver returns 101, which it has no "
        "words for"
    )
    assert "CUDA has not begun in this process, or it is a child by fork" in said[4]
    assert said[5:] == ["well"]


def gapped() -> Any:
    return Tensor(np.zeros(4, np.float32), whole=False)


HOST, THERE = np.zeros(4, np.float32), Tensor(np.zeros(4, np.float32))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: lanescope.to_gpu([1, 2]), "the array to copy is no array of NumPy"),
        (lambda: lanescope.to_gpu(THERE), "the array to copy lies on "),
        (lambda: lanescope.to_gpu(HOST.reshape(2, 2).T, THERE), "gaps or is not in C order"),
        (lambda: lanescope.to_gpu(np.zeros(4, ">f4"), THERE), "this machine's byte order"),
        (lambda: lanescope.to_gpu(np.ma.zeros(4), THERE), "is masked"),
        (lambda: lanescope.to_gpu(np.zeros(4, object), THERE), "holds values of object"),
        (lambda: lanescope.to_gpu(HOST, HOST), "out is no GPU tensor"),
        (lambda: lanescope.to_gpu(HOST, gapped()), "out has gaps"),
        (lambda: lanescope.to_gpu(HOST, THERE, gpu=1), "out lies on GPU 0, not on GPU 1"),
        (lambda: lanescope.to_gpu(HOST[:3], THERE), r"out does not fit: .*\(3,\).*\(4,\)"),
        (lambda: lanescope.to_gpu(HOST.view(np.int32), THERE), "out does not fit: .* int32 of"),
        (lambda: lanescope.to_gpu(HOST, gpu="x"), "gpu"),
        (lambda: lanescope.to_host(HOST), "the array to copy is no GPU tensor"),
        (lambda: lanescope.to_host(gapped(), HOST), "the array to copy has gaps"),
        (lambda: lanescope.to_host(THERE, THERE), "out lies on "),
        (lambda: lanescope.to_host(THERE, b"1234"), "out is no array of NumPy"),
        (lambda: lanescope.to_host(THERE, HOST.reshape(2, 2)), "out does not fit"),
        (lambda: lanescope.to_host(THERE, read_only()), "out is read-only"),
    ],
)
def test_what_cannot_be_copied_is_one_sentence(call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        call()
    assert "\n" not in str(error.value)


def read_only() -> Any:
    array = HOST.copy()
    array.flags.writeable = False
    return array


def test_no_framework_and_no_gpu_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        @staticmethod
        def device_count() -> int:
            return 1

    for name in ("cupy", "torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="CuPy or PyTorch, and neither is installed"):
        lanescope.to_gpu(HOST)
    monkeypatch.setitem(sys.modules, "torch", type(sys)("torch"))
    sys.modules["torch"].cuda = Nothing  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="there is no GPU 1: PyTorch finds 1, counted from 0"):
        lanescope.to_gpu(HOST, gpu=1)
    with pytest.raises(InputError, match="PyTorch has no arrays of timedelta64"):
        lanescope.to_gpu(np.zeros(4, "m8[s]"))
