"""What options take, what goes together, and what messages advise, over all verbs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lanescope
from lanescope import interruption
from lanescope.cli import app
from lanescope.cli.options import Excludes, Exclusive, Ignored, Needs
from lanescope.errors import InputError
from lanescope.units.values import Duration, Percent, Size, Value
from tests.cli.command_lines import listing, run, verbs
from tests.patience import PATIENCE_S

SOURCES = Path(lanescope.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
#: Of programs that are not ours, and of modules run by 'python -m'.
OTHERS = {"--type", "--trace", "--help", "--its"}


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sentence(done, code=2):
    assert (done.code, done.stdout) == (code, ""), done
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("verb", verbs(), ids=lambda verb: " ".join(verb.words))
def test_every_option_with_a_value_has_bounds_or_words_of_its_own(verb):
    # names of cases and GPUs, and conditions, which are looked up
    free = {"-t", "-p", "--pair", "--assert"}
    for option in verb.options:
        if not option.is_flag and not free & set(option.names):
            assert isinstance(option.value, Value), option.names
            assert option.value.option in option.names


@pytest.mark.parametrize("verb", verbs(), ids=lambda verb: " ".join(verb.words))
def test_examples_in_refusals_are_taken(verb):
    for option in verb.options:
        if isinstance(option.value, Duration | Percent | Size):
            with pytest.raises(InputError, match=", such as ") as refused:
                option.value("no value")
            examples = str(refused.value).partition(", such as ")[2].partition(", not ")[0]
            for example in re.split(", | or ", examples):
                option.value(example)


@pytest.mark.parametrize("verb", verbs(), ids=lambda verb: " ".join(verb.words))
def test_rules_are_about_options_that_there_are(verb):
    known = {name for option in verb.options for name in option.names}
    for rule in verb.rules:
        match rule:
            case Needs(options, others, _):
                named = {*options, *others}
            case Excludes(option, others, _):
                named = {option, *others}
            case Exclusive(option, beside, _):
                named = {option, *beside}
            case Ignored(_, beside, _, unless):  # rules that verbs share name all of them
                named = {beside, *filter(None, [unless])}
        assert {name for name in named if name.startswith("--")} <= known


def messages(path):
    """The texts of what a file raises, each with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Error"):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield f"{path.name}:{node.lineno}", part.value


def test_messages_name_options_that_there_are():
    everywhere = {name for verb in verbs() for one in verb.options for name in one.names}
    examples = {"--down", "--up", "--cpu", "--version", "--block", "--seconds", "--streams"}
    for path in sorted(SOURCES.rglob("*.py")):
        own = examples if path.parent.name == "examples" else set()
        for where, text in messages(path):
            assert set(OPTION.findall(text)) <= everywhere | OTHERS | own, where


def test_messages_of_a_verb_name_its_own_options():
    files = {verb.words[-1]: verb for verb in sorted(verbs(), key=lambda verb: -len(verb.words))}
    files |= {"model_fit": files["fit"], "model": files["predict"]}
    for name, verb in files.items():
        path = SOURCES / "cli" / f"{name}.py"
        known = OTHERS | {name for option in verb.options for name in option.names}
        for where, text in messages(path) if path.is_file() else ():
            if not re.search(r"'(lanescope|bench|predict)", text):  # of another verb
                assert set(OPTION.findall(text)) <= known, where


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("check --size 99999999999999TB", "--size takes a size from 1 B to 1 PiB"),
        ("bench --samples 99999999999999999999", "--samples takes a whole number from 1 to"),
        ("bench --size 100TB --machine h200-x2", "does not fit twice into the 140 GiB of g0"),
        ("bench -b 100000000 --machine h200-x2", "does not fit twice into the 140 GiB of g0"),
        ("check --list --size 1TiB --machine h200-x2", "does not fit twice"),
        ("topo --svg a.png", "--svg takes a file that ends in .svg, not 'a.png'"),
        ("topo --save a.json", "--save takes a file that ends in .toml"),
        ("bench nurma --gap 0", "--gap takes a size from 8 B"),
        ("bench nurma --min 4B", "--min takes a size from 8 B"),
        ("bench host --min 1GB --max 1MB", "from --min 1 GB to --max 1 MB, which is less"),
        ("bench --json sms", "--json stands before 'sms'"),
        ("bench --resume", "give --params, too"),
        ("bench --list -t 3", "--list prints a list and ends; leave out --testcase"),
        ("check --list --csv", "--list prints a list and ends; leave out --csv"),
        ("check --size 1MB --size 2MB", "--size is given twice; give it once"),
        ("check --out --json", "--out takes a folder, not '--json'"),
        ("check --out=", "--out takes a folder, not ''"),
        ("watch --json -- true", "--json takes a file that ends in .json, not '--'"),
        ("watch --gentle -- true", "--gentle is of source probe; give --source probe, too"),
        ("watch --source trace --interval 1ms -- true", "--interval is of source pm"),
        ("watch --source pm --kernels -- true", "--kernels is of source trace"),
        ("report x --out page.pdf", "--out takes a file that ends in .html or .htm"),
        ("report x --export csv", "give --out, too"),
        ("reproduce pcie-thesis --quick --repetitions 2", "leave out --repetitions, or --quick"),
        ("bench compress x.npy --from y.json", "leave out FILES, or --from"),
        ("bench compress --from y.json --threads 2", "leave out --threads, or --from"),
        ("model predict --kernel 1ms --h2d 1MB --arrays-out 2", "give --d2h, too"),
        ("bench compress --codec delta --dimensionality 3", "give --codec gfc, too"),
        ("model validate --grid 99999x99999x9 --parameters h200", "points at most"),
        ("model fit run --gpu 0", "RUN was measured already; leave out --gpu, or RUN"),
        ("model predict --budget 3", "'lanescope model predict --help' shows what it takes"),
        ("bench small --budget", "'lanescope bench small --help' shows what it takes"),
        ("bench compress --device x", "--device takes cpu, gpu or all, not 'x'"),
    ],
)  # fmt: skip
def test_nothing_wrong_is_accepted_in_silence(workplace, words, told):
    assert told in sentence(run(words.split()))
    assert not listing(workplace)


@pytest.mark.parametrize("source", ["pm", "counters", "throughput", "probe"])
def test_a_source_that_cannot_watch_is_refused_before_the_program_runs(
    workplace, source, monkeypatch
):
    machine = lanescope.machine.Machine("empty", nodes=())
    monkeypatch.setattr("lanescope.machine.discover", lambda: machine)
    done = run(["watch", "--source", source, "--", "touch", "ran"])
    assert f"--source {source} cannot watch here: there is no GPU" in sentence(done, code=4)
    assert not listing(workplace)


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ("check h2d/g0 --machine h200-x2 --budget 1 --target 1%", "--budget and --target have no"),
        ("copy --machine h200-x2 --allow-busy h0 to g0", "--allow-busy has no effect"),
        ("bench -t 0 --machine h200-x2 --mean --csv", "--mean has no effect: CSV"),
        ("bench -t 0 --machine h200-x2 --mean --json", "--mean has no effect: JSON"),
    ],
)
def test_an_option_without_effect_is_noted(workplace, words, note):
    done = run(words.split())
    assert done.code == 0
    assert f"note: {note}" in done.stderr


def test_mean_has_an_effect_on_the_json_of_nvbandwidth(workplace):
    words = "bench -t 0 --machine h200-x2 --mean --json --format nvbandwidth"
    assert "note:" not in run(words.split()).stderr


def test_a_run_that_begins_where_resume_finds_none_says_so(workplace):
    (workplace / "p.toml").write_text('tag = "x"\n[overhead]\nmax_bytes = 100\n')
    words = "bench --params p.toml --machine h200-x2 --resume --out new"
    assert "note: there is no run in new to go on with: it is begun" in run(words.split()).stderr
    assert "no run in" not in run(words.split()).stderr


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("check", ""),
        ("bench small", ""),
        (
            "bench --params=default",
            "; the same command with --resume and --out there goes on with it",
        ),
    ],
)
def test_what_an_interrupted_verb_advises_is_true_of_it(workplace, monkeypatch, words, more):
    monkeypatch.setattr(sys, "argv", ["lanescope", *words.split()])
    assert app._interrupted() == "interrupted", "there is no run folder yet"
    monkeypatch.setattr(interruption._process, "run_folder", "there")
    assert app._interrupted() == "interrupted", "it was one for the time being"
    (workplace / "there").mkdir()
    assert app._interrupted() == (
        "interrupted; what was measured is stored, and 'lanescope report there' shows it" + more
    )


def test_several_words_are_copies(workplace):
    for words in (["h0", "to", "g0"], ["h0 → g0"], ["h0 -> g0", "--size", "1GiB"]):
        assert run(["copy", "--machine", "h200-x2", *words]).code == 0
    both = run(["copy", "--machine", "h200-x2", "--csv", "h0 -> g0", "g0 ⇄ g1 64MiB"])
    assert len(both.stdout.splitlines()) == 4


def test_an_arrow_that_the_shell_took_is_explained(tmp_path):
    command = f"{sys.executable} -m lanescope copy h0 -> g0"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"LANESCOPE_RUNS": str(tmp_path / "runs")},
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert "made the file 'g0', which you may delete; put the copies into quotation" in done.stderr
    assert done.stderr.count("\n") == 1
    assert listing(tmp_path) == {"g0"}


def test_what_is_refused_has_no_note(lanescope_here):
    """An option without effect is noted once the command was carried out, and not before."""
    idle = ("bench", "--machine", "h200-x2", "-t", "0", "--target", "1%")
    assert "--target has no effect" in lanescope_here(*idle).stderr
    refused = lanescope_here(*idle, "default")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
