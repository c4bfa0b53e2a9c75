"""lanescope's codecs beside nvCOMP's on one GPU: the same data, in turns, by CUDA events.

    python benchmarks/compress/nvcomp_side_by_side.py --out FILE.json [--size 256MiB] [--turns 9]

Needs PyTorch with CUDA and ``pip install 'lanescope[nvcomp]'``. A turn compresses and decompresses
each kind of data once with each of both; times are from before the call to after it as the GPU
sees them, so that what a library does on the host counts. lanescope allocates its stream each
time; nvCOMP is also measured with memory of an earlier stream given to it (``nvcomp-reuse``), and
its codec as one of lanescope's streams (``in-streams``).
Every array is compared bit by bit once.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lanescope
from lanescope.compression.stream import describe
from lanescope.errors import InputError
from lanescope.examples.lu import load_torch
from lanescope.units.sizes import bandwidth_gbs, parse_size

Call = Callable[[], Any]
_SEED = 1
#: For each type of values nvCOMP's algorithm, its name of what it codes, and PyTorch's of the
#: same bits: it has no bfloat16, whose exponents it finds in the upper byte as those of float16,
#: and codes fp64 as integers.
_BY_DTYPE = {
    "bfloat16": ("ANS", "<f2", "float16"),
    "float16": ("ANS", "<f2", "float16"),
    "float32": ("ANS", "<f4", "float32"),
    "float64": ("Bitcomp", "<u8", "int64"),
}
_CHUNK_BYTES = 64 << 10


def data(torch: Any, size: int, gpu: int) -> Iterator[tuple[str, Any]]:
    """Yield arrays of about so many bytes with their names."""
    random = torch.Generator(f"cuda:{gpu}").manual_seed(_SEED)

    def normal(values: int) -> Any:
        return torch.randn(values, generator=random, device=f"cuda:{gpu}")

    def noise(values: int) -> Any:
        return normal(values).double() * 1e-6

    yield "bf16 N(0, 0.02)", (normal(size // 2) * 0.02).bfloat16()
    yield "fp16 ReLU(N(0, 1))", normal(size // 2).relu().half()
    yield "fp32 N(0, 1)", normal(size // 4)
    place = torch.arange(size // 4, device=f"cuda:{gpu}").double() * 1e-4
    yield "fp32 sine", place.sin().float()
    place = place[: size // 8]
    yield "fp64 sine + 1e-6 noise", place.sin() + noise(size // 8)
    yield "fp64 sine", place.sin()
    bits = torch.randint(
        -(2**31), 2**31, (size // 4,), generator=random, device=f"cuda:{gpu}", dtype=torch.int32
    )
    yield "fp32 random bits", bits.view(torch.float32)
    yield "fp32 constant", torch.full((size // 4,), 1.25, device=f"cuda:{gpu}")


def load_nvcomp() -> Any:
    """Return the module.

    Raises
    ------
    InputError
        If it is not installed, or cannot be loaded.
    """
    try:
        from nvidia import nvcomp
    except ImportError as error:
        raise InputError(
            f"nvCOMP cannot be loaded ({error}); install it with pip install 'lanescope[nvcomp]'"
        ) from error
    return nvcomp


class NvcompCodec:
    """Compresses tensors of one type and size in a GPU's memory, in the order of one stream.

    Parameters
    ----------
    like
        A PyTorch tensor on a GPU, of bf16, fp16, fp32 or fp64, contiguous; its values do not
        matter.
    stream
        A CUDA stream's handle as an integer, and none of the default ones, whose handles nvCOMP
        may take for none.

    Raises
    ------
    InputError
        If nvCOMP is not installed or has no algorithm for such values.
    """

    def __init__(self, like: Any, stream: int) -> None:
        dtype = str(like.dtype).removeprefix("torch.")
        if dtype not in _BY_DTYPE:
            raise InputError(
                f"nvCOMP is not used for {dtype} here; give one of {', '.join(_BY_DTYPE)}"
            )
        if like.nbytes == 0:
            raise InputError("nvCOMP compresses no array without values; give a larger one")
        self._nvcomp = load_nvcomp()
        self.algorithm, data_type, self._same_bits = _BY_DTYPE[dtype]
        self._stream, self._bytes = stream, like.nbytes
        self._codec = self._nvcomp.Codec(
            algorithm=self.algorithm,
            data_type=data_type,
            uncomp_chunk_size=_CHUNK_BYTES,
            bitstream_kind=self._nvcomp.BitstreamKind.NVCOMP_NATIVE,
            device_id=like.device.index,
            cuda_stream=stream,
        )
        # made from the size alone, so that decoding does not wait to read a stream's header
        self._compressing = self._codec.compression_config(like.nbytes)
        self._decompressing = self._codec.decompression_config(self._compressing)

    def encode(self, tensor: Any, out: Any = None) -> Any:
        """Return the compressed tensor as nvCOMP's array, `buffer_size` bytes on the GPU.

        `out`, one that this codec returned before, gives its memory.
        """
        self._require_size(tensor)
        source = self._nvcomp.as_array(self._viewed(tensor), cuda_stream=self._stream)
        return self._codec.encode(source, out=out, compression_config=self._compressing)

    def decode(self, coded: Any, out: Any) -> None:
        """Put the values of what `encode` returned into a tensor of the same type and size."""
        self._require_size(out)
        room = out.view(-1).view(_torch().uint8)
        self._codec.decode(coded, out=room, decompression_config=self._decompressing)

    def _require_size(self, tensor: Any) -> None:
        if tensor.nbytes != self._bytes:
            raise InputError(
                f"this nvCOMP codec is for {self._bytes} bytes, not {tensor.nbytes}; make another"
            )

    def _viewed(self, tensor: Any) -> Any:
        return tensor.view(-1).view(getattr(_torch(), self._same_bits))


def _torch() -> Any:
    import torch

    return torch


class Ours:
    """lanescope, by its functions, and by a codec that it chooses unless one is named."""

    def __init__(self, values: Any, codec: str = "auto") -> None:
        self.values, self.out = values, values.clone().zero_()
        # The codec is chosen once, as nvCOMP's is; choosing looks at some blocks on the host.
        chosen = describe(lanescope.compress(values, codec))
        self.codec, self.dimensionality = chosen.codec, chosen.dimensionality
        self.encode()

    def encode(self) -> None:
        self.stream = lanescope.compress(
            self.values, self.codec, dimensionality=self.dimensionality
        )

    def decode(self) -> None:
        lanescope.decompress(self.stream, out=self.out)

    @property
    def about(self) -> dict[str, Any]:
        info = describe(self.stream.cpu().numpy())
        return {"codec": str(info.codec), "stored_bytes": info.stored_bytes}


class Theirs:
    """nvCOMP, by its Python interface."""

    def __init__(self, values: Any, stream: int, *, reuse: bool) -> None:
        self.values, self.out = values, values.clone().zero_()
        self.codec, self.reuse = NvcompCodec(values, stream), reuse
        self.coded: Any = None
        self.encode()

    def encode(self) -> None:
        self.coded = self.codec.encode(self.values, self.coded if self.reuse else None)

    def decode(self) -> None:
        self.codec.decode(self.coded, self.out)

    @property
    def about(self) -> dict[str, Any]:
        return {"codec": self.codec.algorithm, "stored_bytes": int(self.coded.buffer_size)}


def seconds(torch: Any, call: Call) -> float:
    """What a call takes on the current stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3


def same_bits(torch: Any, one: Any, other: Any) -> bool:
    return bool(torch.equal(one.view(torch.uint8), other.view(torch.uint8)))


def measured(torch: Any, name: str, values: Any, turns: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each library."""
    stream = torch.cuda.current_stream().cuda_stream
    sides = {
        "lanescope": Ours(values),
        "nvcomp": Theirs(values, stream, reuse=False),
        "nvcomp-reuse": Theirs(values, stream, reuse=True),
        "in-streams": Ours(values, NvcompCodec(values, stream).algorithm.lower()),
    }
    times: dict[str, tuple[list[float], list[float]]] = {side: ([], []) for side in sides}
    for turn in range(turns + 1):
        for side, codec in sides.items():
            both = seconds(torch, codec.encode), seconds(torch, codec.decode)
            if turn:  # the first one warms up
                for kept, one in zip(times[side], both, strict=True):
                    kept.append(one)
    for side, codec in sides.items():
        if not same_bits(torch, codec.out, values):
            raise SystemExit(f"{side} did not bring back {name} bit by bit")
        about = codec.about
        yield {
            "data": name,
            "library": side,
            "bytes": values.nbytes,
            **about,
            "ratio": values.nbytes / about["stored_bytes"],
            "compress_seconds": times[side][0],
            "decompress_seconds": times[side][1],
        }


def speed(size: int, samples: list[float]) -> str:
    """Median, slowest and fastest in GB/s."""
    low, middle, high = (
        bandwidth_gbs(size, s) for s in (max(samples), statistics.median(samples), min(samples))
    )
    return f"{middle:8.1f} ({low:.1f}–{high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", default="256MiB")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--gpu", type=int, default=0)
    asked = parser.parse_args()
    try:
        torch, nvcomp = load_torch(asked.gpu + 1), load_nvcomp()
        size = parse_size(asked.size)
    except InputError as error:
        raise SystemExit(str(error)) from error
    rows = []
    torch.cuda.set_device(asked.gpu)
    with torch.cuda.stream(torch.cuda.Stream(asked.gpu)):
        for name, values in data(torch, size, asked.gpu):
            for row in measured(torch, name, values, asked.turns):
                rows.append(row)
                print(
                    f"{name:24} {row['library']:13} {row['codec']:9} {row['ratio']:7.3f}  "
                    f"in {speed(row['bytes'], row['compress_seconds'])}  "
                    f"out {speed(row['bytes'], row['decompress_seconds'])}",
                    flush=True,
                )
    told = {
        "schema": 1,
        "lanescope": lanescope.__version__,
        "nvcomp": nvcomp.__version__,
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(asked.gpu),
        "rows": rows,
    }
    asked.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
