"""All studies by their verb; a new one is a file here and a line of this table."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lanescope.studies.study import Study

#: Imported when they are used.
_STUDIES = {"sms": "Sms", "small": "Small"}


def study_named(verb: str) -> type[Study] | None:
    """Return the study of a verb; None where it is none."""
    if verb not in _STUDIES:
        return None
    module = importlib.import_module(f"lanescope.studies.{verb}")
    found: type[Study] = getattr(module, _STUDIES[verb])
    return found
