"""The CPUs that the host's codecs are compiled for."""

import re
from pathlib import Path

from tests.native.programs import flags_for

KINDS = ("any_cpu", "avx2", "avx512")


def runs_here(kind):
    """Whether this machine's CPU has the instructions, and the compiler knows them."""
    if kind == "any_cpu":
        return True
    try:
        known = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return False
    if known is None:  # a CPU of another family
        return False
    other_names = {"abm": "lzcnt", "bmi1": "bmi"}
    here = {other_names.get(word, word.replace("_", "")) for word in known.group(1).split()}
    asked = {flag.removeprefix("-m").split("=")[0] for flag in flags_for(kind)}
    return bool(asked) and asked - {"prefer-vector-width"} <= here
