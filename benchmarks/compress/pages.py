"""Pages of a KV cache to pinned memory of the host and back, by several ways in turns.

::

    python benchmarks/compress/pages.py --out FILE.json [--turns 9] [--pages 1000]

Pages of 16 KiB, 64 KiB and 1 MiB (bf16, N(0, 1)), 1000 of each, by

- ``one``: `Channel.offload` and `restore` of one array of the same bytes;
- ``cache``: `offload_many` and `restore_many` of slices of one tensor, by shuffled numbers;
- ``list``: the same of a list of separate tensors;
- ``torch``: ``copy_`` of each page to pinned memory of its own and back, ``non_blocking``;

the first three raw and compressed (by ``exponent``), in an order that is shuffled in each turn, as
who comes behind ``torch`` finds the host's caches full of other things. Times are those of the
host's clock, from the call until the GPU has ended all, so that what a call costs counts. Of pages
of 16 KiB the compressed ones are offloaded ``together``, as they would not be compressed otherwise;
every second one of them comes back of pages that were not. The table has GB/s of the medians with
the range, and what that is of ``one`` and of ``torch``; FILE every second. Then, of every second
page: what crossed the link, and how fast. Needs one GPU and PyTorch.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import lanescope
from lanescope.units.sizes import bandwidth_gbs

KIB = 1 << 10
SIZES = (16 * KIB, 64 * KIB, 1024 * KIB)
#: Before the turns that count: memory is pinned, and kernels are loaded.
WARM_UP = 2
Ways = dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]


def cache_of(pages: int, size: int) -> torch.Tensor:
    """Return twice as many pages as travel, as a cache has."""
    return torch.randn((2 * pages, size // 2), device="cuda:0").to(torch.bfloat16)


def lanescope_ways(
    channel: lanescope.Channel, cache: torch.Tensor, numbers: list[int], label: str
) -> Ways:
    """Return how pages leave and come back by a channel."""
    one = cache[: len(numbers)].clone()
    back = torch.empty_like(one)
    several = [cache[i].clone() for i in numbers]
    places = [torch.empty_like(page) for page in several]
    room = torch.empty_like(cache)
    return {
        f"one {label}": (
            lambda: channel.offload(one, tag="one"),
            lambda parcel: channel.restore(parcel, out=back),
        ),
        f"cache {label}": (
            lambda: channel.offload_many(cache, tag="cache", pages=numbers, together=True),
            lambda parcel: channel.restore_many(parcel, out=room, pages=numbers),
        ),
        f"list {label}": (
            lambda: channel.offload_many(several, tag="list", together=True),
            lambda parcel: channel.restore_many(parcel, out=places),
        ),
    }


def torch_ways(cache: torch.Tensor, numbers: list[int]) -> Ways:
    pinned = torch.empty((len(numbers), cache.shape[1]), dtype=cache.dtype, pin_memory=True)
    room = torch.empty_like(cache)

    def there() -> None:
        for place, number in enumerate(numbers):
            pinned[place].copy_(cache[number], non_blocking=True)

    def back(_: None) -> None:
        for place, number in enumerate(numbers):
            room[number].copy_(pinned[place], non_blocking=True)

    return {"torch": (there, back)}


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    made = action()
    torch.cuda.synchronize()
    return time.perf_counter() - begun, made


def require_same(channel: lanescope.Channel, cache: torch.Tensor, numbers: list[int]) -> None:
    """End unless all pages, and some, come back to the bit."""
    parcel = channel.offload_many(cache, pages=numbers)
    wanted = list(range(0, len(numbers), 3))
    for which in (None, wanted):
        found = channel.restore_many(parcel, which=which)
        chosen = numbers if which is None else [numbers[i] for i in which]
        expected = cache[torch.tensor(chosen, device=cache.device)]
        if not torch.equal(torch.stack(found).view(torch.int16), expected.view(torch.int16)):
            raise SystemExit("pages came back otherwise")
    channel.synchronize()


def measure(size: int, pages: int, turns: int) -> dict[str, Any]:
    """Return the seconds of each way and direction."""
    cache = cache_of(pages, size)
    numbers = torch.randperm(2 * pages)[:pages].tolist()
    with (
        lanescope.Channel(0, "host", compression="off") as raw,
        lanescope.Channel(0, "host", compression="on", codec="exponent") as coded,
    ):
        ways: Ways = {}
        for channel, label in ((raw, "raw"), (coded, "compressed")):
            require_same(channel, cache, numbers)
            ways |= lanescope_ways(channel, cache, numbers, label)
        ways |= torch_ways(cache, numbers)
        taken: dict[str, dict[str, list[float]]] = {name: {"d2h": [], "h2d": []} for name in ways}
        order = random.Random(turns)
        for turn in range(WARM_UP + turns):
            # What ran before decides what is in the host's caches: each follows every other.
            for name in order.sample(list(ways), len(ways)):
                there, back = ways[name]
                out, parcel = timed(there)
                home, _ = timed(lambda back=back, parcel=parcel: back(parcel))
                del parcel
                if turn >= WARM_UP:
                    taken[name]["d2h"].append(out)
                    taken[name]["h2d"].append(home)
        half = [
            every_second(channel, cache, numbers, label, turns)
            for channel, label in ((raw, "raw"), (coded, "compressed"))
        ]
        pinned = raw.pinned_bytes
        trimmed = raw.trim()
        after = raw.pinned_bytes
    return {
        "page_bytes": size, "pages": pages, "seconds": taken, "every_second": half,
        "pinned_bytes": pinned, "trimmed_bytes": trimmed, "pinned_after": after,
    }  # fmt: skip


def every_second(
    channel: lanescope.Channel, cache: torch.Tensor, numbers: list[int], label: str, turns: int
) -> dict[str, Any]:
    """Return what it takes to bring back every second page, and what crosses the link."""
    parcel = channel.offload_many(cache, tag="half", pages=numbers)
    stored = parcel.stored_bytes
    room, which = torch.empty_like(cache), list(range(0, len(numbers), 2))
    places = [numbers[i] for i in which]
    action = lambda: channel.restore_many(parcel, out=room, which=which, pages=places)  # noqa: E731
    seconds = [timed(action)[0] for _ in range(WARM_UP + turns)][WARM_UP:]
    before = channel.last
    action()
    records = channel.log
    crossed = [record.wait().wire_bytes for record in records[records.index(before) + 1 :]]
    return {
        "way": label, "bytes": len(which) * cache.shape[1] * 2, "stored_bytes": stored,
        "wire_bytes": sum(crossed), "seconds": seconds,
    }  # fmt: skip


def table(found: dict[str, Any]) -> str:
    size, pages = found["page_bytes"], found["pages"]
    lines = [f"{pages} pages of {size // KIB} KiB"]
    whole = size * pages
    for direction in ("d2h", "h2d"):
        medians = {
            name: statistics.median(one[direction]) for name, one in found["seconds"].items()
        }
        for name, seconds in medians.items():
            few, many = (pick(found["seconds"][name][direction]) for pick in (max, min))
            kind = name.partition(" ")[2]
            of_one = medians[f"one {kind}"] / seconds if kind else medians["one raw"] / seconds
            lines.append(
                f"  {direction} {name:18}{bandwidth_gbs(whole, seconds):8.1f} GB/s "
                f"({bandwidth_gbs(whole, few):.1f} to {bandwidth_gbs(whole, many):.1f}), "
                f"{of_one:5.2f} of one, {medians['torch'] / seconds:5.2f} of torch"
            )
    for one in found["every_second"]:
        seconds = statistics.median(one["seconds"])
        lines.append(
            f"  every second, {one['way']:11}{bandwidth_gbs(one['bytes'], seconds):6.1f} GB/s, "
            f"{one['wire_bytes'] / one['bytes']:.2f} of their bytes crossed the link"
        )
    lines.append(
        f"  pinned {found['pinned_bytes'] >> 20} MiB, trim gave back "
        f"{found['trimmed_bytes'] >> 20}, {found['pinned_after'] >> 20} left"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--sizes", nargs="+", type=int, help="of a page, in KiB")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.manual_seed(1)
    rows = []
    for size in [one * KIB for one in options.sizes] if options.sizes else SIZES:
        rows.append(measure(size, options.pages, options.turns))
        print(table(rows[-1]), flush=True)
        if options.out:
            told = {
                "gpu": torch.cuda.get_device_name(0),
                "torch": torch.__version__,
                "lanescope": lanescope.__version__,
                "rows": rows,
            }
            options.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
