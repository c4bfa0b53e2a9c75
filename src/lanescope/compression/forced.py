"""Deciders that do not weigh anything: always compressed, or never."""

from __future__ import annotations

from dataclasses import dataclass

from lanescope.compression.deciding import Decision, Outcome, Transfer

#: For each type of values the codecs that may make them smaller, the likeliest first.
CODECS_BY_DTYPE = {
    "bfloat16": ("exponent", "delta"),
    "float16": ("exponent", "delta"),
    "float32": ("delta", "exponent"),
    "float64": ("delta", "gfc"),
} | dict.fromkeys(("int16", "int32", "int64", "uint16", "uint32", "uint64"), ("delta",))


def not_compressed(
    reason: str, raw_seconds: float | None = None, compressed_seconds: float | None = None
) -> Decision:
    """Return the decision to send a transfer as it is."""
    return Decision(False, "raw", 1, raw_seconds, compressed_seconds, reason)


@dataclass(frozen=True, slots=True)
class Forced:
    """Compresses all that a codec takes, or nothing, as the user asked for.

    Attributes
    ----------
    compress
        Whether to.
    codec
        Its name; None: the likeliest one for the type of the values.
    dimensionality
        Of GFC.
    """

    compress: bool
    codec: str | None = None
    dimensionality: int = 1

    def decide(self, transfer: Transfer) -> Decision:
        """Return what was asked for; as it is what no codec takes."""
        if not self.compress:
            return not_compressed("compression is off")
        codecs = (self.codec,) if self.codec else CODECS_BY_DTYPE.get(transfer.dtype, ())
        if not codecs:
            return not_compressed(f"no codec takes {transfer.dtype}")
        return Decision(True, codecs[0], self.dimensionality, None, None, "compression is on")

    def learn(self, transfer: Transfer, decision: Decision, outcome: Outcome) -> None:
        """Learn nothing."""
