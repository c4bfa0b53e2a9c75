"""Metrics as text, as node_exporter's collector of text files reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

#: Labels and value.
Sample = tuple[dict[str, str], float]


def metric(name: str, about: str, samples: Iterable[Sample], kind: str = "gauge") -> Iterator[str]:
    """Yield the lines of a gauge or a counter; none where it has no samples.

    Parameters
    ----------
    name
        What follows ``lanescope_``; with the base unit at its end.
    """
    lines = [f"lanescope_{name}{_labels(labels)} {_number(value)}\n" for labels, value in samples]
    if lines:
        yield f"# HELP lanescope_{name} {about}\n# TYPE lanescope_{name} {kind}\n"
        yield from lines


def unique(samples: Iterable[Sample]) -> list[Sample]:
    """Of samples with the same labels the first: a file with two of them is refused whole."""
    found: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in samples:
        found.setdefault(tuple(labels.items()), value)
    return [(dict(labels), value) for labels, value in found.items()]


def _number(value: float) -> str:
    """Whole numbers to the last digit: counters of bytes have more than ten."""
    return f"{value:.0f}" if value == int(value) else f"{value:.10g}"


def _labels(labels: dict[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
