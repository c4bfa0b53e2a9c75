"""Parcels by name: read from files without a GPU, and held within a limit of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from threading import RLock
from typing import Any
from urllib.parse import quote

from lanescope.calls import checked
from lanescope.compression.pages import PageParcel
from lanescope.compression.parcel_files import read_arrays
from lanescope.compression.transfers import Parcel
from lanescope.errors import InputError
from lanescope.kinds import StrPath
from lanescope.units.sizes import Size, size_of

ENDING = ".lsp"


@checked
def read_parcel(
    source: Any,
    *,
    framework: str = "numpy",
    threads: int = 0,
    max_bytes: Size | None = None,
) -> Any:
    """Return the array, or the list of pages, of a parcel that was saved; no GPU is needed.

    Parameters
    ----------
    source
        A path, bytes, or an object with `read` or `readinto`, of which no more is read than was
        saved.
    framework
        ``numpy``, where bf16 and fp8 come as with `lanescope.decompress`, or ``torch``.
    threads
        0: as many as there are CPUs at hand, 16 at most.
    max_bytes
        Of the array or the pages: larger ones are refused before memory is taken for them.

    Raises
    ------
    InputError
        If it is none, of another version, cut off, changed or too large.
    """
    most = None if max_bytes is None else size_of(max_bytes)
    return read_arrays(source, most, framework, threads)


@checked
class ParcelCache:
    """Parcels by name, those used last, of so many stored bytes together. For several threads.

    >>> cache = ParcelCache("8GiB", folder="/scratch/kv", channel=channel)  # doctest: +SKIP
    >>> cache["prefix-17"] = channel.offload_many(cache_of_gpu, pages=[3, 17])  # doctest: +SKIP
    >>> channel.restore_many(cache["prefix-17"], out=cache_of_gpu, pages=[8, 2])  # doctest: +SKIP

    A parcel that is put in waits for the end of its offload, as its size is not known before. What
    has no more room is evicted, the one first that was used longest ago; with a folder it is saved
    there before, and comes back when it is asked for.

    Parameters
    ----------
    limit
        Of stored bytes in pinned memory, such as ``"8GiB"``. A larger parcel is refused.
    folder
        Where parcels that have no more room are saved; it grows without a limit. None: nowhere.
    channel
        One to the host, which loads them; needed with a folder.
    """

    def __init__(self, limit: Size, *, folder: StrPath | None = None, channel: Any = None) -> None:
        if folder is not None and channel is None:
            raise InputError("parcels that are saved in a folder need a channel that loads them")
        self._limit = size_of(limit)
        self._folder = None if folder is None else Path(folder)
        self._channel = channel
        self._parcels: OrderedDict[str, Parcel | PageParcel] = OrderedDict()
        self._saved: set[str] = set()
        self._bytes = 0
        self._lock = RLock()

    def __setitem__(self, name: str, parcel: Parcel | PageParcel) -> None:
        if not isinstance(name, str) or not name:
            raise InputError("a parcel's name in a cache is text, and not empty")
        size = parcel.stored_bytes
        if size > self._limit:
            raise InputError(
                f"the parcel has {size} bytes, and the cache takes {self._limit} together; give it "
                "a larger limit"
            )
        with self._lock:
            self.discard(name)
            while self._bytes + size > self._limit:
                self._evict_oldest()
            self._parcels[name] = parcel.named(name)
            self._bytes += size

    def __getitem__(self, name: str) -> Parcel | PageParcel:
        """Return a parcel, which counts as used; a `KeyError` where there is none."""
        with self._lock:
            if name in self._parcels:
                self._parcels.move_to_end(name)
                return self._parcels[name]
            if name not in self._saved:
                raise KeyError(name)
            assert self._channel is not None
            parcel: Parcel | PageParcel = self._channel.load(self._path(name))
            size = parcel.stored_bytes
            while self._parcels and self._bytes + size > self._limit:
                self._evict_oldest()
            self._parcels[name] = parcel
            self._bytes += size
            return parcel

    def get(self, name: str, default: Any = None) -> Any:
        """Return a parcel, or `default` where there is none."""
        try:
            return self[name]
        except KeyError:
            return default

    def __delitem__(self, name: str) -> None:
        with self._lock:
            if name not in self:
                raise KeyError(name)
            self.discard(name)

    def discard(self, name: str) -> None:
        """Forget a parcel, if there is one: its memory goes back, and its file."""
        with self._lock:
            parcel = self._parcels.pop(name, None)
            if parcel is not None:
                self._bytes -= parcel.stored_bytes
                parcel.evict()
            if name in self._saved:
                self._saved.remove(name)
                self._path(name).unlink(missing_ok=True)

    def __contains__(self, name: object) -> bool:
        with self._lock:
            return name in self._parcels or name in self._saved

    def __iter__(self) -> Iterator[str]:
        """Names, those in memory first, used longest ago before others."""
        with self._lock:
            return iter([*self._parcels, *sorted(self._saved - self._parcels.keys())])

    def __len__(self) -> int:
        with self._lock:
            return len(self._parcels.keys() | self._saved)

    @property
    def stored_bytes(self) -> int:
        """Of the parcels in memory."""
        return self._bytes

    def _evict_oldest(self) -> None:
        name, parcel = next(iter(self._parcels.items()))
        if self._folder is not None and name not in self._saved:
            self._folder.mkdir(parents=True, exist_ok=True)
            parcel.save(self._path(name))
            self._saved.add(name)
        del self._parcels[name]
        self._bytes -= parcel.stored_bytes
        parcel.evict()

    def _path(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{quote(name, safe='')}{ENDING}"
