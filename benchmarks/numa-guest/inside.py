#!/opt/python/bin/python3 -u
"""The guest's first and only process: runs what is to be tested, then switches off.

Everything it leaves in /out is kept: the output of each command with its exit code and
time, what the kernel tells of its nodes, and the recorded machine.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import time
from pathlib import Path

OUT = Path("/out")
PYTHON = "/opt/python/bin/python3"
COMMANDS = {
    "topo": "-m lanescope topo --save {out}/machine.toml --record {out}/{name}",
    "list": "-m lanescope check --list",
    "pytest": "-m pytest -p no:cacheprovider -v tests/native/test_numa.py",
    # less the one test whose result is a time: emulated CPUs do not start together
    "pytest-memory": "-m pytest -p no:cacheprovider -q tests/native/test_pages.py "
    "tests/native/test_loads.py tests/native/test_allocation.py tests/native/test_blocks.py "
    # nor do emulated caches exist
    "--deselect tests/native/test_loads.py::test_flushed_places_are_in_no_cache "
    "--deselect tests/native/test_blocks.py"
    "::test_a_flushed_block_takes_longer_than_one_in_the_cache",
    "bench-host": "-m lanescope bench host --min 10KB --max 10KB --out {out}/host",
    "pytest-core": "-m pytest -p no:cacheprovider -q tests/native/test_core.py tests/backend "
    # an emulated clock takes its time
    "--ignore tests/engine/test_loads.py --ignore tests/engine/test_allocation.py "
    "--deselect tests/native/test_core.py::test_two_host_copies_run_together",
}
_LIMIT_S = 1200
_POWER_OFF = 0x4321FEDC


def run(name: str, words: str) -> int:
    """Run a command of the guest's Python; its output goes to a file and to the console."""
    command = [PYTHON, *words.format(out=OUT, name=socket.gethostname()).split()]
    print(f"{name}: python {' '.join(command[1:])}")
    begin = time.monotonic()
    with (OUT / f"{name}.txt").open("w") as file:
        print("$ python", *command[1:], file=file, flush=True)
        try:
            both = {"stdout": file, "stderr": subprocess.STDOUT}
            code = subprocess.run(
                command, cwd="/opt/lanescope", timeout=_LIMIT_S, **both
            ).returncode
        except subprocess.TimeoutExpired:
            code = 124
        print(f"exit code {code} after {time.monotonic() - begin:.0f} s", file=file)
    print((OUT / f"{name}.txt").read_text())
    return code


def kernel_facts() -> str:
    """Return what the kernel tells of itself and its nodes."""
    nodes = Path("/sys/devices/system/node")
    files = [nodes / name for name in ("online", "has_cpu", "has_memory")]
    for node in sorted(nodes.glob("node[0-9]*")):
        files += [node / "cpulist", node / "distance", node / "meminfo"]
    lines = [" ".join(os.uname()[i] for i in (0, 2, 4))]
    for path in files:
        text = path.read_text().strip()
        if path.name == "meminfo":
            text = " ".join(text.splitlines()[0].split())  # the total
        lines.append(f"{path.relative_to(nodes)}: {text}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run everything, write down how it ended, switch the machine off."""
    os.environ.update(
        PYTHONPATH="/opt/packages", HOME="/root", LANG="C.UTF-8", COLUMNS="120", NO_COLOR="1"
    )
    words = dict(word.partition("=")[::2] for word in Path("/proc/cmdline").read_text().split())
    # the kernel moves pages that nobody could bind to where they are used, if given time
    Path("/proc/sys/kernel/numa_balancing").write_text("0")
    socket.sethostname(f"qemu-{words['lanescope.guest']}")
    try:
        (OUT / "kernel.txt").write_text(kernel_facts())
        codes = {name: run(name, words) for name, words in COMMANDS.items()}
        (OUT / "codes.txt").write_text("".join(f"{n} {c}\n" for n, c in codes.items()))
    finally:
        os.sync()
        ctypes.CDLL(None).reboot(_POWER_OFF)


main()
