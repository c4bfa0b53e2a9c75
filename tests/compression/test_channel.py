"""The channel's Python side, with a core and arrays that take the place of a GPU's."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import lanescope
from lanescope import InputError, LanescopeError
from lanescope._core import native
from lanescope.compression import channel as module
from lanescope.compression import deciding
from lanescope.compression.array_values import gpu_array
from lanescope.compression.deciding import Decision, Sampled, Transfer
from lanescope.compression.stream import Codec
from lanescope.errors import MissingPartError
from tests.compression.gpu_stand_ins import Core, stand_in

Tensor = stand_in("torch")
CupyArray = stand_in("cupy")
VALUES = np.arange(1 << 15, dtype=np.float32)


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    """Two GPUs and cores that are none."""
    made = []

    def core(*options):
        made.append(Core(*options))
        return made[-1]

    monkeypatch.setattr(module.native, "cuda_devices", lambda: [None, None])
    monkeypatch.setattr(module.native, "DeviceChannel", core)
    monkeypatch.setattr(module.native, "HostChannel", core)
    monkeypatch.setattr(module.native, "reach_each_other", lambda one, other: True)
    monkeypatch.setattr(module, "current_stream", lambda framework, gpu: 1000 + gpu)
    monkeypatch.setattr(
        module,
        "new_array",
        lambda framework, shape, dtype, gpu: Tensor(
            np.empty(shape, str(dtype).removeprefix("torch.")), gpu
        ),
    )

    monkeypatch.setattr(deciding.native, "choose_codec", chosen_on_host)
    return made


def chosen_on_host(gpu, source, size, dtype, stream):
    """What the core chooses for an array whose pointer is one of the host's memory."""
    data = np.frombuffer((ctypes.c_uint8 * size).from_address(source), np.uint8)
    words = data.view("uint8" if dtype is native.Dtype.bytes else dtype.name)
    layout = native.stream_layout(native.compress(words, None, dtype))
    return layout.codec, layout.dimensionality


class Noting:
    """A decider that compresses as told, and notes what it learns."""

    def __init__(self, *, compress=True, codec="auto", dimensionality=1):
        self.decision = Decision(compress, codec, dimensionality, 2e-3, 1e-3, "told so")
        self.asked, self.learnt = [], []

    def decide(self, transfer):
        self.asked.append(transfer)
        return self.decision

    def learn(self, transfer, decision, outcome):
        self.learnt.append((transfer, decision, outcome))


def test_without_a_driver_a_channel_says_what_to_install(monkeypatch):
    def refuse():
        raise native.NativeError(
            "cudaGetDeviceCount", 35, "cudaErrorInsufficientDriver", "insufficient", "devices.cpp:1"
        )

    monkeypatch.setattr(module.native, "cuda_devices", refuse)
    with pytest.raises(MissingPartError, match=r"There is no NVIDIA driver.* Install driver"):
        lanescope.Channel(0, "host")


def test_an_array_is_sent_with_its_codec_and_streams(cores):
    channel = lanescope.Channel(0, 1, compression="on", codec="delta", sms=7, slots=3)
    tensor = Tensor(VALUES)
    out = channel.send(tensor, "weights")
    assert cores[0].options[:5] == (0, 1, 128 << 20, 3, 7)
    assert cores[0].options[6] == native.Via.peer
    assert cores[0].calls == [
        (tensor.data_ptr(), out.data_ptr(), VALUES.nbytes, native.Codec.delta,
         native.Dtype.float32, 1, 1000, 1001),
    ]  # fmt: skip
    assert (out.gpu, out.shape, out.dtype) == (1, tensor.shape, tensor.dtype)
    transfer = channel.last.transfer
    assert (transfer.tag, transfer.path, transfer.dtype) == ("weights", "g0>g1", "float32")
    assert channel.last.outcome is None
    cores[0].tickets[0].ended = True
    assert channel.last.outcome.wire_bytes == VALUES.nbytes


def test_gpus_that_do_not_reach_each_other_send_over_the_host(cores, monkeypatch):
    monkeypatch.setattr(module.native, "reach_each_other", lambda one, other: False)
    channel = lanescope.Channel(0, 1)
    assert cores[0].options[2:5] == (32 << 20, 4, 0)
    assert cores[0].options[6] == native.Via.host
    channel.send(Tensor(VALUES))
    assert channel.last.transfer.path == "g0>host>g1"
    lanescope.Channel(0, 1, via="peer")
    assert cores[1].options[6] == native.Via.peer


def test_kernels_are_loaded_before_they_are_needed_and_once(cores):
    channel = lanescope.Channel(0, 1)
    for _ in range(2):
        channel.send(Tensor(VALUES))
    codecs = native.Codec.delta, native.Codec.exponent, native.Codec.zvc
    assert cores[0].loaded == [(one, native.Dtype.float32) for one in codecs]
    lanescope.Channel(0, 1, compression="off").send(Tensor(VALUES))
    assert cores[1].loaded == []


def test_an_array_that_the_codec_does_not_take_goes_raw_each_time(cores):
    channel = lanescope.Channel(0, 1, codec="exponent")
    for _ in range(2):
        channel.send(Tensor(VALUES.view(np.int32)))
    assert cores[0].loaded == []
    assert [call[3] for call in cores[0].calls] == [None, None]


def test_kernels_that_do_not_load_are_told_where_they_are_needed(cores, monkeypatch):
    def refuse(self, *given):
        raise native.NativeError("call", 0, "bad choice", "too few bytes of shared memory", "here")

    channel = lanescope.Channel(0, 1)
    monkeypatch.setattr(type(cores[0]), "load", refuse)
    channel.send(Tensor(VALUES))
    assert len(cores[0].calls) == 1


def test_values_go_into_the_array_that_is_given(cores):
    channel = lanescope.Channel(0, 1, compression="off")
    out = CupyArray(np.empty(VALUES.nbytes, np.uint8), gpu=1)
    assert channel.send(Tensor(VALUES), out=out) is out
    assert cores[0].calls[0][1] == out.data_ptr()
    assert cores[0].calls[0][3] is None


def test_the_decider_is_asked_and_learns_when_a_transfer_has_ended(cores):
    decider = Noting(codec="gfc", dimensionality=5)
    channel = lanescope.Channel(0, 1, compression=decider)
    channel.send(Tensor(VALUES), "x")
    assert cores[0].calls[0][3:6] == (native.Codec.gfc, native.Dtype.float32, 5)
    channel.send(Tensor(VALUES), "y")
    assert decider.learnt == []
    cores[0].tickets[0].ended = True
    channel.send(Tensor(VALUES), "z")
    ((transfer, decision, outcome),) = decider.learnt
    assert (transfer.tag, decision.codec, outcome.compressed) == ("x", "gfc", True)
    channel.synchronize()
    assert [transfer.tag for transfer, _, _ in decider.learnt] == ["x", "y", "z"]


def test_some_blocks_tell_the_codec_once_for_each_tag_and_type(cores, monkeypatch):
    asked = []
    monkeypatch.setattr(
        module, "choose", lambda array, stream: (asked.append(array), deciding.choose(array, 0))[1]
    )
    channel = lanescope.Channel(0, 1, compression="on")
    for tag in ("a", "a", "b"):
        channel.send(Tensor(VALUES), tag)
    assert len(asked) == 2
    assert cores[0].calls[0][3] is native.Codec.alp  # of integers


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize("value", [0, 3])
def test_a_constant_array_goes_compressed(cores, dtype, value):
    values = np.full(1 << 18, value, dtype)
    channel = lanescope.Channel(0, 1, compression="on")
    channel.send(Tensor(values))
    expected = native.Codec.zvc if dtype == "uint8" else native.Codec.delta
    assert cores[0].calls[0][3] is expected


def test_what_no_codec_makes_smaller_goes_raw(cores):
    noise = np.random.default_rng(1).integers(0, 256, 1 << 17, np.uint8)
    channel = lanescope.Channel(0, 1, compression="on")
    channel.send(Tensor(noise.view(np.float32)))
    assert cores[0].calls[0][3] is None
    assert "no codec makes it smaller" in channel.last.decision.reason


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("bfloat16", "bfloat16"), ("bool", "bytes"), ("complex64", "float32"), ("int8", "int8")],
)
def test_types_are_told_to_the_core(cores, dtype, kind):
    channel = lanescope.Channel(0, 1, compression="off")
    size = {"bfloat16": np.uint16, "bool": np.uint8, "int8": np.int8}.get(dtype, np.complex64)
    out = Tensor(np.empty(8, size), gpu=1)
    channel.send(Tensor(np.zeros(8, size), dtype=dtype), out=out)
    assert cores[0].calls[0][4] is native.Dtype[kind]


def test_nothing_is_sent_of_an_array_without_values(cores):
    channel = lanescope.Channel(0, 1, compression="on")
    channel.send(Tensor(np.empty((0, 3), np.float32)))
    assert cores[0].calls[0][2:4] == (0, None)


def test_arrays_go_to_the_host_and_back(cores):
    channel = lanescope.Channel(1, "host", compression="on", codec="exponent", restore_by="mapped")
    assert cores[0].options[0] == 1
    assert cores[0].options[3] == 0
    assert cores[0].options[-1] is native.RestoreBy.mapped
    tensor = Tensor(VALUES.reshape(2, -1), gpu=1)
    parcel = channel.offload(tensor, "kv")
    assert (parcel.shape, parcel.tag, parcel.ratio) == ((2, 1 << 14), "kv", 2.0)
    back = channel.restore(parcel)
    assert (back.shape, back.gpu) == (tensor.shape, 1)
    assert [one.transfer.path for one in channel.log] == ["g1>host", "host>g1"]
    out = Tensor(np.empty_like(VALUES), gpu=1)
    assert channel.restore(parcel, out=out) is out


def test_a_stream_goes_on_until_it_is_joined(cores):
    channel = lanescope.Channel(0, "host", compression="off")
    parcel, left = channel.begin_offload(Tensor(VALUES), "kv")
    back = channel.begin_restore(parcel, Tensor(np.empty_like(VALUES)))
    channel.restore(parcel, out=Tensor(np.empty_like(VALUES)))
    assert cores[0].joins == [False, False, True]
    assert cores[0].joined == []
    channel.join(left, 7)
    channel.join(back, 0)
    assert cores[0].joined == [(left.ticket, 7), (back.ticket, 0)]
    assert [left.transfer.path, back.transfer.path] == ["g0>host", "host>g0"]
    with pytest.raises(lanescope.InputError, match="goes to a GPU"):
        lanescope.Channel(0, 1).join(left, 0)
    channel.close()
    with pytest.raises(lanescope.InputError, match="closed"):
        channel.join(left, 7)


def test_what_comes_back_by_and_by_has_an_array_of_the_callers(cores):
    """A new one would be freed at once, and its memory be somebody else's while values come."""
    channel = lanescope.Channel(0, "host", compression="off")
    parcel = channel.offload(Tensor(VALUES))
    with pytest.raises(lanescope.InputError, match="begin_restore makes no array; give one"):
        channel.begin_restore(parcel, None)
    assert len(cores[0].calls) == 1


def test_damage_is_told_once_and_the_channel_goes_on(cores):
    decider = Noting(codec="delta")
    channel = lanescope.Channel(0, 1, compression=decider)
    channel.send(Tensor(VALUES))
    cores[0].tickets[0].said = "block 3 of 9 came in damaged"
    with pytest.raises(LanescopeError, match=r"block 3 of 9 .*send it again"):
        channel.last.wait()
    channel.send(Tensor(VALUES))
    cores[0].tickets[1].said = "block 4 of 9 came in damaged"
    cores[0].tickets[1].ended = True
    with pytest.raises(LanescopeError, match="block 4"):
        channel.send(Tensor(VALUES))
    channel.send(Tensor(VALUES))
    channel.synchronize()
    assert len(decider.learnt) == 1


def test_waiting_for_all_tells_of_damage_when_all_have_ended(cores):
    channel = lanescope.Channel(0, 1, compression="off")
    for _ in range(3):
        channel.send(Tensor(VALUES))
    cores[0].tickets[0].said = "block 0 of 2 came in damaged"
    with pytest.raises(LanescopeError, match="block 0"):
        channel.synchronize()
    assert all(ticket.ended for ticket in cores[0].tickets)
    channel.close()


def test_a_closed_channel_says_so(cores):
    with lanescope.Channel(0, "host", compression="off") as channel:
        parcel = channel.offload(Tensor(VALUES))
    assert cores[0].closed
    for use in (lambda: channel.offload(Tensor(VALUES)), lambda: channel.restore(parcel)):
        with pytest.raises(InputError, match="closed"):
            use()
    channel.close()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (VALUES, "no GPU tensor"),
        ([1, 2], "no GPU tensor"),
        (Tensor(VALUES, gpu=None), "not on GPU 0"),
        (Tensor(VALUES, gpu=1), "lies on GPU 1"),
        (CupyArray(VALUES, gpu=1), "lies on GPU 1"),
        (Tensor(VALUES, whole=False), "contiguous"),
        (CupyArray(VALUES, whole=False), "contiguous"),
    ],
)
def test_arrays_that_cannot_be_sent_are_refused(values, said):
    channel = lanescope.Channel(0, 1, compression="off")
    with pytest.raises(InputError, match=said):
        channel.send(values)
    assert channel.last is None


def test_room_that_does_not_fit_is_refused():
    channel = lanescope.Channel(0, 1, compression="off")
    for out, said in [
        (Tensor(VALUES[:-1], gpu=1), "131068 bytes, and 131072 come"),
        (Tensor(VALUES, gpu=0), "lies on GPU 0, not on GPU 1"),
        (VALUES, "array for the values is no GPU tensor"),
    ]:
        with pytest.raises(InputError, match=said):
            channel.send(Tensor(VALUES), out=out)


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ((0, 2), {}, "there is no GPU 2; CUDA shows 2"),
        ((-1, 1), {}, "source cannot be -1; give a whole number"),
        ((0, "disk"), {}, "'disk' is no place"),
        (("0", 1), {}, "source cannot be '0'; give a whole number"),
        ((0, 1), {"codec": "zip"}, "there is no codec 'zip'"),
        ((0, 1), {"compression": "maybe"}, "give auto, on or off"),
        ((0, 1), {"via": "air"}, "do not go via 'air'; give auto, peer or host"),
        ((0, "host"), {"restore_by": "magic"}, "give staged or mapped"),
    ],
)
def test_channels_that_cannot_be_are_refused(given, options, said):
    with pytest.raises(InputError, match=said):
        lanescope.Channel(*given, **{"compression": "off", **options})


def test_the_wrong_verb_is_refused():
    there, host = (lanescope.Channel(0, end, compression="off") for end in (1, "host"))
    parcel = host.offload(Tensor(VALUES))
    for use in (lambda: there.offload(Tensor(VALUES)), lambda: there.restore(parcel)):
        with pytest.raises(InputError, match="goes to a GPU"):
            use()
    with pytest.raises(InputError, match="goes to the host"):
        host.send(Tensor(VALUES))
    with pytest.raises(InputError, match="parcel cannot be of type ndarray; give a Parcel"):
        host.restore(VALUES)


def test_a_view_of_a_tensor_of_somebody_elses_type_is_known():
    mine = type("Mine", (Tensor,), {"__module__": "mine"})
    assert gpu_array(mine(VALUES), 0, "it").framework == "torch"


def test_damage_after_a_wait_that_was_too_short_is_told(cores):
    channel = lanescope.Channel(0, 1, compression="on", codec="delta")
    channel.send(Tensor(VALUES))
    ticket = cores[0].tickets[0]

    def too_late(patience_s):
        raise native.NativeError("wait", 0, "too late", "it has not ended", "here")

    ticket.wait = too_late
    with pytest.raises(LanescopeError, match="not ended"):
        channel.last.wait(0.1)
    ticket.ended, ticket.said = True, "block 3 of 9 came in damaged"
    with pytest.raises(LanescopeError, match="block 3 of 9"):
        channel.send(Tensor(VALUES))


def test_restores_tell_of_damage_before_them(cores):
    channel = lanescope.Channel(0, "host", compression="on", codec="delta")
    parcel = channel.offload(Tensor(VALUES))
    channel.restore(parcel)
    for ticket in cores[0].tickets:
        ticket.ended = True
    cores[0].tickets[1].said = "block 1 of 2 came in damaged"
    with pytest.raises(LanescopeError, match="block 1 of 2"):
        channel.restore(parcel)
    channel.restore(parcel)


def test_a_tensor_that_means_other_values_than_it_holds_is_refused():
    lazy = Tensor(VALUES)
    lazy.conjugated = True
    with pytest.raises(InputError, match="resolve_conj"):
        gpu_array(lazy, 0, "it")
    sparse = Tensor(VALUES)
    sparse.layout = "torch.sparse_coo"
    with pytest.raises(InputError, match="to_dense"):
        gpu_array(sparse, 0, "it")


def test_a_record_tells_how_far_the_prediction_was_off(cores):
    decider = Noting(codec="delta")
    channel = lanescope.Channel(0, 1, compression=decider)
    channel.send(Tensor(VALUES))
    assert channel.last.error is None
    cores[0].tickets[0].ended, cores[0].tickets[0].seconds = True, 2e-3
    # compressed_seconds of the decision: 1 ms
    assert channel.last.error == pytest.approx(-0.5)
    channel.send(Tensor(VALUES))
    cores[0].tickets[1].ended = True
    cores[0].tickets[1].compressed = False  # there was no room: nothing was predicted of that
    assert channel.last.error is None


class Looker:
    """Finds that `zvc` leaves a quarter, once the test says that its copies have ended."""

    def __init__(self):
        self.begun, self.ended = [], False

    @property
    def is_free(self):
        return len(self.begun) == 0 or self.ended

    def begin(self, *given):
        self.begun.append(given)
        self.ended = False

    def take(self):
        return (
            [(native.Codec.zvc, 1, 0.25, native.UpdateKind.none)]
            if self.begun and self.ended
            else None
        )


class Sampling(Noting):
    """A decider that wants to look at every array."""

    def __init__(self):
        super().__init__(compress=False)
        self.sampled = []

    def wants_sample(self, transfer):
        return True

    def take_sample(self, transfer, sampled):
        self.sampled.append((transfer.tag, list(sampled)))


@pytest.fixture
def lookers(monkeypatch):
    made = []
    monkeypatch.setattr(
        deciding.native, "Looker", lambda: made.append(Looker()) or made[-1], raising=True
    )
    return made


def test_blocks_are_looked_at_behind_the_stream_and_nothing_waits(cores, lookers):
    decider = Sampling()
    channel = lanescope.Channel(0, 1, compression=decider)
    tensor = Tensor(VALUES)
    for tag in "ab":
        channel.send(tensor, tag)
    assert lookers[0].begun == [
        (0, tensor.data_ptr(), VALUES.nbytes, native.Dtype.float32, None, 1000)
    ]
    assert decider.sampled == []
    lookers[0].ended = True
    channel.send(tensor, "c")
    assert decider.sampled == [("a", [Sampled("zvc", 1, 0.25)])]
    assert len(lookers[0].begun) == 2


def test_a_look_that_fails_is_left_to_the_transfer(cores, lookers, monkeypatch):
    def refuse(self, *given):
        raise native.NativeError("cudaHostAlloc", 2, "no memory", "none left", "here")

    monkeypatch.setattr(Looker, "begin", refuse)
    decider = Sampling()
    lanescope.Channel(0, 1, compression=decider).send(Tensor(VALUES), "a")
    assert decider.sampled == [("a", [])]
    assert len(cores[0].calls) == 1


def test_deciders_without_looks_get_none(cores, lookers):
    lanescope.Channel(0, 1, compression=Noting()).send(Tensor(VALUES))
    assert lookers[0].begun == []


def test_what_no_codec_made_smaller_is_looked_at_again(cores):
    """The first array of a kind may be unlike those that follow."""
    channel = lanescope.Channel(0, 1, compression="on")
    noise = np.random.default_rng(1).integers(0, 2**32, VALUES.size, np.uint32)
    channel.send(Tensor(noise.view(np.float32)), "x")
    for _ in range(2 * deciding.Choices.RAW_USES):
        channel.send(Tensor(np.full_like(VALUES, 1.5)), "x")
    assert cores[0].calls[1][3] is None
    assert cores[0].calls[-1][3] is native.Codec.delta


def test_codecs_of_so_many_kinds_are_held():
    choices = deciding.Choices()
    for number in range(3000):
        choices.of(Transfer(f"t{number}", "g0>g1", "float32", 1), lambda: (Codec.DELTA, 1))
    assert len(choices._chosen) == choices.MOST
