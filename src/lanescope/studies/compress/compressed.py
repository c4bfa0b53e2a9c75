"""What ``bench compress`` found: what its file holds, as a report, charts and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from lanescope.codec.fields import FieldError, PositiveInt, build
from lanescope.codec.files import fields_of, read_json, require_version
from lanescope.compression.rule import MARGIN
from lanescope.document.blocks import Block, Headline
from lanescope.document.contents import Chart, subtitle
from lanescope.report.format import count_text
from lanescope.studies.analysis import AnalysisResult
from lanescope.studies.compress.blocks import (
    compress_blocks,
    compress_chart,
    compress_headline,
    drawn_rate_charts,
)
from lanescope.studies.compress.results import (
    ArrayResult,
    Crossing,
    Measured,
    MeasuredKernels,
    sums_by_dtype,
)
from lanescope.studies.compress.verdicts import (
    CrossedLink,
    CrossingVerdict,
    break_even_bytes,
    break_even_gbs,
    crossing_break_even,
    predict,
    rates_of,
    sentences,
    verdicts,
)
from lanescope.units.estimate import Estimate

#: In a run folder.
FILE = "compress.json"
#: 2: what GPUs did, in ``gpus``, ``gpu``, ``crossings``, ``measured`` and ``gpu_notes``; a codec
#: may have no timings, and then has nothing that is predicted from them.
SCHEMA = 2


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Compressed(AnalysisResult):
    """What codecs made of arrays; the fields are those of the file.

    Attributes
    ----------
    lanescope, cpu
        By which version and on which CPU arrays were measured; None: the CPU is not known.
    gpus
        Names of the GPUs that were there to be measured, in CUDA's order.
    complete
        Whether all arrays were measured.
    link
        What predictions are made for; None: no link was named.
    slab_bytes
        Of the pieces that are compressed, sent and decompressed at the same time.
    left_out
        A sentence for each array that cannot be compressed.
    """

    schema: ClassVar[int] = SCHEMA

    lanescope: str
    cpu: str | None
    gpus: tuple[str, ...] = ()
    complete: bool
    link: CrossedLink | None
    slab_bytes: PositiveInt
    arrays: tuple[ArrayResult, ...]
    left_out: tuple[str, ...]

    def in_brief(self) -> list[str]:
        """Return how many arrays it is of, and for which compressing pays."""
        count = count_text(len(self.arrays), "array")
        ended = "" if self.complete else ", interrupted"
        return [f"compression of {count}{ended}", self.headline().words]

    def headline(self) -> Headline:
        """Return for which arrays compressing pays."""
        return compress_headline(self)

    def blocks(self) -> Sequence[Block]:
        """Return a table for each array with what to do, the sums, and what was left out."""
        return compress_blocks(self)

    def charts(self) -> tuple[Chart, ...]:
        """Return the ratio by GFC's dimensionality, and the data rates over links by size."""
        known = any(one.dimensionalities for one in self.arrays)
        ratios = (compress_chart(self.arrays),) if known else ()
        return (*ratios, *drawn_rate_charts(self.arrays))

    def picture(self) -> str:
        """Return the ratio by GFC's dimensionality as SVG; see `AnalysisResult.picture`."""
        from lanescope.report.charts import picture_svg

        chart = compress_chart(self.arrays)
        return picture_svg([chart], chart.title, subtitle(chart), chart.notes)

    def as_dict(self) -> dict[str, Any]:
        """Return what the file holds; sizes are bytes, times seconds, speeds GB/s of the array."""
        return {
            "schema": SCHEMA,
            "lanescope": self.lanescope,
            "cpu": self.cpu,
            "gpus": list(self.gpus),
            "complete": self.complete,
            "link": _plain(self.link),
            "slab_bytes": self.slab_bytes,
            "margin": MARGIN,
            "arrays": [self._array(one) for one in self.arrays],
            "by_dtype": [_plain(one, "ratio") for one in sums_by_dtype(self.arrays)],
            "left_out": list(self.left_out),
        }

    def _array(self, one: ArrayResult) -> dict[str, Any]:
        verified = {"verified": True}  # what does not come back is an error, and no result
        measured = [
            _plain(each, "ratio", "data_rate_saving") | verified | self._timed(each, one)
            for each in one.codecs
        ]
        tried = [
            _plain(each, "ratio", "data_rate_saving") | verified for each in one.dimensionalities
        ]
        kernels = [
            _plain(each, "ratio") | _times_over(each, one) | verified | self._timed(each, one)
            for each in one.gpu
        ]
        crossings = [
            _plain(each, "ratio", "raw_gbs", "gbs", "speedup", "pays")
            | _times_over(each, one)
            | {"break_even_bytes": crossing_break_even(one, each)}
            | verified
            for each in one.crossings
        ]
        return {
            **_plain(replace(one, codecs=(), dimensionalities=(), gpu=(), crossings=())),
            "codecs": measured,
            "dimensionalities": tried,
            "gpu": kernels,
            "crossings": crossings,
            "measured": [_verdict(each) for each in verdicts(one)],
            "recommendation": "; ".join(sentences(one, self.link, self.slab_bytes)),
            "recommendation_from": "measured" if one.crossings else "predicted",
        }

    def _timed(self, one: Measured | MeasuredKernels, array: ArrayResult) -> dict[str, Any]:
        """Return the times of a codec, and what is predicted from those with the most threads."""
        timings = [_plain(each, "compress_gbs", "decompress_gbs") for each in one.timings]
        if not timings:
            return {"timings": timings}
        rates = rates_of(one)
        found = {
            "timings": timings,
            "predicted_break_even_gbs": break_even_gbs(array.bytes, rates, self.slab_bytes),
        }
        if self.link is None:
            return found
        over = predict(array.bytes, rates, self.link, self.slab_bytes)
        return found | {
            "predicted": _plain(over, "raw_gbs", "gbs", "speedup", "pays", "certain"),
            "predicted_break_even_bytes": break_even_bytes(rates, self.link, self.slab_bytes),
        }


def read_compress(path: Path) -> Compressed:
    """Return the results of a ``compress.json``, or of the run folder that has one.

    Raises
    ------
    InputError
        If it cannot be read, is none, or of a newer lanescope.
    """
    file = path / FILE if path.is_dir() else path
    table = read_json(file, inner=int(file.name == FILE))  # of a folder, maybe a stranger's
    with fields_of(file, "name a compress.json of lanescope bench compress"):
        if not isinstance(table, dict) or "schema" not in table:
            raise FieldError("it holds no results of lanescope bench compress", "schema")
        require_version(table["schema"], SCHEMA, file, writer=table.get("lanescope"))
        found = build(Compressed, table, others=True)
    return replace(found, arrays=tuple(map(_with_bytes, found.arrays)))


def read_crossings(path: Path) -> tuple[Crossing, ...]:
    """Return the rows of a file; what is there beside their fields is not looked at.

    Parameters
    ----------
    path
        Of ``benchmarks/compress/channel.py``, or a ``compress.json`` of ``lanescope bench
        compress``.

    Raises
    ------
    InputError
        If it cannot be read, or is no such file.
    """
    table = read_json(path)
    with fields_of(path, "name what benchmarks/compress/channel.py wrote, or a compress.json"):
        if isinstance(table, dict) and "rows" in table:
            return build(_Rows, table, others=True).rows
    return tuple(one for array in read_compress(path).arrays for one in array.crossings)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A file of ``benchmarks/compress``."""

    rows: tuple[Crossing, ...]


def _with_bytes(array: ArrayResult) -> ArrayResult:
    """Fill in what files of earlier versions have at the array alone."""
    codecs, tried = (
        tuple(replace(one, bytes=array.bytes) for one in those)
        for those in (array.codecs, array.dimensionalities)
    )
    return replace(array, codecs=codecs, dimensionalities=tried)


def _plain(one: Any, *derived: str) -> Any:
    """Return a value as JSON has it: of a dataclass its fields, and some properties."""
    if isinstance(one, Estimate):
        return {"median": one.value, "low": one.low, "high": one.high}
    if isinstance(one, tuple):
        return [_plain(each) for each in one]
    if not dataclasses.is_dataclass(one):
        return one
    names = (*(field.name for field in dataclasses.fields(one)), *derived)
    return {name: _plain(getattr(one, name)) for name in names}


def _times_over(one: MeasuredKernels | Crossing, array: ArrayResult) -> dict[str, float]:
    return {"times_over": max(one.bytes / array.bytes, 1.0)}


def _verdict(one: CrossingVerdict) -> dict[str, Any]:
    return {
        "path": one.best.path,
        "codec": one.best.codec,
        "bytes": one.best.bytes,
        "pays": one.best.pays,
        "break_even_bytes": one.pays_from,
        "recommendation": one.sentence,
    }
