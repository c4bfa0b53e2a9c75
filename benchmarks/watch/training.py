"""A small PyTorch training loop to be watched: batches go to the GPU while it computes.

Prints, as JSON, when the loop began and ended (``steps``, as ``lanescope.examples`` does).
"""

from __future__ import annotations

import argparse
import json
import time

import torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--width", type=int, default=4096)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    width, gpu = arguments.width, torch.device("cuda:0")
    layers = [torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1000)]
    model = torch.nn.Sequential(*layers).to(gpu)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = [torch.randn(arguments.batch, width).pin_memory() for _ in range(8)]
    labels = [torch.randint(0, 1000, (arguments.batch,)).pin_memory() for _ in range(8)]

    def train(steps: int) -> float:
        loss = torch.zeros((), device=gpu)
        for step in range(steps):
            x = batches[step % 8].to(gpu, non_blocking=True)
            y = labels[step % 8].to(gpu, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        return float(loss)  # waits for everything

    train(20)
    begin = time.time_ns()
    loss = train(arguments.steps)
    steps = [{"name": "train", "begin_ns": begin, "end_ns": time.time_ns()}]
    print(json.dumps({"steps": steps, "loss": loss}))


if __name__ == "__main__":
    main()
