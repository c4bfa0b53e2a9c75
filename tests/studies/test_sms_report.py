"""How few SMs fill a path, in words."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from lanescope.copies import Copy, Engine, Memory, Place
from lanescope.copies.experiment import experiment_of
from lanescope.report.terminal import renderables
from lanescope.results import Result, Source
from lanescope.store.run import Run
from lanescope.studies.runs.outcome import conclusion
from lanescope.studies.sms import SmCurve, SmPoint, Sms, curve_sentence, kernel_text, sm_curves
from tests.findings.machine.simulator import copy_result
from tests.report import factory


def write(sms: int, chunk: int, pace: float | None = None) -> Copy:
    places = (Place(f"g{i}", Memory.DEVICE) for i in (0, 1))
    return Copy(
        *places, 512 << 20, Engine.SM, executor="g0", sms=sms, chunk_bytes=chunk, pace_gbs=pace
    )


def point(sms: int, gbs: float, copy: Copy) -> SmPoint:
    return SmPoint(sms, gbs, gbs * 0.99, gbs * 1.01, copy)


G0, G1 = (Place(f"g{i}", Memory.DEVICE) for i in (0, 1))
BACK = ((9, 100.0), (132, 396.0))
FEW = point(9, 392.0, write(9, 16 << 10, 392.5))
ALL = point(132, 396.2, write(132, 0))
CURVE = SmCurve(("g0", "g1", "g0"), (FEW, ALL), 396.2, FEW)


def test_the_sentence_names_number_share_kernel_and_command():
    assert curve_sentence(CURVE) == (
        "g0 writes to g1: 9 SMs carry 392 GB/s, 98.9 % of the 396 that any number reaches, by "
        "bulk copies of 16 KiB at a pace of 392 GB/s: "
        "lanescope copy 'g0 -> g1 @sm:9:16KiB:392.5 by g0'"
    )


@pytest.mark.parametrize(
    ("copy", "words"),
    [
        (write(8, 0), "loads and stores"),
        (write(8, 32 << 10), "bulk copies of 32 KiB"),
        (write(8, 32 << 10, 100.0), "bulk copies of 32 KiB at a pace of 100 GB/s"),
    ],
)
def test_kernels_in_words(copy: Copy, words: str):
    assert kernel_text(point(8, 1.0, copy)) == words


def test_the_conclusion_names_every_path():
    back = [(replace(write(sms, 0), source=G1, destination=G0), gbs) for sms, gbs in BACK]
    run = run_of((write(132, 0), 396.0), (write(9, 16 << 10, 392.5), 392.0), *back)
    assert Sms.conclusion(run) == (
        "SMs that carry 98 % of what kernels can. g0 writes to g1: 9, g0 reads from g1: 132."
    )


def run_of(*rates: tuple[Copy, float]) -> Run:
    results = [
        Result(
            experiment_of([copy]),
            Source.MEASURED,
            (copy_result(copy, gbs, np.array([1.0, 1.0, 1.02, 0.99, 1.0, 1.0])),),
            "GPU events",
        )
        for copy, gbs in rates
    ]
    return factory.run_of(results, factory.two_gpus(), verb="sms")


def test_the_table_marks_each_number_once():
    run = run_of((write(132, 0), 396.0), (write(9, 16 << 10, 392.5), 392.0), (write(9, 0), 20.0))
    console = Console(file=io.StringIO(), width=180)
    for part in renderables(Sms.report(run)):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    rows = [line.split() for line in text.splitlines() if "█" in line]
    assert [row[0] for row in rows] == ["9", "132"]
    assert curve_sentence(sm_curves(run.results)[0]) in " ".join(text.split())
    assert "g0 writes to g1: 9" in conclusion(run)


def test_a_run_that_measured_nothing_has_no_table():
    empty = factory.run_of([], factory.two_gpus(), verb="sms")
    assert Sms.report(empty) == ()
    assert "SMs that carry" not in conclusion(empty)
    assert conclusion(empty)
