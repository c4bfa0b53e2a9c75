"""Where tensors of PyTorch lie, asked of all in one call, on a CPU, whose number is -1."""

from __future__ import annotations

import numpy as np
import pytest

from lanescope._core import native
from lanescope.compression.pages import _by_table, _slices_by_table, collect_in_parts, joined
from lanescope.errors import InputError

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("a PyTorch without DLPack's interface in C", allow_module_level=True)
CPU = -1


def test_all_that_is_to_know_is_found_in_one_call() -> None:
    whole = torch.randn(8, 100, requires_grad=True)
    given = [
        *whole.unbind(0), torch.zeros(3, 5, 7, dtype=torch.bfloat16),
        torch.zeros(3, 5, 7, dtype=torch.float16), torch.zeros(7, 5, 3, dtype=torch.float16),
        torch.zeros(1, 64, 1).transpose(0, 2), torch.ones(99, dtype=torch.bool),
        torch.ones(99, dtype=torch.uint8), torch.zeros(33, dtype=torch.float8_e4m3fn),
        torch.zeros(33, dtype=torch.float8_e5m2),
    ]  # fmt: skip
    found = _by_table(given, CPU)
    assert found is not None
    assert found.pointers.tolist() == [one.data_ptr() for one in given]
    assert found.sizes.tolist() == [one.nbytes for one in given]
    runs = [(run.count, run.dtype, run.shape) for run in found.runs]
    assert runs[0] == (8, torch.float32, (100,))
    assert [run[1:] for run in runs[1:]] == [(one.dtype, tuple(one.shape)) for one in given[8:]]
    assert found.kind == "uint8"
    assert joined(found.runs) == found.runs
    same = _by_table(given[:8], CPU)
    assert same is not None
    assert same.kind == "float32"
    assert len(same.runs) == 1


class Other(torch.Tensor):
    """May be something else than it says."""


@pytest.mark.parametrize(
    "one",
    [
        torch.zeros(20, 20)[:, :10],
        torch.zeros(20, 20).T,
        torch.zeros(100, dtype=torch.complex64),
        torch.zeros(100, dtype=torch.complex64).conj().imag,
        torch.zeros(1, dtype=torch.complex128).conj().imag,
        torch.zeros(0, 20),
        torch.zeros(100).to_sparse(),
        torch.zeros(100).as_subclass(Other),
        torch.nn.Parameter(torch.zeros(100)),
        torch.zeros(100, device="meta"),
        np.zeros(100),
        None,
    ],
)
def test_what_has_to_be_looked_at_by_itself_is(one: object) -> None:
    usual = torch.zeros(100)
    assert _by_table([usual], CPU) is not None
    assert _by_table([usual, one], CPU) is None
    assert _by_table([usual, usual], 0) is None


def test_parameters_are_tensors_like_others() -> None:
    found = _by_table([torch.nn.Parameter(torch.zeros(100)) for _ in range(3)], CPU)
    assert found is not None
    assert [run.count for run in found.runs] == [3]


def test_what_is_no_interface_is_none() -> None:
    rooms = [np.zeros(1, np.uint64) for _ in range(3)]
    given = [torch.zeros(100)]
    assert native.tensor_table(object(), given, CPU, *rooms) is None
    api = torch.Tensor.__dlpack_c_exchange_api__
    with pytest.raises(native.NativeError, match="not room for as many"):
        native.tensor_table(api, given * 2, CPU, *rooms)


def test_slices_are_found_in_one_call() -> None:
    cache = torch.randn(9, 2, 40, 3)
    for values in (cache, cache[:, 1], cache[1:8:3], torch.zeros(1, 100)):
        numbers = [len(values) - 1, 0]
        found = _slices_by_table(values, numbers, CPU)
        assert found is not None
        slices = [values[number] for number in numbers]
        assert found.pointers.tolist() == [one.data_ptr() for one in slices]
        assert found.sizes.tolist() == [one.nbytes for one in slices] == [found.each] * 2
        assert [(run.count, run.shape) for run in found.runs] == [(2, tuple(slices[0].shape))]


@pytest.mark.parametrize(
    "values",
    [
        torch.zeros(9, 20, 20)[:, :, :10],
        torch.zeros(20, 9).T,
        torch.zeros(9, 100, dtype=torch.complex64),
        torch.zeros(9, 2, dtype=torch.complex128).conj().imag,
        torch.zeros(9, 4),
        torch.zeros(1, 100).expand(9, 100),
        torch.zeros(()),
        torch.zeros(9, 100).to_sparse(),
        torch.zeros(9, 100).as_subclass(Other),
        torch.zeros(9, 100, device="meta"),
        np.zeros((9, 100)),
    ],
)
def test_slices_that_have_to_be_looked_at_one_by_one_are(values: object) -> None:
    assert _slices_by_table(values, [0, 3], CPU) is None


@pytest.mark.parametrize("numbers", [[0, 9], [-1], [1 << 70], [0, True], [0.0], ["1"], []])
def test_numbers_that_are_none_of_slices_are_left_to_who_explains_them(numbers: list) -> None:
    assert _slices_by_table(torch.zeros(9, 100), numbers, CPU) is None


@pytest.mark.parametrize("pages", [None, [0, 3]])
def test_sparse_tensors_are_refused_by_a_sentence(pages: list[int] | None) -> None:
    sparse = torch.zeros(9, 100).to_sparse()
    lists = [[sparse], [sparse, sparse]]
    for given in lists if pages is None else [sparse]:
        with pytest.raises(InputError, match=r"sparse_coo tensor; call \.to_dense"):
            list(collect_in_parts(given, pages, CPU, "the arrays to offload"))


@pytest.mark.parametrize("place", [0, 1, 7, 12, 20, 63])
@pytest.mark.parametrize("one", [None, 7, "word", [], torch.zeros(100).to_sparse()], ids=type)
def test_what_is_no_tensor_is_found_wherever_it_is_in_a_long_list(place: int, one: object) -> None:
    given = [torch.zeros(100) for _ in range(64)]
    assert _by_table(given, CPU) is not None
    given[place] = one
    assert _by_table(given, CPU) is None


def test_a_long_list_is_found_whatever_was_freed_before() -> None:
    given = [torch.full((100 + i,), i) for i in range(1000)][::-7]
    found = _by_table(given, CPU)
    assert found is not None
    assert found.pointers.tolist() == [one.data_ptr() for one in given]
