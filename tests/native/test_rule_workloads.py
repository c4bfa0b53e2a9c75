"""What the rule gains on workloads that are made up, with the cost model of docs/compression-rule.md."""

import json
import subprocess

import pytest

from tests.native.programs import program

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def gains():
    """Of each workload how many times as fast as raw each way to decide is."""
    words = [program("rule_workloads"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_no_way_to_decide_is_faster_than_the_oracle(gains):
    for name, of in gains.items():
        if name != "peak_bytes":
            assert of["oracle"] > 0.9999 * max(1, of["on"], of["rule"]), name
