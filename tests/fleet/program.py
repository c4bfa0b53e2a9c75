"""A rank of a fleet whose node is made up: python -m tests.fleet.program FOLDER NODE [WHAT RANK]...

NODE is a file with the report of a node, as 'python -m tests.fleet.made_up' prints one. In the
environment ``PAIRS`` names a plan of pairs, ``WITHIN`` the time for a node and ``PAIR_SECONDS``
that for a pair. WHAT becomes of a rank: ``stop`` (SIGSTOP before it reports), ``kill``, ``garbage``
(it sends no report), ``newer`` (its report is of another version), ``slow`` (one of its GPUs is),
``leave`` (it reports, and exchanges nothing).
"""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from lanescope.codec.files import read_json
from lanescope.fleet import check as checking
from lanescope.fleet import media
from lanescope.fleet.check import FleetRequest, check_fleet
from lanescope.fleet.folder import read_node, write_report
from lanescope.fleet.pairs import PairPlan
from lanescope.fleet.ranks import ranks_here
from lanescope.studies.node import Request


def main() -> int:
    folder = None if sys.argv[1] == "-" else Path(sys.argv[1])
    made_up = read_node(read_json(Path(sys.argv[2])), sys.argv[2])
    fates = {int(rank): what for what, rank in zip(sys.argv[3::2], sys.argv[4::2], strict=True)}
    ranks = ranks_here()
    fate = fates.get(ranks.rank, "")
    os.environ["LANESCOPE_HOST"] = f"n{ranks.rank}"
    checking.LATE_SECONDS = 2.0
    media.PAIR_SECONDS = float(os.environ.get("PAIR_SECONDS", "1"))

    def check(request, out):
        if fate == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if fate == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        report = replace(made_up, host=f"n{ranks.rank}")
        if fate == "slow":
            ends = [(rate.source, rate.destination) for rate in report.rates]
            rates = [
                replace(rate, gbs=rate.gbs * 0.8) if "g3" in end else rate
                for rate, end in zip(report.rates, ends, strict=True)
            ]
            return replace(report, rates=tuple(rates))
        return replace(report, schema_version=99) if fate == "newer" else report

    from mpi4py import MPI

    MPI.COMM_WORLD.Barrier()  # interpreters start at different times where others use the cores
    began = time.monotonic()
    if fate == "garbage":
        ranks.send(b"\xff not json", began + 5)
        ranks.leave(0, complete=True)
        return 0
    if fate == "leave":
        checking.follow = lambda *_: time.sleep(30)
    request = Request(float(os.environ.get("WITHIN", "1")), (), began)
    plan = PairPlan(os.environ.get("PAIRS", ""))
    report = check_fleet(FleetRequest(request, folder, plan), ranks, check)
    if report is None:
        ranks.leave(0, complete=True)
        return 0
    if folder is not None:
        write_report(folder, report)
    said = {"hosts": [n.host for n in report.nodes], "absent": report.absent}
    said["suspects"] = [one.host for one in report.suspects]
    said["pairs"] = [(one.first, one.second, one.gbs) for one in report.pairs]
    print(json.dumps(said | {"seconds": time.monotonic() - began}), flush=True)
    code = report.exit_code(strict=True)
    ranks.leave(code, complete=report.all_answered)
    return code


if __name__ == "__main__":
    sys.exit(main())
