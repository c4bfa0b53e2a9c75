"""lanescope fleet import: results of other programs, judged as pairs."""

from __future__ import annotations

import itertools
import json

from tests.fleet.test_exchange import perftest_text, written


def test_the_command_names_the_slow_node_by_exit_code(tmp_path, lanescope_here):
    results = tmp_path / "results"
    results.mkdir()
    for a, b in itertools.combinations(range(6), 2):
        rate = 300.0 if 4 in (a, b) else 390.0 + a
        written(results, perftest_text(rate), f"n{a}--n{b}.txt")
    out = tmp_path / "out"
    done = lanescope_here("fleet", "import", str(results), "--out", str(out))
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("15 pairs of nodes. Worst: The network of node n4 is slow")
    assert "RDMA_Write BW of perftest, 65536 B, Gb/sec: 15 pairs" in done.stderr
    assert json.loads((out / "report.json").read_text())["suspects"][0]["host"] == "n4"
    assert "n4" in (out / "report.html").read_text()
    one = lanescope_here("fleet", "import", str(results / "n0--n1.txt"))
    assert one.returncode == 0
    assert one.stdout.startswith("1 pair of nodes. Too few to compare with each other.")
    again = lanescope_here("fleet", "report", str(out), "--format", "suspects")
    assert again.stdout.split() == ["n4"]
    refused = lanescope_here("fleet", "import", str(results), "--out", str(out))
    assert refused.returncode == 2
