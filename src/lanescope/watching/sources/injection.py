"""Libraries that are loaded into a program: how they get there, and where NVIDIA's libcupti is.

Lanescope uses that profiling library, but does not ship it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from lanescope.watching.sources import SourceReport

#: The CUDA driver loads the library that this variable names, in cuInit.
INJECTION_VARIABLE = "CUDA_INJECTION64_PATH"

#: NVTX, which programs have by its headers alone, loads the library that this one names.
NVTX_VARIABLE = "NVTX_INJECTION64_PATH"

INJECTION_LIBRARY = "liblanescope_inject.so"
# The kernel driver's, and Windows's in WSL.
_DRIVERS = (Path("/proc/driver/nvidia/version"), Path("/dev/dxg"))
PRELOAD_VARIABLE = "LD_PRELOAD"
#: A program with AddressSanitizer refuses to start where any library is loaded before its own.
_ASAN_VARIABLE, _ANY_ORDER = "ASAN_OPTIONS", "verify_asan_link_order=0"
#: The folder of the program for the loader; none has more folders above it.
_ORIGIN, _MOST_FOLDERS = "$ORIGIN", 64

#: The variable by which a user names the library; it goes before every other place.
CUPTI_VARIABLE = "LANESCOPE_CUPTI"

#: One sentence for the user where there is none.
CUPTI_REMEDY = (
    "Install it with pip install nvidia-cuda-cupti, or name the library in LANESCOPE_CUPTI."
)

_SYSTEM = Path("/usr/local")
# What the folders of wheels and of toolkits hold; the plain name comes with a toolkit only.
_CUPTI_NAME = re.compile(r"libcupti\.so(\.\d+)*")


def has_driver() -> bool:
    """Whether NVIDIA's driver is there."""
    return any(driver.exists() for driver in _DRIVERS)


def injection_library() -> Path | None:
    """Return the library that traces; None if there is none."""
    return installed_library(INJECTION_LIBRARY)


def installed_library(name: str) -> Path | None:
    """Return a library that lies beside the native core; None if there is none."""
    core = importlib.util.find_spec("lanescope._native")
    if core is None or core.origin is None:
        return None
    path = Path(core.origin).with_name(name)
    return path if path.is_file() else None


def other_nvtx(environment: Mapping[str, str]) -> str | None:
    """Return the library, not ours, that NVTX is to load; None if there is none."""
    named = environment.get(NVTX_VARIABLE)
    return named if named and Path(named).name != INJECTION_LIBRARY else None


def rights_report(program: Sequence[str], environment: Mapping[str, str]) -> SourceReport | None:
    """Return why nothing was loaded into a program that takes other rights; None for others."""
    if not program or not gains_rights(program[0], environment):
        return None
    return SourceReport(
        f"{program[0]} takes the rights of another user or group as it starts (set-user-ID, "
        "set-group-ID or file capabilities), so that Linux and CUDA load nothing into it "
        "that its caller names, and nothing was traced.",
        "Run lanescope as the user that the program is to run as: 'sudo -u USER lanescope "
        "watch -- PROGRAM'.",
    )


def gains_rights(name: str, environment: Mapping[str, str]) -> bool:
    """Return whether a program starts with rights that its caller lacks: AT_SECURE of ld.so(8)."""
    try:
        path = shutil.which(name, path=environment.get("PATH")) or name
        found = os.stat(path)
        if "security.capability" in os.listxattr(path):
            return os.geteuid() != 0
    except OSError:
        return False
    user = found.st_mode & stat.S_ISUID and found.st_uid != os.getuid()
    group = found.st_mode & stat.S_ISGID and found.st_gid != os.getgid()
    return bool(user or group)


def interpreter_of(program: Sequence[str]) -> str:
    """Return the name of the loader that a program names, such as ``ld-linux-x86-64.so.2``.

    Empty for scripts, programs without one, and what cannot be read.
    """
    try:
        path = shutil.which(program[0]) or program[0]
        with open(path, "rb") as file:
            head = file.read(1 << 16)
        if head[:5] != b"\x7fELF\x02":  # of 64 bits
            return ""
        table, size, count = (
            int.from_bytes(head[at : at + length], "little")
            for at, length in ((32, 8), (54, 2), (56, 2))
        )
        for entry in (head[table + size * i : table + size * (i + 1)] for i in range(count)):
            if int.from_bytes(entry[:4], "little") == _INTERPRETER:
                begin, length = (int.from_bytes(entry[at : at + 8], "little") for at in (8, 32))
                return Path(head[begin : begin + length].rstrip(b"\0").decode()).name
    except (OSError, IndexError, UnicodeDecodeError):
        pass
    return ""


#: The kind of an ELF segment that names the loader.
_INTERPRETER = 3


def preload_variables(
    library: Path, around: Mapping[str, str], links: Path, *, behind_others: bool = False
) -> dict[str, str]:
    """Return the variables by which the loader of glibc loads a library before all others.

    Parameters
    ----------
    library
        The library.
    around
        The environment that the program has besides; what it is to have preloaded stays.
    links
        A folder for a link to the library, where its path holds blanks or colons.
    behind_others
        Whether it comes behind what is preloaded besides, and not before it.
    """
    ours = _preloaded(_without_separators(library, links))
    others = words(around.get(PRELOAD_VARIABLE, ""), " :")
    all_of_them = (*others, ours) if behind_others else (ours, *others)
    asan = around.get(_ASAN_VARIABLE)
    return {
        PRELOAD_VARIABLE: ":".join(dict.fromkeys(all_of_them)),
        _ASAN_VARIABLE: f"{asan}:{_ANY_ORDER}" if asan else _ANY_ORDER,
    }


def words(text: str, separators: str) -> list[str]:
    """Return the words of a variable, by any of some separators."""
    return [word for word in re.split(f"[{separators}]", text) if word]


def _preloaded(library: Path) -> str:
    """Return the name by which the loader of glibc finds a library, and that of musl none.

    That of musl refuses to start a program with a library for glibc, and passes over one that is
    not there. It takes the name as it is, where glibc puts the folder of the program.
    """
    return f"{_ORIGIN}/{'../' * _MOST_FOLDERS}{str(library).lstrip('/')}"


def _without_separators(library: Path, links: Path) -> Path:
    """Return a path that LD_PRELOAD can hold: the loader takes blanks and colons for separators."""
    if not re.search(r"[\s:]", str(library)):
        return library
    link = links / library.name
    with contextlib.suppress(FileExistsError):
        link.symlink_to(library)
    return link


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
        if (found := _newest_cupti(folder)) is not None:
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


def _newest_cupti(folder: Path) -> Path | None:
    try:
        names = [path for path in folder.iterdir() if _CUPTI_NAME.fullmatch(path.name)]
    except OSError:  # not there, or not ours to read
        return None
    return max((path for path in names if path.is_file()), key=_version, default=None)


def _version(path: Path) -> tuple[int, list[int]]:
    """Order names by the interface's number; libcupti.so.2025.3.1 is the file behind it."""
    numbers = _numbers(Path(path.name))
    return (0 if numbers and numbers[0] > 1000 else 1, numbers)


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]
