"""Code that stands with advice: it compiles, and runs as far as a machine without a GPU can."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import re
import shutil
import subprocess
import types
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from lanescope.findings.advice.advice import Step
from lanescope.findings.code import (
    CUDA,
    CUPY,
    JAX,
    LANGUAGES,
    NUMBA,
    PYTORCH,
    SHELL,
    SNIPPETS,
    WITHOUT,
    language_of,
    snippets,
)
from lanescope.findings.trace.evidence import REMEDIES

ROOT = Path(__file__).parents[2]
OTHER = ["keep-results", "keep-parts", "defer-results"]
#: What the host has written to, of data that changes in part.
WRITTEN = {"begin": 1, "end": 3}
WHATS = [*Step, *OTHER, *(what for _, _, whats in REMEDIES.values() for what in whats)]
PYTHON = [key for key in SNIPPETS if key[1] not in (CUDA, SHELL)]
#: What the snippets of C++ take for granted; `launch` stands for <<< >>>.
PREAMBLE = """
#include <cuda_runtime.h>
#include <cstdlib>
#include <cstring>
#include <vector>
struct Array { const void* host; void* device; size_t bytes; };
template <class... T> void launch(T...) {}
template <class... T> void work(T...) {}
float* batch(int);
void snippet(size_t bytes, size_t begin, size_t end, size_t count, int i, int n, int parts, int gpu,
             bool changed, float sum,
             float* in, float* out, float* host, float* host_in, float* host_out, float* result,
             float* results, float* table, float* data, float** buffers, char* packed,
             char* device, dim3 grid, dim3 block, cudaStream_t stream, cudaStream_t ahead,
             cudaEvent_t copied, cudaEvent_t* ready, cudaEvent_t* used,
             std::vector<cudaStream_t> streams, std::vector<Array> arrays) {
"""
#: A launch, and the two calls that stand for it where there is no nvcc.
LAUNCH, CALLED = re.compile(r"work<<<(.*?)>>>\((.*?)\);"), r"launch(\1); work(\2);"


def test_everything_that_is_advised_has_lines_or_says_why_not():
    for what, language in product(WHATS, LANGUAGES):
        (found,) = snippets([what], language)
        assert (found.what, bool(found.before), bool(found.after)) == (
            what,
            not found.why_none,
            not found.why_none,
        )
        assert found.before != found.after or found.why_none
    assert not set(SNIPPETS) & set(WITHOUT)
    assert {what for what, _ in SNIPPETS} == set(WHATS)


def test_lines_fit_into_80_columns_with_their_signs():
    lines = [line for both in SNIPPETS.values() for text in both for line in text.splitlines()]
    assert [line for line in lines if len(line) > 76] == []


@functools.cache
def toolkit():
    """Return the folder of CUDA's headers that the build uses; None where there is none."""
    folders = [*ROOT.glob(".venv/lib/python3*/site-packages/nvidia/*/include")]
    folders += [Path("/usr/local/cuda/include")]
    return next((one for one in folders if (one / "cuda_runtime.h").is_file()), None)


def functions(launched):
    """Return a function of C++ of each form of each snippet; `launched` stands for launches."""
    _, signature = PREAMBLE.split("void snippet")
    texts = [text for (_, language), both in SNIPPETS.items() if language == CUDA for text in both]
    return "\n".join(
        f"void snippet{number}{signature}{{{LAUNCH.sub(launched, text)}\n}} }}"
        for number, text in enumerate(texts)
    )


def compiled(source, *words):
    done = subprocess.run([*words, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.skipif(toolkit() is None, reason="there are no headers of CUDA")
def test_cpp_is_right_for_the_headers_of_cuda(tmp_path):
    source = tmp_path / "snippets.cpp"
    source.write_text(PREAMBLE.split("void snippet")[0] + functions(r"launch(\1); work(\2);"))
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unused-parameter"]
    compiled(source, "g++", "-std=c++17", "-fsyntax-only", *warnings, f"-isystem{toolkit()}")


@pytest.mark.native
@pytest.mark.skipif(toolkit() is None, reason="there is no CUDA")
def test_cpp_compiles_with_its_launches(tmp_path):
    source = tmp_path / "snippets.cu"
    head = PREAMBLE.split("void snippet")[0].replace("void work", "__global__ void work")
    source.write_text(head + functions(r"work<<<\1>>>(\2);"))
    nvcc = toolkit().parent / "bin" / "nvcc"
    compiled(source, str(nvcc), "-std=c++17", "-c", "-o", str(tmp_path / "snippets.o"))


@pytest.mark.parametrize("key", PYTHON, ids="-".join)
def test_python_compiles_and_names_what_is_there(key):
    modules = {name: _module(name) for name in ("torch", "cupy", "cupyx", "jax", "numpy")}
    modules["cuda"] = _module("numba.cuda")
    for lines in SNIPPETS[key]:
        for node in ast.walk(ast.parse(lines)):
            words = _dotted(node)
            if words and modules.get(words[0]) is not None:
                found = modules[words[0]]
                for word in words[1:]:
                    assert hasattr(found, word), ".".join(words)
                    found = getattr(found, word)


@functools.cache
def _module(name):
    try:
        return importlib.import_module(name)
    except Exception:  # such as numba.cuda, which is a distribution of its own
        return None


def _dotted(node):
    """Return the words of a.b.c; the last ones of what is no module are methods of values."""
    words = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    return [node.id, *reversed(words)] if isinstance(node, ast.Name) and words else []


class Array(np.ndarray):
    """An array of CuPy or Numba, as far as the snippets need one; it lies on the host."""

    def set(self, other, stream=None):
        self[...] = other

    def get(self, stream=None, order="C", out=None, blocking=True):
        if out is None:
            return np.array(self)
        out[...] = self
        return out

    copy_to_device = set

    def copy_to_host(self, out=None, stream=None):
        return self.get(out=out)


def arrays(shape, dtype=np.float32):
    return np.zeros(shape, dtype).view(Array)


class Ordered:
    """A stream or an event where all is done at once."""

    ptr = 0

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def nothing(self, *_, **__):
        return None

    synchronize = record = wait = wait_event = wait_stream = nothing


class Kernel:
    """Doubles what it is given, also in the way in which Numba launches."""

    def __getitem__(self, _):
        return self

    def __call__(self, given, out=None):
        if out is None:
            return given * 2
        out[...] = (given * 2)[: out.size]
        return None


def like(name, **own):
    """Return a module of which only these names are there."""
    found = types.SimpleNamespace(**own)
    found.__name__ = name
    return found


def on_host():
    """Return what the snippets of CuPy and Numba take for granted, without a GPU."""
    cuda = like("cuda", Stream=Ordered, Event=Ordered, get_current_stream=Ordered, Device=Ordered)
    cuda.UnownedMemory = lambda place, size, owner: owner
    cuda.MemoryPointer = lambda memory, at: memory
    cuda.runtime = like("runtime", memPrefetchAsync=Ordered().nothing)
    cupy = like("cupy", cuda=cuda, empty=arrays, ndarray=lambda shape, dtype, memory: memory)
    cupy.asarray = lambda values: np.array(values).view(Array)
    cupy.asnumpy = np.array
    numba = like("numba.cuda", to_device=cupy.asarray, stream=Ordered, event=Ordered)
    numba.synchronize = Ordered().nothing
    for name in ("pinned_array", "mapped_array", "device_array"):
        setattr(numba, name, arrays)
    return {"cupy": cupy, "cupyx": like("cupyx", empty_pinned=arrays), "cuda": numba}


def given(size=4, parts=2):
    """Return values for the names that the snippets take for granted."""
    rows = [np.arange(size, dtype=np.float32) + at for at in range(3)]
    whole = np.arange(size * parts, dtype=np.float32)
    return {
        **{"size": size, "parts": parts, "count": size, "shape": whole.shape, "dtype": np.float32},
        **{"arrays": rows, "batches": rows, "host": whole, "values": whole, "i": 0, "gpu": 0},
        **{"device": arrays(whole.shape), "outputs": arrays(whole.shape), "total": 0.0},
        **{"results": arrays(whole.shape), "result": arrays(1), "value": np.float32(3)},
        **{"buffers": [arrays(size), arrays(size)], "streams": [Ordered(), Ordered()]},
        **{"work": Kernel(), "blocks": 1, "threads": 1, "stream": Ordered(), "numpy": np},
        **WRITTEN,
        "data": like("data", data=like("memory", ptr=0), nbytes=0),
    }


#: Which name holds what a snippet comes to.
RESULTS = {"async": "results", "batch": "found", "streams": "results", "hybrid": "results"}


@pytest.mark.parametrize("key", [key for key in PYTHON if key[1] in (CUPY, NUMBA)], ids="-".join)
def test_both_forms_of_cupy_and_numba_come_to_the_same(key):
    what, _ = key
    seen = []
    for lines in SNIPPETS[key]:
        names = on_host() | given()
        steps = []
        names["step"] = lambda *values, into=steps: into.append([np.array(v) for v in values])
        if what == "batch":
            names["device"] = arrays((3, 4))
        if what == "managed":
            names["work"] = lambda data: None
        if what in (
            "prefetch",
            "keep",
            "keep-parts",
        ):  # Numba's kernels are what it does in each round
            names["work"] = _recording(steps)
            names["device"] = arrays(4)
        exec(compile(lines, "snippet", "exec"), names)
        seen.append((names, steps))
    (before, old), (after, new) = seen
    assert [[v.tolist() for v in values] for values in old] == [
        [v.tolist() for v in values] for values in new
    ]
    if name := RESULTS.get(what):
        assert np.array_equal(np.array(before[name]), np.array(after[name]))
        assert np.array(after[name]).any() or what == "async"


def _recording(steps):
    class Recording(Kernel):
        def __call__(self, *values):
            steps.append([np.array(value) for value in values])

    return Recording()


def plain(value):
    """Return tensors as lists."""
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value


@contextlib.contextmanager
def torch_on_host(monkeypatch):
    """Let PyTorch take pinned memory and the device "cuda" for the host's."""
    torch = pytest.importorskip("torch")
    plain = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *a, pin_memory=False, **k: plain(*a, **k).zero_())
    to = torch.Tensor.to
    monkeypatch.setattr(
        torch.Tensor, "to", lambda self, place, non_blocking=False: to(self, "cpu").clone()
    )
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self.clone())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda self, stream: None)
    for name in ("Stream", "Event", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, Ordered)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    yield torch


@pytest.mark.parametrize("key", [key for key in PYTHON if key[1] == PYTORCH], ids="-".join)
def test_both_forms_of_pytorch_come_to_the_same(key, monkeypatch):
    with torch_on_host(monkeypatch) as torch:
        both_forms_of_pytorch(torch, key, "cpu", lambda tensor: tensor)


def both_forms_of_pytorch(torch, key, place, pinned):
    """Run both forms of a snippet, and compare what they come to.

    Parameters
    ----------
    place
        The device of what is on the GPU.
    pinned
        Makes a tensor's memory pinned.
    """
    seen = []
    for lines in SNIPPETS[key]:
        rows = [pinned(torch.arange(4.0) + at) for at in range(3)]
        results, steps = pinned(torch.zeros(4 if key[0] == "async" else 8)), []
        names = {
            **{"torch": torch, "arrays": rows, "batches": rows, "loader": rows, "parts": 2},
            **{"host": pinned(torch.arange(8.0)), "batch": rows[0], "results": results},
            **{"outputs": torch.full((4,), 2.0, device=place), "shape": (4,), "losses": []},
            **{"streams": [torch.cuda.Stream(), torch.cuda.Stream()], "data": rows, "size": 1},
            **{"loss": torch.tensor(3.0, device=place), "total": 0.0} | WRITTEN,
            **{"DataLoader": lambda data, batch_size, pin_memory=False: data},
            "work": lambda given: given * 2,
            "step": functools.partial(_step_of_pytorch, torch, steps),
        }
        exec(compile(lines, "snippet", "exec"), names)
        found = [names.get(name) for name in ("results", "inputs", "found", "total")]
        seen.append((steps, [plain(value) for value in found]))
    (old, before), (new, after) = seen
    assert old == new
    if key[0] == "prefetch":  # whose loop has a name of its own for the inputs
        assert before[-1] == after[-1] > 0
    else:
        assert before == after


def _step_of_pytorch(torch, steps, *values):
    """Note what a round was given, and return its loss."""
    steps.append([value.tolist() for value in values])
    return torch.tensor(float(len(steps)))


@pytest.mark.parametrize("key", [key for key in PYTHON if key[1] == JAX], ids="-".join)
def test_jax_runs_on_the_host(key):
    jax = pytest.importorskip("jax")
    for lines in SNIPPETS[key]:
        rows = [np.arange(4, dtype=np.float32) + at for at in range(3)]
        names = {
            **{"jax": jax, "numpy": np, "values": rows[0], "arrays": rows, "losses": [], "loss": 3},
            **{"host": rows[0], "outputs": rows[1], "state": jax.numpy.float32(0)},
            **{"total": 0.0} | WRITTEN,
            "batches": iter(rows),
            "step": jax.jit(lambda *values: sum(jax.numpy.sum(value) for value in values)),
        }
        if key[0] in ("keep", "keep-parts"):
            names["batches"] = rows
        exec(compile(lines, "snippet", "exec"), names)


def test_prefetch_of_jax_notes_the_loss_of_each_round():
    seen = []
    for lines in SNIPPETS["prefetch", JAX]:
        names = {"jax": like("jax", device_put=np.asarray), "losses": [], "state": 0.0}
        names |= {"batches": iter([1.0, 2.0, 3.0]), "step": lambda state, given: state + given}
        exec(compile(lines, "snippet", "exec"), names)
        seen.append([float(loss) for loss in names["losses"]])
    assert seen[0] == seen[1] == [1.0, 3.0, 6.0]


@pytest.mark.parametrize("language", [CUDA, CUPY, NUMBA])
@pytest.mark.parametrize("what", ["mapped", "hybrid"])
def test_memory_that_kernels_read_in_place_is_waited_for_at_the_end(what, language):
    _, after = SNIPPETS[what, language]
    assert re.search(r"synchronize\(", after.splitlines()[-1], re.IGNORECASE)


def test_the_language_is_that_of_the_kernels_else_of_the_command():
    assert language_of(["_ZN2at6native29vectorized"]) == PYTORCH
    assert language_of(["triton_poi_fused_add_0"]) == PYTORCH
    assert language_of(["cupy_square__float64_float64"]) == CUPY
    assert language_of(["_ZN6cudapy8__main__3addB2v1B"]) == NUMBA
    assert language_of(["loop_add_fusion", "input_reduce_fusion_3"]) == JAX
    assert language_of(["smooth(float*)"], "python3 app.py") == CUDA
    assert language_of(["_Z6smoothPf"], "python3 app.py") == CUDA
    assert language_of(["smooth"], "python3 app.py") == CUPY  # made at run time
    assert language_of(["smooth"], "./app") == CUDA
    assert language_of([], "/usr/bin/python3 app.py") == PYTORCH
    assert language_of([], "./app") == CUDA
    assert language_of([]) == CUDA
