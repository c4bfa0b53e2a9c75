import json
import subprocess
import sys

import pytest
import typer

from lanescope._core import native
from lanescope.errors import InputError
from lanescope.examples.app import main
from lanescope.examples.loops import PROGRAMS
from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S

with_gpu = pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")


def example(*arguments):
    command = [sys.executable, "-m", "lanescope.examples", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("vector-add", "--size", "3q"), "'3q' is not a size"),
        (("vector-add", "--gpu", "99"), ""),
        (("concurrent-copies", "--down", "0", "--up", "0"), "leave nothing to copy"),
        (("many-copies", "--seconds", "0"), "--seconds 0 is not above 0"),
        (("many-copies", "--size", "2"), "4 bytes or more"),
        (("load-with-copies", "--gpu", "99"), ""),
        (("grid", "stat", "--cpu"), "'stat' is none of state, buoydiff, axpy, convolution"),
        (("grid", "state", "--cpu", "--equation", "eos80"), "'eos80' is none of mwjf, jmcd"),
        (("grid", "state", "--cpu", "--outputs", "2"), "1 output, or 3"),
        (("grid", "state", "--cpu", "--size", "10x10"), "'10x10' is no grid"),
        (("grid", "state", "--cpu", "--size", "10x0x10"), "'10x0x10' is no grid"),
        (("grid", "state"), "give --cpu, or --version"),
        (("grid", "state", "--cpu", "--version", "streams"), "give --cpu, or --version"),
        (("grid", "state", "--cpu", "--streams", "3"), "--streams and --gpu are of a GPU"),
        (("grid", "state", "--version", "stream"), "'stream' is none of explicit, streams"),
        (("grid", "state", "--version", "explicit", "--streams", "3"), "has no streams"),
        (("grid", "state", "--version", "hybrid", "--gpu", "99"), "no GPU 99"),
        (("loop", "train"), "'train'; there are train-pageable, infer-to-cpu"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(monkeypatch, capfd, arguments, part):
    monkeypatch.setattr(sys, "argv", ["lanescope.examples", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    out, err = capfd.readouterr()
    assert (left.value.code, out) == (2, "")
    assert part in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "call",
    [
        native.vector_add,
        lambda size: native.matmul(size, 1, 1, 1),
        lambda size: native.concurrent_copies(1, 1, size, 1),
        lambda size: native.load_with_copies(1, size, 1),
        native.many_copies,
    ],
)
def test_nothing_to_do_is_an_error(call):
    with pytest.raises(native.NativeError):
        call(0)


@pytest.mark.parametrize(
    ("arguments", "outputs"),
    [
        (("state", "--outputs", "3"), ["RHO", "DRHODT", "DRHODS"]),
        (("buoydiff", "--equation", "jmcd", "--threads", "2"), ["DBLOC", "DBSFC"]),
        (("axpy",), ["sum"]),
        (("convolution",), ["mean"]),
    ],
)
def test_kernels_of_an_ocean_agree_with_numpy(arguments, outputs):
    done = example("grid", *arguments, "--cpu", "--size", "20x10x5")
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert "20 × 10 × 5 points" in first
    assert [line.split()[0] for line in lines] == outputs


def test_a_kernel_that_computes_something_else_is_told(monkeypatch, capsys):
    from lanescope.examples.app import grid
    from lanescope.studies.ocean.case import GridCase

    right = GridCase.on_host
    monkeypatch.setattr(GridCase, "on_host", lambda *a: tuple(array + 1e-12 for array in right(*a)))
    with pytest.raises(typer.Exit) as left:
        grid("state", cpu=True, size="20x10x5", outputs=3)
    assert left.value.exit_code == 1
    assert "RHO, DRHODT, DRHODS: beyond" in capsys.readouterr().err


def test_a_grid_larger_than_memory_is_one_sentence(monkeypatch):
    from lanescope.examples.app import grid
    from lanescope.studies.ocean.case import GridCase

    def full(*_):
        raise MemoryError

    monkeypatch.setattr(GridCase, "on_host", full)
    with pytest.raises(InputError, match="20x10x5 points does not fit"):
        grid("axpy", cpu=True, size="20x10x5")


@pytest.mark.gpu
@with_gpu
@pytest.mark.parametrize("pinned", [False, True])
def test_vectors_are_copied_added_and_copied_back(pinned):
    report = native.vector_add(1_000_003, pinned=pinned)
    assert report.wrong == 0
    assert [s.bytes for s in report.steps if s.bytes] == [1_000_000] * 4
    assert sum(s.h2d_bytes for s in report.steps) == sum(s.d2h_bytes for s in report.steps)
    assert all(a.end_ns <= b.begin_ns for a, b in zip(report.steps, report.steps[1:], strict=False))


@pytest.mark.gpu
@with_gpu
@pytest.mark.parametrize("shape", [(64, 96, 32), (33, 31, 65), (1, 1, 1)])
def test_matrices_are_multiplied(shape):
    rows, inner, columns = shape
    report = native.matmul(rows, inner, columns, launches=3)
    assert report.wrong == 0
    moved = [s.bytes for s in report.steps if s.bytes]
    assert moved == [4 * rows * inner, 4 * inner * columns, 4 * rows * columns]


def test_a_loop_whose_library_is_missing_is_one_sentence(monkeypatch):
    from lanescope.examples.loops import loop

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match="many-small needs torch"):
        loop("many-small")


@pytest.mark.gpu
@with_gpu
@pytest.mark.parametrize("name", PROGRAMS)
def test_both_forms_of_a_loop_compute_the_same(name):
    pytest.importorskip("cupy" if name == "numpy-to-cupy" else "torch")
    done = [example("loop", name, "--form", form, "--steps", 8) for form in ("before", "after")]
    assert [one.returncode for one in done] == [0, 0]
    before, after = (float(one.stdout.rpartition("checksum ")[2]) for one in done)
    assert before == pytest.approx(after, rel=1e-4)


@pytest.mark.gpu
@with_gpu
def test_the_command_tells_every_step():
    done = example("vector-add", "--size", "1MB", "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["wrong"] == 0
    assert {"add", "check"} <= {step["name"] for step in told["steps"]}


@pytest.mark.gpu
@with_gpu
@pytest.mark.parametrize(("down", "up"), [(1, 1), (2, 3), (1, 0), (0, 2)])
def test_copies_of_both_directions_are_told_apart(down, up):
    report = native.concurrent_copies(down, up, 1_000_003, 3)
    assert report.wrong == 0
    steps = {step.name: step for step in report.steps}
    assert ("copies both ways" in steps) == (down > 0 and up > 0)
    for name, directions in (("copies to the device", (down, 0)), ("copies to the host", (0, up))):
        if any(directions):
            step = steps[name]
            assert (step.h2d_bytes, step.d2h_bytes) == tuple(3 * 1_000_003 * n for n in directions)
            assert step.copies == 3 * sum(directions)


@pytest.mark.gpu
@with_gpu
@pytest.mark.parametrize("load", [0, 0.01, 0.5, 1])
def test_a_load_and_copies_go_on_at_once(load):
    report = native.load_with_copies(load, 4 << 20, 4)
    assert report.wrong == 0
    steps = {step.name: step for step in report.steps}
    assert ("load alone" in steps) == (load > 0)
    assert steps["copies alone"].h2d_bytes == steps["copies alone"].d2h_bytes == 16 << 20
    if load:
        both = steps["load with the copies"], steps["copies with the load"]
        assert both[0].begin_ns == both[1].begin_ns
        assert both[1].bytes == steps["copies alone"].bytes


@pytest.mark.gpu
@with_gpu
@pytest.mark.parametrize("rate", [0, 1000])
def test_many_copies_are_counted_and_keep_their_rate(rate):
    report = native.many_copies(4096, count=500, rate=rate)
    assert report.wrong == 0
    (step,) = (step for step in report.steps if step.name == "copies")
    assert (step.copies, step.h2d_bytes) == (500, 500 * 4096)
    if rate:
        assert (step.end_ns - step.begin_ns) * 1e-9 >= 499 / rate
