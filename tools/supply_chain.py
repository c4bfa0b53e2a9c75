"""What a wheel says of its parts: their licences, and a bill of materials (CycloneDX 1.6).

Of what is compiled in, the licences are those that came with it: they are copied from the packages
that the wheel was built with, none is stored here.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

#: Of their package, in its metadata or beside its modules.
_LICENCE = re.compile(r"(^|/)(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)


@dataclass(frozen=True)
class Part:
    """What is compiled into the wheel.

    Attributes
    ----------
    package
        That brings it at PyPI, with its licence.
    licence
        SPDX expression.
    inside
        The folder of the package whose licences count, or a header that begins with one; "" is
        the package's metadata.
    """

    name: str
    package: str
    licence: str
    what: str
    inside: str = ""


PARTS = (
    Part(
        "CUDA runtime",
        "nvidia-cuda-runtime",
        "LicenseRef-NVIDIA-CUDA-Toolkit-EULA",
        "libcudart_static, in lanescope/_native: redistributable by attachment A of its licence",
    ),
    Part("nanobind", "nanobind", "BSD-3-Clause", "in lanescope/_native"),
    Part("robin-map", "nanobind", "MIT", "in lanescope/_native", "tsl/robin_map.h"),
    Part(
        "libc++",
        "ziglang",
        "Apache-2.0 WITH LLVM-exception",
        "in liblanescope_inject.so, liblanescope_calls.so, liblanescope_boost.so and "
        "liblanescope_batch.so",
        "lib/libcxx",
    ),
    Part(
        "libc++abi",
        "ziglang",
        "Apache-2.0 WITH LLVM-exception",
        "in liblanescope_inject.so, liblanescope_calls.so, liblanescope_boost.so and "
        "liblanescope_batch.so",
        "lib/libcxxabi",
    ),
    Part(
        "libunwind",
        "ziglang",
        "Apache-2.0 WITH LLVM-exception",
        "in liblanescope_inject.so, liblanescope_calls.so, liblanescope_boost.so and "
        "liblanescope_batch.so",
        "lib/libunwind",
    ),
)


def licence(part: Part) -> str:
    """The text of a part's licence; raises FileNotFoundError where its package has none."""
    files = distribution(part.package).files or ()
    if part.inside.endswith(".h"):
        found = [file for file in files if str(file).endswith(part.inside)]
    else:
        place = f"/{part.inside}/" if part.inside else ".dist-info/"
        found = [file for file in files if place in f"/{file}" and _LICENCE.search(str(file))]
    texts = [Path(str(file.locate())).read_text(errors="replace") for file in found]
    if part.inside.endswith(".h"):
        texts = [text[: text.find("*/") + 2] for text in texts]
    if not any(texts):
        raise FileNotFoundError(2, f"it has no licence of {part.name}", part.package)
    return "\n\n".join(text.strip() for text in texts)


def notices() -> str:
    """What is in a wheel that others made, each with its whole licence."""
    parts = [
        "lanescope itself is licensed under the Apache License 2.0 (LICENSE). A wheel of it holds\n"
        "these works of others. What it needs besides (pyproject.toml) comes in packages of its\n"
        "own, with licences of their own; pages that lanescope writes hold Vega, which is\n"
        "preceded by its licences (lanescope/report/vega_licences.txt).\n"
    ]
    for part in PARTS:
        head = f"{part.name} {distribution(part.package).version} ({part.licence})\n{part.what}\n"
        parts.append("=" * 80 + f"\n{head}" + "-" * 80 + f"\n{licence(part)}\n")
    return "\n".join(parts)


def bill_of_materials(package: Distribution) -> dict[str, Any]:
    """The bill of materials of a wheel, as CycloneDX has it in JSON.

    Parts that are compiled in have versions; what pip installs beside it has those that the wheel
    allows.
    """
    name, version = package.metadata["Name"], package.version
    own = f"pkg:pypi/{name}@{version}"
    inside = [_component(part) for part in PARTS]
    beside = [_needed(word) for word in package.requires or () if "extra ==" not in word]
    references = [component["bom-ref"] for component in [*inside, *beside]]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ' '.join([own, *references]))}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": [*inside, *beside],
        "dependencies": [{"ref": own, "dependsOn": references}],
    }


def _component(part: Part) -> dict[str, Any]:
    version = distribution(part.package).version
    return {
        "type": "library",
        "bom-ref": f"{part.name} {version}",
        "name": part.name,
        "version": version,
        "description": f"compiled in: {part.what}",
        "purl": f"pkg:pypi/{part.package}@{version}",
        # an expression may name only what SPDX lists
        "licenses": [{"license": {"name": part.licence}}]
        if part.licence.startswith("LicenseRef-")
        else [{"expression": part.licence}],
    }


def _needed(requirement: str) -> dict[str, Any]:
    name = re.split(r"[^\w.-]", requirement)[0]
    return {
        "type": "library",
        "bom-ref": requirement,
        "name": name,
        "description": f"not inside; pip installs it: {requirement}",
        "purl": f"pkg:pypi/{name}",
    }


def add_to(unpacked: Path) -> None:
    """Put both into the metadata of an unpacked wheel."""
    (metadata,) = unpacked.glob("*.dist-info")
    (metadata / "licenses/THIRD-PARTY-NOTICES.txt").write_text(notices())
    bill = json.dumps(bill_of_materials(Distribution.at(metadata)), indent=1)
    (metadata / "sboms").mkdir()
    (metadata / "sboms/lanescope.cdx.json").write_text(f"{bill}\n")


if __name__ == "__main__":
    add_to(Path(sys.argv[1]))
