"""Files of link parameters: there and back, what is refused, and which is this machine's."""

import dataclasses
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanescope
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.machine.files import machine_named
from lanescope.machine.machine import Gpu, Link
from lanescope.machine.pcie import PcieLink
from lanescope.prediction.other_links import BASE, known_gpus, library_parameters
from lanescope.prediction.parameters import Origin, Paced
from lanescope.prediction.stored_parameters import (
    FILE,
    dumps,
    load,
    machine_key,
    named_parameters,
    newest_fit,
    parse,
    require_possible,
    save,
    shipped_names,
    store_fit,
)
from lanescope.units.estimate import Estimate
from tests.studies.link_parameters import fitted

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
exactly = Estimate.exactly

HERE = Machine(
    "here",
    cpu="a CPU",
    gpus=(Gpu(0, "NVIDIA Test"),),
    links=(Link.of_pcie("h0", "g0", PcieLink(1, 16, max_generation=5, max_width=16)),),
)


@pytest.mark.parametrize("parameters", [fitted(), named_parameters("k20")], ids=lambda p: p.name)
def test_there_and_back(parameters, tmp_path):
    path = tmp_path / "new" / "link.json"
    save(parameters, path)
    assert load(path) == parameters
    assert named_parameters(str(path)) == parameters
    assert json.loads(path.read_text())["schema"] == 1


def test_what_is_not_known_is_not_in_the_file():
    told = json.loads(dumps(fitted(mapped=None, errors=None)))
    assert not {"mapped", "errors"} & set(told)
    assert parse(json.dumps(told | {"mapped": None}), "a.json").mapped is None


def test_all_that_ship_can_be_read():
    assert shipped_names() == ["gtx-titan", "gtx680", "h200", "k20"]
    for name in shipped_names():
        parameters = named_parameters(name)
        assert parameters.name == name
        if name == "h200":
            assert parameters.origin is Origin.MEASURED
            continue
        assert parameters.origin in (Origin.PUBLISHED, Origin.DERIVED)
        assert "van Werkhoven" in parameters.source


def test_what_the_paper_prints_is_in_the_files():
    titan, k20 = named_parameters("gtx-titan"), named_parameters("k20")
    assert titan.h2d.first.value == 0.009420e-3
    assert titan.h2d.per_byte.value == 8.318392e-11
    assert titan.d2h.per_byte.value == 7.924734e-11
    assert (titan.h2d.gap.value, titan.d2h.gap.value) == (2.503e-6, 2.674e-6)
    assert titan.explicit_mapped.h2d_per_byte.value == 1.193386e-10
    assert titan.explicit_mapped.d2h_per_byte.value == 1.480396e-10
    assert titan.duplex is None
    assert k20.duplex.h2d_per_byte.value == 1.741965e-10
    assert k20.duplex.d2h_per_byte.value == 1.747120e-10
    assert k20.explicit_mapped.h2d_per_byte.value == 2.491988e-10
    assert k20.explicit_mapped.d2h_per_byte.value == 2.236644e-10
    # what is not printed is derived, with an interval
    assert k20.h2d.per_byte.low < k20.h2d.per_byte.value < k20.h2d.per_byte.high
    assert k20.h2d.per_byte.value < k20.duplex.h2d_per_byte.value


def broken(**changes):
    return json.dumps(json.loads(dumps(fitted())) | changes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "it has no 'schema'"),
        ('{"name": "x"}', "it has no 'schema'"),
        (broken(schema=2), "has version 2 of its schema, this lanescope reads 1"),
        (broken(colour="red"), "unknown field 'colour'"),
        (broken(h2dd={}), "did you mean 'h2d'"),
        (broken(origin="guessed"), "'guessed', not one of measured, published, derived"),
        (broken(copy_engines=3), "must be 1 or 2"),
        (broken(memory_bytes=0), "field 'memory_bytes' is 0; it must be above zero"),
        (broken(copy_engines="two"), "is 'two', not a whole number"),
        (broken(h2d=5), "not a table"),
        (broken(h2d={"first": {"value": 1, "low": 0, "high": 2}}), "'per_byte' is missing"),
        (broken(errors={"count": -1, "median": 0, "p95": 0, "most": 0}), "zero or more"),
    ],
    ids=lambda value: value if " " in value and len(value) < 60 else "",
)
def test_a_broken_file_is_one_sentence(text, words):
    with pytest.raises(InputError) as caught:
        parse(text, "mine.json")
    assert words in str(caught.value)
    assert "mine.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_that_cannot_be_are_refused():
    told = json.loads(dumps(fitted()))
    told["h2d"]["gap"]["low"] = told["h2d"]["gap"]["high"] * 2
    with pytest.raises(InputError, match=r"mine.json: .*'gap': .* is not within"):
        parse(json.dumps(told), "mine.json")
    told = json.loads(dumps(fitted()))
    told["d2h"]["per_byte"] = {"value": 0, "low": 0, "high": 0}
    with pytest.raises(InputError, match="d2h: field 'per_byte' must be above zero"):
        parse(json.dumps(told), "mine.json")
    told = json.loads(dumps(fitted()))
    told["h2d"]["single"]["sizes"].reverse()
    with pytest.raises(InputError, match="the sizes of a curve rise"):
        parse(json.dumps(told), "mine.json")


def estimate(value):
    return {"value": value, "low": value, "high": value}


def changed(place, value):
    """Return the text of a file with another value at a place such as ``h2d.single.seconds``."""
    told = json.loads(dumps(fitted(paced=Paced((0.5,), (exactly(1.25),), (exactly(1.1),)))))
    *way, last = place.split(".")
    table = told
    for name in way:
        table = table[name]
    table[last] = value(table[last]) if callable(value) else value
    return json.dumps(told)


def slower(times):
    return lambda seconds: [{k: v * times for k, v in one.items()} for one in seconds]


def parsed(text):
    with pytest.raises(InputError) as caught:
        parse(text, "mine.json")
    return str(caught.value)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("h2d.per_byte", estimate(55), "h2d: field 'per_byte' is 55; it is seconds for each byte"),
        ("mapped.read_per_byte", estimate(50.0), "mapped: field 'read_per_byte' is 50;"),
        ("duplex.d2h_per_byte", estimate(1e-20), "field 'd2h_per_byte' is 1e-20;"),
        ("h2d.single.seconds", slower(1000), "h2d: field 'single.seconds[0]' is 0.0055; it is"),
        ("d2h.engine.seconds", slower(1e-4), "d2h: field 'engine.seconds[1]'"),
        ("d2h.call.seconds", slower(1e6), "d2h.call: field 'seconds[0]' is "),
        ("launching.call", estimate(1.0), "launching: field 'call' is 1; it is seconds, at most"),
        ("errors.p95", 1e9, "errors: field 'p95' is 1000000000.0; it must be a share of the"),
        ("errors.p95", 0.5, "field 'errors': 'median', 'p95' and 'most' rise"),
        ("measured.least_bytes", 1 << 40, "field 'measured': 'least_bytes' are more than"),
        ("measured.most_streams", 0, "measured: field 'most_streams' is 0; it must be above zero"),
        ("h2d.next.streams", [0], "h2d: field 'next': a surface is of 1 stream or more, not of 0"),
        ("mapped.mixture.factors", [estimate(1e3)], "mapped.mixture: field 'factors[0]' is 1000;"),
        ("mapped.mixture", {"shares": [], "factors": []}, "field 'mixture': 'shares' are one or"),
        ("paced.shares", [0.5, 0.5], "field 'paced': 'shares' are one or more that rise"),
        ("paced.shares", [0.5, 0.2], "field 'paced': 'shares' are one or more that rise"),
        ("paced.shares", [1.5], "each between 0 and 1"),
        ("paced.kernel_factors", [], "'kernel_factors' has 0 for 1 'shares'"),
        (
            "host_bandwidth",
            [{"node": 0, "gpus": [0, 1], "spread": 1.0}],
            "host_bandwidth[0]: field 'spread' is 1; it is a share below 1",
        ),
    ],
)
def test_what_no_link_has_is_refused_with_field_and_range(place, value, words):
    assert words in parsed(changed(place, value))


def test_what_was_measured_anywhere_is_possible():
    files = sorted(RESULTS.glob("**/link-parameters*.json"))
    assert len(files) > 20
    for path in files:
        load(path)
    for name in known_gpus():
        require_possible(library_parameters(name, named_parameters(BASE)))


def test_parameters_that_a_program_made_are_looked_at_too():
    wrong = fitted(h2d=dataclasses.replace(fitted().h2d, per_byte=exactly(55)))
    with pytest.raises(InputError, match="link parameters fitted: h2d: field 'per_byte' is 55"):
        lanescope.predict(h2d_bytes=8, kernel_seconds=0, parameters=wrong)


@given(st.text(max_size=40))
def test_any_text_is_parameters_or_one_sentence(text):
    with pytest.raises(InputError):
        parse(text, "mine.json")


def test_the_key_is_of_the_gpu_the_processor_and_the_link_at_its_best():
    assert machine_key(HERE) == fitted().machine_key
    assert machine_key(HERE, 1) is None
    assert machine_key(machine_named("h200-x2")) is not None


def test_the_newest_fit_of_this_machine_is_taken(tmp_path):
    old, new = tmp_path / "run-1" / FILE, tmp_path / "run-2" / FILE
    save(fitted(name="old"), old)
    save(fitted(name="new"), new)
    os.utime(old, (1, 1))
    assert newest_fit(HERE, tmp_path).name == "new"
    os.utime(new, (0, 0))
    assert newest_fit(HERE, tmp_path).name == "old"
    store_fit(fitted(name="kept"), tmp_path)
    assert newest_fit(HERE, tmp_path).name == "kept"
    store_fit(fitted(name="other", machine_key="else"), tmp_path)
    assert newest_fit(HERE, tmp_path).name == "old"


def test_a_fit_of_another_machine_is_taken_by_name_only(tmp_path):
    path = store_fit(fitted(machine_key="other GPU; other CPU; PCIe 3.0 x16"), tmp_path)
    with pytest.raises(InputError, match=r"is of another machine \(other GPU; .*\), not of this"):
        newest_fit(HERE, tmp_path)
    with pytest.raises(InputError, match=r"a machine without a GPU\); .* all the same$"):
        newest_fit(dataclasses.replace(HERE, gpus=()), tmp_path)
    assert named_parameters(str(path)).machine_key.startswith("other GPU")


def test_without_any_fit_it_says_how_to_make_one(tmp_path):
    with pytest.raises(InputError, match=r"no fit of this machine .* run lanescope.fit\(\)"):
        newest_fit(HERE, tmp_path / "none")
    with pytest.raises(InputError, match="as it has no GPU; name parameters: gtx-titan"):
        newest_fit(dataclasses.replace(HERE, gpus=()), tmp_path / "none")
    with pytest.raises(InputError, match="gtx-titan, gtx680, h200, k20"):
        named_parameters(None, tmp_path)


def test_names_of_runs_and_folders(tmp_path):
    save(fitted(name="of a run"), tmp_path / "20261121-fit" / FILE)
    assert named_parameters("20261121-fit", tmp_path).name == "of a run"
    assert named_parameters(str(tmp_path / "20261121-fit")).name == "of a run"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=f"has no {FILE}; name the folder of a run"):
        named_parameters(str(tmp_path / "empty"))
    with pytest.raises(InputError, match="'k21'; did you mean k20"):
        named_parameters("k21", tmp_path)
    with pytest.raises(InputError, match="name cannot be ''; give a path"):
        named_parameters("", tmp_path)
    with pytest.raises(InputError, match=r"^parameters: .*there are gtx-titan, .*a100-sxm.* runs$"):
        named_parameters("zzz", tmp_path)
    with pytest.raises(InputError, match="'a100-smx'; did you mean a100-sxm"):
        named_parameters("a100-smx", tmp_path)


def test_a_gpu_by_name_comes_behind_a_run_of_that_name(tmp_path):
    assert named_parameters("a100-sxm", tmp_path) == library_parameters(
        "a100-sxm", named_parameters(BASE)
    )
    save(fitted(name="of a run"), tmp_path / "a100-sxm" / FILE)
    assert named_parameters("a100-sxm", tmp_path).name == "of a run"
    with pytest.raises(InputError, match="cannot read link parameters"):
        named_parameters(str(tmp_path / "none.json"))


def test_a_fit_whose_samples_alone_are_stored_has_to_be_fitted_again():
    run = Path(__file__).parents[2] / "benchmarks/results/h200-x1/model/fit"
    with pytest.raises(InputError, match=r"the samples of a fit .* run 'lanescope model fit .*fit"):
        lanescope.predict(h2d_bytes=8, kernel_seconds=0, parameters=run)
