"""``lanescope model predict`` as a user types it."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import lanescope
import lanescope.machine as lanescope_machine
from lanescope.cli.app import app
from lanescope.errors import InputError
from lanescope.machine.discovery import discover
from lanescope.prediction.stored_parameters import FILE, machine_key, save
from tests.studies.link_parameters import fitted

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "model.md").read_text()
PREDICT = DOCUMENT.split("## `predict`")[1].split("\n## ")[0]
FILES = Path(lanescope_machine.__file__).parent / "library"
WORK = ("--h2d", "700MB", "--d2h", "350MB", "--kernel", "12ms", "--parameters")


def predicted(capsys, *arguments):
    app(["model", "predict", *arguments], standalone_mode=False)
    return capsys.readouterr().out


def as_json(capsys, *arguments):
    return json.loads(predicted(capsys, *arguments, "--json"))


@pytest.mark.parametrize(
    ("command", "answer"),
    re.findall(r"^```\n\$ lanescope (.+?)\n(.+?)\n```$", PREDICT, re.M | re.S),
    ids=lambda text: text[:40],
)
def test_the_document_shows_what_is_printed(lanescope_here, command, answer):
    done = lanescope_here(*shlex.split(command))
    printed = done.stderr if answer.startswith("lanescope: ") else done.stdout
    assert [line.rstrip() for line in printed.rstrip().splitlines()] == answer.splitlines()
    assert done.returncode == (2 if answer.startswith("lanescope: ") else 0)


def test_the_document_has_every_option(capsys):
    app(["model", "predict", "--help"], standalone_mode=False)
    options = set(re.findall(r"--[a-z][a-z0-9-]+", capsys.readouterr().out)) - {"--help"}
    told = set(re.findall(r"--[a-z][a-z0-9-]+", PREDICT))
    assert len(options) >= 17
    assert options == told & options


def test_the_program_in_the_document_runs(capsys):
    (program,) = re.findall(r"^```python\n(.+?)^```", PREDICT, re.M | re.S)
    exec(program, {})
    assert capsys.readouterr().out.startswith("Implicit Estimate(value=0.058")


def test_what_the_terminal_shows(capsys):
    text = predicted(capsys, *WORK, "gtx-titan", "--on", "pcie4x8", "--flops", "4e9")
    assert "Predicted by equations for gtx-titan" in text
    assert text.count("(predicted)") == 4
    row = r"^ (\w+) {3,}(\S+) {3,}(.+?) {3,}(.+?) {3,}.+? {3,}(\S+) *$"
    here, elsewhere = text.split("On other links (predicted)")
    rows = [found for found in re.findall(row, here, re.M) if found[0] != "method"]
    assert [row[0] for row in rows] == ["Implicit", "Hybrid", "Streams", "Explicit"]
    for method in ("Implicit", "Hybrid", "Streams", "Explicit"):  # as it is, and on the other
        assert len(re.findall(rf"^ {method} ", elsewhere, re.M)) == 2
    assert all(" to " in row[3] for row in rows)
    assert rows[0][4] == "1.00"
    assert "GFLOP/s" in text
    assert "PCIe 4.0 x8" in text
    assert "Pageable is left out" in text


def test_json_has_what_the_terminal_shows_and_the_curves(capsys):
    told = as_json(capsys, *WORK, "k20", "--on", "pcie3", "--streams", "1..8")
    assert told["predicted"] is True
    assert told["workload"]["kernel_seconds"] == 0.012
    assert told["ranking"][0]["method"] == "Implicit"
    for row in (*told["ranking"], *told["curves"]["Streams"]):
        assert row["low_seconds"] < row["seconds"] < row["high_seconds"]
    assert [row["streams"] for row in told["curves"]["Streams"]] == list(range(1, 9))
    assert told["on"][0]["link"] == "PCIe 3.0 x16"
    assert told["on"][0]["ranking"][0]["seconds"] < told["ranking"][0]["seconds"]
    assert told["skipped"][0]["method"] == "Pageable"
    assert told["bounds"]["full_overlap"]["seconds"] == pytest.approx(0.1147, abs=1e-4)
    assert told["why"].startswith("Implicit is predicted to take")


def test_options_reach_the_workload(capsys):
    told = as_json(
        capsys,
        *(*WORK, "k20", "--arrays-in", "2", "--arrays-out", "3", "--mapped-reads", "2.5"),
        *("--mapped-writes", "1.5", "--needs-previous", "--flops", "4e9"),
        *("--device-bytes", "2GB", "--peak-flops", "1e12", "--memory-bandwidth", "200"),
    )
    work = told["workload"]
    assert (work["h2d_arrays"], work["d2h_arrays"], work["needs_previous"]) == (2, 3, True)
    assert (work["mapped_reads"], work["mapped_writes"]) == (2.5, 1.5)
    assert (work["flops"], work["device_bytes"]) == (4e9, 2_000_000_000)
    # 2 GB at 200 GB/s in place of the kernel's 12 ms
    bounds = told["bounds"]
    assert bounds["zero_overlap"]["seconds"] == pytest.approx(0.1147 + 0.0546 + 0.010, abs=2e-4)
    assert bounds["full_overlap"]["flops_per_second"] == pytest.approx(4e9 / 0.1147, rel=1e-3)
    assert told["bounds_as_printed"]["full_overlap"]["seconds"] == pytest.approx(0.1693, abs=2e-4)
    assert "delays streams" in told["why"]


def test_several_gpus_share_what_their_machine_file_tells(capsys, tmp_path):
    machine = tmp_path / "two.toml"
    text = (FILES / "h200-x2.toml").read_text()
    machine.write_text(text.replace("[[nodes]]", "[[nodes]]\nmemory_gbs = 60", 1))
    more = ("--streams", "8", "--gpus", "2", "--machine")
    told = as_json(capsys, *WORK, "h200", *more, str(machine))
    assert told["several"]["shared"] == ["the memory of h0"]
    alone = {row["method"]: row["seconds"] for row in told["ranking"]}
    for row in told["several"]["predictions"]:
        assert row["low_seconds"] < row["seconds"] < row["high_seconds"]
        assert row["seconds"] > 1.1 * alone[row["method"]]
    one = {row["method"]: row["seconds"] for row in told["several"]["one_gpu"]}
    assert one == pytest.approx(alone)
    text = predicted(capsys, *WORK, "h200", *more, "h200-x2")
    assert "On 2 GPUs at once (predicted by replay)" in text
    assert "they share nothing whose speed is known; the memory of h0, which they share," in text
    assert "give memory_gbs of nodes" in text
    # the method, its time and interval on two, then on one
    row = re.search(r"On 2 GPUs.*\n.*\n.*one GPU alone.*\n.*\n(.*)", text)[1].split()
    assert float(row[-1]) >= 1


def test_one_direction_is_enough(capsys):
    told = as_json(capsys, "--h2d", "1MiB", "--kernel", "0", "--parameters", "k20")
    assert (told["workload"]["d2h_bytes"], told["workload"]["kernel_seconds"]) == (0, 0)
    assert told == as_json(
        capsys, "--h2d", "1MiB", "--d2h", "0", "--kernel", "0", "--parameters", "k20"
    )


def test_memory_in_caches_is_copied_as_the_fit_has_it(capsys):
    fit = ROOT / "benchmarks" / "results" / "h200-x1" / "machines" / "n" / "link-parameters.json"
    arguments = ("--h2d", "8MiB", "--kernel", "0", "--parameters", str(fit))
    used, cached = (
        {row["method"]: row["seconds"] for row in as_json(capsys, *arguments, *option)["ranking"]}
        for option in ((), ("--host-cached",))
    )
    assert cached["Pageable"] < 0.7 * used["Pageable"]
    assert {**cached, "Pageable": 0} == {**used, "Pageable": 0}
    text = predicted(capsys, *arguments[:-1], "h200", "--host-cached")
    assert "do not tell what copies of pageable memory in the host's caches cost" in text


@pytest.mark.parametrize("predictor", ["replay", "equations"])
def test_copies_alone_launch_no_kernel(capsys, predictor):
    arguments = ("--h2d", "64KiB", "--kernel", "0", "--parameters", "h200")
    found = lanescope.predict(h2d_bytes="64KiB", kernel_seconds=0, parameters="h200")
    single = found.ranking.parameters.h2d.single.at(64 << 10)
    rows = as_json(capsys, *arguments, "--predictor", predictor)
    by_method = {row["method"]: row for row in rows["ranking"]}
    assert set(by_method) == {"Explicit", "Streams", "Pageable"}
    assert by_method["Explicit"]["seconds"] == pytest.approx(single.value)
    assert all(row["busiest"] == "h2d" for row in rows["ranking"])
    text = predicted(capsys, *arguments)
    assert "Implicit and Hybrid are left out: without a kernel nothing reads or writes" in text
    large = ("--h2d", "1GB", "--d2h", "1GB", *arguments[2:])
    both = predicted(capsys, *large)
    assert "copies in both directions overlap, by two copy engines, and most" in both


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--h2d 1MB", "the kernel's time is missing"),
        ("--kernel 1ms", "the workload moves no bytes; give"),
        ("--h2d 0 --d2h 0 --kernel 1ms", "the workload moves no bytes; give"),
        ("--h2d -5 --kernel 1ms", "--h2d takes 0, or a size"),
        ("--h2d 1MB --kernel -5ms", "--kernel takes a time"),
        ("--h2d 1MB --kernel 5", "--kernel takes a time"),
        ("--h2d 1MB --kernel 1ms --gpus 9 --machine h200-x2", "--gpus 9: h200-x2 has 2"),
        ("--h2d 1MB --kernel 1ms --machine h200-x2", "give --gpus, too"),
        ("--h2d 1MB --kernel 1ms --machine a100-sx", "no GPU is named 'a100-sx'; did you mean"),
        ("--h2d 1MB --kernel 1ms --gpus 2 --machine a100", "no GPU is named 'a100'; did you mean"),
        (
            "--h2d 1MB --kernel 1ms --machine l4",
            "--machine l4 has parameters of its own; leave out --parameters",
        ),
        ("--h2d 1MB --kernel 1ms --kernel-part 8", "--kernel-part '8' is no number of parts"),
        (
            "--h2d 1MB --kernel 1ms --kernel-part 8=25ms",
            "--kernel-part 8: one of 8 parts takes 25.0 ms, and the whole kernel 1.00 ms; give",
        ),
        ("--h2d 1MB --kernel 1ms --streams 0", "--streams '0' is no number of streams"),
        ("--h2d 1MB --kernel 1ms --on pcie9", "'pcie9' is no link"),
        ("--h2d 1MB --kernel 1ms --arrays-in 0", "--arrays-in takes a whole number from 1"),
        (
            "--h2d 1GB --kernel 1ms --arrays-in 4096 --streams 4096 --predictor replay",
            "copies and kernels in each round are too many to be replayed",
        ),
        ("--h2d 1MB --kernel 1ms --mapped-reads nan", "--mapped-reads takes times from 0"),
        (
            "--h2d 1MB --kernel 1ms --peak-flops 1e12",
            "give --memory-bandwidth, too",
        ),
        ("--h2d 1MB --kernel 1ms --flops 0", "--flops takes operations above 0"),
        ("--h2d 1MB --kernel 1ms --predictor oracle", "no predictor is named 'oracle'"),
        ("--h2d 1MB --kernel 1ms --plot a.pdf", "--plot takes a file that ends in .svg or .png"),
        ("--h2d 1MB --kernel 1ms --plot /none/a.svg", "there is no folder '/none'"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    with pytest.raises(InputError) as caught:
        app(["model", "predict", "--parameters", "k20", *arguments.split()], standalone_mode=False)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_machine_the_fit_of_this_one_is_taken(lanescope_here, tmp_path):
    missing = lanescope_here("model", "predict", *WORK[:-1])
    assert (missing.returncode, missing.stdout) == (2, "")
    key = machine_key(discover())
    words = "as it has no GPU" if key is None else "run 'lanescope model fit'"
    assert words in missing.stderr
    assert "name --parameters: gtx-titan, " in missing.stderr
    assert "a GPU such as a100-sxm, a file or a run" in missing.stderr
    assert len(missing.stderr.splitlines()) == 1
    path = tmp_path / "runs" / "20261121-fit" / FILE
    save(fitted(machine_key="another"), path)
    other = lanescope_here("model", "predict", *WORK[:-1])
    assert other.returncode == 2
    assert "is of another machine (another)" in other.stderr
    assert lanescope_here("model", "predict", *WORK, "20261121-fit").returncode == 0
    if key is not None:
        save(fitted(machine_key=key), path)
        assert lanescope_here("model", "predict", *WORK[:-1]).returncode == 0


@pytest.mark.parametrize(("name", "begin"), [("a.svg", b"<?xml"), ("a.png", b"\x89PNG")])
def test_plots(capsys, tmp_path, name, begin):
    predicted(capsys, *WORK, "k20", "--plot", str(tmp_path / name))
    picture = (tmp_path / name).read_bytes()
    assert picture.startswith(begin)
    if name.endswith("svg"):
        for text in ("Streams", "Hybrid", "Implicit", "Explicit", "fastest: Implicit", "predicted"):
            assert text.encode() in picture


def test_nothing_slow_is_loaded():
    """The whole command is to end within half a second: what takes long is not imported."""
    program = (
        "import sys; from lanescope.cli.app import app\n"
        "app(['model', 'predict', '--h2d', '1MB', '--kernel', '0', '--parameters', 'k20'],"
        " standalone_mode=False)\n"
        "print([m for m in ('numpy', 'scipy', 'vl_convert', 'pyarrow',"
        " 'lanescope.machine.discovery')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize("verb", ["model", "check"])
def test_what_is_interrupted_at_its_start_promises_no_report(verb):
    program = (
        "import sys; from lanescope.cli import app\n"
        f"sys.argv = ['lanescope', {verb!r}]\n"
        "app.app = lambda **_: 130\n"
        "app.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "lanescope: interrupted\n"


def test_old_spellings_go_on_with_a_note(lanescope_here):
    work = ("model", "predict", "--h2d", "1MB", "--kernel", "1ms", "--json")
    new = lanescope_here(*work, "--parameters", "k20")
    old = lanescope_here(*work, "--machine", "k20")
    assert (new.returncode, new.stderr) == (0, "")
    assert (old.returncode, old.stdout) == (0, new.stdout)
    assert old.stderr.startswith("note: --machine is now --parameters")
    assert old.stderr.count("\n") == 1
    both = ("--parameters", "h200", "--gpus", "2")
    new = lanescope_here(*work, *both, "--machine", "h200-x2")
    old = lanescope_here(*work, *both, "--topology", "h200-x2")
    assert json.loads(new.stdout)["several"]["machine"] == "h200-x2"
    assert (old.stdout, old.stderr.split(";")[0]) == (
        new.stdout,
        "note: --topology is now --machine",
    )
    for verb in (("model", "validate", "nowhere"), ("advise", "nowhere")):
        done = lanescope_here(*verb, "--machine", "k20", "--parameters", "k20")
        assert done.returncode == 2
        assert "--machine is the old name of --parameters" in done.stderr


def test_python_takes_text_and_returns_a_document(tmp_path):
    found = lanescope.predict(h2d_bytes="64 MiB", kernel_seconds="1 ms", parameters="k20")
    assert found.ranking.workload.h2d_bytes == 64 << 20
    assert found.ranking.workload.kernel_seconds == pytest.approx(1e-3)
    assert json.loads(found.to_json())["predicted"] is True
    assert "<table" in found._repr_html_()
    assert {path.name for path in found.plot().save(tmp_path)} == {"predict.svg", "predict.png"}
    one = lanescope.predict(
        h2d_bytes=64 << 20, kernel_seconds=0.001, parameters="k20", on="pcie3", streams=4
    )
    assert len(one.on) == 1
    assert "h2d_bytes" in lanescope.predict.__doc__
    with pytest.raises(InputError, match="h2d_bytes"):
        lanescope.predict(h2d_bytes="much", kernel_seconds=0.0)
    with pytest.raises(InputError, match="kernel_seconds"):
        lanescope.predict(h2d_bytes=1, kernel_seconds="soon")


def test_the_time_of_the_host_is_with_what_was_predicted_with_it(capsys):
    arguments = ("--h2d", "64KiB", "--kernel", "0", "--parameters", "h200", "--host-time", "13us")
    assert as_json(capsys, *arguments)["host_seconds"] == pytest.approx(13e-6)
    assert "with 13.0 µs of the program for each call" in predicted(capsys, *arguments)


@pytest.mark.parametrize("sizes", ["64KiB 300us", "700MB 12ms", "1GB 5ms", "90GB 3s"])
def test_tables_fit_a_terminal_of_80_columns(capsys, sizes):
    size, kernel = sizes.split()
    work = ("--h2d", size, "--d2h", size, "--kernel", kernel, "--machine", "a100-sxm")
    text = predicted(capsys, *work, "--on", "pcie6", "--gpus", "4")
    rules = re.findall(r"^ ─+ *$", text, re.M)
    assert len(rules) == 3
    assert max(map(len, rules)) <= 80


def test_a_gpu_by_name_may_stand_as_parameters(lanescope_here):
    work = ("model", "predict", "--h2d", "1MB", "--kernel", "1ms", "--json")
    done = lanescope_here(*work, "--parameters", "a100-sxm")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == lanescope_here(*work, "--machine", "a100-sxm").stdout


def test_the_measured_gpu_is_a_gpu_by_name_too(lanescope_here):
    work = ("model", "predict", "--h2d", "1MB", "--kernel", "1ms", "--json")
    by_name = lanescope_here(*work, "--machine", "h200")
    assert (by_name.returncode, by_name.stderr) == (0, "")
    assert by_name.stdout == lanescope_here(*work, "--parameters", "h200").stdout
    four = json.loads(lanescope_here(*work, "--machine", "h200", "--gpus", "4").stdout)
    assert four["several"]["machine"] == "4 h200"
