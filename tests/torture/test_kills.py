"""SIGKILL at any moment of any verb: what is stored reads, and nothing else is left."""

import os
import signal
import subprocess
import time

import pytest

from tests.patience import PATIENCE_S
from tests.torture.conftest import FULL
from tests.torture.test_interruptions import VERBS, is_group, require_readable

#: All verbs together make 500 of them.
KILLS = -(-500 // len(VERBS))
#: `make test` has time for those that store something in a way of their own.
SOME = ("check", "suite", "compress", "watch")


@pytest.mark.parametrize("name", VERBS if FULL else SOME)
def test_a_kill_at_any_moment(name, rng, trials, tmp_path):
    rng.seed(f"{rng.random()} {name}")
    verb = VERBS[name]
    most = min(verb.seconds, trials(1, 60))
    for number in range(trials(1, KILLS)):
        at = rng.uniform(0, most)
        out = tmp_path / str(number)
        temporary = tmp_path / f"{number}-tmp"
        temporary.mkdir()
        killed_after(at, verb, out, temporary)
        where = f"{name} after {at:.3f} s"
        assert not list(temporary.iterdir()), where
        require_readable(out, where)
        page = out.with_suffix(".html")
        assert not page.exists() or page.read_text().rstrip().endswith("</html>"), where


def killed_after(seconds, verb, out, temporary):
    """Run a command for some seconds, and wait until all that it has started has ended, too."""
    process = subprocess.Popen(
        verb.arguments(out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ
        | {"LANESCOPE_RUNS": f"{out}-runs", "XDG_DATA_HOME": f"{out}-data"}
        | {"TMPDIR": str(temporary)},
        start_new_session=True,
    )
    try:
        time.sleep(seconds)
        process.kill()
        process.wait(PATIENCE_S)
        # a watched program goes on to its own end, which lanescope's does not bring
        until = time.monotonic() + PATIENCE_S
        while is_group(process.pid) and time.monotonic() < until:
            time.sleep(0.01)
        assert not is_group(process.pid), f"something goes on: {verb.command}"
    finally:
        if is_group(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
