"""Send arrays between GPUs, or to the host and back, compressed where that is faster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import index
from typing import Any

from lanescope._core import native
from lanescope.calls import checked, shown
from lanescope.compression.array_values import (
    GpuArray,
    LookedAt,
    current_stream,
    gpu_array,
    new_array,
)
from lanescope.compression.channel_setup import (
    AUTO,
    OVER_HOST,
    TO_GPU,
    TO_HOST,
    KernelLoader,
    Shape,
    UpdateKinds,
    base_array,
    codec_of_transfers,
    decider_of,
    path_of,
    require_base_there,
    require_gpus,
    shape_of,
    with_codec,
)
from lanescope.compression.deciding import (
    Always,
    Choices,
    Decider,
    Decision,
    Looks,
    Transfer,
    choose,
)
from lanescope.compression.page_copies import coded
from lanescope.compression.paging import PageTransfers
from lanescope.compression.rule import AT_BEST, links_of_this_machine
from lanescope.compression.stream import Codec
from lanescope.compression.transfers import (
    PATIENCE_SECONDS,
    Log,
    Parcel,
    Record,
    core_errors,
    require_patience,
)
from lanescope.errors import InputError, LanescopeError
from lanescope.units.sizes import Size, size_of

HOST = "host"
PEER = "peer"
_USUAL = {None: TO_HOST, PEER: TO_GPU, HOST: OVER_HOST}
#: By which pinned memory grows: eight arrays of 32 MiB with their entries fit, or two of 128 MiB.
_PIECE_BYTES = 258 << 20
_LOGGED = 1000
_ALIGNMENT = 16


@checked
class Channel(PageTransfers):
    """A way for arrays from a GPU to another one, or to pinned memory of the host and back.

    >>> with lanescope.Channel(0, 1) as channel:  # doctest: +SKIP
    ...     there = channel.send(tensor)
    >>> with lanescope.Channel(0, "host") as channel:  # doctest: +SKIP
    ...     parcel = channel.offload(tensor)
    ...     same = channel.restore(parcel)

    Nothing waits on the host. A transfer comes after what is on the current streams of both GPUs,
    and what is put on them later comes after it, as with copies of PyTorch and CuPy. Arrays come
    out bit by bit as they went in; one that does not is an error, which names the block: of
    `Record.wait`, or else of the channel's next call. May be used by several threads.

    Parameters
    ----------
    source
        The GPU that arrays come from, counted as CUDA does.
    target
        The GPU that they go to, which may be the same, or ``"host"``.
    via
        Which way arrays go to another GPU: ``peer``, straight into its memory, ``host``, by pinned
        memory of the host, as GPUs need that do not reach each other, or ``auto``: peer where it
        can be.
    compression
        ``auto``: where the rule of `lanescope.compression.rule` predicts that it is faster; ``on``,
        ``off``, or a `Decider` of your own.
    codec
        A name of `Codec`, of lanescope's own ones, or ``auto``: the one that makes some blocks of
        the first array of each tag and type smallest.
    sms
        How many SMs codecs use on each side, at most. 0, the default: as many as fill the link
        (between GPUs 64 by `exponent` and 80 to encode, all to decode; with the host 16 by
        `exponent`, 32, and 48 for values of 64 bits).
    slab_bytes
        Of the array, that one kernel codes: a multiple of 64 KiB. By default 128 MiB between GPUs,
        32 MiB between them over the host, 16 MiB to the host: of arrays that come back from there
        one by one 8.
    slots
        Slabs that the receiving side keeps room for; by default 2, and 4 with the host, for three
        quarters of whose bytes it has memory.
    restore_by
        ``staged``: the copy engine brings slabs to the GPU; ``mapped``: kernels read the host's
        memory.
    patience_seconds
        How long `close` waits for what is under way, and, where it is more than 30 s, a GPU for a
        block of another one's.

    Raises
    ------
    InputError
        If there is no such GPU, the two do not reach each other though they shall, or an argument
        is out of range.
    """

    def __init__(
        self,
        source: int,
        target: int | str,
        *,
        compression: str | Decider = AUTO,
        codec: str = AUTO,
        via: str = AUTO,
        sms: int | None = None,
        slab_bytes: Size | None = None,
        slots: int | None = None,
        restore_by: str = "staged",
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._source = _gpu_number(source, "to send from; give a GPU")
        self._target = (
            None if target == HOST else _gpu_number(target, 'to send to; give a GPU or "host"')
        )
        self._codec = codec_of_transfers(codec)
        require_gpus(self._source, *([] if self._target is None else [self._target]))
        self._via = None if self._target is None else _via(via, self._source, self._target)
        usual = _USUAL[self._via]
        self._shape = shape = shape_of(
            usual, None if slab_bytes is None else size_of(slab_bytes), slots, sms
        )
        cost = replace(AT_BEST, slab_bytes=shape.fill_bytes)
        links = links_of_this_machine() if target == HOST and compression == AUTO else None
        self._decider = decider_of(compression, self._codec, cost, links)
        self._log = Log(self._decider, _LOGGED)
        self._kinds = UpdateKinds(over_host=self._via != PEER)
        self._looks = Looks(self._decider, self._codec, self._kinds.note)
        self._choices, self._update_choices = Choices(), Choices()
        self._copiers = {}
        self._closed = False
        if restore_by not in ("staged", "mapped"):
            raise InputError(f"arrays are not restored by {restore_by!r}; give staged or mapped")
        require_patience(patience_seconds)
        with core_errors(), _range_errors():
            self._core: Any = (
                self._to_host(shape, patience_seconds, restore_by)
                if self._target is None
                else self._to_gpu(self._target, shape, patience_seconds)
            )
        self._kernels = KernelLoader(self._core, self._codec)

    def _to_host(self, shape: Shape, patience: float, restore_by: str) -> native.HostChannel:
        return native.HostChannel(
            self._source, shape.slab_bytes, shape.slots, shape.sms, patience, _PIECE_BYTES,
            native.RestoreBy[restore_by],
        )  # fmt: skip

    def _to_gpu(self, target: int, shape: Shape, patience: float) -> native.DeviceChannel:
        return native.DeviceChannel(
            self._source, target, shape.slab_bytes, shape.slots, shape.sms, patience,
            native.Via[self._via or PEER],
        )  # fmt: skip

    def send(self, values: Any, tag: str | None = None, out: Any = None, base: Any = None) -> Any:
        """Send an array to the other GPU.

        Parameters
        ----------
        values
            A tensor of PyTorch or an array of CuPy in the source's memory, in C order.
        tag
            A name for arrays of its kind, about which the rule learns together.
        out
            An array on the other GPU that gets the values, in place of a new one; of as many bytes,
            none of them those of the array to send.
        base
            An array on this GPU, of the same type and shape, of which `out` holds the same values:
            where it pays only the differences travel, and are put onto `out`. Blocks of 64 KiB of
            `out` that hold others stay as they are, and that is reported as damage is. Takes 512
            KiB more for each SM on each GPU.

        Returns
        -------
        Any
            The array on the other GPU: `out`, or a new one of the same shape, type and framework.

        Raises
        ------
        InputError
            If the array cannot be sent, or the channel goes to the host, or is closed.
        LanescopeError
            If a transfer before came in damaged.
        """
        if self._target is None:
            raise InputError("this channel goes to the host; call offload, or name another GPU")
        array = self._begin(values, "the array to send")
        old = base_array(base, self._source, array)
        if old is not None:
            require_base_there(out, self._target)
        where, stream, out = self._room(
            out, array.framework, array.shape, values.dtype, array.bytes
        )
        source_stream = current_stream(array.framework, self._source)
        over = ">host" if self._via == HOST else ""
        path = path_of(f"g{self._source}{over}>g{self._target}", old)
        transfer = Transfer(tag or "", path, array.dtype, array.bytes)
        decision = self._decide(transfer, array, source_stream, old)
        with core_errors():
            ticket = self._core.send(
                array.pointer, where.pointer, array.bytes, *coded(decision, array.dtype),
                source_stream, stream, *self._differing(transfer, decision, old),
            )  # fmt: skip
        self._log.add(
            Record(transfer, decision, ticket, has_base=old is not None and decision.compress),
            learns=True,
        )
        return out

    def offload(self, values: Any, tag: str | None = None, base: Any = None) -> Parcel:
        """Bring an array to pinned memory of the host.

        Parameters
        ----------
        values
            As with `send`. It may be overwritten or freed at once: by what is put on the current
            stream.
        tag
            A name for arrays of its kind, about which the rule learns together.
        base
            An array on this GPU, of the same type and shape, that will be there when the parcel is
            restored: where it pays the parcel holds the differences to it. Takes four slabs of the
            GPU's memory, 64 MiB by default.

        Raises
        ------
        InputError
            If the array cannot be sent, or the channel goes to a GPU, or is closed.
        """
        return self._offload(values, tag, base, joins=True)[0]

    def begin_offload(self, values: Any, tag: str | None = None) -> tuple[Parcel, Record]:
        """Begin to bring an array to pinned memory, while the current stream goes on.

        As `offload`, but only `join` lets a stream wait for the end: until then the array must be
        neither changed nor freed. `restore` of the parcel needs no `join`.

        Parameters
        ----------
        values
            As with `send`.
        tag
            As of `offload`.

        Returns
        -------
        tuple
            The parcel, and the record of the transfer for `join`.

        Raises
        ------
        InputError
            As of `offload`.
        """
        return self._offload(values, tag, None, joins=False)

    def _offload(
        self, values: Any, tag: str | None, base: Any, *, joins: bool
    ) -> tuple[Parcel, Record]:
        self._require_host()
        array = self._begin(values, "the array to offload")
        old = base_array(base, self._source, array)
        stream = current_stream(array.framework, self._source)
        path = path_of(f"g{self._source}>host", old)
        transfer = Transfer(tag or "", path, array.dtype, array.bytes)
        decision = self._decide(transfer, array, stream, old)
        with core_errors():
            held, ticket = self._core.offload(
                array.pointer, array.bytes, *coded(decision, array.dtype), stream,
                *self._differing(transfer, decision, old), joins=joins,
            )  # fmt: skip
        record = Record(transfer, decision, ticket)
        self._log.add(record, learns=True)
        parcel = Parcel(
            array.shape, values.dtype, array.framework, tag or "", decision, array.dtype, held,
            has_base=old is not None,
        )  # fmt: skip
        return parcel, record

    def restore(self, parcel: Parcel, out: Any = None, base: Any = None) -> Any:
        """Bring an array back, as often as wanted; another channel's too.

        Parameters
        ----------
        parcel
            As `offload` returned it. Waits for the end of that.
        out
            An array on this channel's GPU that gets the values, in place of a new one.
        base
            Of a parcel that was offloaded with one: an array on this channel's GPU that holds the
            same values, which may be `out`. If it holds others, `out` stays as it is, and that is
            reported as damage is.

        Returns
        -------
        Any
            `out`, or a new array of the shape, type and framework of the one that was offloaded.

        Raises
        ------
        InputError
            If `out` does not fit, or the channel goes to a GPU, or is closed.
        LanescopeError
            If a transfer before came in damaged.
        """
        return self._restore(parcel, out, base, joins=True)[0]

    def begin_restore(self, parcel: Parcel, out: Any) -> Record:
        """Begin to bring an array back, while the current stream goes on.

        As `restore`, but only `join` lets a stream wait for the end: until then `out` must be
        neither used nor freed.

        Parameters
        ----------
        parcel
            As of `restore`.
        out
            An array on this channel's GPU that gets the values.

        Returns
        -------
        Record
            Of the transfer, for `join`.

        Raises
        ------
        InputError, LanescopeError
            As of `restore`, or if `out` is None or the parcel needs a base.
        """
        if out is None:  # a new array would be freed while its values come
            raise InputError("begin_restore makes no array; give one of the parcel's size as out=")
        return self._restore(parcel, out, None, joins=False)[1]

    def _restore(self, parcel: Parcel, out: Any, base: Any, *, joins: bool) -> tuple[Any, Record]:
        self._require_host()
        if not isinstance(parcel, Parcel):
            raise InputError("restore takes a parcel, which offload returns")
        self._require_open()
        self._log.settle()
        old = self._base_of(parcel, base)
        where, stream, out = self._room(
            out, parcel.framework, parcel.shape, parcel.dtype, parcel.bytes
        )
        if parcel.held.compressed and where.pointer % _ALIGNMENT:
            raise InputError(
                f"the array for the values does not begin at a multiple of {_ALIGNMENT} bytes; "
                "give one that does"
            )
        transfer = Transfer(parcel.tag, f"host>g{self._source}", parcel.kind, parcel.bytes)
        with core_errors():
            ticket = self._core.restore(
                parcel.held, where.pointer, stream, 0 if old is None else old.pointer, joins=joins
            )
        has_base = old is not None and parcel.held.compressed
        record = Record(transfer, parcel.decision, ticket, has_base=has_base)
        self._log.add(record, learns=False)
        return out, record

    def join(self, record: Record, stream: int) -> None:
        """Let what is put on a stream later wait for the end of a transfer.

        Parameters
        ----------
        record
            As `begin_offload` and `begin_restore` returned it.
        stream
            A CUDA stream of this channel's GPU, such as PyTorch's
            ``torch.cuda.current_stream().cuda_stream``.

        Raises
        ------
        InputError
            If the channel goes to a GPU, or is closed, which waits for all transfers itself.
        """
        self._require_host()
        self._require_open()
        with core_errors():
            self._core.join(record.ticket, stream)

    @property
    def shape(self) -> Shape:
        """Slabs, slots and SMs, as given or usual."""
        return self._shape

    def synchronize(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for all that is under way.

        Raises
        ------
        LanescopeError
            If something came in damaged, or it takes longer than that.
        """
        require_patience(patience_seconds)
        failures = []
        for record in self._log.under_way():
            try:
                record.wait(patience_seconds)
            except LanescopeError as error:  # the others shall have ended, too
                failures.append(error)
        self._log.settle()
        if failures:
            raise failures[0]

    def prepare(self, size: Size) -> None:
        """Pin the host's memory for arrays of `size` bytes now, which takes longer than copying."""
        self._require_host()
        self._require_open()
        with core_errors(), _range_errors():
            self._core.prepare(size_of(size))

    @property
    def pinned_bytes(self) -> int:
        """Memory of the host that the channel has pinned, taken or not."""
        self._require_host()
        with core_errors():
            return int(self._core.pinned_bytes)

    def close(self) -> None:
        """Wait for what is under way, and give back the memory; of parcels with the last of them.

        Raises
        ------
        LanescopeError
            If something came in damaged of which nobody was told.
        """
        if self._closed:
            return
        self._closed = True
        self._core.close()
        self._log.settle()

    def _begin(self, values: Any, what: str) -> GpuArray:
        self._require_open()
        array = gpu_array(values, self._source, what)
        self._log.settle()
        return array

    def _room(
        self, out: Any, framework: str, shape: tuple[int, ...], dtype: Any, size: int
    ) -> tuple[GpuArray, int, Any]:
        """Return where values go, and the stream that this is ordered by."""
        gpu = self._source if self._target is None else self._target
        if out is None:
            out = new_array(framework, shape, dtype, gpu)
        room = gpu_array(out, gpu, "the array for the values")
        if room.bytes != size:
            raise InputError(
                f"the array for the values has {room.bytes} bytes, and {size} come; give one of as "
                "many"
            )
        return room, current_stream(room.framework, gpu), out

    def _base_of(self, parcel: Parcel, base: Any) -> GpuArray | None:
        """Return the base that a parcel is put onto, or None where it needs none."""
        if (base is not None) is not parcel.has_base:
            raise InputError(
                "the parcel was offloaded with a base; give restore the same values as base="
                if parcel.has_base
                else "the parcel holds the whole array and needs no base; leave out base="
            )
        if base is None:
            return None
        old = gpu_array(base, self._source, "the base")
        if (old.bytes, old.dtype) != (parcel.bytes, parcel.kind):
            raise InputError(
                f"the base has {old.bytes} bytes of {old.dtype}, and the parcel {parcel.bytes} of "
                f"{parcel.kind}; give the array that it was offloaded with"
            )
        if parcel.held.compressed and old.pointer % _ALIGNMENT:
            raise InputError(
                f"the base does not begin at a multiple of {_ALIGNMENT} bytes; give one that does"
            )
        return old

    def _differing(
        self, transfer: Transfer, decision: Decision, base: GpuArray | None
    ) -> tuple[native.UpdateKind, int] | tuple[()]:
        """Return what the core needs to know of an update; nothing of what is none."""
        if base is None or not decision.compress:
            return ()
        return self._kinds.of(transfer, decision.codec), base.pointer

    def _decide(
        self, transfer: Transfer, array: LookedAt, stream: int, base: GpuArray | None = None
    ) -> Decision:
        """Return the decision with the codec that is to be used."""
        self._looks.before(transfer, array, stream, base)
        decision = self._decider.decide(transfer)
        if not isinstance(self._decider, Always) or decision.compress:
            self._kernels.load(transfer.dtype)
        return with_codec(
            decision, transfer, self._codec, lambda: self._choose(transfer, array, stream, base)
        )

    def _choose(
        self, transfer: Transfer, array: LookedAt, stream: int, base: GpuArray | None
    ) -> tuple[Codec, int]:
        with core_errors():
            if base is None:
                return self._choices.of(transfer, lambda: choose(array, stream))
            return self._update_choices.of(
                transfer, lambda: self._kinds.choose(transfer, array, base, stream)
            )

    def _require_open(self) -> None:
        if self._closed:
            raise InputError("the channel is closed; make a new one")

    def _require_host(self) -> None:
        if self._target is not None:
            raise InputError('this channel goes to a GPU; call send, or name "host" as the target')


def _gpu_number(place: int | str, what: str) -> int:
    try:
        return index(place)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{shown(place)} is no place {what}") from None


def _via(via: str, source: int, target: int) -> str:
    """Return which way arrays go: peer or host."""
    if via not in (AUTO, PEER, HOST):
        raise InputError(f"arrays do not go via {via!r}; give auto, peer or host")
    if via != AUTO:
        return via
    with core_errors():
        return PEER if source == target or native.reach_each_other(source, target) else HOST


@contextmanager
def _range_errors() -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise InputError(
            "slab_bytes, slots, sms and sizes are whole numbers that are not negative"
        ) from error
