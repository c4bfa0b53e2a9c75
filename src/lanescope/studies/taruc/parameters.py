"""The parameters of a suite of TARUC: its own names of them, and their files, TOML or its INI."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.resources
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from lanescope.calls import checked
from lanescope.codec.fields import FieldError, build, shown
from lanescope.codec.files import line_of, parse_toml, read_text
from lanescope.errors import InputError
from lanescope.units.sizes import Bytes, parse_size

#: The verb of runs of whole suites.
SUITE = "taruc"
WORD_BYTES = 8
#: Beyond, neighbouring sizes differ by a few per cent.
_MOST_STEPS = 100
#: TARUC's headings, and the names of its benchmarks in the paper.
SECTIONS = {
    "memory overhead": "overhead",
    "host host bandwidth": "host",
    "host device bandwidth": "hostdev",
    "p2p bandwidth": "peer",
    "non uniform random memory access": "nurma",
    "resource congestion": "contention",
    "resource contention": "contention",
}
#: What the paper and TARUC's own print-out call them otherwise.
_ALSO = {
    "test all sockets": "Run Socket Effect Tests",
    "test host mem types": "Test All Mem Types",
    "use all devices": "Use All GPUs",
    "test all devices": "Use All GPUs",
    "ranged tests": "Run Range Tests",
    "burst tests": "Run Burst Tests",
    "sustained tests": "Run Sustained Tests",
    "burst block size": "Burst Block Size (bytes)",
    "number steps per magnitude": "# Steps Per Magnitude",
}
_HEADER = """\
# Parameters of a suite for 'lanescope bench --params FILE'. Sizes are bytes, or texts
# such as "1.5GB". What is left out keeps its default. In brackets: TARUC's name.
"""
_WIDTH = 36
_WORDS = {"text": "a name", "bool": "true or false", "int": "a whole number"}
#: So that a later multiplication stays a size.
_MOST_DIGITS = 15
#: The suite that runs when nobody names a file.
DEFAULT = "default"


class Benchmark(StrEnum):
    """The micro-benchmarks; each is also a verb, and the first part of its points' names."""

    OVERHEAD = "overhead"
    HOST = "host"
    HOSTDEV = "hostdev"
    PEER = "peer"
    NURMA = "nurma"
    CONTENTION = "contention"

    @property
    def needs_gpu(self) -> bool:
        """Whether a machine without a GPU has nothing of it."""
        return self in (Benchmark.HOSTDEV, Benchmark.PEER)


#: What people call them.
TITLES = {
    Benchmark.OVERHEAD: "Memory overhead",
    Benchmark.HOST: "Host to host copies",
    Benchmark.HOSTDEV: "Host and GPU copies",
    Benchmark.PEER: "Copies between GPUs",
    Benchmark.NURMA: "Random and strided access",
    Benchmark.CONTENTION: "Contention",
}


def _of(default: Any, words: str) -> Any:
    """Return a field with its default and what it means, for files and tables."""
    return field(default=default, metadata={"words": words})


def _run() -> Any:
    return _of(True, "whether it is measured")


@dataclass(frozen=True, slots=True)
@checked
class SizeParameters:
    """A micro-benchmark that goes through sizes."""

    run: bool = _run()
    min_bytes: Bytes = _of(10, "smallest size")
    max_bytes: Bytes = _of(1_500_000_000, "largest size")


@dataclass(frozen=True, slots=True)
@checked
class NurmaParameters:
    """Single loads, far from each other."""

    run: bool = _run()
    gap_bytes: Bytes = _of(5256, "from one load to the next, beside 8 B, 64 B, 4 KiB and 64 KiB")
    block_bytes: Bytes | None = _of(
        None, "memory that the loads stay in; left out: twice the last-level cache"
    )
    min_bytes: Bytes = _of(80, "fewest loads, 8 bytes each")
    max_bytes: Bytes = _of(80_000_000, "most loads, 8 bytes each")


@dataclass(frozen=True, slots=True)
@checked
class ContentionParameters:
    """Many at once."""

    run: bool = _run()
    repeats: int | None = _of(None, "samples of each point; left out: until precise enough")
    memory_bytes: Bytes | None = _of(
        None, "array of each thread; left out: all together four times the last-level caches"
    )
    socket_bytes: Bytes | None = _of(
        None, "array of each thread that reads another node; left out: the same"
    )
    pcie_bytes: Bytes = _of(64_000_000, "copy of each stream between host and GPU")


@dataclass(frozen=True, slots=True)
@checked
class Parameters:
    """All parameters of a suite; those of one micro-benchmark stand in its section."""

    tag: str = _of("default", "name of the suite")
    all_gpus: bool = _of(True, "every GPU, or the first alone")
    all_memories: bool = _of(True, "every kind of memory, or pageable alone (hostdev: pinned)")
    patterns: bool = _of(True, "every access pattern and state of the caches, or repeated alone")
    sockets: bool = _of(True, "a thread on every node that has cores, or on the first alone")
    burst: bool = _of(False, "a point at burst_bytes")
    range: bool = _of(True, "points from min_bytes to max_bytes")
    sustained: bool = _of(True, "many samples of each point, or one")
    repeats: int | None = _of(None, "samples of each point; left out: until precise enough")
    steps_per_decade: int = _of(1, "sizes from one power of ten to the next")
    burst_bytes: Bytes = _of(64_000_000, "size of the burst")
    overhead: SizeParameters = field(default=SizeParameters(min_bytes=100))
    host: SizeParameters = field(default=SizeParameters())
    hostdev: SizeParameters = field(default=SizeParameters())
    peer: SizeParameters = field(default=SizeParameters())
    nurma: NurmaParameters = field(default=NurmaParameters())
    contention: ContentionParameters = field(default=ContentionParameters())


def require_sound(parameters: Parameters) -> None:
    """Refuse values that are right in kind and still mean nothing.

    Raises
    ------
    FieldError
        With the field, and as its table the section.
    """
    _require_positive(parameters, "")
    _require_steps(parameters)
    for entry in dataclasses.fields(parameters):
        section = getattr(parameters, entry.name)
        if dataclasses.is_dataclass(section):
            _require_positive(section, entry.name)
        if isinstance(section, SizeParameters | NurmaParameters):
            _require_range(section, entry.name)
    gap = parameters.nurma.gap_bytes
    if gap % WORD_BYTES:
        raise FieldError(
            f"gap_bytes = {gap} is no multiple of {WORD_BYTES}, the size of a load",
            "gap_bytes",
            "nurma",
        )


def _require_steps(parameters: Parameters) -> None:
    if parameters.steps_per_decade > _MOST_STEPS:
        raise FieldError(
            f"steps_per_decade = {parameters.steps_per_decade} is more than {_MOST_STEPS}",
            "steps_per_decade",
        )
    if not (parameters.burst or parameters.range or parameters.contention.run):
        raise FieldError(
            "burst and range are both false, and so is contention.run: nothing would be measured",
            "range",
        )


def _require_positive(section: Any, table: str) -> None:
    for entry in dataclasses.fields(section):
        value = getattr(section, entry.name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole and value < (0 if entry.name == "gap_bytes" else 1):
            raise FieldError(f"{entry.name} = {value} is not above zero", entry.name, table)


def _require_range(section: SizeParameters | NurmaParameters, table: str) -> None:
    if section.min_bytes > section.max_bytes:
        raise FieldError(
            f"min_bytes = {section.min_bytes} is above max_bytes = {section.max_bytes}; swap them",
            "min_bytes",
            table,
        )
    if isinstance(section, NurmaParameters):
        for name in ("min_bytes", "max_bytes"):
            if getattr(section, name) < WORD_BYTES:
                raise FieldError(f"{name} holds no load of {WORD_BYTES} bytes", name, table)


@dataclass(frozen=True, slots=True)
class Named:
    """A parameter under both names.

    Attributes
    ----------
    label
        TARUC's, as its files have it.
    section, key
        Ours; the section is empty for the general ones.
    kind
        What the value is: ``text``, ``bool`` or ``int``.
    factor
        What a number has to be multiplied with.
    """

    label: str
    section: str
    key: str
    kind: str = "int"
    factor: int = 1


def _range(section: str, what: str) -> tuple[Named, ...]:
    return (
        Named(f"Run {what}", section, "run", "bool"),
        Named("Range Min (bytes)", section, "min_bytes"),
        Named("Range Max (bytes)", section, "max_bytes"),
    )


#: One for each line of TARUC's parameter files, in their order. A number of doubles is eight times
#: as many bytes.
NAMES: tuple[Named, ...] = (
    Named("Run Tag", "", "tag", "text"),
    Named("Use All GPUs", "", "all_gpus", "bool"),
    Named("Test All Mem Types", "", "all_memories", "bool"),
    Named("Run Burst Tests", "", "burst", "bool"),
    Named("Run Range Tests", "", "range", "bool"),
    Named("Run Sustained Tests", "", "sustained", "bool"),
    Named("Run Socket Effect Tests", "", "sockets", "bool"),
    Named("Test Access Patterns", "", "patterns", "bool"),
    Named("# Repeated Steps", "", "repeats"),
    Named("# Steps Per Magnitude", "", "steps_per_decade"),
    Named("Burst Block Size (bytes)", "", "burst_bytes"),
    *_range("overhead", "Memory Overhead Test"),
    *_range("host", "Host-Host Tests"),
    *_range("hostdev", "Host-Device Tests"),
    *_range("peer", "P2P Tests"),
    Named("Run NURMA Test", "nurma", "run", "bool"),
    Named("Memory Skip Gap Size (doubles)", "nurma", "gap_bytes", factor=WORD_BYTES),
    Named("Memory Block Size (doubles)", "nurma", "block_bytes", factor=WORD_BYTES),
    Named("Min # Random Accesses (doubles)", "nurma", "min_bytes", factor=WORD_BYTES),
    Named("Max # Random Accesses (doubles)", "nurma", "max_bytes", factor=WORD_BYTES),
    Named("Run Congestion Test", "contention", "run", "bool"),
    Named("# Repeated Operations", "contention", "repeats"),
    Named("Local Host Block Size (bytes)", "contention", "memory_bytes"),
    Named("QPI Host Block Size (bytes)", "contention", "socket_bytes"),
    Named("Host-Device Block Size (bytes)", "contention", "pcie_bytes"),
)


def normalised(label: str) -> str:
    """Return a label without case, units and signs.

    >>> normalised("Burst Block Size (bytes)"), normalised("# Repeated Steps")
    ('burst block size', 'repeated steps')
    """
    return " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\([^)]*\)", "", label).lower()))


def named(label: str, section: str) -> Named | None:
    """Return the parameter that TARUC calls so in a section (ours); None when it has none.

    Those of a section may stand at the top, too, where their name tells the section.
    """
    wanted = normalised(_ALSO.get(normalised(label), label))
    found = [n for n in NAMES if normalised(n.label) == wanted]
    mine = [n for n in found if n.section == section]
    if mine:
        return mine[0]
    return found[0] if not section and len(found) == 1 else None


def parameters_text(parameters: Parameters) -> str:
    """Return a file that reads back as these parameters."""
    lines = [_HEADER + "\n".join(_text_lines(parameters, ""))]
    for entry in dataclasses.fields(parameters):
        section = getattr(parameters, entry.name)
        if dataclasses.is_dataclass(section):
            lines.append(f"\n[{entry.name}]\n" + "\n".join(_text_lines(section, entry.name)))
    return "\n".join(lines) + "\n"


def taruc_label(section: str, key: str) -> str | None:
    """Return TARUC's name of a parameter."""
    labels = [n.label for n in NAMES if (n.section, n.key) == (section, key)]
    return labels[0] if labels else None


def _text_lines(section: Any, name: str) -> list[str]:
    lines = []
    for entry in dataclasses.fields(section):
        value = getattr(section, entry.name)
        if dataclasses.is_dataclass(value):
            continue
        label = taruc_label(name, entry.name)
        words = entry.metadata["words"] + (f" [{label}]" if label else "")
        # TOML has no word for nothing: the line is there to be filled in
        line = f"# {entry.name} =" if value is None else f"{entry.name} = {_toml(value)}"
        lines.append(f"{line:{_WIDTH}} # {words}")
    return lines


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}"
    # JSON's strings are TOML's, but for the one control character it leaves as it is
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse_in_file(text: str, name: str) -> Parameters:
    """Return the parameters of a ``.in`` file; `name` is for messages.

    TARUC reads values by their order and looks at no label. Here a label must be
    the one of its line: what is missing or strange would shift all that follows.

    Raises
    ------
    InputError
        With the number of the line.
    """
    table: dict[str, Any] = {}
    lines = _lines(text)
    places: dict[tuple[str, str], int] = {}
    last = 0
    for entry in NAMES:
        number, line = next(lines, (0, ""))
        if not number:
            raise InputError(
                f"parameter file {name} ends after line {last}; {entry.label!r} is missing"
            )
        last = number
        places[entry.section, entry.key] = number
        home = table.setdefault(entry.section, {}) if entry.section else table
        home[entry.key] = _value(entry, line, f"parameter file {name}, line {number}")
    if (extra := next(lines, None)) is not None:
        raise InputError(
            f"parameter file {name}, line {extra[0]}: {shown(extra[1].strip())} stands behind the "
            "last parameter; take it out"
        )
    try:
        parameters = build(Parameters, table)
        require_sound(parameters)
    except FieldError as error:
        where = places.get((error.table or error.inside or "", error.field), 1)
        raise InputError(f"parameter file {name}, line {where}: {error}") from error
    return parameters


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield what is no heading; those and comments begin with a dash."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("-"):
            yield number, line


def _value(entry: Named, line: str, where: str) -> Any:
    label, equals, text = line.partition("=")
    value = text.strip()
    if not equals or normalised(label) != normalised(entry.label):
        raise InputError(
            f"{where}: expected '{entry.label} = {_WORDS[entry.kind]}', found {shown(line.strip())}"
        )
    if entry.kind == "text" and value:
        return value
    if entry.kind == "bool" and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if entry.kind == "int" and re.fullmatch(rf"[0-9]{{1,{_MOST_DIGITS}}}", value):
        return int(value) * entry.factor
    raise InputError(f"{where}: {entry.label!r} is {shown(value)}, not {_WORDS[entry.kind]}")


_SECTION_NAMES = tuple(
    f.name for f in dataclasses.fields(Parameters) if dataclasses.is_dataclass(f.default)
)


@dataclasses.dataclass(frozen=True, slots=True)
class ParameterFile:
    """Parameters with their text as TOML, which a run keeps."""

    parameters: Parameters
    text: str


def parameters_named(file_or_name: str) -> ParameterFile:
    """Return a suite by file (TOML or ``.in``) or by the name of one that ships.

    Raises
    ------
    InputError
        If there is none, or it is broken: with file, line and key.
    """
    path = Path(file_or_name)
    if path.suffix in (".toml", ".in") or path.is_file() or os.sep in file_or_name:
        return _read(path)
    names = suite_names()
    if file_or_name == DEFAULT:
        return ParameterFile(Parameters(), parameters_text(Parameters()))
    if file_or_name in names:
        text = _library(file_or_name).read_text(encoding="utf-8")
        return ParameterFile(parse_parameters(text, file_or_name), text)
    near = difflib.get_close_matches(file_or_name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}, or name a file"
    raise InputError(f"no suite is named {file_or_name!r}; {hint}")


def suite_names() -> list[str]:
    """Return the names of the suites that ship with lanescope."""
    return [DEFAULT, "taruc"]


def parse_parameters(text: str, name: str) -> Parameters:
    """Return the parameters that a TOML text gives; `name` is for messages.

    Keys that are left out have their defaults. Sizes are bytes or texts such as
    ``"1.5GB"``. TARUC's own names are understood, too.

    Raises
    ------
    InputError
        If the text is broken: with line and key.
    """
    table = parse_toml(text, f"parameter file {name}")
    written: dict[tuple[str, str], str] = {}
    try:
        parameters = build(Parameters, _translated(table, written))
        require_sound(parameters)
    except FieldError as error:
        section = error.table or error.inside or ""
        error.table, error.inside = "", written.get(("", section), section) or None
        error.field = written.get((section, error.field), error.field)
        where = f"parameter file {name}, line {line_of(text, error)}"
        raise InputError(f"{where}: {f'[{section}] ' if section else ''}{error}") from error
    return parameters


def _read(path: Path) -> ParameterFile:
    text = read_text(path, f"parameter file {path}")
    if path.suffix == ".in":
        parameters = parse_in_file(text, str(path))
        return ParameterFile(parameters, parameters_text(parameters))
    return ParameterFile(parse_parameters(text, str(path)), text)


def _library(name: str) -> Any:
    return importlib.resources.files("lanescope.studies.taruc") / f"{name}.toml"


def _translated(table: dict[str, Any], written: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Return a table under our names; `written` learns how a key stands in the file."""
    plain: dict[str, Any] = {}
    for key, value in table.items():
        section = key if key in _SECTION_NAMES else SECTIONS.get(normalised(key), "")
        if isinstance(value, dict) and section:
            _take(plain, "", section, {}, key, written)
            for inner, content in value.items():
                _place(plain[section], section, inner, content, written)
        elif (entry := named(key, "")) is not None and entry.section:
            home = plain.setdefault(entry.section, {})
            _place(home, entry.section, key, value, written)
        else:
            _place(plain, "", key, value, written)
    return plain


def _place(
    home: dict[str, Any], section: str, key: str, value: Any, written: dict[tuple[str, str], str]
) -> None:
    entry = named(key, section)
    factor = 1 if entry is None else entry.factor
    ours = key if entry is None else entry.key
    if ours.endswith("_bytes") and isinstance(value, str):
        try:
            value = parse_size(value)
        except InputError as error:
            raise FieldError(f"{key}: {error}", key, section) from error
    elif factor != 1 and isinstance(value, int) and not isinstance(value, bool):
        value *= factor
    _take(home, section, ours, value, key, written)


def _take(
    home: dict[str, Any],
    section: str,
    key: str,
    value: Any,
    as_written: str,
    written: dict[tuple[str, str], str],
) -> None:
    if key in home and not (isinstance(value, dict) and (section, key) not in written):
        problem = f"{as_written!r} and {written.get((section, key), key)!r} say the same"
        raise FieldError(f"{problem}; give one of them", as_written, section)
    written[section, key] = as_written
    home.setdefault(key, value)
