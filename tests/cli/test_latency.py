"""``lanescope bench latency`` without a GPU, and on one."""

import json

import pytest

from tests.native.test_gpu import GPUS

no_gpu = pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")
with_gpu = pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")


def test_help_names_what_is_measured(lanescope_here):
    done = lanescope_here("bench", "latency", "--help")
    assert done.returncode == 0
    assert "round trips" in done.stdout


@no_gpu
def test_without_a_gpu_one_sentence_and_exit_code_4(lanescope_here):
    done = lanescope_here("bench", "latency")
    assert done.returncode == 4
    assert done.stdout == ""
    assert "has no GPU to take latencies of" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_bad_options_are_a_sentence(lanescope_here):
    for arguments in (("--json", "--csv"), ("--budget", "0"), ("--target", "much")):
        done = lanescope_here("bench", "latency", *arguments)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.gpu
@with_gpu
def test_every_latency_of_a_gpu_is_measured(lanescope_here, tmp_path):
    done = lanescope_here(
        "bench", "latency", "--budget", "0.2", "--json", "--out", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    # one copy engine may take a stream's copies before it takes another's
    queued = "It ends only when the load does"
    missing = [(r["experiment"], r["reason"]) for r in rows if r["n"] is None]
    assert not [m for m in missing if "copy-sync" not in m[0] or not m[1].startswith(queued)]
    seconds = {r["experiment"]: r["median_seconds"] for r in rows if r["copy"] == 0 and r["n"]}
    assert seconds["latency/chase/g0/g0"] < seconds["latency/chase/g0/h0"]
    assert seconds["latency/launch/g0"] < seconds["latency/kernel-sync/g0"]
    assert seconds["latency/copy-submit/g0/h2d"] < seconds["latency/copy-sync/g0/h2d"]
    assert all(20e-9 < s < 0.1 for s in seconds.values())
    loads = [r for r in rows if r["experiment"].startswith("latency/loaded/") and r["copy"] == 1]
    assert loads
    assert all(r["gbs"] > 0 for r in loads if r["n"])
