"""All studies by their verb, and how their fields become a command line and a Python call.

A study is a file here, with its options, what it measures, what it concludes and its report, and an
entry of the table; options that many have stand here, too.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lanescope.codec.fields import shown
from lanescope.errors import InputError
from lanescope.kinds import plain_hint
from lanescope.units.values import Size, Value, Whole

if TYPE_CHECKING:
    from pathlib import Path

    from lanescope.studies.analysis import Analysis
    from lanescope.studies.study import Study

#: No machine that is known has more of one kind.
MOST_PARTS = 1023


class Entry(NamedTuple):
    """Where a study is, and what is known of it before it is imported.

    Attributes
    ----------
    place
        File and class.
    summary
        The first sentence of its docstring, so that the help of all verbs is quick.
    group
        The command that it is one of; empty for a command of its own, None for none.
    """

    place: str
    summary: str
    group: str | None = "bench"


#: In the order of the help.
STUDIES = {
    "check": Entry(
        "check.Check", "Measure every path of this machine and say whether it is healthy.", ""
    ),
    "copy": Entry(
        "copy.Copies",
        "Measure copies that run at the same time, each and in sum, against what links allow.",
        "",
    ),
    "node": Entry(
        "node.NodeCheck",
        "Say in one line whether this node may run jobs, and which part is broken if not.",
        None,
    ),
    "bench": Entry(
        "nvbandwidth.Bench",
        "Measure cases of nvbandwidth: copy engines and kernels, one way, both ways, all at once.",
        None,
    ),
    "sweep": Entry(
        "sweep.Sweep",
        "Sweep copy sizes between host and GPU: delay, plateau, size that fills the link.",
    ),
    "latency": Entry(
        "latency.Latency",
        "Measure latencies of a GPU: loads by memory, launches, small copies, round trips.",
    ),
    "small": Entry(
        "small.Small",
        "Map small copies between host and GPU: which method to hand them over is the fastest.",
    ),
    "sms": Entry(
        "sms.Sms",
        "Find the fewest SMs that carry 98 % of what kernels can, for each path of a GPU.",
    ),
    "streams": Entry(
        "sweep.Streams",
        "Find how many copies at once it takes to fill a path, for each direction of a GPU.",
    ),
    "nccl": Entry(
        "nccl.Nccl",
        "Measure NCCL's send and receive, one way and both ways, and all-reduce between GPUs.",
    ),
    "taruc": Entry(
        "taruc.study.Suite",
        "Measure what topology, NUMA and contention cost: micro-benchmarks by a parameter file.",
        None,
    ),
    "overhead": Entry(
        "taruc.micro_benchmarks.Overhead",
        "Measure what allocating, first touching and releasing memory costs.",
    ),
    "host": Entry(
        "taruc.micro_benchmarks.Host", "Measure copies of blocks by one thread between NUMA nodes."
    ),
    "hostdev": Entry(
        "taruc.micro_benchmarks.HostDev",
        "Measure copies of blocks between host memory and GPUs, each way.",
    ),
    "peer": Entry(
        "taruc.micro_benchmarks.Peer",
        "Measure copies from GPU to GPU: peer, by unified addresses, staged through the host.",
    ),
    "nurma": Entry(
        "taruc.micro_benchmarks.Nurma",
        "Measure single loads of memory: strided and in random order, dependent and independent.",
    ),
    "contention": Entry(
        "taruc.micro_benchmarks.Contention",
        "Measure what many cost each other: at memory channels, between sockets, over PCIe.",
    ),
}

#: Questions about transfers that no run of experiments answers; see `lanescope.studies.analysis`.
ANALYSES = {
    "predict": Entry(
        "predict.Predict",
        "Predict what each method of moving a workload's data takes, and rank them.",
        "model",
    ),
    "fit": Entry(
        "fit.Fit",
        "Measure L + o, G and g of a GPU's link, and all else that predictions take.",
        "model",
    ),
    "validate": Entry(
        "ocean.validate.Validate",
        "Run kernels by every method, predict each, and say how far off that is.",
        "model",
    ),
    "compress": Entry(
        "compress.Compress",
        "Compress arrays without loss by every codec: how small, how fast, and whether it pays.",
    ),
    "advise": Entry(
        "advise.Advise",
        "Say what pinned memory, streams, mapped memory or batches would gain, and when not.",
        None,
    ),
}


def study_named(verb: str) -> type[Study] | None:
    """Return the study of a verb; None where it is none."""
    found: type[Study] | None = _named(STUDIES, verb)
    return found


def analysis_named(verb: str) -> type[Analysis] | None:
    """Return the analysis of a verb; None where it is none."""
    found: type[Analysis] | None = _named(ANALYSES, verb)
    return found


def stored_analysis(folder: Path) -> type[Analysis] | None:
    """Return the analysis whose result a run folder holds; None where it is another run."""
    from lanescope.store.folder import verb_of

    found = analysis_named(verb_of(folder))
    return found if found is not None and found.title else None


def _named(known: dict[str, Entry], verb: str) -> Any:
    if verb not in known:
        return None
    module, _, name = known[verb].place.rpartition(".")
    return getattr(importlib.import_module(f"lanescope.studies.{module}"), name)


@dataclass(frozen=True, slots=True)
class Option:
    """How an option of a study stands on the command line.

    Attributes
    ----------
    value
        Its name, and what its text may be.
    default
        The default as a user would write it; None where the help says it.
    repeated
        Whether it may be given several times.
    old
        Names that it had before: they are taken for one more version, with a note.
    metavar
        What the help calls its value; None for what values of that kind are called.
    """

    value: Value
    help: str
    default: str | None = None
    repeated: bool = False
    old: tuple[str, ...] = ()
    metavar: str | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """How a field of a study stands on the command line without the name of an option.

    Attributes
    ----------
    value
        Makes the field's value of all words.
    """

    metavar: str
    help: str
    value: Callable[[Sequence[str]], Any]


def parameter_of(name: str, default: Any, hint: Any) -> inspect.Parameter:
    """Return a field as a parameter of a Python function: by name only, if it has a default."""
    if default is dataclasses.MISSING:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Parameter(name, kind, annotation=hint)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def as_function(
    call: Callable[..., Any], parameters: Sequence[inspect.Parameter], returned: Any
) -> None:
    """Give a function parameters: their hints for checks, and plain types to be read."""
    plain = [one.replace(annotation=plain_hint(one.annotation)) for one in parameters]
    signature = inspect.Signature(plain, return_annotation=returned)
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": returned}


def options_of(options: type[Any]) -> Iterator[tuple[str, Any, Option | Argument]]:
    """Yield the name, the default and the option of each field that the command line has.

    `options` is a dataclass whose fields are annotated with `Option` or `Argument`.
    """
    yield from ((name, default, about) for name, default, _, about in fields_of(options) if about)


def fields_of(options: type[Any]) -> Iterator[tuple[str, Any, Any, Option | Argument | None]]:
    """Yield each field with its default, its type, and how it stands on the command line."""
    hints = typing.get_type_hints(options, include_extras=True)
    for field in dataclasses.fields(options):
        hint = hints[field.name]
        about = (one for one in typing.get_args(hint) if isinstance(one, Option | Argument))
        yield field.name, field.default, hint, next(about, None)


def gpu_option(help: str) -> Option:
    """Return the option for numbers of GPUs."""
    value = Whole("--gpu", 0, MOST_PARTS, "more are in no machine")
    return Option(value, f"{help}; may be repeated.", repeated=True)


def size_option(help: str, default: str | None, name: str = "--size", **bounds: Any) -> Option:
    """Return an option for the size of copies, in bytes; `bounds` as of `Size`."""
    return Option(Size(name, **bounds), help, default)


def one_run(words: Sequence[str]) -> str | None:
    """Return the run that an argument names; None without.

    Raises
    ------
    InputError
        If there are several.
    """
    if len(words) > 1:
        raise InputError(f"one run is taken, not {len(words)}: {shown(words[1])} is one too many")
    run: str | None = Value("RUN")(words[0]) if words else None
    return run
