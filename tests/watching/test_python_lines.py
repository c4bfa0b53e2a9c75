"""Lines of Python of recorded copies, in programs of each Python that is here, without a GPU.

LANESCOPE_PYTHONS names interpreters that are neither on PATH nor pyenv's, with colons between.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lanescope.machine import machine_named
from lanescope.trace.attribution import copies_by_line
from lanescope.trace.side_tables import Frame, NoLine, frames_of
from lanescope.trace.store import read_spools
from lanescope.trace.trace_spool import Trace
from lanescope.watching.sources import SourceReport, injection
from lanescope.watching.sources.calls import PYTHON_VARIABLE, CallsSource
from tests.native.programs import program
from tests.patience import PATIENCE_S
from tests.watching.recording import BEGIN, needs_calls, read_one

pytestmark = needs_calls

_FROM = 1000
Runs = Callable[..., Trace]

# Prints each copy's size and where Python says that it was called.
_HERE = r"""
import time
def copy(size, up=1):
    caller = sys._getframe(up)
    assert cuda.cuMemcpyHtoD_v2(U64(GPU0), P(at), SIZE(size)) == 0
    sys.stdout.write("%d %d %s\n" % (size, caller.f_lineno, caller.f_code.co_qualname))
"""


def _pythons() -> list[str]:
    """Return an interpreter of each version whose frames can be read, this one first."""
    named = [sys.executable, *os.environ.get("LANESCOPE_PYTHONS", "").split(":")]
    named += [shutil.which(f"python3.{minor}") or "" for minor in (11, 12, 13)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    named += sorted(map(str, pyenv.glob("versions/3.1[123].*/bin/python3")))
    found: dict[str, str] = {}
    for path in filter(None, named):
        command = [path, "-c", "import ctypes, sys; print(*sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found.setdefault(done.stdout.strip(), path)
    known = ("3 11", "3 12", "3 13")
    return [path for version, path in found.items() if version in known]


PYTHONS = _pythons()
each_python = pytest.mark.parametrize("python", PYTHONS)


@pytest.fixture
def reports() -> list[SourceReport]:
    """What the source says of each program that ran."""
    return []


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports: list[SourceReport]) -> Runs:
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))

    def run(text: str, python: str = PYTHONS[0], **more: str) -> Trace:
        source = CallsSource(tmp_path, python_bytes=_FROM)
        source.start()
        path = tmp_path / "app.py"
        path.write_text(BEGIN + _HERE + text)
        done = subprocess.run(
            [python, str(path)],
            env={
                **os.environ,
                **source.environment(),
                "MOCK_CUDA": str(program("mock_cuda")),
                **more,
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        reports.append(source.stop())
        assert not done.stderr, done.stderr
        assert done.returncode == 0
        (tmp_path / "printed").write_text(done.stdout)
        return read_one(tmp_path)

    return run


def stacks(trace: Trace) -> dict[int, tuple[Frame, ...]]:
    """Return the frames of each size of copy, without `copy`'s own, which is checked."""
    lines, ops = trace.python_lines, trace.operations
    sizes = dict(zip(ops.correlation.tolist(), ops.bytes.tolist(), strict=True))
    found = {}
    for correlation, stack in zip(lines.correlation.tolist(), lines.stack.tolist(), strict=True):
        assert stack >= 0, NoLine(stack)
        innermost, *others = frames_of(lines.stacks[stack])
        assert innermost.function == "copy"
        found[sizes[correlation]] = tuple(others)
    return found


def require_as_printed(trace: Trace, tmp_path: Path) -> dict[int, tuple[Frame, ...]]:
    """Compare the frame that called `copy` with what Python itself said of it."""
    found = stacks(trace)
    printed = [line.split(" ", 2) for line in (tmp_path / "printed").read_text().splitlines()]
    assert printed
    for size, line, function in printed:
        frame = found[int(size)][0]
        assert (frame.line, frame.function) == (int(line), function)
        assert frame.file == str(tmp_path / "app.py")
        assert not frame.is_library
    return found


@each_python
def test_the_line_of_each_copy_is_what_python_says(runs: Runs, tmp_path: Path, python: str) -> None:
    trace = runs(
        """
class Loader:
    def load(self, size):
        copy(
            size,
        )
        with open(os.devnull):
            for step in [1]:
                copy(size + 1); copy(size + 2)
def decorated(function):
    def inside(*sizes):
        return function(*sizes)
    return inside
@decorated
def called(size):
    return [copy(each) for each in (size,)]
def generated(size):
    yield 1
    yield copy(size)
Loader().load(2000)
called(3000)
list(generated(4000))
(lambda: copy(5000))()
try:
    1 / 0
except ZeroDivisionError:
    copy(6000)
""",
        python,
    )
    found = require_as_printed(trace, tmp_path)
    assert len(trace.python_lines) == len(found) == 7
    assert [frame.function for frame in found[2000]] == ["Loader.load", "<module>"]
    assert found[4000][-1].function == "<module>"


@each_python
def test_threads_have_frames_of_their_own_while_others_hold_the_gil(
    runs: Runs, tmp_path: Path, python: str
) -> None:
    """A call by ctypes releases the GIL, so that others run Python at that time."""
    trace = runs(
        """
ended = threading.Event()
def turning():
    while not ended.is_set(): sum(range(100))
def copying(first):
    for size in range(first, first + 20): copy(size)
def other(first):
    copying(first)
others = [threading.Thread(target=turning) for _ in range(2)]
mine = [threading.Thread(target=(copying, other)[n % 2], args=(2000 + 100 * n,)) for n in range(6)]
for thread in (*others, *mine): thread.start()
for thread in mine: thread.join()
ended.set()
""",
        python,
    )
    found = require_as_printed(trace, tmp_path)
    assert len(found) == 120
    for size, frames in found.items():
        own = [frame.function for frame in frames if not frame.is_library]
        assert own == ["copying", "other"][: size // 100 % 2 + 1]
        assert next(f.function for f in frames if f.is_library) == "Thread.run"


@each_python
def test_code_without_a_file_and_names_in_any_letters(
    runs: Runs, tmp_path: Path, python: str
) -> None:
    trace = runs(
        r"""
exec("x = 1\ncopy(2000)")
names = {"copy": copy}
exec(compile("def größe():\n\n  copy(3000)\n", "/tmp/läufe/€😀\t\n.py", "exec"), names)
names["größe"]()
exec(compile("copy(4000)", "/tmp/" + "d/" * 300 + "end.py", "exec"), names)
for number in range(5, 60):
    exec(compile("\n" * number + f"copy({number} * 1000)", f"<cell {number}>", "exec"), names)
""",
        python,
    )
    found = stacks(trace)
    assert found[2000][0] == Frame("<string>", 2, "<module>", False)
    assert found[3000][0] == Frame("/tmp/läufe/€😀??.py", 3, "größe", False)
    assert found[4000][0].file.endswith("/d/d/end.py")
    cells = [(found[n * 1000][0].file, found[n * 1000][0].line) for n in range(5, 60)]
    assert cells == [(f"<cell {n}>", n + 1) for n in range(5, 60)]


@each_python
def test_the_programs_own_line_is_found_below_many_of_a_library(
    runs: Runs, tmp_path: Path, python: str
) -> None:
    trace = runs(
        r'''
library = """
def apply(copy, size, left):
    return apply(copy, size, left - 1) if left else copy(size)
"""
names = {}
exec(compile(library, "/opt/site-packages/nets/module.py", "exec"), names)
def mine(size, left): return names["apply"](inner, size, left)
inner = eval(compile("lambda size: cuda.cuMemcpyHtoD_v2(U64(GPU0), P(at), SIZE(size))",
                     "/opt/site-packages/nets/copy.py", "eval"))
mine(2000, 3)
mine(3000, 40)
mine(4000, 200)
''',
        python,
    )
    rows = {one.total_bytes: one for one in copies_by_line(trace.operations, trace.python_lines)}
    begin = (tmp_path / "app.py").read_text().split("\n").index("mine(2000, 3)")
    for size, caller in ((2000, begin + 1), (3000, None)):  # it is not among the eight of deep ones
        line, through, above = rows[size].line, rows[size].innermost, rows[size].caller
        assert line == Frame(str(tmp_path / "app.py"), begin - 2, "mine", False)
        assert through == Frame("/opt/site-packages/nets/copy.py", 1, "<lambda>", True)
        assert (above and above.line) == caller
    # its own is beyond the frames that are looked at
    assert rows[4000].line == Frame("/opt/site-packages/nets/copy.py", 1, "<lambda>", True)


def test_a_program_without_large_copies_is_reported(
    runs: Runs, reports: list[SourceReport]
) -> None:
    trace = runs("copy(999)")
    assert not len(trace.python_lines)
    assert reports[0].reason == "No copy was of 1 kB or more, as --python wants."
    assert reports[0].remedy == "Give a smaller --python-from."


def test_smaller_copies_have_no_line(runs: Runs, reports: list[SourceReport]) -> None:
    trace = runs("copy(999)\ncopy(1000)")
    assert reports[0].reason is None
    assert list(stacks(trace)) == [1000]
    assert len(trace.operations) == 2


def test_threads_that_run_no_python_are_distinguished(runs: Runs) -> None:
    trace = runs(
        """
rectangle = (U64 * 16)()  # CUDA_MEMCPY2D: from the host to a GPU, 100 lines of 20 bytes
rectangle[2], rectangle[9], rectangle[11], rectangle[14], rectangle[15] = 1, 2, GPU0, 20, 100
begin, end = ctypes.CDLL(None).pthread_create, ctypes.CDLL(None).pthread_join
thread = U64()
assert begin(ctypes.byref(thread), None, cuda.cuMemcpy2D_v2, ctypes.byref(rectangle)) == 0
end(thread, None)
copy(3000)
"""
    )
    assert trace.operations.bytes.tolist() == [2000, 3000]
    assert trace.python_lines.stack.tolist() == [NoLine.NO_PYTHON, 0]


def test_what_it_costs_is_bounded_and_what_is_left_out_counted(runs: Runs) -> None:
    trace = runs("for _ in range(20000): cuda.cuMemcpyHtoD_v2(U64(GPU0), P(at), SIZE(2000))")
    lines = trace.python_lines
    left_out = int((lines.stack == NoLine.OVER_BUDGET).sum())
    assert 0 < left_out < len(lines) == len(trace.operations)
    assert int((lines.stack >= 0).sum()) == len(lines) - left_out
    rows = copies_by_line(trace.operations, lines)
    assert sum(row.count for row in rows) == len(lines)
    assert sum(row.total_bytes for row in rows) == 2000 * len(lines)
    assert [row.why is not None for row in rows].count(True) == 1
    assert lines.spent_ns > 0


def test_more_stacks_than_have_room_are_counted(runs: Runs) -> None:
    trace = runs(
        r"""
def many(first):
    for number in range(first, first + 40):
        exec(compile("\n" * number + "copy(2000)", "/" + "x" * 400, "exec"))
threads = [threading.Thread(target=many, args=(40 * n,)) for n in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    )
    lines = trace.python_lines
    assert len(lines) == 2000
    assert NoLine.OVER_BUDGET not in lines.stack  # that of each thread is enough for these
    no_room = int((lines.stack == NoLine.NO_ROOM).sum())
    assert no_room > 0
    assert len(lines.stacks) == len(lines) - no_room > 100


# Writes into Python's own description, as a version would have it that nobody here knows.
_DAMAGED = """
import random
libc = ctypes.CDLL(None)
def damage_version(number):
    place = ctypes.addressof(ctypes.c_ulong.in_dll(ctypes.pythonapi, "Py_Version"))
    assert libc.mprotect(P(place & ~4095), SIZE(4096), 3) == 0
    ctypes.c_ulong.from_address(place).value = number
def damage_offsets(seed):
    draw = random.Random(seed)
    numbers = (ctypes.c_uint64 * 73).in_dll(ctypes.pythonapi, "_PyRuntime")
    for place in (0, 1, 2, 23, 29, 30, 31, 33, 35, 37, 38, 39, 43, 70):
        if draw.random() < 0.3: numbers[place] = draw.choice([draw.randrange(152), 2**63, 8, 0])
"""


@each_python
@pytest.mark.parametrize("version", [0x030B00F0, 0x030C00F0, 0x030D00F0, 0x030E00F0, 0])
def test_a_wrong_layout_leaves_the_program_alive(runs: Runs, python: str, version: int) -> None:
    trace = runs(f"{_DAMAGED}\ndamage_version({version})\ncopy(2000)\ncopy(3000)", python)
    assert trace.operations.bytes.tolist() == [2000, 3000]
    why = set(trace.python_lines.stack.tolist())
    allowed = {NoLine.UNKNOWN_PYTHON, NoLine.UNREADABLE, NoLine.NO_PYTHON}
    assert why <= allowed or why == {0, 1}  # it is right but for its last part


@pytest.mark.parametrize("seed", range(8))
@each_python
def test_offsets_that_are_wrong_leave_the_program_alive(runs: Runs, python: str, seed: int) -> None:
    if "3.13" not in subprocess.run([python, "-V"], capture_output=True, text=True).stdout:
        pytest.skip("older ones do not describe themselves")
    trace = runs(f"{_DAMAGED}\ndamage_offsets({seed})\ncopy(2000)\ncopy(3000)", python)
    assert trace.operations.bytes.tolist() == [2000, 3000]
    assert len(trace.python_lines) == 2


def test_an_older_python_is_recorded_without_lines(runs: Runs) -> None:
    trace = runs(f"{_DAMAGED}\ndamage_version(0x030A0DF0)\ncopy(2000)")
    rows = copies_by_line(trace.operations, trace.python_lines)
    assert [(row.line, row.why) for row in rows] == [
        (None, "(a version of Python that cannot be read)")
    ]


def test_a_killed_program_keeps_its_lines(runs: Runs, tmp_path: Path) -> None:
    trace = runs(
        """
if not os.fork():
    copy(2000)
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
"""
    )
    assert not trace.process.lost_records
    assert [frame.function for frame in stacks(trace)[2000]] == ["<module>"]


def test_a_watch_without_the_option_records_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    source = CallsSource(tmp_path, {})
    source.start()
    assert PYTHON_VARIABLE not in source.environment()
    source.stop()
    outer = CallsSource(tmp_path, {PYTHON_VARIABLE: "10"}, python_bytes=_FROM)
    outer.start()
    assert outer.environment()[PYTHON_VARIABLE] == "10"
    outer.stop()


def test_lines_come_through_the_spools_and_the_columns(runs: Runs, tmp_path: Path) -> None:
    from lanescope.trace.columns import read_columns, write_columns

    begin_ns = runs("for n in range(3): copy(2000)\ncopy(5000)").process.start_ns
    stored = read_spools(tmp_path, machine_named("h200-x2"), begin_ns, None)
    write_columns(tmp_path, stored)
    again = read_columns(tmp_path, stored.start_ns, stored.end_ns)
    assert again.python_lines.stacks == stored.python_lines.stacks
    assert again.python_lines.spent_ns == stored.python_lines.spent_ns > 0
    rows = copies_by_line(again.operations, again.python_lines)
    assert [(row.count, row.total_bytes) for row in rows] == [(3, 6000), (1, 5000)]
    assert rows == copies_by_line(stored.operations, stored.python_lines)
