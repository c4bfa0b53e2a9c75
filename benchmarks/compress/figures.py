"""Draws what channel.py measured: data rate by transfer size, a file for each path and data.

python benchmarks/compress/figures.py FILE.json --out DIR [--format png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lanescope.errors import InputError
from lanescope.report.charts import FORMATS, write_chart
from lanescope.studies.compress.blocks import rate_charts
from lanescope.studies.compress.compressed import read_crossings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--format", choices=FORMATS, default="svg")
    asked = parser.parse_args()
    try:
        charts = rate_charts(read_crossings(asked.file))
        asked.out.mkdir(parents=True, exist_ok=True)
        for chart in charts:
            path = asked.out / f"{chart.key}.{asked.format}"
            write_chart(chart, path)
            print(path)
    except (InputError, OSError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
