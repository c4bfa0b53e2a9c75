"""``bench compress``: what codecs make of the user's arrays, and whether that pays."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

from lanescope._version import __version__
from lanescope.calls import checked
from lanescope.compression.arrays import (
    DTYPES,
    ArrayEntry,
    NothingToCompressError,
    Opened,
    open_arrays,
)
from lanescope.compression.stream import Codec, nvcomp_for, open_nvcomp, there_is_nvcomp
from lanescope.errors import InputError, MissingPartError, argument
from lanescope.kinds import StrPath
from lanescope.machine.sysfs import cpu_model
from lanescope.prediction.parameters import LinkParameters
from lanescope.store.folder import RunFolder
from lanescope.studies import Argument, Option, size_option
from lanescope.studies.analysis import (
    PARAMETERS,
    Analysis,
    Observer,
    OutFolder,
    Parameters,
    analysis_folder,
    link_parameters,
)
from lanescope.studies.compress import on_gpus
from lanescope.studies.compress.compressed import FILE, Compressed, read_compress
from lanescope.studies.compress.measuring import (
    DEFAULT_BYTES,
    HostDevice,
    array_results,
    example_arrays,
)
from lanescope.studies.compress.on_gpus import DEFAULT_LINK_SIZES, DEFAULT_SMS, Gpus, require_sms
from lanescope.studies.compress.results import ArrayResult
from lanescope.studies.compress.verdicts import CrossedLink
from lanescope.units.sizes import Size, bandwidth_gbs, size_of
from lanescope.units.values import (
    InFile,
    Numbers,
    OneOf,
    Real,
    Scaled,
    Sizes,
    Whole,
    Words,
)

#: Sampling time in seconds.
_BUDGET_SECONDS = 0.1
_DIMENSIONALITIES = (1, 2, 3, 4, 5, 8, 16, 32)
#: Of the time at most this share goes into writing: a file of hundreds of tensors grows long.
_WRITING_SHARE = 0.05
_DTYPE = OneOf("--dtype", lambda: list(DTYPES))
_CODEC = Words("--codec", lambda: Codec)


class Devices(StrEnum):
    """What arrays are compressed by."""

    CPU = "cpu"
    GPU = "gpu"
    ALL = "all"


_DEVICE = OneOf("--device", lambda: Devices)


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Compress(Analysis):
    """Compress arrays without loss by every codec: how small, how fast, and whether it pays.

    Speeds are those of this host's CPUs, one thread and all, and of GPU 0; every array is
    decompressed and compared. On a machine with GPUs arrays also cross their links, compressed in
    turns with the raw copy; what other links would gain is predicted.

    Attributes
    ----------
    files
        Files with arrays; none: made-up examples.
    dtype
        What the values of files without a header are.
    dimensionality
        Of GFC, 1 to 32: from how far back it predicts; the best one counts.
    codecs
        Names of codecs that are measured besides raw; None: all that there are.
    size_bytes
        Of each made-up example.
    link_gbs
        Predict for a link of so many GB/s.
    parameters
        Predict for copies to the GPU of link parameters: a name, a file, a run, or the parameters.
    slab_bytes
        Of the pieces that are compressed, sent and decompressed at the same time.
    threads
        Most threads; 0: as many as CPUs, 16 at most.
    budget_seconds
        Sampling time for one codec, direction and number of threads, about, which the arrays of a
        type share; None: 0.1.
    device
        Whose speeds: ``cpu``, ``gpu``, or ``all`` that there are.
    sms
        SMs that a GPU's kernels are timed on, 0: all; None: 16, 48 and all.
    link_sizes
        Bytes that cross a GPU's links, arrays being repeated; None: 1 MiB and 256 MiB.
    out
        Run folder; None makes one under the runs folder.
    stored
        A ``compress.json`` or its run folder: nothing is measured.
    """

    verb: ClassVar[str] = "compress"
    title: ClassVar[str] = "Compression of arrays"

    files: Annotated[
        StrPath | Sequence[StrPath],
        Argument(
            "[FILES]",
            ".npy, .safetensors, classic NetCDF, or values alone (.f64, .f32, .bf16, ...); "
            "default: made-up examples.",
            tuple,
        ),
    ] = ()
    dtype: Annotated[
        str | None, Option(_DTYPE, "What the values of files without a header are.")
    ] = None
    dimensionality: Annotated[
        Sequence[int],
        Option(
            Numbers("--dimensionality", 1, 32, "1,5,8 or 1-32", spans=True),
            "Of GFC, 1 to 32: from how far back it predicts.",
            "1,2,3,4,5,8,16,32",
            metavar="N,N-M,...",
        ),
    ] = _DIMENSIONALITIES
    codecs: Annotated[
        Sequence[Codec] | None,
        Option(
            _CODEC,
            "Only these besides raw, of {names}: those of nvCOMP on a GPU that has it; default: "
            "all that there are.",
        ),
    ] = None
    size_bytes: Annotated[
        Size | None, size_option("Of each made-up example; default 16MiB.", None, most=64 << 30)
    ] = None
    link_gbs: Annotated[
        float | None,
        Option(
            Scaled("--link-speed", "GB/s", 1e6, "no link is faster"),
            "Predict for a link of so many GB/s.",
            metavar="GBS",
        ),
    ] = None
    parameters: Annotated[
        Parameters,
        replace(
            PARAMETERS,
            help="Predict for copies to the GPU of link parameters (h200, a file, a run).",
        ),
    ] = None
    slab_bytes: Annotated[
        Size, size_option("Pieces of an array that cross a link.", "8MiB", "--slab")
    ] = 8 << 20
    threads: Annotated[
        int,
        Option(
            Whole("--threads", 0, 1024, "0: as many as CPUs, 16 at most"),
            "Most threads; 0, the default: as many as CPUs, 16 at most.",
        ),
    ] = 0
    budget_seconds: Annotated[
        float | None,
        Option(
            Real("--budget", "seconds", 3600, ""),
            "Sampling time for one codec, direction and number of threads, about, which the "
            "arrays of a type share.",
            str(_BUDGET_SECONDS),
        ),
    ] = None
    device: Annotated[
        Devices, Option(_DEVICE, "Whose speeds, cpu, gpu or all: of those that there are.", "all")
    ] = Devices.ALL
    sms: Annotated[
        Sequence[int] | None,
        Option(
            Numbers("--sms", 0, 1023, "16,48,0"),
            "SMs that a GPU's kernels are timed on, 0: all; default 16,48,0.",
        ),
    ] = None
    link_sizes: Annotated[
        Sequence[int] | None,
        Option(
            Sizes("--link-sizes", spans=True),
            "What crosses a GPU's links, arrays being repeated; 1MiB-256MiB: each power of two; "
            "default 1MiB,256MiB.",
        ),
    ] = None
    out: OutFolder = None
    stored: Annotated[
        StrPath | None,
        Option(
            InFile("--from"), "Show, draw or predict from a stored compress.json; measure nothing."
        ),
    ] = None

    def result(self, observer: Observer) -> Compressed:
        """Return what codecs made of the arrays.

        Raises
        ------
        MismatchError
            If an array does not come back as it was.
        """
        link = self._link()
        if self.stored is not None:
            found = read_compress(Path(self.stored))
            return found if link is None else replace(found, link=link)
        return self._measured(link, observer)

    @classmethod
    def read(cls, folder: Path) -> Compressed:
        """Return the result of a run folder."""
        return read_compress(folder / FILE)

    def _link(self) -> CrossedLink | None:
        if self.link_gbs is not None:
            return CrossedLink(f"a link of {self.link_gbs:g} GB/s", self.link_gbs)
        if self.parameters is None:
            return None
        found: LinkParameters = link_parameters(self.parameters)
        gbs = bandwidth_gbs(1, found.h2d.per_byte.value)
        return CrossedLink(
            f"{found.name}, {found.link} ({gbs:.1f} GB/s)", gbs, found.h2d.first.value
        )

    def _measured(self, link: CrossedLink | None, observer: Observer) -> Compressed:
        codecs = self.codecs
        gfc = codecs is None or Codec.GFC in codecs
        if not gfc and tuple(self.dimensionality) != _DIMENSIONALITIES:
            raise InputError(
                f"{argument.dimensionality} is of GFC; give {argument.codecs} gfc, too, or leave "
                "it out"
            )
        if self.device == Devices.GPU and self.budget_seconds is not None:
            raise InputError(
                f"{argument.budget_seconds} is of CPUs; leave it out with {argument.device} gpu"
            )
        gpus = self._gpus(codecs)
        opened = self._opened()
        names = () if gpus is None else gpus.names
        nothing = Compressed(
            lanescope=__version__,
            cpu=cpu_model(),
            gpus=names,
            complete=False,
            link=link,
            slab_bytes=size_of(self.slab_bytes),
            arrays=(),
            left_out=opened.left_out,
        )
        budget = None if self.device == Devices.GPU else self.budget_seconds or _BUDGET_SECONDS
        measured = Measuring(HostDevice(self.threads), sorted(self.dimensionality), budget, codecs)
        return measured.all_of(opened.entries, gpus, nothing, self.out, observer)

    def _opened(self) -> Opened:
        files = (self.files,) if isinstance(self.files, str | os.PathLike) else tuple(self.files)
        if not files:
            return Opened(example_arrays(size_of(self.size_bytes or DEFAULT_BYTES)))
        entries: list[ArrayEntry] = []
        left_out: list[str] = []
        refused: NothingToCompressError | None = None
        for path in files:
            try:
                opened = open_arrays(Path(path), self.dtype)
            except NothingToCompressError as error:
                refused = refused or error
                left_out.append(str(error))
            else:
                entries += opened.entries
                left_out += opened.left_out
        if refused is not None and not entries:
            raise refused
        return Opened(tuple(entries), tuple(left_out))

    def _gpus(self, codecs: Sequence[Codec] | None) -> Gpus | None:
        """Return what measures on GPUs; None: nothing is measured there."""
        nvcomp = next((one for one in codecs or () if one.by_nvcomp), None)
        options = {
            argument.sms: self.sms,
            argument.link_sizes: self.link_sizes,
            f"{argument.codecs} {nvcomp}": nvcomp,
        }
        requested = [name for name, given in options.items() if given is not None]
        if self.device == Devices.CPU:
            if requested:
                raise InputError(
                    f"{requested[0]} is of GPUs; leave it out with {argument.device} cpu"
                )
            return None
        found = on_gpus.gpus_here()
        if not found:
            if self.device == Devices.GPU or requested:
                what = f"{argument.device} gpu" if self.device == Devices.GPU else requested[0]
                raise MissingPartError(
                    f"{what} needs a GPU, and CUDA shows none here; look at 'lanescope doctor', or "
                    "leave it out"
                )
            return None
        by_nvcomp = _nvcomp_codecs(codecs)
        return Gpus(
            tuple(str(one["name"]) for one in found),
            _sms(self.sms, int(found[0]["multiprocessors"])),
            self.link_sizes or DEFAULT_LINK_SIZES,
            nvcomp=open_nvcomp() if by_nvcomp else None,
            nvcomp_codecs=by_nvcomp,
        )


@dataclass(frozen=True, slots=True)
class Measuring:
    """How arrays are measured.

    Attributes
    ----------
    budget_seconds
        Of the host's CPUs, for all arrays of a type; None: not their speeds.
    codecs
        Which are measured, besides raw; None: all that there are.
    """

    device: HostDevice
    dimensionalities: Sequence[int]
    budget_seconds: float | None
    codecs: Collection[Codec] | None = None

    def all_of(
        self,
        entries: Sequence[ArrayEntry],
        gpus: Gpus | None,
        found: Compressed,
        out: StrPath | None,
        observer: Observer,
    ) -> Compressed:
        """Measure all arrays; what there is when this is cut off is stored.

        Parameters
        ----------
        found
            All but the arrays.
        """
        with analysis_folder(Compress.verb, out) as folder, gpus or nullcontext():
            writing = _Writing(folder, found)
            observer.progress("looking at the arrays", 0, len(entries))
            try:
                alike = Counter(entry.dtype for entry in entries)
                for done, entry in enumerate(entries):

                    def on_step(step: str, name: str = entry.name, done: int = done) -> None:
                        observer.progress(f"{name}: {step}", done, len(entries))

                    for result in self._sharing(alike[entry.dtype])._steps(entry, gpus, on_step):
                        if not writing.found.arrays:
                            observer.stores(folder.path)
                        writing.take(done, result)
                writing.found = replace(writing.found, complete=True)
            finally:
                writing.write()
            return writing.found

    def _sharing(self, arrays: int) -> Measuring:
        """Return how one of so many arrays is measured that share the time for samples."""
        if self.budget_seconds is None:
            return self
        return replace(self, budget_seconds=self.budget_seconds / arrays)

    def _steps(
        self, entry: ArrayEntry, gpus: Gpus | None, on_step: Callable[[str], object]
    ) -> Iterator[ArrayResult]:
        """Yield what is known of an array, more each time."""
        for result in array_results(
            entry, self.device, self.dimensionalities, self.budget_seconds, on_step, self.codecs
        ):
            yield result
        if gpus is not None:
            yield from gpus.measure(result, entry.load(), on_step)


class _Writing:
    """Stores what is found as it grows, which takes a small share of the time."""

    def __init__(self, folder: RunFolder, found: Compressed) -> None:
        self._folder, self.found = folder, found
        self._due = 0.0
        self.write()  # a kill before the first codec leaves a run that reads back, too

    def take(self, number: int, result: ArrayResult) -> None:
        """Take what is known of an array by now."""
        self.found = replace(self.found, arrays=(*self.found.arrays[:number], result))
        begun = time.monotonic()
        if begun >= self._due:
            self.write()
            ended = time.monotonic()
            self._due = ended + (ended - begun) / _WRITING_SHARE

    def write(self) -> None:
        """Store it now."""
        self._folder.write_json(FILE, self.found.as_dict())


def _nvcomp_codecs(codecs: Sequence[Codec] | None) -> tuple[Codec, ...]:
    if codecs is None:
        return tuple(one for one in Codec if one.by_nvcomp) if there_is_nvcomp() else ()
    return tuple(one for one in codecs if nvcomp_for(one) is not None)


def _sms(wanted: Sequence[int] | None, most: int) -> tuple[int, ...]:
    if wanted is None:
        return tuple(one for one in DEFAULT_SMS if one < most)
    require_sms(wanted, most)
    return tuple(wanted)
