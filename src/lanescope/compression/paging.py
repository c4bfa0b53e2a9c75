"""What channels do with many arrays in one call: they travel as one array, or as a few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from lanescope.calls import checked
from lanescope.compression import page_copies
from lanescope.compression.deciding import Decision, Transfer
from lanescope.compression.gpu_arrays import GpuArray, current_stream
from lanescope.compression.page_copies import (
    NoMemoryError,
    PageSample,
    Transferring,
    Unjoined,
    coded,
    groups_of,
    of_channel,
)
from lanescope.compression.page_restores import PageRestores
from lanescope.compression.pages import (
    BLOCK_BYTES,
    PageGroup,
    PageList,
    PageParcel,
    are_blocks,
    collect,
    collect_in_parts,
    joined,
)
from lanescope.compression.transfers import Parcel, Record, core_errors
from lanescope.errors import InputError
from lanescope.units.sizes import Size, size_of

_AS_THEY_ARE = Decision(
    False, "raw", 1, None, None, "blocks would hold several pages, which may come back apart"
)


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
        from lanescope.compression.parcel_files import load_parcel

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
        unjoined.add(Transferring(ticket, stream, room))
        self._log.add(Record(transfer, decision, ticket), learns=True)
        return decision, held
