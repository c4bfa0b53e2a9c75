"""Finds NVIDIA's profiling library, libcupti, which lanescope uses but does not ship."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

#: The variable by which a user names the library; it goes before every other place.
CUPTI_VARIABLE = "LANESCOPE_CUPTI"

#: One sentence for the user where there is none.
CUPTI_REMEDY = (
    "install it with pip install nvidia-cuda-cupti, or name the library in LANESCOPE_CUPTI"
)

_SYSTEM = Path("/usr/local")
# What the folders of wheels and of toolkits hold; the plain name comes with a toolkit only.
_NAME = re.compile(r"libcupti\.so(\.\d+)*")


def find_cupti(
    environment: Mapping[str, str] | None = None,
    packages: Sequence[Path] | None = None,
    system: Path = _SYSTEM,
) -> Path | None:
    """Return the absolute path of libcupti, or None where there is none.

    Looked at in this order: the file that ``LANESCOPE_CUPTI`` names, the packages of this
    Python, the CUDA toolkits of the system. Of several, the newest in the first of these places.
    A file named by the variable that is not there finds nothing: no other library is taken
    instead of the one that was asked for.

    Parameters
    ----------
    environment
        Where the variable is looked up; None: this process's environment.
    packages
        Folders of Python packages; None: those of this Python.
    system
        The folder that holds the toolkits as ``cuda*``.
    """
    named = (os.environ if environment is None else environment).get(CUPTI_VARIABLE)
    if named:
        path = Path(named).expanduser().absolute()
        return path if path.is_file() else None
    if packages is None:
        packages = [Path(entry) for entry in sys.path if entry]
    for folder in (*_of_packages(packages), *_of_system(system)):
        if (found := _newest(folder)) is not None:
            return found.absolute()
    return None


def _of_packages(packages: Iterable[Path]) -> Iterator[Path]:
    for package in packages:
        # cu13 holds all of CUDA 13; the parts of CUDA 12 have folders of their own
        for pattern in ("nvidia/cu[0-9]*/lib", "nvidia/cuda_cupti/lib"):
            yield from sorted(package.glob(pattern), key=_numbers, reverse=True)


def _of_system(system: Path) -> Iterator[Path]:
    # the plain name is a link to the version that the administrator chose
    toolkits = sorted(system.glob("cuda-*"), key=_numbers, reverse=True)
    for toolkit in (system / "cuda", *toolkits):
        yield toolkit / "lib64"
        yield from sorted(toolkit.glob("targets/*/lib"))
        yield toolkit / "extras" / "CUPTI" / "lib64"


def _newest(folder: Path) -> Path | None:
    try:
        names = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:  # not there, or not ours to read
        return None
    return max((path for path in names if path.is_file()), key=_version, default=None)


def _version(path: Path) -> tuple[int, list[int]]:
    """Order names by the interface's number; libcupti.so.2025.3.1 is the file behind it."""
    numbers = _numbers(Path(path.name))
    return (0 if numbers and numbers[0] > 1000 else 1, numbers)


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]
