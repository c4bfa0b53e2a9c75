"""Tensors between the processes of a torch.distributed group, compressed where that is faster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from lanescope.calls import checked
from lanescope.errors import InputError, LanescopeError

if TYPE_CHECKING:
    from lanescope.torch.exchange import Exchange

AUTO = "auto"
#: PyTorch's module and `Exchange`, once they have been imported.
_imported: tuple[Any, Any] | None = None
T = TypeVar("T")
#: Direction, peer and tag.
Key = tuple[str, int | None, int]
_threads: WeakKeyDictionary[Any, dict[Key, ThreadPoolExecutor]] = WeakKeyDictionary()
_lock = Lock()
_begun = False


@checked
def send(
    tensor: Any,
    dst: int,
    group: Any = None,
    tag: int = 0,
    *,
    compression: str = AUTO,
    codec: str = AUTO,
) -> None:
    """Send a tensor to another process, as ``torch.distributed.send`` does.

    The other side calls `recv` of this module.

    Parameters
    ----------
    tensor
        Of PyTorch: contiguous and on a CPU where the group has gloo for these, or on a GPU where it
        has NCCL. Others go by PyTorch's own call, as do those of less than 1 MiB (16 MiB on a GPU).
    dst
        The rank to send to, by the default group's numbers.
    group
        A process group; by default that of all.
    tag
        Matches this with the other side's `recv` (not over NCCL). The rule learns about tensors of
        a tag together.
    compression
        ``auto``: where `lanescope.compression.rule` predicts that it is faster, ``on`` or ``off``.
    codec
        A name of `Codec`, of lanescope's own ones, or ``auto``.

    Raises
    ------
    InputError
        If an argument is out of range, PyTorch or a group is missing, or this process is not of it.
    LanescopeError
        If the other process ended, or did not call `recv` within the group's timeout.
    """
    exchange = _exchange(group)
    if not is_behind():
        exchange.send(tensor, dst, tag, compression, codec)
        return
    in_order(
        exchange.group,
        ("to", dst, tag),
        lambda: exchange.send(tensor, dst, tag, compression, codec),
    )


@checked
def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0) -> int:
    """Receive a tensor that another process sends by `send`, as ``torch.distributed.recv`` does.

    Parameters
    ----------
    tensor
        Gets the values, bit by bit as they were sent; of the same type and number of values, and as
        `send` takes them. After an error it may hold anything.
    src
        The rank to receive from, by the default group's numbers; None: from any (not over NCCL).
    group, tag
        As with `send`.

    Returns
    -------
    int
        The rank that sent it.

    Raises
    ------
    InputError
        If an argument is out of range, PyTorch or a group is missing, or this process is not of it.
    LanescopeError
        If a tensor of another type or size came, or plain values, or damaged ones; if the other
        process ended, or sent nothing within the group's timeout. Between GPUs, where the header of
        a like tensor has announced that some come without one, nobody notices that of these.
    """
    exchange = _exchange(group)
    if not is_behind():
        return exchange.receive(tensor, src, tag)
    return in_order(exchange.group, ("from", src, tag), lambda: exchange.receive(tensor, src, tag))


@checked
def isend(
    tensor: Any,
    dst: int,
    group: Any = None,
    tag: int = 0,
    *,
    compression: str = AUTO,
    codec: str = AUTO,
) -> Transferring:
    """Begin to `send` a tensor on a CPU, in a thread behind the program.

    Transfers to the same rank with the same tag go in the order in which they were begun. The
    tensor is not to be changed before the end.

    Parameters
    ----------
    tensor, dst, group, tag, compression, codec
        As with `send`.

    Returns
    -------
    Transferring
        Of which `wait` returns when it has ended, or raises what `send` would.

    Raises
    ------
    InputError
        As with `send`; and of tensors on a GPU, for which ``torch.distributed.isend`` and
        ``irecv`` are to be used on both sides.
    """
    exchange = _exchange(group)
    exchange.require_on_cpu(tensor)

    def call() -> int:
        exchange.send(tensor, dst, tag, compression, codec)
        return exchange.rank

    return behind(exchange.group, ("to", dst, tag), call)


@checked
def irecv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0) -> Transferring:
    """Begin to `recv` a tensor on a CPU, in a thread behind the program.

    Parameters
    ----------
    tensor, src, group, tag
        As with `recv`; the tensor has the values when `wait` has returned.

    Returns
    -------
    Transferring
        Of which `source_rank` is the rank that sent.

    Raises
    ------
    InputError
        As with `isend`.
    """
    exchange = _exchange(group)
    exchange.require_on_cpu(tensor)
    return behind(exchange.group, ("from", src, tag), lambda: exchange.receive(tensor, src, tag))


@checked
def broadcast(
    tensor: Any, src: int, group: Any = None, *, compression: str = AUTO, codec: str = AUTO
) -> None:
    """Send a tensor to all processes of a group, as ``torch.distributed.broadcast`` does.

    The source compresses it once, and each other process decompresses it. All call this.

    Parameters
    ----------
    tensor
        What to send in rank `src`; in the others what gets the values, as with `recv`.
    src
        The rank to send from, by the default group's numbers.
    group, compression, codec
        As with `send`; the last two count in rank `src`.

    Raises
    ------
    InputError, LanescopeError
        As with `send` and `recv`.
    """
    exchange = _exchange(group)
    with exchange.errors(f"the broadcast of rank {src}"):
        exchange.broadcast(tensor, src, compression, codec)


@checked
def transfers() -> tuple[Any, ...]:
    """Return the last 1000 tensors that this process sent, of those that the rule decides about.

    Returns
    -------
    tuple[Sent, ...]
        What each was, how it travelled and why, and how long that took: with ``auto`` and by a
        channel between GPUs, once that is known. On a GPU one may still be under way.
    """
    try:
        from lanescope.torch.deciding import logged
    except ImportError:
        raise InputError("PyTorch is missing; pip install torch") from None
    return logged()


def _exchange(group: Any) -> Exchange:
    dist, made = _imported or _import()
    world = dist.group.WORLD
    if world is None:
        raise InputError(
            "there is no process group; call torch.distributed.init_process_group before"
        )
    if group is None:
        group = world
    elif group == dist.GroupMember.NON_GROUP_MEMBER:
        raise InputError("this process is not of the group; let only those of it call this")
    exchange: Exchange = made(group)
    return exchange


def _import() -> tuple[Any, Any]:
    global _imported
    try:
        import torch.distributed as dist
    except ImportError:
        raise InputError("PyTorch is missing; pip install torch") from None
    if not dist.is_available():
        raise InputError("this PyTorch has no torch.distributed; install one that has")
    if not dist.is_initialized():
        return dist, None
    from lanescope.torch.exchange import Exchange

    _imported = (dist, Exchange)
    return _imported


class Transferring:
    """A tensor that is sent or received behind the program, like PyTorch's ``Work``."""

    def __init__(self, future: Future[int]) -> None:
        self._future = future

    def is_completed(self) -> bool:
        """Return whether it has ended, well or not."""
        return self._future.done()

    def is_success(self) -> bool:
        """Return whether it has ended well."""
        return self._future.done() and self._future.exception() is None

    def wait(self, timeout: Any = None) -> bool:
        """Return True when it has ended.

        Parameters
        ----------
        timeout
            A ``timedelta``, after which not to wait longer; the group's timeout ends it anyway.

        Raises
        ------
        InputError, LanescopeError
            As `lanescope.torch.send` and `recv`; and if it takes longer than `timeout`.
        """
        seconds = None if timeout is None else timeout.total_seconds()
        try:
            self._future.result(seconds)
        except LateError:
            if self._future.done():
                raise
            raise LanescopeError(
                f"the transfer has not ended within {seconds:g} s; wait longer"
            ) from None
        return True

    def source_rank(self) -> int:
        """Return the rank that sent, once it has come."""
        return self._future.result()


def behind(group: Any, key: Key, call: Callable[[], int]) -> Transferring:
    """Let a transfer begin when those of its key before have ended."""
    global _begun
    with _lock:
        _begun = True
        threads = _threads.setdefault(group, {})
        if key not in threads:
            threads[key] = ThreadPoolExecutor(1, "lanescope-transfer")
        return Transferring(threads[key].submit(call))


def is_behind() -> bool:
    """Whether there may be a transfer behind the program: most programs never have one."""
    return _begun


def in_order(group: Any, key: Key, call: Callable[[], T]) -> T:
    """Do a transfer when those of its key before have ended."""
    with _lock:
        thread = _threads.get(group, {}).get(key)
    return call() if thread is None else thread.submit(call).result()
