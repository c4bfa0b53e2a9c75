"""What the rule gains on made-up workloads, with the cost model of docs/compression-rule.md."""

import json
import subprocess

import pytest

from tests.native.programs import program

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def all_gains():
    """Of each workload how many times as fast as raw each decider is, and the peak of memory."""
    words = [program("rule_workloads"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def gains(all_gains):
    return {name: of for name, of in all_gains.items() if name != "peak_bytes"}


def test_no_decider_is_faster_than_what_is_best(gains):
    for name, of in gains.items():
        assert of["best"] > 0.9999 * max(1, of["always"], of["rule"], of["no_looks"]), name


def test_it_never_costs_more_than_a_hundredth_of_the_time(gains):
    for name, of in gains.items():
        assert of["least"] > 0.99, name


@pytest.mark.parametrize("name", ["stalls-1", "stalls-5", "stalls-1-host", "stalls-5-host"])
def test_stalls_do_not_take_the_gain(gains, name):
    assert gains[name]["least_of_always"] > 0.975


@pytest.mark.parametrize("name", ["mixed-peer", "mixed-host", "mixed-stalls"])
def test_nor_do_some_arrays_that_are_never_smaller(gains, name):
    of = gains[name]
    assert of["least_of_always"] > 0.97
    assert of["rule"] - 1 > 0.9 * (of["always"] - 1)


@pytest.mark.parametrize(
    "name", ["ratio-drifts", "link-drifts", "link-drifts-peer", "late-sparse", "bursts", "noisy"]
)
def test_it_comes_back_after_changes(gains, name):
    assert gains[name]["rule"] > 0.95 * gains[name]["always"]


def test_tags_are_learned_together_until_they_differ(gains):
    assert gains["new-tags-good"]["least_of_always"] > 0.99
    assert gains["new-tags-stalls"]["least_of_always"] > 0.97
    assert gains["two-tags"]["rule"] > 0.99 * gains["two-tags"]["best"]
    assert gains["twenty-tags"]["rule"] > 0.98 * gains["twenty-tags"]["best"]


def test_the_codec_is_found_at_once(gains):
    """Of 120 transfers two are timed as they are."""
    assert gains["relu"]["rule"] > 0.98 * gains["relu"]["best"]
    assert gains["relu"]["no_looks"] > 0.97 * gains["relu"]["best"]


def test_a_million_tags_take_little_memory(all_gains):
    assert all_gains["million-tags"]["rule"] > 1.3
    assert 0 < all_gains["peak_bytes"] < 64 << 20
