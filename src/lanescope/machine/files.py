"""Machine files: a machine as TOML, to keep, to edit, to predict for.

What no machine has is refused: wrong units, widths, cores, peers. What was found on a machine and
stored with a run is not looked at: it is as it was found.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib.resources
import json
import os
import tomllib
from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from lanescope.codec.fields import FieldError, build, shown
from lanescope.codec.files import line_of, parse_toml, read_text, write_named
from lanescope.errors import InputError
from lanescope.kinds import StrPath
from lanescope.machine.machine import Gpu, Link, LinkKind, Machine
from lanescope.machine.part_names import node_of
from lanescope.machine.pcie import PACKET_BYTES, WIDTHS

_HEADER = """\
# A lanescope machine file. Units stand in the names: _bytes, _gbs (1e9 bytes a
# second), _us (microseconds). Parts: h0 is NUMA node 0, g0 is GPU 0.
"""
#: GPUs that contend for something.
_FEWEST = 2
#: More than any machine has, by table and field; mostly a number in another unit.
_MOST_BYTES, _MOST_US, _MOST_HOST_GBS = 1 << 50, 1e6, 1e4
_MOST: dict[str, dict[str, float]] = {
    "nodes": {
        "memory_bytes": _MOST_BYTES,
        "cache_bytes": _MOST_BYTES,
        "memory_gbs": _MOST_HOST_GBS,
    },
    "gpus": {"memory_bytes": _MOST_BYTES, "memory_gbs": 1e5},
    "links": {"raw_gbs": 1e4, "payload_gbs": 1e4},
    "nics": {"rate_gbps": 1e5},
    "host_bandwidth": dict.fromkeys(("read_gbs", "write_gbs", "both_gbs"), _MOST_HOST_GBS),
    "latencies": dict.fromkeys(("h2d_us", "d2h_us", "d2d_us"), _MOST_US)
    | {"pageable_gbs": _MOST_HOST_GBS},
}
_MOST_NVLINK = {"count": 1000, "link_gbs": 1e3}
_PCIE = dict.fromkeys(("width", "max_width"), WIDTHS) | dict.fromkeys(
    ("max_payload_bytes", "max_read_request_bytes"), PACKET_BYTES
)
#: Linux numbers no more processing units.
_MOST_THREAD = (1 << 16) - 1
_UNITS = {
    "bytes": "bytes",
    "gbs": "GB/s (1e9 bytes a second)",
    "gbps": "Gbit/s (1e9 bits a second)",
    "us": "microseconds",
}


def machine_named(file_or_name: str) -> Machine:
    """Return the machine of a file, or one that ships with lanescope.

    Raises
    ------
    InputError
        If there is no such file or name, or the file is broken.
    """
    path = Path(file_or_name)
    if path.suffix == ".toml" or path.is_file() or os.sep in file_or_name:
        return _loaded(path, inner=0)
    names = shipped_names()
    if file_or_name in names:
        file = importlib.resources.files("lanescope.machine") / "library" / f"{file_or_name}.toml"
        return parse_machine(file.read_text(encoding="utf-8"), file_or_name)
    near = difflib.get_close_matches(file_or_name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}, or name a file"
    raise InputError(f"no machine is named {file_or_name!r}; {hint}")


def shipped_names() -> list[str]:
    """Return the names of the machines that ship with lanescope."""
    folder = importlib.resources.files("lanescope.machine") / "library"
    return sorted(
        f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")
    )


def load_machine(path: StrPath) -> Machine:
    """Read a machine file, or a machine that ships by its name; it is a described one.

    Raises
    ------
    InputError
        If there is no such file or name, or the file is broken, with the line and the field.
    """
    return machine_named(os.fspath(path))


def machine_in_folder(path: Path) -> Machine:
    """Read the machine file of a run's folder, where no link is followed."""
    return _loaded(path, inner=1)


def _loaded(path: Path, inner: int) -> Machine:
    text = read_text(path, f"machine file {path}", inner)
    return parse_machine(text, str(path), found=inner > 0)


def save_machine(machine: Machine, path: StrPath) -> None:
    """Write a machine file.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    try:
        content = dumps_machine(machine).encode()
        write_named(Path(path), lambda file: file.write(content))
    except OSError as error:
        raise InputError(
            f"cannot write machine file {path}: {error.strerror}; name another"
        ) from error


def parse_machine(text: str, name: str, *, found: bool = False) -> Machine:
    """Return the machine that a file's text describes; `name` is for messages.

    Parameters
    ----------
    found
        Whether it is a machine that lanescope found and stored itself: all that it has is possible.

    Raises
    ------
    InputError
        If the text is broken, or describes what no machine has.
    """
    table = parse_toml(text, f"machine file {name}")
    try:
        table.pop("described", None)
        links = table.get("links")
        for number, link in enumerate(links if isinstance(links, list) else []):
            _complete(link, number)
        machine = build(Machine, table)
        _require_consistent(machine)
        if not found:
            require_possible(machine)
    except FieldError as error:
        line = line_of(text, error)
        where = f"[[{error.table}]] number {error.number + 1}, " if error.number is not None else ""
        raise InputError(f"machine file {name}, line {line}: {where}{error}") from error
    return dataclasses.replace(machine, described=True)


def require_sound(machine: Machine) -> None:
    """Refuse a machine that a program made and that no machine file could describe.

    Raises
    ------
    InputError
        With the part and the field.
    """
    try:
        read = build(Machine, tomllib.loads(dumps_machine(machine)))
        _require_consistent(read)
        if machine.described:
            require_possible(read)
    except FieldError as error:
        where = f"{error.table}[{error.number}], " if error.number is not None else ""
        raise InputError(f"machine {machine.name!r}: {where}{error}") from error


def _complete(link: Any, number: int) -> None:
    """Fill in the limits that follow from a link's own state."""
    if not isinstance(link, dict):
        return  # the check of fields will say so
    for kind, make in ((LinkKind.PCIE, Link.of_pcie), (LinkKind.NVLINK, Link.of_nvlink)):
        if link.get("kind") != kind:
            continue
        if kind.value not in link:
            if "payload_gbs" in link:
                return
            raise FieldError(f"field {kind.value!r} is missing", kind.value, "links", number)
        state = build(
            Link, {k: link[k] for k in ("a", "b", "kind", kind.value) if k in link}, "links", number
        )
        try:
            whole = make(state.a, state.b, getattr(state, kind.value))
        except ValueError as error:
            raise FieldError(
                f"field {kind.value!r}: {error}", kind.value, "links", number
            ) from error
        link.setdefault("raw_gbs", whole.raw_gbs)
        link.setdefault("payload_gbs", list(whole.payload_gbs or ()))


def _require_consistent(machine: Machine) -> None:
    if not machine.nodes:
        raise FieldError(
            "field 'nodes' is missing: give at least [[nodes]] with index = 0", "nodes"
        )
    parts: set[str] = set()
    for table, entries in (
        ("nodes", [n.id for n in machine.nodes]),
        ("gpus", [g.id for g in machine.gpus]),
        ("switches", [s.id for s in machine.switches]),
        ("nics", [n.id for n in machine.nics]),
    ):
        for number, part in enumerate(entries):
            if part in parts:
                field = {"switches": "id", "nics": "name"}.get(table, "index")
                raise FieldError(f"there are two parts {shown(part)}", field, table, number)
            parts.add(part)
    nodes = {n.index for n in machine.nodes}
    for number, gpu in enumerate(machine.gpus):
        if gpu.node is not None and gpu.node not in nodes:
            raise FieldError(f"field 'node': there is no node {gpu.node}", "node", "gpus", number)
    _require_known(machine, nodes)
    for number, link in enumerate(machine.links):
        for field in ("a", "b"):
            part = getattr(link, field)
            if part not in parts:
                known = ", ".join(sorted(parts))
                problem = f"field {field!r}: there is no part {shown(part)}, only {known}"
                raise FieldError(problem, field, "links", number)
        if link.a == link.b:
            problem = f"fields 'a' and 'b' are both {shown(link.a)}; a link joins two parts"
            raise FieldError(problem, "b", "links", number)
        if link.payload_gbs is not None and not min(link.payload_gbs) > 0:
            raise FieldError(
                "field 'payload_gbs' must be above zero", "payload_gbs", "links", number
            )


def _require_known(machine: Machine, nodes: set[int]) -> None:
    """Refuse host bandwidth of parts that are not there."""
    gpus = {g.index for g in machine.gpus}
    for number, one in enumerate(machine.host_bandwidth):
        if one.node not in nodes:
            problem = f"field 'node': there is no node {one.node}"
            raise FieldError(problem, "node", "host_bandwidth", number)
        if len(one.gpus) < _FEWEST or not gpus.issuperset(one.gpus):
            problem = "field 'gpus' must name two or more of the machine's GPUs, such as [0, 1]"
            raise FieldError(problem, "gpus", "host_bandwidth", number)
        if not 0 <= one.spread < 1:
            problem = "field 'spread' must be a share from 0 to below 1"
            raise FieldError(problem, "spread", "host_bandwidth", number)
        if not 0 < one.at_capacity <= 1:
            problem = "field 'at_capacity' must be a share above 0, up to 1"
            raise FieldError(problem, "at_capacity", "host_bandwidth", number)


def dumps_machine(machine: Machine) -> str:
    """Return a machine as the text of a machine file; what is unknown is left out."""
    plain = {f.name: getattr(machine, f.name) for f in dataclasses.fields(machine)}
    plain.pop("described")
    tables = {k: v for k, v in plain.items() if _is_table_list(v)}
    latencies = plain.pop("latencies")
    lines = [_HEADER + "\n".join(_assignments(plain, skip=set(tables) | {"latencies"}))]
    for name, entries in tables.items():
        for entry in entries:
            lines.append(f"\n[[{name}]]\n" + "\n".join(_assignments(_plain(entry))))
    if known := _assignments(_plain(latencies)):
        lines.append("\n[latencies]\n" + "\n".join(known))
    return "\n".join(lines) + "\n"


def _is_table_list(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and dataclasses.is_dataclass(value[0])


def _plain(entry: Any) -> dict[str, Any]:
    return {f.name: getattr(entry, f.name) for f in dataclasses.fields(entry)}


def _assignments(values: dict[str, Any], skip: Collection[str] = ()) -> list[str]:
    return [
        f"{key} = {_toml(value)}"
        for key, value in values.items()
        if key not in skip and value is not None and value != ()
    ]


def _toml(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return "{ " + ", ".join(_assignments(_plain(value))) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, StrEnum | str):
        # JSON's strings are TOML's, but for the one control character it leaves as it is
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def require_possible(machine: Machine) -> None:
    """Refuse a machine that nobody has.

    Raises
    ------
    FieldError
        With the part and the field.
    """
    for number, link in enumerate(machine.links):
        _require_link(link, number)
    _require_host_first(machine)
    _require_one_each(machine.links)
    for table, most in _MOST.items():
        entries = getattr(machine, table)
        several = isinstance(entries, tuple)
        for number, entry in enumerate(entries if several else (entries,)):
            for field, largest in most.items():
                _require_at_most(entry, field, largest, table, number if several else None)
    _require_cores(machine)
    known = {gpu.index for gpu in machine.gpus}
    for number, gpu in enumerate(machine.gpus):
        _require_peers(gpu, known, number)


def _require_at_most(
    entry: Any, field: str, most: float, table: str, number: int | None, inside: str | None = None
) -> None:
    found = getattr(entry, field)
    for one in found if isinstance(found, tuple) else (found,):
        if one is not None and one > most:
            unit = _UNITS.get(field.rpartition("_")[2])
            counted = "" if unit is None else f"; it is in {unit}"
            problem = f"field {field!r} is {one:g}, more than any machine has{counted}"
            raise FieldError(problem, field, table, number, inside)


def _require_link(link: Link, number: int) -> None:
    if link.nvlink is not None:
        for field, most in _MOST_NVLINK.items():
            _require_at_most(link.nvlink, field, most, "links", number, "nvlink")
    if link.pcie is None:
        return
    for field, known in _PCIE.items():
        found = getattr(link.pcie, field)
        if found is not None and found not in known:
            *others, last = map(str, known)
            problem = f"field {field!r} is {found}, not {', '.join(others)} or {last}"
            raise FieldError(problem, field, "links", number, "pcie")


def _require_host_first(machine: Machine) -> None:
    """Refuse PCIe links from a GPU, or to a node: what goes there and back would be exchanged."""
    gpus = {gpu.id for gpu in machine.gpus}
    nodes = {node.id for node in machine.nodes}
    for number, link in enumerate(machine.links):
        if link.kind is LinkKind.PCIE and (link.a in gpus or link.b in nodes):
            problem = (
                f"field 'a' is {shown(link.a)}, and 'b' {shown(link.b)}; of a PCIe link 'a' is the "
                "end nearer to the host"
            )
            raise FieldError(problem, "a", "links", number)


def _require_one_each(links: Sequence[Link]) -> None:
    """Refuse a second link of a kind between two parts: limits would be those of either."""
    there: set[tuple[frozenset[str], LinkKind]] = set()
    for number, link in enumerate(links):
        if (one := (frozenset((link.a, link.b)), link.kind)) in there:
            problem = (
                f"there are two {link.kind} links between {link.a} and {link.b}; give one, with "
                "what they carry together"
            )
            raise FieldError(problem, "b", "links", number)
        there.add(one)


def _require_cores(machine: Machine) -> None:
    """Refuse processing units that two cores have, and numbers that none has."""
    owners: dict[tuple[int | None, int], str] = {}
    for number, node in enumerate(machine.nodes):
        for core, threads in enumerate(node.cores):
            if not threads:
                problem = f"field 'cores[{core}]' has no hardware thread; leave the core out"
                raise FieldError(problem, "cores", "nodes", number)
            for thread in threads:
                if thread > _MOST_THREAD:
                    problem = f"field 'cores': {thread} is the number of no hardware thread"
                    raise FieldError(problem, "cores", "nodes", number)
                owner = owners.setdefault((node_of(node.id), thread), f"{node.id}'s core {core}")
                if owner != f"{node.id}'s core {core}" or threads.count(thread) > 1:
                    problem = f"field 'cores': thread {thread} is in two places, {owner} the first"
                    raise FieldError(problem, "cores", "nodes", number)


def _require_peers(gpu: Gpu, known: set[int], number: int) -> None:
    for peer in gpu.peers or ():
        if peer == gpu.index:
            problem = f"field 'peers' names {gpu.id} itself; it takes other GPUs"
        elif peer not in known:
            problem = f"field 'peers': there is no GPU {peer}"
        else:
            continue
        raise FieldError(problem, "peers", "gpus", number)
