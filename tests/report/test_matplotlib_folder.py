import os
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S

pytest.importorskip("matplotlib")

DRAW = """
import os
from lanescope.report.matplotlib_folder import writable_folder
with writable_folder():
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
print(matplotlib.get_configdir())
print("MPLCONFIGDIR" in os.environ)
"""


def drawn(home, **variables):
    around = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "MPL"))}
    return subprocess.run(
        [sys.executable, "-c", DRAW],
        env=around | {"HOME": str(home)} | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )


def test_without_room_at_home_nothing_is_said_and_nothing_left(tmp_path):
    (tmp_path / "home").touch()  # a file: nobody can make a folder there, not even root
    done = drawn(tmp_path / "home")
    folder, still = done.stdout.split()
    assert (done.stderr, still) == ("", "False")
    assert "lanescope-matplotlib-" in folder
    assert not os.path.exists(folder)


def test_a_home_that_can_be_written_is_used(tmp_path):
    folder, _ = drawn(tmp_path).stdout.split()
    assert folder == str(tmp_path / ".config" / "matplotlib")


def test_a_folder_that_is_named_is_used(tmp_path):
    (tmp_path / "home").touch()
    named = tmp_path / "mine"
    folder, still = drawn(tmp_path / "home", MPLCONFIGDIR=str(named)).stdout.split()
    assert (folder, still) == (str(named), "True")
