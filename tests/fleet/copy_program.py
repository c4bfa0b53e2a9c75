"""A rank of a made-up node: python -m tests.fleet.copy_program ARGUMENT..., as of lanescope.

Each rank is a node with two GPUs in one NVLink domain, whose memory is memory of files. ``FATE``,
as ``2 WHAT``, is what becomes of a rank: ``stop`` (SIGSTOP before it says what it is), ``version``
(it has another one), ``broken`` (it cannot look at its node), ``busy`` (another program uses its
first GPU), ``clock`` (its clock is an hour ahead), ``freeze`` (SIGSTOP while copies run).
"""

import os
import signal
import sys
import time
from dataclasses import replace

from lanescope.cli.app import main
from lanescope.engine import process
from lanescope.errors import BusyError, InputError
from lanescope.fleet import remote_processes
from tests.findings.machine.simulator import nvswitched


def made_up_machine():
    machine = nvswitched(2)
    gpus = [replace(gpu, nvlink_domain="cluster/1") for gpu in machine.gpus]
    return replace(machine, gpus=tuple(gpus), described=False)


def stopping_machine():
    os.kill(os.getpid(), signal.SIGSTOP)
    return made_up_machine()


def freeze_when_copies_run(server, id, message):
    if message["do"] == "run":
        os.kill(os.getpid(), signal.SIGSTOP)
    ask(server, id, message)


ask = remote_processes._Server._ask


def broken_machine():
    raise InputError("the kernel shows no CPU")


process.WORKER = "tests.engine.made_up_worker"
remote_processes.discover = made_up_machine
remote_processes._READY_SECONDS = float(os.environ.get("READY_SECONDS", "30"))
remote_processes.ANSWER_SECONDS = float(os.environ.get("ANSWER_SECONDS", "60"))
rank = os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
os.environ["LANESCOPE_HOST"] = f"host{rank}"
of, _, fate = os.environ.get("FATE", "").partition(" ")
if of == rank and fate == "stop":
    remote_processes.discover = stopping_machine
if of == rank and fate == "version":
    remote_processes.__version__ = "0.0"
if of == rank and fate == "broken":
    remote_processes.discover = broken_machine
if of == rank and fate == "busy":
    remote_processes.Nvml.open = lambda: "open"
    remote_processes.busy_gpus = lambda *_: {0: BusyError("g0 is busy.", "Wait for it.")}
if of == rank and fate == "freeze":
    remote_processes._Server._ask = freeze_when_copies_run
if of == rank and fate == "clock":
    os.environ["MADE_UP_CLOCK"] = "3600"
    monotonic = time.monotonic
    time.monotonic = lambda: monotonic() + 3600

if __name__ == "__main__":
    sys.exit(main())
