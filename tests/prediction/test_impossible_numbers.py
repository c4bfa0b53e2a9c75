"""Workloads that do not fit, kernels that cannot be so fast, and fits of another driver."""

from dataclasses import replace

import pytest

import lanescope
from lanescope.errors import InputError
from lanescope.prediction.explanation import caveats, peaks_of, too_fast
from lanescope.prediction.predictor import Workload
from lanescope.prediction.rank import rank
from lanescope.prediction.replay import Replay
from lanescope.prediction.stored_parameters import newest_fit, store_fit
from tests.studies.link_parameters import fitted

WORK = Workload(3 << 30, 1 << 30, 1e-3, flops=4e12, device_bytes=48e8)


def test_a_workload_larger_than_the_gpus_memory_is_said():
    small = replace(fitted(), memory_bytes=3 << 30)
    (sentence,) = [s for s in caveats(rank(WORK, small, Replay(), (1, 4))) if "do not hold" in s]
    assert sentence.startswith("The GPU's 3 GiB of memory do not hold the 4 GiB of a round: ")
    assert "Streams only in more than 2 parts" in sentence
    for room in (None, 4 << 30):
        known = replace(fitted(), memory_bytes=room)
        assert not any("do not hold" in s for s in caveats(rank(WORK, known, Replay(), (1, 4))))


@pytest.mark.parametrize(
    ("seconds", "flops", "gbs", "words"),
    [
        (1e-3, 4e12, 4800.0, "1.00 s that its operations take"),
        (1e-4, 4e16, 4800.0, "1.00 ms that its bytes of the GPU's memory take"),
        (1.0, 4e12, 4800.0, None),
        (0.995, 4e12, 4800.0, None),
    ],
)
def test_a_kernel_faster_than_its_roofline_is_said(seconds, flops, gbs, words):
    found = too_fast(replace(WORK, kernel_seconds=seconds), peaks_of(flops, gbs))
    assert found is None if words is None else words in found
    assert too_fast(WORK, None) is None


def test_the_command_says_so_and_its_json_too():
    found = lanescope.predict(
        h2d_bytes="3GiB",
        kernel_seconds="1ms",
        parameters="h200",
        flops=4e12,
        device_bytes="4800MB",
        peak_flops=4e12,
        memory_gbs=4800,
    )
    assert found.warning in found.to_json()
    assert "one of these numbers is wrong" in found.warning


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"steps": 0}, "steps cannot be 0; give steps above 0 and up to 1e\\+09"),
        ({"steps": 1e12}, "steps cannot be 1000000000000.0; give steps above 0"),
        ({"host_seconds": 100}, "host_seconds cannot be 100; give seconds, up to a second, or 0"),
        ({"kernel_seconds": 1e9}, "kernel_seconds cannot be 1000000000.0; give seconds, up to a"),
        ({"mapped_reads": 1e9}, "mapped_reads cannot be 1000000000.0; give times from 0 to"),
        ({"gpus": 1}, "gpus cannot be 1; give a whole number from 2 to 16"),
        ({"gpus": 17}, "gpus cannot be 17; give a whole number from 2 to 16"),
    ],
)
def test_numbers_have_the_bounds_of_the_options(given, words):
    with pytest.raises(InputError, match=words):
        lanescope.predict(**{"h2d_bytes": 8, "kernel_seconds": 0, "parameters": "h200"} | given)


def test_bounds_are_within_what_is_taken():
    for given in ({"steps": 1e9}, {"host_seconds": 1}, {"kernel_seconds": 86_400}, {"gpus": None}):
        lanescope.predict(**{"h2d_bytes": 8, "kernel_seconds": 0, "parameters": "h200"} | given)


def test_a_fit_of_another_driver_has_a_note(tmp_path, two_gpus):
    here = replace(two_gpus, driver="580.1")
    key = "Test GPU; unknown CPU; PCIe 5.0 x16"
    store_fit(replace(fitted(), machine_key=key, driver="570.9"), tmp_path)
    found = newest_fit(here, tmp_path)
    assert found.note.startswith("The parameters were measured with driver 570.9, and this machine")
    assert found.note in caveats(rank(WORK, found, Replay(), (1,)))
    assert newest_fit(replace(here, driver="570.9"), tmp_path).note is None
    assert newest_fit(replace(here, driver=None), tmp_path).note is None
