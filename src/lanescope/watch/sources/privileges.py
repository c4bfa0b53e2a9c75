"""Whether this process may read hardware counters, as far as Linux tells."""

from __future__ import annotations

from pathlib import Path

_ADMIN_ONLY = "RmProfilingAdminOnly"
#: Bits of the capability set; either is enough.
_SYS_ADMIN, _PERFMON = 21, 38


def may_profile(proc: Path = Path("/proc")) -> bool:
    """Return False where the driver asks for an administrator and this process is none.

    What cannot be read stands in nobody's way: CUPTI has the last word.
    """
    told = _fields(proc / "driver/nvidia/params")
    if told.get(_ADMIN_ONLY) != "1":
        return True
    try:
        held = int(_fields(proc / "self/status").get("CapEff", ""), 16)
    except ValueError:
        return True
    return bool(held >> _SYS_ADMIN & 1 or held >> _PERFMON & 1)


def _fields(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}
