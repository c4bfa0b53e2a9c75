"""The cases of nvbandwidth as data: names, words, shapes, and which copies they share."""

import dataclasses
from collections import Counter

import pytest

from lanescope.copies import Engine, Memory, Operation
from lanescope.copies.experiment import Unit
from lanescope.copies.limit import limits
from lanescope.errors import InputError
from lanescope.studies.nvbandwidth_cases import CaseOptions, build_cases, case_list, choose
from tests.findings.machine.simulator import h200s, nvswitched

HOST_CASES = (
    "host_to_device_memcpy",
    "device_to_host_memcpy",
    "host_to_device_bidirectional_memcpy",
    "device_to_host_bidirectional_memcpy",
)
PAIR_CASES = (
    "device_to_device_memcpy_read",
    "device_to_device_memcpy_write",
    "device_to_device_bidirectional_memcpy_read",
    "device_to_device_bidirectional_memcpy_write",
)
ALL_HOST_CASES = (
    "all_to_host_memcpy",
    "all_to_host_bidirectional_memcpy",
    "host_to_all_memcpy",
    "host_to_all_bidirectional_memcpy",
)
ALL_CASES = ("all_to_one_write", "all_to_one_read", "one_to_all_write", "one_to_all_read")
#: As nvbandwidth 0.8 lists them.
NAMES = (
    *(
        f"{name}_{engine}"
        for engine in ("ce", "sm")
        for name in (*HOST_CASES, *PAIR_CASES, *ALL_HOST_CASES, *ALL_CASES)
    ),
    "host_device_latency_sm",
    "device_to_device_latency_sm",
    "device_local_copy",
)
TAKES_PAIRS = {
    *(f"{name}_{engine}" for engine in ("ce", "sm") for name in (*PAIR_CASES, *ALL_CASES)),
    "device_to_device_latency_sm",
}


def built(machine, *names, **options):
    return build_cases(machine, choose(names), CaseOptions(**options))


def case_of(machine, name, **options):
    return built(machine, name, **options).cases[0]


def copies_of(case_set, cell):
    experiments = {e.name: e for e in case_set.experiments}
    return [experiments[cell.experiment].copies[i] for i in cell.measured]


def test_all_names_in_nvbandwidths_order():
    assert len(NAMES) == 35
    assert tuple(name for name, _ in case_list()) == NAMES
    assert all(description.endswith(".") for _, description in case_list())


def test_kernels_in_both_directions_copy_as_nvbandwidth_does_and_ours_stream():
    machine = nvswitched(2)
    further = [name for name, _ in case_list(further=True)]
    ours = choose(prefixes=["streaming"])
    assert set(ours) < set(further)
    assert len(ours) == 4
    for name, repeats in (("all_to_host_bidirectional_memcpy_sm", 16), (ours[2], None)):
        case_set = built(machine, name)
        (experiment,) = case_set.experiments
        assert {copy.chunk_repeats for copy in experiment.copies} == {repeats}
    assert not any("streaming" in name for name in choose())
    assert choose([str(len(NAMES))]) == (further[0],)


@pytest.mark.parametrize(("gpus", "partners"), [(8, "45670123"), (3, "120")])
def test_all_gpus_write_to_their_counterparts_at_once(gpus, partners):
    case_set = built(nvswitched(gpus), "bisect_write_ce")
    (matrix,) = case_set.cases[0].matrices
    (experiment,) = case_set.experiments
    paths = [f"g{n} → g{partner}" for n, partner in enumerate(partners)]
    assert [copy.path for copy in experiment.copies] == paths
    assert {copy.engine for copy in experiment.copies} == {Engine.CE}
    assert [(c.column, c.measured) for c in matrix.cells] == [(n, (n,)) for n in range(gpus)]
    assert "bisect_write_ce" not in choose()


@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_shapes_of_the_matrices(gpus):
    for case in built(nvswitched(gpus)).cases:
        if case.not_applicable:
            assert gpus == 1
            continue
        square = case.name.startswith("device_to_device")
        split = "bidirectional" in case.name and square
        assert len(case.matrices) == (3 if split else 1)
        for matrix in case.matrices:
            assert (matrix.rows, matrix.columns) == (gpus if square else 1, gpus)
            places = [(cell.row, cell.column) for cell in matrix.cells]
            off_diagonal = gpus * (gpus - 1)
            assert len(set(places)) == len(places) == (off_diagonal if square else gpus)
            assert all(row != column for row, column in places) or not square


@pytest.mark.parametrize(
    ("name", "captions"),
    [
        ("host_to_device_memcpy_ce", ["memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)"]),
        ("all_to_host_memcpy_sm", ["memcpy SM CPU(row) <- GPU(column) bandwidth (GB/s)"]),
        (
            "host_to_all_bidirectional_memcpy_ce",
            ["memcpy CE CPU(row) <-> GPU(column) bandwidth (GB/s)"],
        ),
        ("device_to_device_memcpy_read_sm", ["memcpy SM GPU(row) -> GPU(column) bandwidth (GB/s)"]),
        (
            "device_to_device_memcpy_write_sm",
            ["memcpy SM GPU(row) <- GPU(column) bandwidth (GB/s)"],
        ),
        (
            "device_to_device_bidirectional_memcpy_write_ce",
            [
                f"memcpy CE GPU(row) <-> GPU(column) {which} bandwidth (GB/s)"
                for which in ("Write1", "Write2", "Total")
            ],
        ),
        ("all_to_one_write_ce", ["memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)"]),
        ("one_to_all_write_ce", ["memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)"]),
        ("host_device_latency_sm", ["memory latency SM CPU(row) <-> GPU(column) (ns)"]),
        (
            "device_to_device_latency_sm",
            ["Device to Device Latency SM GPU(row) <-> GPU(column) (ns)"],
        ),
        ("device_local_copy", ["memcpy local GPU(column) bandwidth (GB/s)"]),
    ],
)
def test_captions_are_those_that_scripts_look_for(two_gpus, name, captions):
    matrices = case_of(two_gpus, name).matrices
    assert [m.caption for m in matrices] == captions
    assert {m.unit for m in matrices} == {Unit.NANOSECONDS if "(ns)" in captions[0] else Unit.GBS}


def test_suffixes_of_the_parts_of_a_case(two_gpus):
    for direction in ("read", "write"):
        case = case_of(two_gpus, f"device_to_device_bidirectional_memcpy_{direction}_sm")
        assert [m.suffix for m in case.matrices] == [f"{direction}1", f"{direction}2", "total"]


def test_one_gpu_has_the_cases_that_take_no_pair():
    cases = built(nvswitched(1)).cases
    missing = {c.name: c.not_applicable for c in cases if c.not_applicable}
    assert set(missing) == TAKES_PAIRS
    assert set(missing.values()) == {"it takes two GPUs or more"}


def test_gpus_without_peer_access_say_so(two_gpus):
    alone = tuple(dataclasses.replace(g, peers=()) for g in two_gpus.gpus)
    cases = built(dataclasses.replace(two_gpus, gpus=alone)).cases
    missing = {c.name: c.not_applicable for c in cases if c.not_applicable}
    assert set(missing) == TAKES_PAIRS
    assert set(missing.values()) == {"these GPUs cannot reach each other's memory"}


def test_pairs_out_of_reach_are_cells_without_a_number():
    four = nvswitched(4)
    peers = {0: (1, 3), 1: (0,), 2: (3,), 3: (2,)}  # 0 reaches 3, which does not reach back
    machine = dataclasses.replace(
        four, gpus=tuple(dataclasses.replace(g, peers=peers[g.index]) for g in four.gpus)
    )
    (matrix,) = case_of(machine, "device_to_device_memcpy_read_ce").matrices
    there = {(c.row, c.column) for c in matrix.cells if c.experiment}
    assert there == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert all("cannot reach" in c.not_applicable for c in matrix.cells if not c.experiment)
    case_set = built(machine, "all_to_one_write_ce")
    sources = [
        {copy.source.part for copy in copies_of(case_set, cell)}
        for cell in case_set.cases[0].matrices[0].cells
    ]
    assert sources == [{"g1"}, {"g0"}, {"g3"}, {"g2"}]


def closed(machine, *numbers):
    gpus = (
        dataclasses.replace(g, unavailable="It fell off." if g.index in numbers else None)
        for g in machine.gpus
    )
    return dataclasses.replace(machine, gpus=tuple(gpus))


def test_gpus_that_cannot_be_used_are_left_out_of_sets_and_named_as_the_reason():
    case_set = built(closed(nvswitched(4), 2))
    used = {
        p.part for e in case_set.experiments for c in e.copies for p in (c.source, c.destination)
    }
    assert used == {"h0", "g0", "g1", "g3"}
    for case in case_set.cases:
        for cell in (cell for matrix in case.matrices for cell in matrix.cells):
            if 2 in (cell.row, cell.column):
                assert cell.not_applicable == "g2 is not usable: It fell off"
            else:
                assert all(c.executing_gpu in used for c in copies_of(case_set, cell))
    (matrix,) = (
        built(closed(nvswitched(4), 2), "host_to_all_bidirectional_memcpy_ce").cases[0].matrices
    )
    assert [cell.measured for cell in matrix.cells] == [(0,), (1,), (), (2,)]


def test_a_pair_takes_two_gpus_that_can_be_used(two_gpus):
    missing = {
        c.name: c.not_applicable for c in built(closed(two_gpus, 1)).cases if c.not_applicable
    }
    assert set(missing) == TAKES_PAIRS
    assert set(missing.values()) == {"it takes two GPUs or more, and g1 is not usable: It fell off"}
    none = built(closed(two_gpus, 0, 1))
    assert {c.not_applicable for c in none.cases} == {"g0 is not usable: It fell off"}
    assert none.experiments == ()


def test_a_machine_without_a_gpu_has_no_case(two_gpus):
    plain = dataclasses.replace(two_gpus, gpus=(), links=())
    case_set = built(plain)
    assert {c.not_applicable for c in case_set.cases} == {"there is no GPU"}
    assert case_set.experiments == ()


def test_kernels_do_not_reach_pageable_memory(two_gpus):
    cases = {c.name: c for c in built(two_gpus, memory=Memory.PAGEABLE).cases}
    refused = {name for name, case in cases.items() if case.not_applicable}
    assert refused == {f"{name}_sm" for name in (*HOST_CASES, *ALL_HOST_CASES)}


def test_every_set_of_copies_is_measured_once(two_gpus):
    case_set = built(two_gpus)
    cells = [c for case in case_set.cases for m in case.matrices for c in m.cells]
    uses = Counter(cell.experiment for cell in cells)
    assert len(case_set.experiments) == 36
    assert {e.name for e in case_set.experiments} == set(uses)
    assert len({e.copies for e in case_set.experiments}) == 36
    assert max(uses.values()) > 2


@pytest.mark.parametrize("name", NAMES)
def test_cells_show_the_copies_that_their_case_names(name):
    machine = nvswitched(4)
    case_set = built(machine, name)
    (case,) = case_set.cases
    engine = Engine.CE if name.endswith("_ce") or name == "device_local_copy" else Engine.SM
    for cell in case.matrices[-1].cells:
        row, column = f"g{cell.row}", f"g{cell.column}"
        copies = copies_of(case_set, cell)
        assert {copy.engine for copy in copies} == {engine}
        directions = {(c.source.part, c.destination.part, c.executing_gpu) for c in copies}
        others = [g.id for g in machine.gpus if g.id != column]
        host = machine.nearest_node(machine.gpus[cell.column]).id
        stem = name.removesuffix("_ce").removesuffix("_sm")
        assert (
            directions
            == {
                "host_to_device_memcpy": {(host, column, column)},
                "host_to_device_bidirectional_memcpy": {(host, column, column)},
                "host_to_all_memcpy": {(host, column, column)},
                "host_to_all_bidirectional_memcpy": {(host, column, column)},
                "device_to_host_memcpy": {(column, host, column)},
                "device_to_host_bidirectional_memcpy": {(column, host, column)},
                "all_to_host_memcpy": {(column, host, column)},
                "all_to_host_bidirectional_memcpy": {(column, host, column)},
                "device_to_device_memcpy_read": {(column, row, row)},
                "device_to_device_memcpy_write": {(row, column, row)},
                "device_to_device_bidirectional_memcpy_read": {
                    (column, row, row),
                    (row, column, column),
                },
                "device_to_device_bidirectional_memcpy_write": {
                    (row, column, row),
                    (column, row, column),
                },
                "all_to_one_write": {(g, column, g) for g in others},
                "all_to_one_read": {(column, g, g) for g in others},
                "one_to_all_write": {(column, g, column) for g in others},
                "one_to_all_read": {(g, column, column) for g in others},
                "host_device_latency": {(host, column, column)},
                "device_to_device_latency": {(column, row, row)},
                "device_local_copy": {(column, column, column)},
            }[stem]
        )


@pytest.mark.parametrize("direction", ["read", "write"])
def test_both_directions_of_a_pair_make_up_its_total(two_gpus, direction):
    case_set = built(two_gpus, f"device_to_device_bidirectional_memcpy_{direction}_ce")
    one, two, total = (m.cells for m in case_set.cases[0].matrices)
    for first, second, both in zip(one, two, total, strict=True):
        assert copies_of(case_set, first)[0].path == f"g{first.column} → g{first.row}"
        assert copies_of(case_set, first) + copies_of(case_set, second) in (
            copies_of(case_set, both),
            copies_of(case_set, both)[::-1],
        )


def test_all_at_once_loads_every_gpu():
    case_set = built(nvswitched(4), "host_to_all_bidirectional_memcpy_ce")
    (experiment,) = case_set.experiments
    assert len(experiment.copies) == 8
    assert {c.path for c in experiment.copies} == {
        direction for i in range(4) for direction in (f"h0 → g{i}", f"g{i} → h0")
    }


def test_options_reach_every_copy(two_sockets):
    options = {"bytes": 1 << 20, "memory": Memory.MAPPED, "node": 0}
    for experiment in built(two_sockets, **options).experiments:
        for copy in experiment.copies:
            hosts = [p for p in (copy.source, copy.destination) if p.is_host]
            assert {p.part for p in hosts} <= {"h0"}  # and not h1, which is nearer
            if copy.operation is Operation.COPY:
                assert copy.bytes == 1 << 20
                assert {p.memory for p in hosts} <= {Memory.MAPPED}


def test_a_node_that_is_not_there(two_gpus):
    with pytest.raises(InputError, match="no NUMA node 3; this machine has 0"):
        built(two_gpus, node=3)


@pytest.mark.parametrize(("pairs", "measured"), [(1, 1), (5, 5), (28, 28), (99, 28), (None, 28)])
def test_so_many_pairs_are_drawn(pairs, measured):
    (matrix,) = case_of(nvswitched(8), "device_to_device_memcpy_write_ce", pairs=pairs).matrices
    drawn = {frozenset((c.row, c.column)) for c in matrix.cells if c.experiment}
    assert len(drawn) == measured
    assert sum(c.experiment is not None for c in matrix.cells) == 2 * measured  # each way
    assert {c.not_applicable for c in matrix.cells} <= {None, "this pair was not drawn"}


def test_every_case_draws_the_same_pairs_every_time():
    machine = nvswitched(8)
    names = [name for name in NAMES if name.startswith("device_to_device")]
    first, again = (built(machine, *names, pairs=6) for _ in range(2))
    assert first == again
    drawn = {
        frozenset((c.row, c.column) for c in matrix.cells if c.experiment)
        for case in first.cases
        for matrix in case.matrices
    }
    assert len(drawn) == 1


def test_cases_are_chosen_by_name_number_and_beginning():
    assert choose() == NAMES
    assert choose(["34", "device_local_copy", "0"]) == ("device_local_copy", NAMES[0])
    assert choose(prefixes=["host_to_device"]) == (NAMES[0], NAMES[2], NAMES[16], NAMES[18])
    assert choose(["0"], ["host_to_all_memcpy_ce"]) == (NAMES[0], "host_to_all_memcpy_ce")


@pytest.mark.parametrize(
    ("names", "prefixes", "words"),
    [
        (["host_to_device_memcpy"], [], "did you mean host_to_device_memcpy_.. or"),
        (["999"], [], "'lanescope bench --list' shows them"),
        (["-1"], [], "there is no case '-1'"),
        (["²"], [], "there is no case '²'"),
        ([], ["memcpy"], "no case begins with 'memcpy'"),
    ],
)
def test_what_is_no_case(names, prefixes, words):
    with pytest.raises(InputError, match=words):
        choose(names, prefixes)


NEWER = {
    *(f"{name}_tma" for name in PAIR_CASES),
    *(f"device_local_{what}" for what in ("copy_sm", "read_sm", "write_sm", "copy_tma")),
    "device_to_device_latency_tma",
}


def test_what_a_newer_nvbandwidth_added_is_there_by_name():
    further = {name for name, _ in case_list(further=True)}
    assert further >= NEWER
    assert not NEWER & set(choose())
    case_set = built(h200s(), *sorted(NEWER))
    assert {case.not_applicable for case in case_set.cases} == {None}
    captions = {case.name: case.matrices[0].caption for case in case_set.cases}
    wanted = "memcpy TMA GPU(row) -> GPU(column) bandwidth (GB/s)"
    assert captions["device_to_device_memcpy_read_tma"] == wanted
    assert captions["device_local_read_sm"] == "read SM local GPU(column) bandwidth (GB/s)"


@pytest.mark.parametrize(
    ("name", "operation", "chunk"),
    [
        ("device_local_copy_sm", Operation.COPY, 0),
        ("device_local_copy_tma", Operation.COPY, 32 << 10),
        ("device_local_read_sm", Operation.READ, None),
        ("device_local_write_sm", Operation.WRITE, None),
    ],
)
def test_kernels_in_their_own_memory(name, operation, chunk):
    for experiment in built(h200s(), name).experiments:
        (copy,) = experiment.copies
        assert (copy.operation, copy.engine) == (operation, Engine.SM)
        assert copy.chunk_bytes == chunk
        assert copy.source == copy.destination


def test_reads_and_writes_alone_take_half_of_what_a_copy_takes():
    machine = h200s()
    rates = {
        name: limits(machine, built(machine, name).experiments[0])[0].gbs
        for name in ("device_local_copy_sm", "device_local_read_sm", "device_local_write_sm")
    }
    peak = machine.gpus[0].memory_gbs
    assert rates == {
        "device_local_copy_sm": peak / 2,
        "device_local_read_sm": peak,
        "device_local_write_sm": peak,
    }


def test_bulk_copies_take_a_gpu_that_has_them(two_gpus):
    older = dataclasses.replace(
        two_gpus,
        gpus=tuple(dataclasses.replace(g, compute_capability=(8, 0)) for g in two_gpus.gpus),
    )
    missing = {c.name for c in built(older, *sorted(NEWER)).cases if c.not_applicable}
    assert missing == {name for name in NEWER if name.endswith("_tma")}


def test_one_pair_alone():
    machine = nvswitched(4)
    gpus = tuple(dataclasses.replace(g, uuid=f"GPU-{g.index}") for g in machine.gpus)
    machine = dataclasses.replace(machine, gpus=gpus)
    case = case_of(machine, "device_to_device_memcpy_write_ce", pair=("g1", "GPU-3"))
    measured = {(c.row, c.column) for c in case.matrices[0].cells if not c.not_applicable}
    assert measured == {(1, 3), (3, 1)}
    sums = case_of(machine, "all_to_one_write_ce", pair=("g1", "g3"))
    assert not any(cell.not_applicable for cell in sums.matrices[0].cells)
    with pytest.raises(InputError, match="there is no GPU 'g9'; this machine has g0 \\(GPU-0\\)"):
        case_of(machine, "all_to_one_write_ce", pair=("g1", "g9"))
    with pytest.raises(InputError, match="'g1' and 'GPU-1' are one GPU; name two"):
        case_of(machine, "all_to_one_write_ce", pair=("g1", "GPU-1"))


def test_confidential_computing_has_no_limit_and_no_kernels_on_host_memory(two_gpus):
    machine = dataclasses.replace(two_gpus, confidential=True)
    refused = {c.name for c in built(machine).cases if c.not_applicable}
    assert refused == {f"{name}_sm" for name in (*HOST_CASES, *ALL_HOST_CASES)}
    (experiment,) = built(machine, "host_to_device_memcpy_ce").experiments[:1]
    (limit,) = limits(machine, experiment)
    assert limit.gbs is None
    assert limit.reason.startswith("Confidential Computing encrypts")
    within = built(machine, "device_to_device_memcpy_write_ce").experiments[0]
    assert limits(machine, within) == limits(two_gpus, within)
