"""Spools lead nowhere else, whatever the owner of the folder above puts in their place."""

import os
import subprocess
import sys

import pytest

from lanescope._core import native
from lanescope.errors import InputError
from lanescope.trace.counter_spool import SpoolTail, counter_header
from lanescope.trace.spool_records import sidecar_of
from lanescope.trace.watch_folder import LIMITS, write_limits
from lanescope.watching.sources.common import write_sidecar
from tests.patience import PATIENCE_S
from tests.watching import test_trace_injection as injection
from tests.watching.injected import environment, needs_injection

cupti = injection.cupti  # a fixture
MINE = "mine\n"


@pytest.fixture
def elsewhere(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "key").write_text(MINE)
    return folder


@pytest.fixture
def swapped(tmp_path, elsewhere):
    """Return a folder of spools that somebody has exchanged for a link."""
    (tmp_path / "spool").symlink_to(elsewhere)
    yield tmp_path / "spool"
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == {"key": MINE}


def test_the_core_and_the_limits_follow_no_link(swapped, tmp_path, elsewhere):
    with pytest.raises(native.NativeError, match=r"spool/x\.bin"):
        native.testing.SpoolFile(str(swapped / "x.bin"), "{}\n")
    with pytest.raises(InputError, match="spool is a symbolic link"):
        write_limits(swapped)
    swapped.unlink()
    swapped.mkdir()
    for name in ("x.bin", LIMITS):
        (swapped / name).symlink_to(elsewhere / "key")
    with pytest.raises(native.NativeError, match=r"spool/x\.bin"):
        native.testing.SpoolFile(str(swapped / "x.bin"), "{}\n")
    with pytest.raises(FileExistsError):
        write_limits(swapped)


def test_what_a_sampler_tells_replaces_a_link_and_misses_a_linked_folder(swapped, elsewhere):
    write_sidecar(swapped / "x.bin", {})
    swapped.unlink()
    swapped.mkdir()
    sidecar = sidecar_of(swapped / "x.bin")
    sidecar.symlink_to(elsewhere / "key")
    write_sidecar(swapped / "x.bin", {})
    assert not sidecar.is_symlink()


def test_the_live_view_follows_no_link(swapped, elsewhere, tmp_path):
    real = tmp_path / "real.bin"
    real.write_text(counter_header("pm", 0, 1000))
    (elsewhere / "pm.g0.bin").symlink_to(real)
    with pytest.raises(InputError, match="symbolic link"):
        list(SpoolTail(swapped / "pm.g0.bin").read())
    with pytest.raises(InputError, match="symbolic link"):
        list(SpoolTail(elsewhere / "pm.g0.bin").read())
    (elsewhere / "pm.g0.bin").unlink()


def traced(cupti, folder, text=""):
    done = subprocess.run(
        [sys.executable, "-c", injection.BEGIN + "copies(1, 1)\n" + text],
        env=environment(cupti, folder, {"LANESCOPE_TRACE_FLUSH_MS": "5"}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@needs_injection
def test_a_traced_program_follows_no_link_and_waits_for_no_fifo(swapped, cupti):
    traced(cupti, swapped)
    swapped.unlink()
    swapped.mkdir()
    os.mkfifo(swapped / LIMITS)
    traced(cupti, swapped)
    assert len(list(swapped.glob("trace.*.bin"))) == 1


@needs_injection
def test_a_spool_that_is_opened_again_leads_nowhere_else(tmp_path, elsewhere, cupti):
    spool = tmp_path / "spool"
    spool.mkdir()
    exchange = f"""
written()
os.rename({str(spool)!r}, {str(tmp_path / "moved")!r})
os.symlink({str(elsewhere)!r}, {str(spool)!r})
(name,) = [name for name in os.listdir({str(tmp_path / "moved")!r}) if "trace" in name]
os.symlink({str(elsewhere / "key")!r}, os.path.join({str(elsewhere)!r}, name))
os.closerange(200, 400)
copies(5, 1); written()
"""
    traced(cupti, spool, exchange)
    assert (elsewhere / "key").read_text() == MINE
