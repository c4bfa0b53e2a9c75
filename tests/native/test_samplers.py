"""Samplers of counters, of a GPU that is pretended."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lanescope._core import native
from lanescope.trace.counter_spool import RX, TX, counter_header, merge_directions, read_counters
from tests.native.mock_gpu import use_mock
from tests.native.programs import program
from tests.patience import longer_and_longer, until

_ROOT = Path(__file__).parents[2]
INTERVAL = 100_000
METRICS = ["pcie__read_bytes.sum", "pcie__write_bytes.sum"]


@pytest.fixture(scope="session")
def library():
    return program("mock_gpu")


@pytest.fixture(autouse=True)
def mock(monkeypatch, library):
    use_mock(monkeypatch, library)
    return library


def sampler(library, path, decode_ms=5):
    return native.PmSampler(
        0,
        INTERVAL,
        METRICS,
        1 << 20,
        decode_ms * 1_000_000,
        [(str(path), counter_header("pm", 0, INTERVAL, own=True, may_lengthen=True))],
        str(library),
    )


def known_in(path):
    """How many records of a spool tell bytes, so far."""
    return read_counters(path).known.sum()


def sampled(library, path, samples=1000):
    pm = sampler(library, path)
    pm.start()
    until(lambda: known_in(path) >= samples)
    return pm.stop()


def test_samples_are_written_without_a_gap(library, tmp_path):
    report = sampled(library, tmp_path / "pm.g0.bin")
    found = read_counters(tmp_path / "pm.g0.bin")
    assert not report.errors
    assert (report.gaps, report.lost_samples, report.restarts) == (0, 0, 0)
    assert report.samples == len(found) - 1 >= 1000
    assert not found.known[0]
    assert found.known[1:].all()
    assert set(found.end_ns[1:] - found.start_ns[1:]) == {INTERVAL}
    assert set(found.rx_bytes[1:]) == {1000}
    assert set(found.tx_bytes[1:]) == {100}
    assert report.reads - 3 <= found.own.sum() < len(found)  # one while it was fetching, at least
    assert 0 < report.decode_cpu_seconds + report.evaluate_cpu_seconds < report.cpu_seconds
    assert report.wall_seconds > 0.1


def test_a_gap_is_found_in_the_times(monkeypatch, library, tmp_path):
    monkeypatch.setenv("MOCK_PM", "gap")
    report = sampled(library, tmp_path / "pm.g0.bin")
    found = read_counters(tmp_path / "pm.g0.bin")
    assert (report.gaps, report.lost_samples) == (1, 10)
    assert (~found.known).nonzero()[0].tolist() == [0, 100]


def test_sampling_goes_on_after_an_overflow(monkeypatch, library, tmp_path):
    monkeypatch.setenv("MOCK_PM", "overflow")
    report = sampled(library, tmp_path / "pm.g0.bin", 1001)
    found = read_counters(tmp_path / "pm.g0.bin")
    assert not report.errors
    assert (report.restarts, report.gaps) == (1, 1)
    assert report.lost_samples > 0
    assert found.known.sum() > 1000


@pytest.mark.parametrize(
    ("mode", "words"), [("dead", "again and again"), ("broken", "CUPTI_ERROR_UNKNOWN")]
)
def test_what_fails_later_is_told_and_keeps_what_was(monkeypatch, library, tmp_path, mode, words):
    monkeypatch.setenv("MOCK_PM", mode)
    for seconds in longer_and_longer(0.2):
        path = tmp_path / f"pm-{seconds}.g0.bin"
        pm = sampler(library, path)
        pm.start()
        time.sleep(seconds)
        report = pm.stop()
        if report.errors:
            break
    assert words in report.errors[0]
    assert known_in(path) > 50


@pytest.mark.parametrize(
    ("refuses", "name"),
    [
        ("cuptiPmSamplingSetConfig=26", "CUPTI_ERROR_HARDWARE_BUSY"),
        ("cuptiPmSamplingEnable=35", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
        ("cuptiProfilerHostConfigAddMetrics=999", "no such metrics"),
        ("cuInit=100", "cudaErrorNoDevice"),
    ],
)
def test_refusals_carry_their_name(monkeypatch, library, tmp_path, refuses, name):
    monkeypatch.setenv("MOCK_REFUSES", refuses)
    with pytest.raises(native.NativeError) as failed:
        sampler(library, tmp_path / "pm.g0.bin")
    assert failed.value.args[2] == name
    assert not (tmp_path / "pm.g0.bin").exists()


def test_libraries_that_are_not_there_or_too_old(tmp_path):
    with pytest.raises(native.NativeError) as failed:
        native.check_cupti(str(tmp_path / "libcupti.so.13"))
    assert failed.value.args[2] == "no CUPTI"
    with pytest.raises(native.NativeError) as failed:
        native.check_cupti("libm.so.6")
    assert failed.value.args[2] == "too old"


def test_a_sampler_may_end_without_being_stopped(library, tmp_path):
    pm = sampler(library, tmp_path / "pm.g0.bin")
    pm.start()
    del pm
    never_started = sampler(library, tmp_path / "other.bin")
    assert never_started.stop().samples == 0


_VICTIM = """
import sys, time
from tests.native.test_samplers import sampler
pm = sampler(sys.argv[1], sys.argv[2])
pm.start()
print("sampling", flush=True)
time.sleep(600)
"""


def test_a_kill_leaves_a_spool_that_can_be_read(library, tmp_path):
    path = tmp_path / "pm.g0.bin"
    victim = subprocess.Popen(
        [sys.executable, "-c", _VICTIM, str(library), str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    with victim:
        assert victim.stdout.readline() == b"sampling\n"
        until(lambda: known_in(path) > 500)
        victim.send_signal(signal.SIGKILL)
    found = read_counters(path)
    assert found.known.sum() > 500
    assert found.cpu_seconds is None


def test_counters_of_the_driver_add_up(tmp_path):
    """They begin anew every 72 ms: 60 GB/s received, 6 GB/s sent."""
    path = tmp_path / "counters.g0.bin"
    header = counter_header("counters", 0, 2_000_000)
    reader = native.NvmlCounters([("GPU-x", str(path), header)], 2_000_000, 64e9)
    reader.start()
    until(lambda: known_in(path) > 100)
    (report,) = reader.stop()
    found = read_counters(path)
    seconds = (found.end_ns[-1] - found.end_ns[0]) * 1e-9
    assert not report.errors
    assert report.samples == found.known.sum() > 100
    if report.lost_samples == 0:  # on a busy machine a read may come too late
        assert found.rx_bytes.sum() == pytest.approx(60e9 * seconds, rel=1e-6)
        assert found.tx_bytes.sum() == pytest.approx(6e9 * seconds, rel=1e-6)
    rates = found.rx_bytes[1:] / (found.end_ns[1:] - found.start_ns[1:])
    assert rates[found.known[1:]] == pytest.approx(60, rel=1e-3)


def fifth_of_a_second(found):
    return len(found) > 0 and found.end_ns[-1] - found.end_ns[0] > 200_000_000


def nvlink_counted(tmp_path, enough=fifth_of_a_second, period_ns=10_000_000):
    pcie, nvlink = tmp_path / "counters.g0.bin", tmp_path / "counters-nvlink.g0.bin"
    of = counter_header("counters", 0, period_ns, link="nvlink")
    reader = native.NvmlCounters(
        [("GPU-x", str(pcie), counter_header("counters", 0, 2_000_000))],
        2_000_000,
        64e9,
        [("GPU-x", str(nvlink), of)],
        period_ns,
    )
    reader.start()
    until(lambda: enough(read_counters(nvlink)))
    reports = reader.stop()
    assert not any(report.errors for report in reports)
    return reports, read_counters(pcie), read_counters(nvlink)


def test_nvlink_counters_are_read_beside_those_of_pcie_and_more_rarely(tmp_path):
    """At 600 GB/s 10 ms are more than a record holds: none of it may be cut."""
    (pcie_report, report), pcie, nvlink = nvlink_counted(tmp_path)
    assert (pcie.link, nvlink.link, nvlink.source) == ("pcie", "nvlink", "counters")
    assert report.reads < pcie_report.reads
    seconds = (nvlink.end_ns[-1] - nvlink.end_ns[0]) * 1e-9
    assert seconds > 0.2
    assert nvlink.known[1:].all()
    assert nvlink.rx_bytes.sum() == pytest.approx(600e9 * seconds, rel=1e-5)
    assert nvlink.tx_bytes.sum() == pytest.approx(20e9 * seconds, rel=1e-5)


def test_nvlink_counters_that_are_set_back_leave_an_unknown_record(monkeypatch, tmp_path):
    monkeypatch.setenv("MOCK_NVLINK", "reset")
    (_, report), _, nvlink = nvlink_counted(tmp_path, lambda found: not found.known[1:].all())
    assert report.lost_samples == (~nvlink.known[1:]).sum() >= 1
    rates = nvlink.rx_bytes[1:] / (nvlink.end_ns[1:] - nvlink.start_ns[1:])
    assert rates[nvlink.known[1:]].max() < 601


def test_nvlink_counters_without_times_have_those_of_the_host(monkeypatch, tmp_path):
    monkeypatch.setenv("MOCK_NVLINK", "timeless")
    before = time.time_ns()
    _, _, nvlink = nvlink_counted(tmp_path)
    assert before < nvlink.end_ns[0] < nvlink.end_ns[-1] < time.time_ns()
    assert nvlink.known[1:].all()
    assert nvlink.rx_bytes.sum() > 0


def test_gpus_whose_nvlinks_are_not_counted_are_refused_at_once(monkeypatch):
    assert native.nvlink_counters("GPU-x")[1] > native.nvlink_counters("GPU-x")[2]
    monkeypatch.setenv("MOCK_NVLINK", "none")
    with pytest.raises(native.NativeError) as failed:
        native.nvlink_counters("GPU-x")
    assert failed.value.args[2] == "NVML_ERROR_NOT_SUPPORTED"


def test_throughput_of_both_directions_comes_together(tmp_path):
    readers = []
    for end, column, direction in (
        ("rx", RX, native.Direction.received),
        ("tx", TX, native.Direction.sent),
    ):
        header = counter_header(f"throughput-{end}", 0, 20_000_000, [column])
        path = tmp_path / f"throughput-{end}.g0.bin"
        readers.append(native.NvmlThroughput("GPU-x", direction, str(path), header))
    for reader in readers:
        reader.start()
    for end in ("rx", "tx"):
        until(lambda path=tmp_path / f"throughput-{end}.g0.bin": len(read_counters(path)) > 30)
    assert all(not reader.stop().errors for reader in readers)
    rx, tx = (read_counters(tmp_path / f"throughput-{end}.g0.bin") for end in ("rx", "tx"))
    both = merge_directions(rx, tx, "throughput")
    seconds = (both.end_ns[-1] - both.end_ns[0]) * 1e-9
    assert seconds > 0.05
    assert both.rx_bytes.sum() == pytest.approx(5e9 * seconds, rel=1e-6)
    assert both.tx_bytes.sum() == pytest.approx(1e9 * seconds, rel=1e-6)


def test_a_gpu_without_counters_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("MOCK_REFUSES", "nvmlDeviceGetFieldValues=3")
    with pytest.raises(native.NativeError) as failed:
        native.wire_counters("GPU-x")
    assert failed.value.args[2] == "NVML_ERROR_NOT_SUPPORTED"
