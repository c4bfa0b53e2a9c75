"""What ``lanescope bench compress`` measures on GPUs, and the picture of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lanescope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lanescope.compression.stream import Codec
    from lanescope.studies.compress.on_gpus import Gpus
    from lanescope.studies.compress.results import ArrayResult

#: Of so many arrays, the largest, pictures are drawn: one for each path.
_MOST_DRAWN = 4


class Devices(StrEnum):
    """What arrays are compressed by."""

    CPU = "cpu"
    GPU = "gpu"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """What is measured on GPUs.

    Attributes
    ----------
    names
        Of all GPUs, in CUDA's order.
    nvcomp_codecs
        Those of nvCOMP that are measured.
    """

    names: tuple[str, ...]
    sms: tuple[int, ...]
    link_sizes: tuple[int, ...]
    nvcomp_codecs: tuple[Codec, ...] = ()

    def begin(self) -> Gpus:
        """Return what measures it."""
        from lanescope.compression.nvcomp_library import open_nvcomp
        from lanescope.studies.compress.on_gpus import Gpus

        nvcomp = open_nvcomp() if self.nvcomp_codecs else None
        return Gpus(
            len(self.names),
            self.sms,
            self.link_sizes,
            nvcomp=nvcomp,
            nvcomp_codecs=self.nvcomp_codecs,
        )


def gpu_plan(
    devices: Devices,
    sms: tuple[int, ...] | None,
    link_sizes: tuple[int, ...] | None,
    *,
    picture: bool,
    codecs: Sequence[Codec] | None = None,
) -> GpuPlan | None:
    """Return what is to be measured on GPUs; None: nothing.

    Parameters
    ----------
    devices
        `Devices.ALL`: those that there are.
    sms, link_sizes
        As the user gave them; None: the default.
    picture
        Whether data rate by transfer size is to be drawn.
    codecs
        Which were asked for; None: all, and of nvCOMP those that are installed.

    Raises
    ------
    InputError
        If something was asked for that cannot be measured here.
    """
    from lanescope.studies.compress import on_gpus

    nvcomp = next((one for one in codecs or () if one.by_nvcomp), None)
    options = {
        "--sms": sms,
        "--link-sizes": link_sizes,
        "--plot-rate": picture or None,
        f"--codec {nvcomp}": nvcomp,
    }
    asked = [name for name, given in options.items() if given is not None]
    if devices is Devices.CPU:
        if asked:
            raise InputError(f"{asked[0]} is of GPUs; leave it out with --device cpu")
        return None
    sizes = _link_sizes(link_sizes, picture=picture)
    gpus = on_gpus.gpus_here()
    if not gpus:
        if devices is Devices.GPU or asked:
            what = "--device gpu" if devices is Devices.GPU else asked[0]
            raise InputError(
                f"{what} needs a GPU, and CUDA shows none here; look at 'lanescope doctor', or "
                "leave it out"
            )
        return None
    names = tuple(str(one["name"]) for one in gpus)
    return GpuPlan(names, _sms(sms, gpus[0]), sizes, _nvcomp_codecs(codecs))


def _nvcomp_codecs(codecs: Sequence[Codec] | None) -> tuple[Codec, ...]:
    from lanescope.compression.nvcomp_library import nvcomp_for, there_is_nvcomp
    from lanescope.compression.stream import Codec

    if codecs is None:
        return tuple(one for one in Codec if one.by_nvcomp) if there_is_nvcomp() else ()
    return tuple(one for one in codecs if nvcomp_for(one) is not None)


def _sms(wanted: tuple[int, ...] | None, gpu: dict[str, Any]) -> tuple[int, ...]:
    from lanescope.studies.compress.on_gpus import DEFAULT_SMS, require_sms

    most = int(gpu["multiprocessors"])
    if wanted is None:
        return tuple(one for one in DEFAULT_SMS if one < most)
    require_sms(wanted, most)
    return wanted


def _link_sizes(sizes: tuple[int, ...] | None, *, picture: bool) -> tuple[int, ...]:
    from lanescope.studies.compress.on_gpus import DEFAULT_LINK_SIZES, PICTURE_SIZES

    if sizes is None:
        return PICTURE_SIZES if picture else DEFAULT_LINK_SIZES
    if picture and len(sizes) < 2:
        raise InputError("--plot-rate draws over sizes; give several with --link-sizes")
    return sizes


def write_rate_charts(results: Sequence[ArrayResult], plot: Path) -> None:
    """Draw data rate by transfer size: one picture for each path and array, the largest ones.

    Raises
    ------
    InputError
        If nothing crossed a link, or it cannot be written.
    """
    from lanescope.report.chart_files import write_chart
    from lanescope.studies.compress.rate_chart import rate_charts

    crossed = [one for one in results if one.crossings]
    if not crossed:
        raise InputError(
            "--plot-rate draws what crossed the links of a GPU, and nothing did; measure on a "
            "machine with one"
        )
    drawn = sorted(crossed, key=lambda one: -one.bytes)[:_MOST_DRAWN]
    named = [
        replace(crossing, data=one.name.rsplit("/", 1)[-1] + (", made up" if one.made_up else ""))
        for one in drawn
        for crossing in one.crossings
    ]
    charts = rate_charts(named)
    for chart in charts:
        name = f"{plot.stem}{chart.key.removeprefix('compress-rate')}{plot.suffix}"
        path = plot if len(charts) == 1 else plot.with_name(name)
        write_chart(chart, path)
        print(f"plot: {path}", file=sys.stderr)
    if more := len(crossed) - len(drawn):
        print(f"{more} smaller arrays are not drawn", file=sys.stderr)
