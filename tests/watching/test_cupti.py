from pathlib import Path

import pytest

from lanescope.watching.sources.injection import find_cupti


def _make(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_nothing_is_found_where_there_is_nothing(tmp_path: Path) -> None:
    assert find_cupti({}, [tmp_path], tmp_path) is None


def test_the_variable_goes_first(tmp_path: Path) -> None:
    named = _make(tmp_path / "mine" / "libcupti.so")
    _make(tmp_path / "nvidia/cu13/lib/libcupti.so.13")
    assert find_cupti({"LANESCOPE_CUPTI": str(named)}, [tmp_path], tmp_path) == named


def test_a_wrong_variable_is_not_replaced_by_another_library(tmp_path: Path) -> None:
    _make(tmp_path / "nvidia/cu13/lib/libcupti.so.13")
    assert find_cupti({"LANESCOPE_CUPTI": "/nowhere"}, [tmp_path], tmp_path) is None


def test_packages_go_before_toolkits(tmp_path: Path) -> None:
    wheel = _make(tmp_path / "site/nvidia/cu13/lib/libcupti.so.13")
    _make(tmp_path / "local/cuda-14.1/lib64/libcupti.so.14")
    assert find_cupti({}, [tmp_path / "site"], tmp_path / "local") == wheel


def test_the_newest_of_two_packages(tmp_path: Path) -> None:
    _make(tmp_path / "nvidia/cu9/lib/libcupti.so.9")
    newest = _make(tmp_path / "nvidia/cu13/lib/libcupti.so.13")
    assert find_cupti({}, [tmp_path], tmp_path / "none") == newest


@pytest.mark.parametrize(
    "place", ["cuda/lib64", "cuda-13.0/targets/x86_64-linux/lib", "cuda-12.8/extras/CUPTI/lib64"]
)
def test_toolkits_keep_it_in_several_places(tmp_path: Path, place: str) -> None:
    _make(tmp_path / place / "libcupti.so.2025.3.1")
    library = _make(tmp_path / place / "libcupti.so.13")
    assert find_cupti({}, [], tmp_path) == library


def test_other_libraries_are_left_alone(tmp_path: Path) -> None:
    _make(tmp_path / "cuda/lib64/libcupti.so.13.debug")
    _make(tmp_path / "cuda/lib64/libcuptimore.so")
    assert find_cupti({}, [], tmp_path) is None
