"""The micro-benchmarks of TARUC and their suites as a user without a GPU meets them."""

import signal

import pytest

from lanescope.store.folder import State
from lanescope.store.store import read_run
from lanescope.studies.taruc.parameters import parameters_named
from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S, until

SHORT = """
steps_per_decade = 2
overhead.run = false
nurma.run = false
contention.run = false
host.min_bytes = 8000
host.max_bytes = "8MB"
"""


def sentence(done, code=2):
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture
def short(tmp_path):
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--params", "taruk"), "did you mean taruc"),
        (("--params", "none.toml"), "cannot read parameter file none.toml"),
        (("--params", "default", "-t", "3"), "leave out --testcase"),
        (("--params", "default", "--size", "1MB"), "leave out --size"),
        (("--params", "default", "-b", "3"), "leave out --bufferSize"),
        (("--params", "default", "--resume"), "give --out, too"),
        (("--params", "default", "--json", "--csv"), "exclude each other"),
        (("--params", "default", "host"), "or 'host'"),
        (("--resume",), "give --params, too"),
        (("params", "none.in"), "cannot read parameter file"),
        (("host", "--pattern", "up"), "repeated, ascending, descending or random"),
        (("host", "--caches", "cold"), "warm or flushed"),
        (("host", "--memory", "ram"), "pageable"),
        (("host", "--min", "1GB", "--max", "1MB"), "which is less"),
        (("host", "--min", "x"), "takes a size from 1 B"),
        (("nurma", "--gap", "7"), "in steps of 8 B"),
        (("contention", "--budget", "0"), "above 0 and up to 3600"),
    ],
)
def test_bad_options_are_one_sentence(lanescope_here, arguments, words):
    assert words in sentence(lanescope_here("bench", *arguments))


def test_a_part_that_is_not_there_is_named(lanescope_here):
    assert "no NUMA node 77" in sentence(lanescope_here("bench", "host", "--node", "77"), 4)
    assert "no GPU 77" in sentence(lanescope_here("bench", "overhead", "--gpu", "77"), 4)


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
def test_without_a_gpu_it_says_so(lanescope_here):
    for verb in ("hostdev", "peer"):
        assert "has no GPU to copy to and from" in sentence(lanescope_here("bench", verb), 4)
    assert "no pinned memory" in sentence(lanescope_here("bench", "host", "--memory", "pinned"))


def test_help_tells_of_all(lanescope_here):
    text = lanescope_here("bench", "--help").stdout
    for word in ("overhead", "hostdev", "peer", "nurma", "contention", "--params", "--resume"):
        assert word in text
    for verb in ("overhead", "host", "hostdev", "peer", "nurma", "contention", "params"):
        assert "--out" in lanescope_here("bench", verb, "--help").stdout


@pytest.mark.native  # four seconds
def test_points_are_listed(lanescope_here):
    done = lanescope_here("bench", "--params", "taruc", "--list", "--machine", "taruc-2017")
    assert done.returncode == 0
    assert "host/h0-h1/by-h1/pageable/ascending/warm/10 " in done.stdout
    assert "points, about" in done.stderr
    one = lanescope_here(
        "bench", "nurma", "--list", "--machine", "taruc-2017", "--node", "1"
    ).stdout
    assert all(line.startswith("nurma/h1/") for line in one.splitlines())


def test_parameters_are_converted(lanescope_here, tmp_path):
    from tests.studies.taruc.test_file import in_lines

    old, new = tmp_path / "old.in", tmp_path / "new.toml"
    old.write_text("\n".join(in_lines()))
    assert lanescope_here("bench", "params", old, "--out", new).stdout == f"{new}\n"
    assert parameters_named(str(new)).parameters == parameters_named(str(old)).parameters
    old.write_text("\n".join(in_lines()[:5]))
    assert "is missing" in sentence(lanescope_here("bench", "params", old))
    printed = lanescope_here("bench", "params").stdout
    assert "# samples of each point" in printed


def run_of(folder):
    return read_run(folder)


@pytest.mark.native  # eight seconds
def test_a_suite_goes_on_after_each_cut(lanescope_here, tmp_path, short):
    folder = tmp_path / "suite"
    arguments = ("bench", "--params", short, "--out", folder, "--resume", "--budget", "0.05")

    def stored():
        return list((folder / "results").glob("0*.parquet"))

    kept = {}
    for sent, state in ((signal.SIGINT, State.INTERRUPTED), (signal.SIGKILL, State.RUNNING)):
        enough = len(stored()) + 3
        started = lanescope_here.start(*arguments)
        until(lambda enough=enough: len(stored()) >= enough)
        started.send_signal(sent)
        started.communicate(timeout=PATIENCE_S)
        before = run_of(folder)
        assert before.manifest.state is state
        assert all(r == kept.get(r.experiment.name, r) for r in before.results)
        finished = [r for r in before.results if r.stop and r.stop.reason != "interrupted"]
        assert len(finished) > len(kept)
        kept = {r.experiment.name: r for r in finished}

    other = tmp_path / "other.toml"
    other.write_text(SHORT + "burst = true\n".replace("burst", "\nburst", 1))
    refused = lanescope_here("bench", "--params", other, "--out", folder, "--resume")
    assert "other parameters (burst)" in sentence(refused)
    assert len(run_of(folder).results) == len(before.results)

    done = lanescope_here(*arguments)
    assert done.returncode in (0, 1), done.stderr
    after = run_of(folder)
    assert after.manifest.state is State.COMPLETE
    assert all(r == kept.get(r.experiment.name, r) for r in after.results)
    assert len(after.results) > len(before.results)
    assert "host" in done.stdout

    again = lanescope_here(*arguments)
    assert again.returncode == 0
    assert "nothing is left to measure" in again.stderr
    assert "go on with this one by --resume" in sentence(lanescope_here(*arguments[:5]))
