"""Reads the captures of an H200, without the code that reads spools."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lanescope.trace.timeline import Counters, Operations

H200 = Path(__file__).parents[1] / "data" / "h200-watch"
_UNKNOWN = 0xFFFFFFFF
_COUNTER = np.dtype([("end", "<u8"), ("rx", "<u4"), ("tx", "<u4")])
_OPERATION = np.dtype(
    [("kind", "<u2"), ("flags", "<u2"), ("size", "<u4")]
    + [(k, "<u8") for k in ("start", "end", "bytes")]
    + [("what", "<u4"), ("copy", "u1"), ("source", "u1"), ("destination", "u1"), ("async", "u1")]
    + [(k, "<u4") for k in ("from", "to", "device", "context", "stream", "correlation")]
    + [("name", "<u4"), ("count", "<u4"), ("rest", "<u4", 2)]
)


def counters(capture: str) -> Counters:
    with (H200 / capture / "pm.g0.bin").open("rb") as file:
        head = json.loads(file.readline())
        rows = np.frombuffer(file.read(), _COUNTER)
    known = rows["rx"] != _UNKNOWN
    rx, tx = (np.where(known, rows[k], 0).astype(np.int64) for k in ("rx", "tx"))
    return Counters("pm", 0, head["interval_ns"], rows["end"].astype(np.int64), rx, tx, known)


def operations(capture: str) -> Operations:
    path = next((H200 / capture).glob("trace.*.bin"))
    with path.open("rb") as file:
        pid = json.loads(file.readline())["pid"]
        body = file.read()
    rows = np.frombuffer(body[: len(body) // 80 * 80], _OPERATION)
    rows = rows[rows["kind"] == 1]
    from_, to = (
        np.where(rows[k] == _UNKNOWN, -1, rows[k].astype(np.int64)) for k in ("from", "to")
    )
    return Operations.of(
        pid=np.full(len(rows), pid),
        what=rows["what"],
        start_ns=rows["start"],
        end_ns=rows["end"],
        bytes=rows["bytes"],
        source_kind=rows["source"],
        destination_kind=rows["destination"],
        asynchronous=rows["async"] != 0,
        source_device=from_,
        destination_device=to,
        device=rows["device"],
        context=rows["context"],
        stream=rows["stream"],
        correlation=rows["correlation"],
    )


def span(counted: Counters) -> tuple[int, int]:
    return int(counted.end_ns[0]), int(counted.end_ns[-1])
