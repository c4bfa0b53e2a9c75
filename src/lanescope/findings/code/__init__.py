"""Lines of code that stand with findings and advice, in the language of the program."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lanescope.document.finding import Snippet
from lanescope.findings.code import kernels, libraries
from lanescope.trace.timeline import Timeline

_ALL = (kernels.CUDA, libraries.PYTORCH, libraries.CUPY, libraries.JAX, kernels.NUMBA)
CUDA, PYTORCH, CUPY, JAX, NUMBA = LANGUAGES = tuple(one.name for one in _ALL)
SHELL = "shell"  # what is done around a program, in whatever language it is
_PLACE = (
    "./app",
    "numactl --cpunodebind=NODE --membind=NODE ./app  # the node of its GPU",
)
#: By what is done and the language: lines as they are now, and as they are then.
SNIPPETS = {(what, one.name): lines for one in _ALL for what, lines in one.snippets.items()} | {
    ("place", SHELL): _PLACE
}
#: Why there are no lines, where a language has no way to do it.
WITHOUT = {(what, one.name): why for one in _ALL for what, why in one.without.items()}
#: Lines that have those of other things to do in them.
_HOLDS = {
    "batch": {"pin"},
    "streams": {"async"},
    "mapped": {"pin"},
    "hybrid": {"pin", "async"},
}
#: In this order by what their kernels are called: JAX has names that others may have, too.
_BY_KERNELS = (libraries.PYTORCH, libraries.CUPY, kernels.NUMBA, libraries.JAX)
#: Calls of CUDA, which a watch names, too.
_CALL = re.compile(r"^cu(da)?[A-Z]\w*$")


def snippets(whats: Iterable[str], language: str) -> tuple[Snippet, ...]:
    """Return the lines for each thing to do, in that order; each has lines or says why not.

    What the lines of another one hold is left out.
    """
    every = list(whats)
    held = set().union(*(_HOLDS.get(what, ()) for what in every if (what, language) in SNIPPETS))
    return tuple(_snippet(what, language) for what in every if what not in held)


def _snippet(what: str, language: str) -> Snippet:
    for one in (language, SHELL):
        if (what, one) in SNIPPETS:
            return Snippet(what, one, *SNIPPETS[what, one])
    return Snippet(what, language, why_none=WITHOUT[what, language])


def language_of(kernels: Iterable[str], command: str = "") -> str:
    """Return in what a program was written: by its kernels' names, else by its command line.

    Kernels that no library is known by are a program's own, of CUDA C++; of a program of Python
    whose kernels were not traced PyTorch is the likeliest.
    """
    names = list(kernels)
    for language in _BY_KERNELS:
        if language.kernels and any(map(language.kernels.search, names)):
            return language.name
    program = command.split()[0].rsplit("/", 1)[-1] if command.split() else ""
    return PYTORCH if not names and program.startswith("python") else CUDA


def kernels_of(timeline: Timeline) -> list[str]:
    """Return the names of the kernels of a watch."""
    return [name for name in timeline.operations.names if name and not _CALL.match(name)]


def languages(timeline: Timeline) -> dict[int, str]:
    """Return in what each process of a watch was written; all are known by the same kernels."""
    kernels = kernels_of(timeline)
    return {one.pid: language_of(kernels, one.command) for one in timeline.processes}
