"""Tests lanescope on machines with several NUMA nodes that QEMU makes up.

    .venv/bin/python benchmarks/numa-guest/run.py --out DIR [--guest 2node]

See README.md beside this file.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from guests import GUESTS, arguments
from image import make_image, read_image

_LIMIT_S = 3600


def main() -> int:
    """Make the disk, run each guest, tell how it went; 0 when all went well."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "root"
        root.mkdir()
        make_image(folder / "clean.img", root)
        shutil.rmtree(root)
        for guest in options.guest or GUESTS:
            good &= _run(guest, options, folder)
    return 0 if good else 1


def _run(name: str, options: argparse.Namespace, folder: Path) -> bool:
    disk, out = folder / "disk.img", options.out / name
    shutil.copy(folder / "clean.img", disk)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    words = arguments(name, options.kernel, options.initrd, disk)
    begin = time.monotonic()
    with (out / "console.txt").open("wb") as console:
        try:
            ends = {"stdin": subprocess.DEVNULL, "stdout": console, "stderr": subprocess.STDOUT}
            subprocess.run([options.qemu, *words], timeout=_LIMIT_S, check=True, **ends)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            print(f"{name}: {error}; see {out / 'console.txt'}")
            return False
    read_image(disk, out)
    codes = out / "codes.txt"
    told = codes.read_text().split() if codes.exists() else ["no", "end"]
    print(f"{name}: {' '.join(told)}, {time.monotonic() - begin:.0f} s")
    good = codes.exists() and set(told[1::2]) == {"0"}
    if good:
        (out / "console.txt").unlink()  # all of it is in the other files
    return good


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the evidence")
    parser.add_argument("--guest", action="append", choices=GUESTS, help="only this one")
    parser.add_argument("--qemu", default="qemu-system-x86_64", help="name or path")
    parser.add_argument("--kernel", type=Path, help="default: the newest /boot/vmlinuz-*")
    parser.add_argument("--initrd", type=Path, help="default: the one of that kernel")
    options = parser.parse_args()
    options.kernel = options.kernel or max(Path("/boot").glob("vmlinuz-*"), default=None)
    if options.kernel is None or shutil.which(options.qemu) is None:
        sys.exit("QEMU or a kernel is missing; install qemu-system-x86 linux-image-cloud-amd64")
    release = options.kernel.name.removeprefix("vmlinuz-")
    options.initrd = options.initrd or options.kernel.with_name(f"initrd.img-{release}")
    return options


if __name__ == "__main__":
    sys.exit(main())
