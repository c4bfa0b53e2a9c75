"""Gives each worker of pytest-xdist GPUs of its own: `pytest -p tests.own_gpus -n 4 -m gpu`.

`GPUS_EACH` says how many, 1 if it is not set.
"""

import os

worker = os.environ.get("PYTEST_XDIST_WORKER")
if worker is not None:
    each = int(os.environ.get("GPUS_EACH", "1"))
    first = int(worker.removeprefix("gw")) * each
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(first + one) for one in range(each))
