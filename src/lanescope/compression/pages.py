"""Pages in a GPU's memory, and parcels of them: many arrays that travel as one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, repeat
from operator import attrgetter, mul
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lanescope._core import native
from lanescope.calls import shown
from lanescope.compression.array_values import (
    coded_dtype,
    framework_of_array,
    gpu_array,
    new_array,
)
from lanescope.compression.deciding import Decision
from lanescope.compression.transfers import core_errors
from lanescope.errors import InputError
from lanescope.kinds import StrPath

Numbers = NDArray[np.uint64]

_MOST_NUMBERS = 1 << 24
#: Arrays of a long list that leave before the others are looked at one by one, which takes about
#: as long as they do on the link.
_FIRST_PARTS = (128, 320)
#: What crosses the link, about, while one more tensor of a list is looked at in C.
_LOOK_BYTES = 4 << 10
#: Of the first pages, which leave before the others are looked at and gathered, and of the last
#: ones, which come back while those before are put to their places: as much as is on the link
#: meanwhile, and of few pages a quarter.
LEAD_BYTES, EDGE_BYTES = 16 << 20, 8 << 20
#: Types of which PyTorch's own code tells what lies where; a subclass may be something else.
_PLAIN = {"torch", "torch.nn.parameter"}
#: A part of an array of complex numbers has gaps unless it is that short.
_SHORT_BYTES = 16
#: By which pages lie in the array that they travel as.
ALIGNMENT = 16
#: Of which an array is coded.
BLOCK_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class PageRun:
    """Pages of one type and shape that follow each other.

    Attributes
    ----------
    dtype
        As the framework has it.
    """

    count: int
    dtype: Any
    shape: tuple[int, ...]


@dataclass(slots=True)  # frozen ones take a microsecond more to make: each call has some
class PageList:
    """Pages in one GPU's memory.

    Attributes
    ----------
    pointers, sizes
        Where each begins, and its bytes.
    runs
        What they are, in their order.
    kind
        The type by which codecs know their values: ``uint8`` where they are of several.
    each
        Bytes of every page, where all have as many and that is known.
    blocks
        Whether all are whole blocks, as `are_blocks` says; None: not known.
    """

    framework: str
    gpu: int
    pointers: Numbers
    sizes: Numbers
    runs: tuple[PageRun, ...]
    kind: str
    each: int | None = None
    blocks: bool | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def stride(self) -> int | None:
        """Bytes from one to the next in the array that they travel as, where they have as many."""
        return self.each + -self.each % ALIGNMENT if self.each else None

    @property
    def bytes(self) -> int:
        """Of the array that they travel as."""
        if self.stride is not None:
            return len(self) * self.stride
        return int(padded(self.sizes).sum())

    def end_within(self, first: int, most: int) -> int:
        """Return up to which one those from `first` on have so many bytes there, one at least."""
        if self.stride is not None:
            return min(len(self), first + max(1, most // self.stride))
        ends = np.cumsum(padded(self.sizes[first:]))
        return first + max(1, int(np.searchsorted(ends, most, side="right")))

    def part(self, first: int, last: int) -> PageList:
        """Return some of them."""
        if (first, last) == (0, len(self)):
            return self
        runs = _runs_within(self.runs, first, last)
        places, sizes = self.pointers[first:last], self.sizes[first:last]
        blocks = self.blocks or None  # some may be where not all are
        return PageList(self.framework, self.gpu, places, sizes, runs, self.kind, self.each, blocks)


@dataclass(frozen=True, slots=True)
class PageGroup:
    """Pages of a parcel that travelled as one array.

    Attributes
    ----------
    first, count
        Which ones of the parcel's.
    held
        The core's parcel.
    """

    first: int
    count: int
    decision: Decision
    held: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class PageParcel:
    """Pages that `Channel.offload_many` brought to the host; freed with its last reference.

    Attributes
    ----------
    framework
        Of the pages: ``torch`` or ``cupy``.
    tag, name
        As they were given; the name is the tag, unless `named` gave another.
    runs
        Type and shape of the pages, in their order.
    kind
        The type by which codecs know their values.
    groups
        Of pages that travelled as one array, which has 256 MiB at most.
    """

    framework: str
    tag: str
    name: str
    runs: tuple[PageRun, ...]
    sizes: Numbers = field(repr=False)
    kind: str
    groups: tuple[PageGroup, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def bytes(self) -> int:
        """Of all pages."""
        return int(self.sizes.sum())

    @property
    def stored_bytes(self) -> int:
        """Bytes of what is stored; waits for the end of the offload."""
        with core_errors():
            return sum(int(group.held.stored_bytes()) for group in self.groups)

    @property
    def ratio(self) -> float:
        """Bytes of the pages over those that are stored; waits likewise."""
        return self.bytes / self.stored_bytes if self.bytes else 1.0

    def named(self, name: str) -> PageParcel:
        """Return the same parcel by another name."""
        return replace(self, name=name)

    def evict(self) -> None:
        """Give the pinned memory back; see `Parcel.evict`."""
        for group in self.groups:
            group.held.evict()

    @property
    def evicted(self) -> bool:
        """Whether its memory was given back, so that it cannot be restored."""
        return any(group.held.evicted for group in self.groups)

    def save(self, target: StrPath | BinaryIO) -> int:
        """Write it to a file or a binary stream; see `Parcel.save`."""
        from lanescope.compression.parcels import save_parcel

        return save_parcel(self, target)

    def layout(self) -> Iterator[PageRun]:
        """Return what each page is, one by one."""
        for run in self.runs:
            for _ in range(run.count):
                yield PageRun(1, run.dtype, run.shape)


def padded(sizes: Numbers) -> Numbers:
    """Return sizes, each up to a multiple of 16."""
    found: Numbers = (sizes + np.uint64(ALIGNMENT - 1)) & ~np.uint64(ALIGNMENT - 1)
    return found


def are_blocks(given: PageList) -> bool:
    """Whether all pages are whole blocks, which a kernel can code where they lie."""
    if given.blocks is not None:
        return given.blocks
    return _bits_are_blocks(_bits_of(given.pointers), _bits_of(given.sizes))


def _bits_of(numbers: Numbers) -> int:
    """Return every bit that one of some numbers has."""
    return int(np.bitwise_or.reduce(numbers, initial=0))


def _bits_are_blocks(addresses: int, sizes: int) -> bool:
    """Whether pages are whole blocks, by every bit of their addresses and of their sizes."""
    return addresses % ALIGNMENT == 0 and sizes % BLOCK_BYTES == 0


def offsets_of(sizes: Numbers) -> Numbers:
    """Return where each page begins in the array that pages of such sizes travel as."""
    whole = padded(sizes)
    found: Numbers = np.cumsum(whole, dtype=np.uint64) - whole
    return found


def collect(arrays: Any, pages: Any, gpu: int, what: str) -> PageList:
    """Return what pages are and where they lie; nothing is copied.

    Parameters
    ----------
    arrays
        A sequence of tensors of PyTorch, or arrays of CuPy, on GPU `gpu`, each in C order; or one
        of which the pages are slices along the first dimension.
    pages
        The numbers of those slices, in any order; None: all.
    what
        What the pages are to the user, for errors.

    Raises
    ------
    InputError
        If they are none, lie elsewhere, or have gaps.
    """
    if framework_of_array(arrays):
        return _slices(arrays, pages, gpu, what)
    _require_list(arrays, pages, what)
    return _of_list(list(arrays), gpu, what)


def collect_in_parts(
    arrays: Any, pages: Any, gpu: int, what: str
) -> Iterator[tuple[PageList, bool]]:
    """Return the same in some parts, and whether each is the last.

    The first can leave while others are found.

    Raises
    ------
    InputError
        As `collect`; of a later part when that is asked for.
    """
    if framework_of_array(arrays):
        yield from _slices_in_parts(arrays, pages, gpu, what)
        return
    _require_list(arrays, pages, what)
    given = arrays if type(arrays) is list else list(arrays)
    first = 0
    for last in _ends_of_parts(given):
        if first < last:
            yield _of_list(given[first:last], gpu, what, first), last >= len(given)
        first = last


def _ends_of_parts(arrays: list[Any]) -> Iterator[int]:
    """Return up to which arrays of a list to look, each time while those before travel.

    Few parts: each is a transfer of its own, which takes time on the GPU and the host.
    """
    parts: Iterable[int] = _FIRST_PARTS
    if arrays and _table_of(type(arrays[0])) is not None:
        size = _bytes_of(arrays[0])  # as the others', mostly
        count = _lead_of(size * len(arrays)) // size if size > 0 else 0
        parts = accumulate(repeat(max(1, size // _LOOK_BYTES)), mul, initial=count)
    end = 0
    for part in parts:
        end += part
        if part == 0 or end >= len(arrays):
            break
        yield end
    yield len(arrays)


def joined(runs: Sequence[PageRun]) -> tuple[PageRun, ...]:
    """Return runs of pages, those that are alike and follow each other as one."""
    return tuple(
        PageRun(sum(run.count for run in same), *kind)
        for kind, same in groupby(runs, lambda run: (run.dtype, run.shape))
    )


def _require_list(arrays: Any, pages: Any, what: str) -> None:
    if pages is not None:
        raise InputError(
            f"pages are numbers of slices of one array, and {what} are no array of PyTorch or "
            "CuPy; leave pages out, or give the array that they are slices of"
        )
    if not isinstance(arrays, list | tuple):
        raise InputError(f"{what} cannot be {shown(arrays)}; give a list of arrays")


def numbers_of(given: Any, count: int, what: str, of: str) -> NDArray[np.int64]:
    """Return numbers of pages as they are counted from 0, each less than `count`.

    Raises
    ------
    InputError
        If they are none.
    """
    try:
        few = len(given) <= _MOST_NUMBERS
        numbers = _whole_numbers(given) if few else None
        numbers = np.asarray(given if few else None) if numbers is None else numbers
    except Exception as error:  # of the value's own methods
        raise InputError(f"{what} cannot be {shown(given)}; give a list of numbers") from error
    if numbers.size == 0 and numbers.ndim == 1:
        return np.zeros(0, np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise InputError(f"{what} cannot be {shown(given)}; give a list of whole numbers")
    wrong = (numbers < 0) | (numbers >= count)
    if wrong.any():
        raise InputError(
            f"there is no page {numbers[wrong][0]} of {of}, which has {count}, counted from 0"
        )
    return numbers.astype(np.int64)


def _whole_numbers(given: Any) -> NDArray[np.int64] | None:
    """Return a list of plain numbers, in a third of NumPy's time; None where it is another."""
    if type(given) is not list or not given or type(given[0]) is not int:
        return None
    try:
        return np.frombuffer(array("q", given), np.int64)
    except (TypeError, OverflowError):
        return None


def require_apart(targets: Numbers, sizes: Numbers) -> None:
    """Refuse places for pages that have bytes in common. Raises `InputError`."""
    if native.share_bytes(targets, sizes):
        raise InputError("two pages would be put to the same bytes; give each a place of its own")


def _slices(values: Any, pages: Any, gpu: int, what: str) -> PageList:
    """Return slices of one array along its first dimension, which may have gaps between them."""
    by_table = _slices_by_table(values, pages, gpu)
    if by_table is not None:
        return by_table
    if len(values.shape) == 0:
        raise InputError(f"{what} are slices of an array with a first dimension; this one has none")
    count = int(values.shape[0])
    numbers = np.arange(count) if pages is None else numbers_of(pages, count, "pages", "the array")
    framework = framework_of_array(values)
    shape = tuple(values.shape[1:])
    if count == 0:
        return PageList(framework, gpu, *_none(), (), coded_dtype(values.dtype))
    first = gpu_array(values[0], gpu, f"a page of {what}")
    stride = _stride_bytes(values, framework) if count > 1 else first.bytes
    if stride < first.bytes:
        raise InputError(f"pages of {what} share bytes; give slices that lie apart")
    pointers = np.uint64(first.pointer) + numbers.astype(np.uint64) * np.uint64(stride)
    sizes = np.full(len(numbers), first.bytes, np.uint64)
    runs = (PageRun(len(numbers), values.dtype, shape),) if len(numbers) else ()
    return PageList(framework, gpu, pointers, sizes, runs, first.dtype, first.bytes)


def _slices_by_table(values: Any, pages: Any, gpu: int) -> PageList | None:
    """Return slices of a tensor as `_by_table` does tensors."""
    api = _table_of(type(values)) if type(pages) is list and pages else None
    if api is None:
        return None
    pointers = np.empty(len(pages), np.uint64)
    found = native.slice_table(api, values, pages, gpu, pointers)
    if found is None:
        return None
    each, address_bits = found
    runs = (PageRun(len(pages), values.dtype, tuple(values.shape[1:])),)
    sizes = np.full(len(pages), each, np.uint64)
    blocks = _bits_are_blocks(address_bits, each)
    return PageList("torch", gpu, pointers, sizes, runs, coded_dtype(values.dtype), each, blocks)


def _slices_in_parts(
    values: Any, pages: Any, gpu: int, what: str
) -> Iterator[tuple[PageList, bool]]:
    """Return slices, some of the first before others are looked at."""
    slices = int(values.shape[0]) if type(pages) is list and len(values.shape) > 0 else 0
    size = _bytes_of(values) // slices if slices > 0 else 0
    count = _lead_of(size * len(pages)) // size if size > 0 else 0
    if count == 0:
        yield from _parted(_slices(values, pages, gpu, what))
        return
    yield _slices(values, pages[:count], gpu, what), False
    yield _slices(values, pages[count:], gpu, what), True


def _bytes_of(values: Any) -> int:
    """Return the bytes of an array; 0 of one that has none side by side, which is refused later."""
    try:
        return int(values.nbytes)
    except RuntimeError:  # of a sparse one
        return 0


def _parted(given: PageList) -> Iterator[tuple[PageList, bool]]:
    """Return the first pages apart from the others, where those are more."""
    ends = np.cumsum(given.sizes)
    lead = _lead_of(int(ends[-1])) if len(given) > 1 else 0
    if lead == 0:
        yield given, True
        return
    count = min(max(1, int(np.searchsorted(ends, lead, side="right"))), len(given) - 1)
    for first, last in ((0, count), (count, len(given))):
        yield given.part(first, last), last == len(given)


def edge_of(whole: int) -> int:
    """Return how much of so many bytes is a transfer of its own at the end; 0 of few."""
    return _quarter_of(whole, EDGE_BYTES)


def _lead_of(whole: int) -> int:
    """Return how much of so many bytes leaves before the others are looked at; 0 of few."""
    return _quarter_of(whole, LEAD_BYTES)


def _quarter_of(whole: int, most: int) -> int:
    part = min(most, whole // 4)
    return part if 4 * part >= EDGE_BYTES else 0


def _runs_within(runs: Sequence[PageRun], first: int, last: int) -> tuple[PageRun, ...]:
    """Return the runs of some pages alone."""
    found, begin = [], 0
    for run in runs:
        end = begin + run.count
        count = min(end, last) - max(begin, first)
        if count > 0:
            found.append(replace(run, count=count))
        begin = end
    return tuple(found)


def _stride_bytes(values: Any, framework: str) -> int:
    """Return how far slices along the first dimension lie apart."""
    if framework == "torch":
        return int(values.stride(0)) * int(values.element_size())
    return int(values.strides[0])


def _none() -> tuple[Numbers, Numbers]:
    return np.zeros(0, np.uint64), np.zeros(0, np.uint64)


def _of_list(arrays: list[Any], gpu: int, what: str, number: int = 0) -> PageList:
    """Return separate arrays. Little is asked of each: there may be thousands."""
    if not arrays:
        return PageList("torch", gpu, *_none(), (), "uint8")
    table = _by_table(arrays, gpu)
    if table is not None:
        return table
    framework = framework_of_array(arrays[0])
    dtypes = set(map(attrgetter("dtype"), arrays)) if framework else set()
    places = _places(arrays, dtypes, framework, gpu)
    if places is None:  # one by one, so that the first that is wrong is named
        found = [
            gpu_array(one, gpu, f"array {i} of {what}") for i, one in enumerate(arrays, number)
        ]
        if len({one.framework for one in found}) > 1:
            raise InputError(f"{what} are of PyTorch and of CuPy; give those of one alone")
        places = [one.pointer for one in found], [one.bytes for one in found]
        dtypes = set(map(attrgetter("dtype"), arrays))
    kinds = set(map(coded_dtype, dtypes))
    return PageList(
        framework,
        gpu,
        np.array(places[0], np.uint64),
        np.array(places[1], np.uint64),
        _runs(arrays, dtypes),
        kinds.pop() if len(kinds) == 1 else "uint8",
    )


def _by_table(arrays: list[Any], gpu: int) -> PageList | None:
    """Return tensors of PyTorch from 2.10 on, of which a loop in C asks what there is to know.

    None where there are none, or one has to be looked at by itself.
    """
    api = _table_of(type(arrays[0])) if arrays else None
    if api is None:
        return None
    pointers, sizes, begins = np.empty((3, len(arrays)), np.uint64)
    found = native.tensor_table(api, arrays, gpu, pointers, sizes, begins)
    if found is None:
        return None
    count, address_bits, size_bits = found
    blocks = _bits_are_blocks(address_bits, size_bits)
    if count == 1:  # most lists: all bits are those of one
        run = PageRun(len(arrays), arrays[0].dtype, tuple(arrays[0].shape))
        kind = coded_dtype(run.dtype)
        return PageList("torch", gpu, pointers, sizes, (run,), kind, size_bits, blocks)
    ends = [*begins[1:count].tolist(), len(arrays)]
    runs = tuple(
        PageRun(end - begin, arrays[begin].dtype, tuple(arrays[begin].shape))
        for begin, end in zip(begins[:count].tolist(), ends, strict=True)
    )
    kinds = {coded_dtype(run.dtype) for run in runs}
    kind_of_all = kinds.pop() if len(kinds) == 1 else "uint8"
    return PageList("torch", gpu, pointers, sizes, runs, kind_of_all, None, blocks)


def _table_of(kind: type) -> Any:
    """Return the functions in C that know tensors of a type of PyTorch's own; None of others."""
    return getattr(kind, "__dlpack_c_exchange_api__", None) if kind.__module__ in _PLAIN else None


def _places(
    arrays: list[Any], dtypes: set[Any], framework: str, gpu: int
) -> tuple[list[int], list[int]] | None:
    """Return addresses and bytes of whole arrays in the GPU's memory; None where one is none."""
    kind = type(arrays[0])
    if not framework or set(map(type, arrays)) != {kind}:
        return None
    if framework == "cupy":
        one_by_one = set(map(attrgetter("device.id"), arrays)) != {gpu}
        if one_by_one or not all(map(attrgetter("flags.c_contiguous"), arrays)):
            return None
        return list(map(attrgetter("data.ptr"), arrays)), list(map(attrgetter("nbytes"), arrays))
    try:
        sizes = list(map(attrgetter("nbytes"), arrays))
        if set(map(kind.get_device, arrays)) != {gpu} or not all(map(kind.is_contiguous, arrays)):
            return None
        # A view that PyTorch negates when it is read is an imaginary part, which has gaps.
        if min(sizes) <= _SHORT_BYTES and any(map(kind.is_neg, arrays)):
            return None
        if any(map(dtype_is_complex, dtypes)) and any(map(kind.is_conj, arrays)):
            return None
        return list(map(kind.data_ptr, arrays)), sizes
    except RuntimeError:  # of those that are sparse
        return None


def dtype_is_complex(dtype: Any) -> bool:
    """Return whether values of a framework's type have two parts."""
    return "complex" in str(dtype)


def _runs(arrays: list[Any], dtypes: set[Any]) -> tuple[PageRun, ...]:
    """Return types and shapes, those that are the same together."""
    shapes = list(map(attrgetter("shape"), arrays))
    if len(dtypes) == 1 and shapes.count(shapes[0]) == len(shapes):
        return (PageRun(len(shapes), arrays[0].dtype, tuple(shapes[0])),)
    both = zip(map(attrgetter("dtype"), arrays), shapes, strict=True)
    return tuple(
        PageRun(sum(1 for _ in same), dtype, tuple(shape)) for (dtype, shape), same in groupby(both)
    )


def new_pages(framework: str, runs: Sequence[PageRun], gpu: int) -> tuple[list[Any], list[Any]]:
    """Return new arrays for runs of pages, one for each, and all pages of them."""
    whole = [new_array(framework, (run.count, *run.shape), run.dtype, gpu) for run in runs]
    pages: list[Any] = []
    for one in whole:
        pages += one.unbind(0) if framework == "torch" else list(one)
    return whole, pages


def runs_of(parcel: PageParcel, wanted: NDArray[np.int64]) -> list[PageRun]:
    """Return what some pages of a parcel are, in the order in which they are wanted."""
    if len(parcel.runs) == 1:
        run = parcel.runs[0]
        return [PageRun(len(wanted), run.dtype, run.shape)] if len(wanted) else []
    kinds = np.repeat(np.arange(len(parcel.runs)), [run.count for run in parcel.runs])
    found = []
    for kind, same in groupby(kinds[wanted].tolist()):
        run = parcel.runs[kind]
        found.append(PageRun(sum(1 for _ in same), run.dtype, run.shape))
    return found
