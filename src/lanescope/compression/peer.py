"""Arrays between GPUs of two processes of a node, compressed where that is faster."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lanescope._core import native
from lanescope._version import __version__
from lanescope.calls import checked
from lanescope.compression import meeting
from lanescope.compression.channel_setup import (
    AUTO,
    TO_GPU,
    Kernels,
    codec_of_transfers,
    decider_of,
    require_gpus,
    shape_of,
    with_codec,
)
from lanescope.compression.deciding import (
    Always,
    Choices,
    Decision,
    Looks,
    Transfer,
    choose,
    decided,
    dtype_of,
)
from lanescope.compression.gpu_arrays import (
    GpuArray,
    current_stream,
    dtype_name,
    gpu_array,
    new_array,
)
from lanescope.compression.peer_half import GRACE_SECONDS, Half
from lanescope.compression.rule import AT_BEST
from lanescope.compression.stream import Codec
from lanescope.compression.transfers import (
    PATIENCE_SECONDS,
    Record,
    core_errors,
    require_patience,
)
from lanescope.engine.process import Message
from lanescope.errors import InputError, LanescopeError
from lanescope.units.sizes import Size, size_of

_ALIGNMENT = 16
_NOT_ALIGNED = "the array is not aligned to 16 bytes"


@checked
class PeerSender(Half):
    """Sends arrays from a GPU to the GPU of another process of this node, or to the same one.

    >>> with PeerSender(0, "/tmp/between") as channel:  # doctest: +SKIP
    ...     channel.send(tensor)

    The other process has a `PeerReceiver`, and calls `receive` for each array. Nothing waits on the
    host for transfers. May be used by one thread at a time.

    Parameters
    ----------
    gpu
        That arrays come from, counted as CUDA does.
    meet
        Where the processes meet: the path of a socket, which the receiver makes; or
        `lanescope.compression.meeting.InStore` or `ByMpi`.
    compression, codec, sms, slab_bytes, slots
        As with `lanescope.Channel`.
    patience_seconds
        How long to wait for the other process: to meet, to take or bring an array, to close. Then
        the channel gives up.

    Raises
    ------
    InputError
        If there is no such GPU, or an argument is out of range.
    LanescopeError
        If the other process does not come, or their GPUs do not reach each other.
    """

    _who = "receiving"

    def __init__(
        self,
        gpu: int,
        meet: Any,
        *,
        compression: str = AUTO,
        codec: str = AUTO,
        sms: int | None = None,
        slab_bytes: Size | None = None,
        slots: int | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        require_gpus(gpu)
        require_patience(patience_seconds)
        place = meeting.meeting_of(meet)
        self._codec = codec_of_transfers(codec)
        shape = shape_of(TO_GPU, None if slab_bytes is None else size_of(slab_bytes), slots, sms)
        cost = replace(AT_BEST, slab_bytes=shape.fill_bytes)
        self._decider = decider_of(compression, self._codec, cost)
        super().__init__(gpu, self._decider, patience_seconds)
        self._looks = Looks(self._decider, self._codec)
        self._choices = Choices()
        self._number = secrets.randbits(48)
        # Before anything of the GPU's can fail: or the receiving process would wait in vain.
        connection = meeting.connect(place, patience_seconds)
        self._line = line = meeting.Line(connection, self._ended, self._look, patience_seconds)
        parts = {"slab_bytes": shape.slab_bytes, "slots": shape.slots, "sms": shape.sms}
        try:
            with core_errors():
                self._core = native.PeerSender(
                    gpu, shape.slab_bytes, shape.slots, shape.sms, patience_seconds
                )
            self._kernels = Kernels(self._core, self._codec)
            line.tell({"version": __version__, "handle": self._core.handle.hex(), **parts})
            self._agree(line, bytes.fromhex(line.hear(patience_seconds)["handle"]))
        except LanescopeError:
            line.close()
            raise

    def send(self, values: Any, tag: str | None = None) -> None:
        """Send an array, behind what is on the current stream; later work on it may change it.

        Parameters
        ----------
        values
            A tensor of PyTorch or an array of CuPy in the GPU's memory, in C order.
        tag
            A name for arrays of its kind, about which the rule learns together.

        Raises
        ------
        InputError
            If the array cannot be sent, or the channel is closed.
        LanescopeError
            If the other process has ended or was late.
        """
        self._require_open()
        array = gpu_array(values, self._gpu, "the array to send")
        self._log.settle()
        stream = current_stream(array.framework, self._gpu)
        transfer = Transfer(tag or "", f"g{self._gpu}>process", array.dtype, array.bytes)
        self._put(array, values, transfer, self._decide(transfer, array, stream), stream)

    def send_as(self, values: Any, transfer: Transfer, decision: Decision) -> Record:
        """Send an array as somebody else has decided, who learns from what became of it.

        Parameters
        ----------
        decision
            With a codec that takes the values; arrays not aligned to 16 bytes go as they are.

        Raises
        ------
        InputError, LanescopeError
            As with `send`.
        """
        self._require_open()
        array = gpu_array(values, self._gpu, "the array to send")
        self._kernels.load(array.dtype)
        stream = current_stream(array.framework, self._gpu)
        if array.pointer % _ALIGNMENT:
            decision = replace(decision, compress=False, codec=Codec.RAW, reason=_NOT_ALIGNED)
        record = self._put(array, values, transfer, decision, stream)
        self._log.settle()  # while the array is on its way
        return record

    def announce(self, note: str) -> None:
        """Say something between arrays, which `PeerReceiver.hear` returns in the same order.

        Raises
        ------
        InputError, LanescopeError
            As with `send`.
        """
        self._require_open()
        assert self._line is not None
        self._line.tell({"note": note})

    def _put(
        self, array: GpuArray, values: Any, transfer: Transfer, decision: Decision, stream: int
    ) -> Record:
        assert self._line is not None
        codec = str(decision.codec) if decision.compress else None
        self._number += 1
        what = _what(
            array.bytes, codec, array.dtype, decision.dimensionality, values.dtype, array.shape
        )
        self._line.tell_packet(b'{"number": %d, %s' % (self._number, what))
        try:
            with core_errors():
                ticket = self._core.send(
                    array.pointer, self._number, array.bytes,
                    None if codec is None else native.Codec[codec], dtype_of(array.dtype),
                    decision.dimensionality, stream,
                )  # fmt: skip
        except LanescopeError as error:
            raise self._failure(error) from error
        record = Record(transfer, decision, self._watch(ticket))
        self._log.add(record, learns=True)
        return record

    def _decide(self, transfer: Transfer, array: GpuArray, stream: int) -> Decision:
        """Return the decision with the codec that is to be used."""
        self._looks.before(transfer, array, stream)
        decision = self._decider.decide(transfer)
        if not isinstance(self._decider, Always) or decision.compress:
            self._kernels.load(transfer.dtype)
        if decision.compress and array.pointer % _ALIGNMENT:
            return replace(decision, compress=False, codec=Codec.RAW, reason=_NOT_ALIGNED)
        return with_codec(
            decision, transfer, self._codec, lambda: self._choose(transfer, array, stream)
        )

    def _choose(self, transfer: Transfer, array: GpuArray, stream: int) -> tuple[Codec, int]:
        with core_errors():
            return self._choices.of(transfer, lambda: choose(array, stream))


@checked
class PeerReceiver(Half):
    """Receives what a `PeerSender` of another process sends.

    >>> with PeerReceiver(1, "/tmp/between") as channel:  # doctest: +SKIP
    ...     tensor = channel.receive()

    Parameters
    ----------
    gpu
        That arrays go to, counted as CUDA does. The slots take its memory, 256 MiB as a rule.
    meet, patience_seconds
        As with `PeerSender`.

    Raises
    ------
    InputError, LanescopeError
        As with `PeerSender`.
    """

    _who = "sending"

    def __init__(self, gpu: int, meet: Any, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        require_gpus(gpu)
        require_patience(patience_seconds)
        place = meeting.meeting_of(meet)
        super().__init__(gpu, Always(False), patience_seconds)
        self._announced: Message | None = None
        connection = meeting.listen(place, patience_seconds)
        self._line = line = meeting.Line(connection, self._ended, self._look, patience_seconds)
        try:
            said = line.hear(patience_seconds)
            if said["version"] != __version__:
                raise LanescopeError(
                    f"the sending process has lanescope {said['version']}, and this one "
                    f"{__version__}; use the same in both"
                )
            with core_errors():
                self._core = native.PeerReceiver(
                    gpu, said["slab_bytes"], said["slots"], said["sms"], patience_seconds
                )
            line.tell({"handle": self._core.handle.hex()})
            self._agree(line, bytes.fromhex(said["handle"]))
        except LanescopeError:
            line.close()
            raise

    def receive(self, out: Any = None, framework: str = "torch") -> Any:
        """Return the next array that the other process sends; the host waits until it is announced.

        What is put on the current stream later comes after it.

        Parameters
        ----------
        out
            An array of the same type and number of values in the GPU's memory, in C order, that
            gets the values in place of a new one.
        framework
            Of a new array: ``torch`` or ``cupy``.

        Raises
        ------
        InputError
            If `out` does not fit; what was sent is taken all the same.
        LanescopeError
            If none comes in time, or the other process has ended or closed its half.
        """
        self._takes = True
        try:
            return self._take(self._next(), out, framework)
        finally:
            self._takes = False

    def hear(self) -> str | None:
        """Return the next note that the other process announces; None where an array comes first.

        Raises
        ------
        LanescopeError
            As with `receive`.
        """
        self._takes = True  # until `receive`, where an array comes
        said = self._next()
        if "note" not in said:
            self._announced = said
            return None
        self._takes = False
        return str(said["note"])

    def _next(self) -> Message:
        """Return what the other process says next."""
        self._require_open()
        if self._announced is not None:
            said, self._announced = self._announced, None
            return said
        assert self._line is not None
        self._log.settle()
        said = self._line.hear(self._patience)
        if "withdrawn" in said:
            self._lose("has ended")
            raise self._loss()
        return said

    def _take(self, said: Message, out: Any, framework: str) -> Any:
        if "note" in said:
            raise LanescopeError("a note came, and no array; call hear before receive")
        wrong = ""
        room = out
        if out is not None:
            try:
                array = gpu_array(out, self._gpu, "the array for the values")
                wrong = _unlike(array, out, said)
            except InputError as error:
                wrong = str(error)
        if out is None or wrong:
            if out is not None:
                framework = "torch" if type(out).__module__.startswith("torch") else framework
            room = _new(framework, said, self._gpu)
            array = gpu_array(room, self._gpu, "the array for the values")
        try:
            self._get(said, array)
            if self._ended_without_word:
                self._require_come()
        except LanescopeError:
            if not wrong:
                raise
        if wrong:  # also where its process has ended meanwhile
            raise InputError(wrong)
        return room

    def _get(self, said: Message, array: GpuArray) -> None:
        assert self._line is not None
        codec, coded = said["codec"], said["coded"]
        try:
            with core_errors():
                ticket = self._core.receive(
                    array.pointer, said["number"], said["bytes"],
                    None if codec is None else native.Codec[codec], dtype_of(coded),
                    said["dimensionality"], current_stream(array.framework, self._gpu),
                )  # fmt: skip
        except LanescopeError as error:
            raise self._failure(error) from error
        transfer = Transfer("", f"process>g{self._gpu}", coded, said["bytes"])
        dimensionality = said["dimensionality"]
        decision = decided(
            codec is not None, codec or "raw", dimensionality, reason="as it was sent"
        )
        self._log.add(Record(transfer, decision, self._watch(ticket)), learns=False)

    def _require_come(self) -> None:
        """Refuse what does not come any more, from a process that has ended."""
        self._wait_for_transfers(GRACE_SECONDS)
        with self._lock:
            late = any(not self._has_ended(one) for one in self._under_way)
        if late:
            self._lose("has ended")
        if self._why_lost:
            raise self._loss()


@lru_cache(1024)
def _what(
    size: int,
    codec: str | None,
    coded: str,
    dimensionality: int,
    dtype: Any,
    shape: tuple[int, ...],
) -> bytes:
    """Return all of an announcement but the number, which comes before."""
    message = {
        "bytes": size,
        "codec": codec,
        "coded": coded,
        "dimensionality": dimensionality,
        "dtype": dtype_name(dtype),
        "shape": shape,
    }
    return json.dumps(message)[1:].encode()


def _unlike(array: GpuArray, out: Any, said: Message) -> str:
    """Return why an array cannot take what comes; empty if it can."""
    dtype = dtype_name(out.dtype)
    if array.bytes != said["bytes"] or dtype != said["dtype"]:
        return (
            f"the sending process sent {said['dtype']} of shape {tuple(said['shape'])}, and the "
            f"array for the values is {dtype} of shape {array.shape}; give both sides like arrays"
        )
    if said["codec"] is not None and array.pointer % _ALIGNMENT:
        return (
            "the array for the values does not begin at a multiple of 16 bytes; give one that does"
        )
    return ""


def _new(framework: str, said: Message, gpu: int) -> Any:
    dtype = said["dtype"]
    if framework == "torch":
        import torch

        dtype = getattr(torch, dtype)
    return new_array(framework, tuple(said["shape"]), dtype, gpu)
