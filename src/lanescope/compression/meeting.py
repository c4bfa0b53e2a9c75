"""How two processes of a node find each other, and the line between them until one ends."""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Protocol
from weakref import WeakSet

from lanescope.calls import checked
from lanescope.engine.process import Message
from lanescope.errors import InputError, LanescopeError

_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 0.02
#: A thread that sleeps wakes up some 50 us late: so long it looks again and again.
_EAGER_SECONDS = 300e-6
_MOST_BYTES = 1 << 16
#: How a packet about an array begins.
_NUMBER = b'{"number": '
_END = select.EPOLLRDHUP  # and what is always told: EPOLLHUP, EPOLLERR


class Meeting(Protocol):
    """Brings the address at which one process listens to the other."""

    def offer(self, address: str) -> None:
        """Leave it for the other process."""

    def look(self, patience_seconds: float) -> str:
        """Return what the other process has left, once it is there."""


@dataclass(frozen=True, slots=True)
class AtPath:
    """By the path of a socket, which both are given; nothing else has that name."""

    path: str

    def offer(self, address: str) -> None:
        """Leave nothing: the path is the address."""

    def look(self, patience_seconds: float) -> str:
        """Return the path."""
        return self.path


@dataclass(frozen=True, slots=True)
@checked
class InStore:
    """By a store of ``torch.distributed``, or any that has `set`, `get` and `delete_key`.

    Attributes
    ----------
    name
        Of this channel among those that use the store.
    """

    store: Any
    name: str = "channel"

    def offer(self, address: str) -> None:
        """Write the address."""
        self.store.set(f"lanescope/meet/{self.name}", address)

    def look(self, patience_seconds: float) -> str:
        """Read it, and take it away. Raises `LanescopeError` where it does not come in time."""
        from datetime import timedelta

        key = f"lanescope/meet/{self.name}"
        try:
            self.store.wait([key], timedelta(seconds=patience_seconds))
            address = self.store.get(key)
            self.store.delete_key(key)
        except RuntimeError as error:
            raise LanescopeError(
                f"no process has offered the channel {self.name!r} in the store within "
                f"{patience_seconds:g} s; start the receiving one"
            ) from error
        return address.decode() if isinstance(address, bytes) else str(address)


@dataclass(frozen=True, slots=True)
@checked
class ByMpi:
    """By a communicator of mpi4py.

    Attributes
    ----------
    peer
        The rank of the other process.
    tag
        Of the message, which no other has.
    """

    communicator: Any
    peer: int
    tag: int = 2718

    def offer(self, address: str) -> None:
        """Send the address."""
        self.communicator.send(address, dest=self.peer, tag=self.tag)

    def look(self, patience_seconds: float) -> str:
        """Receive it. Raises `LanescopeError` where it does not come in time."""
        late = time.monotonic() + patience_seconds
        while not self.communicator.iprobe(source=self.peer, tag=self.tag):
            if time.monotonic() > late:
                raise LanescopeError(
                    f"rank {self.peer} has not offered a channel within {patience_seconds:g} s; "
                    "let it make the receiving half"
                )
            time.sleep(_RETRY_SECONDS)
        return str(self.communicator.recv(source=self.peer, tag=self.tag))


def meeting_of(meet: Any) -> Meeting:
    """Return how to meet: a path, or what has `offer` and `look`. Raises `InputError`."""
    if isinstance(meet, str | os.PathLike):
        return AtPath(os.fspath(meet))
    if hasattr(meet, "offer") and hasattr(meet, "look"):
        found: Meeting = meet
        return found
    raise InputError(
        "processes meet at the path of a socket, by InStore(store, name) or by ByMpi(communicator, "
        f"peer), not by {type(meet).__name__}"
    )


def listen(meeting: Meeting, patience_seconds: float) -> socket.socket:
    """Return the connection that the other process has made.

    Raises
    ------
    InputError
        If the path cannot be used.
    LanescopeError
        If it does not come in time.
    """
    path = meeting.path if isinstance(meeting, AtPath) else ""
    address = path or f"\0lanescope-{secrets.token_hex(16)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            listener.bind(address)
        except OSError as error:
            raise InputError(f"{path} cannot be a socket: {error.strerror}; name another") from None
        try:
            listener.listen(1)
            meeting.offer(address.replace("\0", "@"))
            listener.settimeout(patience_seconds)
            connection, _ = listener.accept()
        except TimeoutError:
            raise LanescopeError(
                f"no process has come to the channel within {patience_seconds:g} s; start the "
                "sending one"
            ) from None
        finally:
            if path:
                with suppress(OSError):
                    Path(path).unlink()
    return _of_same_user(connection)


def connect(meeting: Meeting, patience_seconds: float) -> socket.socket:
    """Return a connection to the process that listens.

    Raises
    ------
    LanescopeError
        If it does not listen in time.
    """
    late = time.monotonic() + patience_seconds
    address = meeting.look(patience_seconds)
    if address.startswith("@"):
        address = "\0" + address[1:]
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(address)
        except OSError as error:
            connection.close()
            if time.monotonic() > late:
                raise LanescopeError(
                    f"no process receives at {address.lstrip(chr(0))} after "
                    f"{patience_seconds:g} s ({error.strerror}); start the receiving one, on this "
                    "node and in the same container"
                ) from None
            time.sleep(_RETRY_SECONDS)
        else:
            return _of_same_user(connection)


def _of_same_user(connection: socket.socket) -> socket.socket:
    form = struct.Struct("3i")
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size)
    _, user, _ = form.unpack(told)
    if user != os.geteuid():
        connection.close()
        raise LanescopeError(f"a process of user {user} came to the channel; it is refused")
    return connection


def read_packet(packet: bytes) -> Message:
    """Return the message of a packet. Raises `ValueError` if it is none.

    Packets about arrays of a kind differ by their number alone, which stands first: what is known
    of the rest already takes two microseconds less, for which the receiver's GPU would wait.
    """
    if not packet.startswith(_NUMBER):
        found: Message = json.loads(packet)
        return found
    number, _, rest = packet[len(_NUMBER) :].partition(b", ")
    return {"number": int(number), **_rest_of(rest)}


@lru_cache(256)
def _rest_of(packet: bytes) -> Message:
    found: Message = json.loads(b"{" + packet)
    return found


#: Those with a thread, which ends before Python does: a thread that comes back from the core to a
#: Python that ends is ended by Python amid C++, which ends the process with an error.
_open: WeakSet[PeerConnection] = WeakSet()
#: After what lets transfers end (`lanescope.torch.ranks`).
_STOP_PRIORITY = 50
#: The process that ends them; a forked one has none of their threads.
_stops_in = 0


def _stop_at_exit(line: PeerConnection) -> None:
    global _stops_in
    if _stops_in != os.getpid():
        _stops_in = os.getpid()
        _open.clear()
        Finalize(None, _stop_all, exitpriority=_STOP_PRIORITY)
    _open.add(line)


def _stop_all() -> None:
    for line in tuple(_open):
        line.stop()


class PeerConnection:
    """Messages to and from the other process; notices its end.

    Whoever waits for a message reads it from the connection itself: a thread that hands it over
    would cost two changes of threads. While nobody does, a thread takes what comes, so that the
    other process need not wait for room.

    Parameters
    ----------
    ended
        Called once, in a thread of its own, when the other process has said that it is over (True),
        or has ended without a word.
    look
        Called every second.
    patience_seconds
        How long to wait for room for a message.
    """

    def __init__(
        self,
        connection: socket.socket,
        ended: Callable[[bool], None],
        look: Callable[[], None],
        patience_seconds: float,
    ) -> None:
        self._connection, self._patience = connection, patience_seconds
        connection.setblocking(False)
        self._ended, self._look = ended, look
        self._reading = Lock()
        self._room = bytearray(_MOST_BYTES)
        self._heard: deque[Message] = deque()
        self._over = self._at_end = self._closed = self._gone = False
        self._epoll = select.epoll()
        self._epoll.register(connection, _END | select.EPOLLIN)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._thread = Thread(target=self._watch, name="lanescope-line", daemon=True)
        _stop_at_exit(self)
        self._thread.start()

    def tell(self, message: Message) -> None:
        """Send a message. Raises `LanescopeError` where the other process has ended or is late."""
        self.tell_packet(json.dumps(message).encode(), ends="over" in message)

    def tell_packet(self, packet: bytes, *, ends: bool = False) -> None:
        """Send a message that is made already; `ends`: the last one."""
        try:
            try:
                self._connection.send(packet)
            except BlockingIOError:
                self._wait_for(select.POLLOUT, self._patience)
                self._connection.send(packet)
            if ends:
                self._connection.shutdown(socket.SHUT_WR)
        except BlockingIOError as error:
            raise LanescopeError(
                "the other process of the channel takes no arrays; let it receive them"
            ) from error
        except OSError as error:
            raise LanescopeError(
                "the other process of the channel has ended; make a new channel when it runs again"
            ) from error

    def hear(self, patience_seconds: float) -> Message:
        """Return the next message.

        Raises
        ------
        LanescopeError
            If it does not come in time, or the other process has ended or closed its half.
        """
        with self._reading:
            if not self._heard and not self._at_end:
                self._wait_for_message(patience_seconds)
            if self._heard:
                return self._heard.popleft()
        raise LanescopeError(
            "the other process of the channel has ended or closed it; make a new one"
            if self._at_end
            else f"the other process has sent nothing within {patience_seconds:g} s"
        )

    @property
    def waiting(self) -> tuple[Message, ...]:
        """The messages that have come and that nobody has taken yet."""
        with self._reading:
            return tuple(self._heard)

    def wait_for_end(self, patience_seconds: float) -> None:
        """Return when the other process has closed its half, or ended."""
        self._thread.join(patience_seconds)

    def close(self) -> None:
        """Let the other process know that this one is over."""
        if self._gone:
            return
        self._gone = True
        self.stop()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        self._epoll.close()
        os.close(self._wake)

    def stop(self) -> None:
        """End the thread; the other process learns nothing of that."""
        self._closed = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        _open.discard(self)

    def _wait_for_message(self, patience_seconds: float) -> None:
        """Return when there is one, or the end, or after so long."""
        self._let_thread_read(False)
        try:
            late = time.perf_counter() + _EAGER_SECONDS
            while not self._read():
                if time.perf_counter() > late:
                    self._wait_for(select.POLLIN, patience_seconds)
                    self._read()
                    return
        finally:
            self._let_thread_read(True)

    def _wait_for(self, what: int, patience_seconds: float) -> None:
        poll = select.poll()
        poll.register(self._connection, what)
        poll.poll(patience_seconds * 1e3)

    def _let_thread_read(self, reads: bool) -> None:
        with suppress(OSError, ValueError):  # it was closed meanwhile
            self._epoll.modify(self._connection, _END | select.EPOLLIN * reads)

    def _read(self) -> bool:
        """Take a message or the end; return whether there was any."""
        try:
            size = self._connection.recv_into(self._room)
        except BlockingIOError:
            return False
        except ConnectionResetError:  # it ended with messages unread; its own can be read yet
            return self._read()
        except OSError:
            size = 0
        message = self._message(size)
        if "over" in message:
            self._over, self._at_end = self._over or message["over"], True
        else:
            self._heard.append(message)
        return True

    def _message(self, size: int) -> Message:
        try:
            return read_packet(bytes(self._room[:size]))
        except ValueError:  # the end, or none of lanescope
            return {"over": False}

    def _watch(self) -> None:
        while not self._closed and not self._at_end:
            events = self._epoll.poll(_LOOK_SECONDS)
            if self._closed:  # a thread that hears may hold the lock for long
                return
            self._look()
            if events and self._reading.acquire(timeout=_LOOK_SECONDS):
                try:
                    while not self._closed and not self._at_end and self._read():
                        pass
                finally:
                    self._reading.release()
        if not self._closed:
            self._ended(self._over)
