"""Outputs whose places are devices, links and standard output itself."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lanescope.store.folder import State
from lanescope.store.store import read_run
from tests.patience import PATIENCE_S

RESULTS = Path(__file__).parents[2] / "benchmarks/results"

#: Of Linux: the numbers of /dev/null and /dev/full.
NULL, FULL = (1, 3), (1, 7)


def device(path: Path, numbers: tuple[int, int]) -> Path:
    """Make a device node of one's own."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
        path.open("wb").close()
    except OSError as error:
        pytest.skip(f"no device nodes can be made and opened here: {error}")
    return path


def lanescope_into(out: Path, *arguments: object) -> str:
    """Run a command line whose standard output is appended to a file; return its other words."""
    command = [sys.executable, "-m", "lanescope", *map(str, arguments)]
    with out.open("ab") as file:
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S
        )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_drawing_goes_to_standard_output(tmp_path: Path):
    out = tmp_path / "out"
    out.write_text("before\n")
    (tmp_path / "link.svg").symlink_to("/proc/self/fd/1")
    lanescope_into(out, "topo", "--machine", "h200-x2", "--svg", tmp_path / "link.svg")
    drawing, _, tree = out.read_text().partition("</svg>")
    assert drawing.startswith("before\n<svg")
    assert "g0" in tree
    assert (tmp_path / "link.svg").is_symlink()


def test_compressed_bytes_and_words_do_not_mix(lanescope_here, tmp_path: Path):
    values = np.arange(5000, dtype=np.float32)
    values.tofile(tmp_path / "values.f32")
    (tmp_path / "link").symlink_to("/proc/self/fd/1")
    out = tmp_path / "all.f32.lsc"
    words = lanescope_into(out, "compress", tmp_path / "values.f32", "--out", tmp_path / "link")
    assert f"compressed {out.stat().st_size / 1024:.3g} KiB" in words
    assert lanescope_here("decompress", out).returncode == 0
    assert np.array_equal(np.fromfile(tmp_path / "all.f32", np.float32), values)


def test_a_machine_file_goes_where_a_link_leads(lanescope_here, tmp_path: Path):
    (tmp_path / "machine.toml").symlink_to("target.toml")
    done = lanescope_here("topo", "--machine", "h200-x2", "--save", tmp_path / "machine.toml")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "machine.toml").is_symlink()
    assert "[[gpus]]" in (tmp_path / "target.toml").read_text()


def test_devices_stay_devices(lanescope_here, tmp_path: Path):
    null, full = device(tmp_path / "null.svg", NULL), device(tmp_path / "full.svg", FULL)
    np.zeros(1000, np.float32).tofile(tmp_path / "values.f32")
    for command in (
        ("topo", "--machine", "h200-x2", "--svg"),
        ("compress", tmp_path / "values.f32", "--out"),
    ):
        done = lanescope_here(*command, null)
        assert done.returncode == 0, done.stderr
        done = lanescope_here(*command, full)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"lanescope: cannot write {full}: No space left on device; name another place\n"
        )
    assert stat.S_ISCHR(null.lstat().st_mode)
    assert stat.S_ISCHR(full.lstat().st_mode)


def test_a_page_that_has_no_room_does_not_hide_the_run(lanescope, tmp_path: Path):
    def with_little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # a page has more

    command = ("check", "h2d/*", "--machine", "h200-x2", "--out", tmp_path / "run")
    done = lanescope(*command, env=lanescope.environment, preexec_fn=with_little_room)
    page = tmp_path / "run/report.html"
    assert done.returncode == 0, done.stderr
    assert "predicted (exit code 0)" in done.stdout
    assert "h0 → g0" in done.stdout
    assert done.stderr == (
        f"no page: cannot write {page}: File too large; 'lanescope report {tmp_path / 'run'} "
        f"--out FILE.html' writes it elsewhere\nrun:  {tmp_path / 'run'}\n"
    )
    assert not page.exists()
    assert read_run(tmp_path / "run").manifest.state is State.COMPLETE


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("show latest", 2, "lanescope: cannot read or write the output: Bad file descriptor\n"),
        ("runs --json", 2, "lanescope: cannot read or write the output: Bad file descriptor\n"),
        ("--help", 2, "lanescope: cannot read or write the output: Bad file descriptor\n"),
        ("show nothing", 2, "lanescope: no run 'nothing' here"),
        ("topo --help --nothing", 2, "lanescope: "),
        ("report latest -q", 0, ""),  # it prints nothing
    ],
)
def test_what_is_printed_to_a_closed_output_is_an_error(
    lanescope, tmp_path: Path, words: str, code: int, said: str
):
    shutil.copytree(RESULTS / "h200-x2/check", tmp_path / "runs/stored")
    command = f'exec "$0" -m lanescope {words} >&-'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        stderr=subprocess.PIPE,
        text=True,
        env=lanescope.environment,
        timeout=PATIENCE_S,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == (1 if said else 0)


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    [
        ("show nothing", 2, ""),
        ("watch --out watched -- sh -c 'echo out; echo error >&2; exit 3'", 3, "out\n"),
    ],
)
def test_messages_to_a_closed_standard_error_are_nowhere_else(
    lanescope, tmp_path: Path, words: str, code: int, printed: str
):
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m lanescope {words} 2>&-', sys.executable],
        stdout=subprocess.PIPE,
        text=True,
        env=lanescope.environment,
        cwd=tmp_path,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (code, printed)


def test_closed_streams_stay_closed_for_a_watched_program(lanescope, tmp_path: Path):
    program = "cat; echo $?; echo x >&2; echo $?"
    command = f"exec \"$0\" -m lanescope watch -q --out watched -- sh -c '{program}' <&- 2>&-"
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        stdout=subprocess.PIPE,
        text=True,
        env=lanescope.environment,
        cwd=tmp_path,
        timeout=PATIENCE_S,
    )
    assert [code != "0" for code in done.stdout.split()] == [True, True]


def test_a_verb_that_leaves_a_thread_behind_ends_without_an_output():
    program = (
        "import sys, threading, time; from lanescope.cli import app\n"
        "threading.Thread(target=time.sleep, args=[60], name=app.ABANDONED).start()\n"
        "app.app = lambda **_: 3\n"
        "app.main()"
    )
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", program]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (3, "")
