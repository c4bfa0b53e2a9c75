"""The rule over a simulated device: what it finds out, what that costs, and when it gives in."""

import threading
from dataclasses import replace

import pytest

from lanescope._core import native
from lanescope.compression.deciding import Transfer, TransferOutcome
from lanescope.compression.rule import CODECS_BY_DTYPE, CodecCost, LinkCost, Rule
from tests.compression.simulated import MIB, NVLINK, PCIE, Simulated

EVERY = native.RULE_EVERY
FAST, SLOW = CodecCost(600, 900, 30e-6), CodecCost(150, 200, 40e-6)


def transfer(size=64 * MIB, tag="t", dtype="bfloat16", path="g0>g1"):
    return Transfer(tag, path, dtype, size)


def timed(one):
    """Return a rule that knows what such a transfer takes as it is."""
    rule = Rule()
    for _ in range(2):
        rule.learn(one, rule.decide(one), TransferOutcome(1.2e-3, one.bytes, one.bytes, False))
    return rule


@pytest.mark.parametrize("link", [NVLINK, PCIE])
@pytest.mark.parametrize("cost", [FAST, SLOW])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("jitter", "late"), [(0.0, 0), (0.03, 0), (0.03, 5)])
def test_random_data_costs_at_most_one_percent(link, cost, dtype, jitter, late):
    device = Simulated(link, cost, jitter=jitter, late=late)
    rule = Rule()
    device.send(rule, transfer(dtype=dtype), 1000)
    assert device.overhead < 0.01
    assert device.compressed > 0 or link == NVLINK


@pytest.mark.parametrize(("link", "cost"), [(NVLINK, SLOW), (PCIE, FAST), (PCIE, SLOW)])
def test_random_data_of_many_tags_cost_at_most_one_percent(link, cost):
    device = Simulated(link, cost)
    rule = Rule()
    for number in range(20):
        device.send(rule, transfer(tag=f"t{number}"), 50)
    assert device.overhead < 0.01


@pytest.mark.parametrize(("link", "least"), [(NVLINK, 1.18), (PCIE, 1.3)])
def test_what_becomes_smaller_is_compressed(link, least):
    device = Simulated(link, FAST, {"exponent": 1.4}, jitter=0.02)
    rule = Rule()
    device.send(rule, transfer(512 * MIB), 200)
    assert device.raw_seconds / device.seconds > least
    # at first one as it is and a trial of each of two codecs, then one in 64 as it is
    assert device.compressed > 190


def test_predictions_become_right():
    device = Simulated(NVLINK, FAST, {"exponent": 1.4})
    rule = Rule()
    one = transfer(512 * MIB)
    last = [made for made in device.send(rule, one, 100)[-20:] if made.codec == "exponent"]
    assert len(last) > 17  # the others are trials
    took = device.outcome(one, last[-1]).seconds
    assert all(made.compressed_seconds == pytest.approx(took, rel=0.01) for made in last)


def test_outcomes_may_come_late():
    device = Simulated(PCIE, FAST, {"exponent": 1.4}, late=10)
    rule = Rule()
    device.send(rule, transfer(), 200)
    assert device.compressed > 170  # while a trial's outcome is awaited, the best known goes on
    device.ratios = {}
    assert sum(one.compress for one in device.send(rule, transfer(), 200)) < 30


def test_the_codec_that_is_best_is_found():
    device = Simulated(PCIE, FAST, {"delta": 1.1, "exponent": 1.3})
    made = device.send(Rule(), transfer(dtype="float32"), 60)
    assert {one.codec for one in made[-20:]} == {"exponent"}


@pytest.mark.parametrize(("dtype", "most"), [("bfloat16", 60), ("float32", 60), ("uint8", 4)])
def test_zeros_are_found(dtype, most):
    device = Simulated(PCIE, FAST, {"zvc": 1.8})
    made = device.send(Rule(), transfer(dtype=dtype), 300)
    assert [one.codec for one in made].index("zvc") < most
    assert made[-1].codec == "zvc"
    assert device.raw_seconds / device.seconds > 1.4


@pytest.mark.parametrize("looks", [False, True])
def test_data_that_change_turn_it_off_and_on_again(looks):
    device = Simulated(PCIE, FAST, {"exponent": 1.4}, looks=looks)
    rule = Rule()
    assert device.send(rule, transfer(), 200)[-1].compress
    device.ratios = {}
    made = device.send(rule, transfer(), 400)
    assert sum(one.compress for one in made) < 25
    device.ratios = {"exponent": 1.4}
    assert sum(one.compress for one in device.send(rule, transfer(), 600)) > 300


def test_slow_first_times_do_not_matter():
    """Kernels have to be loaded, and memory to be mapped."""
    rule, device = Rule(), Simulated(PCIE, FAST, {"exponent": 1.4})
    one = transfer()
    seen = set()
    for _ in range(600):
        decision = rule.decide(one)
        outcome = device.outcome(one, decision)
        if decision.codec not in seen:
            outcome = replace(outcome, seconds=0.1)
        seen.add(decision.codec)
        rule.learn(one, decision, outcome)
    assert decision.compress
    assert seen >= {"raw", "exponent", "delta"}


def test_a_load_turns_it_off_and_its_end_on_again():
    device = Simulated(PCIE, FAST, {"exponent": 1.4})
    rule = Rule()
    device.send(rule, transfer(), 100)
    device.cost = FAST.slower(20)
    made = device.send(rule, transfer(), 300)
    # two in a row that are far slower than expected: no accident
    assert sum(one.compress for one in made) < 8
    assert made[1].compress
    assert "took longer the last times" in made[2].reason
    device.cost = FAST
    made = device.send(rule, transfer(), 2000)
    assert made[-1].compress
    assert sum(one.compress for one in made) > 1000


def test_a_codec_that_is_far_too_slow_costs_two_trials_and_then_little():
    device = Simulated(PCIE, FAST.slower(60))
    rule = Rule()
    device.send(rule, transfer(), 5000)
    assert device.overhead < 0.02
    before = device.seconds - device.raw_seconds
    device.send(rule, transfer(), 20_000)
    assert device.seconds - device.raw_seconds - before < 0.006 * 25_000 * 1.22e-3


def test_two_losses_turn_it_off_for_that_size_only_and_one_does_not():
    device = Simulated(PCIE, FAST, {"exponent": 1.4})
    rule = Rule()
    large, small = transfer(512 * MIB), transfer(64 * MIB)
    device.send(rule, large, 20)
    device.send(rule, small, 20)
    for _ in range(2):
        decision = rule.decide(small)
        assert decision.compress
        rule.learn(small, decision, TransferOutcome(0.1, small.bytes, small.bytes // 2, True))
    assert not rule.decide(small).compress
    # two may go as they are, as the link may have changed
    assert any(rule.decide(large).compress for _ in range(3))
    made = device.send(rule, small, 1000)  # and not for ever
    assert sum(one.compress for one in made) > 500


@pytest.mark.parametrize("link", [NVLINK, PCIE])
@pytest.mark.parametrize("every", [100, 20])
def test_stalls_of_either_kind_of_transfer_do_not_turn_it_off(link, every):
    device = Simulated(link, FAST, {"exponent": 1.4})
    rule = Rule()
    one = transfer(512 * MIB)
    made = []
    for number in range(500):
        decision = rule.decide(one)
        outcome = device.outcome(one, decision)
        if number % every == every - 1:
            outcome = replace(outcome, seconds=3 * outcome.seconds)
        rule.learn(one, decision, outcome)
        made.append(decision.compress)
    assert sum(made) > 470


def test_some_arrays_that_no_codec_makes_smaller_do_not_turn_it_off():
    device = Simulated(PCIE, FAST)
    rule = Rule()
    made = []
    for number in range(500):
        device.ratios = {} if number % 10 == 3 else {"exponent": 1.4}
        made += device.send(rule, transfer())
    assert sum(one.compress for one in made) > 470


def test_new_tags_go_as_others_do():
    device = Simulated(PCIE, FAST, {"exponent": 1.4})
    rule = Rule()
    made = []
    for number in range(200):
        made += device.send(rule, transfer(tag=f"t{number}"))
    assert sum(one.compress for one in made) > 190
    assert "makes arrays like it 1.40 times as small" in made[-1].reason
    device.ratios = {}
    for number in range(200, 1200):
        device.send(rule, transfer(tag=f"t{number}"))
    assert not rule.decide(transfer(tag="another")).compress


def test_an_evicted_tag_begins_with_what_all_know():
    """The rule holds so many tags, those used last."""
    device = Simulated(PCIE, FAST, {"exponent": 1.4})
    rule = Rule()
    device.send(rule, transfer(tag="first"), 20)
    device.ratios = {"exponent": 2.0}
    for number in range(1500):
        device.send(rule, transfer(tag=f"t{number}"))
    assert "arrays like it 2.00" in rule.decide(transfer(tag="first")).reason


def test_blocks_tell_the_codec_before_its_first_trial():
    device = Simulated(PCIE, FAST, {"zvc": 1.8}, looks=True)
    made = device.send(Rule(), transfer(), 20)
    assert [one.codec for one in made] == ["raw"] * 2 + ["zvc"] * 18
    assert made[2].reason == "zvc makes blocks of such arrays 1.80 times as small, a trial"
    assert device.looked == 1


def test_blocks_that_no_codec_makes_smaller_are_hardly_ever_tried():
    device = Simulated(PCIE, SLOW, looks=True)
    made = device.send(Rule(), transfer(), 1000)
    assert not any(one.compress for one in made[:64])
    assert 0 < device.compressed < 16  # as blocks may be unlike the others
    assert device.overhead < 0.003
    assert 2 < device.looked < 25  # again, now and then


@pytest.mark.parametrize(
    ("ratio", "of_blocks", "compressed"), [(1.4, 1.0, range(600, 1000)), (1.0, 2.0, range(1, 40))]
)
def test_blocks_that_are_unlike_the_others_are_noticed(ratio, of_blocks, compressed):
    class Misled(Simulated):
        def look(self, decider, transfer):
            self.ratios = {"exponent": of_blocks}
            super().look(decider, transfer)
            self.ratios = {"exponent": ratio}

    device = Misled(PCIE, FAST, looks=True)
    device.send(Rule(), transfer(), 1000)
    assert device.compressed in compressed


def test_a_sample_that_could_not_be_had_leaves_trials():
    rule = timed(transfer())
    assert rule.wants_sample(transfer())
    assert "looked at first" in rule.decide(transfer()).reason
    assert not rule.wants_sample(transfer())
    rule.take_sample(transfer(), [])
    assert rule.decide(transfer()).compress


def test_a_sample_that_never_comes_is_not_waited_for():
    rule = timed(transfer())
    assert rule.wants_sample(transfer())
    assert any(rule.decide(transfer()).compress for _ in range(10))


def test_tags_that_differ_are_looked_at():
    device = Simulated(PCIE, FAST, looks=True)
    rule = Rule()
    good = []
    for number in range(400):
        device.ratios = {} if number % 2 else {"exponent": 1.4}
        made = device.send(rule, transfer(tag=f"t{number % 8}"))
        good += made if number % 2 == 0 and number > 200 else []
    assert all(one.compress for one in good if "time that again" not in one.reason)
    assert device.overhead < -0.08


@pytest.mark.parametrize("dtype", list(CODECS_BY_DTYPE))
def test_constant_arrays_go_compressed_of_each_type(dtype):
    device = Simulated(PCIE, FAST, dict.fromkeys(CODECS_BY_DTYPE[dtype], 2000.0), looks=True)
    made = device.send(Rule(), transfer(dtype=dtype), 100)
    assert sum(one.compress for one in made) == 98


def test_decimals_are_found_by_a_look():
    device = Simulated(PCIE, FAST, {"alp": 5.9, "delta": 1.31}, looks=True)
    made = device.send(Rule(), transfer(dtype="float64"), 100)
    assert {one.codec for one in made[4:]} == {"alp"}
    assert device.overhead < -0.6


@pytest.mark.parametrize("looks", [True, False])
def test_a_codec_for_decimals_is_not_tried_where_no_look_says_that_it_suits(looks):
    device = Simulated(PCIE, FAST, {"alp": 1.0, "delta": 1.31}, looks=looks)
    made = device.send(Rule(), transfer(dtype="float64"), 1000)
    assert "alp" not in {one.codec for one in made}
    assert made[-1].codec == "delta"


def test_a_faster_link_is_noticed():
    """It was slow when it was timed; now it is so fast that nothing is gained."""
    slow = LinkCost(20.0)
    device = Simulated(slow, SLOW, {"exponent": 1.4})
    rule = Rule()
    assert device.send(rule, transfer(), 100)[-1].compress
    device.link = LinkCost(150.0)
    made = device.send(rule, transfer(), 2000)
    assert not made[-1].compress


@pytest.mark.parametrize(("size", "link"), [(64 << 10, PCIE), (MIB, NVLINK), (0, PCIE), (1, PCIE)])
def test_small_ones_are_never_tried(size, link):
    device = Simulated(link, FAST, {"exponent": 4.0})
    made = device.send(Rule(), transfer(size), 200)
    assert device.compressed == 0
    if size:
        assert "too small for this link" in made[-1].reason


def test_a_link_that_is_known_needs_no_transfer_to_time_it():
    class Known:
        def link(self, path):
            return PCIE if path == "g0>host" else None

    rule = Rule(Known())
    assert rule.decide(transfer(path="g0>host")).compress
    first = rule.decide(transfer(path="g0>g1"))
    assert not first.compress
    assert "nothing is known" in first.reason


def test_while_a_trial_is_under_direction_the_others_go_as_they_are():
    rule = timed(transfer())
    made = [rule.decide(transfer()) for _ in range(EVERY)]
    assert [one.compress for one in made] == [True] + [False] * (EVERY - 1)
    assert "awaited" in made[1].reason
    # a trial that nobody tells of is not waited for for ever
    assert rule.decide(transfer()).compress


def test_no_room_is_no_outcome_of_a_trial():
    one = transfer()
    rule = timed(one)
    trial = rule.decide(one)
    assert trial.compress
    rule.learn(one, trial, TransferOutcome(1.2e-3, one.bytes, one.bytes, False))
    assert rule.decide(one).compress


def test_tags_types_and_paths_are_kept_apart():
    device = Simulated(PCIE, FAST, {"exponent": 1.4})
    rule = Rule()
    device.send(rule, transfer(tag="weights"), 20)
    device.ratios = {}
    device.send(rule, transfer(tag="noise"), 20)
    assert rule.decide(transfer(tag="weights")).compress
    assert not rule.decide(transfer(tag="noise")).compress
    assert not rule.decide(transfer(tag="weights", path="g1>g0")).compress
    other = transfer(tag="weights", dtype="complex64")
    assert "no codec takes complex64" in rule.decide(other).reason


def test_the_user_can_name_the_only_codec():
    device = Simulated(PCIE, FAST, {"gfc": 1.4, "delta": 3.0})
    made = device.send(Rule(codec="gfc"), transfer(dtype="float64"), 30)
    assert {m.codec for m in made if m.compress} == {"gfc"}


def test_every_decision_has_one_line():
    device = Simulated(PCIE, FAST, {"exponent": 1.4}, jitter=0.1)
    made = device.send(Rule(), transfer(), 300)
    assert all(one.reason and "\n" not in one.reason for one in made)


def test_the_same_transfers_lead_to_the_same_decisions():
    def decisions():
        device = Simulated(NVLINK, SLOW, {"exponent": 1.4}, jitter=0.2)
        return device.send(Rule(), transfer(), 500)

    assert decisions() == decisions()


def test_many_threads_may_ask_and_tell():
    rule = Rule()
    wrong = []

    def work(number):
        device = Simulated(PCIE, FAST, {"exponent": 1.4})
        try:
            made = device.send(rule, transfer(tag=f"t{number % 2}"), 200)
        except Exception as error:
            wrong.append(error)
        else:
            if not any(one.compress for one in made):
                wrong.append(made[-1])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


@pytest.mark.parametrize("first_seconds", [None, 0.1])
def test_a_codec_that_somebody_else_chose_is_learnt(first_seconds):
    """As a channel does that was told to use one; the first time may be slow."""
    rule, device = Rule(), Simulated(PCIE, FAST, {"gfc": 1.5})
    one = transfer(dtype="float32")
    for _ in range(20):
        decision = rule.decide(one)
        if decision.compress:
            decision = replace(decision, codec="gfc")
        outcome = device.outcome(one, decision)
        if decision.compress and first_seconds is not None:
            outcome, first_seconds = replace(outcome, seconds=first_seconds), None
        rule.learn(one, decision, outcome)
    assert decision.compress
    assert decision.codec == "gfc"
    assert "gfc makes it 1.50 times as small" in decision.reason


def test_a_codec_that_does_not_take_the_values_is_never_tried():
    rule = Rule(codec="gfc")
    for dtype, taken in (("int32", False), ("float64", True), ("float32", True)):
        transfer = Transfer("", "g0>g1", dtype, 256 << 20)
        for _ in range(3):
            decision = rule.decide(transfer)
            raw = TransferOutcome(1e-3, transfer.bytes, transfer.bytes, False)
            rule.learn(transfer, decision, raw)
        assert decision.compress is taken, decision.reason
