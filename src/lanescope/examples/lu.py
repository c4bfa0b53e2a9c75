"""LU factors of a matrix on two GPUs as an example: panels as they are and compressed, in turns.

Its block columns lie on several devices. Right-looking, without exchange of rows, which a
diagonally dominant matrix does not need: for each block column in turn, its device factors it
below the diagonal (the panel) and sends it to the others, and each device updates the block columns
to the right that it has. The algorithm knows nothing of devices: `Linear` computes, by NumPy or by
PyTorch, and `Send` brings panels from one device to another, as they are or compressed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import typer
from numpy.typing import NDArray

from lanescope.errors import InputError

_MATRICES = ("smooth", "random")
_COMPRESSIONS = ("auto", "on", "off")
_LINKS = ("peer", "host")
#: Of the norm of the matrix. Rounding leaves about 1e-15.
_MOST_RESIDUAL = 1e-12
_SEED = 1
#: Brings a panel from one device, by number, to another, and returns it there.
Send = Callable[[Any, int, int], Any]


@dataclass(frozen=True, slots=True)
class Factoring:
    """One factoring.

    Attributes
    ----------
    method
        How panels were sent: ``raw`` or ``channel``.
    seconds, transfer_seconds
        Of all, and of sending panels, nothing else going on meanwhile.
    bytes, count
        Of all panels that were sent.
    """

    method: str
    seconds: float
    transfer_seconds: float
    bytes: int
    count: int


def lu(
    size: Annotated[
        int, typer.Option("--size", min=2, metavar="N", help="Rows and columns.")
    ] = 8192,
    block: Annotated[
        int, typer.Option(min=1, metavar="N", help="Columns of a panel; --size is a multiple.")
    ] = 512,
    matrix: Annotated[
        str, typer.Option(metavar="NAME", help="smooth (1 / (1 + distance / 64)) or random.")
    ] = "smooth",
    turns: Annotated[int, typer.Option(min=1, metavar="N", help="Of each way to send.")] = 3,
    compression: Annotated[
        str, typer.Option(metavar="HOW", help="Of the channel: auto, on or off.")
    ] = "auto",
    over: Annotated[
        str,
        typer.Option(
            "--over",
            metavar="WAY",
            help="peer: from GPU to GPU; host: offloaded, and restored.",
        ),
    ] = "peer",
    gpus: Annotated[str, typer.Option(metavar="A,B", help="Two, as CUDA numbers them.")] = "0,1",
    cpu: Annotated[
        bool, typer.Option("--cpu", help="Both parts in this host's memory; nothing compressed.")
    ] = False,
    save_panels: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep what is sent as .npy, for 'bench compress'."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every turn as JSON.")] = False,
) -> None:
    """Factor a matrix on two GPUs, panels sent as they are and over a channel, and compare."""
    _check(size, block, matrix, compression, over)
    saving = _saving(save_panels)
    try:
        made = dominant_matrix(size, matrix)
        found = (
            _on_host(made, block, turns, saving)
            if cpu
            else _on_gpus(made, block, turns, (over, compression), _two(gpus), saving)
        )
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and type(error).__name__ != "OutOfMemoryError":
            raise  # PyTorch's own, which is not to be imported for this
        raise InputError(
            f"a matrix of {size} rows does not fit into this machine's memory; give fewer"
        ) from error
    content: dict[str, Any] = {"size": size, "block": block, "matrix": matrix} | found
    if not cpu:
        content |= {"compression": compression, "over": over}
    print(json.dumps(content, indent=1) if as_json else _text(content))
    if not max(content["residual"].values()) < _MOST_RESIDUAL:  # not a number is none, either
        print("the factors are beyond what rounding explains", file=sys.stderr)
        raise typer.Exit(1)


def dominant_matrix(size: int, kind: str) -> NDArray[np.float64]:
    """Return a matrix whose diagonal is larger than the rest of each row together."""
    if kind == "random":
        made = np.random.default_rng(_SEED).uniform(-1, 1, (size, size))
    else:
        place = np.arange(size)
        made = 1 / (1 + np.abs(place[:, None] - place) / 64)
    made[np.diag_indices(size)] += 1.5 * np.abs(made).sum(axis=1)
    return made


def residual(factors: Any, matrix: Any, library: Any) -> float:
    """Return the norm of LU - A over that of A; both by NumPy or both by PyTorch."""
    upper = library.triu(factors)
    product = library.tril(factors, -1) @ upper + upper  # the ones on L's diagonal are not stored
    return float(library.linalg.norm(product - matrix) / library.linalg.norm(matrix))


def _check(size: int, block: int, matrix: str, compression: str, over: str) -> None:
    if size % block or size < 2 * block:
        raise InputError(
            f"--size {size} is no multiple of --block {block}, or only one block; give for "
            "example 8192 and 512"
        )
    for name, given, known in (
        ("--matrix", matrix, _MATRICES),
        ("--compression", compression, _COMPRESSIONS),
        ("--over", over, _LINKS),
    ):
        if given not in known:
            raise InputError(f"{name} '{given}' is none of {', '.join(known)}; give one of them")


def _two(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise InputError(f"--gpus {text!r} are not two GPUs; give for example 0,1")
    one, other = (int(part) for part in parts)
    if one == other:
        raise InputError(f"--gpus {text!r} names one GPU twice; give for example 0,1")
    return one, other


def _saving(folder: Path | None) -> Callable[[Any], None]:
    """Return what keeps a panel, those of the first turn only."""
    if folder is None:
        return lambda panel: None
    from lanescope.codec.files import writing_to

    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
    count = 0

    def keep(panel: Any) -> None:
        nonlocal count
        values = panel if isinstance(panel, np.ndarray) else panel.cpu().numpy()
        with writing_to(folder):
            np.save(folder / f"panel-{count:03}.npy", values)
        count += 1

    return keep


def _keeping(send: Send, keep: Callable[[Any], None]) -> Send:
    def sent(panel: Any, owner: int, device: int) -> Any:
        keep(panel)
        return send(panel, owner, device)

    return sent


def _on_host(
    matrix: NDArray[np.float64], block: int, turns: int, keep: Callable[[Any], None]
) -> dict[str, Any]:
    def deal() -> Dealt:
        return _dealt(matrix, block, lambda part, device: part)

    def copied(panel: Any, owner: int, device: int) -> Any:
        return np.array(panel)

    factor(deal(), NumpyLinear(), _keeping(copied, keep))
    made = []
    for _ in range(turns):
        dealt, send = deal(), Timed(copied, lambda: None)
        made.append(_turn("raw", dealt, NumpyLinear(), send, lambda: None))
    whole = _gathered(dealt, np.empty_like(matrix))
    return {
        "where": "cpu",
        "turns": [_summary(one) for one in made],
        "residual": {"raw": residual(whole, matrix, np)},
    }


def _on_gpus(
    matrix: NDArray[np.float64],
    block: int,
    turns: int,
    sending: tuple[str, str],
    gpus: tuple[int, int],
    keep: Callable[[Any], None],
) -> dict[str, Any]:
    torch = load_torch(max(gpus) + 1, ", or give --cpu")
    whole = torch.from_numpy(matrix)
    source = _dealt(whole, block, lambda part, device: part.to(f"cuda:{gpus[device]}"))
    over, compression = sending
    if over == "peer":
        with closing(Channels(gpus, compression)) as channels:
            methods = {"raw": raw_copies(gpus), "channel": channels}
            return _both_methods(torch, whole, source, gpus, turns, methods, keep)
    with closing(Parcels(gpus, "off")) as raw, closing(Parcels(gpus, compression)) as parcels:
        methods = {"raw": raw, "channel": parcels}
        return _both_methods(torch, whole, source, gpus, turns, methods, keep)


def _both_methods(
    torch: Any,
    whole: Any,
    source: Dealt,
    gpus: tuple[int, int],
    turns: int,
    methods: dict[str, Any],
    keep: Callable[[Any], None],
) -> dict[str, Any]:
    linear, wait = TorchLinear(torch), waiting_for(torch, gpus)
    # once each before anything is timed: libraries load, memory is taken, the rule learns
    factor(_copied(source), linear, _keeping(methods["raw"], keep))
    factor(_copied(source), linear, methods["channel"])
    made, ended = [], {}
    for _ in range(turns):
        for method, send in methods.items():
            ended[method] = _copied(source)
            made.append(_turn(method, ended[method], linear, Timed(send, wait), wait))
    first = torch.device(f"cuda:{gpus[0]}")
    on_gpu = whole.to(first)
    found = {}
    for method, dealt in ended.items():
        found[method] = residual(_gathered(dealt, torch.empty_like(on_gpu)), on_gpu, torch)
    pairs = zip(ended["raw"].parts, ended["channel"].parts, strict=True)
    return {
        "where": [torch.cuda.get_device_name(gpu) for gpu in gpus],
        "turns": [_summary(one) for one in made],
        "residual": found,
        "same_bits": all(bool(torch.equal(one, other)) for one, other in pairs),
        "ratio": methods["channel"].ratio(),
    }


def _dealt(whole: Any, block: int, place: Callable[[Any, int], Any]) -> Dealt:
    """Deal a matrix to two devices; `place` brings a copied part to its device."""
    parts = []
    for device in (0, 1):
        columns = np.r_[tuple(columns_of(device, 2, len(whole), block))]
        parts.append(place(whole[:, columns], device))
    return Dealt(len(whole), block, parts)


def _copied(source: Dealt) -> Dealt:
    return Dealt(source.rows, source.block, [part.clone() for part in source.parts])


def _gathered(dealt: Dealt, whole: Any) -> Any:
    """Put the block columns of all devices into `whole`, side by side, and return it."""
    for device, part in enumerate(dealt.parts):
        for number, columns in enumerate(columns_of(device, 2, dealt.rows, dealt.block)):
            begin = number * dealt.block
            whole[:, columns] = part[:, begin : begin + dealt.block]
    return whole


def _turn(
    method: str, dealt: Dealt, linear: Linear, send: Any, wait: Callable[[], None]
) -> Factoring:
    wait()
    begin = time.perf_counter()
    factor(dealt, linear, send)
    wait()
    return Factoring(method, time.perf_counter() - begin, send.seconds, send.bytes, send.count)


def _summary(turn: Factoring) -> dict[str, Any]:
    return {
        "way": turn.method,
        "seconds": turn.seconds,
        "transfer_seconds": turn.transfer_seconds,
        "bytes": turn.bytes,
        "transfers": turn.count,
    }


def _text(content: dict[str, Any]) -> str:
    from lanescope.report.format import bytes_text, seconds_text

    where = (
        content["where"] if isinstance(content["where"], str) else " and ".join(content["where"])
    )
    lines = [
        f"LU of {content['size']} rows in blocks of {content['block']} ({content['matrix']}), "
        f"{where}"
    ]
    for method in dict.fromkeys(one["way"] for one in content["turns"]):
        those = [one for one in content["turns"] if one["way"] == method]
        all_of, sending = ([one[key] for one in those] for key in ("seconds", "transfer_seconds"))
        lines.append(
            f"{method:>8}: {seconds_text(float(np.median(all_of)))} "
            f"({seconds_text(min(all_of))} to {seconds_text(max(all_of))}), of which sending "
            f"{those[0]['transfers']} panels, {bytes_text(those[0]['bytes'])}, took "
            f"{seconds_text(float(np.median(sending)))} "
            f"({seconds_text(min(sending))} to {seconds_text(max(sending))}); residual "
            f"{content['residual'][method]:.1e}"
        )
    if "same_bits" in content:
        same = "the same bits" if content["same_bits"] else "not the same bits"
        ratio = f", ratio {content['ratio']:.3g}" if content["ratio"] else ""
        lines.append(f"both ways led to {same}{ratio}; times: median of turns (least to most)")
    return "\n".join(lines)


class Linear(Protocol):
    """What the algorithm computes with matrices of one library, where they lie."""

    def factor(self, block: Any) -> Any:
        """Return L and U of a square block in one matrix, without exchange of rows."""

    def solve_lower(self, block: Any, right: Any) -> Any:
        """Return X with L X = `right`, L the lower part of `block` with ones on its diagonal."""

    def solve_upper(self, block: Any, left: Any) -> Any:
        """Return X with X U = `left`, U the upper part of `block`."""

    def in_one_piece(self, panel: Any) -> Any:
        """Return a panel that lies in memory without gaps, row by row."""


@dataclass(frozen=True, slots=True)
class Dealt:
    """A square matrix, its block columns dealt in turns.

    Attributes
    ----------
    rows
        Of the matrix; a multiple of `block`.
    block
        Columns of a block column.
    parts
        For each device its block columns, side by side: shape (rows, columns there).
    """

    rows: int
    block: int
    parts: Sequence[Any]

    @property
    def blocks(self) -> int:
        """Block columns of the matrix."""
        return self.rows // self.block

    def place(self, number: int) -> tuple[int, int]:
        """Return a block column's device, and its first column there."""
        devices = len(self.parts)
        return number % devices, number // devices * self.block

    def first_after(self, number: int, device: int) -> int:
        """Return the first column on a device of the block columns after one."""
        devices = len(self.parts)
        before = (number + devices - device) // devices
        return before * self.block


def columns_of(device: int, devices: int, rows: int, block: int) -> Iterator[slice]:
    """Yield the columns of the whole matrix that a device has, block column by block column."""
    for number in range(device, rows // block, devices):
        yield slice(number * block, (number + 1) * block)


def factor(matrix: Dealt, linear: Linear, send: Send) -> None:
    """Put the factors L and U in place of a matrix; the ones on L's diagonal are not stored."""
    block = matrix.block
    for number in range(matrix.blocks):
        owner, column = matrix.place(number)
        top = number * block
        panel = matrix.parts[owner][top:, column : column + block]
        panel[:block] = linear.factor(panel[:block])
        panel[block:] = linear.solve_upper(panel[:block], panel[block:])
        if number == matrix.blocks - 1:
            return
        whole = linear.in_one_piece(panel)
        for device, part in enumerate(matrix.parts):
            first = matrix.first_after(number, device)
            if first < part.shape[1]:
                there = whole if device == owner else send(whole, owner, device)
                _update(part[top:, first:], there, block, linear)


def _update(right: Any, panel: Any, block: int, linear: Linear) -> None:
    """Update what lies to the right of a panel, from the panel's first row on."""
    right[:block] = linear.solve_lower(panel[:block], right[:block])
    right[block:] -= panel[block:] @ right[:block]


class NumpyLinear:
    """By NumPy and SciPy, in the host's memory: the reference."""

    def factor(self, block: Any) -> Any:
        """Return L and U, column by column."""
        made = np.array(block)
        for column in range(len(made) - 1):
            made[column + 1 :, column] /= made[column, column]
            below, right = made[column + 1 :, column], made[column, column + 1 :]
            made[column + 1 :, column + 1 :] -= np.outer(below, right)
        return made

    def solve_lower(self, block: Any, right: Any) -> Any:
        """Return X with L X = `right`."""
        from scipy.linalg import solve_triangular

        return solve_triangular(block, right, lower=True, unit_diagonal=True)

    def solve_upper(self, block: Any, left: Any) -> Any:
        """Return X with X U = `left`."""
        from scipy.linalg import solve_triangular

        return solve_triangular(block, left.T, trans="T").T

    def in_one_piece(self, panel: Any) -> Any:
        """Return it in C order."""
        return np.ascontiguousarray(panel)


def load_torch(gpus: int, instead: str = "") -> Any:
    """Return PyTorch, if it sees so many GPUs; `instead` ends the sentence that tells otherwise.

    Raises
    ------
    InputError
        If it is not installed, or sees fewer.
    """
    try:
        import torch
    except ImportError as error:
        raise InputError(
            f"PyTorch cannot be loaded ({error}); install it with CUDA{instead}"
        ) from error
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found < gpus:
        raise InputError(
            f"{gpus} GPUs are needed and PyTorch sees {found}; use a machine that has them{instead}"
        )
    return torch


class TorchLinear:
    """By PyTorch, on the GPU that the matrices are on."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def factor(self, block: Any) -> Any:
        """Return L and U."""
        return self._torch.linalg.lu_factor(block, pivot=False)[0]

    def solve_lower(self, block: Any, right: Any) -> Any:
        """Return X with L X = `right`."""
        lower = self._torch.tril(block, -1)
        return self._torch.linalg.solve_triangular(lower, right, upper=False, unitriangular=True)

    def solve_upper(self, block: Any, left: Any) -> Any:
        """Return X with X U = `left`."""
        upper = self._torch.triu(block)
        return self._torch.linalg.solve_triangular(upper, left, upper=True, left=False)

    def in_one_piece(self, panel: Any) -> Any:
        """Return it contiguous."""
        return panel.contiguous()


class Timed:
    """Sends by something else, waits for both ends before and after, and adds up the time.

    Attributes
    ----------
    seconds, bytes, count
        Of all panels so far.
    """

    def __init__(self, send: Send, wait: Callable[[], None]) -> None:
        self._send, self._wait = send, wait
        self.seconds, self.bytes, self.count = 0.0, 0, 0

    def __call__(self, panel: Any, owner: int, device: int) -> Any:
        """Send one panel."""
        self._wait()
        begin = time.perf_counter()
        there = self._send(panel, owner, device)
        self._wait()
        self.seconds += time.perf_counter() - begin
        self.bytes += panel.nbytes
        self.count += 1
        return there


def waiting_for(torch: Any, gpus: Sequence[int]) -> Callable[[], None]:
    """Return what waits for all work on some GPUs."""

    def wait() -> None:
        for gpu in gpus:
            torch.cuda.synchronize(gpu)

    return wait


def raw_copies(gpus: Sequence[int]) -> Send:
    """Return what sends panels by PyTorch's own copies."""
    return lambda panel, owner, device: panel.to(f"cuda:{gpus[device]}")


class _Sending:
    """What sends panels by channels."""

    def __init__(self, channels: Iterable[Any]) -> None:
        self._all = list(channels)

    def ratio(self) -> float | None:
        """Return bytes of panels over those that crossed the links, as far as it is known."""
        records = [one for channel in self._all for one in channel.log]
        outcomes = [one.outcome for one in records if one.outcome is not None]
        wire = sum(one.wire_bytes for one in outcomes)
        return sum(one.raw_bytes for one in outcomes) / wire if wire else None

    def close(self) -> None:
        """Give back what the channels hold."""
        for channel in self._all:
            channel.close()


class Channels(_Sending):
    """Sends panels over a channel for each pair of GPUs and direction."""

    def __init__(self, gpus: Sequence[int], compression: str) -> None:
        import lanescope

        pairs = [(a, b) for a in range(len(gpus)) for b in range(len(gpus)) if a != b]
        self._of = {
            (a, b): lanescope.Channel(gpus[a], gpus[b], compression=compression, via="peer")
            for a, b in pairs
        }
        super().__init__(self._of.values())

    def __call__(self, panel: Any, owner: int, device: int) -> Any:
        """Send one panel."""
        return self._of[owner, device].send(panel, tag="panel")


class Parcels(_Sending):
    """Sends panels by pinned memory of the host: one GPU brings them there, the other gets them."""

    def __init__(self, gpus: Sequence[int], compression: str) -> None:
        import lanescope

        super().__init__(lanescope.Channel(gpu, "host", compression=compression) for gpu in gpus)

    def __call__(self, panel: Any, owner: int, device: int) -> Any:
        """Send one panel."""
        return self._all[device].restore(self._all[owner].offload(panel, tag="panel"))
