"""What a prolog sees: the code, and the sentence that goes with it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lanescope.units.plain import plain_text
from tests.patience import PATIENCE_S

H200 = ("check", "h2d/g0", "--machine", "h200-x2")


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "h2d/*", "--strict"),
        ("check", "d2d/g0-g1"),
        ("bench",),
        ("bench", "latency"),
        ("bench", "sweep"),
        ("bench", "sms"),
        ("bench", "small"),
        ("bench", "hostdev"),
        ("model", "fit"),
        ("copy", "h0 -> g0"),
        ("copy", "h7 -> h0"),
        ("bench", "compress", "--device", "gpu"),
        ("bench", "compress", "--sms", "16"),
        ("watch", "--source", "calls", "--", "true"),
        ("watch", "--source", "counters", "--all"),
        ("watch", "--all", "--keep", "1h"),
        ("doctor", "--cost"),
    ],
    ids=" ".join,
)
def test_a_gpu_that_is_not_there_is_a_missing_part(lanescope_here, arguments, no_gpus):
    done = lanescope_here(*arguments)
    assert done.returncode == 4, done.stderr
    assert "\nlanescope: " in f"\n{done.stderr}"


def test_what_a_described_machine_lacks_is_bad_input(lanescope_here):
    done = lanescope_here("copy", "h0 -> g5", "--machine", "h200-x2")
    assert (done.returncode, "this machine has no g5" in done.stderr) == (2, True)


@pytest.mark.usefixtures("small_arrays")
def test_strict_does_not_pass_a_machine_without_its_gpus(lanescope_here, no_gpus):
    done = lanescope_here("check", "--strict", "--budget", "0.02")
    assert done.returncode == 3
    assert done.stdout.startswith("not measured (exit code 3): ")


def test_what_is_expected_and_missing_is_named(lanescope_here, tmp_path, no_gpus):
    saved = tmp_path / "machine.toml"
    lanescope_here("topo", "--save", saved)
    assert lanescope_here("topo", "--expect", saved).returncode == 0
    saved.write_text(
        re.sub(r"memory_bytes = \d+", "memory_bytes = 1099511627776", saved.read_text())
    )
    done = lanescope_here("topo", "--expect", saved, "--expect-gpus", "2")
    assert done.returncode == 4
    count, memory = done.stderr.splitlines()
    assert count.startswith("missing: GPUs that can be used: 0 found, 2 expected.")
    assert memory.endswith("1024.0 GiB expected.")


@pytest.mark.parametrize("gpus", [2, 3])
def test_json_begins_with_the_verdict(lanescope_here, gpus):
    done = lanescope_here(*H200, "--expect", "h200-x2", "--expect-gpus", str(gpus), "--json")
    content = json.loads(done.stdout)
    assert list(content)[:3] == ["verdict", "summary", "exit_code"]
    assert content["exit_code"] == done.returncode == (0 if gpus == 2 else 4)
    assert content["verdict"] == ("predicted" if gpus == 2 else "missing")
    assert len(content["missing"]) == gpus - 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_any_terminal_can_show_it(lanescope, encoding):
    lanescope.environment["PYTHONIOENCODING"] = encoding
    done = subprocess.run(
        [sys.executable, "-m", "lanescope", *H200],
        capture_output=True,
        env=lanescope.environment,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "h0 -> g0" in plain_text(done.stdout.decode(encoding))


def test_every_character_of_ours_has_a_plain_likeness(source_folder):
    text = "".join(path.read_text(encoding="utf-8") for path in source_folder.rglob("*.py"))
    assert {c for c in set(text) if not c.isascii() and "?" in plain_text(c)} == set()


@pytest.mark.parametrize("arguments", [H200, ("topo", "--machine", "nonsense")], ids=" ".join)
def test_messages_that_nobody_can_read_change_no_code(lanescope, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lanescope", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=full,
            env=lanescope.environment,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == (0 if arguments == H200 else 2)


SICK = Path(__file__).parents[2] / "docs/examples/narrow-link"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("show", SICK), 1),
        (("show", SICK, "--json"), 1),
        (("topo", "--machine", "h200-x2", "--expect-gpus", "8"), 4),
        (("fleet", "--help"), 0),
    ],
)
def test_a_reader_who_leaves_changes_no_code(lanescope, arguments, code):
    """As in ``lanescope node | grep -q healthy``: 0 would say that all is well."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "lanescope", *map(str, arguments)],
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            env=lanescope.environment,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == code
    assert "roken pipe" not in done.stderr


FAULTY = """
import sys
from lanescope.cli import topo
from lanescope.studies import running

def broken(machine):
    raise ZeroDivisionError("a planted → fault")

running.resolve_machine = broken
sys.argv = ["lanescope", "topo"]
from lanescope.cli import main
main()
"""


def in_python(lanescope, program):
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=lanescope.environment,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_lack_of_memory_is_no_fault_of_our_own(lanescope):
    program = FAULTY.replace('ZeroDivisionError("a planted → fault")', "MemoryError")
    done = in_python(lanescope, program)
    assert done.returncode == 2
    assert done.stderr.startswith("lanescope: there is not enough memory; see")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("writable", [True, False])
def test_a_fault_of_our_own_has_a_code_of_its_own(lanescope, tmp_path, writable):
    lanescope.environment["PYTHONIOENCODING"] = "ascii"
    if not writable:
        lanescope.environment |= {"LANESCOPE_RUNS": "/proc/runs", "TMPDIR": str(tmp_path)}
    done = in_python(lanescope, FAULTY)
    assert done.returncode == 70
    (line,) = done.stderr.splitlines()
    assert line.startswith("lanescope: a fault of lanescope's own (ZeroDivisionError: a planted ->")
    (report,) = re.findall(r"is in (\S+fault-\S+\.txt);", line)
    with open(report, encoding="utf-8") as file:
        text = file.read()
    assert "Traceback" in text
    assert "a planted → fault" in text
