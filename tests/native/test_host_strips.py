"""The host's codecs for CPUs of several kinds: all make the same, and none is taken for another."""

import shutil
import subprocess

import pytest

from tests.native.host_cpus import KINDS, ROOT, flags_of

NATIVE = ROOT / "native"


@pytest.fixture(scope="module", params=["-O3", "-O0"])
def objects(request, tmp_path_factory):
    """Each kind's machine code, by its name."""
    compiler, folder = shutil.which("g++"), tmp_path_factory.mktemp("strips")
    if compiler is None:
        pytest.skip("no g++")
    made = {}
    for kind in KINDS:
        made[kind] = folder / f"{kind}.o"
        source = NATIVE / f"src/compress/host_strips_{kind}.cpp"
        command = [compiler, "-std=c++20", request.param, f"-I{NATIVE}/include", "-c", source]
        done = subprocess.run([*command, *flags_of(kind), "-o", made[kind]], capture_output=True)
        if done.returncode != 0 and kind != "any_cpu":
            pytest.skip("g++ compiles for no such CPUs")
        assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_no_function_of_one_kind_can_take_the_place_of_another(objects, kind):
    """A linker keeps one of all functions of a name: what is for newer CPUs must have its own."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm")
    listed = subprocess.run(
        [nm, "--defined-only", "--extern-only", objects[kind]],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    names = [line.split()[-1] for line in listed if line]
    assert any("host_strips" in name for name in names)
    assert [name for name in names if kind not in name] == []


def ran(objects, rounds, folder, *flags):
    program = folder / "host_strips"
    sources = [NATIVE / "tests/host_strips.cpp", NATIVE / "src/compress/host_strips.cpp"]
    command = ["g++", "-std=c++20", "-O1", *flags, f"-I{NATIVE}/include", *sources, *objects]
    subprocess.run([*command, "-o", program], check=True)
    done = subprocess.run([program, str(rounds), "7"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "any CPU"


def test_all_kinds_make_the_same(objects, tmp_path):
    ran(objects.values(), 100, tmp_path)


def test_no_kind_reads_or_writes_beyond(tmp_path):
    """Of blocks, and of coded blocks that are damaged."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    objects = [tmp_path / f"{kind}.o" for kind in KINDS]
    for kind, to in zip(KINDS, objects, strict=True):
        source = NATIVE / f"src/compress/host_strips_{kind}.cpp"
        command = ["g++", "-std=c++20", "-O1", *flags, f"-I{NATIVE}/include", "-c", source]
        done = subprocess.run([*command, *flags_of(kind), "-o", to], capture_output=True)
        if done.returncode != 0:
            pytest.skip("g++ compiles for no such CPUs, or has no sanitizers")
    ran(objects, 40, tmp_path, *flags)
