"""Messages name arguments as they are given: options on a command line, names in Python."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lanescope
from lanescope import Copy, Engine, InputError, Memory, Place
from lanescope.argument_names import argument, naming_options, option_of
from lanescope.studies.options import Argument, options_of
from lanescope.studies.predict import Predict
from lanescope.studies.registry import ANALYSES, STUDIES, analysis_named, study_named

SOURCE = Path(lanescope.__file__).parent
STORED = Path(__file__).parents[1] / "benchmarks/results/h200-x1/model/validate"
#: What no Python program calls.
COMMANDS_ALONE = ("cli", "examples", "fleet", "history", "operators", "studies/pcie_thesis")
COMMANDS_ALONE += ("boosting/turns.py", "watching/cost.py", "watching/metrics.py")
COMMANDS_ALONE += ("watching/continuous.py", "trace/segments.py")
P = Place("g0", Memory.DEVICE)
WORK = {"parameters": "h200", "h2d_bytes": 1}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lanescope.predict(**WORK), "give kernel_seconds, such as 12ms"),
        (lambda: lanescope.predict(**WORK, kernel_seconds=0, gpus=0), "gpus cannot be 0; give"),
        (lambda: lanescope.predict(**WORK, kernel_seconds=0, on="q"), "^on 'q' is no link"),
        (lambda: lanescope.node(within="1s"), "^within 1s leaves no time"),
        (
            lambda: lanescope.check(machine="h200-x2", cases="nosuch"),
            "'lanescope check --list' shows them",
        ),
        (lambda: lanescope.watch(), "^name one thing to watch: program, everything or pid$"),
        (lambda: lanescope.validate(run=STORED, grid="abc"), "leave out grid, or the run"),
        (lambda: lanescope.validate(run=STORED, predictor=""), "no predictor is named ''"),
        (lambda: lanescope.fit(run=STORED, gpu=1), "leave out gpu, or the run"),
        (lambda: lanescope.predict(steps=1e30), "^predict: steps cannot be 1e.30; give steps "),
        (lambda: lanescope.check(expected_gpus=2048), "^check: expected_gpus cannot be 2048; "),
        (lambda: Copy(P, P, -1, Engine.SM), "bytes cannot be -1; give a size .*'64MiB'$"),
        (lambda: Copy(P, P, 0, Engine.SM), "give 1 B or more"),
        (lambda: Copy(), "^Copy: missing a required argument: 'source'; it takes source, dest"),
        (lambda: Copy(P, P, 1, Engine.SM, sizes=1), "^Copy: .* argument 'sizes'; it takes"),
    ],
)
def test_python_errors_name_the_argument(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_the_command_line_names_the_option():
    words = ["model", "predict", "--h2d", "1MiB", "--parameters", "h200"]
    run = subprocess.run(
        [sys.executable, "-m", "lanescope", *words], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "give --kernel, such as 12ms" in run.stderr


def test_options_are_named_until_a_command_line_ends():
    with pytest.raises(ValueError, match="--kernel"), naming_options():
        raise ValueError(argument.kernel_seconds)
    assert argument.kernel_seconds == "kernel_seconds"


def test_messages_name_only_options_that_are_there():
    """Each argument that a message names is a field whose option is the one that is named."""
    options: dict[str, set[str]] = {}
    for verb in {**STUDIES, **ANALYSES}:
        for name, _, about in options_of(study_named(verb) or analysis_named(verb)):
            if not isinstance(about, Argument):
                options.setdefault(name, set()).add(about.value.option)
    named = {
        node.attr
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "argument"
    } & set(options)
    assert len(named) > 20
    assert {name for name in named if option_of(name) not in options[name]} == set()
    of_predict = {name: about.value.option for name, _, about in options_of(Predict)}
    assert of_predict["gpus"] == option_of("gpus")


def _message(node):
    text = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return re.sub(r"'lanescope [^']*'|'nsys [^']*'", "", "".join(filter(_is_text, text)))


def _is_text(value):
    return isinstance(value, str)


def test_no_message_that_python_programs_get_is_written_with_an_option():
    found = [
        f"{name}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not (name := path.relative_to(SOURCE).as_posix()).startswith(COMMANDS_ALONE)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise) and re.search(r"(?<![\w-])--[a-z]", _message(node))
    ]
    assert found == []
