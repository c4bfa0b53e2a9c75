"""How many trials a torture test makes, and by what seed.

``make test`` makes a few with a fixed seed, so that a change and not chance turns a test red.
``make torture`` makes all of them; ``make torture SEED=7`` makes others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

SEED = int(os.environ.get("LANESCOPE_SEED", "1"))
FULL = os.environ.get("LANESCOPE_TRIALS") == "full"


@pytest.fixture
def rng() -> random.Random:
    """Random numbers, the same for the same seed; a failure shows the seed."""
    print(f"LANESCOPE_SEED={SEED}")
    return random.Random(SEED)


@pytest.fixture
def trials() -> Callable[[int, int], int]:
    """Take how many trials ``make test`` and ``make torture`` make; return the number for now."""
    return lambda quick, full: full if FULL else quick
