"""A rank of a fleet whose node is made up: python -m tests.fleet.program FOLDER [WHAT RANK]...

``PAIRS`` in the environment names a plan of pairs. WHAT becomes of a rank: ``stop`` (SIGSTOP before
it reports), ``kill``, ``garbage`` (it sends no report), ``newer`` (its report is of another
version), ``late`` (it takes too long), ``slow`` (one of its GPUs is), ``leave`` (it reports, and
exchanges nothing).
"""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from lanescope.fleet import check as checking
from lanescope.fleet import exchange
from lanescope.fleet.check import FleetRequest, check_fleet
from lanescope.fleet.pairs import Plan
from lanescope.fleet.ranks import ranks_here
from lanescope.studies.node.measuring import Request
from tests.fleet.made_up import node


def main() -> int:
    folder = None if sys.argv[1] == "-" else Path(sys.argv[1])
    fates = {int(rank): what for what, rank in zip(sys.argv[2::2], sys.argv[3::2], strict=True)}
    ranks = ranks_here()
    fate = fates.get(ranks.rank, "")
    host = f"n{ranks.rank}"
    os.environ["LANESCOPE_HOST"] = host
    checking.LATE_SECONDS = 1.0
    exchange.PAIR_SECONDS = float(os.environ.get("PAIR_SECONDS", "1"))
    began = time.monotonic()

    def check(request, out):
        if fate == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if fate == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fate == "late":
            time.sleep(30)
        report = node(host, 0.004, **({"g3": 0.8} if fate == "slow" else {}))
        return replace(report, schema_version=99) if fate == "newer" else report

    if fate == "garbage":
        ranks.send(b"\xff not json", began + 5)
        ranks.leave(0, complete=True)
        return 0
    if fate == "leave":
        checking.follow = lambda *_: time.sleep(30)
    plan = Plan(os.environ.get("PAIRS", ""))
    report = check_fleet(
        FleetRequest(Request(float(os.environ.get("WITHIN", "1")), (), began), folder, plan),
        ranks,
        check,
    )
    if report is None:
        ranks.leave(0, complete=True)
        return 0
    said = {"hosts": [n.host for n in report.nodes], "absent": report.absent}
    said["suspects"] = [one.host for one in report.suspects]
    said["pairs"] = [(one.first, one.second, one.gbs) for one in report.pairs]
    print(json.dumps(said | {"seconds": time.monotonic() - began}), flush=True)
    code = report.exit_code(strict=True)
    ranks.leave(code, complete=report.all_answered)
    return code


if __name__ == "__main__":
    sys.exit(main())
