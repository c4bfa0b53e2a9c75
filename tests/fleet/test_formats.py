"""A fleet's report as operators feed it on."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tools.schema import schema_of

from lanescope.codec.fields import decode
from lanescope.fleet.exchange import PairRate
from lanescope.fleet.report import fleet_report
from lanescope.operators import FleetFormat, NodeLine, faulty, fleet_text
from lanescope.studies.node_report import NodeState, report_of_failure
from tests.fleet.made_up import fleet, node
from tests.fleet.test_report import BEGAN, broken
from tests.studies.node.test_report import ABOUT

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "fleet-line.json"


@pytest.fixture
def report():
    odd = replace(node("odd"), configuration={**node("odd").configuration, "driver": "1"})
    absent = report_of_failure("it hung", replace(ABOUT, host="lost"), NodeState.NOT_MEASURED)
    nodes = [*fleet(12, 0.004), odd, absent, node("slow", 0.004, g5=0.9), broken("sick")]
    pairs = [
        PairRate(f"n{a:04}", f"n{b:04}", 5.0 if 3 in (a, b) else 10.0, 1, ())
        for a in range(12)
        for b in range(a)
    ]
    return fleet_report(nodes, ("rank 9: no report in time",), BEGAN, pairs)


def test_nodes_with_a_fault_are_named_the_worst_first(report):
    assert list(faulty(report)) == ["sick", "n0003", "slow"]
    assert fleet_text(report, FleetFormat.SUSPECTS) == "sick\nn0003\nslow\n"
    sound = fleet_report(fleet(8), (), BEGAN)
    assert fleet_text(sound, FleetFormat.SUSPECTS) == fleet_text(sound, FleetFormat.SLURM) == ""


@pytest.mark.parametrize("state", [NodeState.SICK, NodeState.MISSING])
def test_a_sick_node_that_names_no_fault_is_a_suspect(state):
    report = report_of_failure("g1 is gone", replace(ABOUT, host="n1"), state)
    found = fleet_report([report], (), BEGAN)
    assert fleet_text(found, FleetFormat.SUSPECTS) == "n1\n"
    expected = f'NodeName=n1 Reason="lanescope: {state} g1 is gone"\n'
    assert fleet_text(found, FleetFormat.SLURM) == expected


def test_slurm_gets_a_reason_that_fits_into_quotation_marks(report):
    lines = fleet_text(report, FleetFormat.SLURM).splitlines()
    assert len(lines) == 3
    for line in lines:
        assert re.fullmatch(r'NodeName=\S+ Reason="lanescope: [^"\']{10,160}"', line)
    assert lines[0].startswith('NodeName=sick Reason="lanescope: trained-down g2 (GPU-2')


def test_a_line_of_json_for_every_node_and_every_missing_one(report):
    lines = [json.loads(line) for line in fleet_text(report, FleetFormat.JSONL).splitlines()]
    found = [decode(NodeLine, line) for line in lines]
    assert len(found) == 12 + 4 + 1
    by_host = {one.host: one for one in found}
    assert [s.kind for s in by_host["n0003"].suspects] == ["slow-node"]
    assert by_host["n0004"].suspects == ()
    assert (by_host[None].exit_code, by_host[None].sentence) == (3, "rank 9: no report in time")
    assert by_host["lost"].state is NodeState.NOT_MEASURED


def test_the_published_schema_is_that_of_the_lines():
    assert json.loads(SCHEMA.read_text()) == schema_of(NodeLine, "lanescope fleet-line")


def test_metrics_are_what_prometheus_reads(report):
    families = {
        f.name: f
        for f in text_string_to_metric_families(fleet_text(report, FleetFormat.PROMETHEUS))
    }
    assert all(family.type == "gauge" for family in families.values())
    states = {s.labels["state"]: s.value for s in families["lanescope_fleet_nodes"].samples}
    assert states["healthy"] == 14
    assert states["sick"] == 1
    assert families["lanescope_fleet_nodes_without_report"].samples[0].value == 1
    suspects = {s.labels["host"]: s.labels for s in families["lanescope_fleet_suspect"].samples}
    assert suspects["odd"]["judged_by"] == "majority"
    losses = families["lanescope_fleet_suspect_loss_ratio"].samples
    assert all(0 < sample.value < 1 for sample in losses)
    (slow,) = [one for one in losses if one.labels["host"] == "slow"]
    assert slow.value == pytest.approx(0.1, abs=0.02)
