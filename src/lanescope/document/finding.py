"""A finding: something that is wrong, or could be better, with all that is known of it."""

from __future__ import annotations

from dataclasses import dataclass

from lanescope.units.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Snippet:
    """A few lines of a program as they are, and as a remedy has them.

    Attributes
    ----------
    what
        What is done, in a word, such as ``pin``.
    language
        Of the lines, such as ``PyTorch``.
    before, after
        The lines, without an end of line at their end.
    why_none
        Why there are none; empty where there are.
    """

    what: str
    language: str
    before: str = ""
    after: str = ""
    why_none: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong or could be better.

    Attributes
    ----------
    kind
        Stable identifier, such as ``trained-down`` or ``far-numa``; docs/cases.md#diagnoses lists
        those of measured paths.
    sentence
        What it is, in plain words, with the parts named.
    evidence
        What shows it, a line each: numbers, or names of experiments.
    confirm
        Shell command that confirms it.
    remedy
        What to do; empty where it is only to be known.
    parts
        The parts of the machine at fault or affected, such as ``("g1",)``.
    fault
        Whether a part is worse than it should be, so that a check fails; otherwise
        it is how this machine is built, and to be counted on.
    effect
        How large the difference is, as a share: of findings of one kind the largest comes first.
    gain_seconds
        Predicted: by how much what was watched would shrink, with its interval; None where nothing
        predicts it.
    basis
        How the gain was predicted, or why it was not.
    conditions
        What must hold for the remedy to be right, and to gain this.
    code
        The remedy in the program's language; empty where it is not in the program.
    """

    kind: str
    sentence: str
    evidence: tuple[str, ...]
    confirm: str
    remedy: str = ""
    parts: tuple[str, ...] = ()
    fault: bool = False
    effect: float = 0.0
    gain_seconds: Estimate | None = None
    basis: str = ""
    conditions: tuple[str, ...] = ()
    code: tuple[Snippet, ...] = ()
