"""How long `check` and `bench` take when they are given little time, and to end after a signal.

    python benchmarks/time_limits.py [--out FILE.json] [--seed N] [--moments N]

On a machine with GPUs, in less than five minutes. Three parts: where the time of
`check --budget 0.1` goes, by phases; what `--within` holds; and from a signal to the exit, at
random moments of both verbs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LANESCOPE = [sys.executable, "-m", "lanescope"]
BUDGET = ("check", "--budget", "0.1")
WITHIN = (("check", "5s"), ("check", "15s"), ("bench", "15s"))
VERBS = (("check",), ("bench",))
#: Moments lie in this time from the start.
LATEST_SECONDS = 8.0


def timed(arguments: list[str]) -> dict[str, object]:
    begin = time.monotonic()
    done = subprocess.run([*LANESCOPE, *arguments], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begin
    last = [line for line in done.stdout.splitlines() if "measured" in line or "judged" in line]
    unmeasured = done.stdout.count("--within was over")
    return {
        "command": " ".join(arguments),
        "seconds": round(seconds, 2),
        "code": done.returncode,
        "unmeasured": unmeasured,
        "told": last[-1:] or done.stderr[-300:],
    }


def interrupted(verb: tuple[str, ...], at: float, number: signal.Signals) -> dict[str, object]:
    process = subprocess.Popen(
        [*LANESCOPE, *verb],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(at)
    process.send_signal(number)
    begin = time.monotonic()
    _, stderr = process.communicate()
    return {
        "verb": verb[0],
        "signal": number.name,
        "at": round(at, 3),
        "seconds": round(time.monotonic() - begin, 3),
        "code": process.returncode,
        "lines": stderr.splitlines()[:3],
        "traceback": "Traceback" in stderr,
    }


def profile(arguments: list[str]) -> None:
    """Run the command line in this process and print how long its phases take."""
    begin = time.perf_counter()
    spent: dict[str, tuple[int, float]] = {}

    def note(name: str, seconds: float) -> None:
        count, before = spent.get(name, (0, 0.0))
        spent[name] = (count + 1, before + seconds)

    def wrap(place: object, name: str, label: str | None = None) -> None:
        whole = getattr(place, name)

        def watched(*given: object, **named: object) -> object:
            start = time.perf_counter()
            try:
                return whole(*given, **named)
            finally:
                note(label or name, time.perf_counter() - start)

        setattr(place, name, watched)

    import lanescope.api
    import lanescope.cli.app as app
    import lanescope.cli.output as output
    import lanescope.machine
    from lanescope._core import native
    from lanescope.engine.host import HostSession
    from lanescope.engine.native import NativeBackend
    from lanescope.engine.sessions import GpuSession
    from lanescope.store.store import RunWriter

    note("loading", time.perf_counter() - begin)
    wrap(lanescope.machine, "discover")
    wrap(NativeBackend, "__init__", "backend")
    wrap(NativeBackend, "_require_host_memory", "looking at host memory")
    wrap(native, "HostTeam", "making host arrays ready")
    wrap(native, "CopySet", "making copies ready")
    for session, kind in ((HostSession, "host"), (GpuSession, "GPU")):
        for name in ("sample", "check", "evidence"):
            wrap(session, name, f"{kind} {name}")
    wrap(GpuSession, "_replay_counter", "replay counters")
    for name in ("add", "finish"):
        wrap(RunWriter, name, f"storing: {name}")
    wrap(output, "write_page")
    sys.argv = ["lanescope", *arguments]
    with contextlib.suppress(SystemExit):
        app.main()
    note("all of it", time.perf_counter() - begin)
    for name, (count, seconds) in sorted(spent.items(), key=lambda one: -one[1][1]):
        print(f"{seconds:8.3f} s  {count:4} x  {name}", file=sys.stderr)
    sys.stderr.flush()
    began = time.monotonic()
    print(f"exit begins at {began:.3f}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--profile", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if given.profile:
        return profile(given.profile)
    rng = random.Random(given.seed)
    os.environ["LANESCOPE_RUNS"] = tempfile.mkdtemp()
    found: dict[str, list[dict[str, object]]] = {"timed": [], "interrupted": []}
    phases = subprocess.run(
        [sys.executable, __file__, "--profile", *BUDGET],
        capture_output=True,
        text=True,
        check=False,
    )
    print(phases.stderr)
    runs = [list(BUDGET), list(BUDGET), *([verb, "--within", time_] for verb, time_ in WITHIN)]
    for arguments in runs:
        found["timed"].append(timed(arguments))
        print(found["timed"][-1], flush=True)
    for verb in VERBS:
        for number in range(given.moments):
            sent = (signal.SIGINT, signal.SIGTERM)[number % 2]
            one = interrupted(verb, rng.uniform(0, LATEST_SECONDS), sent)
            found["interrupted"].append(one)
            print(one, flush=True)
        worst = max(float(str(o["seconds"])) for o in found["interrupted"] if o["verb"] == verb[0])
        print(f"{verb[0]}: at most {worst:.2f} s from the signal to the exit", flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps(found | {"phases": phases.stderr.splitlines()}, indent=1))


if __name__ == "__main__":
    main()
