"""Recording of calls where disks are full, rings damaged, programs odd, or lanescope is killed."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lanescope._core import native
from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine import Machine
from lanescope.trace.call_ring import CallRing, RingNotReadyError
from lanescope.trace.call_spool import RingSpool, recover, spool_of
from lanescope.trace.store import read_spools
from lanescope.trace.timeline import CALL_TIMES, Process
from lanescope.trace.trace_spool import read_trace_spool
from lanescope.trace.trace_stream import Coverages
from lanescope.trace.watch_folder import RINGS
from lanescope.watching.sources import injection
from lanescope.watching.sources.calls import CallsSource
from tests.patience import PATIENCE_S, until
from tests.watching import recording
from tests.watching.recording import BEGIN, Run, environment_of, needs_calls, read_one, waiting

pytestmark = needs_calls
source, run = recording.source, recording.run  # fixtures


def stop_reading(source: CallsSource) -> None:
    assert source._reader is not None
    source._reader.stop()


def test_what_is_overwritten_is_counted_as_lost(source: CallsSource, tmp_path: Path) -> None:
    """The ring holds 32,768 records; nobody reads it while 40,000 are made."""
    source.start()
    stop_reading(source)
    command = [sys.executable, "-c", BEGIN + "to_gpu(32768, times=40000)"]
    subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    (path,) = (tmp_path / RINGS).resolve().glob("calls.*.ring")
    spool = tmp_path / "trace.1.calls.bin"
    RingSpool(CallRing(path), spool, native.SpoolRoom(str(tmp_path))).read(last=True)
    trace = read_trace_spool(spool)
    assert len(trace.operations) == 32768
    assert trace.process.lost_records == 40000 - 32768
    recover(tmp_path)


def test_after_a_kill_of_lanescope_rings_are_read_once(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    stop_reading(source)  # two that read at once would each begin the spool
    begun_ns = time.time_ns()
    text = "to_gpu(5, times=50)\nprint(flush=True)\ninput()\nto_gpu(6)"
    with waiting(source, text) as program:
        (ring,) = (tmp_path / RINGS).resolve().glob("calls.*.ring")
        spool = spool_of(CallRing(ring), tmp_path)
        RingSpool(CallRing(ring), spool, native.SpoolRoom(str(tmp_path))).read()
        os.truncate(spool, spool.stat().st_size - 44)  # it was killed as it wrote
        program.end()
    recover(tmp_path)
    assert read_trace_spool(spool).operations.bytes.tolist() == [5] * 50 + [6]
    assert not ring.exists()
    recover(tmp_path)  # does nothing
    assert len(read_spools(tmp_path, Machine(name="m"), begun_ns, None).operations) == 51


def test_reports_at_the_same_time_read_rings_once(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    stop_reading(source)
    command = [sys.executable, "-c", BEGIN + "to_gpu(32768, times=30000)"]
    subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    text = "import sys\nfrom pathlib import Path\nfrom lanescope.trace.call_spool import recover\n"
    text += "print(flush=True)\ninput()\nrecover(Path(sys.argv[1]))"
    reports = [
        subprocess.Popen(
            [sys.executable, "-c", text, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    for one in reports:
        assert one.stdout is not None
        one.stdout.readline()
    for one in reports:
        assert one.stdin is not None
        one.stdin.write(b"\n")
        one.stdin.flush()
    for one in reports:
        one.communicate(timeout=PATIENCE_S)
        assert one.returncode == 0
    assert len(read_one(tmp_path).operations) == 30000


def test_a_report_while_the_program_goes_on_takes_none_of_its_later_copies(
    source: CallsSource, tmp_path: Path
) -> None:
    """Lanescope was killed, and somebody looks at the watch before the program has ended."""
    source.start()
    stop_reading(source)
    copies = "to_gpu(8, times=5000)\nto_gpu(1 << 20)\nprint(flush=True)\ninput()\n"
    with waiting(source, 3 * copies) as program:
        for part in (1, 2, 3):
            recover(tmp_path)
            trace = read_one(tmp_path)
            assert part * 5001 - 24 <= len(trace.operations) <= part * 5001  # not yet counted
            program.go_on()
    recover(tmp_path)
    trace = read_one(tmp_path)
    assert len(trace.operations) == 3 * 5001
    assert int(trace.operations.bytes.sum()) == 3 * (5000 * 8 + (1 << 20))
    assert trace.process.complete
    assert trace.process.lost_records == 0
    assert not (tmp_path / RINGS).exists()


def test_a_process_that_nobody_waited_for_has_ended(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    stop_reading(source)
    command = [sys.executable, "-c", BEGIN + "to_gpu(8, times=5000)"]
    with subprocess.Popen(command, env=environment_of(source)) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        recover(tmp_path)
    assert len(read_one(tmp_path).operations) == 5000
    assert not (tmp_path / RINGS).exists()


def test_foreign_folders_are_not_emptied(tmp_path: Path) -> None:
    precious, run = tmp_path / "precious", tmp_path / "run"
    precious.mkdir()
    run.mkdir()
    (precious / "calls.1.ring").write_text("mine")
    (run / RINGS).symlink_to(precious)
    recover(run)
    assert (precious / "calls.1.ring").read_text() == "mine"


def test_a_run_of_somebody_else_reaches_no_rings_of_a_watch(
    source: CallsSource, tmp_path: Path
) -> None:
    source.start()
    rings = (tmp_path / RINGS).resolve()
    stolen = tmp_path / "stolen"
    stolen.mkdir()
    (stolen / RINGS).symlink_to(rings)
    recover(stolen)
    assert rings.exists()
    source.stop()
    assert not rings.exists()


def test_a_spool_that_is_a_link_is_not_written(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    stop_reading(source)
    command = [sys.executable, "-c", BEGIN + "to_gpu(5)"]
    subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    (ring,) = (tmp_path / RINGS).resolve().glob("calls.*.ring")
    (tmp_path / "mine").touch()
    link = tmp_path / "trace.1.calls.bin"
    link.symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match="symbolic link"):
        RingSpool(CallRing(ring), link, native.SpoolRoom(str(tmp_path)))
    assert (tmp_path / "mine").read_bytes() == b""
    recover(tmp_path)


def test_what_a_full_disk_does_not_take_is_lost_and_counted(
    source: CallsSource, tmp_path: Path
) -> None:
    source.start()
    stop_reading(source)
    command = [sys.executable, "-c", BEGIN + "to_gpu(1 << 20, times=1000)"]
    subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    (ring,) = (tmp_path / RINGS).resolve().glob("calls.*.ring")
    path = tmp_path / "trace.1.calls.bin"
    spool = RingSpool(CallRing(ring), path, native.SpoolRoom(str(tmp_path)))
    size = path.stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:  # half of a record fits
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, before[1]))
        spool.read()
        assert path.stat().st_size == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    spool.read(last=True)
    trace = read_trace_spool(path)
    assert (len(trace.operations), trace.process.lost_records) == (0, 1000)
    recover(tmp_path)


def test_rings_that_are_never_ready_take_no_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "calls.1.ring"
    path.write_bytes(bytes(1 << 16))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        with pytest.raises(RingNotReadyError):
            CallRing(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_full_spools_leave_copies_out_and_say_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "limits").write_text("3000 0 0\n")
    run("to_gpu(8, times=1000)")
    trace = read_one(tmp_path)
    assert trace.process.left_out + len(trace.operations) == 1000
    assert trace.process.left_out > 900


def test_a_program_with_address_sanitizer_runs(source: CallsSource, tmp_path: Path) -> None:
    """Its runtime wants to be the first library, unless it is told otherwise."""
    (tmp_path / "hi.cpp").write_text('#include <cstdio>\nint main() { std::puts("hi"); }\n')
    command = [os.environ.get("CXX", "g++"), "-fsanitize=address", "hi.cpp", "-o", "hi"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("no AddressSanitizer")
    source.start()
    done = subprocess.run(
        [tmp_path / "hi"], env=environment_of(source), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")
    source.stop()


def test_a_program_that_may_write_no_large_files_goes_on(run: Run, tmp_path: Path) -> None:
    done, _ = run(
        """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
to_gpu(5)
print("mine")
"""
    )
    assert (done.returncode, done.stdout) == (0, "mine\n")
    assert not list(tmp_path.glob("trace.*.bin"))


@pytest.mark.parametrize("copies", ["", "to_gpu(5)"])
def test_little_shared_memory_is_reported(
    source: CallsSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: str
) -> None:
    """Processes that find too little of it make no ring, and nothing else shows that."""
    source.start()
    usage = shutil.disk_usage(tmp_path)._replace(free=(24 << 20) - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    command = [sys.executable, "-c", BEGIN + copies]
    subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    report = source.stop()
    assert "less than 24 MiB were free" in (report.reason or "")
    assert "--shm-size" in (report.remedy or "")


def test_a_copy_that_cannot_be_recorded_changes_no_errno(run: Run) -> None:
    done, _ = run(
        """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
copy = ctypes.CFUNCTYPE(ctypes.c_int, U64, P, SIZE, use_errno=True)(
    ctypes.cast(cuda.cuMemcpyHtoD_v2, P).value
)
ctypes.set_errno(77)
print(copy(GPU0, at, 5), ctypes.get_errno())
"""
    )
    assert done.stdout == "0 77\n"


def test_rings_of_processes_that_have_ended_are_removed(
    source: CallsSource, tmp_path: Path
) -> None:
    source.start()
    command = [sys.executable, "-c", BEGIN + "to_gpu(5)"]
    for _ in range(3):
        subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    rings = (tmp_path / RINGS).resolve()
    until(lambda: not list(rings.glob("calls.*.ring")))
    traces = [read_trace_spool(path) for path in tmp_path.glob("trace.*.bin")]
    assert [trace.operations.bytes.tolist() for trace in traces] == [[5]] * 3
    assert all(trace.process.complete for trace in traces)
    assert source.stop().reason is None


def test_a_ring_that_is_none_harms_no_other(source: CallsSource, tmp_path: Path) -> None:
    source.start()
    rings = (tmp_path / RINGS).resolve()
    (rings / "calls.1.ring").write_bytes(bytes(8192))  # not begun yet, for ever
    (rings / "calls.2.ring").write_bytes(os.urandom(1 << 20))
    (rings / "calls.3.ring").mkdir()
    (rings / "calls.4.ring").symlink_to("/dev/zero")
    command = [sys.executable, "-c", BEGIN + "to_gpu(5)"]
    subprocess.run(command, env=environment_of(source), check=True, timeout=PATIENCE_S)
    (rings / "calls.3.ring").rmdir()
    report = source.stop()
    assert "Copies of a process cannot be read" in (report.reason or "")
    assert read_one(tmp_path).operations.bytes.tolist() == [5]


SHIM = """
#include <dlfcn.h>
#include <cstddef>
#include <cstdlib>
using Copy = int (*)(unsigned long long, const void*, std::size_t);
static Copy driver = reinterpret_cast<Copy>(
    dlsym(dlopen(std::getenv("MOCK_CUDA"), RTLD_NOW), "cuMemcpyHtoD_v2"));
static int calls = 0;
extern "C" int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  ++calls;
  return driver(to, from, bytes);
}
extern "C" int shim_calls() { return calls; }
"""


def test_what_others_put_before_the_driver_stays_there(run: Run, tmp_path: Path) -> None:
    """Libraries that share a GPU do so; each copy is recorded once."""
    (tmp_path / "shim.cpp").write_text(SHIM)
    compiler = os.environ.get("CXX", "g++")
    options = ["-shared", "-fPIC", "-Wl,-Bsymbolic", "shim.cpp", "-o", "libshim.so", "-ldl"]
    subprocess.run([compiler, *options], cwd=tmp_path, check=True)
    done, _ = run(
        f"""
shim = ctypes.CDLL({str(tmp_path / "libshim.so")!r})
for size in range(1, 6):
    assert shim.cuMemcpyHtoD_v2(U64(GPU0), P(at), SIZE(size)) == 0
print(shim.shim_calls())
"""
    )
    assert done.stdout == "5\n"
    assert read_one(tmp_path).operations.bytes.tolist() == [1, 2, 3, 4, 5]


def test_programs_of_another_c_library_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = b"/lib/ld-musl-x86_64.so.1\0"
    header = b"\x7fELF\x02" + bytes(27) + (64).to_bytes(8, "little") + bytes(14)
    header += (56).to_bytes(2, "little") + (1).to_bytes(2, "little")
    segment = (3).to_bytes(8, "little") + (200).to_bytes(8, "little") + bytes(16)
    segment += len(name).to_bytes(8, "little")
    program = tmp_path / "program"
    program.write_bytes((header.ljust(64, b"\0") + segment).ljust(200, b"\0") + name)
    program.chmod(0o755)
    assert injection.interpreter_of([str(program)]) == "ld-musl-x86_64.so.1"
    assert injection.interpreter_of([sys.executable]).startswith("ld-linux")
    assert injection.interpreter_of(["/bin/no-such-program"]) == ""
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    with pytest.raises(NotMeasuredError, match="has musl for its C library"):
        CallsSource(tmp_path, program=[str(program)]).start()


def test_a_process_with_the_number_of_an_earlier_one_has_its_own_spool(
    source: CallsSource, tmp_path: Path
) -> None:
    source.start()
    rings = []
    for _ in range(2):
        with waiting(source, "to_gpu(5); print(flush=True); input()") as program:
            (path,) = (tmp_path / RINGS).resolve().glob("calls.*.ring")
            rings.append(CallRing(path))
            program.end()
        until(lambda path=path: not path.exists())  # type: ignore[misc]
    source.stop()
    spools = {spool_of(ring, tmp_path).name.removeprefix(f"trace.{ring.process}") for ring in rings}
    assert len(spools) == 2  # differ by more than the number


def test_only_a_trace_and_calls_of_one_process_are_one() -> None:
    calls = Process(7, "run", 1, timed_by=CALL_TIMES)
    again = replace(calls, command="exec")
    assert merged(calls, again) == (calls, again)
    assert merged(replace(calls, timed_by="gpu", lost_records=2), calls) == (
        replace(calls, lost_records=2),
    )


def merged(*processes: Process) -> tuple[Process, ...]:
    coverages = Coverages()
    for process in processes:
        by_calls = process.timed_by == CALL_TIMES
        of = coverages.of_calls if by_calls else coverages.of_trace
        of(process.pid, process.start_ns).end(process)
    return coverages.processes()
