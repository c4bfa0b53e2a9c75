"""The verbs, and how every failure becomes one sentence and an exit code.

The codes are in `lanescope.errors`; ``watch``, ``boost`` and ``advise`` end as their program
does.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import typer

from lanescope import interruption
from lanescope.cli import bench
from lanescope.cli.help import LINE_OF, LINE_OF_PART, PANEL_OF, FirstScreen, epilog
from lanescope.cli.own_process import ProgramEnded, report_fault
from lanescope.cli.studies import LateCommand, command_named, help_of, stand_in
from lanescope.cli.terminal_text import drop_output, tolerant_streams, visible, wrapped
from lanescope.errors import ExitCode, InputError, LanescopeError, expected, naming_options
from lanescope.machine.part_names import number_by_address
from lanescope.studies import ANALYSES, STUDIES, Entry

app = typer.Typer(
    name="lanescope",
    cls=FirstScreen,
    help="Measures data paths between CPUs and GPUs and says whether they are healthy.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench_app = typer.Typer(cls=bench.BenchGroup, invoke_without_command=True)


model_app = typer.Typer(
    help="What transfers and overlap with kernels take: a machine's parameters, and predictions.",
    no_args_is_help=True,
)
fleet_app = typer.Typer(
    help="Check many nodes at once by MPI or Slurm, and name the bad parts.",
    no_args_is_help=True,
)
history_app = typer.Typer(
    help="What the same hardware carried in earlier runs, and since when it changed.",
    no_args_is_help=True,
)
bench_app.callback(help=help_of(bench.bench), epilog=epilog("bench"))(bench.bench)
for _name, _group in (
    ("bench", bench_app),
    ("fleet", fleet_app),
    ("history", history_app),
    ("model", model_app),
):
    app.add_typer(_group, name=_name, rich_help_panel=PANEL_OF[_name], short_help=LINE_OF[_name])
GROUPS = {
    "": app,
    "bench": bench_app,
    "model": model_app,
    "fleet": fleet_app,
    "history": history_app,
}
#: Of verbs that are no studies the function, in `lanescope.cli`, by the words that name them.
_PLACES = {
    "bench params": "bench.params",
    "node": "node.node",
    "fleet check": "fleet.check",
    "fleet report": "fleet.report",
    "fleet import": "fleet.import_results",
    "history add": "history.add",
    "history show": "history.show",
    "history changes": "history.changes",
    "topo": "topo.topo",
    "watch": "watch.watch",
    "advise": "advise.advise",
    "boost": "boost.boost",
    "doctor": "doctor.doctor",
    "reproduce": "reproduce.reproduce",
    "report": "report.report",
    "show": "stored.show",
    "runs": "stored.runs",
    "open": "stored.open_page",
    "compare": "stored.compare",
    "rm": "stored.rm",
    "compress": "compress.compress",
    "decompress": "decompress.decompress",
}


def _function(place: str) -> Callable[..., None]:
    module, _, name = place.partition(".")
    found: Callable[..., None] = getattr(importlib.import_module(f"lanescope.cli.{module}"), name)
    return found


class Command(NamedTuple):
    """A verb before it is imported.

    Attributes
    ----------
    group
        Its name; empty for the verbs of ``lanescope`` itself.
    summary
        Its line in the help.
    load
        Imports and returns its function.
    """

    group: str
    name: str
    summary: str
    load: Callable[[], Callable[..., None]]

    @property
    def words(self) -> str:
        """What names it, such as ``bench small``."""
        return f"{self.group} {self.name}".strip()


def _commands() -> Iterator[Command]:
    """Yield all verbs in the order of the help."""
    yield from _of(STUDIES)
    for words, place in _PLACES.items():
        group, _, name = words.rpartition(" ")
        summary = LINE_OF_PART[words] if group else LINE_OF[name]
        yield Command(group, name, summary, partial(_function, place))
    yield from _of(ANALYSES)


def _of(entries: Mapping[str, Entry]) -> Iterator[Command]:
    for name, entry in entries.items():
        if entry.group is not None:
            summary = entry.summary if entry.group else LINE_OF[name]
            yield Command(entry.group, name, summary, partial(command_named, name))


VERBS = tuple(_commands())
for _verb in VERBS:
    GROUPS[_verb.group].command(
        _verb.name,
        cls=LateCommand,
        short_help=None if _verb.group else _verb.summary,
        # What follows the name of a watched program is the program's, options and all.
        context_settings=(
            {"allow_interspersed_args": False} if _verb.words in ("watch", "boost") else None
        ),
        rich_help_panel=None if _verb.group else PANEL_OF[_verb.name],
        epilog=epilog(_verb.words),
    )(stand_in(_verb.load, _verb.summary))


def _version(wanted: bool) -> None:
    if wanted:
        from lanescope._version import version_text

        print(version_text())
        raise typer.Exit


def _cmake_prefix(wanted: bool) -> None:
    if wanted:
        folder = Path(__file__).resolve().parents[1] / "cpp"
        if not folder.is_dir():
            raise InputError(
                "this installation has no C++ library; a wheel has it, and 'make library' builds it"
            )
        print(folder)
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    version: bool = typer.Option(
        False,
        "--version",
        callback=_version,
        is_eager=True,
        help="Print version, commit, CUDA version and GPU code.",
    ),
    cmake_prefix: bool = typer.Option(
        False,
        "--cmake-prefix",
        callback=_cmake_prefix,
        is_eager=True,
        help="Print where CMake finds the C++ library (CMAKE_PREFIX_PATH).",
    ),
) -> None:
    """Take the options that come before a verb; without one, say what to do first."""
    ctx.with_resource(naming_options())
    if ctx.invoked_subcommand is None:
        start()


#: No path that somebody has typed is as long: of such a word a sentence shows the beginning.
_MOST_OF_WORD = 400
_ENDLESS = re.compile(rf"\S{{{_MOST_OF_WORD + 1},}}")
_FILES_LEFT = "files that were finished are there, and nothing is left of the one at work"


def _interrupted() -> str:
    """Return what is true of an interrupted verb."""
    verb = _verb_named()
    if verb in ("compress", "decompress"):
        return f"interrupted; {_FILES_LEFT}"
    if (folder := interruption.run_folder()) is None:
        return "interrupted"
    said = f"interrupted; what was measured is stored, and 'lanescope report {folder}' shows it"
    if verb == "bench" and any(word.split("=")[0] == "--params" for word in sys.argv):
        said += f"; the same command with --resume and --out {folder} goes on with it"
    return said


def _verb_named() -> str:
    """Return the verb that is run, such as ``bench small``; empty where none is known."""
    known = {verb.words for verb in VERBS} | set(GROUPS) - {""}
    words = sys.argv[1:3]
    return next((verb for verb in (" ".join(words), *words[:1]) if verb in known), "")


def _usage_sentence(error: Any) -> str:
    """Return what Typer found wrong with a command line, and what shows what is right.

    Empty where it has printed the help instead.
    """
    text = " ".join(error.format_message().split()).rstrip(".").replace(". Did you", "; did you")
    if not text:
        return ""
    command = " ".join(filter(None, ("lanescope", _verb_named(), "--help")))
    begin = f"{text[0].lower()}{text[1:]}{'' if text.endswith('?') else ';'}"
    return f"{begin} {_of_group(text)}{_hint(text)}'{command}' shows what it takes"


def _of_group(text: str) -> str:
    """Return where a command is that was looked for outside of its group; empty for others."""
    missing = re.match(r"No such command '(.+?)'", text)
    words = [f"'lanescope {one.words}'" for one in VERBS if missing and one.name == missing[1]]
    return f"there is {' and '.join(words)}; " if words else ""


def _hint(text: str) -> str:
    """Return how what was given to 'report' is written there; empty where nothing is known."""
    if _verb_named() != "report":
        return ""
    if "option: --html" in text:
        return "the page is HTML, and --out FILE.html says where it goes; "
    if "extra argument" in text and {"--json", "--csv"} & set(sys.argv):
        return "--json and --csv print, and '> FILE' stores that; "
    return ""


def main() -> NoReturn:
    """Run the command line and exit; signals are exceptions by now (`lanescope.interruption`)."""
    number_by_address()
    with tolerant_streams():
        code = _run()
    if any(thread.name == ABANDONED for thread in threading.enumerate()):
        # it is in the driver, which must not find the process half torn down
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed by our caller
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


_OUTPUT = ("the output", "")
#: Of a thread that goes on when the process has nothing more to do: `lanescope.watching.session`.
ABANDONED = "lanescope-startup"


def _run() -> int:
    """Run the command line and return the exit code; whatever fails has its sentence by then."""
    try:
        code = app(standalone_mode=False)
        if code == ExitCode.INTERRUPTED:  # typer has caught the interruption
            return _fail(_interrupted(), code)
        sys.stdout.flush()  # now, while a failure still has a sentence
    except ProgramEnded as end:
        return end.code  # the program's own: nothing is said of it, whatever it is
    except LanescopeError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail(_interrupted(), ExitCode.INTERRUPTED)
    except BrokenPipeError:
        return _drop_output(ExitCode.OK)  # whoever read our output has gone
    except SystemExit as end:
        # typer ends with 1 after a broken pipe, which here means that a path is slow
        if isinstance(end.__context__, BrokenPipeError):
            return _drop_output(ExitCode.OK)
        code = end.code
        if code == ExitCode.TERMINATED:
            return _fail(_interrupted(), code)
    except OSError as error:
        what, hint = (error.filename, "; name another place") if error.filename else _OUTPUT
        message = f"cannot read or write {what}: {error.strerror or error}{hint}"
        return _drop_output(_fail(message, ExitCode.INPUT))
    except Exception as error:
        # typer's own errors, whichever copy of click they come from, know how to say it.
        if getattr(error, "format_message", None) is None:
            if (known := expected(error)) is not None:
                return _drop_output(_fail(str(known), known.exit_code))
            return _drop_output(_fail(report_fault(error), ExitCode.FAULT))
        text = _usage_sentence(error)  # empty where help has been printed instead
        code = getattr(error, "exit_code", ExitCode.INPUT)
        return _fail(text, code) if text else code
    return code if isinstance(code, int) else ExitCode.OK


def _fail(message: str, code: int) -> int:
    words = f"lanescope: {visible(_ENDLESS.sub(_shortened, message))}"
    print(wrapped(words, sys.stderr), file=sys.stderr)
    return code


def _shortened(word: re.Match[str]) -> str:
    return f"{word[0][:_MOST_OF_WORD]}..."


def _drop_output(code: int) -> int:
    drop_output()
    return code


def start() -> None:
    """Print what this machine has, and the commands to begin with."""
    from lanescope._version import __version__
    from lanescope.machine import discover
    from lanescope.report.format import count_text

    machine = discover()
    cores = sum(len(node.cores) for node in machine.nodes)
    gpus = [gpu.name for gpu in machine.gpus]
    named = ", ".join(f"{gpus.count(n)} x {n}" for n in dict.fromkeys(gpus)) or "no GPU"
    nodes = count_text(len(machine.nodes), "NUMA node")
    print(f"lanescope {__version__}; here: {count_text(cores, 'core')}, {nodes}, {named}")
    steps = [
        ("lanescope check", "measure every path and say whether it is healthy"),
        ("lanescope topo", "show what is here and how it is linked"),
    ]
    if machine.gpus:
        steps.append(("lanescope watch -- ./app", "see what a program moves, unchanged"))
    else:
        print(machine.notes[0])
        steps.append(("lanescope check --machine h200-x2", "see what a check of two GPUs predicts"))
    steps.append(("lanescope --help", "all commands"))
    width = max(len(command) for command, _ in steps)
    for command, what in steps:
        print(f"  {command:{width}}  {what}")
