import re
from pathlib import Path

import numpy as np
import pytest

from lanescope.units.sizes import (
    bandwidth_gbs,
    bandwidths_gbs,
    bytes_a_second,
    transfer_seconds,
)

ROOT = Path(__file__).parents[2]
HOME = ROOT / "src" / "lanescope" / "units" / "sizes.py"
#: A rate from bytes and seconds, or back: division by a billion, or a rate times it.
BY_HAND = re.compile(r"/ *\(?1(e9|_000_000_000)\b|gbs\w*(\.\w+)? *\* *1e9|(?<!\* )1e-9 */")


def test_there_and_back():
    assert bandwidth_gbs(2e9, 0.5) == 4.0
    assert transfer_seconds(2e9, 4.0) == 0.5
    assert bytes_a_second(4.0) == 4e9
    assert transfer_seconds(np.array([4e9, 8e9]), 4.0) == pytest.approx([1.0, 2.0])


def test_no_time_gives_no_bandwidth():
    with pytest.raises(ValueError, match="below the clock's resolution"):
        bandwidth_gbs(1, 0.0)
    with pytest.raises(ValueError, match="nan s is below"):
        bandwidth_gbs(1, float("nan"))
    rates = bandwidths_gbs(np.array([1e9, 1e9]), np.array([0.5, 0.0]))
    assert rates[0] == 2.0
    assert np.isnan(rates[1])


def test_nobody_else_computes_it():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in ("src", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != HOME
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if BY_HAND.search(line)
    ]
    assert found == []
