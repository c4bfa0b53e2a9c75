"""How often a kernel's mapped bytes cross the link, and what they hold up, by measured rounds."""

import re
from dataclasses import replace

import pytest

from lanescope.errors import InputError
from lanescope.prediction.costs import at_contention
from lanescope.prediction.equations import Equations
from lanescope.prediction.predictor import Method, Workload, with_contention, with_crossings
from lanescope.prediction.rank import rank
from lanescope.prediction.replay import Replay
from lanescope.prediction.stored_parameters import named_parameters
from lanescope.studies.analysis import Silent
from lanescope.studies.predict import Predict, measured_rounds

H200, BY = named_parameters("h200"), Replay()
WORK = Workload(64 << 20, 64 << 20, 2e-4, mapped_assumed=True)


def took(work: Workload, method: Method) -> float:
    return BY.predict(work, method, 1, H200).seconds.value


def rounds_of(work: Workload) -> dict[Method, float]:
    return {method: took(work, method) for method in (Method.HYBRID, Method.IMPLICIT)}


@pytest.mark.parametrize(("reads", "writes"), [(2.5, 1.0), (1.0, 16.0), (0.3, 3.0), (40.0, 20.0)])
def test_what_both_methods_took_tells_reads_and_writes(reads: float, writes: float) -> None:
    true = replace(WORK, mapped_reads=reads, mapped_writes=writes)
    found = with_crossings(WORK, rounds_of(true), H200, BY)
    assert not found.mapped_assumed
    assert rounds_of(found) == pytest.approx(rounds_of(true), rel=0.021)
    if reads > 1:  # else other bytes take longer, and nothing tells
        assert found.mapped_reads == pytest.approx(reads, rel=0.05)
    if writes > 1:
        assert found.mapped_writes == pytest.approx(writes, rel=0.05)


def test_what_is_measured_at_one_size_holds_at_another() -> None:
    true = replace(WORK, mapped_reads=1.5, mapped_writes=12.0)
    found = with_crossings(WORK, rounds_of(true), H200, BY)
    larger = {"h2d_bytes": 512 << 20, "d2h_bytes": 512 << 20, "kernel_seconds": 1.6e-3}
    expected = rounds_of(replace(true, **larger))
    assert rounds_of(replace(found, **larger)) == pytest.approx(expected, rel=0.03)


def test_a_method_that_was_measured_can_be_chosen() -> None:
    assert rank(WORK, H200, BY, (1, 2, 4, 8)).chosen.method is Method.STREAMS
    once = with_crossings(WORK, rounds_of(WORK), H200, BY)
    assert (once.mapped_reads, once.mapped_writes) == (1.0, 1.0)
    ranking = rank(once, H200, BY, (1, 2, 4, 8))
    assert ranking.chosen is ranking.winner
    slow = with_crossings(WORK, rounds_of(replace(WORK, mapped_writes=16.0)), H200, BY)
    assert rank(slow, H200, BY, (1, 2, 4, 8)).winner.method is Method.STREAMS


def test_implicit_tells_the_writes_where_nothing_is_read() -> None:
    out = replace(WORK, h2d_bytes=0)
    seconds = took(replace(out, mapped_writes=4.0), Method.IMPLICIT)
    found = with_crossings(out, {Method.IMPLICIT: seconds}, H200, BY)
    assert found.mapped_writes == pytest.approx(4.0, rel=0.02)


def test_a_kernel_that_takes_the_time_reads_once_whatever_is_measured_a_little_below() -> None:
    slow = replace(WORK, kernel_seconds=0.1)
    seconds = 0.9 * took(slow, Method.IMPLICIT)
    assert with_crossings(slow, {Method.IMPLICIT: seconds}, H200, BY).mapped_reads == 1.0


@pytest.mark.parametrize(("seconds", "what"), [(1e-5, "less"), (60.0, "more")])
def test_a_time_that_no_round_takes_is_refused(seconds: float, what: str) -> None:
    with pytest.raises(InputError, match=rf"is {what} than the .* measure it on the machine"):
        with_crossings(WORK, {Method.IMPLICIT: seconds}, H200, BY)


def test_hybrid_tells_nothing_where_nothing_goes_back() -> None:
    with pytest.raises(InputError, match="nothing goes back"):
        with_crossings(replace(WORK, d2h_bytes=0), {Method.HYBRID: 2e-3}, H200, BY)


@pytest.mark.parametrize(
    "given",
    [
        ["explicit=2ms"],
        ["implicit"],
        ["hybrid="],
        ["=2ms"],
        ["implicit=0s"],
        [""],
        ["implicit:8=2ms"],
        ["hybrid:1=2ms"],
        ["hybrid:=2ms"],
        ["hybrid:-8=2ms"],
        ["hybrid:8.5=2ms"],
        ["hybrid:99999999999=2ms"],
        ["hybrid:8=0s"],
    ],
)
def test_what_is_no_method_and_time_is_refused(given: list[str]) -> None:
    with pytest.raises(InputError, match="measured"):
        measured_rounds(given)


def test_a_method_is_measured_once_with_one_stream_and_once_with_several() -> None:
    with pytest.raises(InputError, match="hybrid is there twice"):
        measured_rounds(["hybrid=1ms", "Hybrid=2ms"])
    with pytest.raises(InputError, match="hybrid with several streams is there twice"):
        measured_rounds({"hybrid:4": 1e-3, "hybrid:8": 1e-3})


def hybrid(work: Workload, streams: int, by: Replay | Equations = BY) -> float:
    return by.predict(work, Method.HYBRID, streams, H200).seconds.value


@pytest.mark.parametrize("by", [BY, Equations()], ids=lambda by: by.name)
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0, 1.3])
def test_what_hybrid_took_with_several_streams_tells_how_much_is_held_up(
    share: float, by: Replay | Equations
) -> None:
    true = replace(WORK, mapped_contention=share)
    found = with_contention(WORK, 8, hybrid(true, 8, by), H200, by)
    assert found.mapped_contention == pytest.approx(share, abs=0.01)
    for streams in (2, 4, 16):
        assert hybrid(found, streams, by) == pytest.approx(hybrid(true, streams, by), rel=0.01)


def test_a_kernel_that_holds_up_less_is_faster_with_several_streams_alone() -> None:
    times = [hybrid(replace(WORK, mapped_contention=share), 8) for share in (0.0, 0.5, 1.0, 1.5)]
    assert times == sorted(times)
    assert times[2] > 1.2 * times[0]
    gentle = replace(WORK, mapped_contention=0.0)
    assert hybrid(gentle, 1) == hybrid(WORK, 1)
    for method in (Method.IMPLICIT, Method.STREAMS):
        assert BY.predict(gentle, method, 4, H200) == BY.predict(WORK, method, 4, H200)


def test_parameters_without_that_contention_stay_as_they_are() -> None:
    bare = replace(H200, explicit_mapped=None)
    assert at_contention(bare, 0.5) is bare
    assert at_contention(H200, 1.0) is H200


@pytest.mark.parametrize(("times", "share"), [(0.8, 0.0), (1.2, 1.5)])
def test_a_time_a_little_out_of_what_can_be_is_the_nearest(times: float, share: float) -> None:
    seconds = times * hybrid(replace(WORK, mapped_contention=share), 8)
    found = with_contention(WORK, 8, seconds, H200, BY)
    assert found.mapped_contention == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(("seconds", "what"), [(1e-5, "less"), (60.0, "more")])
def test_a_time_that_no_hybrid_takes_is_refused(seconds: float, what: str) -> None:
    with pytest.raises(InputError, match=f"is {what} than the .* that Hybrid with 8 streams takes"):
        with_contention(WORK, 8, seconds, H200, BY)


def test_what_no_contention_changes_is_one_time() -> None:
    computing = replace(WORK, kernel_seconds=10.0)
    with pytest.raises(InputError, match=r"more than the 1\d\.\d s that Hybrid with 8 streams"):
        with_contention(computing, 8, 60.0, H200, BY)


def test_predict_takes_hybrid_with_several_streams_and_says_so() -> None:
    true = replace(WORK, mapped_contention=0.4)
    times = {str(method.lower()): seconds for method, seconds in rounds_of(true).items()}
    result = predict(measured=times | {"hybrid:8": hybrid(true, 8)}).result(Silent())
    assert result.ranking.workload.mapped_contention == pytest.approx(0.4, abs=0.02)
    said = r"its writes and copies to the GPU slow each other 0\.(39|4|41) times as much"
    assert re.search(said, result.to_json())
    other = predict(mapped_reads=1.0, mapped_writes=1.0, mapped_contention=0.4).result(Silent())
    assert other.ranking.workload.mapped_contention == 0.4
    with pytest.raises(InputError, match="tells what mapped_contention does; give one of them"):
        predict(mapped_contention=0.4, measured={"hybrid:8": 2e-3, **times}).result(Silent())
    with pytest.raises(InputError, match="bytes go one way alone"):
        predict(h2d_bytes=0, measured={"hybrid:8": 2e-3}).result(Silent())
    with pytest.raises(
        InputError, match="of implicit with one stream; give that, too, or mapped_reads"
    ):
        predict(measured={"hybrid:8": 2e-3}).result(Silent())


def predict(**more: object) -> Predict:
    given = {"h2d_bytes": "64MiB", "d2h_bytes": "64MiB", "kernel_seconds": "200us"}
    return Predict(**(given | {"parameters": "h200"} | more))  # type: ignore[arg-type]


def test_predict_takes_both_and_says_how_often() -> None:
    true = replace(WORK, mapped_reads=2.0, mapped_writes=3.0)
    times = {method.lower(): seconds for method, seconds in rounds_of(true).items()}
    work = predict(measured=times).result(Silent()).ranking.workload
    assert work.mapped_reads == pytest.approx(2.0, rel=0.05)
    assert work.mapped_writes == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"mapped_reads": 2.0}, "measured implicit tells what mapped_reads does"),
        ({}, "without a time of hybrid with one stream; give that, too, or mapped_writes"),
        ({"measured": {"hybrid": 2e-3}}, "of implicit with one stream; give that, too, or"),
        ({"measured": {"implicit": 3e-3, "hybrid:8": 2e-3}}, "without a time of hybrid with one"),
        ({"measured": {"implicit": None}}, "is no time above 0"),
        ({"parameters": None, "machine": "a100-sxm"}, "predict that one first"),
    ],
)
def test_what_contradicts_it_is_refused(more: dict[str, object], what: str) -> None:
    with pytest.raises(InputError, match=what):
        predict(**({"measured": {"implicit": 3e-3}} | more)).result(Silent())


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({"mapped_writes": 3.0}, (2.0, 3.0)),
        ({"d2h_bytes": 0}, (2.0, 1.0)),
        ({"h2d_bytes": 0}, (1.0, 2.0)),
    ],
)
def test_implicit_alone_is_enough_where_the_writes_are_known(
    more: dict[str, object], counts: tuple[float, float]
) -> None:
    sizes = {name: size for name, size in more.items() if name.endswith("bytes")}
    true = replace(WORK, mapped_reads=counts[0], mapped_writes=counts[1], **sizes)  # type: ignore[arg-type]
    seconds = took(true, Method.IMPLICIT)
    work = predict(measured={"implicit": seconds}, **more).result(Silent()).ranking.workload
    assert (work.mapped_reads, work.mapped_writes) == pytest.approx(counts, rel=0.05)
