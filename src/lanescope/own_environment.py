"""What this process has in its environment that its user did not put there, and without that."""

from __future__ import annotations

import os
from pathlib import Path

_ORDER = "CUDA_DEVICE_ORDER"
#: Python sets it where the user's locale is C (PEP 538).
_COERCED = "LC_CTYPE"
_ordered = False


def number_gpus_as_nvidia_smi() -> None:
    """Have CUDA number this process's GPUs by PCI address, unless its user chose another order.

    For commands: they call it before CUDA starts. In a user's own Python process CUDA's numbers
    stay as they are.
    """
    global _ordered
    if _ORDER not in os.environ:
        os.environ[_ORDER] = "PCI_BUS_ID"
        _ordered = True


def users_environment() -> dict[str, str]:
    """Return the environment for programs that lanescope runs: what its user gave it.

    Changes that a Python program of the user made in ``os.environ`` are the user's. What is no
    UTF-8 comes as `os.environ` has it, and goes out again as the same bytes.
    """
    found = dict(os.environ)
    if _ordered and found.get(_ORDER) == "PCI_BUS_ID":
        del found[_ORDER]
    if found.get(_COERCED, "").upper() in ("C.UTF-8", "C.UTF8", "UTF-8"):
        at_start = _environment_at_start()
        if _COERCED not in at_start and _is_c(at_start):
            del found[_COERCED]
    return found


def _is_c(environment: dict[str, str]) -> bool:
    locale = environment.get("LC_ALL") or environment.get("LANG") or "C"
    return locale in ("C", "POSIX")


def _environment_at_start() -> dict[str, str]:
    try:
        block = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environ)
    words = (os.fsdecode(word).partition("=") for word in block.split(b"\0") if word)
    return {name: value for name, _, value in words}
