"""The little language of ``lanescope copy``: copies as text, and texts as copies.

::

    set    = copy { [ "," ] copy }
    copy   = [ count "x" ] place arrow place { option } [ "(" set ")" ]
    arrow  = "->" | "<-" | "<->"            "<->" is two copies, there and back
           | "→" | "←" | "↔" | "⇄" | "to"   as tables print them; and for shells
    place  = [ node "." ] part [ "." memory ]
                                            h0   h0.pageable   g1   n1.g3
    option = size                           512MiB
           | "@ce" | "@nccl" | "@cpu" [ ":" threads ]
           | "@sm" [ ":" sms [ ":" chunk [ ":" gbs ] ] ]    "auto" leaves one open
           | "by" gpu                       who copies between two GPUs
           | "on" cpus                      on 0-3+8
           | [ "," ] "both at once"         there and back, as "<->"
           | [ "," ] "other node"           of a path: says nothing more

The last two options, and the set in parentheses, which then runs, are how reports print a copy
that ran with others: what they print can be pasted.

All copies of a set run at the same time. Nodes are numbered as MPI starts them.
`lanescope.copies.copy` writes copies in this language.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from lanescope.codec.fields import from_attributes, shown
from lanescope.copies.copy import AUTOMATIC, DEFAULT_BYTES, Copy, Engine, usual_memory
from lanescope.copies.requirements import missing_part
from lanescope.copies.terms import HOST_MEMORIES, Memory, Place
from lanescope.errors import InputError, command
from lanescope.machine import Machine
from lanescope.machine.part_names import PART, is_gpu, node_of, part_number
from lanescope.units.sizes import parse_size

#: Of a long text a sentence shows so many characters, those around what is wrong.
_SHOWN = 160
#: So many parts of a machine are named.
_MOST_PARTS = 16
#: More copies at once than this are a slip of the pen.
_MOST_COPIES = 256

#: Each arrow by how it may be written.
_ARROWS = {"→": "->", "←": "<-", "↔": "<->", "⇄": "<->", "⇆": "<->", "to": "->"}
_TOKEN = re.compile(
    r"\s*(?:(?P<arrow><->|->|<-|[→←↔⇄⇆])|(?:,\s*)?\b(?P<both>both\s+at\s+once)\b"
    r"|(?:,\s*)?\b(?P<remark>other\s+node)\b|(?P<comma>,)|(?P<open>\()|(?P<close>\))"
    r"|(?P<times>[0-9]+x(?=\s))|(?P<engine>@[^\s,()]*)"
    r"|(?P<word>(?:[^\s,<>@→←↔⇄⇆()-]|(?<=\w)-(?!>))+))"
)
_PLACE = re.compile(rf"(?P<part>{PART})(?:\.(?P<memory>.*))?")
_WITH_NODE = re.compile(r"\bn[0-9]+\.[hg][0-9]")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int  # characters before it


def _shown(token: _Token) -> str:
    """What stands there, as a sentence names it: the end is no text to be quoted."""
    return token.text if token.kind == "end" else shown(token.text)


def names_nodes(text: str) -> bool:
    """Whether a text names parts of nodes, such as ``n1.g3``."""
    return _WITH_NODE.search(text) is not None


def parse_copies(text: str, machine: Machine, default_bytes: int = DEFAULT_BYTES) -> list[Copy]:
    """Return the copies that a text describes.

    Parameters
    ----------
    machine
        Whose parts are meant: places that it has not are refused here.
    default_bytes
        Size of a copy that names none.

    Raises
    ------
    InputError
        If the text is no set of copies; the message points at the character.
    """
    return _Parser(text, machine, default_bytes).copies()


class _Parser:
    def __init__(self, text: str, machine: Machine, default_bytes: int) -> None:
        self._text = text
        self._machine = machine
        self._default_bytes = default_bytes
        self._tokens = self._tokenize()
        self._next = 0

    def copies(self) -> list[Copy]:
        copies = self._set()
        if (token := self._peek()).kind != "end":
            self._fail(token, f"{token.text!r} does not belong here; a comma separates copies")
        if len(copies) > _MOST_COPIES:
            self._fail(token, f"{len(copies)} copies at once are too many; {_MOST_COPIES} may run")
        return copies

    def _set(self, *, inside: bool = False) -> list[Copy]:
        """Return the copies up to the end, or to what is none; `inside` of parentheses."""
        copies = self._copy(inside)
        while self._peek().kind == "comma" or self._begins_copy(self._peek()):
            if self._peek().kind == "comma":
                self._take()
            copies += self._copy(inside)
        return copies

    def _tokenize(self) -> list[_Token]:
        tokens, at = [], 0
        end = len(self._text.rstrip())
        while at < end:
            match = _TOKEN.match(self._text, at)
            if match is None or match.lastgroup is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                self._fail(_Token("bad", "", at), f"{self._text[at]!r} means nothing here")
            tokens.append(
                _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
            )
            at = match.end()
        tokens.append(_Token("end", "the end", end))
        return tokens

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _begins_copy(self, token: _Token) -> bool:
        """Whether a copy begins here without a comma, as arguments of a command line do."""
        if token.kind == "word":
            return _PLACE.fullmatch(token.text) is not None
        return token.kind == "times"

    def _copy(self, inside: bool) -> list[Copy]:
        first, count = self._peek(), 1
        if first.kind == "times":
            count = self._number(first, self._take().text[:-1], "copies")
            if count > _MOST_COPIES:
                self._fail(first, f"{count} times is not 1 to {_MOST_COPIES}")
        left = self._place()
        token = self._take()
        arrow = _ARROWS.get(token.text, token.text)
        if token.kind != "arrow" and token.text not in _ARROWS:
            self._fail(token, f"an arrow ('->', '<-' or '<->') belongs here, not {_shown(token)}")
        right = self._place()
        options = self._options()
        arrow = "<->" if options.both else arrow
        ends = {"->": [(left, right)], "<-": [(right, left)], "<->": [(left, right), (right, left)]}
        copies = [self._build(first, *pair, options) for pair in ends[arrow]]
        if self._peek().kind == "open" and not inside:
            copies = self._set_with(copies)
        return copies * count

    def _set_with(self, named: list[Copy]) -> list[Copy]:
        """Return the copies in parentheses: all that ran with the named one."""
        begin = self._take()
        copies = self._set(inside=True)
        if (token := self._peek()).kind != "close":
            self._fail(token, f"')' belongs here, not {_shown(token)}")
        self._take()
        if missing := {copy.path for copy in named} - {copy.path for copy in copies}:
            self._fail(begin, f"what runs stands in parentheses, and {min(missing)} does not")
        return copies

    def _place(self) -> tuple[str, Memory | None]:
        token = self._take()
        found = _PLACE.fullmatch(token.text)
        known = [n.id for n in self._machine.nodes] + [g.id for g in self._machine.gpus]
        if token.kind != "word" or found is None:
            self._fail(token, f"a place such as h0 or g1 belongs here, not {_shown(token)}")
        part, kind = found["part"], found["memory"]
        if is_gpu(part) and not self._machine.gpus:
            self._lacks(
                token, f"this machine has no {part}, nor another GPU; see {command('topo')}"
            )
        if part not in known:
            self._lacks(token, f"this machine has no {part}; {self._what_it_has(part, known)}")
        if kind is None:
            return part, None
        at = _Token("word", kind, token.at + len(part) + 1)
        if kind not in tuple(Memory):
            names = ", ".join(HOST_MEMORIES)
            self._fail(at, f"{kind!r} is not a kind of memory; there are {names}")
        try:
            return part, Place(part, Memory(kind)).memory
        except InputError as error:
            self._fail(at, str(error))

    def _what_it_has(self, part: str, known: list[str]) -> str:
        if node_of(part) is not None and not any(node_of(one) is not None for one in known):
            return "it is one node; for several start lanescope by srun or mpirun, once on each"
        cut = [*known[:_MOST_PARTS], "..."] if len(known) > _MOST_PARTS else known
        return f"it has {', '.join(cut)}"

    def _options(self) -> _Options:
        options = _Options(self._default_bytes)
        given: dict[str, _Token] = {}
        kinds = ("word", "engine", "both", "remark")
        while (token := self._peek()).kind in kinds and not self._begins_copy(token):
            what = self._option(self._take(), options)
            if what in given:
                self._fail(token, f"this copy has {what} already; leave one of them out")
            given[what] = token
        if options.cpus and options.threads is not None:
            self._fail(given["a list of CPUs"], "name the CPUs or the number of threads, not both")
        return options

    def _option(self, token: _Token, options: _Options) -> str:
        """Note an option; return what the copy has now."""
        if token.kind == "engine":
            self._engine(token, options)
            return "an engine"
        if token.kind == "both":
            options.both = True
            return "'both at once'"
        if token.kind == "remark":
            return "'other node'"
        if token.text == "by":
            options.executor = self._gpu(self._take())
            return "a GPU behind 'by'"
        if token.text == "on":
            options.cpus = self._cpus(self._take())
            return "a list of CPUs"
        options.bytes = self._size(token, token.text)
        return "a size"

    def _engine(self, token: _Token, options: _Options) -> None:
        name, *values = token.text[1:].split(":")
        most = {"ce": 0, "nccl": 0, "cpu": 1, "sm": 4}.get(name)
        if most is None:
            self._fail(token, f"{token.text!r} is no engine; there are @ce, @sm, @cpu and @nccl")
        if len(values) > most:
            self._fail(token, f"@{name} takes at most {most} value(s) after a colon")
        options.engine = Engine(name)
        if name == "cpu" and values:
            options.threads = self._number(token, values[0], "threads")
        if name == "sm":
            sms, chunk, pace, repeats = [*values, *[AUTOMATIC] * 4][:4]
            if sms != AUTOMATIC:
                options.sms = self._number(token, sms, "SMs")
            if chunk != AUTOMATIC:
                options.chunk_bytes = 0 if chunk == "0" else self._size(token, chunk)
            if pace != AUTOMATIC:
                options.pace_gbs = self._rate(token, pace)
            if repeats != AUTOMATIC:
                options.chunk_repeats = self._number(token, repeats, "repeats")

    def _gpu(self, token: _Token) -> str:
        if token.text not in [g.id for g in self._machine.gpus]:
            self._fail(token, f"a GPU such as g0 belongs behind 'by', not {_shown(token)}")
        return token.text

    def _cpus(self, token: _Token) -> tuple[int, ...]:
        if (
            re.fullmatch(r"[0-9]{1,5}(-[0-9]{1,5})?(\+[0-9]{1,5}(-[0-9]{1,5})?)*", token.text)
            is None
        ):
            self._fail(token, f"CPUs such as 0-3+8 belong behind 'on', not {_shown(token)}")
        cpus: list[int] = []
        for span in token.text.split("+"):
            first, _, last = span.partition("-")
            if last and int(last) < int(first):
                self._fail(token, f"{span} counts down; write {last}-{first}")
            cpus += range(int(first), int(last or first) + 1)
        known = {cpu for n in self._machine.nodes for core in n.cores for cpu in core}
        if unknown := [c for c in cpus if c not in known]:
            self._fail(token, f"this process may not use CPU {unknown[0]}, or it is not there")
        return tuple(dict.fromkeys(cpus))

    def _size(self, token: _Token, text: str) -> int:
        try:
            return parse_size(text)
        except InputError as error:
            self._fail(token, str(error))

    def _number(self, token: _Token, text: str, what: str) -> int:
        if re.fullmatch("[0-9]{1,6}", text) is None or int(text) < 1:
            self._fail(token, f"{text!r} is no number of {what}; write for example 4")
        return int(text)

    def _rate(self, token: _Token, text: str) -> float:
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text) is None:
            self._fail(token, f"{text!r} is no rate in GB/s")
        return float(text)

    def _build(
        self,
        token: _Token,
        source: tuple[str, Memory | None],
        destination: tuple[str, Memory | None],
        options: _Options,
    ) -> Copy:
        engine = options.engine
        cpus = options.cpus or self._threads(token, source[0], options.threads)
        try:
            return from_attributes(
                Copy,
                options,
                source=_place(*source, engine),
                destination=_place(*destination, engine),
                cpus=cpus,
            )
        except InputError as error:
            self._fail(token, str(error))

    def _threads(self, token: _Token, part: str, threads: int | None) -> tuple[int, ...]:
        if threads is None or is_gpu(part):
            return ()
        cores = self._machine.node(part_number(part)).cores
        if threads > len(cores):
            self._fail(token, f"{part} has {len(cores)} cores, not {threads}")
        return tuple(core[0] for core in cores[:threads])

    def _fail(self, token: _Token, message: str) -> NoReturn:
        raise InputError(self._at(token, message))

    def _lacks(self, token: _Token, message: str) -> NoReturn:
        raise missing_part(self._machine, self._at(token, message))

    def _at(self, token: _Token, message: str) -> str:
        """Return a message with the place of what it is about."""
        begin = max(0, token.at - _SHOWN // 2) if len(self._text) > _SHOWN else 0
        pointer = " " * (token.at - begin) + "^"
        line = "".join(c if c.isprintable() else " " for c in self._text[begin : begin + _SHOWN])
        return f"column {token.at + 1}: {message}\n  {line}\n  {pointer}"


@dataclass(slots=True)
class _Options:
    bytes: int
    engine: Engine = Engine.CE
    both: bool = False
    executor: str | None = None
    cpus: tuple[int, ...] = ()
    threads: int | None = None
    sms: int | None = None
    chunk_bytes: int | None = None
    pace_gbs: float | None = None
    chunk_repeats: int | None = None


def _place(part: str, memory: Memory | None, engine: Engine) -> Place:
    if memory is None:
        memory = usual_memory(part, engine)
    return Place(part, memory)
