"""``lanescope doctor``: which ways of watching work here, and what stands in the way of others."""

from __future__ import annotations

from pathlib import Path

import typer

from lanescope.cli.options import JsonOption


def doctor(as_json: JsonOption = False) -> None:
    """Say which sources of watch work on this machine, and for each other why not and what to do.

    Each is tried for a moment. The exit code is 0 when at least one works, 1 otherwise.
    """
    import tempfile

    from lanescope.machine import discover
    from lanescope.watch.doctor import examine, nvlink_text

    machine = discover()
    with tempfile.TemporaryDirectory() as folder:
        found = examine(machine, Path(folder))
    if as_json:
        import dataclasses
        import json

        print(json.dumps([dataclasses.asdict(one) for one in found], indent=2))
    else:
        width = max((len(one.name) for one in found), default=0)
        for one in found:
            why = " ".join(filter(None, (one.reason, one.remedy)))
            word = "works" if one.works else "does not work."
            print(f"{one.name:{width}}  {word}{' ' + why if why else ''}")
        if machine.gpus:
            print(f"NVLink: {nvlink_text(machine)}")
        else:
            print("There is no GPU here that the driver knows: nothing can be watched.")
    raise typer.Exit(0 if any(one.works for one in found) else 1)
