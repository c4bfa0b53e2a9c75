"""Code that stands with advice, run as it is on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from lanescope.findings.code import CUPY, PYTORCH, SNIPPETS
from tests.findings.test_code import PYTHON, WRITTEN, both_forms_of_pytorch

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("key", [key for key in PYTHON if key[1] == PYTORCH], ids="-".join)
def test_both_forms_of_pytorch_come_to_the_same(key):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU that PyTorch can use")
    both_forms_of_pytorch(torch, key, "cuda", lambda tensor: tensor.pin_memory())


@pytest.mark.parametrize("key", [key for key in PYTHON if key[1] == CUPY], ids="-".join)
def test_both_forms_of_cupy_come_to_the_same(key):
    cupy, cupyx = pytest.importorskip("cupy"), pytest.importorskip("cupyx")
    if not cupy.is_available():
        pytest.skip("no GPU that CuPy can use")
    names = [run(cupy, cupyx, key[0], lines) for lines in SNIPPETS[key]]
    (before, old), (after, new) = names
    assert old == new
    for name in {"async": ["results"], "streams": ["results"], "defer": ["total"]}.get(key[0], []):
        assert np.array_equal(before[name], after[name])
    if key[0] == "batch":
        for one, other in zip(before["found"], after["found"], strict=True):
            assert np.array_equal(cupy.asnumpy(one), cupy.asnumpy(other))


def run(cupy, cupyx, what, lines):
    """Run lines of CuPy; return the names that they leave, and what each round was given."""

    def pinned(values):
        found = cupyx.empty_pinned(values.shape, values.dtype)
        found[...] = values
        return found

    def work(given, out=None):
        return cupy.multiply(given, 2, out=out)

    steps = []
    rows = [pinned(np.arange(4, dtype=np.float32) + at) for at in range(3)]
    whole = pinned(np.arange(8, dtype=np.float32))
    names = {
        **{"cupy": cupy, "cupyx": cupyx, "numpy": np, "arrays": rows, "batches": rows},
        **{"host": whole, "values": whole, "shape": whole.shape, "dtype": whole.dtype},
        **{"size": 4, "parts": 2, "count": 4, "i": 0, "gpu": 0, "total": 0.0, "work": work},
        "device": cupy.zeros(4 if what in ("prefetch", "keep", "keep-parts") else 8, np.float32),
        "outputs": cupy.arange(8, dtype=np.float32),
        **WRITTEN,
        "results": cupy.zeros(1, np.float32) if what == "defer" else pinned(np.zeros_like(whole)),
        "value": cupy.float32(3) if what != "defer" else cupy.asarray(3, np.float32),
        "buffers": [cupy.zeros(4, np.float32), cupy.zeros(4, np.float32)],
        "streams": [cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)],
        "stream": cupy.cuda.get_current_stream(),
        "data": cupy.ndarray((8,), np.float32, cupy.cuda.malloc_managed(32)),
        "step": lambda *given: steps.append([cupy.asnumpy(one).tolist() for one in given]),
    }
    cupy.cuda.Device().synchronize()
    exec(compile(lines, "snippet", "exec"), names)
    cupy.cuda.Device().synchronize()
    return names, steps
