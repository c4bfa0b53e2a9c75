"""What of a watch that was killed, or goes on, is damaged: counted and named; the rest is shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lanescope.errors import InputError
from lanescope.trace.spool_header import CutOffError


@dataclass(slots=True)
class Damage:
    """Sentences on what is left out.

    Attributes
    ----------
    refuses
        Whether a file that is damaged is an error: before it is removed, say.
    """

    notes: list[str] = field(default_factory=list)
    refuses: bool = False

    @contextlib.contextmanager
    def leaving_out(self, path: Path) -> Iterator[None]:
        """Leave a file out that cannot be read; one without a whole first line holds nothing yet.

        Raises
        ------
        InputError, OSError
            If damage is refused.
        """
        try:
            yield
        except CutOffError:
            return
        except (InputError, OSError) as error:
            if self.refuses:
                raise
            if not path.exists():  # a watch that goes on has just removed it
                return
            self.notes.append(f"{path.name} is left out: {error}.")

    def lost(self, path: Path, what: str, count: int) -> None:
        """Note how many of something are left out of a file.

        Raises
        ------
        InputError
            If damage is refused.
        """
        if count and self.refuses:
            raise InputError(f"{path} is damaged: {count:,} {what}; name another run")
        if count:
            self.notes.append(f"{path.name} is damaged: {count:,} {what}; they are left out.")
