"""What files and arguments hold is shown on a terminal, and not acted on by it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from lanescope.machine import machine_named
from lanescope.machine.files import dumps_machine
from lanescope.report.format import safe_cells

EVIL = "x\x1b[2Jy\x07\x9bz"


@pytest.fixture
def evil(tmp_path):
    """Return a machine file whose name would clear the screen."""
    path = tmp_path / "machine.toml"
    machine = machine_named("h200-x2")
    text = dumps_machine(machine).replace(machine.name, r"x\u001b[2Jy\u0007\u009bz", 1)
    path.write_text(text)
    return path


def on_a_terminal(*command):
    """Return what a command writes to a terminal that both its streams are."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lanescope", *map(str, command)],
        stdin=its,
        stdout=its,
        stderr=its,
        env=os.environ | {"TERM": "xterm-256color"},
    )
    os.close(its)
    parts = []
    try:
        while part := os.read(ours, 4096):
            parts.append(part)
    except OSError:  # its end
        pass
    process.wait()
    os.close(ours)
    return b"".join(parts)


def test_names_of_a_file_do_not_act_on_a_terminal(evil):
    shown = on_a_terminal("topo", "--machine", evil)
    assert rb"\x1b[2Jy" in shown
    assert b"\x1b[2J" not in shown
    assert b"\x07" not in shown


def test_arguments_do_not_act_on_a_terminal():
    shown = on_a_terminal("report", EVIL)
    assert b"[2Jy" in shown
    assert b"\x1b[2J" not in shown
    assert b"\x07" not in shown


def test_help_keeps_its_colours():
    assert b"\x1b[1m" in on_a_terminal("--help")


def test_a_picture_of_a_topology_is_xml(lanescope, evil, tmp_path):
    done = lanescope("topo", "--machine", evil, "--svg", tmp_path / "t.svg")
    assert done.returncode == 0, done.stderr
    ElementTree.parse(tmp_path / "t.svg")


def test_no_cell_is_a_formula():
    row = ["=1+1", "+x", "-x", "@x", "\t=x", "-1.5", "+2e3", -3, None, "h0 → g0"]
    begun = ["'=1+1", "'+x", "'-x", "'@x", "'\t=x"]
    assert safe_cells(row) == [*begun, "-1.5", "+2e3", -3, None, "h0 → g0"]
