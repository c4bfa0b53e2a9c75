import re
from pathlib import Path

from lanescope.engine.base import ModelBackend
from lanescope.engine.sampling import Plan, measure_all
from lanescope.store.run import rows_of
from tests.conftest import experiment_of, gpu_to_host, host_to_gpu

DOCUMENT = Path(__file__).parents[2] / "docs" / "run-folder.md"


def test_every_column_is_documented(two_gpus):
    results = []
    both = experiment_of(host_to_gpu(), gpu_to_host())
    measure_all([both], ModelBackend(two_gpus), two_gpus, Plan(), results.append)
    rows = rows_of(results)
    assert len(rows) == 2
    columns = DOCUMENT.read_text().partition("| column | meaning |")[2].partition("\n#")[0]
    documented = {
        name
        for line in columns.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert documented == set(rows[0].to_table())
