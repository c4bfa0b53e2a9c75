"""The predictors by name."""

from __future__ import annotations

import difflib

from lanescope.errors import InputError
from lanescope.model.overlap.predictor import Predictor
from lanescope.model.transfer.parameters import LinkParameters, Origin

NAMES = ("equations", "equations-shared", "replay")


def predictor_named(name: str) -> Predictor:
    """Return a predictor; only its own module is loaded.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name in ("equations", "equations-shared"):
        from lanescope.model.overlap.equations import Equations

        return Equations(shared=name == "equations-shared")
    if name == "replay":
        from lanescope.model.overlap.replay import Replay

        return Replay()
    near = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
    raise InputError(f"no predictor is named {name!r}; {hint}")


def predictor_for(parameters: LinkParameters) -> Predictor:
    """Return the predictor that suits parameters when nobody names one.

    The replay where they were measured, as it takes all that a fit knows; the equations with
    published ones, which were published for them.
    """
    return predictor_named("replay" if parameters.origin is Origin.MEASURED else "equations")
