"""Files that operators start from: a Slurm prolog, a check of LBNL's NHC, a Kubernetes job."""

from __future__ import annotations

from pathlib import Path

#: Name on the command line: file.
SNIPPETS = {
    "slurm-prolog": "slurm-prolog.sh",
    "nhc": "lanescope.nhc",
    "kubernetes": "kubernetes-job.yaml",
}


def snippet_text(name: str) -> str:
    """Return the text of a file by its name."""
    return (Path(__file__).parent / SNIPPETS[name]).read_text()
