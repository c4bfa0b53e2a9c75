"""What the checks of many nodes come to."""

import json
from dataclasses import replace

import pytest

from lanescope.codec.fields import decode
from lanescope.fleet.compare import node_chart, pair_chart
from lanescope.fleet.exchange import PairRate
from lanescope.fleet.report import FleetReport, fleet_report
from lanescope.report.charts import chart_picture
from lanescope.report.document_page import document_page
from lanescope.studies.node_report import Fault, NodeState, report_of_failure
from tests.fleet.made_up import fleet, node
from tests.studies.node.test_report import ABOUT

BEGAN = "2026-11-20T14:03:11+01:00"
FAULT = Fault("trained-down", ("g2",), "g2 is at x8.", (), "Reseat it.", "lspci")


def broken(host, state=NodeState.SICK, code=1, kind="trained-down"):
    fault = replace(FAULT, kind=kind)
    return replace(
        node(host), state=state, exit_code=code, sentence="g2 is at x8.", faults=(fault,)
    )


def test_a_sound_fleet():
    report = fleet_report(fleet(12, 0.004), (), BEGAN)
    assert report.headline == "12 nodes: 12 healthy."
    assert report.suspects == ()
    assert report.exit_code(strict=True) == 0


def test_the_worst_comes_first_with_part_evidence_and_command():
    odd = replace(node("odd"), configuration={**node("odd").configuration, "driver": "1"})
    absent = report_of_failure("it hung", replace(ABOUT, host="lost"), NodeState.NOT_MEASURED)
    missing = broken("lacking", NodeState.MISSING, 4, "missing")
    slow = node("slow", 0.004, g5=0.9)
    nodes = [*fleet(12, 0.004), odd, absent, slow, broken("sick"), missing]
    report = fleet_report(nodes, ("rank 9: no report in time",), BEGAN)
    assert [(s.host, s.judged_by) for s in report.suspects] == [
        ("lacking", "expected"),
        ("sick", "limit"),
        ("slow", "peers"),
        ("lost", "none"),
        ("odd", "majority"),
    ]
    assert report.suspects[1].part == "g2 (GPU-2, 0000:2a:00.0)"
    assert report.suspects[2].part == "g5 (GPU-5, 0000:5a:00.0)"
    assert "less than the median of" in report.suspects[2].sentence
    assert report.headline.startswith("18 nodes: 1 missing, 1 sick, 1 not measured, ")
    assert "1 without a report" in report.headline
    assert report.headline.endswith("Worst: lacking: g2 is at x8.")


def test_a_node_that_is_slower_than_its_peers_is_not_counted_as_healthy():
    nodes = [*fleet(12, 0.004), node("slow", 0.004, g1=0.9, g5=0.9), broken("sick")]
    report = fleet_report(nodes, (), BEGAN)
    assert report.states[NodeState.HEALTHY] == 13
    counts = "14 nodes: 1 sick, 1 slower than others or than before, 12 healthy."
    assert report.headline.startswith(counts)


def test_a_gpu_that_a_fault_names_is_not_blamed_again():
    slow = replace(node("slow", 0.004, g2=0.7), faults=(FAULT,), state=NodeState.SICK, exit_code=1)
    report = fleet_report([*fleet(12, 0.004), slow], (), BEGAN)
    assert [(s.host, s.kind) for s in report.suspects] == [("slow", "trained-down")]


@pytest.mark.parametrize(
    ("nodes", "absent", "lenient", "strict"),
    [
        ([broken("a", NodeState.MISSING, 4, "missing"), broken("b")], (), 4, 4),
        ([broken("b")], ("x",), 1, 1),
        ([], ("x",), 0, 3),
        ([report_of_failure("x", ABOUT)], (), 0, 3),
        ([report_of_failure("x", ABOUT, NodeState.BUSY)], (), 0, 5),
        ([*fleet(8, 0.004), node("slow", g1=0.8)], (), 1, 1),
    ],
)
def test_exit_codes(nodes, absent, lenient, strict):
    report = fleet_report(nodes, absent, BEGAN)
    assert (report.exit_code(strict=False), report.exit_code(strict=True)) == (lenient, strict)


def test_json_reads_back_and_the_page_has_every_node():
    report = fleet_report([*fleet(6), broken("sick")], ("rank 9: late",), BEGAN)
    assert decode(FleetReport, json.loads(report.as_json())) == report
    page = document_page(report.document())
    assert all(f"n{number:04}" in page for number in range(6))
    assert "Reseat it." in page
    assert "rank 9: late" in page


def test_heat_maps_show_the_slow_gpu_and_the_slow_pair():
    nodes = [*fleet(5, 0.001), node("slow", 0.001, g5=0.85), report_of_failure("x", ABOUT)]
    chart = node_chart(nodes)
    marked = {(c.row, c.column) for c in chart.cells if c.name == "more than 10 % less"}
    assert marked == {("slow", "g5")}
    rates = {("a", "b"): 10.0, ("a", "c"): 10.1, ("b", "c"): 9.5, ("c", "d"): None}
    pairs = [PairRate(*ends, gbs, 1, (1.0,)) for ends, gbs in rates.items()]
    cells = {(c.row, c.column): c.name for c in pair_chart(pairs).cells}
    assert cells["b", "c"] == cells["c", "b"] == "3 to 10 % less"
    assert (cells["a", "b"], cells["d", "c"]) == ("as the others", "not measured")
    page = document_page(fleet_report(nodes, (), BEGAN, pairs).document())
    assert "What pairs of nodes exchange" in page
    for one in (chart, pair_chart(pairs)):
        assert "<svg" in chart_picture(one)


def test_few_or_many_nodes_are_no_picture():
    assert node_chart(fleet(2)) is None
    assert node_chart(fleet(60)) is None
    assert pair_chart([]) is None
