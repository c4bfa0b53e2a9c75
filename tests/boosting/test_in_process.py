"""PyTorch's copies in a block that boosts them, between a CPU and a device that stands for a GPU.

Tensors of the device ``meta`` have types and shapes alone: what is copied is noted, not done.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import lanescope  # noqa: E402
from lanescope.boosting import torch_copies  # noqa: E402
from lanescope.errors import LanescopeError  # noqa: E402

LEAST = torch_copies.LEAST_BYTES
COUNT = LEAST // 4


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(torch_copies, "GPU", "meta")
    monkeypatch.setattr(torch_copies, "require_library", lambda: None)
    monkeypatch.setattr(torch_copies, "_is_captured", lambda: False)
    monkeypatch.setattr(torch_copies, "_stream_of", lambda gpu: 0)
    for name in ("copy_to_gpu", "copy_to_host"):
        monkeypatch.setattr(
            torch_copies, name, lambda *given, name=name: found.append((name, given[2]))
        )
    return found


def test_large_plain_tensors_are_carried_both_ways(carried: list[Any]) -> None:
    tensor = torch.zeros(COUNT)
    with lanescope.boost() as boosted:
        there = tensor.to("meta")
        back = there.cpu()
        there.copy_(tensor)
        tensor.copy_(there)
    assert (there.device.type, there.shape, there.dtype) == ("meta", tensor.shape, tensor.dtype)
    assert back.device.type == "cpu"
    assert carried == [("copy_to_gpu", LEAST), ("copy_to_host", LEAST)] * 2
    assert (boosted.copies, boosted.bytes) == (4, 4 * LEAST)
    assert str(boosted) == "4 copies of 1 MiB between CPU tensors and GPUs"
    tensor.to("meta")  # behind the block
    assert len(carried) == 4


def test_a_module_moves_by_it_and_gradients_flow_through_copies(carried: list[Any]) -> None:
    layer = torch.nn.Linear(512, 512, bias=False)
    leaf = torch.zeros(COUNT, requires_grad=True)
    with lanescope.boost():
        layer.to("meta")
        there = leaf.to("meta")
    assert isinstance(layer.weight, torch.nn.Parameter)
    assert layer.weight.device.type == "meta"
    assert carried == [("copy_to_gpu", 512 * 512 * 4), ("copy_to_gpu", LEAST)]
    assert there.requires_grad
    assert type(there.grad_fn).__name__ == "ToCopyBackward0"


@pytest.mark.parametrize(
    "left",
    [
        lambda tensor: tensor[:-1].to("meta"),  # small
        lambda tensor: tensor.to("meta", torch.float64),
        lambda tensor: tensor.view(2, -1).t().to("meta"),
        lambda tensor: tensor.clone(),
        lambda tensor: tensor.to(torch.float16),
        lambda tensor: torch.empty(2, COUNT, device="meta").copy_(tensor),  # to each row
        lambda tensor: torch.empty(COUNT, dtype=torch.float64, device="meta").copy_(tensor),
        lambda tensor: tensor.to_sparse().to("meta"),
        lambda tensor: tensor.as_subclass(type("Own", (torch.Tensor,), {})).to("meta"),
    ],
)
def test_whatever_else_is_left_to_pytorch(carried: list[Any], left: Any) -> None:
    tensor = torch.ones(COUNT)
    with lanescope.boost() as boosted:
        left(tensor)
    assert carried == []
    assert boosted.copies == 0


def test_a_version_counts_what_is_copied_in_place(carried: list[Any]) -> None:
    tensor = torch.zeros(COUNT)
    with lanescope.boost():
        tensor.copy_(torch.empty(COUNT, device="meta"))
    assert tensor._version == 1


def test_after_a_failure_pytorch_copies_by_itself(
    carried: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail(*given: Any) -> None:
        calls.append(given)
        raise LanescopeError("cannot copy: the driver says no")

    monkeypatch.setattr(torch_copies, "copy_to_gpu", fail)
    tensor = torch.zeros(COUNT)
    with lanescope.boost() as boosted:
        with pytest.warns(UserWarning, match="PyTorch copies by itself from here on: cannot copy"):
            assert tensor.to("meta").shape == tensor.shape
        assert tensor.to("meta").shape == tensor.shape
    assert len(calls) == 1
    assert boosted.copies == 0


def test_what_is_captured_into_a_graph_is_left_to_pytorch(
    carried: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_copies, "_is_captured", lambda: True)
    with lanescope.boost():
        torch.zeros(COUNT).to("meta")
    assert carried == []
