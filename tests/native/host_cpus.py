"""The CPUs that the host's codecs are compiled for, and how."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = ("any_cpu", "avx2", "avx512")


def flags_of(kind):
    """Those that CMake compiles a kind with."""
    if kind == "any_cpu":
        return []
    text = (ROOT / "cmake/host-strips.cmake").read_text()
    words = re.search(rf"set\({kind}_flags\s+([^)]*)\)", text).group(1).split()
    return [flag for word in words for flag in (flags_of("avx2") if "$" in word else [word])]


def runs_here(kind):
    """Whether this machine's CPU has the instructions."""
    try:
        known = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return kind == "any_cpu"
    other_names = {"abm": "lzcnt", "bmi1": "bmi"}
    here = {other_names.get(word, word.replace("_", "")) for word in known.group(1).split()}
    asked = {flag.removeprefix("-m").split("=")[0] for flag in flags_of(kind)}
    return asked - {"prefer-vector-width"} <= here
