"""What GPU 0 does with an array: its kernels within its memory, and the links that lead from it.

Arrays come there from the host without PyTorch or CuPy, several times over where they are small:
blocks of 64 KiB keep no state from one to the next. Every byte is compared with the host's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lanescope._core import native
from lanescope.compression.arrays import Values
from lanescope.compression.channel_setup import TO_GPU, TO_HOST
from lanescope.compression.rule import MARGIN
from lanescope.compression.stream import Codec
from lanescope.errors import InputError, LanescopeError, argument
from lanescope.studies.compress.measuring import MOST_TIMED_BYTES, MismatchError
from lanescope.studies.compress.results import (
    ArrayResult,
    CodecChoice,
    Crossing,
    MeasuredKernels,
    RawTimes,
)

MIB = 1 << 20
#: Of the GPU; 0: all.
DEFAULT_SMS = (16, 48, 0)
#: The small one tells what a transfer takes besides its bytes.
DEFAULT_LINK_SIZES = (MIB, 256 * MIB)
#: A smaller array is there several times, or kernels would be over before all SMs have work.
LEAST_TIMED_BYTES = 64 * MIB
#: Samples of each kernel; turns of each transfer, beside those in which memory is pinned.
_REPEATS, _TURNS, _WARM_UP = 9, 9, 2
_PATIENCE_SECONDS = 30.0
_GPU, _PEER = 0, 1
#: Of a block, beside its payload.
_ENTRY_BYTES = 16
#: Of an array, what codecs keep apart from the rest.
_BLOCK_BYTES = 64 << 10
#: What memory holds that values shall be written to: so none is taken for written that is not.
_UNWRITTEN = 0xA5
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation

Bytes = NDArray[np.uint8]


def gpus_here(core: Any = native) -> list[dict[str, Any]]:
    """Return what CUDA says of the GPUs that this process may use; none without a driver."""
    try:
        return list(core.cuda_devices())
    except native.NativeError:
        return []


class _UnmeasuredError(Exception):
    """Something that a GPU cannot do, said in a sentence."""


@dataclass(frozen=True, slots=True)
class _Array:
    """What is measured: its name, the core's type of its values, and its bytes."""

    name: str
    kind: Any
    data: Bytes

    def part(self, size: int) -> Bytes:
        return self.data[:size]


class Gpus:
    """Measures arrays on GPU 0, and to the host and GPU 1 and back.

    Parameters
    ----------
    names
        Those of all GPUs, in CUDA's order, one at least.
    sms
        By how many SMs kernels are timed; 0: all.
    link_sizes
        Bytes that cross links.
    core
        The compiled core; tests put another one in its place.
    nvcomp, nvcomp_codecs
        nvCOMP, and which of its codecs are timed; they take the whole GPU, and are none of
        channels, so that nothing crosses links by them.
    """

    def __init__(
        self,
        names: Sequence[str],
        sms: Sequence[int] = DEFAULT_SMS,
        link_sizes: Sequence[int] = DEFAULT_LINK_SIZES,
        core: Any = native,
        nvcomp: Any = None,
        nvcomp_codecs: Sequence[Codec] = (),
    ) -> None:
        self._core: Any = core
        self._nvcomp: Any = nvcomp
        self._nvcomp_choices = tuple(map(CodecChoice, nvcomp_codecs))
        self.names = tuple(names)
        self._peer = len(names) > _PEER
        self._sms = sorted(set(sms), key=lambda one: (one == 0, one))
        self._sizes = sorted(set(link_sizes))
        self._channels: dict[str, Any] = {}

    def measure(
        self,
        result: ArrayResult,
        values: Values,
        on_step: Callable[[str], object] = lambda name: None,
    ) -> Iterator[ArrayResult]:
        """Measure an array whose ratios are known; yield what is known after each step.

        Raises
        ------
        MismatchError
            If an array does not come back as it was.
        LanescopeError
            If a GPU failed. What it has no memory for is told in `ArrayResult.gpu_notes`.
        """
        kind = native.Dtype["bytes" if result.dtype == "uint8" else result.dtype]
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        array = _Array(result.name, kind, data)
        for choice in (*(one.choice for one in result.codecs), *self._nvcomp_choices):
            on_step(f"{choice.name} on GPU {_GPU}")
            try:
                kernels = self._kernels(array, choice)
            except _UnmeasuredError as error:
                result = _noted(result, f"{choice.name} on GPU {_GPU}: {error}")
            else:
                result = replace(result, gpu=(*result.gpu, kernels))
            yield result
        choices = [
            one.choice
            for one in result.codecs
            if one.choice.codec is not Codec.RAW or one.ratio * MARGIN > 1
        ]
        for cross, where in self._paths():
            for size in self._sizes:
                for choice in choices:
                    on_step(f"{choice.name} over {where}")
                    try:
                        crossings = cross(array, size, choice)
                    except _UnmeasuredError as error:
                        result = _noted(result, f"{choice.name} over {where}: {error}")
                    else:
                        result = replace(result, crossings=(*result.crossings, *crossings))
                    yield result

    def close(self) -> None:
        """End the channels, which give back their memory."""
        while self._channels:
            self._channels.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _paths(self) -> Iterator[tuple[Callable[[_Array, int, CodecChoice], list[Crossing]], str]]:
        yield self._to_host_and_back, "the link to the host"
        if self._peer:
            yield self._to_peer, f"the link to GPU {_PEER}"

    def _kernels(self, array: _Array, choice: CodecChoice) -> MeasuredKernels:
        size = min(max(array.data.nbytes, LEAST_TIMED_BYTES), MOST_TIMED_BYTES)
        part, timings, stored = array.part(size), [], 0
        blocks = -(-size // _BLOCK_BYTES)
        with _failures(array, choice):
            source, out = self._filled(_GPU, part, size), self._core.DeviceArray(_GPU, size)
            for sms in (0,) if choice.codec.by_nvcomp else self._sms:
                out.set(_UNWRITTEN)
                times = self._times(array, source, out, choice, sms)
                _require_same(out, part, array, choice, f"the kernels of GPU {_GPU}")
                timings.append(RawTimes(sms, size, tuple(times.encode_s), tuple(times.decode_s)))
                stored = times.payload_bytes + _ENTRY_BYTES * blocks
        return MeasuredKernels(
            _GPU, choice.codec, choice.dimensionality, size, stored, tuple(timings)
        )

    def _times(self, array: _Array, source: Any, out: Any, choice: CodecChoice, sms: int) -> Any:
        codec, kind, dimensionality = _coded(choice, array.kind)
        if choice.codec.by_nvcomp:
            return self._nvcomp.time_array_codec(source, out, codec, kind, _REPEATS)
        return self._core.time_array_codec(source, out, codec, kind, dimensionality, sms, _REPEATS)

    def _to_host_and_back(self, array: _Array, size: int, choice: CodecChoice) -> list[Crossing]:
        part, taken = array.part(size), _Turns()
        with _failures(array, choice):
            source, out = self._filled(_GPU, part, size), self._core.DeviceArray(_GPU, size)
            channel = self._channel("host")
            channel.prepare(_pinned_bytes(size))
            for codec in _turns():
                coded = _coded(choice, array.kind) if codec else (None, array.kind, 1)
                out.set(_UNWRITTEN)
                parcel, away = channel.offload(source.pointer, size, *coded, 0)
                taken.take("out", away, codec)
                back = channel.restore(parcel, out.pointer, 0)
                taken.take("back", back, codec)
                del parcel  # its memory is the next one's
            _require_same(out, part, array, choice, "the link to the host")
        sms = self._core.sms_that_fill(self._core.Via.host, *_coded(choice, array.kind)[:2])
        return [
            taken.crossing("out", f"g{_GPU}>host", array, size, choice, sms),
            taken.crossing("back", f"host>g{_GPU}", array, size, choice, sms),
        ]

    def _to_peer(self, array: _Array, size: int, choice: CodecChoice) -> list[Crossing]:
        part, taken = array.part(size), _Turns()
        with _failures(array, choice):
            source, out = self._filled(_GPU, part, size), self._core.DeviceArray(_PEER, size)
            channel = self._channel("peer")
            for codec in _turns():
                coded = _coded(choice, array.kind) if codec else (None, array.kind, 1)
                out.set(_UNWRITTEN)
                ticket = channel.send(source.pointer, out.pointer, size, *coded, 0, 0)
                taken.take("over", ticket, codec)
            _require_same(out, part, array, choice, f"the link to GPU {_PEER}")
        sms = self._core.sms_that_fill(self._core.Via.peer, *_coded(choice, array.kind)[:2])
        return [taken.crossing("over", f"g{_GPU}>g{_PEER}", array, size, choice, sms)]

    def _filled(self, gpu: int, part: Bytes, size: int) -> Any:
        array = self._core.DeviceArray(gpu, size)
        array.fill_from(part)
        return array

    def _channel(self, to: str) -> Any:
        if to not in self._channels:
            self._channels[to] = (
                self._core.HostChannel(
                    _GPU, TO_HOST.slab_bytes, TO_HOST.slots, TO_HOST.sms, _PATIENCE_SECONDS,
                    _pinned_bytes(max(self._sizes)),
                    self._core.RestoreBy.staged,
                )
                if to == "host"
                else self._core.DeviceChannel(
                    _GPU, _PEER, TO_GPU.slab_bytes, TO_GPU.slots, TO_GPU.sms, _PATIENCE_SECONDS,
                    self._core.Via.peer,
                )
            )  # fmt: skip
        return self._channels[to]


class _Turns:
    """The times of transfers, as they are and compressed in turns; the first ones do not count."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, bool], list[float]] = {}
        self._wire: dict[str, int] = {}

    def take(self, leg: str, ticket: Any, compressed: bool) -> None:
        """Wait for a transfer, and take its time."""
        ticket.wait(_PATIENCE_SECONDS)
        if compressed:
            if not ticket.compressed:
                raise _UnmeasuredError(ticket.why_raw or "it travelled as it is")
            self._wire[leg] = ticket.wire_bytes
        self._seconds.setdefault((leg, compressed), []).append(ticket.seconds)

    def crossing(
        self, leg: str, path: str, array: _Array, size: int, choice: CodecChoice, sms: int
    ) -> Crossing:
        """Return what was taken of one leg."""
        raw, coded = (tuple(self._seconds[leg, one][_WARM_UP:]) for one in (False, True))
        return Crossing(
            path, array.name, choice.codec, size, sms, raw, coded, self._wire[leg],
            choice.dimensionality,
        )  # fmt: skip


def _pinned_bytes(size: int) -> int:
    """Return what the host needs for an array that is on its way, entries included."""
    return size + size // 512 + MIB


def _turns() -> Iterator[bool]:
    """Whether each transfer goes compressed; the last one does, and is compared."""
    for _ in range(_WARM_UP + _TURNS):
        yield from (False, True)


def _coded(choice: CodecChoice, kind: Any) -> tuple[Any, Any, int]:
    return native.Codec[choice.codec], kind, choice.dimensionality


def _noted(result: ArrayResult, sentence: str) -> ArrayResult:
    """Add a sentence, once: what cannot be done for one size often cannot for others."""
    return replace(result, gpu_notes=tuple(dict.fromkeys((*result.gpu_notes, sentence))))


@contextmanager
def _failures(array: _Array, choice: CodecChoice) -> Iterator[None]:
    """Tell what a GPU has no memory for, or refuses, from what must not happen."""
    try:
        yield
    except native.NativeError as error:
        call, code, name, detail, _ = error.args
        if name == "bad block":
            raise MismatchError(
                f"DATA WERE LOST: what {choice.name} made of {array.name} on GPU {_GPU} cannot be "
                f"decompressed: {detail}; do not use this codec, and report it with the file"
            ) from error
        if code in (0, _OUT_OF_MEMORY) and name != "too late":
            raise _UnmeasuredError(f"{detail} ({call})") from error
        raise LanescopeError(
            f"GPU {_GPU} failed in {call} ({detail}) with {choice.name} on {array.name}; look at "
            f"the system's log, or measure with {argument.device} cpu"
        ) from error


def _require_same(out: Any, part: Bytes, array: _Array, choice: CodecChoice, where: str) -> None:
    wrong, first = out.compare(part)
    if wrong:
        raise MismatchError(
            f"DATA WERE CHANGED: {wrong} of {out.bytes} bytes of {array.name} did not come back "
            f"from {choice.name} over {where} as they were, the first at {first}; do not use this "
            "codec, and report it with the file"
        )


def require_sms(sms: Sequence[int], most: int) -> None:
    """Refuse numbers of SMs that a GPU has not.

    Raises
    ------
    InputError
        If there is one.
    """
    if wrong := [one for one in sms if not 0 <= one <= most]:
        raise InputError(
            f"{argument.sms} {wrong[0]}: GPU {_GPU} has {most} SMs; give 0 for all of them"
        )
