"""Error counters of links: what rose, what is told of it, and what a kill leaves."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from lanescope.findings.trace import evaluate_watch
from lanescope.machine import Machine
from lanescope.studies.watch_report import summary_json
from lanescope.trace import link_error_log
from lanescope.trace.link_error_log import (
    COUNTS,
    LINK_ERRORS,
    LinkErrorLog,
    LinkErrors,
    error_notes,
    read_link_errors,
    read_now,
    risen,
)
from lanescope.trace.run import WatchManifest, WatchRun
from tests.trace.timelines import timeline

_ROOT = Path(__file__).parents[2]


def test_what_rose_is_a_sentence_and_what_did_not_is_none():
    start = LinkErrors(0, pcie_replays=5, pcie_fatal=0, nvlink_replays=7, pcie_naks_sent=9)
    end = LinkErrors(0, pcie_replays=8, pcie_fatal=0, nvlink_replays=8, pcie_naks_sent=2)
    rise = risen(start, end)
    assert (rise.pcie_replays, rise.pcie_fatal, rise.nvlink_replays) == (3, 0, 1)
    assert rise.pcie_naks_sent is None  # was set back between
    assert rise.pcie_correctable is None  # not told
    assert error_notes((rise,)) == (
        "g0: 3 packets were sent again over PCIe (replays), "
        "1 packet was sent again over NVLink (replays) while watching.",
    )
    assert error_notes((risen(start, start), LinkErrors(1))) == ()


def test_a_change_of_speed_is_no_error():
    assert error_notes((LinkErrors(0, pcie_recoveries=4),)) == ()


class Values:
    """Error counters as they are at each reading: the second time one replay more."""

    def __init__(self):
        self.times = 0

    def __call__(self, machine):
        self.times += 1
        return (LinkErrors(0, pcie_replays=10 + self.times), LinkErrors(1))


def test_both_readings_are_in_the_folder(tmp_path):
    assert read_link_errors(tmp_path) == ()  # a run of before
    log = LinkErrorLog(tmp_path, Machine("m"), Values())
    killed = read_link_errors(tmp_path)
    assert [one.pcie_replays for one in killed] == [None, None]
    assert json.loads((tmp_path / LINK_ERRORS).read_text())["start"][0]["pcie_replays"] == 11
    log.end()
    assert [one.pcie_replays for one in read_link_errors(tmp_path)] == [1, None]


def test_a_summary_tells_what_rose_and_json_has_every_count():
    manifest = WatchManifest("lanescope watch", ("./app",), "", "0", Machine("m"), 0)
    run = WatchRun(manifest, timeline(), link_errors=(LinkErrors(0, pcie_replays=3),))
    told = evaluate_watch(run)
    assert "g0: 3 packets were sent again over PCIe (replays) while watching." in told.summary.notes
    (errors,) = json.loads(json.dumps(summary_json(told.summary)))["link_errors"]
    assert (errors["gpu"], errors["pcie_replays"], errors["nvlink_replays"]) == (0, 3, None)
    assert set(errors) == {"gpu", *COUNTS}


class NVMLError(Exception):
    pass


def answer(value, kind=1, result=0):
    whole = types.SimpleNamespace(uiVal=value & 0xFFFFFFFF, ulVal=value, ullVal=value)
    return types.SimpleNamespace(value=whole, valueType=kind, nvmlReturn=result)


@pytest.fixture
def library(monkeypatch):
    """A driver that counts PCIe's errors, and those of two NVLinks."""

    def refuse(*_):
        raise NVMLError("Not Supported")

    def fields(handle, asked):
        fake.asked += asked
        known = {
            (95, 0): answer(1),
            (173, 0): answer(1 << 40, kind=3),
            (177, 0): answer(0),
            (179, 0): answer(5, kind=0),  # a float is no count
            **{(field, link): answer(field + link) for field in (161, 162) for link in (0, 1)},
            **{(163, link): answer(0) for link in (0, 1)},
        }
        return [known.get(one, answer(0, result=3)) for one in asked]

    fake = types.ModuleType("pynvml")
    fake.NVMLError = NVMLError
    fake.asked = []
    fake.nvmlInit = lambda: None
    fake.nvmlDeviceGetHandleByUUID = lambda uuid: uuid if uuid == "GPU-0" else refuse()
    fake.nvmlDeviceGetPcieReplayCounter = lambda handle: 12
    fake.nvmlDeviceGetFieldValues = fields
    fake.__getattr__ = lambda name: refuse
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_counters_of_the_driver(library, two_gpus):
    gpus = [dataclasses.replace(gpu, uuid=f"GPU-{gpu.index}") for gpu in two_gpus.gpus]
    machine = dataclasses.replace(two_gpus, gpus=tuple(gpus))
    first, second = read_now(machine)
    assert first == LinkErrors(
        0,
        pcie_replays=12,
        pcie_replay_rollovers=1,
        pcie_correctable=1 << 40,
        pcie_naks_sent=0,
        nvlink_crc_errors=0,
        nvlink_replays=161 + 162,
        nvlink_recoveries=162 + 163,
    )
    assert second == LinkErrors(1)  # the driver does not know it
    library.asked.clear()
    alone = read_now(dataclasses.replace(machine, links=()))[0]
    assert (alone.pcie_replays, alone.nvlink_replays) == (12, None)
    assert {field for field, _ in library.asked}.isdisjoint({161, 162, 163, 215})


def test_a_field_that_an_old_driver_does_not_know_takes_no_other_with_it(library, two_gpus):
    every = library.nvmlDeviceGetFieldValues

    def one_by_one(handle, asked):
        if len(asked) > 1 or asked[0][0] > 177:
            raise NVMLError("Invalid Argument")
        return every(handle, asked)

    library.nvmlDeviceGetFieldValues = one_by_one
    gpu = dataclasses.replace(two_gpus.gpus[0], uuid="GPU-0")
    (found,) = read_now(dataclasses.replace(two_gpus, gpus=(gpu,)))
    assert (found.pcie_correctable, found.pcie_fatal) == (1 << 40, None)


def test_without_a_driver_nothing_is_told(monkeypatch, two_gpus):
    monkeypatch.setattr(link_error_log.Nvml, "open", staticmethod(lambda: None))
    assert read_now(two_gpus) == (LinkErrors(0), LinkErrors(1))


_VICTIM = """
import sys
from pathlib import Path
from functools import partial
from lanescope.machine import Machine, NumaNode
from lanescope.trace import link_error_log
from lanescope.trace.link_error_log import LinkErrors
from lanescope.watching.session import Watch, watch
from lanescope.watching.launcher import Launched
told = lambda machine: (LinkErrors(0, pcie_replays=4),)
link_error_log.LinkErrorLog = partial(link_error_log.LinkErrorLog, read=told)
machine = Machine("m", nodes=(NumaNode(0, cores=((0,),)),))
program = (sys.executable, "-c", "import time; print('on', flush=True); time.sleep(600)")
watch(Watch(machine, Launched(program), "lanescope watch", lambda f: [], Path(sys.argv[1])))
"""


def test_a_killed_watch_has_its_first_reading(tmp_path):
    from lanescope.trace.store import read_watch

    victim = subprocess.Popen(
        [sys.executable, "-c", _VICTIM, str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        start_new_session=True,
    )
    with victim:
        assert victim.stdout.readline() == b"on\n"
        os.killpg(victim.pid, signal.SIGKILL)
    run = read_watch(tmp_path / "run")
    assert run.link_errors == (LinkErrors(0),)
    assert json.loads((tmp_path / "run" / LINK_ERRORS).read_text())["start"][0]["pcie_replays"] == 4
