"""A training step whose activations wait in the host's memory, by several methods in turns.

::

    python benchmarks/compress/offload_training.py --out FILE.json [--turns 5] [--steps 3]

A stack of 12 blocks like GPT's: ``--width`` 2048, heads of 128, batches of 8 x 1024, bf16. ``none``
offloads nothing, ``save_on_cpu`` is PyTorch's with pinned memory, ``raw``, ``auto`` and ``on`` are
``lanescope.torch.offload_activations`` by its compression, ``trl`` is TRL's OffloadActivations,
where that is installed.

First, what each method's gradients are against those of ``none``, to the bit, by PyTorch's
deterministic algorithms; ``none`` itself runs twice. Then steps are timed without these, as most
programs run: the forward and backward pass and both together (medians of the turns' medians,
and the range), the GPU's peak memory, what crossed the link in each direction, and the time that
this takes at the rates of two copies of pinned memory that are measured before. Out and back
follow each other, but for what the backward pass finds on the GPU: so a step is set against the
larger of the computation and of both together.

On an H100 the memory and the comparison should take some 25 s and a turn 4 s. The table is printed
and FILE written after each turn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # of the comparison, before CUDA begins

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from lanescope.torch import offload_activations
from lanescope.units.sizes import bandwidth_gbs, binary_text, size_text, transfer_seconds

WIDTH, HEAD, BLOCKS, BATCH, LENGTH = 2048, 128, 12, 8, 1024
LEAST_BYTES = 1 << 20
PROBE_BYTES = 256 << 20
OWN = ("raw", "auto", "on")


class Block(torch.nn.Module):
    """Attention and a feed-forward net, each with its norm and around it a residual."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.wide = torch.nn.Linear(width, 4 * width)
        self.narrow = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, 3, width // HEAD, HEAD)
        q, k, v = self.qkv(self.norms[0](x)).view(shape).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        hidden = torch.nn.functional.gelu(self.wide(self.norms[1](x)))
        return x + self.narrow(hidden)


def contexts(ahead: str | None, only: list[str] | None) -> Iterator[tuple[str, Any]]:
    """Yield each method and its context, which is to be entered once a step."""
    made: dict[str, Callable[[], Any]] = {
        "none": contextlib.nullcontext,
        "save_on_cpu": partial(torch.autograd.graph.save_on_cpu, pin_memory=True),
    }
    for name in OWN:
        compression = "off" if name == "raw" else name
        made[name] = partial(
            offload_activations, compression=compression, min_bytes=LEAST_BYTES, ahead=ahead
        )
    with contextlib.suppress(ImportError):
        from trl.models.activation_offloading import OffloadActivations

        made["trl"] = partial(OffloadActivations, min_offload_size=LEAST_BYTES)
    yield from ((name, make()) for name, make in made.items() if only is None or name in only)


def forward(model: torch.nn.Module, batch: torch.Tensor, context: Any) -> torch.Tensor:
    model.zero_grad(set_to_none=True)
    with context:
        return model(batch).float().square().mean()


def gradients(model: torch.nn.Module, batch: torch.Tensor, context: Any) -> list[torch.Tensor]:
    """Return a step's gradients, in the host's memory."""
    forward(model, batch, context).backward()
    found = [parameter.grad.cpu() for parameter in model.parameters()]
    model.zero_grad(set_to_none=True)
    return found


def compare(
    model: torch.nn.Module, batch: torch.Tensor, methods: Iterator[tuple[str, Any]]
) -> dict[str, tuple[Any, bool, int]]:
    """Run two steps by each method, one after the other.

    Returns
    -------
    dict
        By method its context, whether both steps have the gradients of a step without it, and
        the bytes of the GPU's memory that it takes outside of PyTorch's allocator, once the steps
        without it have loaded theirs.
    """
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    expected = gradients(model, batch, contextlib.nullcontext())
    found = {}
    before = outside_bytes()
    for name, context in methods:
        steps = [gradients(model, batch, context) for _ in range(2)]
        equal = all(all(map(torch.equal, one, expected)) for one in steps)
        before, taken = outside_bytes(), outside_bytes() - before
        found[name] = context, equal, taken
        said = "equal to the bit" if equal else "DIFFERENT"
        print(
            f"gradients of {name}, two steps: {said} to those of none; outside of PyTorch's "
            f"allocator: {binary_text(max(taken, 0))} more",
            flush=True,
        )
    torch.use_deterministic_algorithms(False)
    return found


def saved_bytes(model: torch.nn.Module, batch: torch.Tensor) -> int:
    """Return the bytes of all that is saved, parameters too: what ``save_on_cpu`` moves."""
    sizes = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()  # an output that is saved as itself would never be freed

    forward(model, batch, torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one))
    return sum(sizes)


def outside_bytes() -> int:
    """Return what of the GPU's memory PyTorch's allocator does not know."""
    free, whole = torch.cuda.mem_get_info()
    return whole - free - torch.cuda.memory_reserved()


def link_rates() -> dict[str, float]:
    """Return what copies of pinned memory reach, in GB/s: the best of five."""
    there = torch.empty(PROBE_BYTES, dtype=torch.uint8, device="cuda")
    host = torch.empty(PROBE_BYTES, dtype=torch.uint8, pin_memory=True)
    found = {}
    for name, target, source in (("out", host, there), ("back", there, host)):
        taken = []
        for _ in range(5):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            target.copy_(source, non_blocking=True)
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end) / 1e3)
        found[name] = bandwidth_gbs(PROBE_BYTES, min(taken))
    return found


def measure(
    model: torch.nn.Module, batch: torch.Tensor, context: Any, steps: int
) -> tuple[list[tuple[float, float]], list[dict[str, Any]]]:
    """Return the seconds of steps, one after the other, and of their forward passes; and the moves.

    The host's clock times a step, the GPU's what of it is the forward pass. What moved is counted
    for lanescope's contexts.
    """
    taken, moved = [], []
    for count in range(steps + 1):
        begin, middle = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before = transfers_of(context)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        begin.record()
        loss = forward(model, batch, context)
        middle.record()
        loss.backward()
        torch.cuda.synchronize()
        if count > 0:  # the first one finds its memory
            taken.append((time.perf_counter() - begun, begin.elapsed_time(middle) / 1e3))
            moved.append(moved_by(context, transfers_of(context) - before))
    return taken, moved


def transfers_of(context: Any) -> int:
    """Return how many transfers one of lanescope's contexts has begun; 0 of others."""
    moved = getattr(context, "moved", None)
    return 0 if moved is None else moved.tensors + moved.brought


def moved_by(context: Any, transfers: int) -> dict[str, Any]:
    """Return what the last transfers of one of lanescope's contexts moved, by direction.

    Of what left as it was, why: ``raw_because`` has bytes by the reason's first words.
    """
    found: dict[str, Any] = {"out_bytes": 0, "out_wire": 0, "back_bytes": 0, "back_wire": 0}
    reasons = found["raw_because"] = dict[str, int]()
    for record in context.log[-transfers:] if transfers else ():
        outcome = record.wait()
        direction = "out" if record.transfer.path.endswith(">host") else "back"
        if direction == "out" and not outcome.compressed:
            reason = re.split("[;:]", record.decision.reason)[0]
            reasons[reason] = reasons.get(reason, 0) + outcome.raw_bytes
        found[f"{direction}_bytes"] += outcome.raw_bytes
        found[f"{direction}_wire"] += outcome.wire_bytes
    return found


def mean_moves(name: str, steps: list[dict[str, Any]], whole: int) -> dict[str, Any]:
    """Return what a step moves; of TRL's nobody counts it."""
    if name not in OWN:
        moved = whole if name == "save_on_cpu" else 0
        return dict.fromkeys(("out_bytes", "out_wire", "back_bytes", "back_wire"), moved)
    found = {key: round(statistics.mean(one[key] for one in steps)) for key in steps[0]
             if key != "raw_because"}  # fmt: skip
    reasons = {reason for one in steps for reason in one["raw_because"]}
    found["raw_because"] = {
        reason: round(statistics.mean(one["raw_because"].get(reason, 0) for one in steps))
        for reason in sorted(reasons)
    }
    return found


def line(name: str, one: dict[str, Any], found: dict[str, Any]) -> str:
    """Return a method's line of the table."""
    seconds = [statistics.median(step for step, _ in turn) for turn in one["turns"]]
    ahead = statistics.median(first for turn in one["turns"] for _, first in turn)
    step = statistics.median(seconds)
    moved, rates = one["moved"], found["link_gbs"]
    out, back = (transfer_seconds(moved[f"{way}_wire"], rates[way]) for way in ("out", "back"))
    computation = found["methods"]["none"].get("step") or step
    one |= {"step": step, "out_seconds": out, "back_seconds": back}
    one["bound"] = bound = max(out + back, computation)
    text = (
        f"{name:12}{step * 1e3:6.1f} ms ({min(seconds) * 1e3:.1f} to {max(seconds) * 1e3:.1f}), "
        f"forward {ahead * 1e3:.1f}, peak {binary_text(one['peak_bytes'])}"
    )
    if moved["out_wire"]:
        ratios = [moved[f"{way}_bytes"] / max(moved[f"{way}_wire"], 1) for way in ("out", "back")]
        text += (
            f"; out {size_text(moved['out_bytes'])} at {ratios[0]:.2f} to 1, {out * 1e3:.1f} ms, "
            f"back {size_text(moved['back_bytes'])} at {ratios[1]:.2f}, {back * 1e3:.1f} ms; "
            f"{step / bound:.2f} of the larger of link and computation"
        )
    return text


def comparison(found: dict[str, Any]) -> str:
    """Return the methods against ``save_on_cpu``."""
    usual = found["methods"].get("save_on_cpu")
    if usual is None:
        return ""
    there = usual["peak_bytes"] + usual["outside_bytes"]
    return "\n".join(
        f"{name}: {one['step'] / usual['step']:.2f} of save_on_cpu's step, "
        f"{one['peak_bytes'] / usual['peak_bytes']:.3f} of its peak, "
        f"{(one['peak_bytes'] + one['outside_bytes']) / there:.3f} with what is outside"
        for name, one in found["methods"].items()
        if name not in ("none", "save_on_cpu")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--ahead", help="of offload_activations; by default its own")
    parser.add_argument("--only", nargs="+", help="methods besides none")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begun = time.perf_counter()
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(Block(options.width) for _ in range(BLOCKS))).to(
        "cuda", torch.bfloat16
    )
    batch = torch.randn(BATCH, LENGTH, options.width, device="cuda", dtype=torch.bfloat16)
    only = None if options.only is None else ["none", *options.only]
    found: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "ahead": options.ahead,
        "link_gbs": link_rates(),
    }
    print(
        f"the link: {found['link_gbs']['out']:.1f} GB/s out, {found['link_gbs']['back']:.1f} back"
    )
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # of which there is a deterministic one
        compared = compare(model, batch, contexts(options.ahead, only))
        methods = {name: context for name, (context, _, _) in compared.items()}
        found["equal"] = {name: equal for name, (_, equal, _) in compared.items()}
        whole = saved_bytes(model, batch)
        print(f"{size_text(whole)} are saved; {time.perf_counter() - begun:.0f} s until now")
        found["methods"] = {
            name: {"turns": [], "outside_bytes": outside}
            for name, (_, _, outside) in compared.items()
        }
        moves: dict[str, list[dict[str, Any]]] = {name: [] for name in methods}
        for turn in range(options.turns):
            for name in list(methods)[:: 1 if turn % 2 == 0 else -1]:
                model.zero_grad(set_to_none=True)
                torch.cuda.reset_peak_memory_stats()
                one = found["methods"][name]
                taken, moved = measure(model, batch, methods[name], options.steps)
                one["turns"].append(taken)
                moves[name] += moved
                one["moved"] = mean_moves(name, moves[name], whole)
                one["peak_bytes"] = torch.cuda.max_memory_allocated()
            lines = [line(name, one, found) for name, one in found["methods"].items()]
            print(f"turn {turn + 1}, {time.perf_counter() - begun:.0f} s", *lines, sep="\n")
            print(comparison(found), flush=True)
            if options.out is not None:
                options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
