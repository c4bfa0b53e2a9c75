"""``model predict``: what each method of moving a workload's data takes, ranked."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Annotated, Any, ClassVar

from lanescope.calls import checked
from lanescope.codec.fields import shown
from lanescope.document.blocks import Block, Cell, Column, Group, Kind, Section, Span, Table, Text
from lanescope.document.chart import INTERVAL, Axis, Chart, Curve
from lanescope.errors import InputError
from lanescope.kinds import StrPath
from lanescope.machine import shipped_names as machines_that_ship
from lanescope.machine.machine import Machine
from lanescope.prediction.explanation import bound_text, method_text, why
from lanescope.prediction.machine_library import (
    BASE,
    gpu_named,
    known_gpus,
    library_parameters,
    machine_of,
)
from lanescope.prediction.parameters import LinkParameters, Origin
from lanescope.prediction.predictor import Prediction, predictor_for, predictor_named
from lanescope.prediction.rank import Ranking, rank, require_possible
from lanescope.prediction.replay import Several, on_several
from lanescope.prediction.roofline import Bounds, bounds_as_printed, bounds_of, peaks_of, too_fast
from lanescope.prediction.stored import named_parameters
from lanescope.prediction.workload import STREAMED, Method, Workload
from lanescope.report.format import (
    bytes_text,
    estimate_text,
    gbs_text,
    seconds_text,
)
from lanescope.studies.analysis import (
    PARAMETERS,
    Analysis,
    AnalysisResult,
    Observer,
    Parameters,
    link_parameters,
    seconds_fields,
)
from lanescope.studies.options import Option, size_option
from lanescope.units import durations
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import Bytes
from lanescope.units.values import Real, Seconds, Value, Whole

#: Operations of one kernel, and of a GPU in a second.
_MOST_FLOPS = 1e21
_MOST_SECONDS = 86400
#: More streams than any machine has use for; each number is a prediction.
_MOST_STREAMS = 4096
#: Points of a chart for each doubling of the streams, and the number of the star's marker.
_POINTS, _STAR = 3, 7
#: What every table of predictions has.
_TIME, _INTERVAL = Column("time", Kind.SECONDS), Column("95 % interval", Kind.SECONDS)


def _times(name: str, help: str) -> Option:
    value = Real(name, "times", 1e6, "each byte", least=0)
    return Option(value, "TIMES", help, "1, assumed")


def _arrays(name: str, help: str) -> Option:
    return Option(Whole(name, 1, 4096, "a copy is made of each"), "N", help, "1")


def _peak(name: str, unit: str, most: float, example: str, help: str) -> Option:
    return Option(Real(name, unit, most, example), unit if unit == "GB/s" else "N", help)


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Predict(Analysis):
    """Predict what each method of moving a workload's data takes, and rank them.

    A round is bytes to the GPU, a kernel, and bytes back. Every time is predicted, from a few
    parameters of the machine.

    Attributes
    ----------
    h2d_bytes, d2h_bytes
        Bytes of a round in each direction; sizes as text, too.
    kernel_seconds
        Time of the kernel with its data in the GPU's memory: seconds, or text such as ``"12ms"``.
    streams
        Numbers of streams to try, as numbers or as text such as ``"1,2,4..16"``.
    parameters
        Link parameters: a name that ships, a file, a run of ``model fit``, or a `LinkParameters`;
        None for those of this machine.
    on
        Other links, such as ``"pcie5"``: the same is predicted for each.
    h2d_arrays, d2h_arrays
        Arrays that the bytes of a direction are in.
    mapped_reads, mapped_writes
        How often the kernel reads and writes a mapped byte over the link, in whole lines. None: it
        is assumed to be once, and methods with mapped memory are not `Ranking.chosen`.
    steps
        Waves of the kernel's thread blocks, times the passes of a loop in each: so often it reads,
        computes and writes one after the other where its memory is mapped.
    kernel_parts
        The kernel's time for one of so many equal parts, such as ``{8: "25us"}``: a small part may
        take longer than its share. Of use with three or four numbers of parts.
    needs_previous
        Whether a part needs the input of the one before.
    fresh_output
        Whether pageable memory that bytes go back to is new, as PyTorch's ``.cpu()`` has it.
    flops, device_bytes
        Operations of the kernel, and its bytes to and from the GPU's memory.
    peak_flops, memory_gbs
        Peaks of the GPU, FLOP/s and GB/s, for the roofline.
    predictor
        ``equations``, ``equations-shared`` or ``replay``; None chooses by the parameters.
    gpus
        Predict also so many GPUs at once, which share the host's memory.
    machine
        A GPU of the library by name, such as ``a100-sxm``: published or derived parameters.
        With `gpus` also a machine, or its file, whose links they share; None for this one.
    """

    verb: ClassVar[str] = "predict"

    h2d_bytes: Annotated[
        Bytes, size_option("Bytes to the GPU each round.", None, "--h2d", zero=True)
    ] = 0
    d2h_bytes: Annotated[
        Bytes, size_option("Bytes back to the host.", None, "--d2h", zero=True)
    ] = 0
    kernel_seconds: Annotated[
        durations.Seconds | None,
        Option(
            Seconds("--kernel", 1, 86_400_000_000_000, "up to a day, or 0", zero=True),
            "TIME",
            "The kernel's time, all of its data in the GPU's memory; such as 12ms, 300us, 0.",
        ),
    ] = None
    streams: Annotated[
        str | int | Sequence[int],
        Option(Value("--streams"), "N|LIST|A..B", "Numbers of streams to try.", "1..256"),
    ] = "1..256"
    parameters: Annotated[Parameters, dataclasses.replace(PARAMETERS, old=())] = None
    machine: Annotated[
        Machine | StrPath | None,
        Option(
            Value("--machine"),
            "FILE_OR_NAME",
            "A GPU by name, such as a100-sxm; with --gpus also the machine whose links they share.",
            old=("--topology",),
        ),
    ] = None
    on: Annotated[
        Sequence[str],
        Option(
            Value("--on"), "LINK", "Also on this link, such as pcie5; may be repeated.", None, True
        ),
    ] = ()
    h2d_arrays: Annotated[
        int, _arrays("--arrays-in", "Arrays that the bytes to the GPU are in.")
    ] = 1
    d2h_arrays: Annotated[int, _arrays("--arrays-out", "Arrays that the bytes back are in.")] = 1
    mapped_reads: Annotated[
        float | None, _times("--mapped-reads", "How often a mapped byte is read over the link.")
    ] = None
    mapped_writes: Annotated[
        float | None, _times("--mapped-writes", "How often a mapped byte is written over it.")
    ] = None
    steps: Annotated[
        float | None,
        Option(
            Real("--steps", "steps", 1e9, "such as 12"),
            "N",
            "Waves of the kernel's thread blocks, times passes in each; default: very many.",
        ),
    ] = None
    kernel_parts: Annotated[
        Sequence[str] | Mapping[int, str | float],
        Option(
            Value("--kernel-part"),
            "N=TIME",
            "The kernel's time for one of N parts, such as 8=25us; may be repeated.",
            None,
            True,
        ),
    ] = ()
    needs_previous: Annotated[
        bool,
        Option(Value("--needs-previous"), "", "A part needs the input of the one before."),
    ] = False
    fresh_output: Annotated[
        bool,
        Option(
            Value("--fresh-output"),
            "",
            "Pageable memory that bytes go back to is new: its pages are not there yet.",
        ),
    ] = False
    flops: Annotated[
        float | None,
        _peak("--flops", "operations", _MOST_FLOPS, "such as 4e9",
              "Operations of the kernel, such as 4e9."),
    ] = None  # fmt: skip
    device_bytes: Annotated[
        Bytes | None, size_option("Bytes to and from the GPU's memory.", None, "--device-bytes")
    ] = None
    peak_flops: Annotated[
        float | None,
        _peak("--peak-flops", "FLOP/s", _MOST_FLOPS, "such as 34e12",
              "Of the GPU, FLOP/s, such as 34e12."),
    ] = None  # fmt: skip
    memory_gbs: Annotated[
        float | None,
        _peak("--memory-bandwidth", "GB/s", 1e6, "such as 4800", "Of the GPU's memory, GB/s."),
    ] = None
    predictor: Annotated[
        str | None,
        Option(
            Value("--predictor"),
            "NAME",
            "equations, equations-shared or replay; default: replay with parameters that were "
            "measured, equations with published ones.",
        ),
    ] = None
    gpus: Annotated[
        int | None,
        Option(
            Whole("--gpus", 2, 16, "one is predicted anyhow"),
            "N",
            "Also on so many GPUs at once, which share the host's memory.",
        ),
    ] = None

    def result(self, observer: Observer) -> Predicted:
        """Return the methods, ranked."""
        work = self._workload()
        counts = stream_counts(self.streams)
        known = self._known()
        name = self.predictor
        by = predictor_for(known) if name is None else predictor_named(name)
        peaks = peaks_of(self.peak_flops, self.memory_gbs)
        others = []
        if self.on:
            from lanescope.prediction.links import with_link

            others = [with_link(known, link) for link in self.on]
        ranking = rank(work, known, by, counts)
        return Predicted(
            by.name,
            ranking,
            bounds_of(work, known, peaks),
            None if peaks is None else bounds_as_printed(work, known, peaks),
            tuple(rank(work, other, by, counts) for other in others),
            self._several(ranking),
            too_fast(work, peaks),
        )

    def _known(self) -> LinkParameters:
        """Return the parameters that were asked for, or those of a GPU by name."""
        if self._gpu_name is not None:
            if self.parameters is not None:
                raise InputError(
                    f"--machine {self._gpu_name} has parameters of its own; leave out --parameters"
                )
            return library_parameters(self._gpu_name, named_parameters(BASE))
        if self.machine is not None and self.gpus is None:
            if self._machine_name is not None and not _names_machine(self._machine_name):
                gpu_named(self._machine_name)  # says which there are
            raise InputError("--machine is what several GPUs share; give --gpus, too")
        return link_parameters(self.parameters)

    @property
    def _machine_name(self) -> str | None:
        machine = self.machine
        return None if machine is None or isinstance(machine, Machine) else os.fspath(machine)

    @property
    def _gpu_name(self) -> str | None:
        return self._machine_name if self._machine_name in known_gpus() else None

    def _workload(self) -> Workload:
        if self.kernel_seconds is None:
            raise InputError(
                "the kernel's time is missing; measure it with its data in the GPU's memory and "
                "give --kernel, such as 12ms, or 0 for copies alone"
            )
        work = Workload(
            self.h2d_bytes,
            self.d2h_bytes,
            self.kernel_seconds,
            self.h2d_arrays,
            self.d2h_arrays,
            needs_previous=self.needs_previous,
            mapped_reads=1.0 if self.mapped_reads is None else self.mapped_reads,
            mapped_writes=1.0 if self.mapped_writes is None else self.mapped_writes,
            mapped_assumed=self.mapped_reads is None and self.mapped_writes is None,
            steps=self.steps,
            fresh_output=self.fresh_output,
            kernel_parts=kernel_parts(self.kernel_parts),
            flops=self.flops,
            device_bytes=self.device_bytes,
        )
        require_possible(work)
        return work

    def _several(self, ranking: Ranking) -> Several | None:
        if self.gpus is None:
            return None
        from lanescope.studies.running import resolve_machine

        if self._gpu_name is not None:
            machine = machine_of(self._gpu_name, self.gpus)
        else:
            machine = resolve_machine(self.machine)
        return on_several(ranking, self.gpus, machine)


@dataclass(frozen=True, slots=True)
class Predicted(AnalysisResult):
    """A ranking on the machine and on other links, and the bounds.

    Attributes
    ----------
    predictor
        By which.
    printed
        The bounds as section III prints them; None without the GPU's peaks.
    on
        The same workload with other links, in the order they were named.
    several
        The same on several GPUs at once; None where that was not wanted.
    warning
        Why the numbers given cannot all be right; None where they can.
    """

    predictor: str
    ranking: Ranking
    bounds: Bounds
    printed: Bounds | None = None
    on: tuple[Ranking, ...] = ()
    several: Several | None = None
    warning: str | None = None

    def blocks(self) -> list[Section]:
        """Return the ranked methods, why, and what else was wanted."""
        ranking, known = self.ranking, self.ranking.parameters
        streamed = [method_text(one) for one in ranking.best if one.method in STREAMED]
        best = ", ".join(streamed) or "none was predicted"
        methods: list[Block] = [
            Text(
                f"Predicted by {self.predictor} for {known.name}: {known.gpu}, "
                f"{known.link}, {known.origin} parameters"
            ),
            *([Text(f"Parameters: {known.source}.")] if known.origin is Origin.DERIVED else ()),
            Text(workload_text(ranking)),
            _methods(ranking),
            Text(f"Bounds (predicted): {bounds_text(self.bounds)}"),
        ]
        if self.warning is not None:
            methods.append(Text(self.warning))
        if self.printed is not None:
            one = bounds_text(self.printed)
            methods.append(Text(f"With one bandwidth for both directions (predicted): {one}"))
        methods.append(Text(f"Best numbers of streams (predicted): {best}"))
        found = [
            Section("methods", "Methods", methods),
            Section("why", "Why", [Text(why(ranking))]),
        ]
        if self.on:
            found.append(Section("links", "Other links", [_links(ranking, self.on)]))
        if self.several is not None:
            shared = Text(several_text(self.several))
            table = _several(self.several, ranking)
            found.append(Section("several", "Several GPUs", [table, shared]))
        return found

    def charts(self) -> list[Chart]:
        """Return a curve for each method with its band, and a star at the fastest."""
        ranking, known = self.ranking, self.ranking.parameters
        last = max(curve.most_streams for curve in ranking.curves.values())
        curves = [_curve(method, tuple(curve), last) for method, curve in ranking.curves.items()]
        best = ranking.winner
        at, time = (float(best.streams),), (best.seconds.value * 1e3,)
        star = Curve(f"fastest: {method_text(best)}", at, time, colour=_STAR)
        chart = Chart(
            "predict",
            "model",
            f"Predicted times on {known.name}, {known.link}",
            workload_text(ranking),
            Axis("Streams", log=True),
            Axis("Time of a round, predicted", "ms"),
            (*curves, star),
            band=INTERVAL,
        )
        return [chart]

    def as_dict(self) -> dict[str, Any]:
        """Return all that the blocks show, and the curves; times are seconds, sizes bytes."""
        ranking, several = self.ranking, self.several
        return {
            "schema": self.schema,
            "predicted": True,
            "predictor": self.predictor,
            "warning": self.warning,
            "workload": dataclasses.asdict(ranking.workload),
            **_ranking(ranking),
            "bounds": _bounds(self.bounds),
            "bounds_as_printed": None if self.printed is None else _bounds(self.printed),
            "curves": {
                str(method): [_prediction(one) for one in curve]
                for method, curve in ranking.curves.items()
            },
            "on": [_ranking(other) for other in self.on],
            "several": several
            and dataclasses.asdict(several)
            | {"predictions": [_prediction(one) for one in several.predictions]},
        }


def kernel_parts(given: Sequence[str] | Mapping[int, str | float]) -> tuple[tuple[int, float], ...]:
    """Return pairs of a number of parts and seconds, from ``8=25us`` or a mapping.

    Raises
    ------
    InputError
        If a text is none of that kind, or a number is not 2 to 4096.

    >>> kernel_parts(["8=25us", "32=9us"])
    ((8, 2.5e-05), (32, 9e-06))
    """
    if isinstance(given, Mapping):
        pairs = [(str(number), seconds) for number, seconds in given.items()]
    else:
        pairs = [(left, right) for left, _, right in (one.partition("=") for one in given)]
    found: dict[int, float] = {}
    for number, seconds in pairs:
        is_number = re.fullmatch(r"\s*[0-9]{1,4}\s*", number) is not None
        if seconds == "" or not is_number or not 2 <= int(number) <= _MOST_STREAMS:
            raise InputError(
                f"--kernel-part {shown(f'{number}={seconds}')} is no number of parts from 2 to "
                f"{_MOST_STREAMS} and a time; write the number, = and the time of one part, such "
                "as 8=25us"
            )
        taken = (
            durations.parse_seconds(seconds, "--kernel-part")
            if isinstance(seconds, str)
            else seconds
        )
        if not 0 < taken < _MOST_SECONDS:
            raise InputError(f"--kernel-part {number}={seconds} is no time above 0 and up to a day")
        found[int(number)] = taken
    return tuple(sorted(found.items()))


def _names_machine(name: str) -> bool:
    return name in machines_that_ship() or name.endswith(".toml") or Path(name).is_file()


def stream_counts(streams: str | int | Sequence[int]) -> tuple[int, ...]:
    """Return numbers of streams, rising, from numbers or from ``16``, ``1,2,4`` or ``1..256``.

    Raises
    ------
    InputError
        If it is none of these, or a number is not 1 to 4096.

    >>> stream_counts("4,1..3")
    (1, 2, 3, 4)
    """
    if isinstance(streams, int):
        streams = str(streams)
    text = streams if isinstance(streams, str) else ",".join(map(str, streams))
    found: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,6})\s*(?:\.\.\s*([0-9]{1,6})\s*)?", piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= _MOST_STREAMS:
            raise InputError(
                f"--streams {shown(text)} is no number of streams from 1 to {_MOST_STREAMS}; write "
                "for example 16, 1,2,4,8 or 1..256"
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def workload_text(ranking: Ranking) -> str:
    """Return the workload in one line."""
    work = ranking.workload
    into = bytes_text(work.h2d_bytes) if work.h2d_bytes else "nothing"
    back = bytes_text(work.d2h_bytes) if work.d2h_bytes else "nothing"
    kernel = seconds_text(work.kernel_seconds)
    kernel = f"a kernel of {kernel}" if work.kernel_seconds else "no kernel"
    return f"Each round: {into} to the GPU, {kernel}, {back} back"


def several_text(several: Several) -> str:
    """Return what the GPUs share, in a sentence."""
    began = f"One thread of {several.machine} begins a round on each GPU; "
    if not several.shared:
        return (
            f"{began}that they share anything whose speed is known, its machine file does not "
            "tell: give the nodes' memory_gbs where the host's memory may be the limit."
        )
    return f"{began}they share {', '.join(several.shared)}, max-min fairly."


def _methods(ranking: Ranking) -> Table:
    columns = (
        Column("method"),
        Column("streams", Kind.COUNT),
        *(_TIME, _INTERVAL),
        Column("bound by"),
        Column("× fastest", Kind.FACTOR),
    )
    rows = [
        (
            str(one.method),
            one.streams if one.method in STREAMED else None,
            *_times_of(one),
            bound_text(one),
            one.seconds.value / ranking.winner.seconds.value,
        )
        for one in ranking.best
    ]
    return Table("Methods, fastest first (predicted)", columns, [Group(rows)])


def _times_of(one: Prediction) -> tuple[Cell, Span]:
    return Cell(one.seconds.value, strong=True), Span(one.seconds.low, one.seconds.high)


def _named(bounds: Bounds) -> Iterator[tuple[str, Estimate]]:
    yield "full overlap", bounds.full_overlap
    yield "no overlap", bounds.zero_overlap
    yield "mapped memory", bounds.mapped


def bounds_text(bounds: Bounds) -> str:
    """Return three bounds in one line, each with its interval where it has one."""
    parts = []
    for name, seconds in _named(bounds):
        text = f"{name} {estimate_text(seconds)}"
        if (rate := bounds.rate(seconds)) is not None:
            gflops = f"{gbs_text(rate * 1e-9)} GFLOP/s"
            text = f"{text} ({gflops})" if seconds.is_exact else f"{text[:-1]}, {gflops})"
        parts.append(text)
    return ", ".join(parts)


def _links(here: Ranking, others: Sequence[Ranking]) -> Table:
    """Return every method on every link; what each gains is against the same method here."""
    columns = (
        Column("method"),
        Column("streams", Kind.COUNT),
        *(_TIME, _INTERVAL),
        Column("× fastest", Kind.FACTOR),
        Column("times as fast as here", Kind.FACTOR),
    )
    seconds = {one.method: one.seconds.value for one in here.best}
    groups = []
    for ranking in (here, *others):
        link = ranking.parameters.link + (" (as it is)" if ranking is here else "")
        rows = [
            (
                str(one.method),
                one.streams if one.method in STREAMED else None,
                *_times_of(one),
                one.seconds.value / ranking.winner.seconds.value,
                seconds[one.method] / one.seconds.value if one.method in seconds else None,
            )
            for one in ranking.best
        ]
        groups.append(Group(rows, link if ranking.decided else f"{link}, fastest not decided"))
    return Table("On other links (predicted)", columns, groups)


def _several(several: Several, ranking: Ranking) -> Table:
    columns = (Column("method"), _TIME, _INTERVAL, Column("× one GPU", Kind.FACTOR))
    alone = {one.method: one.seconds.value for one in ranking.best}
    rows = [
        (method_text(one), *_times_of(one), one.seconds.value / alone[one.method])
        for one in sorted(several.predictions, key=lambda p: p.seconds.value)
    ]
    title = f"On {several.gpus} GPUs at once (predicted by replay)"
    return Table(title, columns, [Group(rows)])


def _curve(method: Method, curve: tuple[Prediction, ...], last: int) -> Curve:
    """Methods without streams take the same time at any number of them."""
    # so few points that their markers stand apart: those next to each other share one
    places = {round(log2(one.streams) * _POINTS): one for one in reversed(curve)}
    curve = tuple(one for one in curve if one in places.values() or one is curve[-1])
    xs = [float(one.streams) for one in curve]
    if method not in STREAMED and last > 1:
        curve, xs = curve * 2, [1.0, float(last)]
    return Curve(
        str(method),
        tuple(xs),
        tuple(one.seconds.value * 1e3 for one in curve),
        tuple(one.seconds.low * 1e3 for one in curve),
        tuple(one.seconds.high * 1e3 for one in curve),
        colour=list(Method).index(method),
    )


def _ranking(ranking: Ranking) -> dict[str, Any]:
    known = ranking.parameters
    return {
        "machine": known.name,
        "link": known.link,
        "origin": str(known.origin),
        "source": known.source,
        "ranking": [_prediction(one) for one in ranking.best],
        "decided": ranking.decided,
        "chosen": _prediction(ranking.chosen),
        "skipped": [dataclasses.asdict(one) for one in ranking.skipped],
        "closed_form_streams": ranking.closed_form,
        "why": why(ranking),
    }


def _bounds(bounds: Bounds) -> dict[str, Any]:
    return {
        field: seconds_fields(one) | {"flops_per_second": bounds.rate(one)}
        for field, one in (
            ("full_overlap", bounds.full_overlap),
            ("zero_overlap", bounds.zero_overlap),
            ("mapped", bounds.mapped),
        )
    }


def _prediction(one: Prediction) -> dict[str, Any]:
    return {
        "method": str(one.method),
        "streams": one.streams,
        **seconds_fields(one.seconds),
        "busiest": one.busiest,
    }
