"""Parts of the core that only tests reach."""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

import lanescope._native


def gate_opens_when_body_throws() -> bool: ...

def throw_behind_gate(device: int) -> None: ...

def gate_opens_late(patience_s: float, wait_s: float) -> bool: ...

def peer_access_survives_throw(device: int, peer: int) -> bool: ...

def pattern_word(seed: int, index: int) -> int: ...

def mismatches_after_flip(bytes: int, flipped: int) -> int: ...

def ring_pointers(bytes: int, stride: int, random: bool) -> list[int]: ...

def ring_visits(bytes: int, stride: int, random: bool) -> list[int]: ...

def block_offsets(pattern: lanescope._native.BlockPattern, blocks: int, step: int, count: int) -> list[int]: ...

def chunk_steps(chunks: int, ways: int, repeats: int, loops: int) -> list[tuple[int, int]]: ...

def kernel_results(operation: lanescope._native.Operation, streaming: bool, count: int) -> list[float]: ...

def huge_bytes(topology: lanescope._native.Topology, bytes: int, small: bool) -> int: ...

def can_flush_caches() -> bool: ...

def untouched_bytes(pattern: lanescope._native.BlockPattern, repetitions: int, block_bytes: int, span_bytes: int) -> list[tuple[int, int]]: ...

def piece_stride(piece_bytes: int) -> int: ...

def wrong_after_copy(piece_bytes: int, pieces: int, threads: int, source_shift: int, destination_shift: int) -> int: ...

def wrong_after_write(piece_bytes: int, pieces: int, threads: int, flipped: int) -> int: ...

def wrong_sums(piece_bytes: int, pieces: int, flipped: int) -> int: ...

class RangeArena:
    def __init__(self) -> None: ...

    def add_piece(self, bytes: int) -> int: ...

    def take(self, bytes: int) -> tuple[int, int, int] | None: ...

    def give(self, range: tuple[int, int, int]) -> None: ...

    def keep_front(self, range: tuple[int, int, int], bytes: int) -> tuple[int, int, int]: ...

    def drop_free_piece(self, most: int = 18446744073709551615) -> int | None: ...

    @property
    def bytes(self) -> int: ...

    @property
    def free_bytes(self) -> int: ...

def cut_slabs(bytes: int, slab_bytes: int) -> list[tuple[int, int, int, int]]: ...

def own_seconds(lasted: float, with_before: float, with_next: float) -> float: ...

def payload_pieces(payloads: Sequence[tuple[int, int]], used: int, slab_blocks: int) -> tuple[list[tuple[int, int, int]], list[int]]:
    """
    Pieces (begin, carried end, end) of payloads (offset, bytes), and rebased offsets.
    """

def with_memory_policy(topology: lanescope._native.Topology, node: int, body: Callable[[], object]) -> object:
    """Calls `body` while new pages of this thread come from one node."""

def with_binding(topology: lanescope._native.Topology, cpus: Sequence[int], body: Callable[[], object]) -> object:
    """Calls `body` while this thread is bound to CPUs."""

def run_grid_columns(kernel: lanescope._native.GridKernel, equation: lanescope._native.EquationOfState, inputs: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)]], outputs: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')]], pressure: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, deepest: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, parts: int = 1) -> None:
    """
    Runs on the host what a GPU's threads do for columns, so many parts of the levels after each other; no convolution.
    """

def run_grid_kernel_on_gpu(kernel: lanescope._native.GridKernel, equation: lanescope._native.EquationOfState, inputs: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)]], outputs: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')]], pressure: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, deepest: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, columns: bool = True, parts: int = 1, mapped: bool = False, device: int = 0) -> None:
    """
    Copies the arrays there, launches the kernel so many times, each for some of the levels, and copies the outputs back.
    """

def told_time(told_ns: int, stepped_ns: int, now_ns: int) -> int:
    """As the time of watches."""

class CounterStream:
    """Makes records of samples."""

    def __init__(self, interval_ns: int, drops_first: bool) -> None: ...

    def add(self, start_ns: int, end_ns: int, rx_bytes: float, tx_bytes: float, own: bool = False) -> None: ...

    def begin_again(self) -> None: ...

    def take(self) -> list[tuple[int, int, int]]: ...

    def counts(self) -> tuple[int, int, int, int]:
        """Samples, lost ones, gaps, repeated ones."""

class SampleFormula:
    """Values of samples, from their bytes."""

    def __init__(self, bytes: int, values: int) -> None: ...

    def run(self, samples: bytes, values: Sequence[Sequence[float]]) -> tuple[int, int]:
        """
        Look up samples in turn: how many were evaluated, and how many found wrongly.
        """

    def doubt(self) -> None: ...

    def contradictions(self) -> int: ...

    def work(self) -> int:
        """How many numbers were multiplied to learn."""

    def report(self) -> tuple[str, int, int, int, int]:
        """State, bytes of a sample, rows, columns, times that all was forgotten."""

class OwnTraffic:
    """When a sampler used its link."""

    def __init__(self) -> None: ...

    def add(self, begin_ns: int, end_ns: int) -> None: ...

    def during(self, start_ns: int, end_ns: int) -> bool: ...

class SamplingLoad:
    """Decides how often can be sampled."""

    def __init__(self, interval_ns: int, period_ns: int, buffered: int) -> None: ...

    def add(self, sampled_ns: int, decoded: tuple[int, int], evaluated: tuple[int, int], overflowed: bool = False, samples: int = 0, lost: int = 0, gaps: int = 0, learning_ns: int = 0) -> int:
        """The interval that is to be. Work: samples and ns that they took."""

    def begin_again(self, interval_ns: int, samples: int = 0, lost: int = 0, gaps: int = 0) -> None: ...

    @property
    def settled(self) -> bool: ...

class WrappingCounter:
    """Follows a counter of 32 bits."""

    def __init__(self, most_per_second: float) -> None: ...

    def advance(self, value: int, elapsed_ns: int) -> int | None: ...

class GrowingCounter:
    """Follows a counter of 64 bits."""

    def __init__(self) -> None: ...

    def advance(self, value: int) -> int | None: ...

class SpoolFile:
    """A file of records that grows."""

    def __init__(self, path: str, header: str) -> None: ...

    def write(self, records: Sequence[tuple[int, int, int]]) -> bool: ...

    def failure(self) -> str | None: ...

class ProgrammedRounds:
    """Rounds of a probe whose copies take `times_ns`."""

    def __init__(self, times_ns: Sequence[int], chunk_bytes: int, period_ns: int = 0, most_share: float = 1.0) -> None: ...

    def run(self) -> list[tuple[int, int, int, int]]:
        """One round: begin, delay, copy in ns, and direction of each record."""

    def copies(self) -> list[tuple[int, int]]: ...

    def next_after(self, round_ns: int) -> int: ...

def programmed_probe(times_ns: Sequence[int], fails: bool, period_ns: int, path: str, header: str) -> lanescope._native.LinkProbe:
    """
    A probe whose copies take `times_ns`; the next one never ends, or `fails`.
    """
