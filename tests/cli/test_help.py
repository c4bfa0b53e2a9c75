"""The help of each command: grouped, with examples that are right."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest
import typer

from lanescope.cli.app import VERBS, _run, app
from lanescope.cli.help import EVERYDAY, EXAMPLES, LINE_OF, LINE_OF_PART, PANELS
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


def test_the_first_screen_has_the_everyday_verbs(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(["--help"]).stdout.splitlines()
    everyday = [verb for verbs in EVERYDAY.values() for verb in verbs]
    assert len(everyday) <= 12
    shown = [line.split()[1] for line in lines[:23] if line.startswith("│ ")]
    assert shown == everyday
    assert lines[22].startswith("╰")  # the last panel of them ends, too


def test_every_verb_has_a_line_in_a_panel_and_options_come_last(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = run(["--help"]).stdout
    assert LINE_OF.keys() == typer.main.get_command(app).commands.keys()
    for verb, line in LINE_OF.items():
        assert f"│ {verb:10}  {line:64} │\n" in text
    places = [text.index(f"─ {panel} ─") for panel in [*PANELS, "Options"]]
    assert places == sorted(places)
    assert "--cmake-prefix" in text[places[-1] :]
    assert "│ --help, -h " in text[places[-1] :]


@pytest.mark.parametrize(
    ("variable", "width", "options"),
    [("TYPER_USE_RICH=0", 80, "\nOptions:\n"), ("TERMINAL_WIDTH=60", 60, "─ Options ─")],
)
def test_the_help_is_as_plain_and_as_wide_as_typer_is_set(variable, width, options):
    name, _, value = variable.partition("=")
    done = subprocess.run(
        [sys.executable, "-m", "lanescope", "--help"],
        env=os.environ | {"COLUMNS": "80", name: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[0] == "Usage:"
    assert options in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= width


def test_summaries_of_studies_are_their_first_sentences():
    for verb, entry in STUDIES.items():
        assert (study_named(verb).__doc__ or "").split("\n\n")[0].strip() == entry.summary


def test_lines_of_groups_are_first_sentences_of_their_verbs():
    verbs = {verb.words: verb for verb in VERBS}
    for words, line in LINE_OF_PART.items():
        first = (verbs[words].load().__doc__ or "").split("\n\n")[0]
        assert " ".join(first.split()) == line


def test_a_verb_imports_no_other_one():
    code = (
        "import sys; from lanescope.cli import app; sys.argv = ['lanescope', 'runs', '--help']\n"
        "assert app._run() == 0\n"
        "assert not {'lanescope.cli.watch', 'lanescope.cli.advise', 'lanescope.machine.machine',\n"
        "            'lanescope.cli.boost', 'lanescope.cli.topo'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


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
