import pytest

from lanescope.cli.output import exit_code
from lanescope.measurement.result import Result, Source, Status, Verdict
from lanescope.run.run import Manifest, Run
from tests.conftest import experiment_of, host_to_gpu


@pytest.mark.parametrize(
    ("status", "strict", "code"),
    [
        (Status.HEALTHY, True, 0),
        (Status.UNJUDGED, True, 0),
        (Status.NOT_MEASURED, False, 0),
        (Status.NOT_MEASURED, True, 3),
        (Status.SLOW, False, 1),
        (Status.IMPOSSIBLE, True, 1),
    ],
)
def test_the_worst_verdict_decides(two_gpus, status, strict, code):
    fine, other = (Verdict(s, "reason") for s in (Status.HEALTHY, status))
    case = experiment_of(host_to_gpu())
    results = tuple(Result(case, Source.MEASURED, (), "", not_measured=v) for v in (fine, other))
    manifest = Manifest("check", "lanescope check", "2026-11-21T10:00:00+00:00", "0", two_gpus)
    assert exit_code(Run(manifest, results), strict=strict) == code
