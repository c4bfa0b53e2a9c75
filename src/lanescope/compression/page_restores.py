"""The part of a `Channel` that brings pages back from the host, all or some of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanescope.calls import checked
from lanescope.compression import page_copies
from lanescope.compression.deciding import Transfer
from lanescope.compression.gpu_arrays import GpuArray, current_stream, framework_of_array
from lanescope.compression.page_copies import (
    NoMemoryError,
    PageCopies,
    Transferring,
    Unjoined,
    are_gathered,
    less,
    of_channel,
    scratch,
)
from lanescope.compression.pages import (
    BLOCK_BYTES,
    Numbers,
    PageGroup,
    PageParcel,
    numbers_of,
    offsets_of,
    runs_of,
)
from lanescope.compression.transfers import Record, core_errors

#: Where more than this share of the blocks is needed, all come: the copy engine is faster.
_MOST_CHOSEN = 0.75


@checked
@of_channel
class PageRestores(PageCopies):
    """Restores pages."""

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
        chosen = None if which is None else numbers_of(which, len(parcel), "which", "the parcel")
        with Unjoined(self._core) as unjoined:
            begun = self._begin_first(parcel, out, unjoined) if chosen is None else []
            self._log.settle()  # while the first pages are on their way
            wanted = np.arange(len(parcel)) if chosen is None else chosen
            sizes = parcel.sizes[wanted]
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

    def _begin_first(self, parcel: PageParcel, out: Any, unjoined: Unjoined) -> list[Transferring]:
        """Begin to bring back the first groups, before it is known where their pages go.

        To find that out takes as long as a good part of the transfer, where there are thousands.
        """
        first = out[0] if isinstance(out, list | tuple) and out else out
        if framework_of_array(first) != parcel.framework:
            return []
        stream = current_stream(parcel.framework, self._source)
        begun: list[Transferring] = []
        left = page_copies.GROUP_BYTES
        for group in parcel.groups:
            size = int(group.held.bytes)
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
        if some.is_whole and are_gathered(some.targets, some.sizes):
            return self._restore_whole(some, int(some.targets[0]), stream, unjoined, None)
        if not some.is_coded and not some.is_whole:
            return self._restore_parts(some, stream)
        if some.is_coded and some.share_of_blocks <= _MOST_CHOSEN:
            return self._restore_blocks(some, stream)
        try:
            room = unjoined.scratch(some.framework, self._source, some.group_bytes)
        except NoMemoryError:
            if some.is_coded:
                return self._restore_blocks(some, stream, page_copies.LEAST_GROUP_BYTES)
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

    def _restore_blocks(
        self, some: _Some, stream: int, most: int = page_copies.GROUP_BYTES
    ) -> None:
        """Bring back the blocks that hold pages, as many at a time as there is memory for."""
        first = 0
        while first < len(some.sizes):
            last = some.end_within(first, most)
            blocks, offsets = some.blocks(first, last)
            try:
                room = scratch(some.framework, self._source, len(blocks) * BLOCK_BYTES)
            except NoMemoryError as error:
                most = less(min(most, len(blocks) * BLOCK_BYTES), last - first, error)
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
        self.group_bytes = int(group.held.bytes)
        self.sizes, self.offsets, self.targets = all_sizes[numbers], offsets[numbers], targets
        self.is_whole = np.array_equal(numbers, np.arange(group.count))
        self.is_coded = bool(group.held.compressed)

    @property
    def share_of_blocks(self) -> float:
        """Of the group's, how many hold the pages."""
        blocks, _ = self.blocks(0, len(self.sizes))
        return len(blocks) * BLOCK_BYTES / max(self.group_bytes, 1)

    def blocks(self, first: int, last: int) -> tuple[NDArray[np.uint32], Numbers]:
        """Return the blocks that hold some of the pages, and where each page begins in them."""
        begins = (self.offsets[first:last] // BLOCK_BYTES).astype(np.int64)
        sizes = np.maximum(self.sizes[first:last], 1)
        ends = ((self.offsets[first:last] + sizes - np.uint64(1)) // BLOCK_BYTES).astype(np.int64)
        cover = np.zeros(-(-self.group_bytes // BLOCK_BYTES) + 2, np.int64)
        np.add.at(cover, begins, 1)
        np.add.at(cover, ends + 1, -1)
        needed = np.cumsum(cover) > 0
        places = np.cumsum(needed) - 1
        within = self.offsets[first:last] % np.uint64(BLOCK_BYTES)
        offsets = places[begins].astype(np.uint64) * np.uint64(BLOCK_BYTES) + within
        return np.flatnonzero(needed).astype(np.uint32), offsets

    def end_within(self, first: int, most: int) -> int:
        """Return up to which page the blocks of each have not more bytes together."""
        spans = self.sizes[first:] + np.uint64(2 * BLOCK_BYTES)
        return first + max(1, int(np.searchsorted(np.cumsum(spans), most, side="right")))
