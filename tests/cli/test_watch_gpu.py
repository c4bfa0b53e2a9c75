"""``lanescope watch`` on a real GPU: the whole machine, what runs already, other profilers."""

import importlib.util
import json
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pyarrow.parquet as pq
import pytest

from lanescope.trace.store import read_watch
from lanescope.trace.stored_columns import in_memory
from lanescope.trace.summarise import bursts
from tests.cli.test_live_cli import at_a_terminal
from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S
from tests.watching.test_trace_gpu import CUDA

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]

MIB = 1 << 20
#: Copies of 16 MiB, each followed by a pause of 5 ms, until its input ends or a minute has passed.
COPIES = (
    CUDA
    + """
import select
print("ready", flush=True)
begin, moved = time.monotonic(), 0
while time.monotonic() < begin + 60 and not select.select([sys.stdin], [], [], 0.005)[0]:
    to_gpu(SIZE); wait(); moved += SIZE
print(moved, flush=True)
"""
)


@contextmanager
def copying():
    """Another process that copies; yields it, and a function that ends it and returns bytes."""
    with subprocess.Popen(
        [sys.executable, "-c", COPIES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"

            def ended():
                process.stdin.close()
                return int(process.stdout.readline())

            yield process, ended
        finally:
            process.kill()


def told(path):
    return json.loads(path.read_text())


def direction(summary, direction):
    (one,) = [w for w in summary["ways"] if (w["gpu"], w["direction"]) == (0, direction)]
    return one


def test_the_whole_machine_is_watched_without_a_program(lanescope, tmp_path):
    with copying() as (_, ended):
        done = lanescope(
            *("watch", "--all", "--seconds", 1.5, "--out", tmp_path / "run"),
            *("--json", tmp_path / "told.json"),
        )
        moved = ended()
    assert done.returncode == 0, done.stderr
    summary = told(tmp_path / "told.json")
    down, up = direction(summary, "h2d"), direction(summary, "d2h")
    assert down["told"] == "counters"
    assert 16 * MIB < down["counter_bytes"] < moved
    assert up["counter_bytes"] < 0.01 * down["counter_bytes"]
    assert "No process was traced" in " ".join(summary["notes"])


def test_a_running_process_is_watched_until_it_ends(lanescope, tmp_path):
    with copying() as (process, ended):
        watching = lanescope.start(
            *("watch", "--pid", process.pid, "--json", tmp_path / "told.json"),
            *("--out", tmp_path / "run"),
        )
        time.sleep(4)
        ended()
        _, errors = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 0, errors
    assert direction(told(tmp_path / "told.json"), "h2d")["counter_bytes"] > 16 * MIB


def test_the_live_view_shows_rates_of_the_program(tmp_path):
    program = COPIES.replace("60 and", "2 and")
    with (tmp_path / "out").open("wb") as out:
        code, drawn, _ = at_a_terminal(
            *(tmp_path / "run", "--source", "pm", "--", sys.executable, "-c", program), stdout=out
        )
    assert code == 0, drawn
    view, _, after = drawn.rpartition("\x1b[?25h")
    assert "g0" in view
    assert "nothing is counted yet" not in view[-2000:]
    assert "g0 h2d" in after


@pytest.mark.parametrize(("function", "direction"), [("to_gpu", 0), ("to_host", 1)])
def test_single_copies_of_4_kib_stand_out(lanescope, tmp_path, function, direction):
    program = f"""
{function}(4096); wait(); time.sleep(0.1)
for _ in range(20):
    begin = time.time_ns(); {function}(4096); wait(); print(begin, time.time_ns())
    time.sleep(0.01)
"""
    done = lanescope(
        *("watch", "-q", "--source", "pm", "--interval", "10us", "--out", tmp_path / "run"),
        *("--", sys.executable, "-c", CUDA + program),
    )
    assert done.returncode == 0, done.stderr
    times = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    of_gpus = read_watch(tmp_path / "run").timeline.counters
    counters = in_memory(of_gpus[0])  # the program uses the first GPU
    seen = bursts(counters, direction)
    own = counters.end_ns[counters.own]
    clear = [t for t in times if not ((own > t[0] - 50_000) & (own < t[1] + 50_000)).any()]
    assert len(clear) >= 8  # the others fell into the own reads of a sampler of several GPUs
    largest = []
    for begin, end in clear:
        meets = (seen.start_ns < end + 20_000) & (seen.end_ns > begin - 20_000)
        assert meets.any()
        largest.append(seen.wire_bytes[meets].max())
    assert min(largest) >= 4096
    # where the program's clock was read late, a burst may hold what the driver did meanwhile, too
    assert np.quantile(largest, 0.75) <= 8192


def test_where_another_profiler_holds_the_gpu_the_next_counters_watch(lanescope, tmp_path):
    holding = lanescope.start("watch", "--source", "pm", "--all", "--seconds", 20)
    try:
        time.sleep(3)
        done = lanescope(
            *("watch", "--json", tmp_path / "told.json", "--out", tmp_path / "run"),
            *("--", sys.executable, "-m", "lanescope.examples", "vector-add", "--size", "64MB"),
        )
    finally:
        holding.terminate()
        holding.communicate(timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    down = direction(told(tmp_path / "told.json"), "h2d")
    assert down["source"].startswith("counters")
    assert down["counter_bytes"] == pytest.approx(128e6, rel=0.5)
    assert "pm.g0" in done.stderr
    assert "profil" in done.stderr  # why, in words


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch")
@pytest.mark.parametrize("trace", ["calls", "always"])
def test_a_program_with_its_own_profiler_keeps_it(lanescope, tmp_path, trace):
    program = """
import torch
from torch.profiler import ProfilerActivity, profile
x = torch.randn(1 << 20).pin_memory()
torch.zeros(1, device="cuda")
with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as told:
    for _ in range(50): y = x.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
copies = [e for e in told.events() if "Memcpy HtoD" in e.name]
print(len(copies))
"""
    plain = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    done = lanescope(
        *("watch", "--trace", trace, "--out", tmp_path / "run"),
        *("--", sys.executable, "-c", program),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout, done.stderr
    # a profiler takes nothing from calls, which stand in for what it takes from the trace
    operations = read_watch(tmp_path / "run").timeline.operations
    assert int((operations.bytes == 4 << 20).sum()) == 50


RETURNED = """
import torch
gpu, host = torch.rand(1 << 20, device="cuda"), torch.empty(1 << 20, pin_memory=True)
for _ in range(20):
    host.copy_(gpu * 1.5, non_blocking=True)
    torch.cuda.synchronize()
    gpu.copy_(host, non_blocking=True)
torch.cuda.synchronize()
"""


def test_advise_reads_what_comes_back_to_pinned_memory(lanescope, tmp_path):
    """And finds it again in what is sent."""
    pytest.importorskip("torch")
    words = ["advise", "--parameters", "h200", "--out", str(tmp_path / "watch"), "--json", "--"]
    done = lanescope(*words, sys.executable, "-c", RETURNED)
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(tmp_path / "watch/host_copies.parquet").to_pylist()
    hashes = [row["hash"] for row in rows if row["hashed"]]
    assert len(hashes) > len(set(hashes)) > 10
    changes = [one for phase in json.loads(done.stderr)["phases"] for one in phase["changes"]]
    assert any("keep" in one["steps"] and one["worth"] for one in changes), changes
