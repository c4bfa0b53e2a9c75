from dataclasses import replace

import pytest

from lanescope.copies import Purpose, Submission
from lanescope.studies.runs.charts import sweep_series
from lanescope.studies.small import (
    Regime,
    SmallCell,
    inversions,
    largest_gain,
    regimes,
    regimes_by_count,
    regimes_by_size,
    small_maps,
    submit_shares,
)
from tests.small_samples import seconds_of, small_results, without

SINGLE, BATCH, KERNEL, MAPPED = (
    Submission.SINGLE,
    Submission.BATCH,
    Submission.KERNEL,
    Submission.MAPPED,
)


@pytest.fixture
def maps(two_gpus):
    return small_maps(small_results(two_gpus))


def cell(template, **seconds):
    """A cell of given medians, each with an interval of 1 % around it."""

    def timed(copy, median):
        known = replace(copy.statistics, median_seconds=median, half_width=0.01)
        return replace(copy, statistics=known)

    known = {Submission(name): s for name, s in seconds.items()}
    return SmallCell(1, 4, {m: timed(template.by_method[m], s) for m, s in known.items()})


@pytest.fixture
def template(maps):
    return maps[0].cells[1, 4]


def test_a_map_for_each_direction(maps):
    assert [m.path for m in maps] == ["h0 → g0", "g0 → h0"]
    for small in maps:
        assert len(small.cells) == 50
        assert (small.sizes[0], small.sizes[-1]) == (4, 4 << 20)
        assert small.methods == tuple(Submission)
        assert MAPPED not in small.copying


def test_the_fastest_method_of_a_cell(maps):
    small = maps[0]
    assert small.cells[1, 4].fastest(small.copying) is SINGLE
    assert small.cells[1, 4].fastest() is SINGLE
    assert small.cells[4096, 64].fastest(small.copying) is KERNEL
    assert small.cells[4096, 64].fastest() is MAPPED
    assert small.cells[512, 256 << 10].fastest() is BATCH  # the engines have more bandwidth


def test_crossovers_along_size_and_count(maps):
    small = maps[0]
    along = regimes_by_size(small, 64, small.copying)
    assert [r.method for r in along] == [KERNEL, BATCH, SINGLE][: len(along)]
    assert along[0].first == 4
    assert [r.method for r in regimes_by_count(small, 4, small.copying)] == [SINGLE, KERNEL]
    assert regimes_by_count(small, 4, small.copying)[1].first == 8


def test_noise_within_the_intervals_makes_no_crossover(template):
    line = [
        (1, cell(template, single=1.0, batch=1.1)),
        (2, cell(template, single=1.0, batch=0.99)),  # within the intervals
        (3, cell(template, single=1.0, batch=1.1)),
        (4, cell(template, single=1.0, batch=0.9)),
        (5, cell(template, single=0.995, batch=1.0)),
    ]
    assert regimes(line, (SINGLE, BATCH)) == (Regime(SINGLE, 1), Regime(BATCH, 4))


def test_a_method_that_is_missing_gives_its_place_away(template):
    line = [(1, cell(template, single=1.0)), (2, None), (3, cell(template, batch=2.0))]
    assert regimes(line, (SINGLE, BATCH)) == (Regime(SINGLE, 1), Regime(BATCH, 3))
    assert regimes([(1, None)], (SINGLE,)) == ()


def test_ties(template):
    close = cell(template, single=1.0, batch=1.005, kernel=1.5)
    assert close.ties() == (BATCH,)
    few = replace(close.by_method[BATCH].statistics, half_width=None, median_seconds=9.0)
    unknown = {**close.by_method, BATCH: replace(close.by_method[BATCH], statistics=few)}
    assert replace(close, by_method=unknown).ties() == (BATCH,)  # nothing is known of it
    assert not cell(template, single=1.0, batch=1.5).ties()


def test_what_there_is_to_gain(maps):
    gained, method, factor = largest_gain(maps[0])
    assert (gained.pieces, method) == (4096, KERNEL)
    assert factor > 100
    assert largest_gain(replace(maps[0], cells={})) is None


def test_the_hosts_share(maps):
    shares = submit_shares(maps[0])
    assert set(shares) == set(Submission)
    assert all(share == pytest.approx(0.4, abs=0.01) for share in shares.values())


def test_one_method_alone_and_one_missing(two_gpus):
    (alone, _) = small_maps(small_results(two_gpus, (4, 64), (1, 8), (MAPPED,)))
    assert alone.copying == (MAPPED,)
    (rest, _) = small_maps(without(small_results(two_gpus, (4, 64), (1, 8)), BATCH))
    assert BATCH not in rest.methods
    assert largest_gain(alone) is None


def test_pieces_are_no_points_of_a_sweep(two_gpus):
    results = [r for r in small_results(two_gpus) if r.experiment.copies[0].in_pieces]
    assert sweep_series(results) == ()


def test_results_of_other_runs_make_no_map(two_gpus):
    (cell, *_) = small_results(two_gpus, (4,), (1,))
    other = replace(cell, experiment=replace(cell.experiment, purpose=Purpose.PATH))
    assert small_maps([other]) == ()


def test_samples_are_those_asked_for(two_gpus):
    (first, *_) = small_results(two_gpus, (64,), (8,), (BATCH,))
    assert first.copies[0].statistics.median_seconds == pytest.approx(
        sorted(seconds_of(first.experiment.copies[0]))[4], rel=0.01
    )


def test_no_piece_takes_longer_than_a_larger_one(maps):
    assert inversions(maps[0]) == ()


def test_smaller_pieces_that_take_longer_are_found(two_gpus):
    def stepped(copy, batch=0):
        by_thread = copy.submission is BATCH and copy.bytes // copy.pieces == 16384
        factor = 3 if by_thread and copy.pieces in (64, 512) else 1
        return [s * factor for s in seconds_of(copy, batch)]

    small = small_maps(small_results(two_gpus, seconds=stepped))[0]
    (found,) = inversions(small)
    assert (found.method, found.smaller.pieces) == (BATCH, 512)
    assert (found.smaller.piece_bytes, found.larger.piece_bytes) == (16384, 65536)
    assert found.factor > 1.1
