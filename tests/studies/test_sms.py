"""The fewest SMs that fill a path, from numbers made up."""

from dataclasses import replace

import pytest

from lanescope.copies import Copy, Engine, Memory, Place
from lanescope.copies.experiment import experiment_of
from lanescope.copies.grammar import parse_copies
from lanescope.engine.base import ModelBackend
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import NotMeasuredError
from lanescope.machine import machine_named
from lanescope.studies.sms import FULL_SHARE, paced_experiments, sm_curves, sms_experiments
from tests.fake_backend import FakeBackend

H200S = machine_named("h200-x2")


def played(experiments, gbs, backend=None):
    """Results whose copies go at the rates of a function, give or take 2 %."""

    def seconds(copy, batch):
        return [copy.bytes / gbs(copy) / 1e9 * w for w in [1.0] * 7 + [0.98, 1.02]]

    results = []
    measure_all(
        experiments, backend or FakeBackend(seconds), H200S, Plan(budget_seconds=0), results.append
    )
    return results


def tries(*texts):
    return [experiment_of(parse_copies(text, H200S)) for text in texts]


def saturating(copy):
    """50 GB/s from 4 SMs on; loads and stores need twice as many."""
    return min(50.0, copy.sms * (12.5 if copy.chunk_bytes else 6.25))


def test_every_direction_has_a_curve():
    curves = sm_curves(played(sms_experiments(H200S, H200S.gpus[:1], 1 << 20), saturating))
    assert {curve.title for curve in curves} == {
        "g0 reads from h0",
        "g0 writes to h0",
        "g0 reads from g1",
        "g0 writes to g1",
    }
    for curve in curves:
        counts = [point.sms for point in curve.points]
        assert counts == sorted(set(counts))
        assert counts[-1] == 132
        assert curve.fewest.sms == 4
        assert curve.plateau_gbs == pytest.approx(50)


def test_of_the_shapes_tried_with_a_number_the_best_counts():
    (curve,) = sm_curves(
        played(tries("h0 -> g0 @sm:4:0", "h0 -> g0 @sm:4:16KiB", "h0 -> g0 @sm:8:0"), saturating)
    )
    assert [(p.sms, p.copy.chunk_bytes) for p in curve.points] == [(4, 16 << 10), (8, 0)]
    four = curve.fewest
    assert four.sms == 4
    assert four.low_gbs < four.gbs < four.high_gbs
    assert parse_copies(four.command, H200S) == [four.copy]


def test_almost_full_is_full_and_a_little_less_is_not():
    rates = {1: FULL_SHARE * 100 - 0.1, 2: FULL_SHARE * 100 + 0.1, 3: 99.0, 4: 100.0, 5: 60.0}
    texts = [f"g0 -> g1 @sm:{sms}" for sms in (5, 3, 1, 4, 2)]
    (curve,) = sm_curves(played(tries(*texts), lambda copy: rates[copy.sms]))
    assert [p.sms for p in curve.points] == [1, 2, 3, 4, 5]
    assert curve.plateau_gbs == pytest.approx(100)
    assert curve.fewest.sms == 2


def test_reading_and_writing_the_same_direction_are_two_curves():
    texts = [f"g0 -> g1 @sm:{sms} by {gpu}" for gpu in ("g0", "g1") for sms in (1, 2)]
    curves = sm_curves(played(tries(*texts), saturating))
    assert [curve.title for curve in curves] == ["g0 writes to g1", "g1 reads from g0"]


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["h0 -> g0 @sm:4"],  # one number makes no curve
        ["h0 -> g0 @sm", "g0 -> h0 @sm"],
        ["h0 -> g0", "h0 -> g0 1MiB"],
        ["h0 -> g0 @sm:4, g0 -> h0 @sm:4", "h0 -> g0 @sm:8, g0 -> h0 @sm:8"],
    ],
)
def test_without_tries_there_is_no_curve(texts):
    assert sm_curves(played(tries(*texts), lambda copy: 50.0)) == ()


def test_predictions_and_failures_make_no_curve():
    texts = ("h0 -> g0 @sm:4", "h0 -> g0 @sm:8")
    assert sm_curves(played(tries(*texts), saturating, ModelBackend(H200S))) == ()

    def refuse(copy, batch):
        raise NotMeasuredError("g0 is busy.")

    assert sm_curves(played(tries(*texts), saturating, FakeBackend(refuse))) == ()


def test_paces_are_tried_where_kernels_write_to_a_peer():
    plateaus = {
        ("h0", "g0", "g0"): 50.0,
        ("g0", "h0", "g0"): 50.0,
        ("g1", "g0", "g0"): 300.0,
        ("g0", "g1", "g0"): 400.0,
    }
    copies = [e.copies[0] for e in paced_experiments(H200S, plateaus, 1 << 20)]
    assert {(c.path, c.executing_gpu, c.bytes) for c in copies} == {("g0 → g1", "g0", 1 << 20)}
    assert all(0 < c.pace_gbs < 400 and c.chunk_bytes for c in copies)
    assert len(set(copies)) == len(copies) > 1
    small = replace(H200S, gpus=tuple(replace(g, multiprocessors=20) for g in H200S.gpus))
    paced = paced_experiments(small, plateaus, 1 << 20)
    assert max(e.copies[0].sms for e in paced) <= 20
    p6000 = machine_named("p6000")
    assert paced_experiments(p6000, {("g0", "g1", "g0"): 10.0}) == ()


def test_a_pace_that_gets_more_from_fewer_is_found():
    first = tries(*(f"g0 -> g1 @sm:{sms}:64KiB by g0" for sms in (16, 64, 132)))
    paced = paced_experiments(H200S, {("g0", "g1", "g0"): 400.0}, 1 << 20)

    def gbs(copy):
        return 396.0 if copy.pace_gbs and copy.sms >= 9 else copy.sms * 3

    (curve,) = sm_curves(played([*first, *paced], gbs))
    assert curve.fewest.sms == 9
    assert curve.fewest.copy.pace_gbs == pytest.approx(396)


def test_a_gpu_of_few_sms_and_without_bulk_copies():
    p6000 = machine_named("p6000")
    copies = [e.copies[0] for e in sms_experiments(p6000, p6000.gpus, 1 << 20)]
    assert {c.chunk_bytes for c in copies} == {0}
    place = Place("g0", Memory.DEVICE)
    assert {c.path for c in copies} == {"h0 → g0", "g0 → h0"}
    assert (
        Copy(place, Place("h0", Memory.PINNED), 1 << 20, Engine.SM, sms=1, chunk_bytes=0) in copies
    )
