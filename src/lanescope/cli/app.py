"""The verbs, and how every failure becomes one sentence and an exit code.

The codes are in `lanescope.exit_codes`; ``watch`` and ``advise`` end as their program does.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import typer

from lanescope.cli import (
    advise,
    bench,
    check,
    compress,
    contention,
    copy,
    doctor,
    host,
    hostdev,
    latency,
    model,
    model_fit,
    model_validate,
    nurma,
    overhead,
    params,
    peer,
    report,
    reproduce,
    small,
    sms,
    sweep,
    topo,
    watch,
)
from lanescope.cli.ended import ProgramEnded
from lanescope.cli.fault import report_fault
from lanescope.cli.terminal_text import tolerant_streams
from lanescope.errors import InputError, LanescopeError
from lanescope.exit_codes import ExitCode

app = typer.Typer(
    name="lanescope",
    help="Measures every data path between CPUs and GPUs against its physical limit "
    "and says whether it is healthy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench_app = typer.Typer(cls=bench.BenchGroup, invoke_without_command=True)


def _help(verb: Callable[..., None]) -> str:
    """Return a docstring with its paragraphs as lines, as the help keeps each line's end."""
    paragraphs = (inspect.getdoc(verb) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


bench_app.callback(help=_help(bench.bench))(bench.bench)
bench_app.command("sweep", help=_help(sweep.sweep))(sweep.sweep)
bench_app.command("latency", help=_help(latency.latency))(latency.latency)
bench_app.command("small", help=_help(small.small))(small.small)
bench_app.command("sms", help=_help(sms.sms))(sms.sms)
bench_app.command("compress", help=_help(compress.compress))(compress.compress)
for _name, _verb in (
    ("overhead", overhead.overhead),
    ("host", host.host),
    ("hostdev", hostdev.hostdev),
    ("peer", peer.peer),
    ("nurma", nurma.nurma),
    ("contention", contention.contention),
    ("params", params.params),
):
    bench_app.command(_name, help=_help(_verb))(_verb)
app.add_typer(bench_app, name="bench")
model_app = typer.Typer(
    help="What transfers and overlap with kernels take: a machine's parameters, and predictions.",
    no_args_is_help=True,
)
model_app.command("predict", help=_help(model.predict))(model.predict)
model_app.command("fit", help=_help(model_fit.model_fit))(model_fit.model_fit)
model_app.command("validate", help=_help(model_validate.validate))(model_validate.validate)
app.add_typer(model_app, name="model")
app.command("check", help=_help(check.check))(check.check)
app.command("copy", help=_help(copy.copy))(copy.copy)
app.command("topo", help=_help(topo.topo))(topo.topo)
# What follows the program's name is the program's, options and all.
app.command("watch", help=_help(watch.watch), context_settings={"allow_interspersed_args": False})(
    watch.watch
)
app.command("advise", help=_help(advise.advise))(advise.advise)
app.command("doctor", help=_help(doctor.doctor))(doctor.doctor)
app.command("reproduce", help=_help(reproduce.reproduce))(reproduce.reproduce)
app.command("report", help=_help(report.report))(report.report)


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
    """Take the options that come before a verb; they have done their work by now."""


_INTERRUPTED = (
    "interrupted; what was measured is kept: 'lanescope report latest' shows it unless --out named "
    "a folder, and 'bench --params FILE --out FOLDER --resume' goes on with a suite"
)


def _interrupted() -> str:
    # These verbs say themselves where a run is, and 'report' shows none of theirs.
    by_itself = sys.argv[1:2] == ["model"] or sys.argv[1:3] == ["bench", "compress"]
    return "interrupted" if by_itself else _INTERRUPTED


def main() -> NoReturn:
    """Run the command line and exit; signals are exceptions by now (`lanescope.interruption`)."""
    with tolerant_streams():
        code = _run()
    sys.exit(code)


def _run() -> int:
    """Run the command line and return the exit code; whatever fails has its sentence by then."""
    try:
        code = app(standalone_mode=False)
        if code == ExitCode.INTERRUPTED:  # typer has caught the interruption
            return _fail(_interrupted(), code)
        if sys.stdout is not None:  # closed by whoever started us
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
        what = error.filename or "the output"
        message = f"cannot read or write {what}: {error.strerror or error}"
        return _drop_output(_fail(message, ExitCode.INPUT))
    except Exception as error:
        # typer's own errors, whichever copy of click they come from, know how to say it.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            return _drop_output(_fail(report_fault(error), ExitCode.FAULT))
        text = _one_line(format_message())  # empty where help has been printed instead
        code = getattr(error, "exit_code", ExitCode.INPUT)
        return _fail(text, code) if text else code
    return code if isinstance(code, int) else ExitCode.OK


def _fail(message: str, code: int) -> int:
    print(f"lanescope: {message}", file=sys.stderr)
    return code


def _drop_output(code: int) -> int:
    # What could not be written is still there, and the interpreter would try again at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code


def _one_line(text: str) -> str:
    return " ".join(text.split())
