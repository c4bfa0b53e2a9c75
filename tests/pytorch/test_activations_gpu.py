"""Gradients of models whose activations wait in the host's memory, on a GPU."""

from __future__ import annotations

import contextlib

import pytest

import lanescope
from lanescope.torch import offload_activations

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402 (after the skip)

if not torch.cuda.is_available():
    pytest.skip("no GPU that PyTorch can use", allow_module_level=True)


def model(dtype: torch.dtype) -> torch.nn.Module:
    torch.manual_seed(1)
    blocks = [
        torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        for _ in range(6)
    ]
    return torch.nn.Sequential(*blocks).to("cuda", dtype)


def gradients(module: torch.nn.Module, context: object) -> list[torch.Tensor]:
    torch.manual_seed(2)
    values = torch.randn(16, 128, 256, device="cuda", dtype=next(module.parameters()).dtype)
    module.zero_grad()
    with context:  # type: ignore[attr-defined]
        loss = module(values).square().mean()
    loss.backward()
    return [parameter.grad.clone() for parameter in module.parameters()]


@pytest.fixture(autouse=True)
def deterministic() -> object:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("compression", ["off", "on", "auto"])
@pytest.mark.parametrize("ahead", ["1MiB", "64MiB"])
def test_gradients_are_the_same_to_the_bit(
    dtype: torch.dtype, compression: str, ahead: str
) -> None:
    module = model(dtype)
    plain = gradients(module, contextlib.nullcontext())
    again = gradients(module, contextlib.nullcontext())
    if not all(torch.equal(one, other) for one, other in zip(plain, again, strict=True)):
        pytest.skip("without offloading they differ from run to run")
    own = offload_activations(min_bytes="256KiB", ahead=ahead, compression=compression)
    for _ in range(5):
        for one, other in zip(plain, gradients(module, own), strict=True):
            assert torch.equal(one, other)
    assert own.moved.brought > 0


def test_memory_of_the_gpu_is_free_meanwhile() -> None:
    module = model(torch.bfloat16)

    def forward_bytes(context: object) -> int:
        torch.cuda.synchronize()
        values = torch.randn(64, 128, 256, device="cuda", dtype=torch.bfloat16)
        before = torch.cuda.memory_allocated()
        with context:  # type: ignore[attr-defined]
            loss = module(values).square().mean()
        held = torch.cuda.memory_allocated() - before
        loss.backward()
        return held

    gradients(module, contextlib.nullcontext())
    plain = forward_bytes(contextlib.nullcontext())
    own = offload_activations(min_bytes="64KiB", ahead="8MiB")
    assert forward_bytes(own) < 0.4 * plain


@pytest.mark.parametrize("compression", ["off", "on"])
def test_query_key_and_value_travel_once(compression: str) -> None:
    torch.manual_seed(1)
    linear = torch.nn.Linear(512, 3 * 512, device="cuda", dtype=torch.bfloat16)
    values = torch.randn(8, 256, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    def gradients(context: object) -> tuple[torch.Tensor, int]:
        linear.zero_grad(set_to_none=True)
        with context:  # type: ignore[attr-defined]
            q, k, v = linear(values * 2).view(8, 256, 3, 8, 64).permute(2, 0, 3, 1, 4)
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # others save more than these
                mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            loss = mixed.transpose(1, 2).reshape(8, 256, 512).float().square().sum()
            del q, k, v, mixed
        loss.backward()
        return linear.weight.grad.clone(), len(getattr(context, "log", ()))

    plain, _ = gradients(contextlib.nullcontext())
    again, _ = gradients(contextlib.nullcontext())
    if not torch.equal(plain, again):
        pytest.skip("without offloading they differ from run to run")
    own = offload_activations(min_bytes="1MiB", ahead="1MiB", compression=compression)
    for _ in range(3):
        before = own.moved.tensors
        found, transfers = gradients(own)
        assert torch.equal(found, plain)
        assert own.moved.tensors > before
        assert transfers > 0
    sizes = {record.transfer.bytes for record in own.log}
    assert 8 * 256 * 3 * 512 * 2 in sizes  # all three together
    assert own.moved.brought > 0


def test_a_backward_pass_that_never_comes_frees_all() -> None:
    module = model(torch.bfloat16)
    own = offload_activations(min_bytes="64KiB", budget="1GiB")
    values = torch.randn(16, 128, 256, device="cuda", dtype=torch.bfloat16)
    for _ in range(20):
        with own:
            module(values)
    assert own.moved.stayed == 0


def test_another_stream_of_the_program() -> None:
    module = model(torch.float32)
    plain = gradients(module, contextlib.nullcontext())
    own = offload_activations(min_bytes="64KiB", ahead="1MiB")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = gradients(module, own)
    torch.cuda.synchronize()
    for one, other in zip(plain, found, strict=True):
        torch.testing.assert_close(one, other)


def test_a_wrong_gpu_is_refused() -> None:
    with pytest.raises(lanescope.LanescopeError):
        offload_activations(gpu=99)
