"""``model fit``: what transfers between the host and a GPU cost, measured or fitted again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from lanescope.calls import checked, shown
from lanescope.document.blocks import Bullets, Column, Group, Kind, Section, Table, TableCell, Text
from lanescope.document.contents import INTERVAL, Axis, Chart, Curve
from lanescope.engine.base import Backend
from lanescope.errors import InputError, MissingPartError, NotMeasuredError, argument, command
from lanescope.kinds import StrPath
from lanescope.machine import Machine, discover
from lanescope.prediction.contention import NotTogether, Together
from lanescope.prediction.costs import single_seconds
from lanescope.prediction.fit import USABLE, Residual, is_usable, residuals
from lanescope.prediction.parameters import CopyCost, Direction, Duplex, LinkParameters
from lanescope.prediction.points import SETTLED, MeasuredPoint, disturbed, plan, unsettled
from lanescope.prediction.stored_parameters import FILE, dumps, save, store_fit
from lanescope.report.format import (
    bytes_text,
    gbs_text,
    seconds_text,
    time_spread_text,
)
from lanescope.store.folder import default_runs_folder, result_place
from lanescope.studies import MOST_PARTS, Argument, Option, one_run
from lanescope.studies.analysis import (
    Analysis,
    AnalysisResult,
    Observer,
    OutFolder,
    analysis_folder,
)
from lanescope.studies.fit_run import (
    FACTS,
    NO_SETS,
    ROUNDS,
    Sets,
    contention_blocks,
    facts_of,
    fit_folder,
    measure_sets,
    sets_by_round,
    store_contention,
    store_samples,
)
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import bandwidth_gbs
from lanescope.units.values import Real, Whole

#: Sampling time of each of the points, which are about 560; seconds.
_BUDGET_SECONDS = 0.02
#: So many of the transfers that fit worst are in the report.
_WORST = 3
#: So many sizes are drawn, evenly spread over those that were cut into several numbers of streams.
_SIZES = 5
#: Of a copy that the host's caches hold.
_CACHED_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Fit(Analysis):
    """Measure L + o, G and g of a GPU's link, and all else that predictions take.

    Copies of 8 B to 1 GiB on 1 to 256 streams, both directions at once, kernels on mapped memory,
    pageable memory, launches; a fifth of the points is not fitted but compared. Of a machine with
    several GPUs also what they together read and write of host memory: each, each pair, all.

    The fit is stored for this machine: `predict`, `validate` and `advise` take it.

    Attributes
    ----------
    run
        A stored run, whose samples are fitted again; no GPU is needed.
    gpu
        Which GPU.
    budget_seconds
        Sampling time for one point, about.
    out
        Run folder; None makes one under the runs folder.
    """

    verb: ClassVar[str] = "fit"
    title: ClassVar[str] = "Link parameters"

    run: Annotated[
        StrPath | None,
        Argument("[RUN]", "Fit the samples of this run again; no GPU needed.", one_run),
    ] = None
    gpu: Annotated[
        int, Option(Whole("--gpu", 0, MOST_PARTS, "more are in no machine"), "Which GPU.", "0")
    ] = 0
    budget_seconds: Annotated[
        float,
        Option(
            Real("--budget", "seconds", 60, "for each point"),
            "Sampling time for one point, about.",
            str(_BUDGET_SECONDS),
        ),
    ] = _BUDGET_SECONDS
    out: OutFolder = None

    def result(self, observer: Observer) -> Fitted:
        """Return the parameters; new ones are stored, if they are of use for this machine, too."""
        self._require_alone()
        folder = self._measured(observer) if self.run is None else _stored(str(self.run))
        parameters, measured, sets = fit_folder(folder)
        if self.run is None or self.out is not None:
            save(parameters, Path(self.out or folder) / FILE)
        if self.run is None and is_usable(parameters):
            store_fit(parameters)
        refitted = self.run is not None and self.out is None
        return Fitted(parameters, measured, sets, folder if refitted else None)

    def _require_alone(self) -> None:
        """Refuse what samples that are stored leave without effect."""
        given = {argument.gpu: self.gpu != 0}
        given[argument.budget_seconds] = self.budget_seconds != _BUDGET_SECONDS
        for name, differs in given.items():
            if self.run is not None and differs:
                raise InputError(f"a stored run was measured already; leave out {name}, or the run")

    def _measured(self, observer: Observer) -> Path:
        from lanescope.engine.native import NativeBackend

        machine = discover()
        if self.gpu not in {one.index for one in machine.gpus}:
            raise MissingPartError(
                f"there is no GPU {self.gpu} here to be measured; {command('model fit RUN')} "
                f"fits stored samples again, and {command('model predict --parameters NAME')} "
                "takes the parameters of another machine"
            )
        facts = facts_of(machine, self.gpu, "lanescope model fit")
        # Before this process uses a GPU, as they look for others that do.
        backends = [NativeBackend(machine) for _ in range(ROUNDS)]
        with analysis_folder("fit", self.out, machine) as run:
            observer.stores(run.path)
            try:
                store_samples(run, facts, self._points(machine, observer))
                store_contention(run, self._sets(machine, observer, backends))
            except NotMeasuredError as error:
                raise InputError(f"g{self.gpu} cannot be measured: {error}") from error
        return run.path

    @classmethod
    def read(cls, folder: Path) -> Fitted:
        """Return the parameters that the samples of a run folder are fitted to."""
        return Fitted(*fit_folder(folder))

    def _points(self, machine: Machine, observer: Observer) -> Iterator[MeasuredPoint]:
        from lanescope.prediction.measuring import ROUNDS, TransferBench, measure_all

        points = plan()
        observer.progress("allocating", 0, ROUNDS * len(points))
        timed = measure_all(TransferBench(machine, self.gpu), points, self.budget_seconds)
        for done, one in enumerate(timed, start=1):
            observer.progress(f"{one.point.kind}", done, max(done, ROUNDS * len(points)))
            yield one

    def _sets(
        self, machine: Machine, observer: Observer, backends: Sequence[Backend]
    ) -> Iterator[Together | NotTogether]:
        sets = sets_by_round(machine, backends)
        for done, one in enumerate(measure_sets(sets, machine), start=1):
            observer.progress("several GPUs", done, len(sets))
            yield one


def _stored(run: str) -> Path:
    """Return the folder of a run; raises `InputError` where there is none."""
    for folder in (Path(run), default_runs_folder() / run):
        if (folder / FACTS).is_file():
            return folder
    if not Path(run).exists():
        raise InputError(
            f"no run {shown(run)} here or under {default_runs_folder()}; name a run of "
            f"{command('model fit')}"
        )
    return Path(run)


@dataclass(frozen=True, slots=True, repr=False)
class Fitted(AnalysisResult):
    """Parameters with the samples that they were fitted to.

    Attributes
    ----------
    sets
        Copies of several GPUs at once.
    refitted
        The folder whose samples were fitted again, and where `store` puts the parameters; None
        where they are stored already.
    """

    parameters: LinkParameters
    measured: tuple[MeasuredPoint, ...]
    sets: Sets = NO_SETS
    refitted: Path | None = None

    def store(self) -> str | None:
        """Store the parameters beside the samples, or here if the folder is a stranger's."""
        if self.refitted is None:
            return None
        path, elsewhere = result_place(self.refitted, FILE)
        save(self.parameters, path)
        return elsewhere if path.parent.resolve() != self.refitted.resolve() else None

    def in_brief(self) -> list[str]:
        """Return of which link it is, the bandwidth each way, and how exact that is."""
        known = self.parameters
        rates = f"{_rate(known.h2d.per_byte)} to the GPU, {_rate(known.d2h.per_byte)} from it"
        exact = errors_text(known)
        return [
            f"link parameters of {known.name}, {known.link}: measured by {known.source}",
            f"Pinned memory, one direction alone: {rates}",
            *([exact] if exact else ()),
        ]

    def blocks(self) -> list[Section]:
        """Return the parameters, and how far they are from transfers that were not fitted."""
        known = self.parameters
        head = Text(f"{known.name}, {known.link}: measured by {known.source}")
        tables = [_directions(known), _together(known), _kernels(known)]
        found = [
            Section("parameters", "Parameters", [head, *tables]),
            Section("errors", "Errors", _errors(known, self.measured)),
        ]
        if self.sets.sets or self.sets.failed:
            blocks = contention_blocks(self.sets, known.host_bandwidth)
            found.insert(1, Section("contention", "Several GPUs at once", blocks))
        return found

    def charts(self) -> list[Chart]:
        """Return the transfers that were not fitted, by direction; none where all were fitted."""
        found = []
        for direction in Direction:
            with suppress(InputError):
                found.append(fit_chart(self.parameters, self.measured, direction))
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return the file of the parameters."""
        found: dict[str, Any] = json.loads(dumps(self.parameters))
        return found


def fit_chart(
    parameters: LinkParameters, measured: Sequence[MeasuredPoint], direction: Direction
) -> Chart:
    """Return measured times with their intervals, and predicted ones as dashed lines.

    As figures 5 and 6 of van Werkhoven et al. (2014), for more than one size: time over streams.
    """
    by_size: dict[int, list[Residual]] = {}
    for one in residuals(measured, parameters):
        if one.point.direction is direction:
            by_size.setdefault(one.point.bytes, []).append(one)
    sizes = [size for size, those in sorted(by_size.items()) if len(those) > 1]
    last = len(sizes) - 1
    picked = [sizes[round(i * last / (_SIZES - 1))] for i in range(_SIZES)] if sizes else []
    curves: list[Curve] = []
    for number, size in enumerate(dict.fromkeys(picked)):
        those = sorted(by_size[size], key=lambda one: one.point.streams)
        curves += _curves(bytes_text(size), those, number)
    if not curves:
        raise InputError("no transfers were held out from this fit: there is nothing to compare")
    errors = parameters.errors
    exact = "" if errors is None else f"; copies of 64 KiB and more within {errors.most:.1%}"
    where = "to the GPU" if direction is Direction.H2D else "from the GPU"
    return Chart(
        f"fit-{direction}",
        "model",
        f"Transfers {where} that were not fitted, {parameters.link}",
        f"Measured and predicted by the parameters of {parameters.name}{exact}",
        Axis("Streams", log=True),
        Axis("Time", "s", log=True),
        tuple(curves),
        band=INTERVAL,
    )


def _curves(size: str, those: Sequence[Residual], number: int) -> Iterator[Curve]:
    streams = tuple(float(one.point.streams) for one in those)
    yield Curve(
        f"{size}, measured",
        streams,
        tuple(one.measured.value for one in those),
        tuple(one.measured.low for one in those),
        tuple(one.measured.high for one in those),
        colour=number,
    )
    predicted = tuple(one.predicted.value for one in those)
    yield Curve(f"{size}, predicted", streams, predicted, colour=number, dash=1)


#: A parameter, and what it is in each direction.
_Row = tuple[str, "str | Estimate | None", "str | Estimate | None"]


def _table(title: str, what: str, rows: Sequence[_Row]) -> Table:
    columns = (
        Column("parameter"),
        Column("to the GPU", Kind.FIGURES),
        Column("from it", Kind.FIGURES),
    )
    return Table(f"{title} ({what}; measured, 95 % interval)", columns, [Group(rows)])


def _directions(known: LinkParameters) -> Table:
    each: tuple[tuple[str, Callable[[CopyCost], str | Estimate | None]], ...] = (
        ("L + o, the smallest copy", lambda d: d.first),
        ("G as bandwidth", lambda d: _rate(d.per_byte)),
        ("g, each further copy", lambda d: d.gap),
        ("o, a call of 4 KiB", lambda d: None if d.call is None else d.call.at(4 << 10)),
        ("o, a call of 1 MiB", lambda d: None if d.call is None else d.call.at(1 << 20)),
    )
    rows: list[_Row] = [(name, of(known.h2d), of(known.d2h)) for name, of in each]
    if known.pageable_h2d is not None and known.pageable_d2h is not None:
        both = _rate(known.pageable_h2d.per_byte), _rate(known.pageable_d2h.per_byte)
        rows.append(("pageable memory, long copies", *both))
    if known.cached_h2d is not None and known.cached_d2h is not None:
        both = _rate(_each_byte(known.cached_h2d)), _rate(_each_byte(known.cached_d2h))
        rows.append((f"pageable memory in caches, {bytes_text(_CACHED_BYTES)}", *both))
    if known.fresh_d2h is not None:
        rows.append(("new pageable memory, long copies", None, _rate(known.fresh_d2h.per_byte)))
    return _table("Copies", "of pinned memory, alone", rows)


def _each_byte(cost: CopyCost) -> Estimate:
    return single_seconds(cost, _CACHED_BYTES).map(lambda seconds: seconds / _CACHED_BYTES)


def _together(known: LinkParameters) -> Table:
    rows: list[_Row] = [
        (name, _rate(both.h2d_per_byte), _rate(both.d2h_per_byte))
        for name, both in _opposing(known)
    ]
    if (paced := known.paced) is not None:
        rows += [
            (
                f"copies in, kernels write {share:.0%} of their time",
                _slower(copies),
                f"kernel {_slower(kernel)}",
            )
            for share, copies, kernel in zip(
                paced.shares, paced.h2d_factors, paced.kernel_factors, strict=True
            )
        ]
    if (mapped := known.mapped) is not None:
        alone = _rate(mapped.read_per_byte), _rate(mapped.write_per_byte)
        rows.append(("a kernel on mapped memory, one direction", *alone))
    return _table("Both directions at once", "while the other direction moves, too", rows)


def _opposing(known: LinkParameters) -> Iterator[tuple[str, Duplex]]:
    if known.duplex is not None:
        yield "copies and copies", known.duplex
    if known.explicit_mapped is not None:
        yield "copies in, kernels write mapped memory", known.explicit_mapped


def _kernels(known: LinkParameters) -> Table:
    rows: list[tuple[str, TableCell]] = []
    if (launching := known.launching) is not None:
        rows += [
            ("an empty kernel, from the launch to its end", TableCell(launching.first)),
            ("a launch's call", TableCell(launching.call)),
            ("from kernel to kernel", TableCell(launching.gap)),
            ("an event's call", TableCell(launching.event_call)),
        ]
    if (pinning := known.pinning) is not None:
        rows += [
            (f"to get {bytes_text(size)} of pinned memory", TableCell(seconds))
            for size, seconds in zip(pinning.sizes, pinning.seconds, strict=True)
        ]
    mixture = None if known.mapped is None else known.mapped.mixture
    if mixture is not None:
        rows += [
            (
                f"mapped memory, {share:.0%} of the time for writes",
                TableCell(f"× {f.value:.3f} of the longer ({f.low:.3f} to {f.high:.3f})"),
            )
            for share, f in zip(mixture.shares, mixture.factors, strict=True)
        ]
    columns = (Column("parameter"), Column("time", Kind.FIGURES))
    title = "Kernels, pinned memory (measured, 95 % interval; of pinned memory the range)"
    return Table(title, columns, [Group(rows)])


def _errors(known: LinkParameters, measured: Sequence[MeasuredPoint]) -> list[Text | Bullets]:
    sentences: list[Text | Bullets] = []
    errors = known.errors
    if errors is None:
        sentences.append(Text("No transfers were held out: how exact the fit is, is not known."))
    else:
        sentences += _residuals(errors_text(known), residuals(measured, known))
    return [*sentences, *map(Text, _disturbances(measured)), *map(Text, _usable(known))]


def errors_text(known: LinkParameters) -> str:
    """Return how far predictions of transfers are off that were not fitted; empty if unknown."""
    errors = known.errors
    return (
        ""
        if errors is None
        else (
            f"Transfers that were not fitted, copies of 64 KiB and more ({errors.count}): "
            f"predicted within {errors.median:.2%} (median), {errors.p95:.2%} (95 %), "
            f"{errors.most:.2%} at most."
        )
    )


def _residuals(first: str, compared: Sequence[Residual]) -> Iterator[Text | Bullets]:
    yield Text(first)
    shares = sorted(abs(r.error) for r in compared)
    if not shares:
        return
    yield Text(
        f"All of them, from 8 B on ({len(shares)}): within {shares[len(shares) // 2]:.2%} "
        f"(median), {shares[-1]:.1%} at most. The furthest off:"
    )
    yield Bullets(
        [
            f"{bytes_text(one.point.bytes)} {one.point.direction} on {one.point.streams} streams: "
            f"measured {seconds_text(one.measured.value)} "
            f"({time_spread_text(one.measured.low, one.measured.high)}), predicted "
            f"{seconds_text(one.predicted.value)}, {one.error:+.1%}"
            for one in sorted(compared, key=lambda r: -abs(r.error))[:_WORST]
        ]
    )


def _usable(known: LinkParameters) -> Iterator[str]:
    if is_usable(known):
        return
    yield (
        f"More than 5 % of these transfers are off by more than {USABLE:.0%}: something else used "
        "the link or the host's memory meanwhile, or moved this process. The fit is not kept for "
        "this machine; leave the machine to it alone and run 'lanescope model fit' again."
    )


def _disturbances(measured: Sequence[MeasuredPoint]) -> Iterator[str]:
    left_out, open_ = disturbed(measured), unsettled(measured)
    if left_out:
        yield (
            f"{left_out} of {len(measured)} timings were more than {SETTLED:.0%} slower than "
            "another one of the same transfer: they were disturbed, and do not count."
        )
    if open_:
        yield (
            f"Of {len(open_)} transfers no two timings agree: leave the GPU and the host's memory "
            "to the fit alone, and run 'lanescope model fit' again."
        )


def _rate(per_byte: Estimate) -> str:
    value, high, low = (
        gbs_text(bandwidth_gbs(1.0, g)) for g in (per_byte.value, per_byte.low, per_byte.high)
    )
    return f"{value} GB/s ({low} to {high})"


def _slower(factor: Estimate) -> str:
    return f"× {factor.value:.2f} as long ({factor.low:.2f} to {factor.high:.2f})"
