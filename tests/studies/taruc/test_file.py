"""Parameter files: TOML of our own and with TARUC's names, and TARUC's .in files."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.errors import InputError
from lanescope.studies.taruc import (
    ContentionParameters,
    NurmaParameters,
    Parameters,
    SizeParameters,
)
from lanescope.studies.taruc.parameters import (
    NAMES,
    parameters_named,
    parameters_text,
    parse_in_file,
    parse_parameters,
    suite_names,
)

VALUES = {
    "Run Tag": "some tag",
    "Use All GPUs": "false",
    "Test All Mem Types": "true",
    "Run Burst Tests": "TRUE",
    "Run Range Tests": "false",
    "# Repeated Steps": "7",
    "# Steps Per Magnitude": "3",
    "Range Min (bytes)": "11",
    "Range Max (bytes)": "1234567",
    "Memory Skip Gap Size (doubles)": "657",
    "Memory Block Size (doubles)": "1000",
    "Min # Random Accesses (doubles)": "10",
    "Max # Random Accesses (doubles)": "500 ",
    "# Repeated Operations": "9",
}


def in_lines():
    """A file as TARUC reads it: headings, and a line for each parameter."""
    lines = ["---- Benchmark Parameters ----"]
    for entry in NAMES:
        if entry.key in ("all_gpus", "run"):
            lines.append("-----------")
        default = "true" if entry.kind == "bool" else "4096"
        lines.append(f"{entry.label} = {VALUES.get(entry.label, default)}")
    return [*lines, "-----------", ""]


def positive(most=10**14):
    return st.integers(8, most)


@st.composite
def sizes(draw):
    low, high = sorted([draw(positive()), draw(positive())])
    return SizeParameters(draw(st.booleans()), low, high)


@st.composite
def suites(draw):
    low, high = sorted([draw(positive()), draw(positive())])
    maybe = st.none() | positive()
    flags = {
        name: draw(st.booleans())
        for name in ("all_gpus", "all_memories", "patterns", "sockets", "burst", "sustained")
    }
    return Parameters(
        tag=draw(st.text()),
        repeats=draw(maybe),
        steps_per_decade=draw(st.integers(1, 100)),
        burst_bytes=draw(positive()),
        nurma=NurmaParameters(
            draw(st.booleans()), draw(st.integers(0, 999)) * 8, draw(maybe), low, high
        ),
        contention=ContentionParameters(
            draw(st.booleans()), draw(maybe), draw(maybe), draw(maybe), low
        ),
        **{name: draw(sizes()) for name in ("overhead", "host", "hostdev", "peer")},
        **flags,
    )


@given(suites())
def test_what_is_written_reads_back(parameters):
    assert parse_parameters(parameters_text(parameters), "text") == parameters


def test_suites_that_ship():
    for name in suite_names():
        file = parameters_named(name)
        assert parse_parameters(file.text, name) == file.parameters
    paper = parameters_named("taruc").parameters
    assert (paper.repeats, paper.steps_per_decade) == (20, 10)
    assert paper.host == paper.peer == SizeParameters(True, 10, 1_500_000_000)
    assert paper.nurma == NurmaParameters(True, 657 * 8, 200_000_000 * 8, 10 * 8, 10_000_000 * 8)
    assert paper.contention.pcie_bytes == 100_000_000
    assert parameters_named("default").parameters == Parameters()


def test_sizes_are_numbers_or_texts():
    found = parse_parameters('[host]\nmin_bytes = 64\nmax_bytes = "1.5GB"', "f.toml")
    assert found.host == SizeParameters(True, 64, 1_500_000_000)
    assert parse_parameters('host.max_bytes = "2KiB"', "f.toml").host.max_bytes == 2048
    assert parse_parameters("", "f.toml") == Parameters()


def test_tarucs_own_names_are_understood():
    text = """
    "Run Tag" = "old"
    "Use All GPUs" = false
    "# Steps Per Magnitude" = 5
    "test all sockets" = false
    "QPI Host Block Size (bytes)" = 800
    ["Host-Host Bandwidth"]
    "Run Host-Host Tests" = false
    "Range Min" = 10
    ["Non-Uniform Random Memory Access"]
    "Memory Skip Gap Size (doubles)" = 3
    "Max # Random Accesses" = "1MB"
    """
    found = parse_parameters(text, "f.toml")
    assert (found.tag, found.all_gpus, found.steps_per_decade) == ("old", False, 5)
    assert found.sockets is False
    assert found.host == SizeParameters(False, 10)
    assert found.contention.socket_bytes == 800
    assert (found.nurma.gap_bytes, found.nurma.max_bytes) == (24, 1_000_000)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("tg = 1", 1, "unknown field 'tg'; did you mean 'tag'?"),
        ("# min_bytes = 1\n[host]\nmin_byte = 3", 3, "'min_byte'; did you mean 'min_bytes'?"),
        ("[hst]\nrun = true", 1, "did you mean 'host'?"),
        ("[peer]\nmin_bytes = 1\n[host]\n\nmin_bytes = 9\nmax_bytes = 3", 5, "swap them"),
        ("[host]\nmin_bytes = 0", 2, "min_bytes = 0 is not above zero"),
        ("[host]\nmin_bytes = -4", 2, "-4"),
        ("host = { min_bytes = -4 }", 1, "-4"),
        ("host.min_bytes = -4", 1, "-4"),
        ("host = 5", 1, "not a table"),
        ("[[host]]", 1, "not a table"),
        ("[overhead]\n[nurma]\nmin_bytes = '1.5B'", 3, "not a whole number of bytes"),
        ("[host]\nmax_bytes = 'much'", 2, "'much' is not a size"),
        ("[host]\nmax_bytes = 1.5", 2, "not a whole number"),
        ("\nrepeats = 1.5", 2, "not a whole number"),
        ("repeats = true", 1, "not a whole number"),
        ("sockets = 1", 1, "not true or false"),
        ("steps_per_decade = 101", 1, "more than 100"),
        ("[nurma]\ngap_bytes = 3", 2, "no multiple of 8"),
        ("[nurma]\nmin_bytes = 3", 2, "no load"),
        ("burst = false\nrange = false\n[contention]\nrun = false", 2, "nothing would be measured"),
        ("tag = 'a'\n'Run Tag' = 'b'", 2, "say the same"),
        ("'Use All GPUs' = 3", 1, "not true or false"),
        ("['Host-Host Bandwidth']\nrun=true\n'Range Min' = 0", 3, "not above zero"),
    ],
)
def test_broken_files_are_answered_with_file_key_and_line(text, line, words):
    with pytest.raises(InputError) as caught:
        parse_parameters(text, "f.toml")
    message = str(caught.value)
    assert message.startswith(f"parameter file f.toml, line {line}: ")
    assert words in message
    assert "\n" not in message


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="not TOML"):
        parse_parameters("x = [", "f.toml")
    with pytest.raises(InputError, match=r"cannot read parameter file .*none\.toml"):
        parameters_named(str(tmp_path / "none.toml"))
    (tmp_path / "f.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not a text file"):
        parameters_named(str(tmp_path / "f.toml"))
    with pytest.raises(InputError, match="did you mean taruc"):
        parameters_named("taruck")
    with pytest.raises(InputError, match="there are default, taruc"):
        parameters_named("nonsense")


def test_every_value_of_an_in_file_is_kept(tmp_path):
    path = tmp_path / "old.in"
    path.write_text("\n".join(in_lines()))
    file = parameters_named(str(path))
    found = file.parameters
    assert parse_parameters(file.text, "converted") == found
    assert found == Parameters(
        tag="some tag",
        all_gpus=False,
        burst=True,
        range=False,
        repeats=7,
        steps_per_decade=3,
        burst_bytes=4096,
        overhead=SizeParameters(True, 11, 1234567),
        host=SizeParameters(True, 11, 1234567),
        hostdev=SizeParameters(True, 11, 1234567),
        peer=SizeParameters(True, 11, 1234567),
        nurma=NurmaParameters(True, 657 * 8, 8000, 80, 4000),
        contention=ContentionParameters(True, 9, 4096, 4096, 4096),
    )
    ours = {(n.section, n.key) for n in NAMES}
    assert len(ours) == len(NAMES)
    for entry in dataclasses.fields(Parameters):
        section = getattr(found, entry.name)
        inner = dataclasses.fields(section) if dataclasses.is_dataclass(section) else ()
        assert ("", entry.name) in ours or {(entry.name, f.name) for f in inner} <= ours


@pytest.mark.parametrize("number", range(1, len(in_lines()) - 2))
def test_a_line_that_is_missing_or_strange_is_named(number):
    lines = in_lines()
    if lines[number].startswith("-"):
        return
    missing = lines[:number] + lines[number + 1 :]
    with pytest.raises(InputError) as caught:
        parse_in_file("\n".join(missing), "f.in")
    following = next(i for i in range(number, len(missing)) if missing[i][:1] != "-")
    # the last one is missed only at the end of the file
    assert f"line {following + 1}: expected" in str(caught.value) or "is missing" in str(
        caught.value
    )
    assert lines[number].split(" =")[0] in str(caught.value)
    strange = [*lines[:number], lines[number].split("=")[0] + "= ", *lines[number + 1 :]]
    with pytest.raises(InputError, match=rf"f\.in, line {number + 1}: "):
        parse_in_file("\n".join(strange), "f.in")


def test_what_stands_behind_or_makes_no_sense():
    lines = in_lines()
    with pytest.raises(InputError, match="stands behind the last parameter"):
        parse_in_file("\n".join([*lines, "More = 1"]), "f.in")
    at = next(i for i, line in enumerate(lines) if line.startswith("Range Min"))
    lines[at] = "Range Min (bytes) = 99999999"
    with pytest.raises(InputError, match=rf"f\.in, line {at + 1}: min_bytes = 99999999 is above"):
        parse_in_file("\n".join(lines), "f.in")
    lines[at] = "Range Min (bytes) = -5"
    with pytest.raises(InputError, match="'-5', not a whole number"):
        parse_in_file("\n".join(lines), "f.in")
