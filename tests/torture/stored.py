"""One stored file or folder of each kind, small, and what reads it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lanescope.machine import machine_named, save_machine
from lanescope.prediction.points import PointKind, read_measured, write_measured
from lanescope.prediction.predictor import Method
from lanescope.prediction.stored_parameters import dumps
from lanescope.store.store import RunWriter
from lanescope.studies.taruc import Parameters
from lanescope.studies.taruc.parameters import NAMES, parameters_text
from lanescope.trace.link_error_log import LinkErrors
from lanescope.trace.run import WatchTurns, store_turns
from tests.report import factory
from tests.studies.link_parameters import fitted
from tests.studies.ocean.stored import case, check, saved, timed, validation
from tests.studies.pcie_thesis.reproductions import PROGRAMS, reproduction
from tests.trace import nsys_captures

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SPOOLS = ROOT / "tests" / "data" / "h200-watch" / "copies-4mib-h2d"
#: Of the samples of a fit so many are enough, and each trial fits them.
_POINTS = 200

Command = Callable[[Path, Path], list[str]]


@dataclass(frozen=True)
class Original:
    """Something stored.

    Attributes
    ----------
    path
        A file, or a folder of files that are damaged one at a time.
    commands
        Command lines that read it, of its path and a folder that they may write to.
    """

    name: str
    path: Path
    commands: tuple[Command, ...]


def originals(folder: Path) -> list[Original]:
    """Make one of each kind."""
    runs = (
        lambda path, out: ["report", str(path), "--json"],
        lambda path, out: ["report", str(path), "--csv"],
        lambda path, out: ["report", str(path), "--out", str(out / "page.html")],
    )
    watches = (
        lambda path, out: ["report", str(path), "--json"],
        lambda path, out: ["report", str(path), "--out", str(out / "page.html")],
        lambda path, out: ["report", str(path), "--export", "csv", "--out", str(out / "csv")],
        lambda path, out: ["report", str(path), "--export", "perfetto", "--out", str(out / "t.pb")],
        lambda path, out: ["advise", str(path), "--parameters", "h200"],
        lambda path, out: ["advise", str(path), "--parameters", "h200", "--json"],
    )
    pages = (lambda path, out: ["report", str(path), "--out", str(out / "page.html")],)
    return [
        Original("check", RESULTS / "h200-x2/check", runs),
        Original("bench", RESULTS / "h200-x2/bench", runs),
        Original("latency", RESULTS / "h200-x2/latency", runs),
        Original("sms", RESULTS / "h200-x2/sms", runs),
        Original("suite", RESULTS / "epyc-2core/suite", runs),
        Original("sweep", _run(folder / "sweep", factory.sweep_run(points=6)), runs),
        Original("parts", _parts(folder / "parts"), runs),
        Original("watch", _watch(folder / "watch", "matmul"), watches),
        Original("probed", RESULTS / "h200-x1/watch/thesis/matmul/probe-1", watches[:4]),
        Original("killed", killed_watch(folder / "killed"), watches),
        Original("capture", nsys_captures.capture(folder / "capture.sqlite"), watches),
        Original("thesis", reproduction(folder / "thesis", PROGRAMS[1:]), pages),
        *_models(folder),
        *_files(folder),
    ]


def _models(folder: Path) -> list[Original]:
    fit = folder / "fit"
    shutil.copytree(RESULTS / "h200-x1/model/fit", fit)
    measured = read_measured(fit / "transfers.parquet")
    kept = [one for one in measured if one.point.kind is not PointKind.COPIES]
    kept += [one for one in measured if one.point.kind is PointKind.COPIES][:_POINTS]
    with (fit / "transfers.parquet").open("wb") as file:
        write_measured(kept, file)
    parameters = folder / "link.json"
    parameters.write_text(dumps(fitted()))
    one = case(timed(Method.EXPLICIT, 1, 10.0, 0.1), checks=[check(), check(None)])
    two = case(timed(Method.STREAMS, 4, 9.0), timed(Method.HYBRID, 4, 8.0))
    validated = saved(validation(one, two, parameters=fitted()), folder / "validation")
    work = ("--h2d", "700MB", "--d2h", "350MB", "--kernel", "12ms", "--streams", "1..8")
    predict = ("model", "predict", *work, "--parameters")
    return [
        Original(
            "fit",
            fit,
            (
                lambda path, out: ["model", "fit", str(path), "--out", str(out)],
                lambda path, out: ["model", "fit", str(path), "--json"],
            ),
        ),
        Original(
            "link parameters",
            parameters,
            (
                lambda path, out: [*predict, str(path)],
                lambda path, out: [*predict, str(path), "--json"],
                lambda path, out: [*predict, str(path), "--on", "pcie5"],
            ),
        ),
        Original(
            "validation",
            validated,
            (
                lambda path, out: ["model", "validate", str(path)],
                lambda path, out: ["model", "validate", str(path), "--json"],
            ),
        ),
    ]


def _files(folder: Path) -> list[Original]:
    machine, parameters, infile = (folder / n for n in ("machine.toml", "suite.toml", "suite.in"))
    save_machine(machine_named("h200-x2"), machine)
    parameters.write_text(parameters_text(Parameters()))
    infile.write_text(_infile())
    compress = (
        lambda path, out: ["bench", "compress", "--from", str(path)],
        lambda path, out: ["bench", "compress", "--from", str(path), "--json"],
        lambda path, out: ["bench", "compress", "--from", str(path), "--link-speed", "20"],
        lambda path, out: ["bench", "compress", "--from", str(path), "--plot", str(out / "p.svg")],
    )
    params = (lambda path, out: ["bench", "params", str(path)],)
    return [
        Original("compress", _compress(folder), compress[:3]),
        Original("compress 1", ROOT / "tests/data/compress-schema-1.json", compress),
        Original(
            "machine",
            machine,
            (
                lambda path, out: ["topo", "--machine", str(path)],
                lambda path, out: ["topo", "--machine", str(path), "--svg", str(out / "t.svg")],
                lambda path, out: ["check", "--machine", str(path), "--out", str(out / "r")],
                lambda path, out: [
                    "copy",
                    "h0 <-> g0",
                    "--machine",
                    str(path),
                    "--out",
                    str(out / "r"),
                ],
                lambda path, out: [
                    "bench",
                    "sweep",
                    "--machine",
                    str(path),
                    "--out",
                    str(out / "r"),
                ],
            ),
        ),
        Original("parameters", parameters, params),
        Original("TARUC's parameters", infile, params),
    ]


def _run(folder: Path, run: object) -> Path:
    writer = RunWriter(folder, run.manifest)  # type: ignore[attr-defined]
    for result in run.results:  # type: ignore[attr-defined]
        writer.add(result)
    writer.finish(run.manifest.state)  # type: ignore[attr-defined]
    return folder


def _parts(folder: Path) -> Path:
    """A run that was killed: a file for each experiment."""
    run = factory.check_run(missing="g1")
    writer = RunWriter(folder, run.manifest)
    for result in run.results:
        writer.add(result)
    writer.close()
    return folder


def _watch(folder: Path, name: str) -> Path:
    shutil.copytree(RESULTS / "h200-x1/watch" / name, folder)
    store_turns(folder, WatchTurns((1.0, 1.1, 1.05), (1.2, 1.3, 1.25)))
    start, end = LinkErrors(0, 1, 0, 3), LinkErrors(0, 4, 0, 3)
    told = {
        key: [{name: getattr(one, name) for name in one.__slots__}]
        for key, one in (("start", start), ("end", end))
    }
    (folder / "link-errors.json").write_text(json.dumps({"version": 1, **told}))
    return folder


def killed_watch(folder: Path) -> Path:
    """A watch that was killed: its spools as they were."""
    source = RESULTS / "h200-x1/watch/matmul"
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.parquet", "processes.json"))
    shutil.copytree(SPOOLS, folder / "spool")
    manifest = json.loads((folder / "manifest.json").read_text())
    trace = next((folder / "spool").glob("trace.*.bin"))
    head, _, body = trace.read_bytes().partition(b"\n")
    with (folder / "spool/pm.g0.bin").open("rb") as file:
        file.readline()
        started = int.from_bytes(file.read(8), "little")
    told = json.loads(head) | {"command": ["app", "copies"], "start_ns": started}
    trace.write_bytes(json.dumps(told).encode() + b"\n" + body)
    manifest |= {"state": "running", "start_ns": started, "end_ns": None}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "spool" / "pm.g0.bin.json").write_text('{"lost_samples": 3, "cpu_seconds": 0.5}')
    return folder


def _compress(folder: Path) -> Path:
    from tests.studies.compress.made_up import compressed
    from tests.studies.compress.test_blocks_of_gpus import RESULT

    path = folder / "compress.json"
    path.write_text(compressed(RESULT, gpus=("H200",)).to_json())
    return path


def _infile() -> str:
    words = {"text": "a-name", "bool": "true", "int": "4"}
    return "".join(f"{entry.label} = {words[entry.kind]}\n" for entry in NAMES)
