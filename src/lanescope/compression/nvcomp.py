"""NVIDIA's nvCOMP, where it is installed: the library behind the codecs ``ans`` and ``bitcomp``.

It is proprietary, and an optional extra (``pip install 'lanescope[nvcomp]'``). `NvcompCodec` is its
own interface for Python, with streams of its own, to be measured beside lanescope's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lanescope._core import native
from lanescope.compression.stream import Codec
from lanescope.errors import InputError

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
#: Other major versions have other functions, and code otherwise.
_NAME = "libnvcomp.so.6"
_PACKAGE = "nvidia.libnvcomp"
_FOLDERS = ("lib64", "lib")


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


def nvcomp_for(codec: str) -> native.Nvcomp | None:
    """Return nvCOMP for a codec that needs it, None for others.

    Raises
    ------
    InputError
        If it is needed and not installed.
    """
    if not Codec(codec).by_nvcomp:
        return None
    try:
        return open_nvcomp()
    except native.NativeError as error:
        raise InputError(
            f"codec {codec} needs a GPU and nvCOMP: pip install 'lanescope[nvcomp]' "
            f"({error.args[3]})"
        ) from error


def there_is_nvcomp() -> bool:
    """Return whether it is installed, and can be opened."""
    try:
        open_nvcomp()
    except native.NativeError:
        return False
    return True


@cache
def open_nvcomp() -> native.Nvcomp:
    """Return nvCOMP from its Python package, else what the loader finds.

    Raises
    ------
    NativeError
        If there is none, or one of another major version.
    """
    return native.Nvcomp(str(next(_installed(), _NAME)))


def _installed() -> Iterator[Path]:
    try:
        package = find_spec(_PACKAGE)
    except ModuleNotFoundError:  # of what it would lie in
        return
    for folder in (package.submodule_search_locations or ()) if package else ():
        paths = (Path(folder, name, _NAME) for name in _FOLDERS)
        yield from (path for path in paths if path.is_file())
