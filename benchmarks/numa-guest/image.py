"""The guest's disk: this Python, lanescope with what it needs, the tests; an ext4 image.

Made without root: mke2fs fills the image from a folder, debugfs reads it afterwards.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from packaging.requirements import Requirement

import lanescope
from lanescope._core import native

_REPOSITORY = Path(__file__).resolve().parents[2]
#: Where things lie in the guest; `inside.py` knows these names.
_PYTHON, _PACKAGES, _WORK = "opt/python", "opt/packages", "opt/lanescope"
_SPARE_MIB = 256


def make_image(image: Path, root: Path) -> None:
    """Write the disk image; `root` is an empty folder to collect its files in."""
    for name in ("proc", "sys", "dev", "run", "tmp", "root", "out", "etc"):
        (root / name).mkdir()
    _copy_python(root / _PYTHON)
    _copy_packages(root / _PACKAGES)
    shutil.copytree(_REPOSITORY / "tests", root / _WORK / "tests", ignore=_leave("__pycache__"))
    shutil.copy(_REPOSITORY / "pyproject.toml", root / _WORK)
    _copy_libraries(root)
    shutil.copy(Path(__file__).with_name("inside.py"), root / "init")
    (root / "init").chmod(0o755)
    size = sum(f.stat().st_size for f in root.rglob("*") if f.is_file()) >> 20
    words = ["-q", "-F", "-t", "ext4", "-d", str(root), str(image)]
    # a file takes whole blocks, and inodes and the journal take some
    subprocess.run([_tool("mke2fs"), *words, f"{size * 5 // 4 + _SPARE_MIB}M"], check=True)


def read_image(image: Path, folder: Path) -> None:
    """Copy what the guest left in /out into a folder."""
    for name in _debugfs(image, "ls -p /out").splitlines():
        entry = name.split("/")[5] if name.count("/") > 5 else ""
        if entry not in ("", ".", ".."):
            _debugfs(image, f'rdump "/out/{entry}" "{folder}"')


def _debugfs(image: Path, command: str) -> str:
    words = [_tool("debugfs"), "-R", command, str(image)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _tool(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        sys.exit(f"{name} is missing; install e2fsprogs")
    return found


def _leave(*patterns: str):
    return shutil.ignore_patterns(*patterns)


def _copy_python(target: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (target / "bin").mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), target / "bin" / "python3")
    unused = _leave("__pycache__", "site-packages", "dist-packages", "test", "idlelib", "*.a")
    shutil.copytree(sysconfig.get_path("stdlib"), target / "lib" / version, ignore=unused)


def _copy_packages(target: Path) -> None:
    """Copy lanescope as this Python imports it, and every distribution that it requires."""
    package = target / "lanescope"
    shutil.copytree(Path(lanescope.__file__).parent, package, ignore=_leave("__pycache__"))
    # an editable installation has its core elsewhere
    shutil.copy(native.__file__, package)
    for distribution in _required("lanescope[test]"):
        for file in distribution.files or ():
            if ".." in file.parts or "__pycache__" in file.parts or file.parts[0] == "lanescope":
                continue
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), target / file)


def _required(name: str) -> list[importlib.metadata.Distribution]:
    found: dict[str, importlib.metadata.Distribution] = {}

    def visit(requirement: Requirement) -> None:
        if requirement.name in found:
            return
        found[requirement.name] = importlib.metadata.distribution(requirement.name)
        for text in found[requirement.name].requires or ():
            inner = Requirement(text)
            extras = requirement.extras or {""}
            if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in extras):
                visit(inner)

    visit(Requirement(name))
    return list(found.values())


def _copy_libraries(root: Path) -> None:
    """Copy the shared libraries that come from outside, at the paths where they lie here."""
    binaries = [str(path) for path in root.rglob("*.so*") if path.is_file()]
    binaries.append(str(root / _PYTHON / "bin" / "python3"))
    told = subprocess.run(["ldd", *binaries], capture_output=True, text=True).stdout
    for library in set(re.findall(r"(?:=> |^\t)(/\S+) \(0x", told, re.M)):
        inside = root / library.lstrip("/")
        if not Path(library).is_relative_to(root) and not inside.exists():
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, inside)
