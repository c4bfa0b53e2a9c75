"""What codecs made of arrays as JSON: every sample, and what follows from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lanescope._version import __version__
from lanescope.compression.costs import MARGIN
from lanescope.machine.sysfs import cpu_model
from lanescope.studies.compress.advice import (
    Link,
    Prediction,
    break_even_bytes,
    break_even_gbs,
    predict,
    rates_of,
)
from lanescope.studies.compress.crossings import Crossing
from lanescope.studies.compress.results import (
    ArrayResult,
    Kernels,
    Measured,
    Sum,
    Timing,
    sums_by_dtype,
)
from lanescope.studies.compress.verdicts import Verdict, sentences, verdicts
from lanescope.studies.compress.verdicts import break_even_bytes as measured_break_even
from lanescope.units.estimate import Estimate

#: 2: what GPUs did, in ``gpus``, ``gpu``, ``crossings``, ``measured`` and ``gpu_notes``; a codec
#: may have no timings, and then has nothing that is predicted from them.
SCHEMA = 2


@dataclass(frozen=True, slots=True)
class CompressRequest:
    """What predictions are made for.

    Attributes
    ----------
    link
        None: no link was named.
    slab_bytes
        Of the pieces that are compressed, sent and decompressed at the same time.
    gpus
        Names of the GPUs that were there to be measured, in CUDA's order.
    """

    link: Link | None
    slab_bytes: int
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredBy:
    """By which lanescope and on which CPU arrays were measured; None: the CPU is not known."""

    lanescope: str
    cpu: str | None


def compress_json(
    results: Sequence[ArrayResult],
    asked: CompressRequest,
    left_out: Sequence[str],
    *,
    complete: bool = True,
    by: MeasuredBy | None = None,
) -> str:
    """Return results as JSON; sizes are bytes, times seconds, speeds GB/s of the array.

    Parameters
    ----------
    by
        Of stored results; None: they were measured here.
    """
    link = asked.link
    by = by or MeasuredBy(__version__, cpu_model())
    told = {
        "schema": SCHEMA,
        "lanescope": by.lanescope,
        "cpu": by.cpu,
        "gpus": list(asked.gpus),
        "complete": complete,
        "link": None
        if link is None
        else {"name": link.name, "gbs": link.gbs, "first_seconds": link.first_seconds},
        "slab_bytes": asked.slab_bytes,
        "margin": MARGIN,
        "arrays": [_array(one, asked) for one in results],
        "by_dtype": [_sum(one) for one in sums_by_dtype(results)],
        "left_out": list(left_out),
    }
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"


def _array(result: ArrayResult, asked: CompressRequest) -> dict[str, Any]:
    return {
        "name": result.name,
        "dtype": result.dtype,
        "shape": list(result.shape),
        "bytes": result.bytes,
        "made_up": result.made_up,
        "note": result.note,
        "codecs": [_codec(one, result, asked) for one in result.codecs],
        "dimensionalities": [_measured(one) for one in result.dimensionalities],
        "gpu": [_kernels(one, result, asked) for one in result.gpu],
        "crossings": [_crossing(one, result) for one in result.crossings],
        "gpu_notes": list(result.gpu_notes),
        "measured": [_verdict(one) for one in verdicts(result)],
        "recommendation": "; ".join(sentences(result, asked.link, asked.slab_bytes)),
        "recommendation_from": "measured" if result.crossings else "predicted",
    }


def _codec(one: Measured, result: ArrayResult, asked: CompressRequest) -> dict[str, Any]:
    return _measured(one) | _timed(one, result, asked)


def _timed(one: Measured | Kernels, result: ArrayResult, asked: CompressRequest) -> dict[str, Any]:
    """Return the times of a codec, and what is predicted from those with the most threads."""
    told: dict[str, Any] = {"timings": [_timing(timing) for timing in one.timings]}
    if not one.timings:
        return told
    rates = rates_of(one)
    told["predicted_break_even_gbs"] = break_even_gbs(result.bytes, rates, asked.slab_bytes)
    if asked.link is not None:
        predicted = predict(result.bytes, rates, asked.link, asked.slab_bytes)
        told["predicted"] = _prediction(predicted)
        told["predicted_break_even_bytes"] = break_even_bytes(rates, asked.link, asked.slab_bytes)
    return told


def _kernels(one: Kernels, result: ArrayResult, asked: CompressRequest) -> dict[str, Any]:
    """Return the times of a GPU's kernels; what a host calls threads are SMs, 0: all."""
    return {
        "gpu": one.gpu,
        "codec": str(one.choice.codec),
        "dimensionality": one.choice.dimensionality,
        "bytes": one.bytes,
        "stored_bytes": one.stored_bytes,
        "ratio": one.ratio,
        "times_over": max(one.bytes / result.bytes, 1.0),
        "verified": True,
    } | _timed(one, result, asked)


def _crossing(one: Crossing, result: ArrayResult) -> dict[str, Any]:
    return {
        "path": one.path,
        "data": one.data,
        "codec": one.codec,
        "dimensionality": one.dimensionality,
        "bytes": one.bytes,
        "times_over": max(one.bytes / result.bytes, 1.0),
        "sms": one.sms,
        "wire_bytes": one.wire_bytes,
        "ratio": one.ratio,
        "raw_gbs": _estimate(one.raw_gbs),
        "gbs": _estimate(one.gbs),
        "speedup": _estimate(one.speedup),
        "pays": one.pays,
        "break_even_bytes": measured_break_even(result, one),
        "raw_seconds": list(one.raw_seconds),
        "seconds": list(one.seconds),
        "verified": True,
    }


def _verdict(one: Verdict) -> dict[str, Any]:
    return {
        "path": one.best.path,
        "codec": one.best.codec,
        "bytes": one.best.bytes,
        "pays": one.best.pays,
        "break_even_bytes": one.pays_from,
        "recommendation": one.sentence,
    }


def _measured(one: Measured) -> dict[str, Any]:
    return {
        "device": one.device,
        "codec": str(one.choice.codec),
        "dimensionality": one.choice.dimensionality,
        "stored_bytes": one.stored_bytes,
        "ratio": one.ratio,
        "data_rate_saving": one.data_rate_saving,
        "coded_blocks": one.coded_blocks,
        "blocks": one.blocks,
        "verified": True,  # what does not come back is an error, and no result
    }


def _timing(timing: Timing) -> dict[str, Any]:
    return {
        "threads": timing.threads,
        "timed_bytes": timing.bytes,
        "compress_gbs": _estimate(timing.compress_gbs),
        "decompress_gbs": _estimate(timing.decompress_gbs),
        "compress_seconds": list(timing.compress_seconds),
        "decompress_seconds": list(timing.decompress_seconds),
    }


def _prediction(one: Prediction) -> dict[str, Any]:
    return {
        "raw_seconds": one.raw_seconds,
        "seconds": _estimate(one.seconds),
        "raw_gbs": one.raw_gbs,
        "gbs": _estimate(one.gbs),
        "speedup": one.speedup,
        "slowest": one.slowest,
        "pays": one.pays,
        "certain": one.certain,
    }


def _sum(one: Sum) -> dict[str, Any]:
    return {
        "dtype": one.dtype,
        "device": one.device,
        "codec": str(one.codec),
        "arrays": one.arrays,
        "bytes": one.bytes,
        "stored_bytes": one.stored_bytes,
        "ratio": one.ratio,
        "compress_gbs": one.compress_gbs,
        "decompress_gbs": one.decompress_gbs,
    }


def _estimate(one: Estimate) -> dict[str, float]:
    return {"median": one.value, "low": one.low, "high": one.high}
