"""The folder of a fleet's check: written by many, read whole or in part."""

import json
import re
from dataclasses import asdict, replace

import pytest

from lanescope.errors import InputError
from lanescope.fleet.check import FleetRequest, check_fleet, report_of_folder
from lanescope.fleet.check import _collected as collected
from lanescope.fleet.exchange import PairRate
from lanescope.fleet.folder import append_pair, place_of, write_report
from lanescope.fleet.ranks import Alone
from lanescope.studies.node import Request, check_node
from lanescope.studies.node_report import NodeState, report_of_failure
from tests.fleet.made_up import node
from tests.studies.node.test_report import ABOUT

REQUEST = Request(1.0, (), 0.0)


@pytest.fixture
def checked(tmp_path, monkeypatch):
    monkeypatch.setenv("LANESCOPE_HOST", "rack:1/node-7")
    folder = tmp_path / "fleet"
    found = check_fleet(
        FleetRequest(REQUEST, folder), Alone(), lambda request, out: node("rack:1/node-7")
    )
    return folder, found


def test_one_node_alone_is_a_fleet(checked):
    folder, found = checked
    assert found.headline == "1 node: 1 healthy."
    write_report(folder, found)
    assert sorted(path.name for path in folder.iterdir()) == [
        "fleet.json",
        "nodes",
        "report.html",
        "report.json",
    ]
    assert report_of_folder(folder) == found


def test_a_name_cannot_leave_the_folder(tmp_path):
    for host in ("../../etc", "a/b", "..", ".hidden", ""):
        place = place_of(tmp_path, host)
        assert place.parent == tmp_path / "nodes"
        assert place.name not in ("..", ".", "")


def test_two_checks_do_not_share_a_folder(checked):
    with pytest.raises(InputError, match="holds the check of a fleet already"):
        check_fleet(FleetRequest(REQUEST, checked[0]), Alone(), lambda *_: node("b"))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema_version": 99}', '{"schema_version": 1}', "\x00"]
)
def test_a_damaged_report_is_said_and_the_others_count(checked, text):
    folder, _ = checked
    (folder / "nodes" / "n8.json").write_text(text)
    found = report_of_folder(folder)
    assert [one.host for one in found.nodes] == ["rack:1/node-7"]
    assert len(found.absent) == 1
    assert "n8.json" in found.absent[0]
    assert found.exit_code(strict=True) == 3


def test_a_node_that_left_nothing_is_counted(checked):
    folder, _ = checked
    manifest = json.loads((folder / "fleet.json").read_text())
    (folder / "fleet.json").write_text(json.dumps(manifest | {"ranks": 5}))
    assert report_of_folder(folder).absent == ("4 of 5 ranks left no report",)


@pytest.mark.parametrize("resume", [False, True])
def test_ranks_of_a_node_that_another_one_measures_lack_no_report(tmp_path, monkeypatch, resume):
    class Three(Alone):
        def received(self, deadline):
            yield from ((1, b"idle"), (2, b"idle"))

    monkeypatch.setenv("LANESCOPE_HOST", "n1")
    request = FleetRequest(REQUEST, tmp_path / "fleet", resume=resume)
    found = check_fleet(request, Three(size=3), lambda request, out: node("n1"))
    assert found.absent == report_of_folder(tmp_path / "fleet").absent == ()


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no fleet\.json"):
        report_of_folder(tmp_path)


@pytest.mark.parametrize(
    ("version", "words"), [(9, "version 9 of its schema"), ("1", "'1', not a whole number")]
)
def test_a_check_by_another_version_is_refused(checked, version, words):
    path = checked[0] / "fleet.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": version}))
    with pytest.raises(InputError, match=rf"fleet\.json.*{words}"):
        report_of_folder(checked[0])


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder .*nowhere"):
        report_of_folder(tmp_path / "nowhere")


def test_of_pairs_the_best_try_counts_and_a_line_that_is_cut_off_is_left_out(checked):
    folder, _ = checked
    for gbs in (1.0, 3.0, 2.0):
        append_pair(folder, PairRate("rack:1/node-7", "b", gbs, 1 << 20, (0.1,)))
    append_pair(folder, PairRate("b", "c", None, 0, ()))
    with (folder / "pairs.jsonl").open("a") as file:
        file.write('{"first": "c"')
    pairs = report_of_folder(folder).pairs
    assert [(p.first, p.gbs, p.tries) for p in pairs] == [("rack:1/node-7", 3.0, 3), ("b", None, 1)]


def test_a_damaged_line_of_pairs_is_one_sentence(checked):
    folder, _ = checked
    (folder / "pairs.jsonl").write_text('{"first": 1}\n')
    with pytest.raises(InputError, match=r"pairs\.jsonl"):
        report_of_folder(folder)


def resumed(folder, host, monkeypatch, check=None):
    monkeypatch.setenv("LANESCOPE_HOST", host)
    request = FleetRequest(REQUEST, folder, resume=True)
    return check_fleet(request, Alone(), check or (lambda request, out: node(host)))


def test_a_check_goes_on_with_the_nodes_that_lack(checked, monkeypatch):
    folder, _ = checked
    manifest = json.loads((folder / "fleet.json").read_text()) | {"ranks": 3}
    (folder / "fleet.json").write_text(json.dumps(manifest))

    def never(request, out):
        raise AssertionError("it has been measured")

    again = resumed(folder, "rack:1/node-7", monkeypatch, never)
    assert again.absent == ("2 of 3 nodes have left no report",)
    more = resumed(folder, "n8", monkeypatch)
    assert [one.host for one in more.nodes] == ["n8", "rack:1/node-7"]
    assert more.absent == ("1 of 3 nodes have left no report",)
    assert more.began == again.began == manifest["began"]
    whole = resumed(folder, "n9", monkeypatch)
    assert (len(whole.nodes), whole.absent) == (3, ())


def test_a_node_without_numbers_is_measured_again_beside_its_first_run(checked, monkeypatch):
    folder, _ = checked
    places = []

    def hangs(request, out):
        places.append(out.name)
        out.mkdir()
        return report_of_failure("it hung", replace(ABOUT, host="n8"), NodeState.NOT_MEASURED)

    first = resumed(folder, "n8", monkeypatch, hangs)
    assert NodeState.NOT_MEASURED in first.states
    resumed(folder, "n8", monkeypatch, hangs)
    assert places == ["n8", "n8-2"]
    assert NodeState.NOT_MEASURED not in resumed(folder, "n8", monkeypatch).states


def test_a_new_folder_is_begun_where_there_is_nothing_to_go_on_with(tmp_path, monkeypatch):
    found = resumed(tmp_path / "new", "n1", monkeypatch)
    assert found.headline == "1 node: 1 healthy."


def test_two_checks_do_not_go_on_with_one_folder_at_once(checked, monkeypatch):
    folder, _ = checked

    def another(request, out):
        with pytest.raises(InputError, match="another lanescope writes to"):
            resumed(folder, "n9", monkeypatch)
        return node("n8")

    assert resumed(folder, "n8", monkeypatch, another).states[NodeState.HEALTHY] == 2


def reports(folder, **named):
    """Write reports of nodes as files by these names."""
    folder.mkdir(exist_ok=True)
    for name, report in named.items():
        (folder / f"{name}.json").write_text(json.dumps(asdict(report)))
    return folder


def test_two_nodes_of_one_name_are_said_and_the_worst_counts(tmp_path):
    sick = replace(node("n01"), state=NodeState.SICK, exit_code=1)
    folder = reports(tmp_path, a=node("n01"), b=sick, c=node("n02"))
    found = report_of_folder(folder)
    assert [(one.host, one.state) for one in found.nodes] == [("n01", "sick"), ("n02", "healthy")]
    (sentence,) = found.absent
    assert sentence.startswith(f"{folder / 'b.json'} is of n01, as {folder / 'a.json'} is")
    sound = reports(tmp_path / "sound", a=node("n01"), b=node("n01"))
    assert report_of_folder(sound).exit_code(strict=True) == 3


@pytest.mark.parametrize("worse", [NodeState.SICK, NodeState.MISSING])
def test_of_two_reports_of_one_name_a_fault_counts_before_what_is_not_known(tmp_path, worse):
    about = replace(ABOUT, host="n1")
    busy, bad = (report_of_failure("why", about, state) for state in (NodeState.BUSY, worse))
    (of_files,) = report_of_folder(reports(tmp_path, a=busy, b=bad)).nodes

    class Ranks(Alone):
        def received(self, deadline):
            yield 1, json.dumps(asdict(bad)).encode()

    (of_ranks,), _, _ = collected(Ranks(), busy, 0.0, {})
    assert of_files.state is of_ranks.state is worse


def test_reports_that_ranks_send_of_two_nodes_of_one_name_are_said():
    class Ranks(Alone):
        def received(self, deadline):
            other = replace(node("n1"), parts=node("n1").parts[:4])
            yield 1, json.dumps(asdict(node("n1"))).encode()  # the same node again
            yield 2, json.dumps(asdict(other)).encode()

    nodes, absent, _ = collected(Ranks(), node("n1"), 0.0, {})
    assert len(nodes) == 1
    assert absent == [
        "rank 2: its node is called n1, as one with other GPUs is, and the worse of both counts; "
        "name each by $LANESCOPE_HOST"
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"exit_code": 1}, "the state healthy does not go with exit code 1"),
        ({"exit_code": 99}, "the state healthy does not go with exit code 99"),
        ({"exit_code": 999}, "'exit_code' is 999; it must be from 0 to 255"),
        ({"state": "sick"}, "the state sick does not go with exit code 0"),
        ({"host": ""}, "'host' is ''; it must be a name without blanks"),
        ({"host": "n1\nNodeName=n2"}, "it must be a name without blanks"),
        ({"host": 'n1"'}, "it must be a name without blanks"),
        ({"began": "2099-01-01T00:00:00+01:00"}, "which is still to come"),
        ({"began": "9999-12-31T23:59:59-14:00"}, "which is still to come"),
        ({"rates": 1e6}, "'gbs' is 1000000.0; it must be from 0 to 100,000 GB/s"),
    ],
)
def test_a_report_that_cannot_be_is_said(tmp_path, change, words):
    report = asdict(node("n1"))
    if gbs := change.pop("rates", None):
        report["rates"][0]["gbs"] = gbs
    (tmp_path / "a.json").write_text(json.dumps(report | change))
    with pytest.raises(InputError, match=re.escape(words)) as refused:
        report_of_folder(tmp_path)
    assert "a.json" in str(refused.value)


@pytest.mark.parametrize("state", list(NodeState))
def test_reports_of_each_state_are_read(state, tmp_path):
    report = report_of_failure("it hung", replace(ABOUT, host="n1"), state)
    assert report_of_folder(reports(tmp_path, a=report)).nodes == (report,)


def test_of_reports_that_cannot_be_read_the_reason_is_said(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.json").write_text("{}")
    with pytest.raises(
        InputError, match=r"no report of a node that can be read: .*a\.json"
    ) as all_:
        report_of_folder(tmp_path)
    assert str(all_.value).endswith("; and so of 1 more")


@pytest.mark.parametrize("name", ["n1\nn2", "n'1", "n 1"])
def test_the_nodes_name_is_checked_before_anything_is_measured(name, monkeypatch):
    monkeypatch.setenv("LANESCOPE_HOST", name)
    with pytest.raises(InputError, match=r"LANESCOPE_HOST is .*, which is no node's name"):
        check_node(REQUEST, None)


def test_what_a_newer_lanescope_added_to_a_report_is_not_looked_at(tmp_path):
    """The schema only grows within a version, and fleets are updated node by node."""
    folder = reports(tmp_path, old=node("n01"))
    table = asdict(node("n02")) | {"tool_version": "9.1", "firmware": {"nic": "28.1"}}
    table["rates"][0]["latency"] = 1.5
    table["parts"][0]["serial"] = "1"
    (folder / "new.json").write_text(json.dumps(table))
    found = report_of_folder(folder)
    assert found.absent == ()
    assert found.nodes[0] == replace(node("n02"), tool_version="9.1")
