"""``lanescope`` alone: what is here, and what to do first."""

from __future__ import annotations


def start() -> None:
    """Print what this machine has, and the commands to begin with."""
    from lanescope._version import __version__
    from lanescope.machine import discover
    from lanescope.report.format import count_text

    machine = discover()
    cores = sum(len(node.cores) for node in machine.nodes)
    gpus = [gpu.name for gpu in machine.gpus]
    named = ", ".join(f"{gpus.count(n)} x {n}" for n in dict.fromkeys(gpus)) or "no GPU"
    nodes = count_text(len(machine.nodes), "NUMA node")
    print(f"lanescope {__version__}; here: {count_text(cores, 'core')}, {nodes}, {named}")
    steps = [
        ("lanescope check", "measure every path and say whether it is healthy"),
        ("lanescope topo", "show what is here and how it is linked"),
    ]
    if machine.gpus:
        steps.append(("lanescope watch -- ./app", "see what a program moves, unchanged"))
    else:
        print(machine.notes[0])
        steps.append(("lanescope check --machine h200-x2", "see what a check of two GPUs predicts"))
    steps.append(("lanescope --help", "all commands"))
    width = max(len(command) for command, _ in steps)
    for command, what in steps:
        print(f"  {command:{width}}  {what}")
