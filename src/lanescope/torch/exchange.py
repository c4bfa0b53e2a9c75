"""One side of sending a tensor: which way it goes, and its messages in order."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any

import torch
import torch.distributed as dist

from lanescope.calls import shown
from lanescope.compression.array_values import coded_dtype
from lanescope.compression.deciding import Transfer
from lanescope.errors import InputError, LanescopeError
from lanescope.torch.deciding import Decisions, decisions, log_in_run, tag_name
from lanescope.torch.pieces import Tensor
from lanescope.torch.ranks import (
    PlainRun,
    PlainRuns,
    TensorKind,
    known_links,
    link,
    looks_like_header,
)
from lanescope.torch.routes import (
    GroupFacts,
    Messages,
    Notes,
    NotesByChannel,
    TensorRoute,
    ToAll,
    ToPeer,
    carried,
    facts_of,
    first_bytes,
    name_of,
    notes_of,
    store_of,
    timeout_of,
)
from lanescope.torch.sides import Receiving, Sending

#: By kind of device: what has to carry tensors there, and from how many bytes on there is a header.
CARRIERS = {"cpu": "gloo", "cuda": "nccl"}
LEAST_BYTES = {"cpu": 1 << 20, "cuda": 16 << 20}
#: Whether a tensor is where some have no header.
may_lack_header = attrgetter("is_cuda")
_ANY = 0
_MOST_ROUTES = 1024
_OWN_TYPES = (torch.Tensor, torch.nn.Parameter)


class Exchange:
    """Sends and receives over a process group."""

    __slots__ = ("_found", "_group")

    def __init__(self, group: Any) -> None:
        self._group = group
        self._found: GroupFacts | None = None

    @property
    def _facts(self) -> GroupFacts:
        """What is known of the group; raises what PyTorch does where it is none."""
        if self._found is None:
            self._found = facts_of(self._group)
        return self._found

    @property
    def group(self) -> Any:
        """The process group."""
        return self._group

    @property
    def rank(self) -> int:
        """This process's, by the default group's numbers."""
        return self._facts.own

    def require_on_cpu(self, tensor: Tensor) -> None:
        """Refuse a tensor on a GPU: its messages are in the order of the calls of one thread."""
        self._kind(tensor)
        if tensor.device.type != "cpu":
            raise InputError(
                "only tensors on a CPU are sent and received behind the program; use "
                "torch.distributed.isend and irecv on both sides"
            )

    def send(self, tensor: Tensor, dst: int, tag: int, compression: str, codec: str) -> None:
        """Send to a rank."""
        try:
            facts = self._facts
            run = _run_of(facts, tensor, facts.own, dst)
            if run is None:
                self._send(tensor, dst, tag, compression, codec)
                return
            decisions("cpu", compression, codec)  # which refuses what there is not
            target = dist.get_group_rank(self._group, dst)  # refuses a group that is destroyed
            run.left -= 1
            # What is left of PyTorch's own call where all is known to be right.
            _await(self._group.send([carried(tensor)], target, tag))
            log_in_run(run, tag)
        except Exception:
            with self.errors(f"sending to rank {dst}"):
                raise

    def receive(self, tensor: Tensor, src: int | None, tag: int) -> int:
        """Receive from a rank, which is returned."""
        try:
            facts = self._facts
            run = None if src is None else _run_of(facts, tensor, src, facts.own)
            if run is None or src is None:
                return self._receive(tensor, src, tag)
            source = dist.get_group_rank(self._group, src)
            run.left -= 1
            _await(self._group.recv([carried(tensor)], source, tag))
        except Exception:
            with self.errors(f"receiving from {'any rank' if src is None else f'rank {src}'}"):
                raise
        return src

    def _send(self, tensor: Tensor, dst: int, tag: int, compression: str, codec: str) -> None:
        ends = (self.rank, dst)
        known = self._known(tensor, ends, tag)
        if known is not None:
            decides = decisions(known.device, compression, codec)
            self._sending(tensor, ends, tag, decides, known).run()
            return
        self._require_rank(dst)
        kind = self._carrying(tensor)
        if kind is None or dst == self.rank:
            decisions("cpu", compression, codec)  # which refuses what there is not
            dist.send(tensor, dst, self._group, tag)
            return
        decides = decisions(kind, compression, codec)
        if tensor.nbytes >= LEAST_BYTES[kind]:
            self._sending(tensor, ends, tag, decides).run()
        elif kind == "cpu" and looks_like_header(first_bytes(tensor)):
            # or the other side would take it for one
            self._sending(tensor, ends, tag, decides).run_raw()
        else:
            dist.send(tensor, dst, self._group, tag)

    def _receive(self, tensor: Tensor, src: int | None, tag: int) -> int:
        ends = (_ANY if src is None else src, self.rank)
        known = None if src is None else self._known(tensor, ends, tag)
        small = False
        if known is None:
            if src is not None:
                self._require_rank(src)
            kind = self._kind(tensor)
            small = kind is None or tensor.nbytes < LEAST_BYTES[kind]
            if not self._is_plain(tensor, kind) or (small and kind != "cpu"):
                return int(dist.recv(tensor, src, self._group, tag))
            if src is None and kind == "cuda":
                raise InputError("NCCL does not receive from any rank; give src")
        messages = ToPeer(self._group, src, tag)
        if not small:
            known = known or self._route(tensor, ends, tag, sends=False)
        self._receiving(tensor, messages, ends, known).run()
        assert messages.peer is not None
        return messages.peer

    def broadcast(self, tensor: Tensor, src: int, compression: str, codec: str) -> None:
        """Send from a rank to all."""
        run = _run_of(self._facts, tensor, src, "all")
        if run is None:
            self._broadcast(tensor, src, compression, codec)
            return
        decisions("cpu", compression, codec)
        options = _broadcast_from(dist.get_group_rank(self._group, src))
        run.left -= 1
        # Ranks may hold it in other shapes, which PyTorch refuses when it looks for mistakes.
        _await(self._group.broadcast([carried(tensor).view(-1)], options))
        if self.rank == src:
            log_in_run(run, 0)

    def _broadcast(self, tensor: Tensor, src: int, compression: str, codec: str) -> None:
        self._require_rank(src)
        kind = self._carrying(tensor)
        alone = len(self._facts.ranks) < 2
        decisions("cpu", compression, codec)
        if kind is None or alone or tensor.nbytes < LEAST_BYTES[kind]:
            dist.broadcast(tensor, src, self._group)
            return
        ends = (src, "all")
        if self.rank == src:
            self._sending(tensor, ends, 0, decisions(kind, compression, codec)).run()
        else:
            route = self._route(tensor, ends, 0, sends=False)
            self._receiving(tensor, ToAll(self._group, src), ends, route).run()

    def _known(self, tensor: Tensor, ends: tuple[int, int], tag: int) -> TensorRoute | None:
        """Return the route of a tensor like one before, of which nothing else has to be looked at.

        None: it may have none.
        """
        if type(tensor) not in _OWN_TYPES:
            return None
        route = self._facts.routes.get(_route_key(tensor, ends, tag))
        if route is None or tensor.nbytes < LEAST_BYTES[route.device]:
            return None
        return route if _is_memory(tensor) and tensor.is_contiguous() else None

    def _route(
        self, tensor: Tensor, ends: tuple[int, int | str], tag: int, sends: bool
    ) -> TensorRoute:
        """Return the route of a tensor that is carried."""
        routes, key = self._facts.routes, _route_key(tensor, ends, tag)
        found = routes.get(key)
        if found is None:
            to = ends[1] if isinstance(ends[1], str) else f"r{ends[1]}"
            path = f"{self._group.group_name}: r{ends[0]}>{to}"
            transfer = Transfer(tag_name(tag), path, coded_dtype(tensor.dtype), tensor.nbytes)
            half = self._link(tensor, self._pair(ends), sends=sends)
            if len(routes) >= _MOST_ROUTES:
                routes.clear()
            found = routes[key] = TensorRoute(tensor.device.type, transfer, half)
        return found

    def _sending(
        self,
        tensor: Tensor,
        ends: tuple[int, int | str],
        tag: int,
        decides: Decisions,
        route: TensorRoute | None = None,
    ) -> Sending:
        source, target = ends
        messages: Messages
        if isinstance(target, int):
            messages = ToPeer(self._group, target, tag)
        else:
            messages = ToAll(self._group, source)
        route = route or self._route(tensor, ends, tag, sends=True)
        notes = self._notes(tensor, messages, ends, route.half)
        runs = self._runs(tensor, ends)
        return Sending(tensor, messages, notes, route.transfer, decides, route.half, runs)

    def _receiving(
        self,
        tensor: Tensor,
        messages: Messages,
        ends: tuple[int, int | str],
        route: TensorRoute | None,
    ) -> Receiving:
        """Return one side of a tensor; without a route values may come without a header."""
        half = None if route is None else route.half
        notes = self._notes(tensor, messages, ends, half)
        return Receiving(tensor, messages, notes, route is None, half, self._runs(tensor, ends))

    def _notes(
        self, tensor: Tensor, messages: Messages, ends: tuple[int, int | str], half: Any
    ) -> Notes:
        if half is not None:
            return NotesByChannel(half)
        return notes_of(messages, self._group, tensor.device.type, ends)

    def _runs(
        self, tensor: Tensor, ends: tuple[int, int | str]
    ) -> tuple[PlainRuns, TensorKind] | None:
        """Return who knows which tensors come without a header, and what it knows this one by."""
        if not may_lack_header(tensor):
            return None
        return self._facts.runs, (*ends, name_of(tensor.dtype), tensor.numel())

    def _pair(self, ends: tuple[int, int | str]) -> tuple[int, int] | None:
        """Return the two ranks between which a tensor goes; None where it goes to more.

        To more than one, copies of all would leave by the source's links, where NCCL has a ring.
        """
        source, target = ends
        if isinstance(target, int):
            return source, target
        others = [rank for rank in self._facts.ranks if rank != source]
        return (source, others[0]) if len(others) == 1 else None

    def _link(self, tensor: Tensor, ends: tuple[int, int] | None, *, sends: bool) -> Any:
        """Return this rank's half of a channel between two GPUs of a node; None: by messages."""
        if tensor.device.type != "cuda" or ends is None:
            return None
        gpu = tensor.device.index
        known = known_links(self._group)
        if (*ends, gpu) in known:
            return known[(*ends, gpu)]
        return link(self._group, store_of(self._group), ends, sends, gpu, timeout_of(self._group))

    def _require_rank(self, rank: int) -> None:
        """Refuse a rank that the group has not, which PyTorch may not survive."""
        facts = self._facts
        if rank not in facts.ranks and facts.own in facts.ranks:
            ranks = ", ".join(map(str, facts.ranks[:8])) + (", ..." if facts.ranks[8:] else "")
            raise InputError(f"the group has no rank {rank}; give one of {ranks}")

    def _kind(self, tensor: Tensor) -> str | None:
        """Return ``cpu`` or ``cuda``, if that can carry a header, too."""
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"a tensor of PyTorch is sent, not {shown(tensor)}")
        kind: str = tensor.device.type
        if self._facts.backends.get(kind) != CARRIERS.get(kind, ""):
            return None
        if tensor.layout is torch.strided and not tensor.is_contiguous():
            raise InputError("the tensor has gaps or is not in C order; call .contiguous()")
        return kind

    def _carrying(self, tensor: Tensor) -> str | None:
        """Return ``cpu`` or ``cuda`` of a tensor that goes another way than by PyTorch's call."""
        kind = self._kind(tensor)
        return kind if self._is_plain(tensor, kind) else None

    def _is_plain(self, tensor: Tensor, kind: str | None) -> bool:
        """Whether its memory holds what it means, of a kind that is carried, in a rank of it."""
        return (
            kind is not None
            and type(tensor) in _OWN_TYPES
            and _is_memory(tensor)
            and self._facts.is_member
        )

    def errors(self, what: str) -> _Errors:
        """Turn what PyTorch raises into one sentence.

        Raises
        ------
        InputError
            If it refused what the user gave.
        LanescopeError
            If a process ended, or did not come in time.
        """
        return _Errors(self._group, what)


class _Errors:
    __slots__ = ("_group", "_what")

    def __init__(self, group: Any, what: str) -> None:
        self._group, self._what = group, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, ValueError | TypeError):
            raise InputError(f"{self._what} is not possible: {_one_line(error)}") from error
        if isinstance(error, RuntimeError):
            patience = timeout_of(self._group).total_seconds()
            raise LanescopeError(
                f"{self._what} broke off: {_one_line(error)}; the other process ended, or did not "
                f"make the matching call within the group's timeout of {patience:g} s"
            ) from error


def _run_of(facts: GroupFacts, tensor: Tensor, source: int, target: int | str) -> PlainRun | None:
    """Return the run in which a tensor has no header.

    None: it has one, or goes another way, or is to be refused. Most tensors pass by here alone, and
    what is looked at takes a tenth of a microsecond each; only tensors that were carried have runs.
    """
    if type(tensor) not in _OWN_TYPES:
        return None
    run = facts.runs.next_of((source, target, name_of(tensor.dtype), tensor.numel()))
    if run is None or not may_lack_header(tensor):
        return None
    return run if _is_memory(tensor) and tensor.is_contiguous() else None


def _await(work: Any) -> None:
    """Wait as PyTorch's own calls do, of which some backends leave nothing to wait for."""
    if work is not None:
        work.wait()


def _broadcast_from(rank: int) -> Any:
    """Return PyTorch's options of a broadcast that is waited for, by the group's own numbers."""
    options = dist.BroadcastOptions()
    options.rootRank = rank
    if hasattr(options, "asyncOp"):
        options.asyncOp = False
    return options


def _route_key(tensor: Tensor, ends: tuple[int, int | str], tag: int) -> tuple[Any, ...]:
    return (*ends, tag, tensor.device, tensor.dtype, tensor.nbytes)


def _is_memory(tensor: Tensor) -> bool:
    """Whether the memory of a tensor, of PyTorch's own types, holds what it means."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def _one_line(error: Exception) -> str:
    """Return what PyTorch says first, without the place in its source."""
    text = str(error).strip() or type(error).__name__
    said = re.sub(r"^\[\S*:\d+\] ", "", text.splitlines()[0])
    return said.partition(". ")[0][:300].rstrip(".;,: ")
