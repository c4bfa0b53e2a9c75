"""Messages between the process that measures and those that it starts, with file descriptors."""

from __future__ import annotations

import json
import socket
from typing import Any

#: A message is one packet; the longest ones hold the times of all windows of a run.
_MOST_BYTES = 1 << 18
_MOST_DESCRIPTORS = 4

Message = dict[str, Any]


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection that keeps messages apart."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _MOST_BYTES)
    return ours, theirs


def send(to: socket.socket, message: Message, descriptors: list[int] | None = None) -> None:
    """Send a message; the descriptors are copied to the other process.

    Raises
    ------
    OSError
        If the other process has ended.
    """
    socket.send_fds(to, [json.dumps(message).encode()], descriptors or [])


def received(source: socket.socket) -> tuple[Message, list[int]]:
    """Return the next message and its descriptors, which the caller closes.

    Raises
    ------
    EOFError
        If the other process has ended.
    OSError
        If nothing comes in time, or the connection is broken.
    """
    content, descriptors, *_ = socket.recv_fds(source, _MOST_BYTES, _MOST_DESCRIPTORS)
    if not content:
        raise EOFError
    return json.loads(content), list(descriptors)
