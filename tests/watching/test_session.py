"""A watch with sources that only pretend."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine import Machine, NumaNode
from lanescope.store.folder import State
from lanescope.trace import store, watch_folder
from lanescope.trace.counter_spool import counter_header
from lanescope.trace.store import is_watch, read_watch
from lanescope.watching.launcher import Launched
from lanescope.watching.session import EndedEarlyError, NotStoredError, Startup, Watch, watch
from lanescope.watching.sources import Availability, SourceReport, injection
from tests.patience import PATIENCE_S, until

MACHINE = Machine(name="small", nodes=(NumaNode(0, cores=((0,),)),))


@dataclass
class Pretended:
    """Writes one record, or refuses."""

    folder: Path
    name: str = "pm.g0"
    refusal: NotMeasuredError | None = None
    calls: list[str] = field(default_factory=list)

    def available(self, machine, *, thorough=False):
        return Availability(self.refusal is None)

    def prepare(self):
        self.calls.append("prepare")

    def start(self):
        self.calls.append("start")
        if self.refusal is not None:
            raise self.refusal
        now = time.time_ns()
        records = b"".join(
            t.to_bytes(8, "little") + b.to_bytes(4, "little") + c.to_bytes(4, "little")
            for t, b, c in ((now, 2**32 - 1, 2**32 - 1), (now + 50_000_000, 512, 1024))
        )
        content = counter_header("pm", 0, 100_000).encode() + records
        (self.folder / f"{self.name}.bin").write_bytes(content)

    def stop(self):
        self.calls.append("stop")
        return SourceReport(samples=1, lost_samples=0, asked=2, cpu_seconds=0.5)

    def environment(self):
        return {"SEEN_BY_PROGRAM": self.name}


def watched(tmp_path, program, *makers):
    made = []

    def sources(folder):
        made.extend(make(folder) for make in makers)
        return made

    waited = Launched(tuple(program))
    asked = Watch(MACHINE, waited, "lanescope watch", sources, tmp_path / "run")
    return watch(asked), made


def test_what_sources_saw_is_stored_with_the_program(tmp_path):
    told = tmp_path / "told"
    text = f"import os; open({str(told)!r}, 'w').write(os.environ['SEEN_BY_PROGRAM']); os._exit(7)"
    run, (source,) = watched(tmp_path, [sys.executable, "-c", text], Pretended)
    assert told.read_text() == "pm.g0"
    assert source.calls == ["prepare", "start", "stop"]
    assert run.manifest.exit_code == 7
    assert run.manifest.state is State.COMPLETE
    assert run.manifest.start_ns < run.manifest.end_ns
    (counters,) = run.timeline.counters
    assert (counters.rx_bytes[1], counters.tx_bytes[1]) == (512, 1024)
    back = read_watch(tmp_path / "run")
    assert back.manifest == run.manifest
    assert back.timeline.counters[0].rx_bytes.tolist() == counters.rx_bytes.tolist()
    assert not (tmp_path / "run" / "spool").exists()
    assert is_watch(tmp_path / "run")


def test_a_source_that_refuses_harms_nobody(tmp_path):
    def refusing(folder):
        return Pretended(folder, "pm.g1", NotMeasuredError("It is taken.", "End that one."))

    run, (first, second) = watched(tmp_path, ["true"], Pretended, refusing)
    used, refused = run.manifest.sources
    assert (used.used, used.samples, used.asked, used.cpu_seconds) == (True, 1, 2, 0.5)
    assert (refused.used, refused.reason, refused.remedy) == (
        False,
        "It is taken.",
        "End that one.",
    )
    assert first.calls == ["prepare", "start", "stop"]
    assert second.calls == ["prepare", "start"]


def test_a_program_that_is_not_there_starts_nothing(tmp_path):
    with pytest.raises(InputError, match="no program nosuch"):
        watched(tmp_path, ["nosuch"], Pretended)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("own", "code"), [("false", 1), ("true", 0)])
def test_a_full_disk_at_the_end_loses_nothing(tmp_path, monkeypatch, own, code):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store, "write_columns", full)
    with pytest.raises(NotStoredError, match=r"No space left.*is kept") as caught:
        watched(tmp_path, [own], Pretended)
    assert caught.value.exit_code == code
    run = read_watch(tmp_path / "run")
    assert run.timeline.counters[0].known.tolist() == [False, True]
    assert run.manifest.exit_code == (1 if own == "false" else 0)


def test_a_run_folder_that_the_program_removed_is_reported_as_removed(tmp_path):
    with pytest.raises(NotStoredError, match=r"run was removed or moved meanwhile") as caught:
        watched(tmp_path, ["sh", "-c", f"rm -rf '{tmp_path}/run'; exit 3"], Pretended)
    assert "is kept" not in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(("own", "code"), [("false", 1), ("true", 0)])
def test_a_fault_after_the_program_leaves_its_exit_code_and_the_spools(
    tmp_path, monkeypatch, own, code
):
    def broken(*_):
        raise ValueError("23 is not a valid MemoryKind")

    monkeypatch.setattr(store, "write_columns", broken)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with pytest.raises(NotStoredError, match=r"fault of lanescope's own.*is kept") as caught:
        watched(tmp_path, [own], Pretended)
    assert caught.value.exit_code == code
    assert read_watch(tmp_path / "run").manifest.exit_code == code


@pytest.mark.parametrize(
    "lack",
    [
        MemoryError(),
        ImportError("libarrow.so.2600: failed to map segment from shared object"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ],
)
def test_a_lack_of_memory_at_the_end_is_no_fault_and_loses_nothing(tmp_path, monkeypatch, lack):
    def lacking(*_):
        raise lack

    monkeypatch.setattr(store, "write_columns", lacking)
    with pytest.raises(NotStoredError, match=r"not enough memory|Cannot allocate") as caught:
        watched(tmp_path, ["false"], Pretended)
    assert "fault" not in str(caught.value)
    assert caught.value.exit_code == 1
    assert read_watch(tmp_path / "run").timeline.counters[0].known.tolist() == [False, True]


def test_arguments_that_are_no_utf_8_are_stored_as_text(tmp_path):
    run, _ = watched(tmp_path, ["true", "a\udcff"], Pretended)
    assert run.manifest.program == ("true", "a\\xff")
    assert read_watch(tmp_path / "run").manifest == run.manifest


def test_a_full_disk_before_the_program_stops_the_sources(tmp_path, monkeypatch):
    told = watch_folder.WatchFolder.update
    seen = []

    def full(self, manifest):
        seen.append(manifest)
        if len(seen) == 2:  # when all sources have begun
            raise InputError("cannot write to run: No space left on device")
        told(self, manifest)

    monkeypatch.setattr(watch_folder.WatchFolder, "update", full)
    made = []

    def sources(folder):
        made.append(Pretended(folder))
        return made

    with pytest.raises(InputError, match="No space left"):
        watch(Watch(MACHINE, Launched(("true",)), "lanescope watch", sources, tmp_path / "run"))
    assert made[0].calls == ["prepare", "start", "stop"]


def test_a_folder_in_use_is_refused(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()
    with pytest.raises(InputError, match="name a new or an empty folder"):
        watched(tmp_path, ["true"])


def test_what_a_killed_watch_saw_reads_back(tmp_path):
    began = tmp_path / "began"
    program = ["sh", "-c", f"touch {began}; exec sleep {2 * PATIENCE_S}"]
    code = (
        "import sys, pathlib; sys.path.insert(0, '.');"
        "from tests.watching.test_session import *;"
        f"watched(pathlib.Path({str(tmp_path)!r}), {program!r}, Pretended)"
    )
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as process:
        until(began.exists)
        os.killpg(process.pid, signal.SIGKILL)
    run = read_watch(tmp_path / "run")
    assert run.manifest.state is State.RUNNING
    assert run.manifest.exit_code is None
    assert run.timeline.counters[0].known.tolist() == [False, True]
    assert run.timeline.end_ns == int(run.timeline.counters[0].end_ns[-1])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"verb": "check"}, "no watch"),
        ({"schema_version": 99}, "newer lanescope"),
        ({"sources": 3}, "'sources' must be a list"),
        ({"state": "asleep"}, "manifest.json: field 'state' is 'asleep', not one of"),
    ],
)
def test_other_folders_are_told_apart(tmp_path, change, sentence):
    run, _ = watched(tmp_path, ["true"])
    manifest = run.folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
    with pytest.raises(InputError, match=sentence):
        read_watch(run.folder)


def too_short(tmp_path, looked, source):
    """A watch whose machine is looked at only when its program, and more, has ended."""

    def machine():
        looked.wait(PATIENCE_S)
        return MACHINE

    return Watch(
        MACHINE,
        Launched(("true",)),
        "lanescope watch",
        lambda folder: [source(folder)],
        tmp_path / "run",
        startup=Startup(machine, lambda machine, folder: ()),
        in_hurry=True,
    )


@pytest.mark.parametrize(
    ("driver", "refusal", "reasons"),
    [
        (False, NotMeasuredError("There is no driver."), {"calls": "There is no driver."}),
        (
            True,
            NotMeasuredError("It has musl."),
            {
                "counters": "The program ended before counters were ready.",
                "calls": "It has musl.",
            },
        ),
        (
            True,
            None,
            {
                "counters": "The program ended before counters were ready; its first use of CUDA "
                "would have waited for them.",
                "calls": None,
            },
        ),
    ],
)
def test_a_short_program_without_a_driver_is_reported_with_the_cause(
    tmp_path, monkeypatch, driver, refusal, reasons
):
    monkeypatch.setattr(injection, "has_driver", lambda: driver)
    looked = threading.Event()
    request = too_short(tmp_path, looked, partial(Pretended, name="calls", refusal=refusal))
    with pytest.raises(EndedEarlyError) as ended:
        watch(request)
    looked.set()
    assert {one.name: one.reason for one in ended.value.manifest.sources} == reasons


def test_a_short_program_that_copied_before_counters_were_ready_has_its_copies(tmp_path):
    """CUDA waits 5 s for counters, no longer."""
    looked = threading.Event()

    class Copies(Pretended):
        def stop(self):
            head = {"source": "trace", "version": 1, "pid": 7, "parent": 1, "command": ["app"]}
            head |= {"library": "", "cupti": 0, "visible_devices": None, "start_ns": time.time_ns()}
            head |= {"clock": "CLOCK_REALTIME", "timed_by": "calls"}
            (self.folder / "trace.7.1.calls.bin").write_text(json.dumps(head) + "\n")
            looked.set()
            return super().stop()

    request = too_short(tmp_path, looked, partial(Copies, name="calls"))
    run = watch(request)
    assert [process.pid for process in run.timeline.processes] == [7]
    assert not (tmp_path / "run" / "spool").exists()


def test_where_the_machine_cannot_be_looked_at_all_sources_are_stopped(tmp_path):
    def missing():
        raise InputError("no such machine")

    made = []

    def sources(folder):
        made.append(Pretended(folder))
        return made

    startup = Startup(missing, lambda machine, folder: ())
    program = Launched(("true",))
    out = tmp_path / "run"
    with pytest.raises(NotStoredError, match="no such machine"):
        watch(Watch(MACHINE, program, "lanescope watch", sources, out, startup=startup))
    assert made[0].calls == ["prepare", "start", "stop"]
