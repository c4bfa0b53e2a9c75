"""The predictors by name."""

from __future__ import annotations

import difflib

from lanescope.errors import InputError
from lanescope.model.overlap.predictor import Predictor

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
        from importlib import import_module

        try:
            replay = import_module("lanescope.model.overlap.replay")
        except ModuleNotFoundError as error:
            raise InputError("this lanescope has no predictor 'replay'; use equations") from error
        predictor: Predictor = replay.Replay()
        return predictor
    near = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
    raise InputError(f"no predictor is named {name!r}; {hint}")
