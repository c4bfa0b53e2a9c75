"""The live view, on spools of plain numbers that grow."""

import json
import tracemalloc

import numpy as np
import pytest

from lanescope.cli.live import live_text, sparkline
from lanescope.errors import InputError
from lanescope.trace.counter_spool import (
    RECORD,
    RX,
    TX,
    DuplexTail,
    SpoolTail,
    counter_header,
    merge_directions,
    read_counters,
)
from lanescope.trace.timeline import Counters
from lanescope.trace.wire import WireModel
from lanescope.watching.live import HISTORY_SECONDS, LiveLink, LiveWatch
from tests.trace.timelines import MS, US, S

NOW = 1_795_281_230 * S
UNKNOWN = 0xFFFFFFFF
EXACT = WireModel(((1.0, 0.0), (0.0, 1.0)))


def header(source="pm", gpu=0, interval_ns=100 * US, columns=(RX, TX)):
    return counter_header(source, gpu, interval_ns, columns).encode()


def records(count, rx=1000, tx=0, begin_ns=NOW, every_ns=100 * US):
    found = np.zeros(count, RECORD)
    found["end_ns"] = begin_ns + np.arange(1, count + 1) * every_ns
    found[RX], found[TX] = rx, tx
    return found


def append(path, content):
    with path.open("ab") as file:
        file.write(content)


def steady(gbs, begin_ns, end_ns, every_ns=100 * US, known=True):
    """Counters of a steady rate to the GPU; the first record only tells where they begin."""
    end = np.arange(begin_ns, end_ns + 1, every_ns)
    rx = np.full(end.size, round(gbs * every_ns))
    certain = np.full(end.size, known)
    certain[0] = False
    return Counters("pm", 0, every_ns, end, rx, np.zeros_like(rx), certain)


def all_of(tail):
    return [int(end) for piece in tail.read() for end in piece.end_ns]


@pytest.mark.parametrize("piece", [1, 7, 16, 33, 1000])
def test_a_tail_reads_each_record_once_whatever_has_been_written(tmp_path, piece):
    path = tmp_path / "pm.g0.bin"
    whole = records(50)
    content = header() + whole.tobytes()
    path.touch()
    tail, seen = SpoolTail(path, most_records=3), []
    for begin in range(0, len(content), piece):
        append(path, content[begin : begin + piece])
        seen += all_of(tail)
    assert seen == whole["end_ns"].tolist()
    assert all_of(tail) == []


def test_a_file_that_is_no_spool_is_told(tmp_path):
    path = tmp_path / "pm.g0.bin"
    path.write_bytes(b"x" * 5000)
    with pytest.raises(InputError, match="no spool"):
        list(SpoolTail(path).read())


def test_halves_that_grow_are_what_they_are_at_once(tmp_path):
    directions = {RX: tmp_path / "throughput-rx.g0.bin", TX: tmp_path / "throughput-tx.g0.bin"}
    spools = {}
    for i, (column, path) in enumerate(directions.items()):
        append(path, header(path.name.partition(".")[0], interval_ns=20 * MS, columns=[column]))
        first = records(1, UNKNOWN, UNKNOWN, NOW + i * 3 * MS)
        later = records(40, 5000, 7000, NOW + 100 * US + i * 3 * MS, 20 * MS + i * MS)
        spools[column] = np.concatenate((first, later))
    tail = DuplexTail(SpoolTail(directions[RX]), SpoolTail(directions[TX]), "throughput")
    pieces = []
    for begin in range(0, 41, 4):
        for column, path in directions.items():
            append(path, spools[column][begin : begin + 4].tobytes())
        pieces += list(tail.read())
    whole = merge_directions(
        read_counters(directions[RX]), read_counters(directions[TX]), "throughput"
    )
    for name in ("rx_bytes", "tx_bytes"):
        got = sum(int(getattr(piece, name).sum()) for piece in pieces)
        assert got == pytest.approx(int(getattr(whole, name).sum()), abs=len(pieces) * 2)
    assert [p.end_ns[0] for p in pieces[1:]] == [p.end_ns[-1] for p in pieces[:-1]]


def test_the_rate_now_the_peaks_and_the_history():
    link = LiveLink(100 * US, EXACT)
    link.add(steady(10.0, NOW, NOW + 5 * S))
    link.add(steady(40.0, NOW + 5 * S, NOW + 5 * S + 2 * MS))  # a burst, that a mean hides
    link.add(steady(20.0, NOW + 5 * S + 2 * MS, NOW + 8 * S))
    down, up = link.rates(NOW + 8 * S)
    assert down.now_gbs == pytest.approx(20, rel=1e-3)
    assert down.peak_second_gbs == pytest.approx(20, rel=1e-3)
    assert down.peak_gbs == pytest.approx(40, rel=0.1)
    assert down.history_gbs.size == HISTORY_SECONDS
    assert down.history_gbs[-8:] == pytest.approx([10] * 5 + [20.04, 20, 20], rel=1e-2)
    assert np.isnan(down.history_gbs[:-8]).all()
    assert (up.now_gbs, up.peak_gbs) == (0, 0)


def test_what_is_old_or_unknown_is_not_the_rate_now():
    link = LiveLink(100 * US, EXACT)
    assert link.rates(NOW)[0].now_gbs is None
    link.add(steady(10.0, NOW, NOW + S))
    assert link.rates(NOW + S)[0].now_gbs == pytest.approx(10)
    assert link.rates(NOW + 3 * S)[0].now_gbs is None
    assert link.rates(NOW + 3 * S)[0].peak_gbs == pytest.approx(10)
    link.add(steady(0.0, NOW + S, NOW + 2 * S, known=False))
    assert link.lost_samples == 10_000
    history = link.rates(NOW + 2 * S)[0].history_gbs
    assert (history[-2], np.isnan(history[-1])) == (pytest.approx(10), True)


def test_a_gap_of_hours_is_no_more_than_a_gap():
    link = LiveLink(100 * US, EXACT)
    link.add(steady(10.0, NOW, NOW + S))
    later = NOW + 3600 * S
    link.add(steady(0.0, NOW + S, later, 3599 * S, known=False))
    link.add(steady(5.0, later, later + S))
    down, _ = link.rates(later + S)
    assert (down.now_gbs, down.peak_gbs) == (pytest.approx(5), pytest.approx(10))
    assert np.isnan(down.history_gbs[:-1]).all()


def test_memory_does_not_grow_with_the_run(tmp_path, two_gpus):
    path = tmp_path / "pm.g0.bin"
    append(path, header())
    watch, held = LiveWatch(tmp_path, two_gpus), []
    tracemalloc.start()
    for second in range(30):
        append(path, records(10_000, begin_ns=NOW + second * S).tobytes())
        watch.look(NOW + (second + 1) * S)
        held.append(tracemalloc.get_traced_memory()[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held[-1] - held[4] < 100_000
    assert peak < 32 << 20


def test_the_view_of_a_watch(tmp_path, two_gpus):
    for gpu in range(2):
        append(tmp_path / f"pm.g{gpu}.bin", header(gpu=gpu) + records(20_000, 3_140_800).tobytes())
    (tmp_path / "counters.g0.bin").write_bytes(header("counters"))  # has seen nothing
    (tmp_path / "other.g0.bin").write_bytes(b'{"version": 77}\n')
    (tmp_path / "pm.g0.bin.json").write_text(json.dumps({"lost_samples": 0}))
    frame = LiveWatch(tmp_path, two_gpus).look(NOW + 2 * S)
    assert [(w.gpu, w.direction, w.source) for w in frame.directions] == [
        (gpu, direction, "pm") for gpu in range(2) for direction in ("h2d", "d2h")
    ]
    assert frame.directions[0].rates.now_gbs == pytest.approx(30, rel=0.01)
    assert frame.directions[1].rates.now_gbs == 0
    lines = live_text(frame, 100).plain.splitlines()
    assert lines[1].split()[:5] == ["g0", "h2d", "30.00", "30.00", "30.00"]
    assert lines[5] == "watching for 0 s; g0, g1 by pm every 100 µs, peaks over 1 ms"
    assert "other.g0.bin: field 'source' is missing" in lines[6]
    assert all(len(line) <= 100 for line in lines[:5])


def test_nothing_is_an_ordinary_view(tmp_path, two_gpus):
    text = live_text(LiveWatch(tmp_path, two_gpus).look(NOW), 30).plain
    assert text.endswith("watching for 0 s; nothing is counted yet")


def test_bars():
    assert sparkline([0.0, 1, 2, np.nan, 4, 9], 4.0) == "▁▂▄ ██"
    assert sparkline([0.0, 0.0], 0.0) == "▁▁"
