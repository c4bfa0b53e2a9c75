"""``lanescope bench`` as nvbandwidth's users and others type it."""

import json
import re
from collections import Counter

import pytest

from lanescope.cli.app import app
from lanescope.cli.bench import _spread
from lanescope.errors import InputError
from lanescope.store.store import read_run
from tests.copies.test_cases import NAMES
from tests.native.test_gpu import GPUS

FIRST, LOCAL = NAMES[0], NAMES[-1]


def sentence(done, code=2):
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("lanescope: ")
    return done.stderr


def test_the_list_numbers_every_case_and_help_names_the_other_benchmarks(lanescope_here):
    lines = lanescope_here("bench", "-l").stdout.splitlines()
    assert [tuple(line.split()[:2]) for line in lines[: len(NAMES)]] == [
        (str(number), name) for number, name in enumerate(NAMES)
    ]
    further = Counter(line.split()[1].split("_")[0] for line in lines[len(NAMES) :])
    assert further == {"multinode": 13, "streaming": 4, "bisect": 1, "device": 9}
    text = lanescope_here("bench", "--help").stdout
    for name in ("sweep", "latency", "small", "sms"):
        assert re.search(rf"^\W*{name} ", text, re.M)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-p", "memcpy_"), "no case begins with 'memcpy_'"),
        (("-b", "4", "--size", "4MiB"), "say the same; leave out --bufferSize"),
        (("-b", "0"), "--bufferSize takes a whole number from 1"),
        (("--size", "1XB"), "--size takes a size from 1 B"),
        (("--memory", "magnetic"), "write-combined"),
        (("--node", "7"), "no NUMA node 7"),
        (("--format", "xml"), "takes lanescope or nvbandwidth"),
        (("-j", "--csv"), "exclude each other"),
        (("sms", "--size", "0"), "--size takes a size from 1 B"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_options_are_one_sentence(monkeypatch, tmp_path, capsys, arguments, words):
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "runs"))
    described = () if arguments[0] == "sms" else ("--machine", "h200-x2")
    with pytest.raises(InputError) as caught:  # which the process ends with: see test_cli
        app(["bench", *arguments, *described], standalone_mode=False)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "runs").exists()


def test_a_case_that_is_not_there_names_the_nearest(lanescope_here):
    near = sentence(lanescope_here("bench", "--machine", "h200-x2", "-t", FIRST[:-3], LOCAL))
    assert f"no case '{FIRST[:-3]}'" in near
    assert FIRST in near


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
def test_without_a_gpu_it_says_so(lanescope_here):
    assert "has no GPU" in sentence(lanescope_here("bench", "--format", "nvbandwidth"), 4)
    with pytest.raises(InputError, match="no GPU here whose SMs could copy"):
        app(["bench", "sms"], standalone_mode=False)


@pytest.mark.parametrize(
    ("words", "spread"),
    [
        ("-t A B C", "-t A -t B -t C"),
        ("-t A -t B", "-t A -t B"),
        ("-p A B -j -t C D", "-p A -p B -j -t C -t D"),
        ("--testcase A B -b 4", "--testcase A --testcase B -b 4"),
        ("sweep --gpu 1", "sweep --gpu 1"),
        ("-t", "-t"),
    ],
)
def test_options_that_take_many_words(words, spread):
    assert list(_spread(words.split())) == spread.split()


def test_cases_by_name_number_and_prefix_in_nvbandwidths_shape(lanescope_here, tmp_path):
    done = lanescope_here(
        *("bench", "--machine", "h200-x2", "--out", tmp_path / "run", "-b", "64", "-m", "-j"),
        *("--format", "nvbandwidth", "-t", LOCAL, "1", "-p", "host_to_all_memcpy"),
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)["nvbandwidth"]
    names = [LOCAL, NAMES[1], "host_to_all_memcpy_ce", "host_to_all_memcpy_sm"]
    assert [case["name"] for case in content["testcases"]] == names
    run = read_run(tmp_path / "run")
    assert {c.bytes for r in run.results for c in r.experiment.copies} == {64 << 20}
    assert (tmp_path / "run" / "report.html").exists()


def test_a_described_machine_is_predicted(lanescope_here):
    done = lanescope_here("bench", "-t", FIRST, LOCAL, "--machine", "h200-x2", "-v", "--strict")
    assert done.returncode == 3, done.stderr  # it is not told how long a local copy takes
    assert "a good part is latency" in done.stdout
    assert "PREDICTED" in done.stdout
    assert re.search(r" 58\.\d\d +58\.\d\d +116\.\d\d", done.stdout)
