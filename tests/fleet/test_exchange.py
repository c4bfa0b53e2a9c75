"""What pairs do that are slow or that break off, and rates that other programs measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from lanescope.errors import InputError
from lanescope.fleet.exchange import PairRate, exchanged, imported, read_result
from lanescope.fleet.media import Medium
from lanescope.fleet.pairs import PairPlan, SuspectKind, located, planned
from lanescope.fleet.report import fleet_report


class MadeUpLeader:
    """Exchanges over a network in which some nodes are slow, and first tries are disturbed."""

    def __init__(self, slow, disturbed=()):
        self.slow, self.disturbed = slow, set(disturbed)
        self.tried = []
        self.ended = False

    def measured(self, rounds):
        for pairs in rounds:
            assert len({end for pair in pairs for end in pair}) == 2 * len(pairs)
            for pair in pairs:
                share = min(self.slow.get(end, 1.0) for end in pair)
                if pair in self.disturbed and pair not in self.tried:
                    share *= 0.7
                self.tried.append(pair)
                yield pair, PairRate(f"n{pair[0]}", f"n{pair[1]}", 10.0 * share, 1, ())

    def end(self):
        self.ended = True


def blamed(leader, plan, nodes):
    racks = [""] * nodes
    rates = exchanged(leader, planned(plan, racks), racks)
    by_pair = {(int(one.first[1:]), int(one.second[1:])): one.gbs for one in rates}
    assert leader.ended
    return located(by_pair, [f"n{n}" for n in range(nodes)], racks)


def test_of_two_nodes_that_met_nobody_else_good_ones_tell_which_is_slow():
    leader = MadeUpLeader({3: 0.8})
    (found,) = blamed(leader, PairPlan.OPPOSITE, 16)
    assert (found.what, found.names, found.ambiguous) == (SuspectKind.NODE, ("n3",), False)
    met = {pair for pair in leader.tried if 3 in pair}
    assert len(met) >= 3


def test_sound_pairs_exchange_once():
    leader = MadeUpLeader({})
    assert blamed(leader, PairPlan.ALL, 8) == []
    assert len(leader.tried) == 28


def test_a_disturbed_try_is_made_good_by_the_next():
    leader = MadeUpLeader({}, disturbed=[(0, 1), (2, 5)])
    assert blamed(leader, PairPlan.ALL, 8) == []
    assert sorted(leader.tried).count((0, 1)) == 2
    assert len(leader.tried) == 30


def test_where_most_are_suspect_nobody_is_tried_with_good_ones():
    leader = MadeUpLeader(dict.fromkeys(range(3), 0.8))
    blamed(leader, PairPlan.OPPOSITE, 8)
    assert set(leader.tried) == {(n, n + 4) for n in range(4)}


def nccl_text(hosts, bus=40.0, wrong="0", ranks=16, test="sendrecv_perf"):
    """What nccl-tests print, of two sizes."""
    head = [f"# Collective test starting: {test}"] if test else []
    each = ranks // len(hosts)
    head += [
        f"#  Rank {n:2} Group  0 Pid {1000 + n} on {hosts[n // each]:>10} device  {n % each} "
        "[0000:00:06] NVIDIA H200"
        for n in range(ranks)
    ]
    rows = [
        f"{size:12} {size // 4:12}     float     sum      -1  {size / bus * 1e-3:8.2f}  {bus:6.2f}"
        f"  {bus:6.2f}  {wrong:>5}   15.0  {bus:6.2f}  {bus:6.2f}  {wrong:>5}"
        for size in (1 << 20, 1 << 30)
    ]
    return "\n".join([*head, "#       size  count ...", *rows, "# Avg bus bandwidth : 1", ""])


def perftest_text(average=390.0, unit="Gb/sec", name="RDMA_Write BW"):
    return "\n".join(
        [
            "-" * 80,
            f"                    {name} Test",
            " Dual-port       : OFF\t\tDevice         : mlx5_0",
            f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]",
            f" 65536      5000             {average + 0.1:.2f}        {average:.2f}  \t   0.186901",
            "-" * 80,
        ]
    )


def written(tmp_path, text, name="out.txt"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_of_nccl_tests_the_largest_size_counts_and_hosts_are_those_of_the_ranks(tmp_path):
    one = read_result(written(tmp_path, nccl_text(["n1", "n2"], 47.5)))
    assert (one.rate.first, one.rate.second, one.rate.gbs) == ("n1", "n2", 47.5)
    assert (one.rate.bytes, one.rate.medium, one.rate.wrong) == (1 << 30, Medium.NCCL, 0)
    assert one.test == "sendrecv_perf of 16 ranks, 1073741824 B"


@pytest.mark.parametrize(("wrong", "count"), [("0", 0), ("N/A", 0), ("17", 4 * 17)])
def test_wrong_values_of_all_sizes_are_taken_over_in_place_too(tmp_path, wrong, count):
    assert read_result(written(tmp_path, nccl_text(["a", "b"], wrong=wrong))).rate.wrong == count


def test_a_size_that_has_wrong_values_alone_is_not_passed_over(tmp_path):
    small, large = nccl_text(["a", "b"], wrong="3"), nccl_text(["a", "b"])
    rows = [text.split("#       size")[1].splitlines() for text in (small, large)]
    text = large.replace(rows[1][1], rows[0][1])
    assert read_result(written(tmp_path, text)).rate.wrong == 6


@pytest.mark.parametrize("name", ["n 1--x.out", 'n"1--x.out', "a--b,c.out"])
def test_a_name_that_no_node_can_have_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="which is no node's name; give one without blanks"):
        imported([written(tmp_path, perftest_text(), name)])


@pytest.mark.parametrize("other", [("a", "b"), ("b", "a")])
def test_what_arrived_wrong_once_is_not_lost_with_a_better_try(tmp_path, other):
    files = [
        written(tmp_path, nccl_text(["a", "b"], 40.0, "1"), "first.txt"),
        written(tmp_path, nccl_text(list(other), 41.0, "0"), "second.txt"),
        written(tmp_path, nccl_text(list(other), 39.0, "0"), "third.txt"),
    ]
    (rate,) = imported(files)[1]
    assert rate.wrong == 4
    (found,) = fleet_report([], [], "2026-11-24T00:00:00+00:00", [rate]).suspects
    assert found.sentence == "4 values that a and b exchanged arrived other than sent."


@pytest.mark.parametrize(
    ("unit", "gbs"), [("Gb/sec", 12.5), ("MB/sec", 0.1048576), ("MiB/sec", 0.1048576)]
)
def test_of_perftest_units_are_read_and_hosts_are_in_the_files_name(tmp_path, unit, gbs):
    one = read_result(written(tmp_path, perftest_text(100.0, unit), "n1--n2.out"))
    assert (one.rate.first, one.rate.second, one.rate.medium) == ("n1", "n2", Medium.RDMA)
    assert one.rate.gbs == pytest.approx(gbs)
    assert one.test == f"RDMA_Write BW of perftest, 65536 B, {unit}"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("x.txt", "hello", "no output of nccl-tests or of a bandwidth test"),
        ("x.txt", nccl_text(["a"]), "of 1 hosts; a pair of nodes has two"),
        ("x.txt", nccl_text(["a", "b", "c", "d"]), "of 4 hosts"),
        (
            "x.txt",
            nccl_text(["a", "b"]).partition("#       size")[0],
            "no row with a result; it may be cut off",
        ),
        ("x.txt", nccl_text(["a", "b"]) * 2, "holds 2 runs of nccl-tests; give each a file"),
        ("x.txt", perftest_text(), "call the file HOST--HOST.txt"),
        ("a--a.txt", perftest_text(), "is of a and itself; a pair of nodes has two"),
        ("a--b.txt", perftest_text(unit="furlongs"), "no row with a rate"),
        ("a--b.txt", perftest_text()[:200], "no row with a rate"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, name, text, words):
    with pytest.raises(InputError, match=words):
        read_result(written(tmp_path, text, name))


def test_stored_tables_of_nccl_tests_without_their_hosts_are_named_as_such():
    results = Path(__file__).parents[2] / "benchmarks" / "results" / "h200-x2" / "nccl"
    with pytest.raises(InputError, match=r"is of nccl-tests, .* hosts are missing \('# Rank 0"):
        read_result(results / "nccl-tests.txt")


def test_of_both_directions_the_slower_counts_and_of_tries_the_best(tmp_path):
    for name, rate in (("a--b.txt", 390.0), ("b--a.txt", 200.0), ("b--a.out", 240.0)):
        written(tmp_path, perftest_text(rate), name)
    _, rates = imported([tmp_path])
    assert [one.gbs for one in rates] == [pytest.approx(30.0)]


def test_results_of_different_units_are_not_compared(tmp_path):
    written(tmp_path, perftest_text(390.0), "a--b.txt")
    written(tmp_path, perftest_text(46_000.0, "MB/sec"), "a--c.txt")
    with pytest.raises(InputError, match="import each test by itself"):
        imported([tmp_path])


def test_results_of_different_tests_are_not_compared(tmp_path):
    written(tmp_path, nccl_text(["a", "b"]), "1.txt")
    written(tmp_path, nccl_text(["a", "c"], test="all_reduce_perf"), "2.txt")
    with pytest.raises(InputError, match="import each test by itself"):
        imported([tmp_path])
    with pytest.raises(InputError, match="no file to import"):
        imported([])
