"""What sending and restoring pages have in common: memory that holds them, and their copies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, Self, TypeVar

import numpy as np

from lanescope._core import native
from lanescope.compression.array_values import (
    GpuArray,
    LookedAt,
    current_stream,
    gpu_array,
    new_bytes,
)
from lanescope.compression.deciding import Decision, Transfer, dtype_of
from lanescope.compression.pages import (
    ALIGNMENT,
    BLOCK_BYTES,
    Numbers,
    PageList,
    collect,
    edge_of,
    new_pages,
    offsets_of,
    padded,
    require_apart,
)
from lanescope.compression.transfers import Logged, core_errors
from lanescope.errors import InputError, LanescopeError
from lanescope.units.sizes import size_text

#: Of pages that travel as one array: so much memory of the GPU holds them side by side.
GROUP_BYTES = 256 << 20
LEAST_GROUP_BYTES = 1 << 20
T = TypeVar("T")


class NoMemoryError(Exception):
    """A GPU has no memory left for pages side by side."""


@dataclass(slots=True)
class PendingTransfer:
    """A transfer whose end the stream of its caller does not wait for yet.

    Attributes
    ----------
    room
        Memory that it uses and nobody else holds.
    then
        What is put on the stream behind its end.
    """

    ticket: Any
    stream: int
    room: GpuArray | None
    then: Callable[[], None] | None = None


class Unjoined:
    """Transfers that streams do not wait for yet, oldest first: the next begin meanwhile.

    What of the GPU's memory they use goes back, in the order of the stream, when they are joined;
    as a context it joins all at its end, and where that is an error does nothing else with them.
    """

    def __init__(self, core: Any) -> None:
        self._core = core
        self._transfers: deque[PendingTransfer] = deque()
        self._bytes = 0

    def add(self, transfer: PendingTransfer) -> PendingTransfer:
        """Take one on, and return it."""
        self._transfers.append(transfer)
        self._bytes += _room_bytes(transfer)
        return transfer

    def scratch(self, framework: str, gpu: int, size: int) -> GpuArray:
        """Return memory as `scratch` does, for which others are joined where it is too much."""
        while self._bytes > 0 and self._bytes + size > GROUP_BYTES:
            self._join_first()
        while True:
            try:
                return scratch(framework, gpu, size)
            except NoMemoryError:
                if self._bytes == 0:
                    raise
                self._join_first()

    def _join_first(self) -> None:
        transfer = self._transfers.popleft()
        self._bytes -= _room_bytes(transfer)
        with core_errors():
            self._core.join(transfer.ticket, transfer.stream)
        if transfer.then is not None:
            transfer.then()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        while self._transfers:
            if kind is not None:
                self._transfers[0].then = None
            self._join_first()


def _room_bytes(transfer: PendingTransfer) -> int:
    return 0 if transfer.room is None else transfer.room.bytes


def scratch(framework: str, gpu: int, size: int) -> GpuArray:
    """Return memory of a GPU, of a framework's: it goes back in the order of the current stream.

    Raises
    ------
    NoMemoryError
        If there is none left.
    """
    try:
        return new_bytes(framework, size, gpu)
    except Exception as error:
        if "OutOfMemory" not in type(error).__name__:
            raise
        raise NoMemoryError(gpu, size) from error


class out_of_memory:  # noqa: N801  (a context, used as one word)
    """Turns that a GPU has no memory left into one sentence."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if isinstance(error, NoMemoryError):
            raise _no_memory(error) from error
        if error is not None and "OutOfMemory" in type(error).__name__:
            raise LanescopeError(
                "the GPU has no memory left for new arrays; free some, or give out="
            ) from error


def _no_memory(error: NoMemoryError) -> LanescopeError:
    gpu, size = error.args
    return LanescopeError(
        f"GPU {gpu} has no memory left for pages side by side, {size_text(size)}; free some"
    )


def less(most: int, pages: int, error: NoMemoryError) -> int:
    """Return for how much to look next where there was no memory for so much, or give up."""
    if pages == 1 or most <= LEAST_GROUP_BYTES:
        raise _no_memory(error) from error
    return max(most // 4, LEAST_GROUP_BYTES)


def of_channel(target: type[T]) -> type[T]:
    """Name methods as users know them, for errors."""
    for name, member in vars(target).items():
        if isinstance(member, FunctionType):
            member.__qualname__ = f"Channel.{name}"
    return target


class PageSample:
    """Some blocks of pages that lie apart, for who looks at them: gathered when that is asked."""

    MOST_BLOCKS = 8  # as many as are looked at of an array

    def __init__(self, pages: PageList, gather: Callable[..., None]) -> None:
        self._pages, self._gather = pages, gather
        self._room: GpuArray | None = None  # which stays as long as this does

    @property
    def gpu(self) -> int:
        """Where the pages lie."""
        return self._pages.gpu

    @property
    def dtype(self) -> str:
        """By which codecs know their values."""
        return self._pages.kind

    @property
    def bytes(self) -> int:
        """Of these blocks."""
        return min(self._pages.bytes, self.MOST_BLOCKS * BLOCK_BYTES)

    @property
    def pointer(self) -> int:
        """Where the blocks lie side by side, behind what is on the current stream."""
        ends = np.cumsum(self._pages.sizes).astype(np.int64)
        count = self.bytes // BLOCK_BYTES
        begins = np.linspace(0, ends[-1] // BLOCK_BYTES - 1, count).astype(np.int64) * BLOCK_BYTES
        page = np.searchsorted(ends, begins, side="right")
        within = begins - (ends[page] - self._pages.sizes[page].astype(np.int64))
        sources = self._pages.pointers[page] + within.astype(np.uint64)
        with out_of_memory():
            room = self._room = scratch(self._pages.framework, self.gpu, self.bytes)
        sizes = np.full(count, BLOCK_BYTES, np.uint64)
        self._gather(sources, sizes, room)
        return room.pointer


class PageCopies(Logged):
    """The part of a `Channel` that copies pages within GPUs."""

    _source: int
    _target: int | None
    _via: str | None
    _core: Any
    _copiers: dict[int, native.PageCopier]

    def _side_by_side(
        self, given: PageList, unjoined: Unjoined | None = None, *, ends: bool = False
    ) -> Iterator[tuple[int, PageList, GpuArray]]:
        """Gather pages, as many at a time as there is memory for: from where on, which, and where.

        With transfers that are not joined two and more have that memory together, and where the
        pages end with these the last ones are apart.
        """
        first, most = 0, GROUP_BYTES // (1 if unjoined is None else 2)
        edge = edge_of(given.bytes) if ends else 0
        while first < len(given):
            some = given.part(first, _end_of_group(given, first, most, edge))
            try:
                room = self._gathered(some, scratch if unjoined is None else unjoined.scratch)
            except NoMemoryError as error:
                most = less(min(most, some.bytes), len(some), error)
                continue
            yield first, some, room
            first += len(some)

    def _gathered(self, pages: PageList, room_for: Callable[[str, int, int], GpuArray]) -> GpuArray:
        """Return pages side by side. Raises `NoMemoryError`."""
        room = room_for(pages.framework, self._source, pages.bytes)
        self._gather(pages.pointers, pages.sizes, room)
        room.dtype = pages.kind
        return room

    def _places(
        self, framework: str, runs: Any, out: Any, pages: Any, sizes: Numbers
    ) -> tuple[Any, PageList]:
        """Return where pages go: what the user gets, and the places."""
        gpu = self._source if self._target is None else self._target
        if out is None:
            if pages is not None:
                raise InputError("there is no array whose slices the pages go to; give out, too")
            with out_of_memory():
                whole, found = new_pages(framework, runs, gpu)
            pointers = [
                np.uint64(gpu_array(one, gpu, "it").pointer)
                + np.arange(run.count, dtype=np.uint64) * _page_bytes(one, run.count)
                for one, run in zip(whole, runs, strict=True)
            ]
            places = np.concatenate([*pointers, np.zeros(0, np.uint64)]).astype(np.uint64)
            return found, PageList(framework, gpu, places, sizes, tuple(runs), "uint8")
        room = collect(out, pages, gpu, "the arrays for the values")
        if len(room) != len(sizes):
            raise InputError(
                f"there are {len(room)} places for {len(sizes)} pages; give one for each"
            )
        wrong = np.flatnonzero(room.sizes != sizes)
        if len(wrong):
            i = int(wrong[0])
            raise InputError(
                f"the place of page {i} has {room.sizes[i]} bytes, and {sizes[i]} come; give one "
                "of as many"
            )
        require_apart(room.pointers, room.sizes)
        return out, room

    def _landing(self, framework: str, gpu: int, targets: Numbers, sizes: Numbers) -> GpuArray:
        """Return where pages come side by side: their own places, if they lie so."""
        size = int(padded(sizes).sum())
        if are_gathered(targets, sizes):
            return GpuArray(None, framework, gpu, int(targets[0]), size, "uint8")
        with out_of_memory():
            return scratch(framework, gpu, size)

    def _scattering(
        self, transfer: PendingTransfer, targets: Numbers, sizes: Numbers
    ) -> Callable[[], None] | None:
        """Return what puts pages to their places once they are there."""
        return (
            None if transfer.room is None else partial(self._scatter, transfer.room, targets, sizes)
        )

    def _scatter(self, room: GpuArray, targets: Numbers, sizes: Numbers) -> None:
        """Put pages that lie side by side to their places, unless those are `room`."""
        if room.values is None:
            return
        with core_errors():
            self._copier(room.gpu).scatter(
                room.pointer, targets, sizes, native.PAGE_CTAS, _stream_of(room)
            )

    def _gather(self, sources: Numbers, sizes: Numbers, room: GpuArray) -> None:
        """Bring pages side by side."""
        with core_errors():
            self._copier(room.gpu).gather(
                sources, sizes, room.pointer, native.PAGE_CTAS, _stream_of(room)
            )

    def _copy(self, sources: Numbers, targets: Numbers, sizes: Numbers, room: GpuArray) -> None:
        """Copy pages from somewhere in `room`."""
        with core_errors():
            self._copier(room.gpu).copy(sources, targets, sizes, native.PAGE_CTAS, _stream_of(room))

    def _copier(self, gpu: int) -> native.PageCopier:
        """Return what copies pages within a GPU. Raises `NativeError`."""
        found = self._copiers.get(gpu)
        if found is None:
            found = self._copiers[gpu] = native.PageCopier(gpu)
        return found

    def _decide(self, transfer: Transfer, array: LookedAt, stream: int) -> Decision:
        raise NotImplementedError

    def _require_open(self) -> None:
        raise NotImplementedError

    def _require_host(self) -> None:
        raise NotImplementedError


def _stream_of(room: GpuArray) -> int:
    """Return the current stream of the framework that owns memory."""
    return current_stream(room.framework, room.gpu)


def coded(decision: Decision, dtype: str) -> tuple[native.Codec | None, native.Dtype, int]:
    """Return codec, type and dimensionality as the core takes them."""
    codec = native.Codec[decision.codec] if decision.compress else None
    return codec, dtype_of(dtype), decision.dimensionality


def groups_of(pages: PageList, most: int, *, ends: bool) -> Iterator[tuple[int, int]]:
    """Return from and up to which pages groups of so many bytes go; the last is apart if it ends.

    What is apart comes back while those before it are put to their places.
    """
    edge = edge_of(pages.bytes) if ends else 0
    if edge == 0 and 0 < pages.bytes <= most:
        yield 0, len(pages)
        return
    first = 0
    while first < len(pages):
        last = _end_of_group(pages, first, most, edge)
        yield first, last
        first = last


def _end_of_group(pages: PageList, first: int, most: int, edge: int) -> int:
    """Return up to which page a group goes; where many are left so many of the last are apart."""
    whole = pages.bytes if first == 0 else pages.part(first, len(pages)).bytes
    if 0 < 2 * edge < whole:
        most = min(most, whole - edge)
    return pages.end_within(first, most)


def are_gathered(targets: Numbers, sizes: Numbers) -> bool:
    """Whether places lie side by side as pages do in the array that they travel as."""
    if len(targets) == 0 or int(targets[0]) % ALIGNMENT or int(sizes[-1]) % ALIGNMENT:
        return False
    return np.array_equal(targets - targets[0], offsets_of(sizes))


def _page_bytes(whole: Any, count: int) -> np.uint64:
    return np.uint64(int(whole.nbytes) // max(count, 1))
