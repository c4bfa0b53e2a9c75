"""Wrong command lines over all verbs: each is refused by one sentence, and leaves nothing."""

from __future__ import annotations

import random
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lanescope.cli.options import Excludes, Exclusive, Needs
from lanescope.errors import ExitCode
from lanescope.units.values import (
    Duration,
    File,
    Folder,
    InFile,
    Moment,
    Numbers,
    OneOf,
    Percent,
    Real,
    Size,
    Sizes,
    Value,
    Whole,
    Words,
)
from tests.cli.command_lines import Done, Option, Verb, listing, run, verbs

VERBS = {" ".join(verb.words): verb for verb in verbs()}

#: What makes a verb's command line right and quick: where something wrong is added, it is wrong
#: by that alone.
BASES = {
    "check": ("--machine", "h200-x2"),
    "copy": ("h0 -> g0", "--machine", "h200-x2"),
    "bench": ("--machine", "h200-x2"),
    "bench sweep": ("--machine", "h200-x2"),
    "bench params": ("default",),
    "topo": ("--machine", "h200-x2"),
    "model predict": ("--h2d", "1MB", "--kernel", "1ms", "--parameters", "k20"),
    "reproduce": ("pcie-thesis",),
    "watch": ("--", "true"),
    **{
        f"bench {name}": ("--machine", "h200-x2")
        for name in ("overhead", "host", "hostdev", "peer", "nurma", "contention")
    },
}

HUGE = "9" * 5000
ODD = ("ünïcode → ⇄", "\udcff\udcfe", "a\tb\nc", " ", "%s%n{0}", "../..", "*", "'\"")
NAMES = ("no-such-thing", HUGE, "x" * 3000, "/", "/dev/null", "/proc/self/mem", *ODD)

INTERNALS = re.compile(
    r"object at 0x|\bError:|Traceback|pydantic|\bNone\b|\bTrue\b|\bFalse\b|Value error|"
    r"Engine\.[A-Z]|Timing\.|<class|\bdict\b|\btuple\b|NoneType|InputError|FieldError|KeyError|"
    r"[a-z]_bytes\b|lanescope\.[a-z]+\.[a-z]"
)
#: The mark below the text of copies stands in lines of its own.
POINTER = re.compile(r"(\n  .*){2}$")


def wrong_values(value: Value) -> list[str]:
    """Return texts that an option must refuse."""
    if isinstance(value, Whole):
        return ["x", "", "1.5", f"{value.least - 1}", f"{value.most + 1}", HUGE, "0x10", *ODD]
    if isinstance(value, Real):
        below = "-0.001" if value.least is not None else "0"
        return ["x", "", "nan", "inf", "-inf", "-1", below, f"{value.most * 1.01:f}", HUGE, *ODD]
    if isinstance(value, Percent):
        return ["x", "", "0", "0%", "100", "-5%", "nan", "1e3", "5%%", HUGE, *ODD]
    if isinstance(value, Size | Sizes):
        wrong = ["x", "", "-1", "1QB", "0.3B", "99999999999999TB", "1e-9", "2Gb", "nan", HUGE, *ODD]
        if isinstance(value, Size) and value.multiple > 1:
            wrong.append(f"{value.least + 1}")
        if isinstance(value, Size) and value.most:
            wrong.append(f"{value.most + 1}")
        if isinstance(value, Size) and value.least > 1:
            wrong.append(f"{value.least - 1}")
        return wrong if getattr(value, "zero", False) else [*wrong, "0"]
    if isinstance(value, Duration):
        return ["x", "", "5", "-1ms", "1 fortnight", "999999999s", "e3us", HUGE, *ODD]
    if isinstance(value, Moment):
        return ["x", "", "5", "25:00", "03:60", "2026-13-01", "1900-01-01T00:00", "now", HUGE, *ODD]
    if isinstance(value, Numbers):
        beyond = f"{value.least},{value.most + 1}"
        return ["x", "", ",", "1,", "1;2", "3-1", "-1", beyond, HUGE, *ODD]
    if isinstance(value, OneOf | Words):
        return ["", "no-such-thing", "pm,", HUGE, *ODD]
    if isinstance(value, File):
        wrong = ["", "--json", "no/such/folder/x.svg", "/", *(ODD if value.endings else ())]
        return [*wrong, "a.pdf", "a"] if value.endings else wrong
    if isinstance(value, Folder | InFile):
        return ["", "--json", "-x"]
    return ["", *NAMES]


def right_value(value: Value) -> str:
    """Return a text that an option takes."""
    if isinstance(value, Whole):
        return f"{value.least}"
    if isinstance(value, Size):
        return f"{value.least}"
    if isinstance(value, Numbers):
        return f"{value.least}"
    if isinstance(value, OneOf | Words):
        return next(iter(map(str, value.known())))
    if isinstance(value, File):
        return f"new{value.endings[0] if value.endings else ''}"
    kinds = {
        Real: "1",
        Percent: "1%",
        Sizes: "1MB",
        Duration: "1ms",
        Moment: "8h",
        Folder: "new",
        InFile: "in",
    }
    return kinds.get(type(value), "h200-x2")


def given(option: Option) -> list[str]:
    """Return an option with a right value."""
    return [option.name] if option.value is None else [option.name, right_value(option.value)]


class Wrong:
    """Makes command lines that are wrong in one way, by random numbers."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self._rng = rng
        self._folder = folder
        self._kinds: tuple[Callable[[Verb], list[str] | None], ...] = (
            self.value,
            self.value,
            self.value,
            self.value,
            self.word,
            self.missing_value,
            self.unknown_option,
            self.twice,
            self.rule,
            self.rule,
            self.flag_with_value,
            self.place,
            self.argument,
        )

    def make(self) -> tuple[str, list[str]]:
        """Return how it is wrong, and the words behind ``lanescope``."""
        while True:
            verb = self._rng.choice(list(VERBS.values()))
            kind = self._rng.choice(self._kinds)
            if (added := kind(verb)) is not None:
                base = list(BASES.get(" ".join(verb.words), ()))
                return kind.__name__, [*verb.words, *self._without(base, added)]

    def _without(self, base: list[str], added: list[str]) -> list[str]:
        """Return both, the base without options that what was added has, too."""
        if "--" in base:  # the program stays the last
            at = base.index("--")
            return [*self._without(base[:at], added), *base[at:]]
        kept: list[str] = []
        words = iter(base)
        for word in words:
            if word.startswith("--") and word in added and added.count(word) == 1:
                next(words)
            else:
                kept.append(word)
        return [*kept, *added]

    def _option(self, verb: Verb, *, flag: bool = False, many: bool | None = None) -> Option | None:
        fitting = [
            one
            for one in verb.options
            if one.is_flag == flag and many in (None, one.is_many) and (flag or one.value)
        ]
        return self._rng.choice(fitting) if fitting else None

    def value(self, verb: Verb) -> list[str] | None:
        """A value that its option does not take."""
        option = self._option(verb)
        if option is None or option.value is None:
            return None
        text = self._rng.choice(wrong_values(option.value))
        name = self._rng.choice(option.names)
        joined = name.startswith("--") and self._rng.random() < 0.5
        return [f"{name}={text}"] if joined else [name, text]

    def word(self, verb: Verb) -> list[str] | None:
        """A name of a case, or a condition, that there is not."""
        free = [one for one in verb.options if one.value is None and not one.is_flag]
        return [self._rng.choice(free).name, self._rng.choice(NAMES)] if free else None

    def missing_value(self, verb: Verb) -> list[str] | None:
        """An option at the end, without its value."""
        option = self._option(verb)
        return None if option is None or verb.words[-1] == "watch" else [option.name]

    def unknown_option(self, verb: Verb) -> list[str] | None:
        """An option that there is not."""
        name = self._rng.choice(["--frobnicate", "--Json", "-Q", "--size-", "--no-json", "---"])
        return [name, *self._rng.choice([[], ["1"]])]

    def twice(self, verb: Verb) -> list[str] | None:
        """An option with one value, two times."""
        option = self._option(verb, many=False)
        if option is None or option.value is None:
            return None
        return given(option) * 2

    def rule(self, verb: Verb) -> list[str] | None:
        """What the verb's rules refuse."""
        wrong = list(self._against_rules(verb))
        return self._rng.choice(wrong) if wrong else None

    def _against_rules(self, verb: Verb) -> Iterator[list[str]]:
        base = BASES.get(" ".join(verb.words), ())
        for rule in verb.rules:
            if isinstance(rule, Needs):
                if not set(rule.others) & set(base):
                    yield from (given(one) for n in rule.options if (one := verb.option(n)))
            elif isinstance(rule, Excludes) and (first := verb.option(rule.option)):
                yield from (
                    [*given(first), *given(one)] for n in rule.others if (one := verb.option(n))
                )
            elif isinstance(rule, Exclusive) and (first := verb.option(rule.option)):
                yield from (
                    [*given(first), *given(one)]
                    for one in verb.options
                    if one is not first and one.name not in rule.beside
                )

    def flag_with_value(self, verb: Verb) -> list[str] | None:
        """A flag that is given a value."""
        option = self._option(verb, flag=True)
        return None if option is None else [f"{option.name}=yes"]

    def place(self, verb: Verb) -> list[str] | None:
        """A place that cannot be written."""
        options = [one for one in verb.options if isinstance(one.value, File | Folder)]
        if not options:
            return None
        option = self._rng.choice(options)
        if isinstance(option.value, Folder):
            # pictures may stand beside other files
            taken = [] if option.name == "--plots" else ["used"]
            return [option.name, self._rng.choice([*taken, "file", "/proc/new", "/dev/null/x"])]
        endings = option.value.endings if isinstance(option.value, File) else ()
        ending = next(iter(endings), "")
        return [option.name, self._rng.choice([f"taken{ending}", f"/proc/new{ending}"])]

    def argument(self, verb: Verb) -> list[str] | None:
        """An argument that means nothing there."""
        takes_none = {"topo", "doctor", "model predict", "bench"}
        name = self._rng.choice(NAMES)
        words = " ".join(verb.words)
        if words == "watch":
            return None
        if words == "check" and name == "*":  # all cases
            return None
        if words in ("reproduce", "bench params"):
            return [name, name]
        if words == "advise" or (words not in takes_none and words not in BASES):
            return [name] if name not in ODD else None
        return [name]


def complaints(done: Done, changed: set[str]) -> Iterator[str]:
    """Yield what is wrong with how a wrong command line was refused."""
    if done.code not in (2, 4, 126, 127):
        yield f"exit code {done.code}"
    if done.stdout:
        yield "something on standard output"
    sentence = POINTER.sub("", done.stderr.rstrip("\n"))
    if not sentence.startswith("lanescope: ") or "\n" in sentence:
        yield "not one sentence"
    if len(sentence) > 1500:
        yield f"{len(sentence)} characters"
    quoted = re.sub(r"'[^']*'|\"[^\"]*\"", "''", sentence)
    if found := INTERNALS.search(quoted):
        yield f"internals: {found[0]!r}"
    yield from (f"advises {name}" for name in not_there(done, sentence))
    if changed:
        yield f"made {sorted(changed)}"


def not_there(done: Done, sentence: str) -> set[str]:
    """Return options that a sentence names and that nobody has."""
    typed = {word.split("=")[0] for word in done.arguments}
    typed |= {found for word in done.arguments for found in re.findall(r"--[\w-]+", word)}
    told = {name for name in VERBS if re.search(rf"'?\b{name}\b", sentence)}
    told |= {" ".join(done.arguments[:count]) for count in (1, 2)}
    known = {"--help"} | typed
    known |= {
        name
        for verb in told & VERBS.keys()
        for option in VERBS[verb].options
        for name in option.names
    }
    own = re.sub(r"'nsys [^']*'", "''", sentence)  # whose options are its own
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]+", own)) - known


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder to work in, with a file and a folder that are not to be touched."""
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("COLUMNS", raising=False)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for ending in ("", ".svg", ".png", ".toml", ".json", ".html"):
        (tmp_path / f"taken{ending}").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_wrong_command_lines_are_one_sentence(rng, trials, workplace):
    wrong = Wrong(rng, workplace)
    before = listing(workplace)
    found, kinds = [], Counter[str]()
    for _ in range(trials(80, 600)):
        kind, words = wrong.make()
        done = run(words)
        kinds[kind] += 1
        changed = listing(workplace) ^ before
        found += [
            f"{kind}: {shlex.join(words)[:300]}\n    {one}\n    {done.stderr[:500]}"
            for one in complaints(done, changed)
        ]
        before = listing(workplace)
    print(dict(kinds))
    assert not found, "\n".join(found)


#: Verbs that measure nothing beside these words, and start nothing.
HARMLESS = {
    "check": ("--machine", "h200-x2"),
    "copy": ("--machine", "h200-x2"),
    "topo": ("--machine", "h200-x2"),
    "bench": ("--machine", "h200-x2", "-t", "0"),
    "bench params": (),
    "bench sweep": ("--machine", "h200-x2", "--max", "1KiB"),
    "bench host": ("--machine", "h200-x2", "--list"),
    "bench nurma": ("--machine", "h200-x2", "--list"),
    "bench contention": ("--machine", "h200-x2", "--list"),
    "bench peer": ("--machine", "h200-x2", "--max", "1KB"),
    "model predict": ("--h2d", "1MB", "--kernel", "1ms", "--parameters", "k20"),
    "report": (),
}


def any_words(rng: random.Random, verb: Verb) -> list[str]:
    """Return words that mean something to a verb, in any order and any number."""
    words = list(verb.words)
    pool: list[Callable[[], list[str]]] = [
        lambda: [rng.choice(("h0", "to", "g0", "->", "→", "h0 -> g0", "g0 ⇄ g1 64MiB", ","))],
        lambda: [rng.choice(("latest", "default", "taruc", "h2d/*", "file", "used", *ODD))],
        lambda: [rng.choice(("--", "-", "--=", "-=", ""))],
    ]
    for option in verb.options:
        pool.append(lambda option=option: [rng.choice(option.names)])
        if option.value is not None:
            value = option.value
            pool.append(lambda option=option, value=value: [*given(option)])
            pool.append(
                lambda option=option, value=value: [option.name, rng.choice(wrong_values(value))]
            )
    chosen = [part for _ in range(rng.randint(0, 4)) for part in rng.choice(pool)()]
    base = list(HARMLESS[" ".join(verb.words)])
    return [*words, *base, *chosen] if rng.random() < 0.7 else [*words, *chosen, *base]


def test_any_words_are_done_or_refused_by_one_sentence(rng, trials, workplace):
    done_well, found = 0, []
    for _ in range(trials(40, 600)):
        verb = VERBS[rng.choice(list(HARMLESS))]
        words = any_words(rng, verb)
        before = listing(workplace)
        done = run(words)
        if done.code != ExitCode.INPUT:
            done_well += 1
            wrong = ["a traceback"] if "Traceback" in done.stderr else []
            wrong += [] if done.code in set(ExitCode) else [f"exit code {done.code}"]
        else:
            wrong = list(complaints(done, listing(workplace) ^ before))
        found += [f"{shlex.join(words)[:300]}\n    {one}\n    {done.stderr[:500]}" for one in wrong]
    print(f"{done_well} done well")
    assert done_well
    assert not found, "\n".join(found)
