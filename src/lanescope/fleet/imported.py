"""Results of nccl-tests and perftest, each between two nodes, as rates of pairs.

Only what these programs print is read. Of several sizes the largest one counts. nccl-tests name
their hosts; perftest does not, so its files are called ``HOST--HOST.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lanescope.codec.files import read_text
from lanescope.errors import InputError
from lanescope.fleet.exchange import PairRate, best_tries
from lanescope.fleet.media import Medium

_RANK = re.compile(r"^#\s+Rank\s+\d+.*\s+on\s+(\S+)\s+device\s", re.M)
_NCCL_TEST = re.compile(r"^# Collective test starting: (\S+)", re.M)
#: Size, count, type, operation, root; then time, algbw, busbw and #wrong.
_NCCL_ROW = re.compile(
    r"^\s*(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(\S+)", re.M
)
_PERFTEST = re.compile(r"^\s*(\S.*\bBW) Test\s*$", re.M)
_PERFTEST_UNIT = re.compile(r"BW average\s*\[(\S+)\]")
_PERFTEST_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", re.M)
#: GB/s of each unit; perftest's MB are 2^20 bytes.
_UNITS = {
    "Gb/sec": 0.125,
    "MB/sec": (1 << 20) * 1e-9,
    "MiB/sec": (1 << 20) * 1e-9,
}


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file says.

    Attributes
    ----------
    test
        Program and what it counted, such as ``sendrecv_perf of 16 ranks, 1073741824 B``: only
        rates of one test can be compared.
    """

    test: str
    rate: PairRate


def imported(files: Iterable[Path]) -> tuple[str, list[PairRate]]:
    """Return the test that some files hold results of, and the rates of their pairs.

    The best of several tries counts.

    Raises
    ------
    InputError
        If a file is no such result, is not of two nodes, or they are of different tests.
    """
    found = [(file, read_result(file)) for file in _files(files)]
    if not found:
        raise InputError("there is no file to import; name results of nccl-tests or perftest")
    first_file, first = found[0]
    for file, one in found:
        if one.test != first.test:
            raise InputError(
                f"{file} is of another test ({one.test}) than {first_file} ({first.test}), and "
                "their rates cannot be compared; import each test by itself"
            )
    return first.test, _slower_directions([one.rate for _, one in found])


def _slower_directions(rates: Iterable[PairRate]) -> list[PairRate]:
    """Return a rate for each pair; of both orders, which may be two directions, the slower."""
    found: dict[frozenset[str], PairRate] = {}
    for one in best_tries(((one.first, one.second), one) for one in rates).values():
        pair = frozenset((one.first, one.second))
        found[pair] = min(found.get(pair, one), one, key=lambda rate: rate.gbs or 0.0)
    return list(found.values())


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(one for one in path.iterdir() if one.is_file())
        else:
            yield path


def read_result(file: Path) -> Imported:
    """Return what a file of nccl-tests or perftest says. Raises `InputError`."""
    text = read_text(file)
    if _RANK.search(text):
        return _of_nccl_tests(file, text)
    if found := _PERFTEST.search(text):
        return _of_perftest(file, text, found[1])
    raise InputError(f"{file} is no output of nccl-tests or of a bandwidth test of perftest")


def _of_nccl_tests(file: Path, text: str) -> Imported:
    ranks = _RANK.findall(text)
    hosts = list(dict.fromkeys(ranks))
    if len(hosts) != 2:
        raise InputError(f"{file} is of {len(hosts)} hosts; a pair of nodes has two")
    rows = _NCCL_ROW.findall(text)
    if not rows:
        raise InputError(f"{file} has no row with a result; it may be cut off")
    size, time, _, bus, wrong = max(rows, key=lambda row: int(row[0]))
    named = _NCCL_TEST.search(text)
    name = named[1] if named else "nccl-tests"
    rate = PairRate(
        hosts[0],
        hosts[1],
        float(bus) or None,
        int(size),
        (float(time) * 1e-6,),
        medium=Medium.NCCL,
        wrong=int(wrong) if wrong.isdigit() else 0,
    )
    return Imported(f"{name} of {len(ranks)} ranks, {size} B", rate)


def _of_perftest(file: Path, text: str, name: str) -> Imported:
    hosts = file.name.removesuffix(file.suffix).split("--")
    if len(hosts) != 2 or not all(hosts):
        raise InputError(
            f"{file}: perftest does not name its hosts; call the file HOST--HOST{file.suffix}"
        )
    first, second = hosts
    if first == second:
        raise InputError(f"{file} is of {first} and itself; a pair of nodes has two")
    unit, rows = _PERFTEST_UNIT.search(text), _PERFTEST_ROW.findall(text)
    if unit is None or unit[1] not in _UNITS or not rows:
        raise InputError(f"{file} has no row with a rate in Gb/sec or MB/sec; it may be cut off")
    size, _, _, average, _ = max(rows, key=lambda row: int(row[0]))
    gbs = float(average) * _UNITS[unit[1]]
    seconds = (int(size) * 1e-9 / gbs,) if gbs else ()
    rate = PairRate(first, second, gbs or None, int(size), seconds, medium=Medium.RDMA)
    return Imported(f"{name} of perftest, {size} B, {unit[1]}", rate)
