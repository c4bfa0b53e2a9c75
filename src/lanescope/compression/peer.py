"""Arrays between GPUs of two processes of a node, compressed where that is faster.

Both halves of such a channel, and what they have in common.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Any

from lanescope._core import native
from lanescope._version import __version__
from lanescope.calls import checked
from lanescope.compression import meeting
from lanescope.compression.array_values import (
    GpuArray,
    current_stream,
    dtype_name,
    gpu_array,
    new_array,
)
from lanescope.compression.channel_setup import (
    AUTO,
    TO_GPU,
    KernelLoader,
    codec_of_transfers,
    decider_of,
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
    decided,
    dtype_of,
)
from lanescope.compression.rule import AT_BEST
from lanescope.compression.stream import Codec
from lanescope.compression.transfers import (
    PATIENCE_SECONDS,
    Log,
    Logged,
    Record,
    Ticket,
    core_errors,
    require_patience,
)
from lanescope.engine.process import Message
from lanescope.errors import InputError, LanescopeError
from lanescope.units.sizes import Size, size_of

_LOGGED = 1000
#: For what the other process had done before it ended, to come to its end here.
_GRACE_SECONDS = 0.2
_LOOK_SECONDS = 0.001
_ALIGNMENT = 16
_NOT_ALIGNED = "the array is not aligned to 16 bytes"


class PeerTransfer:
    """A transfer that may be lost with the other process; `tell` is called where that is raised."""

    def __init__(self, ticket: Ticket, tell: Callable[[], None]) -> None:
        self._ticket, self._tell = ticket, tell
        self.begun = time.monotonic()
        self.lost = ""

    @property
    def seconds(self) -> float:
        """What it took on the GPU."""
        return self._ticket.seconds

    @property
    def bytes(self) -> int:
        """Of the array."""
        return self._ticket.bytes

    @property
    def wire_bytes(self) -> int:
        """What crossed the link."""
        return self._ticket.wire_bytes

    @property
    def compressed(self) -> bool:
        """Whether it was."""
        return self._ticket.compressed

    @property
    def why_raw(self) -> str:
        """Why it was not, although it was to be."""
        return self._ticket.why_raw

    def done(self) -> bool:
        """Return whether it has ended."""
        return self._ticket.done()

    def damage(self) -> str:
        """Return what was lost or damaged; empty if nothing."""
        return self.lost or self._ticket.damage()

    def wait(self, patience_s: float) -> None:
        """Return when it has ended; raises `LanescopeError` where it was lost."""
        try:
            self._ticket.wait(patience_s)
        except native.NativeError:
            if not self.lost:
                raise
        if self.lost:
            self._tell()
            raise LanescopeError(f"{self.lost}; send it again over a new channel")


class Half(Logged):
    """What the halves have: the core's, the line to the other process, and what is under way."""

    _who: str

    def __init__(self, gpu: int, decider: Decider, patience_seconds: float) -> None:
        self._gpu, self._patience = gpu, patience_seconds
        self._log = Log(decider, _LOGGED)
        self._lock = Lock()
        self._under_way: deque[PeerTransfer] = deque()
        self._core: Any = None
        self._line: meeting.PeerConnection | None = None
        self._closed = False
        self._why_lost = ""
        self._loss_raised = False
        self._ended_without_word = False
        self._takes = False

    def close(self) -> None:
        """Wait for what is under way, and for the other process to close its half, or to end.

        Raises
        ------
        LanescopeError
            If something was lost or came in damaged of which nobody was told.
        """
        if self._closed:
            return
        self._closed = True
        line = self._line
        if self._core is not None and line is not None:
            self._core.detach()
            with suppress(LanescopeError):  # it may have ended
                line.tell({"over": True})
            # it uses this process's memory until then
            line.wait_for_end(self._patience)
            line.close()
            self._core = None
        self._settle()

    def finish(self, patience_seconds: float) -> None:
        """Wait for what is under way, and say to the other process that no more comes.

        For the end of a process, which does not wait for the other one's as `close` does.

        Raises
        ------
        LanescopeError
            If something was lost or came in damaged of which nobody was told.
        """
        if self._closed or self._line is None:
            return
        self._wait_for_transfers(patience_seconds)
        with suppress(LanescopeError):  # it may have ended
            self._line.tell({"over": True})
        self._settle()

    def _settle(self) -> None:
        """Raise what was lost or damaged, unless the caller was told of the channel's end."""
        try:
            self._log.settle()
        except LanescopeError as error:
            if not (self._loss_raised and str(error).startswith(self._why_lost)):
                raise

    def _tell_loss(self) -> None:
        self._loss_raised = True

    def _watch(self, ticket: Ticket) -> PeerTransfer:
        watched = PeerTransfer(ticket, self._tell_loss)
        with self._lock:
            while self._under_way and self._has_ended(self._under_way[0]):
                self._under_way.popleft()
            self._under_way.append(watched)
            if self._why_lost:
                watched.lost = self._why_lost
        return watched

    @staticmethod
    def _has_ended(watched: PeerTransfer) -> bool:
        try:
            return watched.done()
        except native.NativeError:  # whoever waits for it is told
            return True

    def _ended(self, over: bool) -> None:
        """Take in that the other process has said that it is over, or has ended without that."""
        # What it had done comes to its end here some microseconds later, and is not lost.
        self._ended_without_word = not over
        self._wait_for_transfers(_GRACE_SECONDS)
        if not over and not self._still_comes():
            self._lose("has ended")
        elif self._who == "receiving" and not self._closed:  # and takes nothing more
            self._lose("has closed the channel")

    def _still_comes(self) -> bool:
        """Whether the other process, which has ended, has sent what is to be received yet."""
        with self._lock:
            if any(not self._has_ended(one) for one in self._under_way):
                return False
        waiting = () if self._line is None else self._line.waiting
        withdrawn = any("withdrawn" in one for one in waiting)
        return self._who == "sending" and not withdrawn and (bool(waiting) or self._takes)

    def _wait_for_transfers(self, patience_seconds: float) -> None:
        """Return when what is under way has ended, or the channel was given up, or it is late."""
        late = time.monotonic() + patience_seconds
        while not self._why_lost and time.monotonic() < late:
            with self._lock:
                if all(self._has_ended(one) for one in self._under_way):
                    return
            time.sleep(_LOOK_SECONDS)

    def _lose(self, why: str) -> None:
        """Let this GPU go on where it waits for the other process, of which `why` tells."""
        self._break(f"the {self._who} process {why} amid the transfer")

    def _failure(self, error: LanescopeError) -> LanescopeError:
        """Let both GPUs go on: this process could not do what was announced. Return what to raise.

        Where the channel has been given up meanwhile, the reason for that.
        """
        if self._why_lost:
            return self._loss()
        assert self._line is not None
        with suppress(LanescopeError):  # it may have ended
            self._line.tell({"withdrawn": True})
        self._line.close()
        self._break("a transfer could not be put on the GPU's streams")
        return error

    def _break(self, why: str) -> None:
        with self._lock:
            core = self._core
            if self._why_lost or core is None:
                return
            self._why_lost = why
            for watched in self._under_way:
                if not self._has_ended(watched):
                    watched.lost = why
        core.give_up()

    def _look(self) -> None:
        """Give up where a transfer takes longer than the patience."""
        with self._lock:
            late = [
                one
                for one in self._under_way
                if time.monotonic() - one.begun > self._patience and not self._has_ended(one)
            ]
        if late:
            self._lose(f"was late by more than {self._patience:g} s")

    def _require_open(self) -> None:
        if self._closed:
            raise InputError("the channel is closed; make a new one")
        if self._why_lost:
            raise self._loss()

    def _loss(self) -> LanescopeError:
        self._loss_raised = True
        return LanescopeError(f"{self._why_lost}; make a new channel")

    def _agree(self, line: meeting.PeerConnection, others: bytes) -> None:
        """Attach the other process's memory; both say whether they could."""
        why = ""
        try:
            self._core.attach(others)
        except native.NativeError as error:
            why = f"{error.args[0]} failed: {error.args[3]}"
        line.tell({"attached": why})
        said = str(line.hear(self._patience)["attached"])
        if why or said:
            where = f"this process ({why})" if why else f"the {self._who} process ({said})"
            raise LanescopeError(
                f"the GPUs of the two processes cannot use each other's memory: {where}; send by "
                "other means, as torch.distributed"
            )


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
        self._line = line = meeting.PeerConnection(
            connection, self._ended, self._look, patience_seconds
        )
        parts = {"slab_bytes": shape.slab_bytes, "slots": shape.slots, "sms": shape.sms}
        try:
            with core_errors():
                self._core = native.PeerSender(
                    gpu, shape.slab_bytes, shape.slots, shape.sms, patience_seconds
                )
            self._kernels = KernelLoader(self._core, self._codec)
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
        self._line = line = meeting.PeerConnection(
            connection, self._ended, self._look, patience_seconds
        )
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
        self._wait_for_transfers(_GRACE_SECONDS)
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
