"""Signals at any moment of any verb: the right code soon, one sentence, what is stored reads.

What belongs to the interpreter is left out: until it has loaded the first line of lanescope, Ctrl-C
is Python's own. Whether that is over, the kernel says: a handler of SIGTERM is never Python's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from lanescope.report.document_page import document_page
from lanescope.store.folder import MANIFEST
from lanescope.store.store import read_run
from lanescope.studies.analysis import analysis_document
from lanescope.studies.compress import Compress
from lanescope.studies.compress.compressed import FILE as COMPRESS
from lanescope.studies.compress.compressed import read_compress
from lanescope.studies.runs.document import page_html
from lanescope.trace.store import is_watch, read_watch
from tests.patience import PATIENCE_S

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: A signal acts within a second, and on a machine whose cores are all busy within as many times
#: what it takes to start and end an interpreter that does nothing, which is some 0.04 s on an idle
#: one.
SECONDS, STARTS = 1.0, 40
#: What holds up one process now and then holds up none three times.
TRIES = 3


@dataclass(frozen=True)
class Verb:
    """A command; `seconds` is about what it takes, and `{out}` its new folder."""

    command: str
    seconds: float
    module: str = "lanescope"
    #: Of a command that has ended by itself.
    codes: tuple[int, ...] = (0,)
    #: Whether it prints more to standard error than one sentence and where things are.
    tells: bool = False

    def arguments(self, out):
        text = self.command.format(out=out, results=RESULTS)
        return [sys.executable, "-m", self.module, *text.split()]


VERBS = {
    "help": Verb("--help", 0.3),
    "check": Verb("check --budget 0.05 --out {out}", 2.0),
    "check-long": Verb("check --budget 5 --target 0.00001% --out {out}", 4.0),
    "check-within": Verb("check --within 2s --strict --out {out}", 2.2, codes=(0, 3)),
    "check-described": Verb("check --machine h200-x2 --out {out}", 1.2),
    "copy": Verb("copy h0.pageable->h0.pageable@cpu --size 64MiB --budget 0.3 --out {out}", 1.5),
    "host": Verb("bench host --max 10MB --out {out}", 4.0),
    "nurma": Verb("bench nurma --max 1MB --out {out}", 3.0),
    "overhead": Verb("bench overhead --max 10MB --out {out}", 3.0),
    "contention": Verb("bench contention --out {out}", 4.0),
    "suite": Verb("bench --params default --machine h200-x2 --out {out}", 4.0),
    "bench": Verb("bench --machine h200-x2 --out {out}", 1.5),
    "sweep": Verb("bench sweep --machine h200-x2 --out {out}", 2.0),
    "compress": Verb("bench compress --size 1MiB --budget 0.02 --device cpu --out {out}", 3.0),
    "compress-file": Verb(
        "compress {results}/h200-x2/check/results.parquet --to {out} --json", 0.8
    ),
    "topo": Verb("topo", 0.6),
    "doctor": Verb("doctor", 0.8, codes=(0, 4)),
    "report": Verb("report {results}/h200-x2/bench --out {out}.html", 1.5),
    "report-json": Verb("report {results}/h200-x2/check --json", 1.0),
    "watch": Verb("watch --out {out} -- sleep 0.6", 1.8, tells=True),
    "watch-all": Verb("watch --all --seconds 0.5 --out {out}", 1.8, tells=True),
    "advise": Verb(
        "advise --parameters k20 --out {out} -- sleep 0.5", 1.8, codes=(0, 2), tells=True
    ),
    "predict": Verb("model predict --h2d 100MB --d2h 100MB --kernel 5ms --parameters k20", 1.2),
    "validate": Verb("model validate {results}/h200-x1/model/validate", 1.5),
    "examples": Verb("grid state --cpu --size 512x512x42", 2.0, "lanescope.examples"),
}


@dataclass(frozen=True)
class Outcome:
    code: int
    stderr: str
    #: From the signal to the end.
    seconds: float
    #: Whether lanescope had taken care of signals by then.
    handled: bool
    left_behind: bool


@pytest.mark.parametrize("name", VERBS)
def test_an_interruption_at_any_moment(name, rng, trials, tmp_path):
    rng.seed(f"{rng.random()} {name}")
    verb = VERBS[name]
    # quickly: the first second, in which everything is loaded
    most = min(verb.seconds, trials(1, 60))
    for number in range(trials(1, 50)):
        sent = rng.choice(SIGNALS)
        at = rng.uniform(0, most)
        for attempt in range(TRIES):
            out = tmp_path / f"{number}-{attempt}"
            outcome = interrupted(verb, out, sent, at)
            where = f"{sent.name} after {at:.3f} s: {outcome}"
            require_sound(verb, outcome, sent, where)
            require_readable(out, where)
            if outcome.seconds < max(SECONDS, STARTS * start_seconds()):
                break
        else:
            pytest.fail(f"too late, {TRIES} times: {where}")


def interrupted(verb, out, sent, at):
    """Start a command and send it a signal after some seconds."""
    process = subprocess.Popen(
        verb.arguments(out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"LANESCOPE_RUNS": f"{out}-runs", "XDG_DATA_HOME": f"{out}-data"},
        start_new_session=True,
        # a shell that started the tests in the background has Ctrl-C ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        time.sleep(at)
        handled = handles(process.pid)
        process.send_signal(sent)
        begin = time.monotonic()
        _, stderr = process.communicate(timeout=PATIENCE_S)
        seconds = time.monotonic() - begin
        return Outcome(process.returncode, stderr, seconds, handled, is_group(process.pid))
    finally:
        process.kill()
        if is_group(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


def handles(pid):
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True  # it has ended
    mask = next((line.split()[1] for line in status.splitlines() if line[:6] == "SigCgt"), "0")
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


def is_group(pid):
    """Whether a process is left of the session that one began."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def start_seconds():
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True, timeout=PATIENCE_S)
    return time.monotonic() - begin


def require_sound(verb, outcome, sent, where):
    if not outcome.handled and outcome.code in (-sent, 1):  # Python's own
        return
    assert outcome.code in (128 + sent, *verb.codes), where
    assert "Traceback" not in outcome.stderr, where
    assert "Error" not in outcome.stderr, where
    assert not outcome.left_behind, where
    lines = outcome.stderr.splitlines()
    sentences = [line for line in lines if line.startswith("lanescope: ")]
    assert len(sentences) <= 1, where
    places = ("page:", "run:", "note:", "plots:", "no plots:", "nothing is left")
    others = [line for line in lines if line not in sentences and not line.startswith(places)]
    assert verb.tells or not others, where


def require_readable(out, where):
    """Read back what a command has stored, as `report` does."""
    if not (out / MANIFEST).is_file():
        return
    if (out / COMPRESS).is_file():
        found = read_compress(out / COMPRESS)
        assert document_page(analysis_document(Compress, out, found)), where
        return
    if is_watch(out):
        read_watch(out)
        return
    run = read_run(out)
    assert page_html(run), where
