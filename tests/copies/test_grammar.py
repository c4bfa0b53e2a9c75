"""The language of ``lanescope copy``: what texts mean, and where they go wrong."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.copies import Copy, Engine, Memory, Place
from lanescope.copies.experiment import set_title
from lanescope.copies.grammar import parse_copies
from lanescope.copies.terms import HOST_MEMORIES
from lanescope.errors import InputError
from lanescope.machine import machine_named
from lanescope.store.store import read_run
from lanescope.studies.runs.rows import path_rows
from lanescope.units.plain import plain_text
from tests.findings.machine.simulator import nvswitched


def device(index):
    return Place(f"g{index}", Memory.DEVICE)


def host(memory=Memory.PINNED, index=0):
    return Place(f"h{index}", memory)


MIB = 1 << 20
DOWN = Copy(host(), device(0), 512 * MIB, Engine.CE)
THREADS = Copy(host(Memory.PAGEABLE), host(Memory.PAGEABLE), 512 * MIB, Engine.CPU)
UP = Copy(device(0), host(), 512 * MIB, Engine.CE)


def sm(copy=DOWN, **more):
    return dataclasses.replace(copy, engine=Engine.SM, **more)


def test_a_long_text_is_shown_around_what_is_wrong(two_gpus):
    for text in ("x" * 5000, "h0 -> g0, " * 900 + "h0 -> " + "y" * 5000):
        with pytest.raises(InputError) as caught:
            parse_copies(text, two_gpus)
        lines = str(caught.value).splitlines()
        assert max(map(len, lines)) < 300
        assert lines[1][lines[2].index("^")] in "xy"


@pytest.mark.parametrize(
    ("text", "copies"),
    [
        ("h0 -> g0", [DOWN]),
        ("h0->g0", [DOWN]),
        ("  h0\t->\ng0  ", [DOWN]),
        ("g0 <- h0", [DOWN]),
        ("h0 <-> g0", [DOWN, UP]),
        ("h0<->g0,g0->h0", [DOWN, UP, UP]),
        ("2x h0 <-> g0", [DOWN, UP, DOWN, UP]),
        ("h0 → g0, both at once", [DOWN, UP]),
        ("h0 ⇄ g0 both  at once 512MiB", [DOWN, UP]),
        ("g0 <- h0 @sm both at once, h0 -> g0", [sm(UP), sm(), DOWN]),
        ("h0 → g0, other node", [DOWN]),
        ("g0 → h0 (h0 → g0, g0 → h0)", [DOWN, UP]),
        ("h0 → g0 (h0 → g0 @sm g0 → h0 @sm), g0 → h0", [sm(), sm(UP), UP]),
        ("h0 -> g0 1KiB @ce", [dataclasses.replace(DOWN, bytes=1024)]),
        ("h0 -> g0 @ce 1000", [dataclasses.replace(DOWN, bytes=1000)]),
        ("h0 -> g0 @sm", [sm()]),
        ("h0 -> g0 @sm:16", [sm(sms=16)]),
        ("h0 -> g0 @sm:16:32KiB", [sm(sms=16, chunk_bytes=32 << 10)]),
        ("h0 -> g0 @sm:16:0", [sm(sms=16, chunk_bytes=0)]),
        ("h0 -> g0 @sm:9:16KiB:392.5", [sm(sms=9, chunk_bytes=16 << 10, pace_gbs=392.5)]),
        ("h0 -> g0 @sm:auto:16KiB", [sm(chunk_bytes=16 << 10)]),
        ("h0 -> g0 @sm:4:auto:50", [sm(sms=4, pace_gbs=50.0)]),
        ("h0 -> g0 @sm:auto:auto:auto:16", [sm(chunk_repeats=16)]),
        ("h0 -> g0 on 2-3+0+2", [dataclasses.replace(DOWN, cpus=(2, 3, 0))]),
        ("g0 -> g1 by g1 @sm", [Copy(device(0), device(1), 512 * MIB, Engine.SM, executor="g1")]),
        ("g1 -> g1", [Copy(device(1), device(1), 512 * MIB, Engine.CE)]),
        ("h0 -> h0 @cpu:3", [dataclasses.replace(THREADS, cpus=(0, 1, 2))]),
        *(
            (f"h0.{memory}->g0", [dataclasses.replace(DOWN, source=host(memory))])
            for memory in HOST_MEMORIES
        ),
        ("g0.device <- h0.pinned", [DOWN]),
        # arrows as tables print them, and what needs no quotation marks in a shell
        ("h0 → g0", [DOWN]),
        ("h0→g0", [DOWN]),
        ("g0 ← h0", [DOWN]),
        ("h0 ↔ g0", [DOWN, UP]),
        ("h0 ⇄ g0", [DOWN, UP]),
        ("h0 to g0", [DOWN]),
        ("h0 to g0 1KiB 2x g0 to h0", [dataclasses.replace(DOWN, bytes=1024), UP, UP]),
        ("h0 -> g0 g0 -> h0", [DOWN, UP]),
        ("h0 to g0 , g0 to h0", [DOWN, UP]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_texts_mean(two_gpus, text, copies):
    assert parse_copies(text, two_gpus) == copies


def test_threads_are_next_to_the_memory_they_read(two_sockets):
    (copy,) = parse_copies("h1 -> h0 @cpu:2", two_sockets)
    assert copy.cpus == (2, 3)


def test_the_size_of_copies_that_name_none(two_gpus):
    copies = parse_copies("h0 -> g0, h0 -> g1 1KiB", two_gpus, 4096)
    assert [copy.bytes for copy in copies] == [4096, 1024]


@pytest.mark.parametrize(
    ("marked", "words"),  # with a circumflex before the character that is wrong
    [
        ("^", "a place such as h0 or g1"),
        ("h0 ->^", "a place such as h0 or g1"),
        ("h0 -> g0,^", "a place such as h0 or g1"),
        ("^, h0 -> g0", "a place such as h0 or g1"),
        ("h0 ^g0", "an arrow"),
        ("h0^", "an arrow"),
        ("h0 ^- g0", "means nothing here"),
        ("h0 ^> g0", "means nothing here"),
        ("h0 -> g0 ^-> g1", "a comma separates copies"),
        ("^2x2x h0 -> g0", "a place such as h0 or g1"),
        # parts and kinds of memory
        ("h0 -> ^g7", "this machine has no g7; it has h0, g0, g1"),
        ("^h3 -> g0", "this machine has no h3"),
        ("h0 -> ^G0", "a place such as h0 or g1"),
        ("h0 -> ^g", "a place such as h0 or g1"),
        ("^h00 -> g0", "this machine has no h00"),
        (
            "^n0.g0 -> g1",
            "it is one node; for several start lanescope by srun or mpirun, once on each",
        ),
        ("h0 -> ^n01.g0", "a place such as h0 or g1"),
        ("h0 -> ^n0", "a place such as h0 or g1"),
        ("h0.^magnetic -> g0", "'magnetic' is not a kind of memory"),
        ("h0.^ -> g0", "'' is not a kind of memory"),
        ("h0.^device -> g0", "h0 has no device memory"),
        ("h0 -> g0.^pinned", "g0 has no pinned memory"),
        # counts and sizes
        ("^0x h0 -> g0", "'0' is no number of copies; write for example 4"),
        ("^257x h0 -> g0", "not 1 to 256"),
        (f"^{'9' * 5000}x h0 -> g0", "no number of copies"),
        ("200x h0 -> g0, 99x h0 -> g0^", "299 copies at once are too many"),
        ("h0 -> g0 ^0", "not a whole number of bytes above zero"),
        ("h0 -> g0 ^12parsecs", "is not a size"),
        ("h0 -> g0 1MiB ^2MiB", "has a size already"),
        # engines
        ("h0 -> g0 ^@dma", "there are @ce, @sm, @cpu and @nccl"),
        ("h0 -> g0 ^@", "there are @ce, @sm, @cpu and @nccl"),
        ("h0 -> g0 ^@ce:3", "@ce takes at most 0"),
        ("h0 -> g0 ^@sm:", "'' is no number of SMs"),
        ("h0 -> g0 ^@sm:0", "'0' is no number of SMs"),
        ("h0 -> g0 ^@sm:²", "'²' is no number of SMs"),
        ("h0 -> g0 ^@sm:-1", "'-1' is no number of SMs"),
        ("h0 -> g0 ^@sm:4:x", "'x' is not a size"),
        ("h0 -> g0 ^@sm:4:16KiB:fast", "'fast' is no rate"),
        ("h0 -> g0 ^@sm:4:16KiB:1e3", "'1e3' is no rate"),
        ("h0 -> g0 ^@sm:4:16KiB:5:x", "'x' is no number of repeats"),
        ("h0 -> g0 ^@sm:4:16KiB:5:6:7", "@sm takes at most 4"),
        ("h0 -> g0 @ce ^@sm", "has an engine already"),
        ("h0 -> h0 ^@cpu:0", "'0' is no number of threads"),
        (f"h0 -> h0 ^@cpu:{'9' * 5000}", "is no number of threads"),
        # who and where
        ("g0 -> g1 by^", "a GPU such as g0 belongs behind 'by'"),
        ("g0 -> g1 by ^h0", "a GPU such as g0 belongs behind 'by'"),
        ("g0 -> g1 by ^g2", "a GPU such as g0 belongs behind 'by'"),
        ("g0 -> g1 by g0 ^by g1", "has a GPU behind 'by' already"),
        ("h0 -> g0 on^", "CPUs such as 0-3+8"),
        ("h0 -> g0 on ^1+", "CPUs such as 0-3+8"),
        ("h0 -> g0 on ^2-9", "may not use CPU 4"),
        ("h0 -> g0 on ^3-1", "3-1 counts down; write 1-3"),
        ("h0 -> h0 @cpu:2 ^on 0-1", "not both"),
        # copies that contradict themselves: the message points at the copy
        ("g0 -> g1, ^h0 -> h0", "no GPU whose engine could copy; use host threads (@cpu)"),
        ("^h0 -> h0 @sm", "no GPU whose engine could copy"),
        ("^h0 -> g0 @cpu:2", "host threads copy between memory of NUMA"),
        ("^g0 -> h0 @cpu:2", "host threads copy between memory of NUMA"),
        ("^h0 -> h0 @cpu:5", "h0 has 4 cores, not 5"),
        ("^h0 -> h0 @cpu by g0", "done by host threads, not by g0"),
        ("^h0 -> g0 by g1", "cannot be done by g1; g0 can"),
        ("^g0 -> g0 by g1", "cannot be done by g1; g0 can"),
        ("^h0.pageable -> g0 @sm", "a kernel cannot reach pageable memory"),
        ("^h0 -> g0 @sm:4:1000", "no multiple of 16"),
        ("^h0 -> g0 @sm:4:128KiB", "no multiple of 16 up to 65536"),
        ("^h0 -> g0 @sm:4:16KiB:5:5000", "a chunk copied 5000 times"),
        ("^h0 -> g0 @sm:4:16KiB:0", "a pace of 0.0 GB/s moves nothing"),
    ],
    ids=lambda value: value[:32],
)
def test_the_character_that_is_wrong(two_gpus, marked, words):
    text = marked.replace("^", "")
    with pytest.raises(InputError) as caught:
        parse_copies(text, two_gpus)
    message, shown, pointer = str(caught.value).split("\n")
    assert words in message
    assert message.startswith(f"column {marked.index('^') + 1}: ")
    assert (shown, pointer) == (f"  {text[:160]}", f"  {' ' * marked.index('^')}^")


def test_the_pointer_survives_line_breaks_and_terminal_codes(two_gpus):
    with pytest.raises(InputError) as caught:
        parse_copies("h0 ->\n\x1b[31m", two_gpus)
    message, shown, pointer = str(caught.value).split("\n")
    assert message.startswith("column 7: ")
    assert "\x1b" not in message + shown
    assert pointer.index("^") == 2 + 6


def test_a_machine_without_gpus_is_told_apart_from_one_without_that_gpu(two_gpus):
    plain = dataclasses.replace(two_gpus, gpus=(), links=())
    with pytest.raises(InputError, match=r"no g0, nor another GPU; see lanescope.topo\(\)"):
        parse_copies("h0 -> g0", plain)


H200S = machine_named("h200-x2")
WORDS = (
    "h0",
    "g0",
    "g7",
    "->",
    "<->",
    "-",
    ",",
    "2x",
    "@sm:4:",
    "@cpu",
    "by",
    "on",
    "0-1",
    "9",
    "²",
)


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=8).map(" ".join))
def test_any_text_is_copies_or_one_sentence_with_a_pointer(text):
    try:
        assert parse_copies(text, H200S)
    except InputError as error:
        message, shown, pointer = str(error).split("\n")
        assert message.startswith(f"column {pointer.index('^') - 1}: ")
        assert len(shown) == 2 + len(text)


RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
DOCUMENT = (Path(__file__).parents[2] / "docs" / "copy.md").read_text()


def test_the_document_shows_what_can_be_said_and_what_is_refused():
    machine = nvswitched(2)
    said, refused = DOCUMENT.split("## What is refused")
    texts = re.findall("^lanescope copy '([^']+)'", said, re.M)
    assert len(texts) > 4
    assert all(parse_copies(text, machine) for text in texts)
    (text, answer) = re.findall(
        r"^\$ lanescope copy '(.+?)'\nlanescope: (.+?)\n```", refused, re.M | re.S
    )[0]
    with pytest.raises(InputError, match=f"^{re.escape(answer)}$"):
        parse_copies(text, machine)


def test_every_option_that_the_document_lists_means_something():
    machine = nvswitched(2)
    rows = re.findall(r"^\| (`.+?) \|", DOCUMENT, re.M)
    options = [text for row in rows for text in re.findall("`([^`]+)`", row)]
    options += re.findall("`(@[^`]+)`", DOCUMENT)
    arrows = {"->", "<-", "<->", "→", "←", "↔", "⇄", "to"}
    for option in (
        set(options) - arrows - {"h0", "g1", "h0.pageable", "3x", "n1.g3", "n0.h0", "(...)"}
    ):
        ends = "h0 -> h0" if "@cpu" in option else "g0 -> g1"
        assert parse_copies(f"{ends} {option}", machine), option


def test_what_is_printed_can_be_pasted(two_gpus):
    copies = parse_copies("h0.pageable -> g0 64MiB, g0 -> g1 by g1", two_gpus)
    assert parse_copies(set_title(copies), two_gpus) == copies


#: What `check` measures besides copies, and the latencies of `bench`.
NO_COPIES = re.compile("memory h|.*@chase")


@pytest.mark.parametrize("name", ["h200-x1/check", "h200-x2/check", "h200-x4/bench", "h200-x2/sms"])
def test_paths_of_stored_runs_can_be_pasted(name):
    run = read_run(RESULTS / name)
    rows = [row for row in path_rows(run.results) if not NO_COPIES.match(row.label)]
    assert len(rows) > 3
    for row in rows:
        ends = sorted(copy.path for copy in row.result.experiment.copies)
        for label in (row.label, row.label.replace(", ", " "), plain_text(row.label)):
            copies = parse_copies(label, run.manifest.machine)
            assert sorted(copy.path for copy in copies) == ends, label


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h0 -> g0, both at once both at once", "this copy has 'both at once' already"),
        ("both at once", "a place such as h0 or g1 belongs here, not 'both at once'"),
        ("h0 -> g0 both", "'both' is not a size"),
        ("h0 -> g0 (g0 -> h0)", "what runs stands in parentheses, and h0 → g0 does not"),
        ("h0 -> g0 (h0 -> g0", "')' belongs here, not the end"),
        ("h0 -> g0 (h0 -> g0 (h0 -> g0))", "')' belongs here, not '('"),
        ("h0 -> g0)", "')' does not belong here"),
    ],
)
def test_printed_paths_that_are_none_are_refused(text, message, two_gpus):
    with pytest.raises(InputError, match=re.escape(message)):
        parse_copies(text, two_gpus)


def test_the_end_of_the_text_is_not_quoted():
    with pytest.raises(InputError, match="belongs here, not the end"):
        parse_copies("h0 ->", machine_named("h200-x2"))
