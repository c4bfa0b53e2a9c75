"""Writes arrays of decimals for ``lanescope bench compress``: columns of data sets, and made up.

::

    pip install --no-deps --target DATA vega_datasets
    python benchmarks/compress/decimals.py FOLDER --data DATA/vega_datasets/_data
    lanescope bench compress FOLDER/*.f64 FOLDER/*.f32 --codec alp

Columns are repeated up to ``--mib``. A name tells what was made up.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

COLUMNS = (
    ("seattle-temps.csv", "temp"),
    ("seattle-weather.csv", "precipitation"),
    ("seattle-weather.csv", "wind"),
    ("stocks.csv", "price"),
    ("airports.csv", "latitude"),
)


def made_up(count):
    """Name and values of each array."""
    random = np.random.default_rng(3)
    year = 25 * np.sin(np.arange(count) / 5e4)
    temperatures = np.round(60 + year + random.normal(0, 8, count), 1)
    yield "made-up-temperatures", temperatures
    missing = random.random(count) < 0.1
    yield "made-up-temperatures-a-tenth-missing", np.where(missing, np.nan, temperatures)
    yield "made-up-prices", np.round(np.exp(random.normal(3, 1.2, count)), 2)
    yield "made-up-coordinates", np.round(random.uniform(-180, 180, count), 6)


def columns(data, count):
    for file, column in COLUMNS:
        with (data / file).open(newline="") as rows:
            values = np.array([float(row[column]) for row in csv.DictReader(rows)])
        yield f"{Path(file).stem}-{column}", np.resize(values, count)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="folder of vega_datasets' .csv files")
    parser.add_argument("--mib", type=int, default=64)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    count = (arguments.mib << 20) // 8
    arrays = [*made_up(count), *(columns(arguments.data, count) if arguments.data else ())]
    for name, values in arrays:
        values.tofile(arguments.folder / f"{name}.f64")
        if name in ("made-up-temperatures", "seattle-temps-temp"):
            np.resize(values, 2 * count).astype(np.float32).tofile(arguments.folder / f"{name}.f32")


if __name__ == "__main__":
    main()
