"""Programs that lock themselves up, or do what few do: recorded where that can be, never changed.

Each is run with a driver for tests, with its own output and exit code as without a watch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lanescope.trace.trace_spool import read_trace_spool
from lanescope.trace.watch_folder import RINGS
from lanescope.watching.sources.calls import CallsSource
from tests.native.programs import program
from tests.patience import until
from tests.watching import recording
from tests.watching.recording import Run, environment_of, needs_calls, read_one, waiting

pytestmark = needs_calls
source, run = recording.source, recording.run  # fixtures

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")

#: A filter of system calls by which opening a file ends the program; no other architecture's.
NO_FILES = """
import struct
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"x86_64": (2, 257, 437, 85), "aarch64": (56, 437)}[os.uname().machine]
def instruction(code, true, false, value): return struct.pack("HBBI", code, true, false, value)
count = len(NUMBERS)
code = instruction(0x20, 0, 0, 0)  # the number of the call
for i, number in enumerate(NUMBERS): code += instruction(0x15, count - i, 0, number)
code += instruction(0x06, 0, 0, 0x7FFF0000) + instruction(0x06, 0, 0, 0x80000000)  # allow, kill
class Filter(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("code", P)]
program_of_filter = ctypes.create_string_buffer(code)
def lock_up():
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    filter = Filter(len(code) // 8, ctypes.addressof(program_of_filter))
    assert libc.prctl(22, 2, ctypes.byref(filter), 0, 0) == 0
"""


def test_a_filter_that_forbids_to_open_files_after_cuda_began(run: Run, tmp_path: Path) -> None:
    text = """
assert cuda.cuInit(0) == 0
lock_up()
to_gpu(5, times=3)
cuda.cuStreamBeginCapture_v2(P(1), 0)
cuda.cuMemcpyHtoDAsync_v2(U64(GPU0), P(at), SIZE(2), P(1))
cuda.cuStreamEndCapture(P(1), None)
print("mine", flush=True)
os._exit(3)
"""
    done, _ = run(NO_FILES + text)
    assert (done.returncode, done.stdout) == (3, "mine\n")
    assert read_one(tmp_path).operations.bytes.tolist() == [5, 5, 5]


def test_that_filter_ends_who_opens_a_file(run: Run) -> None:
    """Else the test above would prove nothing."""
    done, _ = run(f"{NO_FILES}\nlock_up()\nos.open('/dev/null', os.O_RDONLY)")
    assert done.returncode == -31  # SIGSYS


def test_cuda_that_is_looked_up_by_version_begins_alike(run: Run, tmp_path: Path) -> None:
    text = """
begin = P()
cuda.cuGetProcAddress_v2(b"cuInit", ctypes.byref(begin), 12000, U64(0), None)
assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(begin.value)(0) == 0
lock_up()
to_gpu(7)
os._exit(0)
"""
    done, _ = run(NO_FILES + text)
    assert done.returncode == 0
    assert read_one(tmp_path).operations.bytes.tolist() == [7]


@pytest.mark.parametrize(
    "text",
    [
        "os.closerange(3, 4096)",
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))",
        pytest.param("os.chroot(os.environ['EMPTY'])", marks=needs_root),
        pytest.param("os.setresgid(9, 9, 9)\nos.setresuid(9, 9, 9)", marks=needs_root),
        "os.environ.clear()\nctypes.CDLL(None).clearenv()",
        "os.setsid()\nos.chdir('/')\nos.umask(0o777)",
        "for one in (7, 11): signal.signal(one, lambda *_: None)\nos.kill(os.getpid(), 11)",
    ],
    ids=[
        *("descriptors", "file size", "files", "memory", "root", "user", "environment", "daemon"),
        "handlers",
    ],
)
def test_programs_that_do_it_after_cuda_began_are_recorded(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("EMPTY", str(tmp_path / "empty"))
    copy = "copy = cuda.cuMemcpyHtoD_v2\nassert cuda.cuInit(0) == 0\n"
    after = "\ncopy(U64(GPU0), P(at), SIZE(5))\nos.write(1, b'mine')\nos._exit(3)"
    done, _ = run(copy + text + after)
    assert (done.returncode, done.stdout) == (3, "mine")
    assert read_one(tmp_path).operations.bytes.tolist() == [5]


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        ("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", False),
        ("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))", False),
        pytest.param("os.chroot(os.environ['EMPTY'])", False, marks=needs_root),
        pytest.param("os.setresgid(9, 9, 9)\nos.setresuid(9, 9, 9)", False, marks=needs_root),
        ("os.environ.clear()\nctypes.CDLL(None).clearenv()", True),
        ("os.closerange(3, 4096)", True),
    ],
    ids=["files", "memory", "root", "user", "environment", "descriptors"],
)
def test_programs_that_do_it_before_are_as_without_a_watch(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, recorded: bool
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("EMPTY", str(tmp_path / "empty"))
    after = """
begin, copy = cuda.cuInit, cuda.cuMemcpyHtoD_v2
begin(0)
copy(U64(GPU0), P(at), SIZE(5))
os.write(1, b'mine')
os._exit(3)
"""
    done, _ = run(f"{text}{after}")
    assert (done.returncode, done.stdout) == (3, "mine")
    assert bool(list(tmp_path.glob("trace.*.bin"))) == recorded


def test_cuda_without_a_copy_is_no_process_that_copied(run: Run, tmp_path: Path) -> None:
    done, report = run("cuda.cuInit(0)\nprint(1)")
    assert done.stdout == "1\n"
    assert "No process of the program copied" in (report.reason or "")
    assert not list(tmp_path.glob("trace.*.bin"))


def test_rings_of_processes_that_never_copied_go_with_them(
    source: CallsSource, tmp_path: Path
) -> None:
    """A script that starts programs which look for GPUs would fill the memory else."""
    source.start()
    rings = (tmp_path / RINGS).resolve()
    with waiting(source, "cuda.cuInit(0)\nprint(flush=True)\ninput()") as program:
        assert len(list(rings.glob("calls.*.ring"))) == 1
        program.end()
    until(lambda: not list(rings.glob("calls.*.ring")))
    source.stop()


def test_a_driver_that_is_closed_and_opened_again(run: Run, tmp_path: Path) -> None:
    text = """
import _ctypes
for size in (5, 6, 7):
    to_gpu(size)
    _ctypes.dlclose(cuda._handle)
    cuda = ctypes.CDLL(os.environ["MOCK_CUDA"])
"""
    run(text)
    assert read_one(tmp_path).operations.bytes.tolist() == [5, 6, 7]


def test_children_by_vfork_and_another_program(run: Run, tmp_path: Path) -> None:
    text = """
import subprocess
import sys
begin = open("/proc/self/cmdline").read().split("\\0")[2].partition("import subprocess")[0]
for size in (5, 6):
    subprocess.run([sys.executable, "-c", f"{begin}\\nto_gpu({size})"], check=True)
"""
    run(text)
    traces = [read_trace_spool(path) for path in tmp_path.glob("trace.*.bin")]
    assert sorted(trace.operations.bytes.tolist() for trace in traces) == [[5], [6]]


#: A program that is linked with the driver, and copies in a thread that it makes by clone alone.
LINKED = """
#include <sched.h>
#include <sys/wait.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
extern "C" int cuInit(unsigned);
extern "C" int cuMemcpyHtoD_v2(std::uint64_t, const void*, std::size_t);
int copy(void* size) {
  static char host[64];
  return cuMemcpyHtoD_v2(1ULL << 46, host, reinterpret_cast<std::uintptr_t>(size));
}
int main() {
  if (cuInit(0) != 0) return 1;
  copy(reinterpret_cast<void*>(5));
  char* stack = static_cast<char*>(std::malloc(1 << 20));
  const int child = clone(copy, stack + (1 << 20), CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD,
                          reinterpret_cast<void*>(6));
  waitpid(child, nullptr, 0);
  copy(reinterpret_cast<void*>(7));
  std::puts("mine");
  return 3;
}
"""

#: A library that stands before malloc, as allocators and leak finders do.
ALLOCATOR = """
#include <dlfcn.h>
#include <cstddef>
static void* (*real)(std::size_t) = nullptr;
extern "C" void* malloc(std::size_t size) {
  if (real == nullptr) real = reinterpret_cast<void* (*)(std::size_t)>(dlsym(RTLD_NEXT, "malloc"));
  return real(size);
}
"""


def compiled(folder: Path, name: str, text: str, *options: str) -> Path:
    (folder / f"{name}.cpp").write_text(text)
    command = [os.environ.get("CXX", "g++"), f"{name}.cpp", "-o", name, *options]
    subprocess.run(command, cwd=folder, check=True)
    return folder / name


def linked_program(folder: Path) -> tuple[Path, dict[str, str]]:
    """Return a program that is linked with the driver for tests, and where it finds that."""
    (folder / "libcuda.so.1").symlink_to(program("mock_cuda"))
    made = compiled(folder, "linked", LINKED, str(folder / "libcuda.so.1"))
    return made, {"LD_LIBRARY_PATH": str(folder)}


@pytest.mark.parametrize("bound", [{}, {"LD_BIND_NOW": "1"}], ids=["lazily", "at once"])
def test_a_linked_program_with_threads_of_its_own_making(
    source: CallsSource, tmp_path: Path, bound: dict[str, str]
) -> None:
    made, where = linked_program(tmp_path)
    source.start()
    environment = {**environment_of(source), **where, **bound}
    done = subprocess.run([made], env=environment, capture_output=True, text=True, check=False)
    source.stop()
    assert (done.returncode, done.stdout, done.stderr) == (3, "mine\n", "")
    assert read_one(tmp_path).operations.bytes.tolist() == [5, 6, 7]


def test_a_library_that_copies_before_the_program_begins(
    source: CallsSource, tmp_path: Path
) -> None:
    text = LINKED.replace("int main()", "__attribute__((constructor)) static void early()")
    text = text.replace("return 1;", "return;").replace("return 3;", "")
    (tmp_path / "libcuda.so.1").symlink_to(program("mock_cuda"))
    driver = str(tmp_path / "libcuda.so.1")
    library = compiled(tmp_path, "libearly.so", text, "-shared", "-fPIC", driver)
    none = "-Wl,--no-as-needed"
    made = compiled(tmp_path, "late", "int main() { return 3; }", none, str(library), driver)
    source.start()
    environment = {**environment_of(source), "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([made], env=environment, capture_output=True, text=True, check=False)
    source.stop()
    assert (done.returncode, done.stdout, done.stderr) == (3, "mine\n", "")
    assert read_one(tmp_path).operations.bytes.tolist() == [5, 6, 7]


@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
def test_an_allocator_that_is_loaded_too(source: CallsSource, tmp_path: Path, first: bool) -> None:
    made, where = linked_program(tmp_path)
    allocator = compiled(tmp_path, "allocator.so", ALLOCATOR, "-shared", "-fPIC")
    source.start()
    environment = {**environment_of(source), **where}
    ours = environment["LD_PRELOAD"]
    environment["LD_PRELOAD"] = f"{allocator}:{ours}" if first else f"{ours}:{allocator}"
    done = subprocess.run([made], env=environment, capture_output=True, text=True, check=False)
    source.stop()
    assert (done.returncode, done.stdout, done.stderr) == (3, "mine\n", "")
    assert read_one(tmp_path).operations.bytes.tolist() == [5, 6, 7]


@pytest.mark.parametrize("folders", [0, 40])
def test_a_program_in_any_folder_finds_the_library(
    source: CallsSource, tmp_path: Path, folders: int
) -> None:
    made, where = linked_program(tmp_path)
    deep = tmp_path.joinpath(*["d"] * folders, "linked again")
    deep.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(made, deep)
    source.start()
    environment = {**environment_of(source), **where}
    done = subprocess.run(
        [deep], env=environment, capture_output=True, text=True, check=False, cwd="/"
    )
    source.stop()
    assert (done.returncode, done.stdout, done.stderr) == (3, "mine\n", "")
    assert read_one(tmp_path).operations.bytes.tolist() == [5, 6, 7]


def test_a_loader_that_takes_names_as_they_are_finds_nothing(
    source: CallsSource, tmp_path: Path
) -> None:
    """That of musl, by which a program does not start with a library for glibc."""
    source.start()
    (name,) = source.environment()["LD_PRELOAD"].split(":")
    source.stop()
    assert not Path(name).exists()
    assert not name.startswith("/")  # nor below another root


def test_a_program_of_musl_is_left_alone(source: CallsSource, tmp_path: Path) -> None:
    if (musl := shutil.which("musl-gcc")) is None:
        pytest.skip("no musl")
    (tmp_path / "mine.c").write_text('#include <stdio.h>\nint main() { puts("mine"); return 3; }\n')
    subprocess.run([musl, "mine.c", "-o", "mine"], cwd=tmp_path, check=True)
    source.start()
    done = subprocess.run(
        ["sh", "-c", tmp_path / "mine"],
        env=environment_of(source),
        capture_output=True,
        text=True,
        check=False,
    )
    source.stop()
    assert (done.returncode, done.stdout, done.stderr) == (3, "mine\n", "")


@needs_root
def test_shared_memory_that_is_full_is_not_used(source: CallsSource, tmp_path: Path) -> None:
    made, where = linked_program(tmp_path)
    source.start()
    rings = (tmp_path / RINGS).resolve()
    full = f"mount -t tmpfs -o size=1m none {rings}"
    if subprocess.run(["unshare", "-m", "sh", "-c", full], check=False).returncode:
        source.stop()
        pytest.skip("no file systems of its own can be mounted here")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{full} && {made}; code=$?; ls {rings}; exit $code"],
        env={**environment_of(source), **where},
        capture_output=True,
        text=True,
        check=False,
    )
    source.stop()
    assert (done.returncode, done.stdout, done.stderr) == (3, "mine\n", "")
    assert not list(tmp_path.glob("trace.*.bin"))


def test_a_static_program_is_left_alone(source: CallsSource, tmp_path: Path) -> None:
    text = '#include <cstdio>\nint main() { std::puts("mine"); return 3; }\n'
    try:
        made = compiled(tmp_path, "static", text, "-static")
    except subprocess.CalledProcessError:
        pytest.skip("no static C library")
    source.start()
    done = subprocess.run(
        [made], env=environment_of(source), capture_output=True, text=True, check=False
    )
    source.stop()
    assert (done.returncode, done.stdout, done.stderr) == (3, "mine\n", "")
