"""``model predict``: what each method of moving a workload's data takes, ranked."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.codec.fields import from_attributes, shown
from lanescope.errors import InputError, argument, command
from lanescope.kinds import StrPath
from lanescope.machine import shipped_names as machines_that_ship
from lanescope.machine.machine import Machine
from lanescope.prediction.costs import with_host_time
from lanescope.prediction.explanation import bounds_as_printed, bounds_of, peaks_of, too_fast
from lanescope.prediction.other_links import (
    BASE,
    gpu_named,
    known_gpus,
    library_parameters,
    machine_of,
)
from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.predictor import (
    MAPPED,
    MOST_CONTENTION,
    Method,
    Predictor,
    Workload,
    predictor_for,
    predictor_named,
    with_contention,
    with_crossings,
)
from lanescope.prediction.rank import Ranking, rank, require_possible
from lanescope.prediction.replay import Several, on_several
from lanescope.prediction.stored_parameters import named_parameters
from lanescope.report.format import seconds_text
from lanescope.studies import Option, size_option
from lanescope.studies.analysis import (
    PARAMETERS,
    Analysis,
    Observer,
    Parameters,
    link_parameters,
)
from lanescope.studies.predicted import Predicted
from lanescope.units import words
from lanescope.units.sizes import Bytes
from lanescope.units.values import Real, Scaled, Seconds, Value, Whole

#: Operations of one kernel, and of a GPU in a second.
_MOST_FLOPS = 1e21
_MOST_SECONDS = 86400
#: A part takes no longer than all of the kernel, but for what two measurements differ by.
_LONGEST_PART = 2
#: More streams than any machine has use for; each number is a prediction.
_MOST_STREAMS = 4096


def _times(name: str, help: str) -> Option:
    value = Real(name, "times", 1e6, "each byte", least=0)
    return Option(value, help, "1, assumed", metavar="TIMES")


def _arrays(name: str, help: str) -> Option:
    return Option(Whole(name, 1, 4096, "a copy is made of each"), help, "1")


def _operations(name: str, unit: str, example: str, help: str) -> Option:
    words = "(?:FLOPS?|FLOP/s|OPS?)?"
    value = Scaled(name, unit, _MOST_FLOPS, f"such as {example}", word=words, scale=1.0)
    return Option(value, f"{help}, such as {example}.", metavar="N")


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
        Time of the kernel with its data in the GPU's memory: seconds, or text such as ``"12ms"``;
        0 for copies alone.
    streams
        Numbers of streams to try, as numbers or as text such as ``"1,2,4..16"``.
    parameters
        Link parameters: a name that ships, a GPU such as ``a100-sxm``, a file, a run of ``model
        fit``, or a `LinkParameters`; None for those of this machine.
    on
        Other links, such as ``"pcie5"``: the same is predicted for each.
    h2d_arrays, d2h_arrays
        Arrays that the bytes of a direction are in.
    mapped_reads, mapped_writes
        How often the kernel reads and writes a mapped byte over the link, in whole lines. None: it
        is assumed to be once, and methods with mapped memory are not `Ranking.chosen`.
    mapped_contention
        How much copies to the GPU and the kernel's writes of mapped memory slow each other, as a
        share of what the fit's kernel does; None: as much.
    measured
        What a round took on the machine of the parameters by Hybrid and by Implicit with one
        stream, such as ``{"hybrid": "1.9ms", "implicit": "2.3ms"}``: from these it is worked out
        how often the kernel writes and reads a mapped byte, see `with_crossings`. Where bytes go
        both ways both are needed, or one and the count that the other would tell. One more by
        Hybrid with several streams, such as ``{"hybrid:8": "1.4ms"}``, tells how much its writes
        hold up copies, see `with_contention`.
    steps
        Waves of the kernel's thread blocks, times the passes of a loop in each: so often it reads,
        computes and writes one after the other where its memory is mapped.
    kernel_parts
        The kernel's time for one of so many equal parts, such as ``{8: "25us"}``: a small part may
        take longer than its share. Of use with three or four numbers of parts.
    kernel_watches
        Watches of the program with its kernels, each cut into another number of parts, which tell
        the same; the one in a single part also `kernel_seconds`. What is given as a time wins.
    host_seconds
        Of the program for each call, besides the driver: seconds, or text such as ``"13us"``.
        Libraries and interpreters take some µs.
    needs_previous
        Whether a part needs the input of the one before.
    fresh_output
        Whether pageable memory that bytes go back to is new, as PyTorch's ``.cpu()`` has it.
    host_cached
        Whether the program has just used the pageable memory, so that the host's caches hold it.
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
        words.Seconds | None,
        Option(
            Seconds("--kernel", 1, 86_400_000_000_000, "up to a day, or 0", zero=True),
            "The kernel's time, all of its data in the GPU's memory; such as 12ms, 300us, 0.",
        ),
    ] = None
    streams: Annotated[
        str | int | Sequence[int],
        Option(Value("--streams"), "Numbers of streams to try.", "1..256", metavar="N|LIST|A..B"),
    ] = "1..256"
    parameters: Annotated[Parameters, dataclasses.replace(PARAMETERS, old=())] = None
    machine: Annotated[
        Machine | StrPath | None,
        Option(
            Value("--machine"),
            "A GPU by name, such as a100-sxm; with --gpus also the machine whose links they share.",
            metavar="FILE_OR_NAME",
            old=("--topology",),
        ),
    ] = None
    on: Annotated[
        Sequence[str],
        Option(
            Value("--on"),
            "Also on this link, such as pcie5; may be repeated.",
            None,
            True,
            metavar="LINK",
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
    mapped_contention: Annotated[
        float | None,
        Option(
            Real("--mapped-contention", "a share", MOST_CONTENTION, "", least=0),
            "How much the kernel's writes hold up copies, 0 to 1.5; what --measured hybrid:8 tells",
            "1, as the fit's kernel",
            metavar="SHARE",
        ),
    ] = None
    measured: Annotated[
        Sequence[str] | Mapping[str, str | float],
        Option(
            Value("--measured"),
            "What a round took with one stream by hybrid or implicit, such as implicit=2.3ms: it "
            "tells how often mapped bytes cross; hybrid:8=1.4ms, with 8 streams, how much writes "
            "hold up copies; may be repeated.",
            None,
            True,
            metavar="METHOD=TIME",
        ),
    ] = ()
    steps: Annotated[
        float | None,
        Option(
            Real("--steps", "steps", 1e9, "such as 12"),
            "Waves of the kernel's thread blocks, times passes in each; default: very many.",
        ),
    ] = None
    kernel_parts: Annotated[
        Sequence[str] | Mapping[int, str | float],
        Option(
            Value("--kernel-part"),
            "The kernel's time for one of N parts, such as 8=25us; may be repeated.",
            None,
            True,
            metavar="N=TIME",
        ),
    ] = ()
    kernel_watches: Annotated[
        Sequence[StrPath],
        Option(
            Value("--kernel-watch"),
            "A watch of the program with its kernels, for their time; may be repeated, one for "
            "each number of parts.",
            None,
            True,
            metavar="RUN",
        ),
    ] = ()
    host_seconds: Annotated[
        words.Seconds,
        Option(
            Seconds("--host-time", 1, 1_000_000_000, "up to a second, or 0", zero=True),
            "What the program takes for each call besides the driver, such as 13us with PyTorch.",
            "0",
        ),
    ] = 0.0
    needs_previous: Annotated[
        bool, Option(Value("--needs-previous"), "A part needs the input of the one before.")
    ] = False
    fresh_output: Annotated[
        bool,
        Option(
            Value("--fresh-output"),
            "Pageable memory that bytes go back to is new: its pages are not there yet.",
        ),
    ] = False
    host_cached: Annotated[
        bool,
        Option(
            Value("--host-cached"),
            "The program has just used the pageable memory: the host's caches hold it.",
        ),
    ] = False
    flops: Annotated[
        float | None,
        _operations("--flops", "operations", "4e9", "Operations of the kernel"),
    ] = None
    device_bytes: Annotated[
        Bytes | None, size_option("Bytes to and from the GPU's memory.", None, "--device-bytes")
    ] = None
    peak_flops: Annotated[
        float | None,
        _operations("--peak-flops", "FLOP/s", "34e12 or 34TFLOPS", "Of the GPU, FLOP/s"),
    ] = None
    memory_gbs: Annotated[
        float | None,
        Option(
            Scaled("--memory-bandwidth", "GB/s", 1e6, "such as 4800 or 4.8TB/s"),
            "Of the GPU's memory, GB/s, or with its unit.",
            metavar="GB/s",
        ),
    ] = None
    predictor: Annotated[
        str | None,
        Option(
            Value("--predictor"),
            "equations, equations-shared or replay; default: replay with parameters of a fit or "
            "derived from one, equations with published ones.",
        ),
    ] = None
    gpus: Annotated[
        int | None,
        Option(
            Whole("--gpus", 2, 16, "one is predicted anyhow"),
            "Also on so many GPUs at once, which share the host's memory.",
        ),
    ] = None

    def result(self, observer: Observer) -> Predicted:
        """Return the methods, ranked."""
        known = with_host_time(self._known(), self.host_seconds)
        name = self.predictor
        by = predictor_for(known) if name is None else predictor_named(name)
        work = self._workload(known, by)
        counts = stream_counts(self.streams)
        peaks = peaks_of(self.peak_flops, self.memory_gbs)
        others = []
        if self.on:
            from lanescope.prediction.other_links import with_link

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
            self.host_seconds,
        )

    def _known(self) -> LinkParameters:
        """Return the parameters of a GPU by name, or those of `parameters`."""
        if self._gpu_name is not None:
            if self.parameters is not None:
                raise InputError(
                    f"{argument.machine} {self._gpu_name} has parameters of its own; leave out "
                    f"{argument.parameters}"
                )
            return library_parameters(self._gpu_name, named_parameters(BASE))
        if self._machine_name is not None and not _names_machine(self._machine_name):
            gpu_named(self._machine_name)  # says which there are
        if self.machine is not None and self.gpus is None:
            raise InputError(
                f"{argument.machine} is what several GPUs share; give {argument.gpus}, too"
            )
        return link_parameters(self.parameters)

    @property
    def _machine_name(self) -> str | None:
        machine = self.machine
        return None if machine is None or isinstance(machine, Machine) else os.fspath(machine)

    @property
    def _gpu_name(self) -> str | None:
        return self._machine_name if self._machine_name in known_gpus() else None

    def _workload(self, known: LinkParameters, by: Predictor) -> Workload:
        watched = watched_parts(self.kernel_watches)
        whole = watched.get(1) if self.kernel_seconds is None else self.kernel_seconds
        if whole is None:
            raise InputError(
                "the kernel's time is missing; measure it with its data in the GPU's memory and "
                f"give {argument.kernel_seconds}, such as 12ms, or 0 for copies alone"
            )
        reads, writes = self.mapped_reads, self.mapped_writes
        work = from_attributes(
            Workload,
            self,
            kernel_seconds=whole,
            mapped_reads=1.0 if reads is None else reads,
            mapped_writes=1.0 if writes is None else writes,
            mapped_contention=1.0 if self.mapped_contention is None else self.mapped_contention,
            mapped_assumed=reads is None and writes is None,
            kernel_parts=self._parts(watched, whole),
            has_kernel=whole > 0,
        )
        require_possible(work)
        rounds = measured_rounds(self.measured)
        times = {method: seconds for (method, streams), seconds in rounds.items() if streams == 1}
        several = {n: seconds for (_, n), seconds in rounds.items() if n > 1}
        one_way = not (work.h2d_bytes and work.d2h_bytes)
        if rounds and self._gpu_name is not None:
            raise InputError(
                f"{argument.measured} is of the machine whose parameters predict; predict that "
                f"one first, then give {argument.machine} with the {argument.mapped_reads}, "
                f"{argument.mapped_writes} and {argument.mapped_contention} that it prints"
            )
        for method, count, option, size in (
            (Method.IMPLICIT, reads, argument.mapped_reads, work.h2d_bytes),
            (Method.HYBRID, writes, argument.mapped_writes, work.d2h_bytes),
        ):
            if method in times and count is not None:
                raise InputError(
                    f"{argument.measured} {method.lower()} tells what {option} does; give one of "
                    "them"
                )
            if rounds and method not in times and count is None and size and not one_way:
                raise InputError(
                    f"{argument.measured} does not tell reads from writes without a time of "
                    f"{method.lower()} with one stream; give that, too, or {option}"
                )
        if several and self.mapped_contention is not None:
            raise InputError(
                f"{argument.measured} hybrid with several streams tells what "
                f"{argument.mapped_contention} does; give one of them"
            )
        if several and one_way:
            raise InputError(
                f"{argument.measured} hybrid with several streams tells how much writes hold up "
                "copies, and bytes go one way alone; leave it out"
            )
        work = with_crossings(work, times, known, by) if times else work
        for streams, seconds in several.items():
            work = with_contention(work, streams, seconds, known, by)
        return work

    def _parts(self, watched: Mapping[int, float], whole: float) -> tuple[tuple[int, float], ...]:
        """Return what is given of parts, and of other numbers of parts what was watched.

        Parameters
        ----------
        whole
            Seconds of the kernel that is not cut.

        Raises
        ------
        InputError
            If a part that is given takes far longer than that: it is in another unit, or of all.
        """
        parts = {number: seconds for number, seconds in watched.items() if number > 1}
        given = dict(kernel_parts(self.kernel_parts))
        for number, seconds in given.items():
            if seconds > _LONGEST_PART * whole:
                raise InputError(
                    f"{argument.kernel_parts} {number}: one of {number} parts takes "
                    f"{seconds_text(seconds)}, and the whole kernel {seconds_text(whole)}; give "
                    "the time of one part"
                )
        return tuple(sorted((parts | given).items()))

    def _several(self, ranking: Ranking) -> Several | None:
        if self.gpus is None:
            return None
        from lanescope.studies.running import resolve_machine

        if self._gpu_name is not None:
            machine = machine_of(self._gpu_name, self.gpus)
        else:
            machine = resolve_machine(self.machine)
        return on_several(ranking, self.gpus, machine)


def watched_parts(runs: Sequence[StrPath]) -> dict[int, float]:
    """Return the seconds of the kernel of one part by the number of parts, from watches.

    Raises
    ------
    InputError
        If two of them have as many parts, or as `watched_part` does.
    """
    found: dict[int, float] = {}
    for run in runs:
        parts, seconds = watched_part(run)
        if parts in found:
            raise InputError(
                f"{argument.kernel_watches} {run}: another watch has a round in {parts} "
                f"{'part' if parts == 1 else 'parts'}, too; name one for each number of parts"
            )
        found[parts] = seconds
    return found


def watched_part(run: StrPath) -> tuple[int, float]:
    """Return into how many parts a watched program cuts its rounds, and the kernel's time of one.

    Of the phase with the most time but for the host's pauses: what ran once at the start of a
    program takes seconds, in which its GPU does hardly anything.

    Raises
    ------
    InputError
        If there is no such watch, its kernels were not traced, or overlapped.
    """
    from lanescope.findings.advice import phases_of
    from lanescope.studies.advise import stored_watch

    phases = phases_of(stored_watch(os.fspath(run)))
    phase = max(phases, key=lambda one: one.busy_seconds)
    if phase.kernel_seconds is None:
        raise InputError(
            f"{argument.kernel_watches} {run}: its kernels were not traced; run "
            f"{command('watch --kernels -- PROGRAM')}"
        )
    if phase.part_seconds is None:
        raise InputError(
            f"{argument.kernel_watches} {run}: it has no kernels, or those of its {phase.parts} "
            "parts overlap, so that the time of one alone is not known; time one and give "
            f"{argument.kernel_parts} {phase.parts}=TIME"
        )
    return phase.parts, phase.part_seconds


def kernel_parts(given: Sequence[str] | Mapping[int, str | float]) -> tuple[tuple[int, float], ...]:
    """Return pairs of a number of parts and seconds, from ``8=25us`` or a mapping.

    Raises
    ------
    InputError
        If a text is none of that kind, or a number is not 2 to 4096, or there twice.

    >>> kernel_parts(["8=25us", "32=9us"])
    ((8, 2.5e-05), (32, 9e-06))
    """
    if isinstance(given, Mapping):
        pairs = [(str(number), seconds) for number, seconds in given.items()]
    else:
        pairs = [(left, right) for left, _, right in (one.partition("=") for one in given)]
    written = given if not isinstance(given, Mapping) else [f"{n}={s}" for n, s in pairs]
    found: dict[int, float] = {}
    for (number, seconds), text in zip(pairs, written, strict=True):
        is_number = re.fullmatch(r"\s*[0-9]{1,4}\s*", number) is not None
        if seconds == "" or not is_number or not 2 <= int(number) <= _MOST_STREAMS:
            raise InputError(
                f"{argument.kernel_parts} {shown(text)} is no number of parts from 2 to "
                f"{_MOST_STREAMS} and a time; write the number, = and the time of one part, such "
                "as 8=25us"
            )
        taken = (
            words.parse_seconds(seconds, argument.kernel_parts)
            if isinstance(seconds, str)
            else seconds
        )
        if not isinstance(taken, int | float) or not 0 < taken < _MOST_SECONDS:
            raise InputError(
                f"{argument.kernel_parts} {shown(text)} is no time above 0 and up to a day"
            )
        if int(number) in found:
            raise InputError(
                f"{argument.kernel_parts} {shown(text)}: another one has {int(number)} parts, too; "
                "give one time for each number of parts"
            )
        found[int(number)] = taken
    return tuple(sorted(found.items()))


def measured_rounds(
    given: Sequence[str] | Mapping[str, str | float],
) -> dict[tuple[Method, int], float]:
    """Return seconds of a round by method and number of streams, from texts or a mapping.

    Raises
    ------
    InputError
        If a text is none of that kind, or a method is another one or there twice.

    >>> measured_rounds(["hybrid=1.9ms", "hybrid:8=1.4ms"])
    {(<Method.HYBRID: 'Hybrid'>, 1): 0.0019, (<Method.HYBRID: 'Hybrid'>, 8): 0.0014}
    """
    pairs: list[tuple[str, str | float]]
    if isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        pairs = [(left, right) for left, _, right in (one.partition("=") for one in given)]
    found: dict[tuple[Method, int], float] = {}
    for name, seconds in pairs:
        method, streams = _method_and_streams(name)
        if method is None or seconds == "":
            raise InputError(
                f"{argument.measured} {shown(f'{name}={seconds}' if seconds else name)} is no "
                "method with mapped memory and a time; write hybrid=1.9ms, implicit=2.3ms or, "
                "with 8 streams, hybrid:8=1.4ms"
            )
        if isinstance(seconds, str):
            seconds = words.parse_seconds(seconds, argument.measured)
        if not isinstance(seconds, int | float) or not 0 < seconds < _MOST_SECONDS:
            raise InputError(f"{argument.measured} {name} is no time above 0 and up to a day")
        if any(one is method and (n > 1) == (streams > 1) for one, n in found):
            several = " with several streams" if streams > 1 else ""
            raise InputError(f"{argument.measured}: {method.lower()}{several} is there twice")
        found[method, streams] = seconds
    return found


def _method_and_streams(name: str) -> tuple[Method | None, int]:
    """Return what ``hybrid:8`` names; no method where it names none."""
    text, colon, number = name.strip().lower().partition(":")
    method = next((one for one in MAPPED if one.lower() == text), None)
    if not colon:
        return method, 1
    several = number.isdecimal() and len(number) <= len(str(_MOST_STREAMS))
    streams = int(number) if several else 0
    return method if method is Method.HYBRID and 1 < streams <= _MOST_STREAMS else None, streams


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
                f"{argument.streams} {shown(text)} is no number of streams from 1 to "
                f"{_MOST_STREAMS}; write for example 16, 1,2,4,8 or 1..256"
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))
