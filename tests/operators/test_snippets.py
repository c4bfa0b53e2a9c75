"""The files for Slurm, NHC and Kubernetes do what they say, by each exit code."""

import dataclasses
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from lanescope import operators
from lanescope.fleet.check import report_of_folder
from lanescope.operators import snippet_text
from tests.fleet.made_up import sound

CODES = {
    0: "node-1: healthy (exit code 0): 12 paths",
    1: "node-1: SICK (exit code 1): g3 (GPU-3): slow",
    2: "lanescope: --expect cannot read x",
    3: "node-1: NOT MEASURED (exit code 3): out of time",
    4: "node-1: MISSING (exit code 4): GPU g7",
    5: "node-1: BUSY (exit code 5): g0",
    70: "lanescope: a fault of lanescope's own",
}


@pytest.fixture
def run_with(tmp_path):
    """Run a script of bash with a pretended lanescope and logger on the PATH."""

    def run(script, output, code, **environment):
        pretended = {"lanescope": f'echo "$@" >{tmp_path}/arguments\necho "{output}"\nexit {code}'}
        pretended["logger"] = f'echo "$@" >>{tmp_path}/log'
        for name, text in pretended.items():
            (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
            (tmp_path / name).chmod(0o755)
        file = tmp_path / "script.sh"
        # what it puts before the PATH must not hide the pretended programs
        file.write_text(script.replace("PATH=/usr/local/sbin:", f"PATH={tmp_path}:"))
        path = f"{tmp_path}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", file], env={"PATH": path, **environment}, capture_output=True, text=True
        )

    return run


@pytest.mark.parametrize(("code", "output"), CODES.items())
def test_the_prolog_drains_for_a_broken_or_missing_part_alone(run_with, tmp_path, code, output):
    done = run_with(snippet_text("slurm-prolog"), output, code, SLURM_JOB_ID="17")
    assert done.returncode == (code in (1, 4))
    assert "job 17: " in (tmp_path / "log").read_text()
    assert (output in done.stderr) == (code in (1, 4))


def test_the_prolog_does_not_drain_by_a_broken_installation(run_with):
    output = "ModuleNotFoundError: No module named 'lanescope'"
    assert run_with(snippet_text("slurm-prolog"), output, 1).returncode == 0


def test_the_prolog_compares_with_the_file_that_it_is_given(run_with, tmp_path):
    run_with(snippet_text("slurm-prolog"), CODES[0], 0, LANESCOPE_EXPECT="/etc/a b.toml")
    assert "--expect /etc/a b.toml" in (tmp_path / "arguments").read_text()
    run_with(snippet_text("slurm-prolog"), CODES[0], 0)
    assert "--expect" not in (tmp_path / "arguments").read_text()


NHC = """
function die() {{ echo "DIE $*"; exit 1; }}
function log() {{ echo "LOG $*"; }}
{}
check_lanescope 15s machine.toml
"""


@pytest.mark.parametrize(
    ("code", "output", "dies"),
    [
        (0, CODES[0], False),
        (0, CODES[5], False),
        (1, CODES[1], True),
        (1, CODES[4], True),
        (1, "ImportError: numpy", False),
        (127, "lanescope: command not found", False),
    ],
)
def test_nhc_fails_for_a_broken_or_missing_part_alone(run_with, tmp_path, code, output, dies):
    done = run_with(NHC.format(snippet_text("nhc")), output, code)
    assert (done.returncode, done.stdout.startswith("DIE")) == (int(dies), dies)
    assert output in done.stdout
    assert "--format nhc --within 15s --expect machine.toml" in (tmp_path / "arguments").read_text()


def test_the_job_of_kubernetes_checks_a_node_once():
    text = snippet_text("kubernetes")
    for field in ("kind: Job", "backoffLimit: 0", "restartPolicy: Never"):
        assert re.search(rf"^ *{field}$", text, re.M)
    (command,) = re.findall(r"command: (\[.*\])", text)
    assert json.loads(command)[:2] == ["lanescope", "node"]
    assert "\t" not in text


@pytest.fixture
def job(tmp_path, run_with):
    """Run the Slurm job with pretended srun and lanescope; return its result and the calls."""

    def run(code):
        (tmp_path / "srun").write_text(
            f'#!/bin/bash\necho srun "$@" >>{tmp_path}/calls\nexit {code}\n'
        )
        (tmp_path / "srun").chmod(0o755)
        shared = tmp_path / "shared"
        shared.mkdir()
        text = snippet_text("slurm-job")
        done = run_with(text, "n17", 0, LANESCOPE_CHECKS=str(shared), SLURM_JOB_ID="5")
        return done, (tmp_path / "calls").read_text(), tmp_path / "arguments"

    return run


@pytest.mark.parametrize("code", [0, 1, 3, 4, 70, 143])
def test_the_weekly_job_checks_all_and_writes_suspects_where_there_are_some(job, code):
    done, calls, reported = job(code)
    assert done.returncode == code
    assert calls.count("srun") == 1
    assert re.search(r"fleet check .*--out \S+-5 --history \S+/history.sqlite", calls)
    assert reported.exists() == (code != 0)
    if code:
        assert "--format slurm --to" in reported.read_text()


def test_the_job_says_what_it_needs(run_with):
    done = run_with(snippet_text("slurm-job"), "", 0)
    assert done.returncode != 0
    assert "LANESCOPE_CHECKS" in done.stderr


def test_the_dashboard_asks_for_metrics_that_there_are():
    written_by = Path(operators.__file__).read_text()
    known = set(re.findall(r'metric\(\s*"(\w+)"', written_by))
    dashboard = json.loads(snippet_text("grafana"))
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"lanescope_(\w+)", target["expr"])
    }
    assert asked <= known
    assert len(asked) > 5
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_pods_of_a_fleet_write_what_a_report_reads(tmp_path):
    text = snippet_text("kubernetes-fleet")
    command = re.search(r"mkdir -p.*?\.json", text, re.S)[0]
    assert "--format json" in " ".join(command.split())
    for host in ("a", "b"):
        written = json.dumps(dataclasses.asdict(dataclasses.replace(sound(), host=host)))
        (tmp_path / f"{host}.json").write_text(written)
    report = report_of_folder(tmp_path)
    assert [node.host for node in report.nodes] == ["a", "b"]
    assert report.absent == ()
