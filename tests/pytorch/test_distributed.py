"""Tensors between real processes, over gloo on loopback."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

import lanescope.torch as lt  # noqa: E402
from lanescope.errors import InputError, LanescopeError  # noqa: E402
from lanescope.torch import exchange, pieces, ranks, routes  # noqa: E402
from tests.pytorch.ranks import GONE, run, values  # noqa: E402
from tests.pytorch.ranks import LEAST_BYTES as LARGE  # noqa: E402

_MIB = 1 << 20
DTYPES = ("float32", "bfloat16", "float16", "float64", "int64", "bool", "complex64", "uint8")


def made_up(dtype: str, seed: int = 1, size: int = 5 * LARGE + 12) -> Any:
    """Return values that a codec makes smaller, with NaNs of all kinds among floats."""
    bits = torch.Generator().manual_seed(seed)
    words = torch.randint(0, 1 << 30, (size // 8 + 1,), generator=bits, dtype=torch.int64)
    words[::3] = 0
    found = words.view(torch.uint8)[: size // 16 * 16]
    if dtype == "bool":
        return (found & 1).view(torch.bool)
    return found.view(getattr(torch, dtype)).reshape(2, -1)


def same(one: Any, other: Any) -> bool:
    return torch.equal(routes.bytes_of(one), routes.bytes_of(other))


def all_ways(rank: int) -> list[list[str]]:
    """Return the codecs by which all types went, of each compression."""
    return [all_types(rank, compression) for compression in ("on", "off", "auto")]


def all_types(rank: int, compression: str) -> list[str]:
    for number, dtype in enumerate(DTYPES):
        sent = made_up(dtype, number)
        if rank == 0:
            lt.send(sent, 1, compression=compression)
        else:
            got = torch.zeros_like(sent)
            assert lt.recv(got, 0) == 0
            assert same(got, sent), dtype
    return [str(one.decision.codec) for one in lt.transfers()[-len(DTYPES) :]]


def test_all_types_come_as_they_were(tmp_path: Path) -> None:
    on, off, auto = values(tmp_path, 2, all_ways)[0]
    assert "raw" not in on
    assert set(off) == {"raw"}
    assert auto[0] == "raw"  # what comes first times the link


def all_of_three(rank: int) -> None:
    for source, compression in enumerate(("on", "auto", "off")):
        for dtype in ("bfloat16", "complex64"):
            sent = made_up(dtype, source)
            tensor = sent.clone() if rank == source else torch.zeros_like(sent)
            lt.broadcast(tensor, source, compression=compression)
            assert same(tensor, sent)
    small = torch.full((4,), float(rank))
    lt.broadcast(small, 2)
    assert small.tolist() == [2, 2, 2, 2]


def test_a_broadcast_reaches_all(tmp_path: Path) -> None:
    values(tmp_path, 3, all_of_three)


def groups_tags_and_any(rank: int) -> None:
    group = dist.new_group([2, 1])
    large = made_up("float32", 3)
    if rank == 1:
        lt.send(large, 2, group, tag=5, compression="on")
        lt.send(large[:1, :3].contiguous(), 2, group, tag=6)
        lt.send(large, 0, compression="on")
    elif rank == 2:
        got, little = torch.zeros_like(large), torch.zeros(1, 3)
        assert lt.recv(got, 1, group, tag=5) == 1
        assert lt.recv(little, None, group, tag=6) == 1
        assert same(got, large)
        assert same(little, large[:1, :3])
        lt.send(large, 0, compression="off")
    else:
        first, second = torch.zeros_like(large), torch.zeros_like(large)
        assert {lt.recv(first), lt.recv(second)} == {1, 2}
        assert same(first, large)
        assert same(second, large)


def test_groups_tags_and_any_source(tmp_path: Path) -> None:
    values(tmp_path, 3, groups_tags_and_any)


def outside(rank: int) -> list[str]:
    group = dist.new_group([0, 1])
    tensor, errors = made_up("float32", 3), []
    calls: list[Any] = [lambda: lt.send(tensor, 0, group), lambda: lt.recv(tensor, 0, group)]
    calls += [lambda: lt.isend(tensor, 0, group), lambda: lt.broadcast(tensor, 0, group)]
    for call in calls * (rank == 2):
        with pytest.raises(InputError) as caught:
            call()
        errors.append(str(caught.value))
    dist.barrier()  # the others may still be connecting
    return errors


def test_a_rank_outside_of_the_group_is_refused(tmp_path: Path) -> None:
    errors = values(tmp_path, 3, outside)
    assert errors[:2] == [[], []]
    assert len(errors[2]) == 4
    assert all(one.startswith("this process is not of the group; ") for one in errors[2])


def like_headers(rank: int) -> None:
    said = ranks.Header("uint8", (200,), 200, 0, False).pack()
    for size in (3, 100, 128, 200, LARGE):
        sent = torch.zeros(size, dtype=torch.uint8)
        begin = torch.frombuffer(bytearray(said), dtype=torch.uint8)[:size]
        sent[: len(begin)] = begin
        if rank == 0:
            lt.send(sent, 1)
        else:
            got = torch.zeros_like(sent)
            lt.recv(got, 0)
            assert same(got, sent), size


def test_values_that_look_like_a_header(tmp_path: Path) -> None:
    values(tmp_path, 2, like_headers)


#: Type and bytes of what is sent, and of the tensor for it.
UNLIKE = (
    (("float32", 4 * LARGE), ("int32", 4 * LARGE), "on"),
    (("float32", 4 * LARGE), ("float32", 2 * LARGE), "on"),
    (("float32", 2 * LARGE), ("float32", 4 * LARGE), "off"),
    (("float32", 2 * LARGE), ("float64", 64), "on"),
)


def all_unlike(rank: int) -> list[str]:
    return [unlike(rank, *one) for one in UNLIKE]


def unlike(rank: int, sent: tuple[str, int], here: tuple[str, int], compression: str) -> str:
    """Return what the receiver was told, where tensors differ; what comes next is right."""
    dtype, size = sent if rank == 0 else here
    tensor = made_up(dtype, size=size)
    told = ""
    if rank == 0:
        lt.send(tensor, 1, compression=compression)
    else:
        try:
            lt.recv(tensor, 0)
        except LanescopeError as error:
            told = str(error)
    after = made_up("int64")
    got = after if rank == 0 else torch.zeros_like(after)
    lt.send(got, 1) if rank == 0 else lt.recv(got, 0)
    assert same(got, after)
    return told


def test_unlike_tensors_are_refused(tmp_path: Path) -> None:
    _, all_told = values(tmp_path, 2, all_unlike)
    for told, (sent, here, _) in zip(all_told, UNLIKE, strict=True):
        shape = (2, sent[1] // 8)
        assert told.startswith(f"rank 0 sent {sent[0]} of shape {shape}, and the tensor here is ")
        assert here[0] in told


def without_header(rank: int, small: bool) -> None:
    tensor = made_up("float32")
    if rank == 1:
        lt.recv(tensor, 0)
    elif small:
        lt.send(tensor[0, :32].contiguous(), 1)
    else:
        dist.send(tensor, 1)


@pytest.mark.parametrize("small", [False, True])
def test_who_sends_plainly_is_named(tmp_path: Path, small: bool) -> None:
    sender, receiver = run(tmp_path, 2, without_header, small)
    assert sender.kind == ""
    assert receiver.kind == "LanescopeError"
    assert receiver.error.startswith("what rank 0 sent has no header")


def dies(rank: int, who: int, late: bool) -> None:
    tensor = made_up("float32", size=16 * LARGE)
    if rank == who:
        if not late:
            os._exit(1)
        count = 0

        def end_soon(*given: object) -> None:
            nonlocal count
            count += 1
            if count > 3:
                os._exit(1)

        put, get = routes.ToPeer.put, routes.ToPeer.get
        routes.ToPeer.put = lambda *given: (end_soon(), put(*given))[1]
        routes.ToPeer.get = lambda *given: (end_soon(), get(*given))[1]
    lt.send(tensor, 1, compression="on") if rank == 0 else lt.recv(tensor, 0)


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("late", [False, True])
def test_a_process_that_dies_is_an_error(tmp_path: Path, who: int, late: bool) -> None:
    begun = time.monotonic()
    told = run(tmp_path, 2, dies, who, late)
    assert told[who] == GONE
    assert told[1 - who].kind == "LanescopeError"
    assert "broke off: " in told[1 - who].error
    assert "the other process ended" in told[1 - who].error
    assert time.monotonic() - begun < 20  # the group's timeout


def alone(rank: int) -> float:
    begun = time.monotonic()
    if rank == 0:
        with pytest.raises(LanescopeError, match=r"broke off: .* timeout of 1 s"):
            lt.recv(made_up("float32"), 1)
        with pytest.raises(LanescopeError, match=r"broke off: .* timeout of 1 s"):
            lt.send(made_up("float32"), 1, compression="on")
        took = time.monotonic() - begun
        dist.distributed_c10d._get_default_store().set("over", "")
        return took
    dist.distributed_c10d._get_default_store().wait(["over"])
    return 0


def test_nothing_hangs_longer_than_the_timeout(tmp_path: Path) -> None:
    first, second = run(tmp_path, 2, alone, timeout=1)
    assert first.error == second.error == ""
    assert 1 <= first.value < 8


def fails_to_compress(rank: int) -> None:
    tensor = made_up("float32", size=16 * LARGE)
    if rank == 0:
        encode, count = pieces.StreamEncoder.encode, 0

        def first_alone(*given: Any) -> Any:
            nonlocal count
            count += 1
            if count > 1:
                raise LanescopeError("no memory is left")
            return encode(*given)

        pieces.StreamEncoder.encode = first_alone  # type: ignore[method-assign]
        lt.send(tensor, 1, compression="on", codec="delta")
    else:
        lt.recv(tensor, 0)


def test_what_cannot_be_compressed_is_an_error_on_both_sides(tmp_path: Path) -> None:
    sender, receiver = run(tmp_path, 2, fails_to_compress)
    assert sender.error == "no memory is left"
    assert receiver.error.startswith("rank 0 could not compress its tensor")


def damaged(rank: int) -> str:
    tensor = made_up("float32", size=16 * LARGE)
    if rank == 0:
        encode = pieces.StreamEncoder.encode

        def flip(*given: Any) -> Any:
            stream = encode(*given)
            stream[-5] ^= 1
            return stream

        pieces.StreamEncoder.encode = flip  # type: ignore[method-assign]
        lt.send(tensor, 1, compression="on")
        pieces.StreamEncoder.encode = encode  # type: ignore[method-assign]
        lt.send(tensor, 1, compression="on")
        return ""
    got = torch.zeros_like(tensor)
    with pytest.raises(LanescopeError) as told:
        lt.recv(got, 0)
    lt.recv(got, 0)
    assert same(got, tensor)
    return str(told.value)


def test_damage_is_an_error_and_the_next_tensor_comes(tmp_path: Path) -> None:
    _, told = values(tmp_path, 2, damaged)
    assert told.startswith("what rank 0 sent came in damaged: ")
    assert told.endswith("; send it again")


def over_a_slow_link(rank: int, what: str) -> list[str]:
    bits = torch.Generator().manual_seed(1)
    tensor = {
        "sparse": lambda: made_up("int64", size=_MIB),
        "decimals": lambda: torch.randint(0, 999, (_MIB // 8,), generator=bits).double() / 10,
        "random": lambda: torch.randint(-(1 << 62), 1 << 62, (_MIB // 8,), generator=bits),
    }[what]()
    put = routes.ToPeer.put

    def slowly(self: Any, data: Any) -> Any:
        time.sleep(data.nbytes / 2e7)
        return put(self, data)

    routes.ToPeer.put = slowly
    for _ in range(10):
        lt.send(tensor, 1) if rank == 0 else lt.recv(tensor, 0)
    routes.ToPeer.put = put
    return [str(one.decision.codec) for one in lt.transfers()[-10:]]


def all_over_a_slow_link(rank: int) -> list[list[str]]:
    return [over_a_slow_link(rank, what) for what in ("sparse", "decimals")]


def test_it_is_learned_what_pays(tmp_path: Path) -> None:
    sparse, decimals = values(tmp_path, 2, all_over_a_slow_link)[0]
    assert sparse[0] == "raw"
    # some are trials of others
    assert sum(one in ("zvc", "delta") for one in sparse[-5:]) >= 3
    assert sum(one == "alp" for one in decimals[-5:]) >= 3


def test_what_does_not_pay_goes_as_it_is(tmp_path: Path) -> None:
    decided = values(tmp_path, 2, over_a_slow_link, "random")[0]
    assert sum(one == "raw" for one in decided) >= 8


def by_the_store(rank: int) -> int:
    exchange.notes_of = lambda messages, group, device, ends: routes.NotesInStore(
        group, ends, 2 if isinstance(messages, routes.ToAll) else 1
    )
    store = routes.store_of(dist.group.WORLD)
    before = store.num_keys()
    for seed, compression in enumerate(("on", "auto", "auto")):
        sent = made_up("bfloat16", seed)
        tensor = sent.clone() if rank == 0 else torch.zeros_like(sent)
        if rank == 0:
            lt.send(tensor, 1, compression=compression)
        elif rank == 1:
            lt.recv(tensor, 0)
        lt.broadcast(tensor, 0, compression=compression)
        assert same(tensor, sent)
    dist.barrier()
    return int(store.num_keys() - before)


def test_headers_in_the_store(tmp_path: Path) -> None:
    """As for groups of NCCL alone."""
    left = values(tmp_path, 3, by_the_store)
    assert max(left) <= 0


def behind_the_program(rank: int) -> list[str]:
    other = 1 - rank
    sent = [made_up("float32", seed + 10 * rank) for seed in range(4)]
    coming = [made_up("float32", seed + 10 * other) for seed in range(4)]
    got = [torch.zeros_like(one) for one in sent]
    # both send at once, as they could not by calls that wait; the last one waits for those before
    works = [lt.irecv(one, other, tag=3) for one in got[:3]]
    works += [lt.isend(one, other, tag=3, compression="on") for one in sent[:3]]
    for work in works:
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
    assert works[0].source_rank() == other
    if rank == 0:
        lt.send(sent[3], other, tag=3)
        lt.recv(got[3], other, tag=3)
    else:
        lt.recv(got[3], other, tag=3)
        lt.send(sent[3], other, tag=3)
    for one, expected in zip(got, coming, strict=True):
        assert same(one, expected)
    told = []
    for begin in (lambda: lt.isend(sent[0], 7), lambda: lt.irecv(got[0].T, other)):
        with pytest.raises(LanescopeError) as error:
            begin().wait()
        told.append(str(error.value))
    return told


def test_behind_the_program(tmp_path: Path) -> None:
    for told in values(tmp_path, 2, behind_the_program):
        assert "no rank 7" in told[0]
        assert ".contiguous()" in told[1]


def wrong_calls(rank: int) -> list[str]:
    large, told = made_up("float32"), []
    for call in (
        lambda: lt.send(large, 7),
        lambda: lt.send(large, rank),
        lambda: lt.send(large, 1 - rank, compression="maybe"),
        lambda: lt.send(large, 1 - rank, codec="ans"),
        lambda: lt.send("large", 1 - rank),
        lambda: lt.send(large.T, 1 - rank),
        lambda: lt.recv(large, 9),
        lambda: lt.broadcast(large, 9),
        lambda: lt.send(large, "all"),
    ):
        try:
            call()
        except LanescopeError as error:
            told.append(f"{type(error).__name__}: {error}")
        else:
            told.append("taken")
    return told


def test_wrong_calls_are_one_sentence(tmp_path: Path) -> None:
    for told in values(tmp_path, 2, wrong_calls):
        assert len(told) == 9
        for one in told:
            assert one != "taken"
            assert "\n" not in one
        assert "give auto, on or off" in told[2]
        assert "no rank 7; give one of 0, 1" in told[0]
        assert "codec ans" in told[3]
        assert "dst" in told[8]


def test_without_a_group_one_sentence_says_so() -> None:
    with pytest.raises(LanescopeError, match="there is no process group"):
        lt.send(torch.zeros(3), 1)
