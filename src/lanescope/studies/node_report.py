"""What a check of a node comes to: a state, the parts that are at fault, every rate.

With them stands the configuration: what nodes of a kind have in common of software, firmware,
links and layout.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from lanescope.codec.fields import Bound, Moment
from lanescope.copies import Experiment
from lanescope.copies.copy import copies_text
from lanescope.errors import ExitCode
from lanescope.findings.machine import diagnose
from lanescope.machine import Link, Machine
from lanescope.machine.sysfs import bridges_above, redirects_peers
from lanescope.report.format import count_text
from lanescope.results import Status
from lanescope.store.run import Run
from lanescope.studies.runs.outcome import Outcome, Word, judged_results, outcome
from lanescope.studies.runs.rows import PathRow, path_rows

SCHEMA_VERSION = 1
_IOMMUS = Path("/sys/class/iommu")
#: GB/s: no memory of a GPU is faster.
_Gbs = Annotated[float, Bound("from 0 to 100,000 GB/s", lambda gbs: 0 <= gbs <= 1e5)]
_Code = Annotated[int, Bound("from 0 to 255", lambda code: 0 <= code <= 255)]


def is_host(name: str) -> bool:
    """Whether a node can have a name: lines of text for other programs are made of it."""
    return name != "" and name.isprintable() and not set(name) & set("\"', ")


#: A node's name.
Host = Annotated[str, Bound("a name without blanks, quotation marks and commas", is_host)]


class NodeState(StrEnum):
    """Whether a node may run jobs, from what matters most on."""

    FAILED = "failed"
    """lanescope could not do its work: nothing is known of the node."""
    MISSING = "missing"
    """The node lacks a part that it should have, or has it differently."""
    SICK = "sick"
    """A part is slower than its links and peers allow."""
    NOT_MEASURED = "not measured"
    """Something has no number: the node is not shown to be sound."""
    BUSY = "busy"
    """Other processes use a part, which was not measured."""
    LIMITED = "limited"
    """Each part is sound; some paths get less together, as the node is built so."""
    HEALTHY = "healthy"
    """All that could be judged is as it should be."""


_STATES = {
    Word.MISSING: NodeState.MISSING,
    Word.SLOW: NodeState.SICK,
    Word.BUSY: NodeState.BUSY,
    Word.LIMITED: NodeState.LIMITED,
    Word.HEALTHY: NodeState.HEALTHY,
}
_CODES = {
    NodeState.FAILED: ExitCode.FAULT,
    NodeState.MISSING: ExitCode.NOT_AS_EXPECTED,
    NodeState.SICK: ExitCode.SLOW,
    NodeState.NOT_MEASURED: ExitCode.NOT_MEASURED,
    NodeState.BUSY: ExitCode.BUSY,
}


def ends_with(state: NodeState, code: int) -> bool:
    """Return whether the check of a node in a state ends with an exit code."""
    if state is NodeState.FAILED:
        return code != ExitCode.OK
    return code == _CODES.get(state, ExitCode.OK)


@dataclass(frozen=True, slots=True)
class Part:
    """A GPU of the node, as operators look for it.

    Attributes
    ----------
    slot
        PCI address.
    """

    id: str
    name: str
    uuid: str | None
    slot: str | None

    def __str__(self) -> str:
        return f"{self.id} ({', '.join(filter(None, (self.uuid, self.slot)))})"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that makes a node unfit.

    Attributes
    ----------
    kind
        Such as ``trained-down``; of a path that no finding explains ``slow`` or ``impossible``; of
        what is not as expected ``missing``.
    parts
        Such as ``("g1",)``; empty where no part is known to be at fault.
    confirm
        Command that shows it again.
    """

    kind: str
    parts: tuple[str, ...]
    sentence: str
    evidence: tuple[str, ...]
    remedy: str
    confirm: str


@dataclass(frozen=True, slots=True)
class Rate:
    """What one copy of an experiment carried.

    Attributes
    ----------
    experiment, path
        Which copies ran at once, and which of them this is, such as ``h0 → g1``.
    gbs
        Median in 1e9 bytes a second; None where there is no number.
    half_width
        Half of its 95 % confidence interval, as a share.
    """

    experiment: str
    path: str
    source: str
    destination: str
    gbs: _Gbs | None
    half_width: float | None
    limit_gbs: float | None
    status: Status
    reason: str


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a check of a node comes to.

    Attributes
    ----------
    host
        The node's name.
    exit_code
        0 sound, 1 sick, 3 not measured, 4 missing, 5 busy; of a failure 2 or 70.
    sentence
        What the state means here.
    began
        ISO 8601 with the offset from UTC.
    seconds
        Wall time of the check.
    level
        How much was measured; see `lanescope.studies.node.Level`.
    configuration
        What nodes of a kind have in common, by name; see `configuration_of`.
    parts
        The GPUs.
    faults
        Worst first.
    folder
        The run; None where it is not stored.
    """

    schema_version: int
    tool_version: str
    host: Host
    state: NodeState
    exit_code: _Code
    sentence: str
    began: Moment
    seconds: float
    level: str
    configuration: dict[str, str]
    parts: tuple[Part, ...]
    faults: tuple[Fault, ...]
    rates: tuple[Rate, ...]
    folder: str | None

    def __str__(self) -> str:
        """Return a line: the node, its state, and the worst part."""
        state = self.state.upper() if self.exit_code else self.state
        words = " ".join(self.sentence.split())
        return f"{self.host}: {state} (exit code {self.exit_code}): {words}"

    def __repr__(self) -> str:
        return f"<NodeReport>\n{self}"

    @property
    def unfit(self) -> bool:
        """Whether a part is broken or missing; only that should take a node out of use."""
        return self.state in (NodeState.SICK, NodeState.MISSING)


@dataclass(frozen=True, slots=True)
class CheckContext:
    """When and where a node was checked: what a report says beside what was measured."""

    tool_version: str
    host: str
    began: str
    seconds: float
    level: str


def report_of_run(run: Run, check: CheckContext, interrupted: str = "") -> NodeReport:
    """Return the report of a node whose run can be read, be it finished or not.

    Parameters
    ----------
    interrupted
        Why the run has not all that was to be measured; empty where it has.
    """
    came_to = outcome(run, strict=True)
    state = _state(came_to, interrupted)
    machine = run.manifest.machine
    rows = path_rows(judged_results(run))
    faults = tuple(_faults(run, rows))
    return NodeReport(
        SCHEMA_VERSION,
        check.tool_version,
        check.host,
        state,
        _CODES.get(state, ExitCode.OK),
        _sentence(state, came_to, faults, rows, machine, interrupted),
        check.began,
        check.seconds,
        check.level,
        configuration_of(machine),
        _parts_of(machine),
        faults,
        tuple(map(_rate, rows)),
        None if run.folder is None else str(run.folder),
    )


def report_of_failure(
    sentence: str, check: CheckContext, state: NodeState = NodeState.FAILED, code: int | None = None
) -> NodeReport:
    """Return the report of a node of which nothing was measured, and why."""
    code = _CODES.get(state, ExitCode.OK) if code is None else code
    head = (SCHEMA_VERSION, check.tool_version, check.host, state, code, sentence)
    return NodeReport(*head, check.began, check.seconds, check.level, {}, (), (), (), None)


def _parts_of(machine: Machine) -> tuple[Part, ...]:
    """Return the GPUs of a machine by number, name, UUID and slot."""
    return tuple(Part(gpu.id, gpu.name, gpu.uuid, gpu.pci_address) for gpu in machine.gpus)


def _state(came_to: Outcome, interrupted: str) -> NodeState:
    state = _STATES.get(came_to.word, NodeState.NOT_MEASURED)
    return (
        state
        if state in (NodeState.SICK, NodeState.MISSING) or not interrupted
        else NodeState.NOT_MEASURED
    )


def _sentence(
    state: NodeState,
    came_to: Outcome,
    faults: Sequence[Fault],
    rows: Sequence[PathRow],
    machine: Machine,
    interrupted: str,
) -> str:
    if state in (NodeState.SICK, NodeState.MISSING) and faults:
        more = f"; and {count_text(len(faults) - 1, 'more fault')}" if len(faults) > 1 else ""
        return _fault_sentence(faults[0], _parts_of(machine)) + more
    measured = sum(row.measured is not None for row in rows)
    sound = f"{count_text(measured, 'path')} of {count_text(len(machine.gpus), 'GPU')}"
    if state is NodeState.HEALTHY:
        return f"{sound} reach what their links can carry"
    if state is NodeState.NOT_MEASURED and interrupted:
        return f"{interrupted}; {measured} of {count_text(len(rows), 'path')} measured"
    missing = next((r for r in rows if r.verdict.missing), None)
    if state in (NodeState.NOT_MEASURED, NodeState.BUSY) and missing is not None:
        count = count_text(sum(r.verdict.missing for r in rows), "path")
        return f"{count} not measured, {missing.label} the first: {missing.verdict.reason}"
    return came_to.summary


def _fault_sentence(fault: Fault, parts: Sequence[Part]) -> str:
    at = ", ".join(str(part) for part in parts if part.id in fault.parts)
    remedy = f" {fault.remedy}" if fault.remedy else ""
    confirm = f" Confirm: {fault.confirm}" if fault.confirm else ""
    return f"{at + ': ' if at else ''}{fault.sentence}{remedy}{confirm}"


def _faults(run: Run, rows: Sequence[PathRow]) -> Iterator[Fault]:
    for sentence in run.manifest.missing:
        yield Fault("missing", (), sentence, (), "", "lanescope topo")
    found = [one for one in diagnose(run.manifest.machine, run.results) if one.fault]
    for one in found:
        yield Fault(one.kind, one.parts, one.sentence, one.evidence, one.remedy, one.confirm)
    explained = {part for one in found for part in one.parts}
    gpus = {gpu.id for gpu in run.manifest.machine.gpus}
    failed = [row for row in rows if row.verdict.failed]
    for row in sorted(failed, key=lambda row: row.share_of_limit or 0):
        parts = tuple(part for part in _ends(row) if part in gpus)
        if explained & set(parts or _ends(row)):
            continue
        yield Fault(
            str(row.verdict.status),
            parts,
            f"{row.label}: {row.verdict.reason}.",
            (),
            row.verdict.remedy or "",
            _command(row.result.experiment),
        )


def _command(experiment: Experiment) -> str:
    """Return what measures an experiment again: those of ``check`` have names, others a text."""
    is_text = experiment.name == copies_text(experiment.copies)
    return f"lanescope {'copy' if is_text else 'check'} '{experiment.name}'"


def _ends(row: PathRow) -> tuple[str, str]:
    return row.copy.source.part, row.copy.destination.part


def _rate(row: PathRow) -> Rate:
    return Rate(
        row.result.experiment.name,
        row.copy.path,
        *_ends(row),
        row.gbs,
        row.half_width,
        row.limit_gbs,
        row.verdict.status,
        row.verdict.reason,
    )


def configuration_of(machine: Machine) -> dict[str, str]:
    """Return a machine's configuration by name; what is not known is left out.

    What changes while a machine is sound is not in it: how fast an idle link is now, free memory.
    """
    found = {
        "CPU": machine.cpu,
        "kernel": platform.release(),
        "driver": machine.driver,
        "CUDA": machine.cuda_version,
        "IOMMU": _iommu(),
        "ACS": _acs(machine),
        "GPUs": str(len(machine.gpus)),
    }
    for node in machine.nodes:
        found[f"{node.id} cores"] = str(len(node.cores))
        found[f"{node.id} memory"] = _gib(node.memory_bytes)
    for gpu in machine.gpus:
        found |= {
            f"{gpu.id} model": gpu.name,
            f"{gpu.id} memory": _gib(gpu.memory_bytes),
            f"{gpu.id} VBIOS": gpu.vbios,
            f"{gpu.id} nearest node": None if gpu.node is None else f"h{gpu.node}",
            f"{gpu.id} peers": None if gpu.peers is None else " ".join(f"g{i}" for i in gpu.peers),
        }
    for link in machine.links:
        found[f"link {link.a}-{link.b}"] = _link(link)
    return {name: value for name, value in found.items() if value}


def _gib(size: int | None) -> str | None:
    """In whole steps of 4 GiB: the kernel keeps a little more or less of it."""
    return None if size is None else f"about {round(size / (4 << 30)) * 4} GiB"


def _link(link: Link) -> str | None:
    if link.pcie is not None:
        pcie = link.pcie
        payload = f", payload {pcie.max_payload_bytes} B" if pcie.max_payload_bytes else ""
        return f"PCIe {pcie.max_generation or pcie.generation}.0 x{pcie.width}{payload}"
    return None if link.nvlink is None else count_text(link.nvlink.count, "NVLink")


def _acs(machine: Machine, root: Path = Path("/sys")) -> str | None:
    """Say at which bridges above GPUs peers are redirected; None where nobody may read it."""
    bridges: dict[str, bytes] = {}
    for gpu in machine.gpus:
        if gpu.pci_address is not None:
            bridges |= bridges_above(gpu.pci_address, root)
    found = {address: redirects_peers(config) for address, config in bridges.items()}
    if not found or None in found.values():
        return None
    count = sum(map(bool, found.values()))
    return f"redirects peers at {count_text(count, 'bridge')}" if count else "off"


def _iommu() -> str | None:
    try:
        return "on" if os.listdir(_IOMMUS) else "off"
    except OSError:
        return None
