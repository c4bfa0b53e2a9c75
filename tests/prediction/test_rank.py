"""The order of the methods, the best number of streams, and the words."""

import pickle
from dataclasses import replace

import pytest

import lanescope
from lanescope.errors import InputError
from lanescope.prediction.equations import Equations
from lanescope.prediction.explanation import peaks_of, why
from lanescope.prediction.graphs import MOST_TASKS
from lanescope.prediction.predictor import NAMES, Method, Prediction, Workload, predictor_named
from lanescope.prediction.rank import closed_form, rank
from lanescope.prediction.replay import Replay
from lanescope.prediction.stored_parameters import named_parameters
from lanescope.studies.analysis import Silent
from lanescope.studies.predict import Predict, stream_counts
from lanescope.units.estimate import Estimate
from tests.studies.link_parameters import fitted

WORK = Workload(700_000_000, 350_000_000, 0.012)
ALL = range(1, 257)


class FixedPredictor:
    """Predicts what it was told: milliseconds with their half-width, by method and streams."""

    name, is_slow = "told", False

    def __init__(self, **times):
        self.times = times

    def predict(self, workload, method, streams, parameters):
        value, half = self.times[method.name](streams)
        seconds = Estimate(value, value - half, value + half)
        return Prediction(method, streams, seconds, self.name, "kernel")

    def value(self, workload, method, streams, parameters):
        return self.times[method.name](streams)[0]

    def least(self, workload, method, streams, parameters):
        return 0.0


@pytest.mark.parametrize("predictor", [Replay(), Equations()], ids=lambda one: one.name)
@pytest.mark.parametrize("method", Method)
def test_a_search_goes_by_what_is_predicted(predictor, method):
    for name in ("h200", "gtx680"):
        parameters = named_parameters(name)
        if method is Method.PAGEABLE and parameters.pageable_h2d is None:
            continue
        for streams in (1, 7):
            told = predictor.predict(WORK, method, streams, parameters).seconds.value
            assert predictor.value(WORK, method, streams, parameters) == told
            assert predictor.least(WORK, method, streams, parameters) <= told


def test_fastest_first_each_with_its_fewest_best_streams():
    told = FixedPredictor(
        EXPLICIT=lambda n: (9.0, 0.1), STREAMS=lambda n: (5.0 + abs(n // 2 - 4), 0.1)
    )
    methods = (Method.EXPLICIT, Method.STREAMS)
    ranking = rank(WORK, fitted(), told, [16, 8, 9, 4, 1], methods)
    assert [(p.method, p.streams) for p in ranking.best] == [
        (Method.STREAMS, 8),
        (Method.EXPLICIT, 1),
    ]
    assert [p.streams for p in ranking.curves[Method.STREAMS]] == [1, 4, 8, 9, 16]
    assert len(ranking.curves[Method.EXPLICIT]) == 1
    assert ranking.decided
    assert ranking.level == ()


def test_a_slow_predictor_tries_few_numbers_and_finds_the_best_between_them():
    told = FixedPredictor(STREAMS=lambda n: (5.0 + abs(n - 48), 0.1))
    told.is_slow = True
    ranking = rank(WORK, fitted(), told, ALL, (Method.STREAMS,))
    tried = [p.streams for p in ranking.curves[Method.STREAMS]]
    assert tried == [1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256]
    assert ranking.winner.streams == 48
    few = rank(WORK, fitted(), told, range(40, 50), (Method.STREAMS,))
    assert len(few.curves[Method.STREAMS]) == 10


def test_numbers_of_streams_that_are_too_many_to_be_replayed_are_left_out():
    found = rank(Workload(1 << 20, 0, 0.0, h2d_arrays=300), named_parameters("h200"), Replay(), ALL)
    assert 1 < found.curves[Method.STREAMS].most_streams <= MOST_TASKS // 302


def test_intervals_that_overlap_decide_nothing():
    told = FixedPredictor(EXPLICIT=lambda n: (9.0, 3.0), STREAMS=lambda n: (5.0, 2.0))
    ranking = rank(WORK, fitted(), told, [2], (Method.EXPLICIT, Method.STREAMS))
    assert not ranking.decided
    assert [p.method for p in ranking.level] == [Method.EXPLICIT]
    assert "it overlaps that of Explicit, so it is not decided which is fastest" in why(ranking)


def test_methods_that_lack_a_parameter_are_left_out_with_the_reason():
    ranking = rank(WORK, named_parameters("gtx-titan"), Equations(), [4])
    (skipped,) = ranking.skipped
    assert skipped.method is Method.PAGEABLE
    assert "Pageable is left out: the parameters of gtx-titan do not tell" in why(ranking)
    with pytest.raises(InputError, match="no method can be predicted: The parameters"):
        rank(WORK, named_parameters("k20"), Equations(), [4], [Method.PAGEABLE])


def test_parts_are_not_more_than_the_workload_has():
    few = replace(WORK, most_streams=5)
    ranking = rank(few, fitted(), Equations(), ALL)
    assert max(p.streams for p in ranking.curves[Method.STREAMS]) == 5
    tiny = Workload(6, 0, 0.0, h2d_arrays=2)
    assert (
        max(p.streams for p in rank(tiny, fitted(), Equations(), ALL).curves[Method.STREAMS]) == 3
    )
    with pytest.raises(InputError, match="cannot be cut into 8, 9 parts: 5 at most"):
        rank(few, fitted(), Equations(), [8, 9])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"h2d_bytes": -1}, "h2d_bytes cannot be -1; give a size"),
        ({"h2d_bytes": 0, "d2h_bytes": 0}, "moves no bytes; give bytes to the GPU"),
        ({"kernel_seconds": float("nan")}, "kernel_seconds cannot be nan; give a number"),
        ({"kernel_seconds": float("inf")}, "kernel_seconds cannot be inf; give a number"),
        ({"d2h_arrays": 0}, "arrays to the host are 0; give 1 or more"),
        ({"h2d_bytes": 3, "h2d_arrays": 9}, "3 B to the GPU cannot be in 9 arrays; give fewer"),
        ({"mapped_reads": -0.5}, "mapped_reads cannot be -0.5; give a number, 0 or more"),
    ],
)
def test_impossible_workloads(changes, words):
    with pytest.raises(InputError, match=words):
        rank(replace(WORK, **changes), fitted(), Equations(), ALL)


@pytest.mark.parametrize("machine", ["gtx680", "gtx-titan", "k20"])
@pytest.mark.parametrize("kernel", [0.001, 0.02])
def test_the_search_finds_what_the_closed_form_says(machine, kernel):
    parameters = named_parameters(machine)
    if parameters.duplex is not None:  # the form has one G
        parameters = replace(parameters, duplex=None)
    work = replace(WORK, kernel_seconds=kernel)
    found = closed_form(work, parameters)
    curves = rank(work, parameters, Equations(), ALL, [Method.STREAMS]).curves
    searched = curves[Method.STREAMS].fastest_streams
    # one engine without synchronisation: the first number above; else the nearest
    assert abs(min(found, 256) - searched) <= 1


@pytest.mark.parametrize("kernel", [0.0, 0.001, 0.02, 1.0])
@pytest.mark.parametrize("machine", ["gtx680", "gtx-titan", "k20", "h200"])
def test_no_more_streams_are_taken_than_gain_something(machine, kernel):
    work = replace(WORK, kernel_seconds=kernel)
    ranking = rank(work, named_parameters(machine), Equations(), ALL, [Method.STREAMS])
    times = {p.streams: p.seconds.value for p in ranking.curves[Method.STREAMS]}
    best = ranking.winner
    assert best.seconds.value <= 1.01 * min(times.values())
    fewer = [seconds for streams, seconds in times.items() if streams < best.streams]
    assert all(seconds > 1.01 * min(times.values()) for seconds in fewer)
    assert best.streams < 64


def test_a_dominant_kernel_has_a_closed_form_with_implicit_synchronisation_only():
    work = replace(WORK, kernel_seconds=1.0)
    assert closed_form(work, named_parameters("k20")) is None
    assert closed_form(work, named_parameters("gtx-titan")) is None
    found = closed_form(work, named_parameters("gtx680"))
    searched = rank(work, named_parameters("gtx680"), Equations(), ALL, [Method.STREAMS])
    assert abs(found - searched.curves[Method.STREAMS].fastest_streams) <= 1


def test_the_paragraph_tells_what_overlaps_and_what_was_not_measured():
    big = Workload(8 << 30, 4 << 30, 0.5, needs_previous=True)
    text = why(rank(big, fitted(mapped=None), Equations(), [2, 4]))
    assert text.startswith("Streams (4) is predicted to take")
    assert "copies in both directions and kernels overlap, by two copy engines" in text
    assert "most of the time goes to the kernel" in text
    assert "with 95 % confidence" in text
    assert "This is extrapolated: transfers of 2 GiB lie outside of the 8 B to 1 GiB" in text
    assert "'lanescope model fit'" in text
    assert "delays streams by about one part more" in text


def test_nothing_is_said_of_extrapolation_within_what_was_measured():
    text = why(rank(WORK, fitted(), Equations(), ALL))
    assert "extrapolated" not in text
    assert "left out" not in text
    wide = why(rank(WORK, fitted(mapped=None, explicit_mapped=None), Equations(), [300]))
    assert "more than 256 streams were not measured" in wide


def test_words_by_category():
    def streams_text(name):
        ranking = rank(WORK, named_parameters(name), Equations(), [8], [Method.STREAMS])
        return why(ranking)

    assert "copies back wait for all kernels" in streams_text("gtx680")
    assert "not with copies the other way" in streams_text("gtx-titan")
    assert "A second copy engine would make Streams faster." in streams_text("gtx-titan")
    long = rank(replace(WORK, kernel_seconds=1.0), named_parameters("gtx-titan"), Equations(), [8])
    assert "A second copy engine would not make Streams faster." in why(long)
    assert "second copy engine" not in streams_text("gtx680")
    assert "by two copy engines" in streams_text("k20")
    assert "No other method could be predicted." in streams_text("k20")
    assert "published ones" in streams_text("gtx-titan")
    assert "computed from those of another link" in streams_text("k20")
    assert "6.46 %" in streams_text("k20")


def test_ask_for_other_links():
    answer = lanescope.predict(
        h2d_bytes=WORK.h2d_bytes,
        d2h_bytes=WORK.d2h_bytes,
        kernel_seconds=WORK.kernel_seconds,
        streams=ALL,
        parameters=fitted(),
        predictor="equations",
        on=["pcie3", "pcie6"],
    )
    times = [r.winner.seconds.value for r in (answer.on[0], answer.ranking, answer.on[1])]
    assert times == sorted(times, reverse=True)
    assert [r.parameters.link for r in answer.on] == ["PCIe 3.0 x16", "PCIe 6.0 x16"]
    with pytest.raises(InputError, match="peak_flops -1 is not above zero"):
        peaks_of(-1.0, None)


@pytest.mark.parametrize(
    ("text", "found"), [("16", (16,)), ("1..4", (1, 2, 3, 4)), ("8, 2,1..2", (1, 2, 8))]
)
def test_numbers_of_streams(text, found):
    assert stream_counts(text) == found


@pytest.mark.parametrize("text", ["", "0", "4..1", "1..5000", "-3", "many", "1...4", "1,,2"])
def test_what_is_no_number_of_streams(text):
    with pytest.raises(InputError, match="is no number of streams from 1 to 4096; write"):
        stream_counts(text)


def test_predictors_by_name():
    assert predictor_named("equations").name == "equations"
    assert predictor_named("equations-shared").name == "equations-shared"
    assert "replay" in NAMES
    with pytest.raises(
        InputError, match="no predictor is named 'equation'; did you mean equations"
    ):
        predictor_named("equation")
    with pytest.raises(InputError, match="there are equations, equations-shared, replay"):
        predictor_named("oracle")


def test_methods_that_are_level_are_listed_in_one_sentence():
    told = FixedPredictor(
        EXPLICIT=lambda n: (9.0, 5.0), STREAMS=lambda n: (5.0, 2.0), IMPLICIT=lambda n: (6.0, 2.0)
    )
    methods = (Method.EXPLICIT, Method.STREAMS, Method.IMPLICIT)
    ranking = rank(replace(WORK, mapped_assumed=False), fitted(), told, [2], methods)
    assert "; it overlaps those of Implicit and Explicit, so it is not decided" in why(ranking)


@pytest.mark.parametrize("mapped_assumed", [False, True])
def test_fewer_streams_than_the_fastest_are_said_to_be_nearly_as_fast(mapped_assumed):
    work = Workload(64 << 20, 0, 1e-3, mapped_assumed=mapped_assumed)
    ranking = rank(work, named_parameters("h200"), Replay(), ALL, (Method.STREAMS,))
    words = "the fastest at 16 of up to 256, and 12 streams are within 1 % of it; the paper's"
    assert words in why(ranking)
    assert "by 1 % at most" not in why(ranking)


def test_fewer_streams_than_the_fastest_of_another_winner():
    told = FixedPredictor(HYBRID=lambda n: (5.0 - n / 1000, 0.1))
    found = why(rank(WORK, fitted(), told, [1, 16], (Method.HYBRID,)))
    assert "1 stream is within 1 % of the fastest, 16." in found


@pytest.mark.parametrize("options", [{}, {"predictor": "equations", "on": ["pcie4"]}])
def test_a_prediction_goes_to_another_process_whole(options):
    found = lanescope.predict(
        h2d_bytes="64MiB", kernel_seconds="1ms", parameters="h200", streams="1..64", **options
    )
    there = pickle.loads(pickle.dumps(found))  # before any interval was looked at
    assert there.to_json() == found.to_json()
    assert pickle.loads(pickle.dumps(found)).to_json() == found.to_json()


def test_a_method_alone_is_compared_with_no_other() -> None:
    found = Predict(h2d_bytes="1PB", kernel_seconds="1ms", parameters="h200").result(Silent())
    words = why(found.ranking)
    assert "No other method could be predicted." in words
    assert "with 95 % confidence. " in words
    assert "every other method" not in words


@pytest.mark.parametrize("sizes", [(1 << 30, 0), (0, 1 << 30)])
def test_copies_of_one_direction_overlap_with_none_the_other_way(sizes) -> None:
    work = Workload(*sizes, 0.1)
    words = why(rank(work, fitted(mapped=None), Equations(), [4], [Method.STREAMS]))
    assert words.startswith("Streams (4)")
    assert ": copies and kernels overlap, and most" in words
