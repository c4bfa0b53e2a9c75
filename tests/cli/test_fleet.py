"""``lanescope fleet`` as it is typed."""

import json
from dataclasses import asdict

import pytest

from tests.fleet.made_up import node


@pytest.mark.native  # six seconds
def test_a_single_node_is_checked_and_reported_again(lanescope, tmp_path, no_gpus):
    folder = tmp_path / "fleet"
    done = lanescope("fleet", "check", "--within", "20s", "--out", folder, "--strict")
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("1 node: 1 not measured. Worst: ")
    again = lanescope("fleet", "report", folder, "--json")
    assert again.returncode == 0
    (node,) = json.loads(again.stdout)["nodes"]
    assert node["state"] == "not measured"
    assert lanescope("show", node["folder"]).returncode == 0
    twice = lanescope("fleet", "check", "--out", folder)
    assert (twice.returncode, twice.stderr.count("\n")) == (2, 1)


def test_a_folder_of_something_else_is_one_sentence(lanescope, tmp_path):
    for command in ("report",):
        done = lanescope("fleet", command, tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "fleet check" in done.stderr


def test_a_page_that_cannot_be_written_does_not_hide_the_report(lanescope_here, tmp_path):
    (tmp_path / "n1.json").write_text(json.dumps(asdict(node("n1"))))
    (tmp_path / "report.json").mkdir()
    done = lanescope_here("fleet", "report", str(tmp_path))
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "1 node: 1 healthy.")
    assert done.stderr == f"no page: cannot write {tmp_path / 'report.json'}: Is a directory\n"
