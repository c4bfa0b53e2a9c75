"""What the values of options and arguments may be: each kind with its bounds, in one place.

A value is read where the command line is: a wrong one is refused before anything else happens,
by a sentence that names the option, what it takes, and what was given.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from lanescope.errors import InputError
from lanescope.kinds import LONGEST_NAME

#: More than any memory of today has: 1 PiB.
_LARGEST_MEMORY = 1 << 50
#: Characters of a wrong value that a sentence repeats, and of a path.
_MOST_QUOTED, _MOST_OF_PATH = 60, 400


def quoted(text: str, most: int = _MOST_QUOTED) -> str:
    """Return a user's text for a sentence: in quotation marks, and not endless."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


@dataclass(frozen=True, slots=True)
class Value:
    """Reads the text of one option; what is no text is a default and passes.

    Attributes
    ----------
    called
        What a help calls such values.
    """

    called: ClassVar[str] = "NAME"
    option: str

    @property
    def __name__(self) -> str:
        """Some versions of Typer ask for it, as readers are functions to them."""
        return "value"

    def __call__(self, text: Any) -> Any:
        """Return what the text stands for.

        Raises
        ------
        InputError
            If the option does not take it.
        """
        return self.read(text) if isinstance(text, str) else text

    def read(self, text: str) -> Any:
        """Return the value of a text."""
        too_long = any(len(os.fsencode(part)) > LONGEST_NAME for part in Path(text).parts)
        if not text or min(text) < " " or too_long:
            self.refuse(text, f"a name of at most {LONGEST_NAME} bytes, with no control character")
        return text

    @property
    def metavar(self) -> str:
        """What the help calls its value, where an option says nothing else."""
        return self.called

    @property
    def wanted(self) -> str:
        """What it takes, in words, where numbers from Python have the same bounds; else empty."""
        return ""

    def fits(self, number: float) -> bool:
        """Whether a number from Python is within the bounds."""
        return True

    def refuse(self, text: str, wanted: str) -> NoReturn:
        """Refuse a text."""
        raise InputError(f"{self.option} takes {wanted}, not {quoted(text)}")


@dataclass(frozen=True, slots=True)
class Unread(Value):
    """Text that is read later, where it is known what it may say; empty text, too."""

    def read(self, text: str) -> str:
        """Return it."""
        return text


@dataclass(frozen=True, slots=True)
class Whole(Value):
    """A whole number within bounds; `why` says where they come from."""

    called: ClassVar[str] = "N"
    least: int
    most: int
    why: str

    @property
    def wanted(self) -> str:
        """The bounds."""
        return f"a whole number from {self.least} to {self.most} ({self.why})"

    def fits(self, number: float) -> bool:
        """Whether a number is within them."""
        return self.least <= number <= self.most

    def read(self, text: str) -> int:
        """Return the number."""
        is_whole = re.fullmatch(r"\s*[+-]?[0-9]{1,20}\s*", text) is not None
        if not (is_whole and self.fits(int(text))):
            self.refuse(text, self.wanted)
        return int(text)


@dataclass(frozen=True, slots=True)
class Real(Value):
    """A number above a bound (or at it, where `least` is given) and up to another one.

    Seconds may have a unit of time behind them, as ``500ms`` or ``2min``.
    """

    unit: str
    most: float
    why: str
    least: float | None = None

    @property
    def metavar(self) -> str:
        """The unit, where it has a word."""
        return "SECONDS" if self.unit == "seconds" else "N"

    @property
    def wanted(self) -> str:
        """The bounds."""
        low = "above 0 and up to" if self.least is None else f"from {self.least:g} to"
        whole = self.most < 1e9 and self.most == int(self.most)
        most = f"{self.most:.0f}" if whole else f"{self.most:g}"
        what = f"{self.unit} {low} {most}"
        return f"{what} ({self.why})" if self.why else what

    def fits(self, number: float) -> bool:
        """Whether a number is within them."""
        over = number > 0 if self.least is None else number >= self.least
        return over and number <= self.most

    def read(self, text: str) -> float:
        """Return the number."""
        try:
            number = float(text)
        except ValueError:
            number = self._with_unit(text)
        if not self.fits(number):
            self.refuse(text, self.wanted)
        return number

    def _with_unit(self, text: str) -> float:
        """Return the seconds of a time with its unit; -1 where it is none, or none is wanted."""
        from lanescope.units.words import parse_seconds

        if self.unit == "seconds":
            with contextlib.suppress(InputError):
                return parse_seconds(text, self.option)
        return -1.0


@dataclass(frozen=True, slots=True)
class Scaled(Real):
    """The same, which may have its unit behind it, as ``4.8TB/s`` or ``34 TFLOPS``.

    Attributes
    ----------
    word
        The unit without a prefix, a regular expression.
    scale
        How many of it the number without a unit counts: 1e9 of GB/s.
    """

    word: str = "B/s"
    scale: float = 1e9

    def read(self, text: str) -> float:
        """Return the number, in `unit`."""
        from lanescope.units.sizes import NUMBER

        bits = re.fullmatch(rf"\s*({NUMBER})\s*([KMGTP]?i?)(?:b|[Bb]its?)(?:/s|ps)\s*", text)
        if bits and self.word == "B/s":
            same = f"{float(bits[1]) / 8:g}{bits[2]}B/s"
            self.refuse(text, f"bytes a second and no bits, as in {same}")
        match = re.fullmatch(
            rf"\s*({NUMBER})\s*([KMGTPE]?)(i?)({self.word})\s*", text, re.IGNORECASE
        )
        if match is None or not (match[2] or match[4]):
            return Real.read(self, text)
        power = " KMGTPE".index(match[2].upper() or " ")
        prefix = pow(1024.0 if match[3] else 1000.0, power)
        number: float = float(match[1]) * prefix / self.scale
        if not self.fits(number):
            self.refuse(text, self.wanted)
        return number


@dataclass(frozen=True, slots=True)
class Percent(Value):
    """A share, as ``0.5%`` or ``0.5``."""

    called: ClassVar[str] = "PERCENT"

    def read(self, text: str) -> float:
        """Return it: 0.005 for these."""
        try:
            value = float(text.strip().removesuffix("%"))
        except ValueError:
            value = 0.0
        if not 0 < value < 100:
            self.refuse(text, "a percentage above 0 and below 100, such as 0.5%")
        return value / 100


@dataclass(frozen=True, slots=True)
class Size(Value):
    """Bytes, as ``16``, ``200KB`` or ``512MiB``."""

    called: ClassVar[str] = "SIZE"
    least: int = 1
    most: int | None = None
    multiple: int = 1
    zero: bool = False

    def read(self, text: str) -> int:
        """Return the bytes."""
        from lanescope.units.sizes import in_bytes, parse_size, size_text, with_unit

        if (instead := in_bytes(text)) is not None:
            self.refuse(text, f"bytes and no bits, as in {instead}")
        if (both := with_unit(text)) is not None:
            self.refuse(text, f"a size with its unit, as in {both}")
        if self.zero and re.fullmatch(r"\s*0\s*([KMGTP]?i?B)?\s*", text, re.IGNORECASE):
            return 0
        try:
            size = parse_size(text)
        except InputError:
            size = 0
        most = self.most or _LARGEST_MEMORY
        if not self.least <= size <= most or size % self.multiple:
            step = f" in steps of {self.multiple} B" if self.multiple > 1 else ""
            what = "0, or a size" if self.zero else "a size"
            bounds = f"from {size_text(self.least)} to {size_text(most)}{step}"
            within = [
                such
                for such in ("64KiB", "1MB", "64MiB", "2GiB")
                if self.least <= (one := parse_size(such)) <= most and one % self.multiple == 0
            ]
            self.refuse(text, f"{what} {bounds}{_such_as(within[:2])}")
        return size


def _such_as(examples: Sequence[str]) -> str:
    """Return examples as the end of a sentence; empty where there is none."""
    *first, last = examples or [""]
    return f", such as {', '.join(first)}{' or ' * bool(first)}{last}" if last else ""


@dataclass(frozen=True, slots=True)
class Sizes(Value):
    """Several sizes with commas between; with `spans` also ``1MiB-8MiB``: each double the last."""

    called: ClassVar[str] = "SIZE,..."
    spans: bool = False

    def read(self, text: str) -> tuple[int, ...]:
        """Return them, each once."""
        return tuple(dict.fromkeys(size for part in text.split(",") for size in self._span(part)))

    def _span(self, part: str) -> Iterator[int]:
        one = Size(self.option)
        first, dash, last = part.partition("-")
        size, most = one(first), one(last if dash and self.spans else first)
        if dash and (not self.spans or most < size):
            self.refuse(part, "sizes such as 1MiB,256MiB" + (" or 1MiB-256MiB" * self.spans))
        while size <= most:
            yield size
            size *= 2


@dataclass(frozen=True, slots=True)
class Duration(Value):
    """Nanoseconds, as ``100us`` or ``12ms``."""

    called: ClassVar[str] = "TIME"
    least_ns: int
    most_ns: int
    bounds: str
    zero: bool = False

    def read(self, text: str) -> int:
        """Return them."""
        from lanescope.units.sizes import NUMBER
        from lanescope.units.words import is_zero, parse_ns

        if self.zero and is_zero(text):
            return 0
        try:
            found = parse_ns(text, self.option)
        except InputError:
            found = -1
        if not self.least_ns <= found <= self.most_ns:
            long = self.most_ns > 86_400 * 10**9
            such = ("30s", "10min", "24h") if long else ("100us", "1ms", "2s")
            within = [
                one for one in such if self.least_ns <= parse_ns(one, self.option) <= self.most_ns
            ]
            bare = re.fullmatch(rf"\s*{NUMBER}\s*", text) is not None
            bounds = self.bounds + ", with its unit" * bare
            self.refuse(text, f"a time {bounds}{_such_as(within)}")
        return found


@dataclass(frozen=True, slots=True)
class Moment(Value):
    """Nanoseconds since 1970 of ``03:20``, ``2026-11-28T03:20``, or ``8h``, so long ago.

    Without an offset from UTC it is local time; a time of day the last such time that has passed.
    """

    called: ClassVar[str] = "WHEN"

    def read(self, text: str) -> int:
        """Return them."""
        found = -1
        with contextlib.suppress(InputError, ValueError, OverflowError, OSError):
            found = _moment_ns(text.strip(), self.option)
        if found < 0:
            self.refuse(
                text,
                "a time of day, a date with a time, or how long ago, such as 03:20, "
                "2026-11-28T03:20 or 8h",
            )
        return found


def _moment_ns(text: str, option: str) -> int:
    """Return a moment; raises InputError, ValueError, or what the system has against a time."""
    from datetime import datetime, timedelta
    from datetime import time as time_of_day

    from lanescope.units.words import parse_ns

    if re.fullmatch(r"\d\d?:\d\d(:\d\d)?", text):
        now, padded = datetime.now(), text if text[2] == ":" else f"0{text}"
        found = datetime.combine(now, time_of_day.fromisoformat(padded))
        found -= timedelta(days=found > now)
    elif re.match(r"\d{4}-\d\d-\d\d", text):
        found = datetime.fromisoformat(text)
    else:
        return time.time_ns() - parse_ns(text, option)
    return round(found.timestamp()) * 10**9


@dataclass(frozen=True, slots=True)
class Seconds(Duration):
    """The same in seconds."""

    @property
    def wanted(self) -> str:
        """The bounds."""
        return f"seconds, {self.bounds}"

    def fits(self, number: float) -> bool:
        """Whether a number is within them, but for what rounding to nanoseconds takes."""
        return (self.zero and number == 0) or self.least_ns <= round(number * 1e9) <= self.most_ns

    def read(self, text: str) -> float:  # type: ignore[override]  # of another unit
        """Return them."""
        return Duration.read(self, text) / 10**9


@dataclass(frozen=True, slots=True)
class Numbers(Value):
    """Whole numbers with commas between, and where `spans` ranges such as ``1-8``."""

    called: ClassVar[str] = "N,N,..."
    least: int
    most: int
    example: str
    spans: bool = False

    def read(self, text: str) -> tuple[int, ...]:
        """Return them, each once, as they stand there."""
        found: list[int] = []
        for part in text.split(","):
            match = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", part)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
            if not self.least <= first <= last <= self.most or (last > first and not self.spans):
                self.refuse(
                    text,
                    f"whole numbers from {self.least} to {self.most} with commas between, such "
                    f"as {self.example}",
                )
            found += range(first, last + 1)
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class OneOf(Value):
    """A word of several; `known` returns them, as an enumeration: most are imported late."""

    known: Callable[[], Iterable[str]]

    def read(self, text: str) -> str:
        """Return the word."""
        known = [str(word) for word in self.known()]
        if text not in known:
            *others, last = known
            self.refuse(text, f"{', '.join(others)} or {last}" if others else last)
        return text


@dataclass(frozen=True, slots=True)
class Words(OneOf):
    """Several words with commas between."""

    called: ClassVar[str] = "NAME,..."

    def read(self, text: str) -> tuple[str, ...]:  # type: ignore[override]  # several of them
        """Return them, each once."""
        one = OneOf(self.option, self.known)
        return tuple(dict.fromkeys(one.read(part.strip()) for part in text.split(",")))


@dataclass(frozen=True, slots=True)
class File(Value):
    """A file to be written into a folder that is there.

    Attributes
    ----------
    endings
        Such as ``.svg``.
    for_folders
        The option that takes a folder in its place; empty where there is none.
    """

    endings: tuple[str, ...] = ()
    for_folders: str = ""

    @property
    def metavar(self) -> str:
        """A file, with its ending where there is one."""
        return f"FILE{self.endings[0]}" if len(self.endings) == 1 else "FILE"

    def read(self, text: str) -> Path:
        """Return its path."""
        ends = f" that ends in {' or '.join(self.endings)}" if self.endings else ""
        if self.endings and Path(text).suffix not in self.endings:
            raise InputError(f"{self.option} takes a file{ends}, not {quoted(text, _MOST_OF_PATH)}")
        path = _path(self, text, f"a file{ends}")
        if text.endswith("/") or _is_folder(path):
            other = f", or give {self.for_folders} {quoted(text, _MOST_OF_PATH)}"
            why = "it is a folder; name a file" + (other if self.for_folders else "")
        else:
            why = _why_not_written(path)
        if why:
            raise InputError(f"{self.option} cannot write {quoted(text, _MOST_OF_PATH)}: {why}")
        return path


@dataclass(frozen=True, slots=True)
class InFile(Value):
    """A file to be read."""

    called: ClassVar[str] = "FILE"

    def read(self, text: str) -> Path:
        """Return its path."""
        return _path(self, text, "a file")


@dataclass(frozen=True, slots=True)
class Folder(Value):
    """A folder to be written: ``%p`` in it is the process id, ``%q{NAME}`` a variable's value."""

    called: ClassVar[str] = "DIR"

    def read(self, text: str) -> Path:
        """Return its path."""
        return _path(self, re.sub(r"%p|%q\{(\w+)\}", self._of_this_process, text), "a folder")

    def _of_this_process(self, found: re.Match[str]) -> str:
        if found[1] is None:
            return str(os.getpid())
        if value := os.environ.get(found[1]):
            return value
        what = "is empty" if found[1] in os.environ else "is not set"
        raise InputError(
            f"{self.option}: the variable {found[1]} {what}; name another in {found[0]}"
        )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # why it cannot be written is said by who tries
        return False


def _why_not_written(path: Path) -> str:
    """Return why a file cannot be written, before minutes are spent on it; empty if it can."""
    import tempfile  # slow to load

    from lanescope.codec.files import file_of

    folder = path.parent
    try:
        if (place := file_of(path)) is None:  # not opened: a FIFO's reader would be at its end
            return "" if os.access(path, os.W_OK) else _reason(errno.EACCES)
        folder = place.parent
        if not os.path.lexists(folder):
            return f"there is no folder {quoted(str(folder), _MOST_OF_PATH)}; make it first"
        with tempfile.TemporaryFile(dir=folder):  # has no name that somebody could foresee
            return ""
    except FileNotFoundError:  # /proc, whose files are the kernel's own; the current folder is gone
        return f"no file can be made in {quoted(str(folder), _MOST_OF_PATH)}; name another place"
    except OSError as error:
        return _reason(error.errno)


def _reason(number: int | None) -> str:
    return f"{os.strerror(number or 0)}; name another place"


def _path(value: Value, text: str, wanted: str) -> Path:
    if not text:
        value.refuse(text, wanted)
    if text.startswith("-"):  # the next option, taken for this one's value
        raise InputError(
            f"{value.option} takes {wanted}, not {quoted(text)}; write ./{text[:20]} if it has "
            "that name"
        )
    return Path(text)
