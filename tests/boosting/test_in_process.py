"""PyTorch's copies in a block that boosts them, between a CPU and a device that stands for a GPU.

Tensors of the device ``meta`` have types and shapes alone: what is copied is noted, not done.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import lanescope  # noqa: E402
from lanescope.boosting import torch_copies  # noqa: E402
from lanescope.errors import LanescopeError  # noqa: E402

LEAST = torch_copies.LEAST_TO_HOST
COUNT = LEAST // 4
LEAST_TO_GPU = torch_copies.LEAST_TO_GPU
COUNT_TO_GPU = LEAST_TO_GPU // 4
SAID = "cannot copy: the driver says no"


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each copy to the host, and less than 0 to a GPU."""
    found: list[int] = []
    monkeypatch.setattr(torch_copies, "GPU", "meta")
    monkeypatch.setattr(torch_copies, "require_library", lambda: None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch_copies, "_stream_of", lambda gpu: 0)
    monkeypatch.setattr(torch_copies, "copy_to_host", lambda *given: found.append(given[2]))
    monkeypatch.setattr(torch_copies, "copy_to_gpu", lambda *given: found.append(-given[2]))
    return found


def test_large_plain_tensors_are_carried_to_the_host(carried: list[int]) -> None:
    there, tensor = torch.zeros(COUNT, device="meta"), torch.zeros(COUNT)
    with lanescope.boost() as boosted:
        back = there.cpu()
        tensor.copy_(there)
    assert (back.device.type, back.shape, back.dtype) == ("cpu", there.shape, there.dtype)
    assert carried == [LEAST] * 2
    assert (boosted.copies, boosted.bytes) == (2, 2 * LEAST)
    assert str(boosted) == "2 copies of 512 KiB between CPU tensors and GPUs"


def test_large_plain_tensors_are_carried_to_the_gpu(carried: list[int]) -> None:
    tensor, target = torch.zeros(COUNT_TO_GPU), torch.zeros(COUNT_TO_GPU, device="meta")
    with lanescope.boost() as boosted:
        there = tensor.to("meta")
        target.copy_(tensor)
        tensor[1:].to("meta")  # small
    assert (there.device.type, there.shape, there.dtype) == ("meta", tensor.shape, tensor.dtype)
    assert carried == [-LEAST_TO_GPU] * 2
    assert (boosted.copies, boosted.bytes) == (2, 2 * LEAST_TO_GPU)
    tensor.to("meta")  # behind the block
    assert len(carried) == 2


def test_a_module_moves_by_it_and_gradients_flow_through_copies(carried: list[int]) -> None:
    layer = torch.nn.Linear(512, 512, bias=False, device="meta")
    leaf = torch.zeros(COUNT, requires_grad=True, device="meta")
    with lanescope.boost():
        layer.to("cpu")
        back = leaf.to("cpu")
        torch.nn.Linear(1024, 1024, bias=False).to("meta")
    assert isinstance(layer.weight, torch.nn.Parameter)
    assert layer.weight.device.type == "cpu"
    assert carried == [512 * 512 * 4, LEAST, -4 << 20]
    assert back.requires_grad
    assert type(back.grad_fn).__name__ == "ToCopyBackward0"


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_copies_are_carried_as_well(carried: list[int], mode: Any) -> None:
    there, here = torch.zeros(COUNT, device="meta"), torch.zeros(COUNT)
    with mode(), lanescope.boost() as boosted:
        back = [there.cpu(), there.to("cpu"), there.to(device="cpu"), there.to(here)]
        same = [here.to("cpu"), here.cpu()]
        other = here.to(torch.float64)
    assert carried == [LEAST] * 4
    assert boosted.copies == 4
    assert {one.device.type for one in back} == {"cpu"}
    assert all(one is here or one.data_ptr() == here.data_ptr() for one in same)
    assert other.dtype == torch.float64


@pytest.mark.parametrize(
    "left",
    [
        lambda tensor: tensor.clone(),
        lambda tensor: tensor.to(torch.float16),
        lambda tensor: torch.empty(2, COUNT_TO_GPU, device="meta").copy_(tensor),  # to each row
        lambda tensor: torch.empty(COUNT_TO_GPU, dtype=torch.float64).copy_(tensor),
        lambda tensor: tensor.to_sparse().to("meta"),
        lambda tensor: torch._efficientzerotensor((COUNT_TO_GPU,)).to("meta"),
        lambda tensor: tensor[:-1].to("meta"),  # small
        lambda tensor: tensor.to("meta", torch.float64),
        lambda tensor: tensor.view(2, -1).t().to("meta"),
        lambda tensor: tensor.as_subclass(type("Own", (torch.Tensor,), {})).to("meta"),
    ],
)
def test_whatever_else_is_left_to_pytorch(carried: list[int], left: Any) -> None:
    tensor = torch.ones(COUNT_TO_GPU)
    with lanescope.boost() as boosted:
        left(tensor)
    assert carried == []
    assert boosted.copies == 0


def test_a_version_counts_what_is_copied_in_place(carried: list[int]) -> None:
    tensor = torch.zeros(COUNT)
    with lanescope.boost():
        tensor.copy_(torch.empty(COUNT, device="meta"))
    assert tensor._version == 1


@pytest.mark.parametrize(
    "left",
    [
        lambda there: there[:-1].cpu(),  # small
        lambda there: there.to("cpu", torch.float64),
        lambda there: there.view(2, -1).t().cpu(),
        lambda there: torch.empty(2, COUNT).copy_(there),  # to each row
        lambda there: torch.empty(COUNT, dtype=torch.float64).copy_(there),
        lambda there: torch.empty(2 * COUNT)[::2].copy_(there),
        lambda there: there.as_subclass(type("Own", (torch.Tensor,), {})).cpu(),
    ],
)
def test_what_is_not_plain_is_left_to_pytorch(carried: list[int], left: Any) -> None:
    there = torch.ones(COUNT, device="meta")
    with lanescope.boost(), pytest.raises(NotImplementedError, match="no data"):
        left(there)  # which is PyTorch's answer
    assert carried == []


def test_the_compiler_is_not_imported_for_it() -> None:
    """Which takes seconds, at the first operation of a block."""
    text = """
import sys, torch, lanescope
from lanescope.boosting import torch_copies
torch_copies.require_library = lambda: None
with lanescope.boost():
    torch.ones(8).to(torch.float64)
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", text], check=True)


def test_the_compiler_leaves_it_alone_where_it_is_there(carried: list[int]) -> None:
    import torch._dynamo as compiler

    twice = compiler.optimize(lambda graph, _: graph.forward)(lambda tensor: tensor * 2 + 1)
    with lanescope.boost() as boosted:
        assert torch.equal(twice(torch.ones(COUNT)), torch.full((COUNT,), 3.0))
        torch.zeros(COUNT, device="meta").cpu()
    assert boosted.copies == 1


def test_after_a_failure_pytorch_copies_by_itself(
    carried: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail(*given: Any) -> None:
        calls.append(given)
        raise LanescopeError(SAID)

    monkeypatch.setattr(torch_copies, "copy_to_host", fail)
    there = torch.zeros(COUNT, device="meta")
    said = []
    monkeypatch.setattr(warnings, "warn", lambda text, **_: said.append(text))
    with lanescope.boost() as boosted:
        for _ in range(2):
            with pytest.raises(NotImplementedError, match="no data"):
                there.cpu()
    assert said == [f"PyTorch copies by itself from here on: {SAID}"]
    assert len(calls) == 1
    assert boosted.copies == 0


def test_what_is_captured_into_a_graph_is_left_to_pytorch(
    carried: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with lanescope.boost(), pytest.raises(NotImplementedError, match="no data"):
        torch.zeros(COUNT, device="meta").cpu()
    assert carried == []
