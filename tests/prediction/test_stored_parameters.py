"""Files of link parameters: there and back, what is refused, and which is this machine's."""

import dataclasses
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.machine.files import machine_named
from lanescope.machine.machine import Gpu, Link
from lanescope.machine.pcie import PcieLink
from lanescope.prediction.parameters import Origin
from lanescope.prediction.stored_parameters import (
    FILE,
    dumps,
    load,
    machine_key,
    named_parameters,
    newest_fit,
    parse,
    save,
    shipped_names,
    store_fit,
)
from tests.studies.link_parameters import fitted

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
    with pytest.raises(InputError, match="a machine without a GPU"):
        newest_fit(dataclasses.replace(HERE, gpus=()), tmp_path)
    assert named_parameters(str(path)).machine_key.startswith("other GPU")


def test_without_any_fit_it_says_how_to_make_one(tmp_path):
    with pytest.raises(InputError, match=r"no fit of this machine .* run 'lanescope model fit'"):
        newest_fit(HERE, tmp_path / "none")
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
    with pytest.raises(InputError, match="there are gtx-titan, gtx680, h200, k20, files and runs"):
        named_parameters("zzz", tmp_path)
    with pytest.raises(InputError, match="cannot read link parameters"):
        named_parameters(str(tmp_path / "none.json"))
