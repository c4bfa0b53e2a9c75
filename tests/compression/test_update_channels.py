"""Updates in channels: the Python side, with a core and arrays that take the place of a GPU's."""

from __future__ import annotations

import numpy as np
import pytest

import lanescope
from lanescope import InputError, LanescopeError
from lanescope._core import native
from lanescope.compression import channel as module
from lanescope.compression import channel_setup, deciding
from lanescope.compression.deciding import Decision, Sampled, Transfer
from tests.compression.gpu_stand_ins import Core, stand_in

Tensor = stand_in("torch")
NEW, OLD = (np.arange(1 << 15, dtype=np.float32) + one for one in (1, 0))
KIND = native.UpdateKind


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
    return made


class Noting:
    """A decider that compresses by a codec, and notes what it is asked."""

    def __init__(self, codec="zvc", *, compress=True):
        self.decision = Decision(compress, codec, 1, None, None, "told so")
        self.asked, self.sampled = [], []

    def decide(self, transfer):
        self.asked.append(transfer)
        return self.decision

    def learn(self, transfer, decision, outcome):
        pass


def test_differences_are_sent_and_learnt_about_apart(cores):
    decider = Noting()
    channel = lanescope.Channel(0, 1, compression=decider)
    new, old, there = Tensor(NEW), Tensor(OLD), Tensor(OLD.copy(), 1)
    assert channel.send(new, "w", out=there, base=old) is there
    channel.send(new, "w", out=there)
    update, whole = cores[0].calls
    assert update[8:] == (KIND.subtraction, old.data_ptr())
    assert update[:8] == whole
    sizes = "float32", NEW.nbytes
    assert decider.asked == [
        Transfer("w", "update g0>g1", *sizes),
        Transfer("w", "g0>g1", *sizes),
    ]


def test_what_is_decided_to_go_raw_goes_whole(cores):
    channel = lanescope.Channel(0, 1, compression="off")
    channel.send(Tensor(NEW), out=Tensor(OLD, 1), base=Tensor(OLD))
    assert cores[0].calls[0][3] is None
    assert len(cores[0].calls[0]) == 8
    assert not channel.last.has_base


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (Tensor(OLD, 1), "the base lies on GPU 1, not on GPU 0"),
        (Tensor(OLD[1:]), r"the base is float32 of shape \(32767,\), and the array float32 of"),
        (Tensor(OLD.view(np.int32)), "the base is int32 of shape"),
        (OLD, "the base is no GPU tensor"),
        (Tensor(OLD, whole=False), "the base has gaps"),
    ],
)
def test_another_base_is_refused(cores, base, words):
    channel, out = lanescope.Channel(0, 1, compression="on", codec="zvc"), Tensor(OLD, 1)
    with pytest.raises(InputError, match=words):
        channel.send(Tensor(NEW), out=out, base=base)
    with pytest.raises(InputError, match=words):
        lanescope.Channel(0, "host", compression="on").offload(Tensor(NEW), base=base)
    assert not any(one.calls for one in cores)


def test_an_update_needs_the_array_there(cores):
    channel = lanescope.Channel(0, 1)
    with pytest.raises(InputError, match="is put onto the array that GPU 1 holds; name it with"):
        channel.send(Tensor(NEW), base=Tensor(OLD))


def test_parcels_say_whether_they_need_a_base(cores):
    channel = lanescope.Channel(0, "host", compression="on", codec="zvc")
    new, old, there = Tensor(NEW), Tensor(OLD), Tensor(OLD)
    update, whole = channel.offload(new, base=old), channel.offload(new)
    assert (update.has_base, whole.has_base) == (True, False)
    assert cores[0].calls[0][6:] == (KIND.subtraction, old.data_ptr())
    with pytest.raises(InputError, match="offloaded with a base; give restore the same values"):
        channel.restore(update, out=there)
    with pytest.raises(InputError, match="holds the whole array and needs no base; leave out"):
        channel.restore(whole, out=there, base=there)
    for wrong in (Tensor(OLD[1:]), Tensor(OLD.view(np.int32))):
        with pytest.raises(InputError, match=r"the base has .* give the array that it was offload"):
            channel.restore(update, out=there, base=wrong)
    assert channel.restore(update, out=there, base=there) is there
    assert cores[0].calls[-1] == (update.held, there.data_ptr(), 1000, there.data_ptr())
    odd = Tensor(np.zeros(NEW.size + 1, np.float32)[1:])
    if odd.data_ptr() % 16:
        with pytest.raises(InputError, match="the base does not begin at a multiple of 16"):
            channel.restore(update, out=there, base=odd)


def test_a_parcel_that_went_raw_takes_its_base_all_the_same(cores):
    channel = lanescope.Channel(0, "host", compression="off")
    parcel = channel.offload(Tensor(NEW), base=Tensor(OLD))
    with pytest.raises(InputError, match="offloaded with a base"):
        channel.restore(parcel, out=Tensor(OLD))
    channel.restore(parcel, out=Tensor(OLD), base=Tensor(OLD))


def test_the_first_update_of_a_kind_is_looked_at(cores, monkeypatch):
    looks = []

    def look(gpu, source, base, size, dtype, over_host, stream):
        looks.append((gpu, source, base, size, dtype, over_host, stream))
        return native.Codec.zvc, 1, KIND.xor

    monkeypatch.setattr(channel_setup.native, "choose_update", look)
    monkeypatch.setattr(deciding.native, "choose_codec", lambda *_: (native.Codec.delta, 1))
    channel = lanescope.Channel(0, 1, compression="on")
    new, old, there = Tensor(NEW), Tensor(OLD), Tensor(OLD, 1)
    channel.send(new, "w", out=there)
    for _ in range(2):
        channel.send(new, "w", out=there, base=old)
    new_at, old_at = new.data_ptr(), old.data_ptr()
    assert looks == [(0, new_at, old_at, NEW.nbytes, native.Dtype.float32, False, 1000)]
    assert [one[3] for one in cores[0].calls] == [native.Codec.delta] + [native.Codec.zvc] * 2
    assert [one[8] for one in cores[0].calls[1:]] == [KIND.xor] * 2


class Looker:
    """Says at once that xor makes `zvc` smaller."""

    is_free = True

    def __init__(self):
        self.begun = []

    def begin(self, *given):
        self.begun.append(given)

    def take(self):
        return [(native.Codec.zvc, 1, 0.25, KIND.xor)] if self.begun else None


def test_looks_of_the_decider_say_how_differences_are_taken(cores, monkeypatch):
    lookers = []
    monkeypatch.setattr(deciding.native, "Looker", lambda: lookers.append(Looker()) or lookers[-1])
    decider = Noting()
    decider.wants_sample = lambda transfer: True
    decider.take_sample = lambda transfer, sampled: decider.sampled.append((transfer, sampled))
    channel = lanescope.Channel(0, 1, compression=decider)
    new, old, there = Tensor(NEW), Tensor(OLD), Tensor(OLD, 1)
    for _ in range(2):
        channel.send(new, "w", out=there, base=old)
    assert lookers[0].begun[0][6] == old.data_ptr()
    assert decider.sampled == [(decider.asked[0], [Sampled("zvc", 1, 0.25)])]
    assert [one[8] for one in cores[0].calls] == [KIND.subtraction, KIND.xor]


def test_kinds_are_held_of_so_many_arrays():
    kinds = channel_setup.UpdateKinds(over_host=False)
    transfers = [Transfer(str(i), "p", "float32", 4) for i in range(kinds.MOST + 1)]
    for one in transfers:
        kinds.note(one, "zvc", KIND.xor)
    assert kinds.of(transfers[-1], "zvc") is KIND.xor
    assert kinds.of(transfers[0], "zvc") is KIND.subtraction


def test_another_base_is_one_error_with_what_to_do(cores):
    channel = lanescope.Channel(0, 1, compression="on", codec="zvc")
    new, old, there = Tensor(NEW), Tensor(OLD), Tensor(OLD, 1)
    channel.send(new, out=there, base=old)
    ticket = cores[0].tickets[0]
    ticket.said, ticket.ended = "the base differs: GPU 1 holds another array", True
    with pytest.raises(LanescopeError, match="another array; send the whole array, without a base"):
        channel.send(new, out=there, base=old)
    channel.send(new, out=there)


def test_waiting_tells_of_another_base():
    def wait(patience_s):
        raise native.NativeError("wait", 0, "bad update", "the base differs", "here")

    ticket = Core()._ticket((), 4, None)
    ticket.wait = wait
    record = module.Record(Transfer("", "p", "int8", 4), Noting().decision, ticket, has_base=True)
    with pytest.raises(LanescopeError, match=r"^the base differs; send the whole array, without"):
        record.wait()
