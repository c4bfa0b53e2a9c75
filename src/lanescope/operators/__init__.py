"""Files that operators start from: for Slurm, LBNL's NHC, Kubernetes and Grafana."""

from __future__ import annotations

from pathlib import Path

#: Name on the command line: file.
SNIPPETS = {
    "slurm-prolog": "slurm-prolog.sh",
    "nhc": "lanescope.nhc",
    "kubernetes": "kubernetes-job.yaml",
    "slurm-job": "slurm-job.sh",
    "kubernetes-fleet": "kubernetes-fleet.yaml",
    "grafana": "grafana-dashboard.json",
}


def snippet_text(name: str) -> str:
    """Return the text of a file by its name."""
    return (Path(__file__).parent / SNIPPETS[name]).read_text()
