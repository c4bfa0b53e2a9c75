"""What several GPUs get of host memory at once: made-up machines, stored runs, and predictions."""

import runpy
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from lanescope.codec.fields import build
from lanescope.codec.files import read_json
from lanescope.copies.limit import limits
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import BusyError, InputError
from lanescope.machine import Gpu, HostBandwidth, LinkKind, Machine, NumaNode, load_machine
from lanescope.machine.files import dumps_machine, parse_machine
from lanescope.prediction.contention import (
    CopyRate,
    NotTogether,
    Together,
    expected_gbs,
    fit_contention,
    together_of,
)
from lanescope.prediction.flows import share, shared_links
from lanescope.prediction.parameters import Direction
from lanescope.prediction.predictor import Method, Workload
from lanescope.prediction.rank import rank
from lanescope.prediction.replay import Replay, on_several
from lanescope.prediction.stored_parameters import (
    contended_by,
    dumps,
    parse,
    store_fit,
    with_contention,
)
from lanescope.studies.fit_run import CONTENTION, ROUNDS, Sets, measure_sets, sets_by_round
from lanescope.units.estimate import Estimate
from tests.conftest import experiment_of, gpu_to_host, host_to_gpu
from tests.fake_backend import FakeBackend
from tests.studies.link_parameters import fitted

ROOT = Path(__file__).parents[2]
FOUR = ROOT / "benchmarks/results/h200-x4/bench"
STORED = runpy.run_path(str(ROOT / "benchmarks/model/several_gpus.py"))
H2D, D2H = Direction.H2D, Direction.D2H
#: GB/s of a GPU alone, and with its other direction busy.
ALONE = {H2D: 55.0, D2H: 54.0}
MEMORY = HostBandwidth(0, (0, 1, 2, 3), 190.0, 160.0, 190.0, write_weight=1.5, at_capacity=0.89)


def sets_of(contention, gpus=4, alone=ALONE, sizes=(2, 3)):
    """Return what a machine with such contention gets: each GPU, each group of a size, and all."""
    found = []
    ones = [Together(0, (rate(gpu, way, alone[way]),)) for gpu in range(gpus) for way in alone]
    ones += [Together(0, tuple(rate(gpu, way, alone[way]) for way in alone)) for gpu in range(gpus)]
    small = [group for size in sizes for group in combinations(range(gpus), size)]
    for group in {*small, tuple(range(gpus))}:
        for ways in ((H2D,), (D2H,), (H2D, D2H)):
            wanted = Together(0, tuple(rate(g, way, alone[way]) for way in ways for g in group))
            got = expected_gbs(wanted, ones, contention)
            found.append(
                Together(
                    0,
                    tuple(
                        replace(r, gbs=Estimate.exactly(gbs))
                        for r, gbs in zip(wanted.rates, got, strict=True)
                    ),
                )
            )
    return [*ones, *found]


def rate(gpu, way, gbs):
    return CopyRate(gpu, way, Estimate.exactly(gbs))


def test_what_made_the_rates_is_found():
    (found,) = fit_contention(sets_of([MEMORY]), "a test")
    assert found.gpus == MEMORY.gpus
    assert found.read_gbs == pytest.approx(190.0, rel=0.01)
    assert found.write_gbs == pytest.approx(160.0, rel=0.01)
    assert found.both_gbs == pytest.approx(190.0, rel=0.01)
    assert found.at_capacity == pytest.approx(0.89, abs=0.01)
    assert found.write_weight == pytest.approx(1.5, rel=0.05)
    assert found.source == "a test"


def copies(reads, writes):
    """Return a set of copies to some GPUs and from some."""
    gone = [rate(gpu, H2D, ALONE[H2D]) for gpu in reads]
    return Together(0, (*gone, *(rate(gpu, D2H, ALONE[D2H]) for gpu in writes)))


@pytest.mark.parametrize("at_capacity", [0.75, 0.85, 0.95])
@pytest.mark.parametrize(
    ("reads", "writes"),
    [((0, 1, 2), ()), ((), (1, 2, 3)), ((0, 1), (2, 3)), ((0, 1, 2), (1, 3)), ((0,), (1, 2, 3))],
)
def test_sets_that_no_fit_has_had_are_predicted_from_pairs_and_all(at_capacity, reads, writes):
    """Of memory that is full almost at once, and of some that holds GPUs up long before."""
    made = replace(MEMORY, at_capacity=at_capacity)
    sets = sets_of([made], sizes=(2,))
    one = copies(reads, writes)
    truly = sum(expected_gbs(one, sets, [made]))
    told = sum(expected_gbs(one, sets, fit_contention(sets, "a test")))
    assert told == pytest.approx(truly, rel=0.025)


def test_gpus_that_hold_nobody_up_contend_for_nothing():
    assert fit_contention(sets_of([]), "a test") == ()


def test_a_link_that_two_of_four_gpus_share_is_not_taken_for_memory():
    way = HostBandwidth(0, (0, 1), read_gbs=60.0)
    (found,) = fit_contention(sets_of([way]), "a test")
    assert found.gpus == (0, 1)
    assert found.read_gbs == pytest.approx(60.0)
    assert found.write_gbs is None
    both = fit_contention(sets_of([way, replace(MEMORY, read_gbs=120.0)]), "a test")
    assert [one.gpus for one in both] == [(0, 1), (0, 1, 2, 3)]
    assert both[1].read_gbs == pytest.approx(120.0, rel=0.02)


def noisy(sets, spread, random):
    """Return two rounds of sets, each with a factor of its own."""
    return [
        Together(
            one.node,
            tuple(replace(r, gbs=Estimate.exactly(r.gbs.value * factor)) for r in one.rates),
        )
        for _ in range(2)
        for one in sets
        for factor in [1 + spread * random.standard_normal()]
    ]


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_two_per_cent_is_no_contention(seed):
    assert (
        fit_contention(noisy(sets_of([], gpus=4), 0.02, np.random.default_rng(seed)), "a test")
        == ()
    )


@pytest.mark.parametrize("seed", range(10))
def test_four_switches_below_one_memory_are_found_in_noise(seed):
    switches = [HostBandwidth(0, (2 * i, 2 * i + 1), 60.0, 60.0) for i in range(4)]
    memory = HostBandwidth(0, tuple(range(8)), 200.0, 170.0, 210.0, 1.0, 1.3)
    sets = sets_of([*switches, memory], gpus=8, sizes=(2,))
    found = fit_contention(noisy(sets, 0.01, np.random.default_rng(seed)), "a test")
    assert [one.gpus for one in found] == [*(one.gpus for one in switches), memory.gpus]
    for one in found[:4]:
        assert one.read_gbs == pytest.approx(60.0, rel=0.04)
        assert one.write_gbs == pytest.approx(60.0, rel=0.04)
    whole = found[4]
    assert whole.read_gbs == pytest.approx(200.0, rel=0.04)
    assert whole.write_gbs == pytest.approx(170.0, rel=0.04)


def test_two_gpus_that_are_held_up_both_ways_only():
    two = HostBandwidth(0, (0, 1), both_gbs=180.0, write_weight=1.4)
    sets = sets_of([two], gpus=2)
    found = fit_contention(sets, "a test")
    assert (found[0].read_gbs, found[0].write_gbs) == (None, None)
    assert sum(expected_gbs(sets[-1], sets, found)) == pytest.approx(sets[-1].gbs(), rel=0.01)


def test_reads_and_writes_in_sum_bound_no_reads_alone():
    two = HostBandwidth(0, (0, 1), both_gbs=90.0, at_capacity=0.8)
    sets = sets_of([two], gpus=2)
    assert sum(expected_gbs(copies((0, 1), ()), sets, [two])) == pytest.approx(110.0)
    assert sum(expected_gbs(copies((0,), (1,)), sets, [two])) < 90.0


def test_one_gpu_alone_is_not_held_up(two_gpus):
    two = HostBandwidth(0, (0, 1), 60.0, 60.0, 60.0, at_capacity=0.6)
    (node,) = two_gpus.nodes
    unknown = replace(two_gpus, nodes=(replace(node, memory_gbs=None),))
    alone = experiment_of(host_to_gpu(gpu=1), gpu_to_host(gpu=1))
    assert limits(replace(unknown, host_bandwidth=(two,)), alone) == limits(unknown, alone)
    links = shared_links(replace(unknown, host_bandwidth=(two,)))
    one = [(1, H2D, 5e10), (1, D2H, 5e10)]
    assert share(links, one) == [5e10, 5e10]
    both = share(links, [*one, (0, H2D, 5e10)])
    assert sum(both) < 6e10
    less = sum(share(links.with_contended(0.9), [*one, (0, H2D, 5e10)]))
    assert 0.9 * sum(both) < less < sum(both)
    # little is asked for, and little is lost, with any factor
    for factor in (1.0, 0.9):
        found = share(links.with_contended(factor), [(0, H2D, 1e9), (1, H2D, 1e9)])
        assert found == pytest.approx([1e9, 1e9], rel=0.02)


def test_a_slow_link_of_two_gpus_is_blamed_far_below_what_memory_has(two_gpus):
    """Memory that fills early is no ceiling: the verdict is by the links, as of one GPU."""
    many = HostBandwidth(0, (0, 1), 212.5, 200.0, 190.0, at_capacity=0.92, spread=0.06)
    (node,) = two_gpus.nodes
    unknown = replace(two_gpus, nodes=(replace(node, memory_gbs=None),))
    known = replace(unknown, host_bandwidth=(many,))
    both = experiment_of(host_to_gpu(gpu=0), host_to_gpu(gpu=1))
    assert [one.gbs for one in limits(known, both)] == [one.gbs for one in limits(unknown, both)]
    assert {one.kind for one in limits(known, both)} == {LinkKind.PCIE}
    few = replace(unknown, host_bandwidth=(replace(many, read_gbs=60.0),))
    assert [one.gbs for one in limits(few, both)] == pytest.approx([60 * 1.06 / 2] * 2)


def test_a_set_that_an_engine_took_in_turns_tells_nothing(two_gpus):
    both = experiment_of(host_to_gpu(gpu=0), host_to_gpu(gpu=1))
    results = []
    backend = FakeBackend(lambda copy, batch: [1e-3] * 6)
    measure_all([both], backend, two_gpus, Plan(budget_seconds=0.0), results.append)
    (result,) = results
    assert together_of(result) is not None
    turned = tuple(replace(one, in_turns_with=(1 - n,)) for n, one in enumerate(result.copies))
    assert together_of(replace(result, copies=turned)) is None


@pytest.mark.parametrize("noise", [0.02, 0.05])
def test_new_rounds_are_within_the_spread(noise):
    random = np.random.default_rng(1)
    sets, off, spreads = sets_of([MEMORY]), [], []
    for _ in range(6):
        rounds = noisy(sets, noise, random)
        (found,) = fit_contention(rounds, "a test")
        spreads.append(found.spread)
        for one in noisy(sets, noise, random):
            expected = sum(expected_gbs(one, rounds, [found]))
            if expected < 0.9 * sum(expected_gbs(one, rounds, [])):
                off.append(abs(one.gbs() / expected - 1) / found.spread)
    assert 0.9 <= np.mean(np.array(off) <= 1) <= 1
    assert 1.5 * noise < np.median(spreads) < 2 * noise + 0.06


def test_one_round_of_few_samples_does_not_widen_the_spread():
    sets = sets_of([MEMORY]) * 2
    (found,) = fit_contention(sets, "a test")
    last = sets[-1]
    values = [r.gbs.value for r in last.rates]
    wide = [
        replace(r, gbs=Estimate(v, v / 2, 2 * v)) for r, v in zip(last.rates, values, strict=True)
    ]
    (same,) = fit_contention([*sets[:-1], replace(last, rates=tuple(wide))], "a test")
    assert same.spread == pytest.approx(found.spread, rel=0.05)


@pytest.mark.parametrize(
    ("stored", "within", "most"),
    [("h200-x4/contention", 20, 0.08), ("h100-x2/contention", 16, 0.10)],
)
def test_copies_of_stored_machines_that_no_fit_has_had(stored, within, most):
    """Of 24 sets; what they got themselves differed by up to 9 % from round to round."""
    folder = ROOT / "benchmarks/results" / stored
    fitted = build(Sets, read_json(folder / "fit" / CONTENTION, inner=1))
    found = fit_contention(fitted.sets, "lanescope model fit")
    errors = [
        sum(expected_gbs(one, fitted.sets, found)) / one.gbs() - 1
        for run in sorted((folder / "copies").iterdir())
        for one in STORED["sets_of"](run)
    ]
    assert len(errors) == 24
    assert sum(abs(error) <= 0.05 for error in errors) >= within
    assert max(map(abs, errors)) <= most


def test_stored_runs_that_were_not_fitted():
    """Of other hosts, whose memory is faster and slower; see docs/link-parameters.md."""
    found = fit_contention(STORED["sets_of"](FOUR), "lanescope bench")
    errors = [
        sum(expected_gbs(one, alone, found)) / one.gbs() - 1
        for _, one, alone in STORED["held_out"]()
    ]
    assert len(errors) == 7
    assert sum(abs(error) <= 0.05 for error in errors) >= 4
    assert max(map(abs, errors)) < 0.10


def test_four_gpus_both_ways_take_as_long_as_the_stored_rates_say():
    contention = fit_contention(STORED["sets_of"](FOUR), "lanescope bench")
    known = replace(fitted(), host_bandwidth=contention)
    ranking = rank(Workload(10**10, 10**10, 0.0), known, Replay(), (1, 4, 16))
    machine = load_machine(FOUR / "machine.toml")
    four = on_several(ranking, 4, machine)
    assert four.shared == (
        "the memory of h0 (4 GPUs read at most 213 GB/s, write at most 160 GB/s, read and write at "
        "most 186 GB/s)",
    )
    # 28.1 GB/s from each GPU and 18.4 to it; then the rest to all of them at 48.3
    expected = 10 / 28.1 + (10 - 10 * 18.4 / 28.1) / 48.3
    streams = next(one for one in four.predictions if one.method is Method.STREAMS)
    assert streams.seconds.value == pytest.approx(expected, rel=0.05)
    assert streams.seconds.low < expected < streams.seconds.high
    # without it the GPUs would not hold each other up
    endless = on_several(replace(ranking, parameters=fitted()), 4, machine)
    assert min(p.seconds.value for p in endless.predictions) < 0.6 * expected


def test_limits_of_memory_whose_modules_tell_nothing(two_gpus):
    contention = (HostBandwidth(0, (0, 1), both_gbs=100.0, write_weight=1.5, source="a fit"),)
    (node,) = two_gpus.nodes
    unknown = replace(two_gpus, nodes=(replace(node, memory_gbs=None),), host_bandwidth=contention)
    four = experiment_of(*(of(gpu=gpu) for of in (host_to_gpu, gpu_to_host) for gpu in (0, 1)))
    found = limits(unknown, four)
    assert [one.gbs for one in found] == pytest.approx([20.0, 20.0, 30.0, 30.0])
    assert {one.kind for one in found} == {"memory"}
    assert found[0].reason == "memory of h0, as 2 GPUs read and write it at once (a fit)"
    assert found[0].unknown is None
    # the modules' own peak comes first
    known = replace(two_gpus, host_bandwidth=contention)
    assert limits(known, four) == limits(two_gpus, four)


def test_a_fit_brings_its_contention_to_the_machine(tmp_path, two_gpus):
    key = "Test GPU; unknown CPU; PCIe 5.0 x16"
    known = replace(fitted(), machine_key=key, host_bandwidth=(MEMORY,))
    assert parse(dumps(known), "x") == known
    store_fit(known, tmp_path)
    (found,) = with_contention(two_gpus, tmp_path).host_bandwidth
    assert found == replace(MEMORY, gpus=(0, 1))
    assert with_contention(two_gpus, tmp_path / "none") is two_gpus
    one_gpu = replace(two_gpus, gpus=two_gpus.gpus[:1])
    assert with_contention(one_gpu, tmp_path) is one_gpu
    own = replace(two_gpus, host_bandwidth=(replace(MEMORY, gpus=(0, 1), read_gbs=1.0),))
    assert contended_by(own, known) is own


def test_machine_files_hold_contention(two_gpus):
    machine = replace(two_gpus, host_bandwidth=(replace(MEMORY, gpus=(0, 1), source="a fit"),))
    text = dumps_machine(machine)
    assert parse_machine(text, "m").host_bandwidth == machine.host_bandwidth
    (before,) = parse_machine(text.replace("at_capacity = 0.89\n", ""), "m").host_bandwidth
    assert before.at_capacity == 1.0  # what a file says that was written before there was any
    for old, new, words in (
        ("gpus = [0, 1]", "gpus = [0]", "'gpus' must name two or more of the machine's GPUs"),
        ("gpus = [0, 1]", "gpus = [0, 5]", "'gpus' must name two or more of the machine's GPUs"),
        ("[[host_bandwidth]]\nnode = 0", "[[host_bandwidth]]\nnode = 3", "there is no node 3"),
        ("read_gbs = 190.0", "read_gbs = -1.0", "'read_gbs' is -1"),
        ("spread = 0.0", "spread = 2.0", "'spread' must be a share"),
        ("at_capacity = 0.89", "at_capacity = 1.5", "'at_capacity' must be a share"),
    ):
        assert old in text
        with pytest.raises(InputError, match=r"\[\[host_bandwidth\]\] number 1, .*" + words):
            parse_machine(text.replace(old, new), "m")


def test_sets_are_each_gpu_each_pair_and_all_of_each_node():
    gpus = tuple(Gpu(i, "GPU", node=i // 3) for i in range(4))
    machine = Machine("m", nodes=(NumaNode(0), NumaNode(1)), gpus=gpus)
    names = [one.name for _, one in sets_by_round(machine, "abcd")]
    assert len(names) == 2 * 3 * (3 + 3) + 4 * (3 + 1)  # g3 is alone on its node
    assert "h0 -> g0 256MiB, h0 -> g1 256MiB, h0 -> g2 256MiB" in names
    assert "h0 -> g0 256MiB, g1 -> h0 256MiB, g2 -> h0 256MiB" in names
    down = replace(machine, gpus=(gpus[0], replace(gpus[1], unavailable="It is gone."), gpus[3]))
    assert sets_by_round(down, "abcd") == []


def test_each_round_has_memory_of_its_own_and_eight_gpus_take_few_sets():
    machine = Machine("m", nodes=(NumaNode(0),), gpus=tuple(Gpu(i, "GPU") for i in range(8)))
    sets = sets_by_round(machine, "abcd")
    names = [(backend, one.name) for backend, one in sets]
    assert len(names) == len(set(names)) == 2 * 3 * (8 + 28) + 4 * (2 * 3 + 1)
    assert ("d", "h0 -> g0 256MiB, h0 -> g2 256MiB, h0 -> g5 256MiB") in names


def test_busy_sets_have_a_reason_instead_of_rates(two_gpus):
    def seconds(copy, batch):
        if copy.destination.part == "g1":
            raise BusyError("g1 is in use.", "Wait.")
        return [0.005] * 8

    rounds = sets_by_round(two_gpus, [FakeBackend(seconds)] * ROUNDS)
    found = list(measure_sets(rounds, two_gpus))
    without = [one for one in found if isinstance(one, NotTogether)]
    assert len(found) == 2 * 6 + ROUNDS * 4
    assert len(without) == 2 * 2 + ROUNDS * 2  # g1 to and both ways, alone and in the pair
    assert {one.why for one in without} == {"g1 is in use."}
    with_rates = [one for one in found if isinstance(one, Together)]
    assert with_rates[0].gbs() == pytest.approx((256 << 20) / 0.005 * 1e-9)
