"""The help of each command: grouped, with examples that are right."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest
import typer

from lanescope.cli.app import _run, app
from lanescope.cli.examples import EXAMPLES
from lanescope.studies import STUDIES, study_named
from tests.cli.command_lines import run, verbs


def test_every_command_has_an_example():
    assert EXAMPLES.keys() == {" ".join(verb.words) for verb in verbs()}


@pytest.mark.parametrize("words", EXAMPLES)
def test_examples_stand_in_the_help_and_can_be_typed(words: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = " ".join(run([*words.split(), "--help"]).stdout.split())
    for example in EXAMPLES[words]:
        assert " ".join(example.split()) in shown
        every = shlex.split(example)
        place = every.index("lanescope")
        assert every[0] in ("lanescope", "srun", "mpirun")
        arguments = every[place + 1 :]
        command = typer.main.get_command(app)
        for word in words.split():
            assert arguments.pop(0) == word
            command = command.commands[word]
        command.make_context(words, arguments)  # refuses what it does not take


def test_the_first_screen_groups_the_commands():
    text = run(["--help"]).stdout
    panels = ["Measure", "Watch programs", "Stored runs", "Predict"]
    places = [text.index(f" {panel} ") for panel in panels]
    assert places == sorted(places)
    assert "Commands" not in text


def test_summaries_of_studies_are_their_first_sentences():
    for verb, entry in STUDIES.items():
        assert (study_named(verb).__doc__ or "").split("\n\n")[0].strip() == entry.summary


def test_alone_it_says_what_to_do_first():
    done = run([])
    assert done.code == 0
    assert "lanescope check" in done.stdout
    assert "lanescope --help" in done.stdout
    assert len(done.stdout.splitlines()) < 9


def test_the_shell_completes_verbs_and_options():
    environment = os.environ | {"_LANESCOPE_COMPLETE": "complete_bash"}
    for line, wanted in (("lanescope ch", "check"), ("lanescope bench sms --si", "--size")):
        done = subprocess.run(
            [sys.executable, "-c", "import sys; sys.argv[0] = 'lanescope'\n"
             "from lanescope.cli import main\nmain()"],
            env=environment | {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        assert wanted in done.stdout.split(), done


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("predict", "'predict'; there is 'lanescope model predict'; 'lanescope --help' shows"),
        ("model check", "'check'; there is 'lanescope check' and 'lanescope fleet check'; "),
        ("topology", "'topology'; did you mean 'topo'? 'lanescope --help' shows"),
        ("qqq", "'qqq'; 'lanescope --help' shows"),
    ],
)
def test_a_command_of_another_group_is_named(words, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["lanescope", *words.split()])
    assert _run() == 2
    assert f"no such command {said}" in capsys.readouterr().err
