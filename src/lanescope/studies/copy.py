"""``copy``: any copies at the same time."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.copies.copy import DEFAULT_BYTES
from lanescope.copies.experiment import between_processes, experiment_of
from lanescope.copies.grammar import names_nodes, parse_copies
from lanescope.copies.kernel_shapes import sm_shapes
from lanescope.copies.requirements import require_room
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.studies import Option, size_option
from lanescope.studies.study import Argument, Study, Work
from lanescope.units.sizes import Size, size_of
from lanescope.units.values import Value, quoted


def _joined(words: Sequence[str]) -> str:
    """Return the words of a command line as one text; refuse some that the shell has changed.

    Of ``h0 -> g0`` without quotation marks ``h0 -`` is left, and our output is the file ``g0``.

    Raises
    ------
    InputError
        If a word ends with half an arrow, or is blank, as an empty variable of the shell is.
    """
    if len(words) > 1 and not all(word.strip() for word in words):
        raise InputError("one of the words that name copies is blank; leave it out")
    if not any(word.endswith(("-", "=")) for word in words):
        return " ".join(words)
    written = ""
    with suppress(OSError, AttributeError, ValueError):  # no output, or none that is a file
        if stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
            file = Path(os.readlink(f"/proc/self/fd/{sys.stdout.fileno()}")).name
            written = f" and made the file {quoted(file)}, which you may delete"
    raise InputError(
        f"the shell took '>' for a redirection{written}; put the copies into quotation marks, as "
        "in 'h0 -> g0', or write h0 to g0"
    )


@dataclass(frozen=True, slots=True)
@checked
class Copies(Study):
    """Measure copies that run at the same time, each and in sum, against what links allow.

    A copy is 'FROM -> TO', or FROM to TO, with options: a size (64MiB), an engine (@ce,
    @sm:16 for a kernel on 16 SMs, @cpu:4 for host threads), 'by g1' for who does it, 'on 0-3' for
    CPUs. h0.pageable names a kind of memory, '<->' copies both ways, '3x h0 -> g0'
    three times at once. Started by MPI, n1.g3 is GPU 3 of the second node.

    Attributes
    ----------
    copies
        Such as ``h0 -> g0 @ce, g1 -> h0 @sm:16``; see `lanescope.copies.grammar`.
    size_bytes
        Size of a copy that names none.
    processes
        Whether a process for each GPU copies, which share memory of their GPUs.
    """

    verb: ClassVar[str] = "copy"
    title: ClassVar[str] = "Copy"
    of_what: ClassVar[str] = ""
    takes_samples: ClassVar[bool] = True

    copies: Annotated[
        str,
        Argument(
            "COPIES",
            "Such as 'h0 -> g0 @ce, g1 -> h0 @sm:16 64MiB, g0 <-> g1', in quotation marks; or "
            "without them h0 to g0.",
            _joined,
        ),
    ]
    size_bytes: Annotated[Size, size_option("Bytes of a copy that names none.", "512MiB")] = (
        DEFAULT_BYTES
    )
    processes: Annotated[
        bool,
        Option(
            Value("--processes"),
            "A process for each GPU copies; they share memory of their GPUs. Of a copy within a "
            "GPU the destination is another process'.",
        ),
    ] = False

    def names_nodes(self) -> bool:
        """Whether the copies name nodes."""
        return names_nodes(self.copies)

    def work(self, machine: Machine) -> Work:
        """Return the copies as one experiment; nothing is allocated where they make no sense."""
        experiment = experiment_of(parse_copies(self.copies, machine, size_of(self.size_bytes)))
        if self.processes or self.names_nodes():
            experiment = between_processes(experiment)
        sm_shapes(experiment.copies, machine)
        require_room(machine, experiment)
        return Work([experiment])
