"""Takes out of a snapshot what identifies a machine and is no use to anybody else."""

from __future__ import annotations

import dataclasses
import json
import re

from lanescope.machine.dmi import memory_devices
from lanescope.machine.snapshot import Snapshot

#: Facts in hwloc's XML that name a host, a network card or a container.
_HWLOC_FACTS = ("HostName", "Address", "NodeGUID", "SysImageGUID", "Port1GID0", "LinuxCgroup")
_UUID = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def redacted(snapshot: Snapshot, name: str) -> Snapshot:
    """Return a snapshot to hand on: without host name, addresses, UUIDs, serial numbers.

    Parameters
    ----------
    name
        Stands in for the host name.
    """
    numbers: dict[str, int] = {}

    def renumbered(match: re.Match[str]) -> str:
        number = numbers.setdefault(match[0], len(numbers))
        return f"GPU-{number:08d}-0000-0000-0000-000000000000"

    plain = json.dumps({"nvml": snapshot.nvml, "cuda": snapshot.cuda})
    gpus = json.loads(re.sub(_UUID, renumbered, plain))
    facts = "|".join(_HWLOC_FACTS)
    xml = snapshot.hwloc_xml
    return dataclasses.replace(
        snapshot,
        hostname=name,
        nvml=gpus["nvml"],
        cuda=gpus["cuda"],
        hwloc_xml=xml and re.sub(rf'\s*<info name="({facts})"[^>]*/>', "", xml),
        dmi=snapshot.dmi and memory_devices(bytes.fromhex(snapshot.dmi)).hex(),
        visible_devices=snapshot.visible_devices
        and re.sub(_UUID, renumbered, snapshot.visible_devices),
    )


def is_redacted(uuid: str) -> bool:
    """Whether a GPU's UUID is one that stands for another: many machines have GPUs of that name."""
    return re.fullmatch(r"GPU-[0-9]{8}-0000-0000-0000-0{12}", uuid) is not None
