"""What channels do with many arrays in one call: they travel as one array, or as a few.

All of them or some come back from the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanescope.calls import checked
from lanescope.compression import page_copies
from lanescope.compression.array_values import GpuArray, current_stream, framework_of_array
from lanescope.compression.deciding import Decision, Transfer
from lanescope.compression.page_copies import (
    NoMemoryError,
    PageCopies,
    PageSample,
    PendingTransfer,
    Unjoined,
    are_gathered,
    coded,
    groups_of,
    less,
    of_channel,
    scratch,
)
from lanescope.compression.pages import (
    BLOCK_BYTES,
    Numbers,
    PageGroup,
    PageList,
    PageParcel,
    are_blocks,
    collect,
    collect_in_parts,
    joined,
    numbers_of,
    offsets_of,
    runs_of,
)
from lanescope.compression.transfers import Parcel, Record, core_errors
from lanescope.errors import InputError
from lanescope.units.sizes import Size, size_of

#: Where more than this share of the blocks is needed, all come: the copy engine is faster.
_MOST_CHOSEN = 0.75
_AS_THEY_ARE = Decision(
    False, "raw", 1, None, None, "blocks would hold several pages, which may come back apart"
)


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

    def _begin_first(
        self, parcel: PageParcel, out: Any, unjoined: Unjoined
    ) -> list[PendingTransfer]:
        """Begin to bring back the first groups, before it is known where their pages go.

        To find that out takes as long as a good part of the transfer, where there are thousands.
        """
        first = out[0] if isinstance(out, list | tuple) and out else out
        if framework_of_array(first) != parcel.framework:
            return []
        stream = current_stream(parcel.framework, self._source)
        begun: list[PendingTransfer] = []
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
            begun.append(unjoined.add(PendingTransfer(ticket, stream, room)))
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
        there = unjoined.add(PendingTransfer(ticket, stream, room))
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


@checked
@of_channel
class PageTransfers(PageRestores):
    """The part of a `Channel` that takes pages."""

    def offload_many(
        self, arrays: Any, tag: str | None = None, pages: Any = None, *, together: bool = False
    ) -> PageParcel:
        """Bring many arrays to pinned memory of the host, in a few transfers.

        Nothing waits on the host. The pages may be overwritten or freed at once, by what is put on
        the current stream. Pages of whole 64 KiB are read where they lie, if they are compressed or
        go first. Of others a kernel makes one array first: up to 256 MiB of the GPU's memory hold
        them side by side meanwhile; more go in several transfers, and so they do where there is
        less memory. The first 8 to 16 and the last 8 MiB are transfers of their own: they cross the
        link while others are gathered, or put to their places.

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
                for first, some, room in self._to_offload(given, unjoined, ends=is_last):
                    small = not together and len(some) > 1 and some.bytes < len(some) * BLOCK_BYTES
                    decision, held = self._offload_group(
                        some, room, tag or "", small, unjoined, leads=not groups
                    )
                    groups.append(PageGroup(before + first, len(some), decision, held))
                if is_last:
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
        for first, some, array in self._side_by_side(given):
            source_stream = current_stream(given.framework, self._source)
            stream = current_stream(room.framework, self._target)
            targets, sizes = room.pointers[first : first + len(some)], some.sizes
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
        from lanescope.compression.parcels import load_parcel

        self._require_host()
        self._require_open()
        most = None if max_bytes is None else size_of(max_bytes)
        with core_errors():
            return load_parcel(source, self._core, most, framework)

    def trim(self, keep_bytes: Size = 0) -> int:
        """Give pinned memory of the host that no parcel uses back to the system.

        It goes by whole pieces of 258 MiB, and larger ones of larger arrays: one that holds
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

    def _to_offload(
        self, given: PageList, unjoined: Unjoined, *, ends: bool
    ) -> Iterator[tuple[int, PageList, GpuArray | None]]:
        """Return from where on which pages travel as one array, and where they lie as one.

        Those of whole blocks lie where they are.
        """
        if not are_blocks(given):
            yield from self._side_by_side(given, unjoined, ends=ends)
            return
        for first, last in groups_of(given, page_copies.GROUP_BYTES // 2, ends=ends):
            yield first, given.part(first, last), None

    def _offload_group(
        self, pages: PageList, room: GpuArray | None, tag: str, small: bool, unjoined: Unjoined,
        *, leads: bool,
    ) -> tuple[Decision, Any]:  # fmt: skip
        """Bring pages to the host as one array; return how, and the core's parcel."""
        stream = current_stream(pages.framework, self._source)
        transfer = Transfer(tag, f"g{self._source}>host", pages.kind, pages.bytes)
        looked_at = room or PageSample(pages, self._gather)
        decision = _AS_THEY_ARE if small else self._decide(transfer, looked_at, stream)
        how = (*coded(decision, pages.kind), stream)
        if room is None and not decision.compress and not leads:
            # While the first ones cross the link there is time to gather them: the copy engine is
            # faster than a kernel that reads them where they lie.
            with suppress(NoMemoryError):
                room = self._gathered(pages, unjoined.scratch)
        with core_errors():
            held, ticket = (
                self._core.offload_pages(pages.pointers, pages.sizes, *how, joins=False)
                if room is None
                else self._core.offload(room.pointer, room.bytes, *how, joins=False)
            )
        unjoined.add(PendingTransfer(ticket, stream, room))
        self._log.add(Record(transfer, decision, ticket), learns=True)
        return decision, held
