"""lanescope's codecs for Zarr's format 3, as what turns chunks into bytes: ``serializer=``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
from zarr.abc.codec import ArrayBytesCodec

from lanescope.calls import checked, shown
from lanescope.compression.codec import decompress
from lanescope.compression.files import require_host_codec
from lanescope.compression.numcodecs_codec import coded
from lanescope.errors import InputError

NAME = "lanescope"


@dataclass(frozen=True)
@checked
class LanescopeCodec(ArrayBytesCodec):  # type: ignore[misc]  # Zarr is there only where it is
    """Compresses chunks without loss, on the host; a chunk that became another one is refused.

    Attributes
    ----------
    codec
        As of `lanescope.compress`, those that need no GPU; ``auto`` chooses for each chunk.
    """

    is_fixed_size = False

    codec: str = "auto"

    def __post_init__(self) -> None:
        require_host_codec(self.codec)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LanescopeCodec:
        """Return the codec that an array's metadata names; raises `InputError` on what is new."""
        configuration = data.get("configuration", {})
        for name in sorted(configuration.keys() - {"codec"}):
            raise InputError(
                f"the array's metadata gives codec {NAME} the field {shown(name)}, which this "
                "version does not know; read it by the one that wrote it"
            )
        return cls(**configuration)

    def to_dict(self) -> dict[str, Any]:
        """Return what an array's metadata says of it."""
        return {"name": NAME, "configuration": {"codec": self.codec}}

    def compute_encoded_size(self, size: int, spec: Any) -> int:
        """Raise, as nobody knows before."""
        raise NotImplementedError

    async def _encode_single(self, chunk_array: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._encode_sync, chunk_array, chunk_spec)

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._decode_sync, chunk_bytes, chunk_spec)

    def _encode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any:
        values = chunk_array.as_numpy_array()
        values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
        return chunk_spec.prototype.buffer.from_array_like(coded(values, self.codec))

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        dtype = chunk_spec.dtype.to_native_dtype()
        values = np.empty(chunk_spec.shape, dtype.newbyteorder("="))
        decompress(chunk_bytes.as_numpy_array(), out=values)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(values)
