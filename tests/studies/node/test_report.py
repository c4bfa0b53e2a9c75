"""What a node's check comes to, and how each reader gets it."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tools.schema import schema_of

from lanescope.codec.fields import decode
from lanescope.operators import NodeFormat, node_written
from lanescope.results import Status
from lanescope.store.folder import State as RunState
from lanescope.studies.node_report import (
    CheckContext,
    NodeReport,
    NodeState,
    report_of_failure,
    report_of_run,
)
from tests.report import factory

SCHEMA = Path(__file__).parents[3] / "docs" / "schema" / "node.json"
ABOUT = CheckContext("0.3.0", "node-17", "2026-11-20T14:03:11+01:00", 12.5, "full")


def with_uuids(machine):
    gpus = tuple(
        replace(gpu, uuid=f"GPU-{gpu.index}", pci_address=f"0000:{gpu.index}a:00.0")
        for gpu in machine.gpus
    )
    nodes = tuple(replace(node, memory_gbs=None) for node in machine.nodes)
    return replace(machine, gpus=gpus, nodes=nodes)


@cache
def report(**faults):
    machine = with_uuids(factory.eight_gpus())
    return report_of_run(factory.check_run(machine, **faults), ABOUT)


def test_a_sound_node():
    found = report()
    assert (found.state, found.exit_code, found.faults) == (NodeState.HEALTHY, 0, ())
    assert not found.unfit
    assert [part.slot for part in found.parts][:2] == ["0000:0a:00.0", "0000:1a:00.0"]
    assert len(found.rates) > 50
    assert all(rate.status in (Status.HEALTHY, Status.UNJUDGED) for rate in found.rates)


def test_the_broken_gpu_is_named_with_uuid_slot_and_command():
    found = report(slow="g3")
    assert (found.state, found.exit_code, found.unfit) == (NodeState.SICK, 1, True)
    assert found.faults[0].parts == ("g3",)
    assert "g3 (GPU-3, 0000:3a:00.0)" in found.sentence
    assert "0000:3a:00.0" in found.faults[0].confirm
    named = {part for fault in found.faults for part in fault.parts}
    assert "g4" not in named, "its peers are not blamed"


def test_a_path_without_a_finding_is_a_fault_of_its_own():
    machine = factory.two_gpus()
    run = factory.check_run(machine, slow="h0")
    found = report_of_run(run, ABOUT)
    slow = [rate for rate in found.rates if rate.status is Status.SLOW]
    assert slow
    assert found.state is NodeState.SICK
    commands = {fault.confirm for fault in found.faults if fault.kind == "slow"}
    assert "lanescope check 'd2h/g0'" in commands


def test_missing_comes_before_sick():
    run = factory.check_run(slow="g1")
    run = replace(run, manifest=replace(run.manifest, missing=("GPU g7: not there.",)))
    found = report_of_run(run, ABOUT)
    assert (found.state, found.exit_code, found.unfit) == (NodeState.MISSING, 4, True)
    assert found.faults[0].sentence == "GPU g7: not there."
    assert "more fault" in found.sentence


def test_what_was_not_measured_never_passes_as_healthy():
    found = report(missing="g2")
    assert (found.state, found.exit_code, found.unfit) == (NodeState.NOT_MEASURED, 3, False)
    assert "not measured" in found.sentence
    assert "exclusive-process" in found.sentence


@pytest.mark.parametrize(("slow", "state"), [("", NodeState.NOT_MEASURED), ("g1", NodeState.SICK)])
def test_of_an_interrupted_check_what_is_there_counts(slow, state):
    run = factory.check_run(factory.two_gpus(), slow=slow)
    run = replace(
        run,
        manifest=replace(run.manifest, state=RunState.RUNNING),
        results=run.results[: len(run.results) // 2 + 6],
    )
    found = report_of_run(run, ABOUT, interrupted="the check did not end within 15 s")
    assert found.state is state
    if not slow:
        assert found.sentence.startswith("the check did not end within 15 s; ")


def test_a_failure_is_no_verdict_on_the_node():
    found = report_of_failure("no such file", ABOUT, code=2)
    assert (found.state, found.exit_code, found.unfit) == (NodeState.FAILED, 2, False)
    assert str(found) == "node-17: FAILED (exit code 2): no such file"


REPORTS = {
    "sound": lambda: report(),
    "sick": lambda: report(slow="g3"),
    "not measured": lambda: report(missing="g2"),
    "failed": lambda: report_of_failure("a\nb | c", ABOUT, code=70),
}


@pytest.fixture(params=REPORTS)
def any_report(request):
    return REPORTS[request.param]()


def test_the_line_is_one(any_report):
    text, code = node_written(any_report, NodeFormat.LINE)
    assert text.count("\n") == 1
    assert text.startswith("node-17: ")
    assert code == any_report.exit_code


def test_json_reads_back(any_report):
    text, _ = node_written(any_report, NodeFormat.JSON)
    assert text.count("\n") == 1
    assert decode(NodeReport, json.loads(text)) == any_report


def test_nhc_fails_for_a_broken_part_alone(any_report):
    assert node_written(any_report, NodeFormat.NHC).exit_code == (
        any_report.state is NodeState.SICK
    )


def test_nagios_has_a_state_a_text_and_bytes_a_second(any_report):
    text, code = node_written(any_report, NodeFormat.NAGIOS)
    word = {0: "OK", 2: "CRITICAL", 3: "UNKNOWN"}[code]
    assert text.startswith(f"LANESCOPE {word} - node-17: ")
    assert text.count("|") == bool(any_report.rates)
    data = text.partition("|")[2]
    values = re.findall(r"'[^'=|]+'=(\d+);;;0;(\d*)", data)
    assert len(values) == sum(rate.gbs is not None for rate in any_report.rates)
    assert all(int(value) > 1e9 for value, _ in values)


SAMPLE = re.compile(r'^([a-z_]+)(\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)*\})? ([0-9.e+]+)$')


def test_prometheus_has_help_type_and_each_series_once(any_report):
    text, _ = node_written(any_report, NodeFormat.PROMETHEUS)
    series, known = set(), set()
    for row in text.splitlines():
        if row.startswith("# TYPE "):
            name, kind = row.split()[2:]
            assert kind == "gauge"
            known.add(name)
        elif not row.startswith("# HELP "):
            name, labels, _ = SAMPLE.match(row).groups()
            assert name in known
            assert name.startswith("lanescope_")
            assert (name, labels) not in series
            series.add((name, labels))
    states = re.findall(r'lanescope_node_state\{state="([^"]+)"\} 1$', text, re.M)
    assert states == [any_report.state]


def test_prometheus_reads_by_its_own_library(any_report):
    families = text_string_to_metric_families(node_written(any_report, NodeFormat.PROMETHEUS).text)
    samples = [sample for family in families for sample in family.samples]
    rates = [s for s in samples if s.name == "lanescope_path_bytes_per_second"]
    numbers = [rate.gbs * 1e9 for rate in any_report.rates if rate.gbs is not None]
    for value in {sample.value for sample in rates}:
        assert min(abs(value / number - 1) for number in numbers) < 1e-9
    assert bool(rates) == bool(numbers)


def test_the_schema_of_a_report_is_published():
    made = schema_of(NodeReport, "lanescope node")
    assert json.loads(SCHEMA.read_text()) == made
    assert set(json.loads(node_written(report(), NodeFormat.JSON).text)) == set(made["properties"])
