"""What two checkouts render of stored runs is compared, output by output."""

import shutil
import subprocess
import sys

from tests.patience import PATIENCE_S
from tests.tools.test_build import ROOT

RUN = ROOT / "docs" / "examples" / "narrow-link"


def compared(old):
    command = [sys.executable, ROOT / "tools" / "compare_reports.py", old, RUN]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_checkout_renders_as_itself():
    done = compared(ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "0 of 5 outputs of 1 runs differ\n"


def test_what_another_checkout_renders_otherwise_is_shown(tmp_path):
    package = ROOT / "src" / "lanescope"
    theirs = tmp_path / "src" / "lanescope"
    shutil.copytree(package, theirs, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for library in package.glob("*.so"):
        (theirs / library.name).symlink_to(library)
    outcome = theirs / "studies" / "runs" / "outcome.py"
    text = outcome.read_text()
    assert " shown without a verdict" in text
    outcome.write_text(text.replace(" shown without a verdict", " shown without any verdict"))
    done = compared(tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    shown = done.stdout.splitlines()
    assert any(line.startswith("-") and "without any verdict" in line for line in shown)
    assert any(line.startswith("+") and "without a verdict" in line for line in shown)
    assert "+++ new docs-examples-narrow-link.show" in shown
    assert "+++ new docs-examples-narrow-link.csv" not in shown


def test_a_folder_that_is_no_checkout_is_refused(tmp_path):
    done = compared(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{tmp_path} is no checkout of lanescope: it has no src/lanescope\n"


def test_without_a_checkout_it_says_what_it_takes():
    command = [sys.executable, ROOT / "tools" / "compare_reports.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "name a checkout to compare with: compare_reports.py OLD [RUN...]\n"
