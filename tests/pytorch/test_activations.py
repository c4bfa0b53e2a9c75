"""Gradients of models whose activations wait elsewhere, on a CPU."""

from __future__ import annotations

import pytest

from lanescope.errors import LanescopeError, MissingPartError
from lanescope.torch import activations, offload_activations
from lanescope.torch.activations import OffloadedActivations
from tests.pytorch.copying_link import CopyingLink

torch = pytest.importorskip("torch")
KIB = 1 << 10


def link() -> CopyingLink:
    from lanescope.torch.host_link import is_parameter

    return CopyingLink(lambda tensor: tensor.clone(), lambda tensor: not is_parameter(tensor))


def model(layers: int = 6) -> torch.nn.Module:
    torch.manual_seed(1)
    blocks = [
        torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        for _ in range(layers)
    ]
    return torch.nn.Sequential(*blocks, torch.nn.Linear(64, 8))


def gradients(module: torch.nn.Module, context: object) -> list[torch.Tensor]:
    torch.manual_seed(2)
    values = torch.randn(4, 32, 64)
    module.zero_grad()
    with context:  # type: ignore[attr-defined]
        loss = module(values).square().mean()
    loss.backward()
    return [parameter.grad.clone() for parameter in module.parameters()]


@pytest.mark.parametrize("ahead", [0, 64 * KIB, 1 << 30, None])
def test_gradients_are_the_same_to_the_bit(
    ahead: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import contextlib

    monkeypatch.setattr(activations, "_LEAST_AHEAD", 64 * KIB)
    module = model()
    plain = gradients(module, contextlib.nullcontext())
    own = OffloadedActivations(found := link(), 1 << 30, KIB, ahead)
    for _ in range(3):
        for one, other in zip(plain, gradients(module, own), strict=True):
            assert torch.equal(one, other)
    assert own.moved.shared > 0
    assert (own.moved.bytes > 0) == (ahead != 1 << 30)
    assert (len(found.of("bring")) > 20) == (ahead != 1 << 30)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradients_of_a_model_that_repeats_its_passes(
    use_reentrant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils.checkpoint import checkpoint_sequential

    monkeypatch.setattr(activations, "_LEAST_AHEAD", 64 * KIB)
    module = model()
    plain = gradients(module, torch.enable_grad())
    own = OffloadedActivations(link(), 1 << 30, KIB, None)
    for block in module:  # the passes that are repeated, too
        own.around(block)
    for _ in range(3):
        torch.manual_seed(2)
        values = torch.randn(4, 32, 64, requires_grad=use_reentrant)
        module.zero_grad()
        result = checkpoint_sequential(module, 3, values, use_reentrant=use_reentrant)
        result.square().mean().backward()
        for one, other in zip(plain, module.parameters(), strict=True):
            assert torch.equal(one, other.grad)
    assert own.moved.bytes > 0


def test_by_default_a_small_model_is_offloaded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found = link()
    monkeypatch.setattr(activations, "_gpu", lambda _: 0)
    monkeypatch.setattr(activations, "_link", lambda *_: found)
    for given, sent in (({}, 21), ({"ahead": "1GiB"}, 0)):
        own = offload_activations(budget="1GiB", **given)
        with own:
            result = torch.ones(256 * KIB, requires_grad=True)
            for _ in range(61):
                result = result.exp() * 0
        result.sum().backward()
        assert own.moved.tensors == sent


def test_parameters_and_small_tensors_stay() -> None:
    module = torch.nn.Linear(64, 64)
    own = OffloadedActivations(found := link(), 1 << 30, 64 * KIB, 1 << 30)
    values = torch.randn(64, 64, requires_grad=True)
    with own:
        module(values).relu().sum().backward()
    assert found.events == []


def test_a_module_is_offloaded_wherever_it_runs() -> None:
    module = model(2)
    plain = [one.clone() for one in gradients(module, torch.enable_grad())]
    own = OffloadedActivations(link(), 1 << 30, KIB, 0)
    own.around(module)
    for one, other in zip(plain, gradients(module, torch.enable_grad()), strict=True):
        assert torch.equal(one, other)
    assert own.moved.tensors > 0


def test_a_module_that_fails_leaves_no_hooks() -> None:
    module = model(1)
    own = OffloadedActivations(found := link(), 1 << 30, KIB, 0)
    own.around(module)
    with pytest.raises(AssertionError, match="embedding dimension"):
        module(torch.randn(4, 32, 63))
    before = len(found.events)
    torch.randn(64, 64, requires_grad=True).exp().sum().backward()
    assert len(found.events) == before


def test_views_with_gaps_travel_once_with_what_they_are_views_of() -> None:
    own = OffloadedActivations(found := link(), 1 << 30, KIB, 0)
    linear = torch.nn.Linear(64, 3 * 64)
    values = torch.randn(4, 32, 64)
    expected = None
    for context in (torch.enable_grad(), own):
        linear.zero_grad()
        with context:
            q, k, v = linear(values).view(4, 32, 3, 4, 16).permute(2, 0, 3, 1, 4)
            strides = [one.stride() for one in (q, k, v)]
            scores = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        scores.square().sum().backward()
        gradient = linear.weight.grad.clone()
        expected = gradient if expected is None else expected
    assert torch.equal(gradient, expected)
    assert all(stride[2] == 3 * 64 for stride in strides)
    assert len(found.of("send")) == own.moved.tensors


def test_what_travels_for_a_tensor() -> None:
    from lanescope.torch.activations import key_of
    from lanescope.torch.host_link import region_of

    whole = torch.arange(4 * 6 * 5, dtype=torch.float32).view(4, 6, 5)
    for part in (whole, whole.permute(2, 0, 1), whole[1:3], whole[:, :3], whole[:, 2:5, 1:4]):
        region = region_of(part)
        assert region.view.of(region.values).equal(part)
        assert region.view.of(region.values).stride() == part.stride()
        assert region.view.of(region.values.clone()).equal(part)  # wherever it lies
        assert region.versioned._version == part._version
        part.add_(1)
        assert region.versioned._version == part._version
    assert region_of(whole[1:3]).bytes == 2 * 6 * 5 * 4  # what has no gaps alone
    assert region_of(whole[:, :3]).bytes == whole.nbytes
    narrow = whole[:, :, 0]
    assert region_of(narrow) is None  # a fifth of it
    known = key_of(region_of(whole[:, :3]).values, whole.nbytes)
    assert region_of(narrow, lambda key: key == known) is not None
    rows = torch.randn(1, 5).expand(100, 5)
    assert region_of(rows).bytes == 5 * 4


@pytest.mark.parametrize("transposed", [False, True])
def test_order_in_memory(transposed: bool) -> None:
    from lanescope.torch.host_link import memory_order

    values = torch.randn(3, 4, 5)
    if transposed:
        values = values.permute(2, 0, 1)
    assert memory_order(values) == ((1, 2, 0) if transposed else (0, 1, 2))
    assert memory_order(values[:, :, :2]) is None
    assert memory_order(torch.randn(3, 1).expand(3, 4)) is None


def test_without_a_gpu_one_sentence_says_so() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(
        MissingPartError, match=r"needs a GPU, .* finds none; train without it here"
    ):
        offload_activations()


def test_arguments_are_checked() -> None:
    with pytest.raises(LanescopeError, match="compression cannot be 'maybe'"):
        offload_activations(compression="maybe")
    with pytest.raises(LanescopeError, match="min_bytes"):
        offload_activations(min_bytes="a lot")
