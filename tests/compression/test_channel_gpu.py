"""Channels on GPUs: what comes out is what went in, bit by bit."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings

import pytest

import lanescope
from lanescope import LanescopeError
from lanescope._core import native
from lanescope.compression.array_values import current_stream
from lanescope.compression.deciding import Decision
from lanescope.errors import InputError
from tests.patience import PATIENCE_S

with warnings.catch_warnings():  # of PyTorch's, about others
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

GPUS = torch.cuda.device_count()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS < 1, reason="no GPU that PyTorch can use"),
    pytest.mark.filterwarnings("ignore"),
]

TWO = [pytest.mark.multigpu, pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")]
PAIRS = [
    (0, 0, "peer"),
    (0, 0, "host"),
    pytest.param((0, 1, "peer"), marks=TWO),
    pytest.param((0, 1, "host"), marks=TWO),
]
DIRECTIONS = ["staged", "mapped"]
SIZES = [0, 1, 64 << 10, (1 << 20) + 3, 100 << 20]
CODED = [
    ("gfc", torch.float64),
    ("gfc", torch.float32),
    ("exponent", torch.bfloat16),
    ("exponent", torch.float16),
    ("exponent", torch.float32),
    ("delta", torch.float32),
    ("delta", torch.int16),
    ("delta", torch.int64),
    ("zvc", torch.bfloat16),
    ("zvc", torch.uint8),
    ("alp", torch.float64),
    ("alp", torch.float32),
]


def made_up(dtype, size, seed=0, gpu=0):
    """Values of `size` bytes at most, some smooth, some random, some all the same."""
    item = torch.empty((), dtype=dtype).element_size()
    count = size // item
    generator = torch.Generator("cpu").manual_seed(seed)
    third = count // 3
    parts = [
        torch.linspace(0, 2000, third, dtype=torch.float64).sin() * 1000,
        torch.randn(third, generator=generator, dtype=torch.float64) * 10,
        torch.full((count - 2 * third,), 3.0, dtype=torch.float64),
    ]
    return torch.cat(parts).to(dtype).to(f"cuda:{gpu}")


def bits(tensor):
    return tensor.contiguous().view(torch.uint8) if tensor.numel() else tensor


def same(one, other):
    return one.shape == other.shape and torch.equal(bits(one).cpu(), bits(other).cpu())


def peer(pair, **options):
    source, target, via = pair
    return lanescope.Channel(source, target, **{"compression": "on", "via": via, **options})


def host(**options):
    return lanescope.Channel(0, "host", **{"compression": "on", **options})


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("codec", "dtype"), CODED)
def test_every_codec_sends_bit_by_bit(pair, codec, dtype):
    values = made_up(dtype, (24 << 20) + 40)
    with peer(pair, codec=codec) as channel:
        there = channel.send(values)
        outcome = channel.last.wait()
    assert there.device.index == pair[1]
    assert same(there, values)
    assert outcome.compressed, channel.last.why_raw
    assert outcome.seconds > 0
    assert outcome.wire_bytes < outcome.raw_bytes


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("codec", "dtype"), CODED)
def test_every_codec_comes_back_bit_by_bit(direction, codec, dtype):
    values = made_up(dtype, (24 << 20) + 40)
    with host(codec=codec, restore_by=direction, slots=2) as channel:
        parcel = channel.offload(values)
        assert parcel.stored_bytes < parcel.bytes
        for _ in range(2):
            assert same(channel.restore(parcel), values)
        assert [one.wait().compressed for one in channel.log] == [True] * 3


def some_bytes(size):
    """Bytes of fp32 values, the last one of which may be cut off."""
    return made_up(torch.float32, size + 4).view(torch.uint8)[:size].clone()


def stream_of(gpu):
    return torch.cuda.current_stream(gpu).cuda_stream


@pytest.mark.parametrize("gpu", [0, pytest.param(1, marks=TWO)])
def test_the_current_stream_is_that_of_pytorch(gpu):
    with torch.cuda.device(0):
        assert current_stream("torch", gpu) == stream_of(gpu)
        with torch.cuda.stream(torch.cuda.Stream(gpu)):
            assert stream_of(gpu) != 0
            assert current_stream("torch", gpu) == stream_of(gpu)
        assert current_stream("torch", gpu) == stream_of(gpu) == 0


@pytest.mark.parametrize("codec", [None, native.Codec.delta])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pair", PAIRS)
def test_all_sizes_are_sent(pair, size, codec):
    values = some_bytes(size)
    there = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{pair[1]}")
    with peer(pair) as channel:
        ticket = channel._core.send(
            values.data_ptr(), there.data_ptr(), size, codec, native.Dtype.float32, 1,
            stream_of(pair[0]), stream_of(pair[1]),
        )  # fmt: skip
        ticket.wait(10.0)
        assert ticket.compressed == (codec is not None and size > 0), ticket.why_raw
    assert same(there, values)


@pytest.mark.parametrize("codec", [None, native.Codec.delta])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_all_sizes_come_back(direction, size, codec):
    values = some_bytes(size)
    back = torch.zeros_like(values)
    with host(restore_by=direction) as channel:
        parcel, _ = channel._core.offload(
            values.data_ptr(), size, codec, native.Dtype.float32, 1, stream_of(0)
        )
        channel._core.restore(parcel, back.data_ptr(), stream_of(0)).wait(10.0)
        assert parcel.compressed == (codec is not None and size > 0)
    assert same(back, values)


@pytest.mark.parametrize("pair", PAIRS)
def test_many_sends_under_direction_over_few_slots(pair):
    arrays = [made_up(torch.float32, (3 << 20) + 16 * i, seed=i) for i in range(24)]
    with peer(pair, codec="delta", slots=2, slab_bytes=1 << 20) as channel:
        there = [channel.send(one, tag=str(i % 3)) for i, one in enumerate(arrays)]
        channel.synchronize()
        assert [one.transfer.tag for one in channel.log] == [str(i % 3) for i in range(24)]
        assert all(one.outcome.compressed for one in channel.log)
    for i, (one, other) in enumerate(zip(there, arrays, strict=True)):
        assert same(one, other), f"array {i}"


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("pair", PAIRS)
def test_slabs_of_one_array_follow_each_other(pair, slots):
    values = made_up(torch.float32, (40 << 20) + 4)
    with peer(pair, codec="delta", slots=slots, slab_bytes=3 << 20) as channel:
        for turn in range(5):
            assert same(channel.send(values), values), turn
        channel.synchronize()


@pytest.mark.parametrize("pair", PAIRS[2:])
def test_both_directions_at_once_with_all_sms(pair):
    """Encoders and decoders want all SMs of both GPUs, and none keeps another from its end."""
    one, other, via = pair
    values = made_up(torch.bfloat16, 200 << 20)
    back = values.to(f"cuda:{other}")
    options = {"codec": "exponent", "slab_bytes": 16 << 20, "sms": 132}
    with peer((one, other, via), **options) as there, peer((other, one, via), **options) as home:
        for _ in range(20):
            sent, returned = there.send(values), home.send(back)
        there.synchronize()
        home.synchronize()
    assert same(sent, values)
    assert same(returned, values)


@pytest.mark.parametrize("pair", PAIRS)
def test_busy_sms_and_no_patience_hold_no_block_back(pair):
    """Something else keeps SMs of the sender for longer than a receiver would like to wait."""
    values = made_up(torch.float32, 64 << 20)
    busy = torch.cuda.Stream(0)
    with peer(pair, codec="delta", sms=132, patience_seconds=0) as channel:
        assert same(channel.send(values), values)
        with torch.cuda.stream(busy):
            for _ in range(4):
                torch.cuda._sleep(200_000_000)
        assert same(channel.send(values), values)
        channel.last.wait()


FAILING = """
import os, sys, time, torch, lanescope
via, failing, when, asked = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
values = torch.arange(64 << 20, dtype=torch.int32, device="cuda:0")
there = torch.zeros_like(values, device="cuda:1")
channel = lanescope.Channel(0, 1, compression="on", codec="delta", via=via)
channel.send(values, out=there)
channel.last.wait()
few = torch.zeros(4, device=f"cuda:{failing}")
inside, outside = (torch.full((1,), at, device=f"cuda:{failing}") for at in (1, 1 << 40))
few[inside]  # which loads the kernel
torch.cuda.synchronize(failing)
begin = time.monotonic()

def tell(name, action):
    try:
        action()
        print(name, "went on")
    except Exception as error:
        print(name, type(error).__name__)

def send():
    for _ in range(5 if when == "before" else 100):
        channel.send(values, out=there)

stream = torch.cuda.default_stream(failing)
with torch.cuda.stream(stream if when == "before" else torch.cuda.Stream(failing)):
    torch.cuda._sleep(400_000_000 if when == "before" else 50_000_000)
    few[outside]
tell("sending", send)
if asked == "ask":
    tell("waiting", channel.last.wait)
tell("other", lambda: torch.cuda.synchronize(1 - failing))
tell("failing", lambda: torch.cuda.synchronize(failing))
print("ended", time.monotonic() - begin < 10, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("asked", ["ask", "synchronize"])
@pytest.mark.parametrize("when", ["before", "midway"])
@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("pair", PAIRS[2:])
def test_a_gpu_that_fails_leaves_no_stream_waiting(pair, failing, when, asked):
    """Neither the failing one's nor the other's, whether or not somebody asks the channel."""
    done = subprocess.run(
        [sys.executable, "-c", FAILING, pair[2], str(failing), when, asked],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert "ended True" in done.stdout, told
    assert "failing AcceleratorError" in done.stdout or "failing RuntimeError" in done.stdout, told
    if asked == "ask":
        assert "waiting LanescopeError" in done.stdout, told


@pytest.mark.parametrize("pair", PAIRS)
def test_it_comes_behind_and_before_what_streams_do(pair):
    """The values are made just before, and overwritten just after, without a wait on the host."""
    size = 16 << 20
    expected = torch.arange(size, dtype=torch.float32, device="cuda:0")
    source = torch.zeros_like(expected)
    side = torch.cuda.Stream(0)
    with peer(pair, codec="delta") as channel, torch.cuda.stream(side):
        side.wait_stream(torch.cuda.default_stream(0))
        for turn in range(3):
            source.fill_(-1)
            torch.cuda._sleep(20_000_000)
            torch.add(expected, turn, out=source)
            there = channel.send(source)
            source.fill_(7)
            seen = there.clone()
            assert same(seen, expected + turn), turn


def test_an_array_comes_back_while_streams_are_busy():
    expected = torch.arange(8 << 20, dtype=torch.float32, device="cuda:0")
    with host(codec="delta") as channel:
        torch.cuda._sleep(20_000_000)
        source = expected * 1
        parcel = channel.offload(source)
        source.fill_(7)
        out = torch.empty_like(expected)
        torch.cuda._sleep(20_000_000)
        out.fill_(3)
        channel.restore(parcel, out=out)
        assert same(out.clone(), expected)


@pytest.mark.parametrize("pair", PAIRS)
def test_two_channels_from_two_threads(pair):
    failures = []

    def run(codec, dtype, seed):
        try:
            stream = torch.cuda.Stream(0)
            with torch.cuda.stream(stream), peer(pair, codec=codec, slots=2) as channel:
                for turn in range(10):
                    values = made_up(dtype, 20 << 20, seed=seed + turn)
                    there = channel.send(values)
                    channel.last.wait()
                    if not same(there, values):
                        failures.append(f"{codec}, turn {turn}")
        except Exception as error:  # told by the test
            failures.append(repr(error))

    threads = [
        threading.Thread(target=run, args=("exponent", torch.bfloat16, 0)),
        threading.Thread(target=run, args=("delta", torch.int32, 50)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("block", [0, 17, 200])
@pytest.mark.parametrize("pair", PAIRS)
def test_damage_names_the_block_and_the_channel_goes_on(pair, block):
    values = made_up(torch.bfloat16, 16 << 20)
    with peer(pair, codec="exponent", slab_bytes=1 << 20) as channel:
        channel._core.damage_next(block)
        channel.send(values)
        with pytest.raises(LanescopeError, match=f"block {block} of 256 .*checksum"):
            channel.last.wait()
        assert same(channel.send(values), values)
        channel.last.wait()


@pytest.mark.parametrize("block", [0, 17, 200])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_damaged_parcel_names_the_block(direction, block):
    values = made_up(torch.bfloat16, 16 << 20)
    with host(codec="exponent", slab_bytes=1 << 20, restore_by=direction) as channel:
        parcel = channel.offload(values)
        parcel.held.damage(block)
        channel.restore(parcel)
        with pytest.raises(LanescopeError, match=f"block {block} of 256 .*checksum"):
            channel.synchronize()
        assert same(channel.restore(channel.offload(values)), values)


@pytest.mark.parametrize(("one", "other"), [(0, 1), (17, 200), (255, 3)])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_blocks_of_a_parcel_that_change_places_are_named(direction, one, other):
    values = made_up(torch.bfloat16, 16 << 20)
    with host(codec="exponent", slab_bytes=1 << 20, restore_by=direction) as channel:
        parcel = channel.offload(values)
        parcel.held.exchange(one, other)
        channel.restore(parcel)
        named = min(one, other)
        with pytest.raises(LanescopeError, match=f"block {named} of 256 .*checksum"):
            channel.synchronize()


def test_an_array_is_not_sent_onto_itself():
    room = made_up(torch.bfloat16, 4 << 20)
    with peer((0, 0, "peer"), codec="exponent") as channel:
        for begin in (0, 64, len(room) // 2 - 64):
            half = slice(begin, begin + len(room) // 2)
            with pytest.raises(InputError, match="overlap; give another one"):
                channel.send(room[: len(room) // 2], out=room[half])
        there = channel.send(room[: len(room) // 2], out=room[len(room) // 2 :])
        assert same(there, room[: len(room) // 2])


def test_no_memory_for_slots_sends_raw_and_says_why():
    values = made_up(torch.bfloat16, 1 << 20)
    with peer((0, 0, "peer"), codec="exponent", slab_bytes=1 << 38) as channel:
        assert same(channel.send(values), values)
        outcome = channel.last.wait()
        assert not outcome.compressed
        assert "has no memory for 2 slabs" in channel.last.why_raw


def test_an_array_at_an_odd_address_is_sent_raw():
    values = made_up(torch.bfloat16, 1 << 20)[3:]
    with peer((0, 0, "peer"), codec="exponent") as channel:
        assert same(channel.send(values), values)
        assert "not aligned" in channel.last.why_raw
    with host(codec="exponent") as channel:
        parcel = channel.offload(values)
        assert same(channel.restore(parcel), values)
        assert "not aligned" in channel.log[0].why_raw


def test_a_parcel_outlives_its_channel_and_its_memory_goes_back():
    values = made_up(torch.bfloat16, 64 << 20)
    with host(codec="exponent") as first:
        parcel = first.offload(values)
        stored = parcel.stored_bytes
        assert parcel.held.held_bytes < stored + (64 << 10)
        pinned = first.pinned_bytes
        for _ in range(8):  # the memory is used again
            first.offload(values)
            first.synchronize()
        assert first.pinned_bytes == pinned
    with host(codec="exponent") as second:
        assert same(second.restore(parcel), values)


@pytest.mark.multigpu
@pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_parcel_is_restored_to_another_gpu(direction):
    values = made_up(torch.float32, 32 << 20)
    with (
        host(codec="delta") as here,
        lanescope.Channel(1, "host", compression="on", restore_by=direction) as there,
    ):
        back = there.restore(here.offload(values))
        there.synchronize()
    assert back.device.index == 1
    assert same(back, values)


def test_a_decider_learns_what_was_measured():
    learnt = []

    class Decider:
        def decide(self, transfer):
            return Decision(True, "auto", 1, None, None, "tried")

        def learn(self, transfer, decision, outcome):
            learnt.append((transfer.dtype, decision.codec, outcome.compressed, outcome.seconds > 0))

    with lanescope.Channel(0, 0, compression=Decider()) as channel:
        channel.send(torch.randn(8 << 20, device="cuda:0").to(torch.bfloat16))
        channel.synchronize()
    assert learnt == [("bfloat16", "exponent", True, True)]


def test_arrays_of_cupy_are_sent_too():
    cupy = pytest.importorskip("cupy")
    values = cupy.arange(4 << 20, dtype=cupy.float32)
    with peer((0, 0, "peer"), codec="delta") as channel:
        there = channel.send(values)
        channel.synchronize()
    assert bool((there == values).all())
    with host(codec="delta") as channel:
        assert bool((channel.restore(channel.offload(values)) == values).all())


def test_a_gpu_that_is_not_there_is_told():
    with pytest.raises(lanescope.InputError, match="there is no GPU 99"):
        lanescope.Channel(0, 99, compression="off")
    with pytest.raises(native.NativeError):
        native.DeviceChannel(0, 99, 8 << 20, 4, 48, 1.0, native.Via.host)
