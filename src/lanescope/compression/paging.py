"""What channels do with many arrays in one call: one kernel gathers them, one transfer goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from lanescope._core import native
from lanescope.calls import checked
from lanescope.compression.choosing import dtype_of
from lanescope.compression.deciding import Decision, Transfer
from lanescope.compression.gpu_arrays import (
    GpuArray,
    current_stream,
    framework_of_array,
    gpu_array,
    new_bytes,
)
from lanescope.compression.pages import (
    ALIGNMENT,
    Numbers,
    PageGroup,
    PageList,
    PageParcel,
    collect,
    collect_in_parts,
    edge_of,
    joined,
    new_pages,
    numbers_of,
    offsets_of,
    padded,
    require_apart,
    runs_of,
)
from lanescope.compression.transfers import Parcel, Record, core_errors
from lanescope.errors import InputError, LanescopeError
from lanescope.units.sizes import Size, size_of, size_text

#: Of pages that travel as one array: so much memory of the GPU holds them side by side.
GROUP_BYTES = 256 << 20
_LEAST_GROUP_BYTES = 1 << 20
_BLOCK_BYTES = 64 << 10
#: Where more than this share of the blocks is needed, all come: the copy engine is faster.
_MOST_CHOSEN = 0.75
_AS_THEY_ARE = Decision(
    False, "raw", 1, None, None, "blocks would hold several pages, which may come back apart"
)


T = TypeVar("T")


class NoMemoryError(Exception):
    """A GPU has no memory left for pages side by side."""


def _of_channel(target: type[T]) -> type[T]:
    """Name methods as users know them, for errors."""
    for name, member in vars(target).items():
        if isinstance(member, FunctionType):
            member.__qualname__ = f"Channel.{name}"
    return target


@checked
@_of_channel
class PageTransfers:
    """The part of a `Channel` that takes pages."""

    _source: int
    _target: int | None
    _via: str | None
    _core: Any
    _log: Any
    _copiers: dict[int, native.PageCopier]

    def offload_many(
        self, arrays: Any, tag: str | None = None, pages: Any = None, *, together: bool = False
    ) -> PageParcel:
        """Bring many arrays to pinned memory of the host: one kernel gathers them, one copy goes.

        Nothing waits on the host. The pages may be overwritten or freed at once, by what is put on
        the current stream. Up to 256 MiB of the GPU's memory hold pages side by side meanwhile;
        more go in several transfers, and so they do where there is less memory. The first 16 and
        the last 8 MiB are transfers of their own: they cross the link while others are gathered,
        or put to their places.

        Parameters
        ----------
        arrays
            A list of tensors of PyTorch or arrays of CuPy on this channel's GPU, of any sizes, each
            in C order; or one of which the pages are slices along the first dimension, as a paged
            KV cache is.
        tag
            A name for arrays of their kind, about which the rule learns together.
        pages
            The numbers of those slices, a list or an array of NumPy; None: all.
        together
            Whether they come back together, too. Otherwise pages of less than 64 KiB each, on
            average, travel as they are, whatever `compression` says: that is what blocks of
            compressed ones have, and with one of them its neighbours would cross the link.

        Raises
        ------
        InputError
            If they cannot be sent, or the channel goes to a GPU, or is closed.
        LanescopeError
            If a transfer before came in damaged, or the GPU has no memory for some pages at once.
        """
        self._require_host()
        self._require_open()
        groups: list[PageGroup] = []
        parts: list[PageList] = []
        with Unjoined(self._core) as unjoined:
            found = collect_in_parts(arrays, pages, self._source, "the arrays to offload")
            for given, is_last in found:
                before = sum(map(len, parts))
                parts.append(given)
                for first, last, array in self._side_by_side(given, unjoined, ends=is_last):
                    mean = array.bytes // (last - first)
                    small = not together and last - first > 1 and mean < _BLOCK_BYTES
                    decision, held = self._offload_group(given, array, tag or "", small, unjoined)
                    groups.append(PageGroup(before + first, last - first, decision, held))
                self._log.settle()  # while the pages are on their way
        if len({part.framework for part in parts}) > 1:
            raise InputError("the arrays to offload are of PyTorch and of CuPy; give those of one")
        kinds = {part.kind for part in parts}
        return PageParcel(
            parts[0].framework if parts else "torch",
            tag or "",
            tag or "",
            joined([run for part in parts for run in part.runs]),
            np.concatenate([*(part.sizes for part in parts), np.zeros(0, np.uint64)]),
            kinds.pop() if len(kinds) == 1 else "uint8",
            tuple(groups),
        )

    def restore_many(
        self, parcel: PageParcel, out: Any = None, which: Any = None, pages: Any = None
    ) -> Any:
        """Bring pages back, all or some of them, as often as wanted; another channel's too.

        Parameters
        ----------
        parcel
            As `offload_many` returned it, or loaded from a file. Waits for the end of the offload.
        out
            What gets the values, in place of new arrays: a list of arrays on this channel's GPU, or
            one of which the places are slices along the first dimension.
        which
            The numbers of the pages that are wanted, in the order of `out`; None: all. Of pages
            that are stored as they are only their bytes cross the link, of compressed ones the
            blocks of 64 KiB that hold them, unless those are more than three quarters of all.
        pages
            The numbers of the slices of `out`; None: all.

        Returns
        -------
        Any
            `out`, or a list of new arrays; those that follow each other and are alike share one
            piece of memory.

        Raises
        ------
        InputError
            If there are no such pages, or `out` does not fit, or has bytes twice, or the parcel was
            evicted, or the channel goes to a GPU, or is closed.
        LanescopeError
            If a transfer before came in damaged, or the GPU has no memory left.
        """
        self._require_host()
        self._require_open()
        self._log.settle()
        wanted = (
            np.arange(len(parcel))
            if which is None
            else numbers_of(which, len(parcel), "which", "the parcel")
        )
        sizes = parcel.sizes[wanted]
        with Unjoined(self._core) as unjoined:
            begun = self._begin_first(parcel, out, unjoined) if which is None else []
            found, room = self._places(parcel.framework, runs_of(parcel, wanted), out, pages, sizes)
            if len(wanted) == 0:
                return found
            stream = current_stream(room.framework, self._source)
            for there, group in zip(begun, parcel.groups, strict=False):
                its = slice(group.first, group.first + group.count)
                there.then = self._scattering(there, room.pointers[its], sizes[its])
            for group in parcel.groups[len(begun) :]:
                own = np.flatnonzero((wanted >= group.first) & (wanted < group.first + group.count))
                if len(own):
                    some = _Some(
                        group, parcel, wanted[own] - group.first, room.pointers[own], room.framework
                    )
                    self._restore_some(some, stream, unjoined)
        return found

    def send_many(
        self,
        arrays: Any,
        tag: str | None = None,
        out: Any = None,
        pages: Any = None,
        out_pages: Any = None,
    ) -> Any:
        """Send many arrays to the other GPU: one kernel gathers them, one transfer goes.

        On both GPUs up to 256 MiB hold pages side by side meanwhile.

        Parameters
        ----------
        arrays, tag, pages
            As with `offload_many`.
        out, out_pages
            What gets the values on the other GPU, in place of new arrays, and which slices of it;
            as `out` and `pages` of `restore_many`.

        Returns
        -------
        Any
            `out`, or a list of new arrays on the other GPU.

        Raises
        ------
        InputError
            If they cannot be sent, or `out` does not fit, or has bytes twice, or the channel goes
            to the host, or is closed.
        LanescopeError
            If a transfer before came in damaged, or a GPU has no memory left.
        """
        if self._target is None:
            raise InputError(
                "this channel goes to the host; call offload_many, or name another GPU"
            )
        self._require_open()
        given = collect(arrays, pages, self._source, "the arrays to send")
        self._log.settle()
        found, room = self._places(given.framework, given.runs, out, out_pages, given.sizes)
        over = ">host" if self._via == "host" else ""
        path = f"g{self._source}{over}>g{self._target}"
        for first, last, array in self._side_by_side(given):
            source_stream = current_stream(given.framework, self._source)
            stream = current_stream(room.framework, self._target)
            targets, sizes = room.pointers[first:last], given.sizes[first:last]
            there = self._landing(room.framework, self._target, targets, sizes)
            transfer = Transfer(tag or "", path, given.kind, array.bytes)
            decision = self._decide(transfer, array, source_stream)
            with core_errors():
                ticket = self._core.send(
                    array.pointer, there.pointer, array.bytes, *coded(decision, given.kind),
                    source_stream, stream,
                )  # fmt: skip
            self._log.add(Record(transfer, decision, ticket), learns=True)
            self._scatter(there, targets, sizes)
        return found

    def load(
        self,
        source: Any,
        *,
        max_bytes: Size | None = None,
        framework: str | None = None,
    ) -> Parcel | PageParcel:
        """Read what `Parcel.save` wrote, of an array or of pages, into pinned memory of the host.

        Parameters
        ----------
        source
            A path, bytes, or an object with `read` or `readinto`, of which no more is read than was
            saved.
        max_bytes
            Of the array or the pages, such as ``"1GiB"``: larger ones are refused before memory is
            pinned. Give it for parcels from strangers.
        framework
            Of what is restored: ``torch`` or ``cupy``; None: as it was saved.

        Returns
        -------
        Parcel | PageParcel
            As it was saved. Restoring compares the checksums of all blocks.

        Raises
        ------
        InputError
            If it is none, of another version, cut off, changed or too large, or the channel goes to
            a GPU, or is closed.
        """
        from lanescope.compression.parcel_files import load_parcel

        self._require_host()
        self._require_open()
        most = None if max_bytes is None else size_of(max_bytes)
        with core_errors():
            return load_parcel(source, self._core, most, framework)

    def trim(self, keep_bytes: Size = 0) -> int:
        """Give pinned memory of the host that no parcel uses back to the system.

        It goes by whole pieces of 256 MiB, and larger ones of larger arrays: one that holds
        anything stays. The GPU ends its work meanwhile.

        Parameters
        ----------
        keep_bytes
            So many free bytes stay for the next parcels.

        Returns
        -------
        int
            How many bytes went; `pinned_bytes` has become as many less.

        Raises
        ------
        InputError
            If the channel goes to a GPU, or is closed.
        """
        self._require_host()
        self._require_open()
        with core_errors():
            return int(self._core.trim(size_of(keep_bytes)))

    def _offload_group(
        self, given: PageList, array: GpuArray, tag: str, small: bool, unjoined: Unjoined
    ) -> tuple[Decision, Any]:
        """Bring pages side by side to the host; return how, and the core's parcel."""
        stream = current_stream(given.framework, self._source)
        transfer = Transfer(tag, f"g{self._source}>host", given.kind, array.bytes)
        decision = _AS_THEY_ARE if small else self._decide(transfer, array, stream)
        with core_errors():
            held, ticket = self._core.offload(
                array.pointer, array.bytes, *coded(decision, given.kind), stream, joins=False
            )
        unjoined.add(Transferring(ticket, stream, array))
        self._log.add(Record(transfer, decision, ticket), learns=True)
        return decision, held

    def _side_by_side(
        self, given: PageList, unjoined: Unjoined | None = None, *, ends: bool = False
    ) -> Iterator[tuple[int, int, GpuArray]]:
        """Gather pages, as many at a time as there is memory for: from, to, and where they lie.

        With transfers that are not joined two and more have that memory together, and where the
        pages end with these the last ones are apart.
        """
        first, most = 0, GROUP_BYTES if unjoined is None else GROUP_BYTES // 2
        edge = edge_of(int(given.sizes.sum())) if ends else 0
        while first < len(given):
            last = _end_of_group(given.sizes, first, most, edge)
            sizes = given.sizes[first:last]
            size = int(padded(sizes).sum())
            try:
                room = (scratch if unjoined is None else unjoined.scratch)(
                    given.framework, self._source, size
                )
            except NoMemoryError as error:
                most = _less(min(most, size), last - first, error)
                continue
            targets = offsets_of(sizes) + np.uint64(room.pointer)
            self._copy(given.pointers[first:last], targets, sizes, room, fill_up=True)
            yield (
                first,
                last,
                GpuArray(room.values, room.framework, room.gpu, room.pointer, size, given.kind),
            )
            first = last

    def _places(
        self, framework: str, runs: Any, out: Any, pages: Any, sizes: Numbers
    ) -> tuple[Any, PageList]:
        """Return where pages go: what the user gets, and the places."""
        gpu = self._source if self._target is None else self._target
        if out is None:
            if pages is not None:
                raise InputError("there is no array whose slices the pages go to; give out, too")
            with _out_of_memory():
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

    def _begin_first(self, parcel: PageParcel, out: Any, unjoined: Unjoined) -> list[Transferring]:
        """Begin to bring back the first groups, before it is known where their pages go.

        To find that out takes as long as a good part of the transfer, where there are thousands.
        """
        first = out[0] if isinstance(out, list | tuple) and out else out
        if framework_of_array(first) != parcel.framework:
            return []
        stream = current_stream(parcel.framework, self._source)
        begun: list[Transferring] = []
        left = GROUP_BYTES
        for group in parcel.groups:
            size = int(padded(parcel.sizes[group.first : group.first + group.count]).sum())
            left -= size
            if left < 0 and begun:
                break
            try:
                room = scratch(parcel.framework, self._source, size)
            except NoMemoryError:
                break
            with core_errors():
                ticket = self._core.restore(group.held, room.pointer, stream, joins=False)
            begun.append(unjoined.add(Transferring(ticket, stream, room)))
            self._note(parcel, group, size, ticket)
        return begun

    def _restore_some(self, some: _Some, stream: int, unjoined: Unjoined) -> None:
        """Bring back pages of one group."""
        if some.is_whole and _as_gathered(some.targets, some.sizes):
            return self._restore_whole(some, int(some.targets[0]), stream, unjoined, None)
        if not some.is_coded and not some.is_whole:
            return self._restore_parts(some, stream)
        if some.is_coded and some.share_of_blocks <= _MOST_CHOSEN:
            return self._restore_blocks(some, stream)
        try:
            room = unjoined.scratch(some.framework, self._source, some.group_bytes)
        except NoMemoryError:
            if some.is_coded:
                return self._restore_blocks(some, stream, _LEAST_GROUP_BYTES)
            return self._restore_parts(some, stream)
        return self._restore_whole(some, room.pointer, stream, unjoined, room)

    def _restore_whole(
        self, some: _Some, target: int, stream: int, unjoined: Unjoined, room: GpuArray | None
    ) -> None:
        """Bring back a group; from `room` its pages go to their places when it is joined."""
        with core_errors():
            ticket = self._core.restore(some.group.held, target, stream, joins=False)
        there = unjoined.add(Transferring(ticket, stream, room))
        if room is not None:
            sources = np.uint64(target) + some.offsets
            there.then = partial(self._copy, sources, some.targets, some.sizes, room)
        self._note(some.parcel, some.group, some.group_bytes, ticket)

    def _restore_parts(self, some: _Some, stream: int) -> None:
        """Bring back pages that are stored as they are, each to its place: a kernel reads them."""
        with core_errors():
            ticket = self._core.restore_parts(
                some.group.held, some.offsets, some.sizes, some.targets, stream
            )
        self._note(some.parcel, some.group, int(some.sizes.sum()), ticket)

    def _restore_blocks(self, some: _Some, stream: int, most: int = GROUP_BYTES) -> None:
        """Bring back the blocks that hold pages, as many at a time as there is memory for."""
        first = 0
        while first < len(some.sizes):
            last = some.end_within(first, most)
            blocks, offsets = some.blocks(first, last)
            try:
                room = scratch(some.framework, self._source, len(blocks) * _BLOCK_BYTES)
            except NoMemoryError as error:
                most = _less(min(most, len(blocks) * _BLOCK_BYTES), last - first, error)
                continue
            with core_errors():
                ticket = self._core.restore_blocks(some.group.held, blocks, room.pointer, stream)
            sizes, targets = some.sizes[first:last], some.targets[first:last]
            self._note(some.parcel, some.group, int(sizes.sum()), ticket)
            self._copy(np.uint64(room.pointer) + offsets, targets, sizes, room)
            first = last

    def _note(self, parcel: PageParcel, group: PageGroup, size: int, ticket: Any) -> None:
        transfer = Transfer(parcel.tag, f"host>g{self._source}", parcel.kind, size)
        self._log.add(Record(transfer, group.decision, ticket), learns=False)

    def _landing(self, framework: str, gpu: int, targets: Numbers, sizes: Numbers) -> GpuArray:
        """Return where pages come side by side: their own places, if they lie so."""
        size = int(padded(sizes).sum())
        if _as_gathered(targets, sizes):
            return GpuArray(None, framework, gpu, int(targets[0]), size, "uint8")
        with _out_of_memory():
            return scratch(framework, gpu, size)

    def _scattering(
        self, transfer: Transferring, targets: Numbers, sizes: Numbers
    ) -> Callable[[], None] | None:
        """Return what puts pages to their places once they are there."""
        return (
            None if transfer.room is None else partial(self._scatter, transfer.room, targets, sizes)
        )

    def _scatter(self, room: GpuArray, targets: Numbers, sizes: Numbers) -> None:
        if room.values is not None:
            self._copy(np.uint64(room.pointer) + offsets_of(sizes), targets, sizes, room)

    def _copy(
        self, sources: Numbers, targets: Numbers, sizes: Numbers, room: GpuArray, *,
        fill_up: bool = False,
    ) -> None:  # fmt: skip
        """Copy pages within a GPU, on the current stream of the framework that owns `room`."""
        stream = current_stream(room.framework, room.gpu)
        with core_errors():
            copier = self._copiers.get(room.gpu) or native.PageCopier(room.gpu)
            self._copiers[room.gpu] = copier
            copier.copy(sources, targets, sizes, fill_up, native.PAGE_CTAS, stream)

    def _decide(self, transfer: Transfer, array: GpuArray, stream: int) -> Decision:
        raise NotImplementedError

    def _require_open(self) -> None:
        raise NotImplementedError

    def _require_host(self) -> None:
        raise NotImplementedError


@dataclass(slots=True)
class Transferring:
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
        self._transfers: deque[Transferring] = deque()
        self._bytes = 0

    def add(self, transfer: Transferring) -> Transferring:
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


def _room_bytes(transfer: Transferring) -> int:
    return 0 if transfer.room is None else transfer.room.bytes


class _Some:
    """Pages of a group, and where they go."""

    def __init__(
        self,
        group: PageGroup,
        parcel: PageParcel,
        numbers: NDArray[np.int64],
        targets: Numbers,
        framework: str,
    ) -> None:
        self.group, self.parcel, self.framework = group, parcel, framework
        all_sizes = parcel.sizes[group.first : group.first + group.count]
        offsets = offsets_of(all_sizes)
        self.group_bytes = int(padded(all_sizes).sum())
        self.sizes, self.offsets, self.targets = all_sizes[numbers], offsets[numbers], targets
        self.is_whole = np.array_equal(numbers, np.arange(group.count))
        self.is_coded = bool(group.held.compressed)

    @property
    def share_of_blocks(self) -> float:
        """Of the group's, how many hold the pages."""
        blocks, _ = self.blocks(0, len(self.sizes))
        return len(blocks) * _BLOCK_BYTES / max(self.group_bytes, 1)

    def blocks(self, first: int, last: int) -> tuple[NDArray[np.uint32], Numbers]:
        """Return the blocks that hold some of the pages, and where each page begins in them."""
        begins = (self.offsets[first:last] // _BLOCK_BYTES).astype(np.int64)
        sizes = np.maximum(self.sizes[first:last], 1)
        ends = ((self.offsets[first:last] + sizes - np.uint64(1)) // _BLOCK_BYTES).astype(np.int64)
        cover = np.zeros(-(-self.group_bytes // _BLOCK_BYTES) + 2, np.int64)
        np.add.at(cover, begins, 1)
        np.add.at(cover, ends + 1, -1)
        needed = np.cumsum(cover) > 0
        places = np.cumsum(needed) - 1
        within = self.offsets[first:last] % np.uint64(_BLOCK_BYTES)
        offsets = places[begins].astype(np.uint64) * np.uint64(_BLOCK_BYTES) + within
        return np.flatnonzero(needed).astype(np.uint32), offsets

    def end_within(self, first: int, most: int) -> int:
        """Return up to which page the blocks of each have not more bytes together."""
        spans = self.sizes[first:] + np.uint64(2 * _BLOCK_BYTES)
        return first + max(1, int(np.searchsorted(np.cumsum(spans), most, side="right")))


def coded(decision: Decision, dtype: str) -> tuple[native.Codec | None, native.Dtype, int]:
    """Return codec, type and dimensionality as the core takes them."""
    codec = native.Codec[decision.codec] if decision.compress else None
    return codec, dtype_of(dtype), decision.dimensionality


def scratch(framework: str, gpu: int, size: int) -> GpuArray:
    """Return memory of a GPU, of a framework's: it goes back in the order of the current stream.

    Raises
    ------
    NoMemoryError
        If there is none left.
    """
    try:
        room = new_bytes(framework, size, gpu)
    except Exception as error:
        if "OutOfMemory" not in type(error).__name__:
            raise
        raise NoMemoryError(gpu, size) from error
    return gpu_array(room, gpu, "the memory for pages")


class _out_of_memory:  # noqa: N801  (a context, used as one word)
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


def _less(most: int, pages: int, error: NoMemoryError) -> int:
    """Return for how much to look next where there was no memory for so much, or give up."""
    if pages == 1 or most <= _LEAST_GROUP_BYTES:
        raise _no_memory(error) from error
    return max(most // 4, _LEAST_GROUP_BYTES)


def _end_of_group(sizes: Numbers, first: int, most: int, edge: int) -> int:
    """Return up to which page a group goes; where many are left so many of the last are apart."""
    ends = np.cumsum(padded(sizes[first:]))
    whole = int(ends[-1])
    if 0 < 2 * edge < whole:
        most = min(most, whole - edge)
    return first + max(1, int(np.searchsorted(ends, most, side="right")))


def _as_gathered(targets: Numbers, sizes: Numbers) -> bool:
    """Whether places lie side by side as pages do in the array that they travel as."""
    if len(targets) == 0 or int(targets[0]) % ALIGNMENT or int(sizes[-1]) % ALIGNMENT:
        return False
    return np.array_equal(targets - targets[0], offsets_of(sizes))


def _page_bytes(whole: Any, count: int) -> np.uint64:
    return np.uint64(int(whole.nbytes) // max(count, 1))
