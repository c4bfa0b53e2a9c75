"""The exceptions that lanescope raises on purpose.

::

    LanescopeError
    ├── InputError        what the user gave cannot be used  (exit code 2)
    └── NotMeasuredError  a path of this machine cannot be measured now

Every message is one sentence that says what is wrong, where, and what to do.
"""

from __future__ import annotations


class LanescopeError(Exception):
    """Base of everything that lanescope raises on purpose."""


class InputError(LanescopeError):
    """An argument, a file or a folder that the user gave cannot be used."""


class NotMeasuredError(LanescopeError):
    """A path cannot be measured now; the other paths are not concerned.

    Attributes
    ----------
    reason
        One sentence: what stands in the way.
    remedy
        One sentence: what the user can do, or None when there is nothing.
    """

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(reason if remedy is None else f"{reason} {remedy}")
        self.reason = reason
        self.remedy = remedy
