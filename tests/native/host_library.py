"""The library for C++ without CUDA: how tests build it, and what its streams have to be."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lanescope
from lanescope._core import native
from lanescope.errors import InputError
from tests.compression.test_old_streams import OLD

ROOT = Path(__file__).parents[2]
CODECS = ("auto", *(one.name for one in native.Codec if not native.by_nvcomp(one)))
DTYPES = (
    "bytes", "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint16", "uint32", "uint64",
)  # fmt: skip
#: How those that NumPy lacks lie in memory.
KEPT_AS = {"bytes": "uint8", "bfloat16": "uint16"}


def run(*words):
    """What a program did."""
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def require(*words):
    """The output of a program that has to end well."""
    done = run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def cuda_headers():
    nvidia = pytest.importorskip("nvidia.cu13", reason="no headers of CUDA")
    return Path(next(iter(nvidia.__path__))) / "include"


def installed(folder, *options, cmake="cmake"):
    """Where the library without CUDA was installed, built with these options of CMake's."""
    without = ["-DLANESCOPE_PYTHON=OFF", "-DLANESCOPE_CUDA=OFF"]
    jobs = str(len(os.sched_getaffinity(0)))
    require(cmake, "-S", ROOT, "-B", folder / "build", *without, *options)
    said = require(cmake, "--build", folder / "build", "--parallel", jobs)
    assert "warning" not in said, said
    require(cmake, "--install", folder / "build", "--prefix", folder / "prefix")
    return folder / "prefix"


def examples(prefix, folder, *options, cmake="cmake"):
    """The folder with the examples, built by what was installed."""
    found = f"-DCMAKE_PREFIX_PATH={prefix}"
    require(cmake, "-S", ROOT / "native/examples", "-B", folder, found, *options)
    require(cmake, "--build", folder)
    return folder


def values(dtype):
    """Of each kind that a codec treats otherwise: a walk, zeros, random bits, one value, an end."""
    kept = np.dtype(KEPT_AS.get(dtype, dtype))
    random = np.random.default_rng(5)
    count = 160_000 // kept.itemsize
    waves = 100 * np.sin(np.arange(count) * 1e-3) + 0.1 * random.standard_normal(count)
    if dtype == "bfloat16":
        smooth = (waves.astype(np.float32).view(np.uint32) >> 16).astype(kept)
    else:
        smooth = waves.astype(kept if kept.kind == "f" else np.int64).astype(kept)
    sparse = np.where(random.random(count) < 0.3, smooth, kept.type(0))
    bits = random.integers(0, 256, 70_000 // kept.itemsize * kept.itemsize, np.uint8).view(kept)
    same = np.full(140_000 // kept.itemsize, smooth[0])
    return np.concatenate([smooth, sparse, bits, same, smooth[:77]])


def require_same_streams(program, folder):
    """Python and a program (its words) make the same streams, and each reads the other's."""
    for dtype in DTYPES:
        array = values(dtype)
        array.tofile(folder / "values")
        for codec in CODECS:
            require_same_stream(program, folder, array, dtype, codec)


def require_same_stream(program, folder, array, dtype, codec):
    chosen = [] if codec == "auto" else [codec]
    given = {"dtype": dtype} if dtype == "bfloat16" else {}
    done = run(*program, "compress", folder / "values", folder / "stream", dtype, *chosen)
    try:
        expected = lanescope.compress(array, codec, **given)
    except InputError:
        assert done.returncode == 2, (dtype, codec)
        return
    assert done.returncode == 0, (dtype, codec, done.stderr)
    assert (folder / "stream").read_bytes() == expected.tobytes(), (dtype, codec)
    (folder / "of_python").write_bytes(expected.tobytes())
    require(*program, "decompress", folder / "of_python", folder / "back")
    assert (folder / "back").read_bytes() == array.tobytes(), (dtype, codec)


def require_old_streams(program, folder):
    """What older versions made is read."""
    for name, (array, _, _, _, _, stream) in OLD.items():
        (folder / "old").write_bytes(bytes.fromhex(stream))
        require(*program, "decompress", folder / "old", folder / "back")
        assert (folder / "back").read_bytes() == array.tobytes(), name


def require_refusals(program, folder):
    """One sentence and exit code 2 for what cannot be."""
    stream = lanescope.compress(values("int32"))
    stream[-40] ^= 1
    stream.tofile(folder / "damaged")
    (folder / "seven").write_bytes(b"\0" * 7)
    for words, sentence in (
        (("decompress", folder / "damaged", folder / "back"), "no stream that can be read: block "),
        (("decompress", folder / "seven", folder / "back"), "no stream that can be read"),
        (("compress", folder / "seven", folder / "z", "float32"), "7 bytes are no whole"),
        (("compress", folder / "seven", folder / "z", "uint8"), "uint8; there are bytes, "),
        (("compress", folder / "seven", folder / "z", "bytes", "gfc"), "does not take values"),
        (("compress", folder / "seven", folder / "z", "bytes", "ans"), "needs a GPU and nvCOMP"),
    ):
        done = run(*program, *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
