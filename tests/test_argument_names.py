"""Messages name arguments as they are given: options on a command line, names in Python."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lanescope
from lanescope import Copy, Engine, InputError, Memory, Place
from lanescope.errors import CALLS, argument, command, naming_options, option_of
from lanescope.studies import (
    ANALYSES,
    STUDIES,
    Argument,
    analysis_named,
    options_of,
    study_named,
)
from lanescope.studies.predict import Predict

SOURCE = Path(lanescope.__file__).parent
STORED = Path(__file__).parents[1] / "benchmarks/results/h200-x1/model/validate"
#: What no Python program calls.
COMMANDS_ALONE = ("cli", "examples", "fleet", "history", "operators", "studies/pcie_thesis")
COMMANDS_ALONE += ("watching/cost.py", "watching/continuous.py")
COMMANDS_ALONE += ("trace/segments.py",)
P = Place("g0", Memory.DEVICE)
LOOP = STORED.parents[1] / "watch/vector-add"
OLD = STORED.parents[2] / "h200-x2/check"
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
        (lambda: lanescope.fit(gpu=1023), r"here to be measured; lanescope.fit\(run=RUN\) fits "),
        (lambda: lanescope.watch("/nonexistent"), "^there is no program /nonexistent; check its "),
        (lambda: lanescope.watch("/tmp"), "^/tmp is a folder; name a program$"),
        (
            lambda: lanescope.watch("true", interval_seconds=0),
            "_seconds cannot be 0; give ",
        ),
        (lambda: lanescope.watch("true", interval_seconds="2s"), "seconds, from 1us to 1s$"),
        (lambda: lanescope.watch("true", max_spool_bytes=9), "_bytes cannot be 9; give 1 MiB or m"),
        (
            lambda: lanescope.taruc("h200-x2", resume=True, out=OLD),
            "; name another folder with out",
        ),
        (lambda: lanescope.nccl(machine="h200-x2"), "is described; NCCL is only measured"),
        (lambda: lanescope.small(machine="h200-x2"), r"; lanescope.check\(\) measures host "),
        (lambda: lanescope.advise(run=LOOP, what_if="kernels=2").page(None), "path cannot be None"),
        (lambda: lanescope.api.compress(codecs="x"), r"^compress: codecs cannot be 'x'; give a "),
        (lambda: lanescope.api.compress(device="x"), "^compress: device cannot be 'x'; give cpu, "),
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


def test_commands_are_named_as_calls_until_a_command_line_begins():
    assert command("model fit {}", "my run") == "lanescope.fit(run='my run')"
    with naming_options():
        assert command("model fit {}", "my run") == "'lanescope model fit my run'"
    assert command("fleet report {}", "x") == "'lanescope fleet report x'"  # no call does that


@pytest.mark.parametrize("call", CALLS.values())
def test_calls_in_place_of_commands_are_there(call):
    node = ast.parse(f"lanescope.{call.format('x')}").body[0].value
    parameters = inspect.signature(getattr(lanescope, node.func.attr)).parameters
    assert {one.arg for one in node.keywords} <= set(parameters)


def test_messages_name_only_options_that_are_there():
    """Each argument that a message names is a field whose option is the one that is named."""
    options: dict[str, set[str]] = {}
    for verb in {**STUDIES, **ANALYSES}:
        for name, _, about in options_of(study_named(verb) or analysis_named(verb)):
            if not isinstance(about, Argument):
                options.setdefault(name, set()).add(about.value.option)
    texts = (path.read_text() for path in SOURCE.rglob("*.py"))
    named = {name for text in texts for name in re.findall(r"\bargument\.(\w+)", text)}
    named &= set(options)
    assert len(named) > 20
    assert {name for name in named if option_of(name) not in options[name]} == set()
    of_predict = {name: about.value.option for name, _, about in options_of(Predict)}
    assert of_predict["gpus"] == option_of("gpus")


def _message(node):
    calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    named = [arg for one in calls if ast.unparse(one.func) == "command" for arg in one.args]
    parts = (one for one in ast.walk(node) if isinstance(one, ast.Constant) and one not in named)
    return "".join(one.value for one in parts if isinstance(one.value, str))


def test_no_message_that_python_programs_get_is_written_with_an_option():
    besides = r"'lanescope [^']*'|'nsys [^']*'"
    assert _raised_with(r"(?<![\w-])--[a-z]", holding="--", besides=besides) == []


def test_no_message_that_python_programs_get_names_a_command_that_is_a_call():
    commands = "|".join(re.escape(words.split(" {")[0]) for words in CALLS)
    assert _raised_with(f"'lanescope ({commands})'", holding="'lanescope ") == []


def _raised_with(pattern, *, holding, besides="$"):
    """Return where a message has what a pattern finds, which `holding` is a part of."""
    return [
        f"{name}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not (name := path.relative_to(SOURCE).as_posix()).startswith(COMMANDS_ALONE)
        and holding in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Raise) and re.search(pattern, re.sub(besides, "", _message(node)))
    ]
