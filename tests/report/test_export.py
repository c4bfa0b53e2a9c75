import json
import re
from dataclasses import replace
from urllib.parse import unquote

import pytest
from tools.schema import schema_of

from lanescope.findings.machine import diagnose
from lanescope.studies.runs.document import page_html
from lanescope.studies.runs.export import ExportedRun, run_csv, run_json
from lanescope.studies.runs.rows import cell_values
from tests.findings.machine import simulator
from tests.report import factory
from tests.store.test_rows import DOCUMENT
from tests.taruc_suite import suite_run

SCHEMA = DOCUMENT.parent / "schema" / "run.json"

CASES = ("host_to_device_memcpy_ce", "device_to_device_bidirectional_memcpy_read_ce")


def test_cases_hold_every_cell_with_its_verdict():
    run = factory.bench_run(cases=CASES, slow="g0")
    results = {r.experiment.name: r for r in run.results}
    exported = json.loads(run_json(run))["cases"]
    assert [c["name"] for c in exported] == list(CASES)
    for case, told in zip(run.manifest.cases, exported, strict=True):
        assert told["description"] == case.description
        assert told["not_applicable"] is None
        for matrix, shown in zip(case.matrices, told["matrices"], strict=True):
            assert (shown["suffix"], shown["unit"]) == (matrix.suffix, matrix.unit)
            assert (shown["rows"], shown["columns"]) == (matrix.rows, matrix.columns)
            for value, cell in zip(cell_values(matrix, results), shown["cells"], strict=True):
                assert (cell["row"], cell["column"]) == (value.cell.row, value.cell.column)
                assert cell["median"] == value.median
                assert cell["share_of_limit"] == value.share_of_limit
                assert (cell["status"], cell["reason"]) == (
                    value.verdict.status,
                    value.verdict.reason,
                )
                assert cell["experiment"] in results


def test_a_cell_lies_within_its_spread():
    (case, _) = json.loads(run_json(factory.bench_run(cases=CASES)))["cases"]
    for cell in case["matrices"][0]["cells"]:
        assert cell["p5"] < cell["median"] < cell["p95"] < cell["limit_gbs"]


def test_what_has_no_number_is_null_with_a_reason():
    run = factory.bench_run(cases=CASES, missing="g1")
    (case, _) = json.loads(run_json(run))["cases"]
    _, cell = case["matrices"][0]["cells"]
    missing = ("median", "mean", "p5", "p95", "half_width", "variation", "share_of_limit")
    assert [cell[key] for key in missing] == [None] * len(missing)
    assert cell["status"] == "not measured"
    assert "exclusive-process mode" in cell["reason"]


def test_cases_without_pairs_say_why():
    run = factory.bench_run(simulator.nvswitched(1), CASES)
    _, case = json.loads(run_json(run))["cases"]
    assert case["not_applicable"] == "it takes two GPUs or more"
    assert case["matrices"] == []


def test_notes_are_there():
    run = factory.bench_run(cases=CASES)
    noted = replace(run, manifest=replace(run.manifest, notes=("Copies are smaller.",)))
    assert json.loads(run_json(noted))["notes"] == ["Copies are smaller."]


def test_diagnoses_are_there_with_their_evidence():
    machine = simulator.h200s()
    results = simulator.simulate(simulator.slower_link(machine, "g1", 3, 16))
    (found,) = diagnose(machine, results)
    (told,) = json.loads(run_json(factory.run_of(results, machine)))["diagnoses"]
    assert (told["kind"], told["sentence"]) == (found.kind, found.sentence)
    assert (told["evidence"], told["parts"]) == (list(found.evidence), list(found.parts))
    assert (told["confirm"], told["remedy"]) == (found.confirm, found.remedy)


def test_the_page_offers_the_same_csv():
    run = factory.check_run()
    uri = re.search(r'href="data:text/csv;charset=utf-8,([^"]*)"', page_html(run))
    assert uri is not None
    assert unquote(uri[1]) == run_csv(run)
    assert "\r" not in run_csv(run)


def test_a_healthy_check_has_neither():
    content = json.loads(run_json(factory.check_run()))
    assert (content["cases"], content["diagnoses"]) == ([], [])


@pytest.mark.parametrize("key", ["cell", "case", "matrix", "diagnosis"])
def test_every_key_is_documented(key: str):
    machine = simulator.h200s()
    bench = json.loads(run_json(factory.bench_run(cases=CASES)))
    results = simulator.simulate(simulator.slower_link(machine, "g1", 3, 16))
    found = json.loads(run_json(factory.run_of(results, machine)))["diagnoses"]
    case = bench["cases"][0]
    matrix = case["matrices"][0]
    entry = {"case": case, "matrix": matrix, "cell": matrix["cells"][0], "diagnosis": found[0]}[key]
    section = DOCUMENT.read_text().partition("\n## JSON\n")[2]
    assert set(entry) <= set(re.findall(r"`(\w+)`", section))


LONG = pytest.param("suite", marks=pytest.mark.native)  # five seconds


@pytest.mark.parametrize("verb", ["check", "bench", LONG, "predicted"])
def test_json_is_what_its_schema_says(verb: str):
    run = {
        "check": lambda: factory.check_run(missing="g1"),
        "bench": lambda: factory.bench_run(slow="g0"),
        "suite": suite_run,
        "predicted": lambda: factory.predicted_run("sweep"),
    }[verb]()
    content = json.loads(run_json(run))
    schema = json.loads(SCHEMA.read_text())
    assert wrong(content, schema, schema["$defs"]) == []
    assert list(content) == schema["required"]


def test_the_published_schema_is_that_of_the_dataclasses():
    made = schema_of(ExportedRun, "lanescope run")
    assert json.loads(SCHEMA.read_text()) == made, "write it again: python tools/schema.py"
    row = made["$defs"]["ResultRow"]["properties"]
    assert row["bytes"] == {"type": "integer"}
    assert row["gbs"] == {"anyOf": [{"type": "number"}, {"type": "null"}]}
    assert "median" in row["half_width"]["description"]


def wrong(value: object, schema: dict, definitions: dict, where: str = "") -> list[str]:
    """Return where a value is not as a schema says; of the keywords that ours use."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        found = [wrong(value, one, definitions, where) for one in schema["anyOf"]]
        return min(found, key=len)
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{where}: {value!r}"]
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "integer": int,
        "number": int | float,
        "null": type(None),
    }
    if not isinstance(value, kinds[schema["type"]]):
        return [f"{where}: {value!r:.60} is no {schema['type']}"]
    if isinstance(value, list):
        items = schema.get("items")
        kind = schema.get("prefixItems") or [items] * len(value)
        assert len(kind) == len(value), where
        pairs = enumerate(zip(value, kind, strict=True))
        return [w for n, (v, k) in pairs for w in wrong(v, k, definitions, f"{where}[{n}]")]
    if isinstance(value, dict) and "properties" in schema:
        missing = [f"{where} lacks {name}" for name in schema["required"] if name not in value]
        known = schema["properties"].items()
        inside = [(name, value[name], k) for name, k in known if name in value]
        return missing + [w for n, v, k in inside for w in wrong(v, k, definitions, f"{where}.{n}")]
    return []
