"""A training step whose activations wait in the host's memory, by several methods in turns.

::

    python benchmarks/compress/offload_training.py --out FILE.json [--turns 7] [--steps 5]

A stack of 12 blocks like GPT's: 2048 wide, 16 heads, batches of 8 x 1024, bf16. ``none`` offloads
nothing, ``save_on_cpu`` is PyTorch's with pinned memory, ``raw``, ``auto`` and ``on`` are
``lanescope.torch.offload_activations`` by its compression, ``trl`` is TRL's OffloadActivations,
where that is installed. For each: seconds of a step (median and range of the turns' medians), peak
memory of the GPU, and what went to the host. Gradients of each are compared with ``none``'s.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from lanescope.torch import offload_activations
from lanescope.units.sizes import binary_text

WIDTH, HEADS, BLOCKS, BATCH, LENGTH = 2048, 16, 12, 8, 1024
LEAST_BYTES = 1 << 20


class Block(torch.nn.Module):
    """Attention and a feed-forward net, each with its norm and around it a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.wide = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        shape = (batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = self.qkv(self.norms[0](x)).view(shape).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        hidden = torch.nn.functional.gelu(self.wide(self.norms[1](x)))
        return x + self.narrow(hidden)


def contexts(model: torch.nn.Module) -> dict[str, Any]:
    """Return a context for each method, to be entered once a step."""
    found: dict[str, Any] = {
        "none": contextlib.nullcontext(),
        "save_on_cpu": torch.autograd.graph.save_on_cpu(pin_memory=True),
        "raw": offload_activations(compression="off", min_bytes=LEAST_BYTES),
        "auto": offload_activations(compression="auto", min_bytes=LEAST_BYTES),
        "on": offload_activations(compression="on", min_bytes=LEAST_BYTES),
    }
    with contextlib.suppress(ImportError):
        from trl.models.activation_offloading import OffloadActivations

        found["trl"] = OffloadActivations(min_offload_size=LEAST_BYTES)
    return found


def step(model: torch.nn.Module, batch: torch.Tensor, context: Any) -> None:
    model.zero_grad(set_to_none=True)
    with context:
        loss = model(batch).float().square().mean()
    loss.backward()


def measure(model: torch.nn.Module, batch: torch.Tensor, context: Any, steps: int) -> list[float]:
    """Return the seconds of steps, one after the other."""
    step(model, batch, context)
    taken = []
    for _ in range(steps):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        step(model, batch, context)
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begun)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(Block() for _ in range(BLOCKS))).to("cuda", torch.bfloat16)
    batch = torch.randn(BATCH, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16)
    methods = contexts(model)
    step(model, batch, methods["none"])
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    found: dict[str, dict[str, Any]] = {name: {"turns": []} for name in methods}
    for turn in range(arguments.turns):
        for name in list(methods)[:: 1 if turn % 2 == 0 else -1]:
            torch.cuda.reset_peak_memory_stats()
            taken = measure(model, batch, methods[name], arguments.steps)
            one = found[name]
            one["turns"].append(statistics.median(taken))
            one["peak_bytes"] = torch.cuda.max_memory_allocated()
            gradients = [parameter.grad for parameter in model.parameters()]
            one["equal"] = all(map(torch.equal, gradients, expected))
            if hasattr(methods[name], "moved"):
                moved = methods[name].moved
                steps = (turn + 1) * (arguments.steps + 1)
                one["offloaded_bytes_a_step"] = moved.bytes / steps
                one["brought_a_step"] = moved.brought / steps
        for one in found.values():
            one["median"] = statistics.median(one["turns"]) if one["turns"] else None
            one["range"] = [min(one["turns"]), max(one["turns"])] if one["turns"] else None
        if arguments.out is not None:
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    for name, one in found.items():
        low, high = one["range"]
        print(
            f"{name}: {one['median'] * 1e3:.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f}), peak "
            f"{binary_text(one['peak_bytes'])}, gradients equal: {one['equal']}, offloaded "
            f"{binary_text(one.get('offloaded_bytes_a_step', 0))} a step"
        )


if __name__ == "__main__":
    main()
