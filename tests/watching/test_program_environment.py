import os
import subprocess
import sys

import pytest

from lanescope.machine import part_names
from lanescope.watching.launcher import program_environment, without_ours
from tests.watching.test_launcher import python


@pytest.mark.parametrize(
    ("now", "at_start", "kept"),
    [
        ({b"LC_CTYPE": b"C.UTF-8"}, {}, {}),
        ({b"LC_CTYPE": b"C.UTF-8"}, {b"LC_CTYPE": b"C"}, {"LC_CTYPE": "C"}),
        ({b"LC_CTYPE": b"C.UTF-8"}, {b"LC_CTYPE": b"C.UTF-8"}, {"LC_CTYPE": "C.UTF-8"}),
        ({b"LC_CTYPE": b"de_DE"}, {}, {"LC_CTYPE": "de_DE"}),
        ({b"A": b"\xff"}, {}, {"A": "\udcff"}),
        ({}, {b"GONE": b"1"}, {}),
    ],
)
def test_only_what_python_set_is_taken_back(now, at_start, kept):
    assert without_ours(now, at_start) == kept


def test_what_a_program_changes_stays(monkeypatch):
    # a command that ran in this process may have set it
    monkeypatch.setattr(part_names, "_set_here", [])
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv("MINE", "1")
    environment = program_environment()
    assert (environment["CUDA_DEVICE_ORDER"], environment["MINE"]) == ("PCI_BUS_ID", "1")


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LC_CTYPE": "C"}, {"LANG": "C"}])
def test_a_watched_program_has_the_users_environment(locale, tmp_path):
    around = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ODD": "\udcff"} | locale
    around |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    shown = [sys.executable, "-c", "print(open('/proc/self/environ', 'rb').read())"]
    start = "import sys; from lanescope.cli import main; main()"
    command = [*python(start), "watch", "-q", "--out", str(tmp_path / "run"), "--", *shown]
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=True)
    got = {tuple(w.split(b"=", 1)) for w in eval(done.stdout).split(b"\0") if w}
    named = {(n, v) for n, v in got if n.startswith((b"LANESCOPE_", b"NVTX_INJ", b"CUDA_INJ"))}
    assert got - named == {(os.fsencode(n), os.fsencode(v)) for n, v in around.items()}


def test_an_import_changes_no_environment():
    text = "import os; before = dict(os.environ); from lanescope import _core; "
    text += "import lanescope; lanescope.compress; assert dict(os.environ) == before"
    around = {k: v for k, v in os.environ.items() if k != "CUDA_DEVICE_ORDER"}
    subprocess.run(python(text), env=around, check=True)
