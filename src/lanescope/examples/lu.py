"""LU factors of a matrix on two GPUs as an example: panels as they are and compressed, in turns."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from lanescope.errors import InputError
from lanescope.examples.blocked_lu import (
    Dealt,
    Linear,
    NumpyLinear,
    Send,
    columns_of,
    factor,
)

_MATRICES = ("smooth", "random")
_COMPRESSIONS = ("auto", "on", "off")
_LINKS = ("peer", "host")
#: Of the norm of the matrix. Rounding leaves about 1e-15.
_MOST_RESIDUAL = 1e-12
_SEED = 1


@dataclass(frozen=True, slots=True)
class Turn:
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
    from lanescope.codec.atomic import writing_to

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
    from lanescope.examples.blocked_lu import Timed

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
    from lanescope.examples.blocked_lu import Channels, Parcels, load_torch, raw_copies

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
    from lanescope.examples.blocked_lu import Timed, TorchLinear, waiting_for

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


def _turn(method: str, dealt: Dealt, linear: Linear, send: Any, wait: Callable[[], None]) -> Turn:
    wait()
    begin = time.perf_counter()
    factor(dealt, linear, send)
    wait()
    return Turn(method, time.perf_counter() - begin, send.seconds, send.bytes, send.count)


def _summary(turn: Turn) -> dict[str, Any]:
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
