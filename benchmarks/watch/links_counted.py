"""How often the counters of NVLink hold less than what was copied, session by session.

::

    python benchmarks/watch/links_counted.py --sessions 20 --seconds 2 --out FILE.json
    python benchmarks/watch/links_counted.py --sessions 20 --seconds 2 --busy --out FILE.json

Each session is a watch of a program that copies 32 MiB at a time between GPUs 0 and 1, both ways,
with a pause of 5 ms between two. Of each GPU and direction the share of the copied bytes that its
counters hold is printed: 1.0000 where all is well, 0.9444 where one of 18 NVLinks is missing. With
``--busy`` another process copies all the time, so that no link sleeps when sampling begins; the
shares are then above 1, and shares of one GPU that are less than the other's tell of a missing
link. No package but lanescope is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Copies by the driver alone: PyTorch takes seconds to be imported.
PROGRAM = """
import ctypes, sys, time
from ctypes import c_size_t, c_uint64, c_void_p, byref
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    if code := getattr(cuda, name)(*arguments): raise SystemExit(f"{name}: CUDA error {code}")
SIZE = 32 << 20
contexts, memory = [c_void_p(), c_void_p()], [[c_uint64(), c_uint64()] for _ in range(2)]
call("cuInit", 0)
for gpu in range(2):
    call("cuDevicePrimaryCtxRetain", byref(contexts[gpu]), gpu)
    call("cuCtxSetCurrent", contexts[gpu])
    for place in memory[gpu]: call("cuMemAlloc_v2", byref(place), c_size_t(SIZE))
for gpu in range(2):
    call("cuCtxSetCurrent", contexts[gpu])
    call("cuCtxEnablePeerAccess", contexts[1 - gpu], 0)
until, pause, count = time.time() + float(sys.argv[1]), float(sys.argv[2]), 0
while time.time() < until:
    for to in range(2):
        call("cuCtxSetCurrent", contexts[1 - to])
        source = memory[1 - to][0], contexts[1 - to]
        call("cuMemcpyPeerAsync", memory[to][1], contexts[to], *source, c_size_t(SIZE), None)
    for context in contexts:
        call("cuCtxSetCurrent", context)
        call("cuCtxSynchronize")
    count += 1
    time.sleep(pause)
print(count)
"""


def copying(seconds: float, pause_seconds: float) -> list[str]:
    """Return the command line of a program that copies."""
    return [sys.executable, "-c", PROGRAM, str(seconds), str(pause_seconds)]


@contextlib.contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Copy meanwhile, in another process, where that is wanted."""
    other = subprocess.Popen(copying(3600, 0), stdout=subprocess.DEVNULL) if wanted else None
    try:
        yield
    finally:
        if other is not None:
            other.terminate()
            other.wait()


def session(seconds: float, interval: str) -> dict[str, Any]:
    """Watch the program once; return shares by direction, and the notes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        watch = ["watch", "-q", "--interval", interval, "--json", str(out)]
        watch += ["--out", f"{folder}/run", "--", *copying(seconds, 0.005)]
        command = [sys.executable, "-m", "lanescope", *watch]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = json.loads(out.read_text())
    shares = {
        f"g{one['gpu']}.{one['direction']}": one["counter_bytes"] / one["crossed_bytes"]
        for one in found["nvlinks"]
        if one["counter_bytes"] is not None and one["crossed_bytes"]
    }
    return {"shares": shares, "losses": found["losses"], "notes": found["notes"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.0, help="that each program copies")
    parser.add_argument("--interval", default="100us")
    parser.add_argument("--busy", action="store_true", help="copy in another process meanwhile")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    found = []
    with busy(arguments.busy):
        for number in range(arguments.sessions):
            found.append(session(arguments.seconds, arguments.interval))
            shares = found[-1]["shares"].items()
            print(number, *(f"{name} {share:.4f}" for name, share in shares), flush=True)
            arguments.out.write_text(
                json.dumps({"argv": sys.argv[1:], "sessions": found}, indent=1)
            )
    short = [one for one in found if min(one["shares"].values(), default=1) < 0.98]
    print(f"{len(short)} of {len(found)} sessions lack a link of a GPU")


if __name__ == "__main__":
    main()
