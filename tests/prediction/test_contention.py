"""What several GPUs get of host memory at once: made-up machines, stored runs, and predictions."""

import runpy
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from lanescope.copies.limit import limits
from lanescope.engine.fake import FakeBackend
from lanescope.errors import BusyError, InputError
from lanescope.machine import Gpu, HostBandwidth, Machine, NumaNode, load_machine
from lanescope.machine.files import dumps_machine, parse_machine
from lanescope.prediction.contention import (
    ROUNDS,
    NotTogether,
    Rate,
    Together,
    contention_sets,
    expected_gbs,
    fit_contention,
    measure_sets,
)
from lanescope.prediction.parameters import Direction
from lanescope.prediction.rank import rank
from lanescope.prediction.replay import Replay, on_several
from lanescope.prediction.stored import contended_by, dumps, parse, store_fit, with_contention
from lanescope.prediction.workload import Method, Workload
from lanescope.units.estimate import Estimate
from tests.conftest import experiment_of, gpu_to_host, host_to_gpu
from tests.studies.link_parameters import fitted

ROOT = Path(__file__).parents[2]
FOUR = ROOT / "benchmarks/results/h200-x4/bench"
STORED = runpy.run_path(str(ROOT / "benchmarks/model/several_gpus.py"))
H2D, D2H = Direction.H2D, Direction.D2H
#: GB/s of a GPU alone, and with its other direction busy.
ALONE = {H2D: 55.0, D2H: 54.0}
MEMORY = HostBandwidth(0, (0, 1, 2, 3), 190.0, 160.0, 190.0, 1.05, 1.5)


def sets_of(contention, gpus=4, alone=ALONE):
    """Return each GPU, each pair and all, as a machine with such contention would have them."""
    found = []
    ones = [Together(0, (rate(gpu, way, alone[way]),)) for gpu in range(gpus) for way in alone]
    ones += [Together(0, tuple(rate(gpu, way, alone[way]) for way in alone)) for gpu in range(gpus)]
    groups = {*combinations(range(gpus), 2), tuple(range(gpus))}
    for group in groups:
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
    return Rate(gpu, way, Estimate.exactly(gbs))


def test_what_made_the_rates_is_found():
    (found,) = fit_contention(sets_of([MEMORY]), "a test")
    assert found.gpus == MEMORY.gpus
    assert found.read_gbs == pytest.approx(190.0, rel=0.01)
    assert found.write_gbs == pytest.approx(160.0, rel=0.01)
    assert found.mixed_gbs == pytest.approx(MEMORY.mixed_gbs, rel=0.02)
    assert found.write_weight == pytest.approx(1.5, rel=0.05)
    assert found.source == "a test"


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


def noisy(sets, share, seed):
    """Return two rounds of sets, each with a factor of its own."""
    random = np.random.default_rng(seed)
    return [
        Together(
            one.node,
            tuple(replace(r, gbs=Estimate.exactly(r.gbs.value * factor)) for r in one.rates),
        )
        for _ in range(2)
        for one in sets
        for factor in [1 + share * random.standard_normal()]
    ]


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_two_per_cent_is_no_contention(seed):
    assert fit_contention(noisy(sets_of([], gpus=4), 0.02, seed), "a test") == ()


@pytest.mark.parametrize("seed", range(10))
def test_four_switches_below_one_memory_are_found_in_noise(seed):
    switches = [HostBandwidth(0, (2 * i, 2 * i + 1), 60.0, 60.0) for i in range(4)]
    memory = HostBandwidth(0, tuple(range(8)), 200.0, 170.0, 210.0, 1.0, 1.3)
    sets = sets_of([*switches, memory], gpus=8)
    found = fit_contention(noisy(sets, 0.01, seed), "a test")
    assert [one.gpus for one in found] == [*(one.gpus for one in switches), memory.gpus]
    for one in found[:4]:
        assert one.read_gbs == pytest.approx(60.0, rel=0.04)
        assert one.write_gbs == pytest.approx(60.0, rel=0.04)
    whole = found[4]
    assert whole.read_gbs == pytest.approx(200.0, rel=0.04)
    assert whole.write_gbs == pytest.approx(170.0, rel=0.04)


def test_two_gpus_that_are_held_up_both_ways_only():
    two = HostBandwidth(0, (0, 1), both_gbs=180.0, write_weight=1.4)
    (found,) = fit_contention(sets_of([two], gpus=2), "a test")
    assert (found.read_gbs, found.write_gbs) == (None, None)
    assert found.both_gbs == pytest.approx(180.0)


def test_stored_runs_that_were_not_fitted():
    """The two sets further off are of hosts whose memory was slower; see docs/model.md."""
    found = fit_contention(STORED["sets_of"](FOUR), "lanescope bench")
    errors = [
        sum(expected_gbs(one, alone, found)) / one.gbs() - 1
        for _, one, alone in STORED["held_out"]()
    ]
    assert len(errors) == 7
    assert sum(abs(error) <= 0.05 for error in errors) >= 5
    assert max(map(abs, errors)) < 0.15


def test_four_gpus_both_ways_take_as_long_as_the_stored_rates_say():
    contention = fit_contention(STORED["sets_of"](FOUR), "lanescope bench")
    known = replace(fitted(), host_bandwidth=contention)
    ranking = rank(Workload(10**10, 10**10, 0.0), known, Replay(), (1, 4, 16))
    machine = load_machine(FOUR / "machine.toml")
    four = on_several(ranking, 4, machine)
    assert four.shared == (
        "the memory of h0 (4 GPUs read 193 GB/s, write 157 GB/s, read and write 186 GB/s)",
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
    for old, new, words in (
        ("gpus = [0, 1]", "gpus = [0]", "'gpus' must name two or more of the machine's GPUs"),
        ("gpus = [0, 1]", "gpus = [0, 5]", "'gpus' must name two or more of the machine's GPUs"),
        ("[[host_bandwidth]]\nnode = 0", "[[host_bandwidth]]\nnode = 3", "there is no node 3"),
        ("read_gbs = 190.0", "read_gbs = -1.0", "'read_gbs' is -1"),
        ("spread = 0.0", "spread = 2.0", "'spread' must be a share"),
    ):
        assert old in text
        with pytest.raises(InputError, match=r"\[\[host_bandwidth\]\] number 1, .*" + words):
            parse_machine(text.replace(old, new), "m")


def test_sets_are_each_gpu_each_pair_and_all_of_each_node():
    gpus = tuple(Gpu(i, "GPU", node=i // 3) for i in range(4))
    machine = Machine("m", nodes=(NumaNode(0), NumaNode(1)), gpus=gpus)
    names = [one.name for one in contention_sets(machine)]
    assert len(names) == 3 * (3 + 3 + 1)  # g3 is alone on its node
    assert "h0 -> g0 256MiB, h0 -> g1 256MiB, h0 -> g2 256MiB" in names
    down = replace(machine, gpus=(gpus[0], replace(gpus[1], unavailable="It is gone."), gpus[3]))
    assert contention_sets(down) == []


def test_busy_sets_have_a_reason_instead_of_rates(two_gpus):
    def seconds(copy, batch):
        if copy.destination.part == "g1":
            raise BusyError("g1 is in use.", "Wait.")
        return [0.005] * 8

    found = list(measure_sets(contention_sets(two_gpus), FakeBackend(seconds), two_gpus))
    without = [one for one in found if isinstance(one, NotTogether)]
    assert len(found) == ROUNDS * 9
    assert len(without) == ROUNDS * 4  # g1 to and both ways, alone and in the pair
    assert {one.why for one in without} == {"g1 is in use."}
    with_rates = [one for one in found if isinstance(one, Together)]
    assert with_rates[0].gbs() == pytest.approx((256 << 20) / 0.005 * 1e-9)
