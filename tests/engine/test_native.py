"""The native backend's own decisions, with the machine's parts made up."""

import contextlib
import dataclasses
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from lanescope import interruption
from lanescope.copies import Copy, Engine, Experiment, Memory, Place, Timing
from lanescope.engine import native as module
from lanescope.engine.native import NativeBackend
from lanescope.engine.sampling import Plan, measure_all
from lanescope.engine.sessions import GpuSession
from lanescope.errors import InputError, NotMeasuredError
from lanescope.studies import running
from lanescope.studies.running import Setup, Stage, run_stages
from tests.conftest import experiment_of, gpu_to_host, host_to_gpu
from tests.engines import Engines
from tests.fake_backend import FakeBackend


class Copies:
    """Stands in for the core's CopySet: every copy takes the same time."""

    def __init__(self, seconds, wrong=0):
        self.seconds = seconds
        self.wrong = wrong
        self.calls = []

    def run_gated(self, windows, loops, shares=()):
        self.calls.append((windows, loops))
        of_each = shares or [1] * len(self.seconds)
        return [
            list(np.arange(windows + 1) * s * loops * share)
            for s, share in zip(self.seconds, of_each, strict=True)
        ]

    def run_on_host_clock(self, windows):
        since_the_first_use = 100.0
        return [list(since_the_first_use + np.arange(windows + 1) * s) for s in self.seconds]

    def count_mismatches(self):
        return self.wrong

    def staged(self, copy):
        return False


class Nvml:
    def __init__(self, load=0, others=(), link=(5, 16), replays=(0, 0)):
        self.load, self.others, self.link = load, list(others), link
        self.replays = list(replays)

    def busy(self, uuid):
        return self.load, self.others

    def link_state(self, uuid):
        return self.link

    def replay_counter(self, uuid):
        return self.replays.pop(0)


@pytest.fixture
def known(two_gpus):
    gpus = tuple(dataclasses.replace(g, uuid=f"GPU-{g.index}") for g in two_gpus.gpus)
    return dataclasses.replace(two_gpus, gpus=gpus)


def backend(machine, nvml, monkeypatch, **options):
    monkeypatch.setattr(NativeBackend, "_open_nvml", lambda self: nvml)
    return NativeBackend(machine, **options)


def host_threads(source, destination, size):
    places = (Place(part, Memory.PAGEABLE) for part in (source, destination))
    return Copy(*places, size, Engine.CPU)


def reason(backend, experiment):
    with pytest.raises(NotMeasuredError) as caught, backend.prepare(experiment):
        pass
    return caught.value.reason


def test_a_described_machine_cannot_be_measured(two_gpus):
    with pytest.raises(InputError, match="described, not here"):
        NativeBackend(dataclasses.replace(two_gpus, described=True))


def test_a_busy_gpu_is_left_alone(known, monkeypatch):
    down = experiment_of(host_to_gpu())
    busy = Nvml(load=87, others=[4242])
    assert "87 % load, used by process 4242" in reason(backend(known, busy, monkeypatch), down)
    asked = []
    monkeypatch.setattr(NativeBackend, "_gpu_session", lambda self, e, g: asked.append(e))
    with backend(known, busy, monkeypatch, allow_busy=True).prepare(down):
        pass
    with backend(known, Nvml(load=87), monkeypatch).prepare(down):
        pass  # a load without another process is our own
    assert [e.name for e in asked] == [down.name] * 2


def test_an_unavailable_gpu_says_why(known, monkeypatch):
    gpus = (dataclasses.replace(known.gpus[0], unavailable="MIG is on."), known.gpus[1])
    machine = dataclasses.replace(known, gpus=gpus)
    assert reason(backend(machine, None, monkeypatch), experiment_of(host_to_gpu())) == "MIG is on."


def test_no_copy_runs_on_another_gpu_than_the_one_that_is_named(known, monkeypatch):
    ran = []
    monkeypatch.setattr(NativeBackend, "_gpu_session", lambda self, e, g: ran.append(e.name))
    addresses = [f"0000:{bus}:00.0" for bus in ("17", "65")]
    gpus = tuple(
        dataclasses.replace(gpu, pci_address=address)
        for gpu, address in zip(known.gpus, addresses, strict=True)
    )
    machine = dataclasses.replace(known, gpus=gpus)
    for seen in (addresses, addresses[::-1], addresses[1:], []):
        devices = [{"index": i, "pci_address": address} for i, address in enumerate(seen)]
        monkeypatch.setattr(module.native, "cuda_devices", lambda devices=devices: devices)
        native = backend(machine, None, monkeypatch)
        for gpu, address in enumerate(addresses):
            experiment = experiment_of(host_to_gpu(gpu=gpu), name=f"{address} of {len(seen)}")
            if seen[gpu : gpu + 1] == [address]:
                with native.prepare(experiment):
                    assert ran.pop() == experiment.name
            else:
                told = reason(native, experiment)
                assert told.startswith(f"g{gpu} is the GPU at {address}; by its number")
    assert not ran


def test_a_lost_gpu_is_not_tried_again_and_the_other_is(known, monkeypatch):
    tried = []

    def session(self, experiment, gpus):
        tried.append(experiment.name)
        if gpus[0].index == 0:
            error = ("cudaStreamQuery", 719, "cudaErrorLaunchFailure", "unspecified", "gate.cpp:1")
            raise module.native.NativeError(*error)

    monkeypatch.setattr(NativeBackend, "_gpu_session", session)
    native = backend(known, None, monkeypatch)
    first = reason(native, experiment_of(host_to_gpu(), name="first"))
    assert "failed in the middle" in first
    assert reason(native, experiment_of(gpu_to_host(), name="second")) == first
    with native.prepare(experiment_of(host_to_gpu(gpu=1), name="other")):
        pass
    assert tried == ["first", "other"]


def test_more_host_memory_than_there_is(known, monkeypatch):
    monkeypatch.setattr(module, "available_host_bytes", lambda: 100 << 20)
    needs = reason(backend(known, None, monkeypatch), experiment_of(host_to_gpu(512 << 20)))
    assert "needs 512 MiB of host memory, 100 MiB are available" in needs


def test_memory_that_earlier_experiments_left_is_given_back_where_it_lacks(known, monkeypatch):
    native = backend(known, None, monkeypatch)
    free = [100 << 20]
    monkeypatch.setattr(module, "available_host_bytes", lambda: free[0])
    given_back = SimpleNamespace(drop_free=lambda: free.append(free.pop() + (1 << 30)))
    monkeypatch.setattr(native, "_pool", given_back)
    native._require_host_memory(experiment_of(host_to_gpu(512 << 20)))
    assert free[0] > 1 << 30


def test_no_more_is_bound_to_a_node_than_it_has(two_sockets, monkeypatch):
    monkeypatch.setattr(module, "available_host_bytes", lambda: 64 << 30)
    monkeypatch.setattr(module, "available_node_bytes", lambda node: (1, 10)[node] << 30)
    copy = host_threads("h1", "h0", 2 << 30)
    needs = reason(backend(two_sockets, None, monkeypatch), experiment_of(copy))
    assert "needs 2048 MiB of the memory of h0, 1024 MiB are available" in needs


def test_cpus_that_are_not_named_are_those_of_the_node(two_sockets, monkeypatch):
    native = backend(two_sockets, None, monkeypatch)
    monkeypatch.setattr(NativeBackend, "_gpu_session", lambda self, e, g: e)
    with native.prepare(experiment_of(host_to_gpu())) as experiment:
        assert experiment.copies[0].cpus == (0, 1)
    monkeypatch.setattr(module, "HostSession", lambda topology, pool, e, device: e)
    monkeypatch.setattr(module, "require_cpus", lambda experiment: None)  # has fewer than these
    with native.prepare(experiment_of(host_threads("h1", "h1", 64))) as experiment:
        assert experiment.copies[0].cpus == (2, 3)


def test_host_threads_take_whole_numbers_only(two_sockets, monkeypatch):
    native = backend(two_sockets, None, monkeypatch)
    for size in (4, 15):
        assert "cannot share" in reason(native, experiment_of(host_threads("h0", "h0", size)))


@pytest.mark.parametrize("copies", [1, 2, 8, 300])
def test_many_short_copies_still_get_windows(known, copies):
    core = Copies([0.6e-3] * copies)
    session = GpuSession(core, experiment_of(*[host_to_gpu()] * copies), known.gpus[:1], None)
    for _ in range(3):
        session.sample()
    assert min(min(windows, loops) for windows, loops in core.calls) >= 1
    assert session.sample()[0].size > 0


def test_a_clock_that_stands_still_divides_nothing(known):
    session = GpuSession(Copies([0.0]), experiment_of(host_to_gpu(64)), known.gpus[:1], None)
    assert session.sample()[0].size == 6


def test_large_short_copies_are_timed_in_trains(known):
    copies = Copies([1.4e-3])
    session = GpuSession(copies, experiment_of(host_to_gpu()), known.gpus[:1], None)
    assert session.sample()[0].size == 0  # the first batch only tells how long a copy takes
    assert session.sample()[0] == pytest.approx([1.4e-3] * 6)
    assert copies.calls[1][1] == 3  # 3 × 1.4 ms is past 4 ms


def test_small_copies_are_timed_one_by_one(known):
    copies = Copies([3e-6])
    session = GpuSession(copies, experiment_of(host_to_gpu(64)), known.gpus[:1], None)
    session.sample()
    session.sample()
    assert [loops for _, loops in copies.calls] == [1, 1]


def test_the_queue_behind_the_gate_stays_short(known):
    copies = Copies([1e-7, 1e-7])
    both = experiment_of(host_to_gpu(64), gpu_to_host(64))
    session = GpuSession(copies, both, known.gpus[:1], None)
    for _ in range(5):
        session.sample()
    assert max(2 * 2 * windows * loops for windows, loops in copies.calls) <= 400


def test_a_copy_that_ends_early_does_more(known):
    copies = Copies([1e-3, 10e-3])
    both = experiment_of(host_to_gpu(64), gpu_to_host(64))
    session = GpuSession(copies, both, known.gpus[:1], None)
    assert session.sample()[1].size == 0
    seconds = session.sample()
    assert [s.size > 2 for s in seconds] == [True, True]
    assert "so that all copies run throughout" in session.method
    assert [np.median(s) for s in seconds] == pytest.approx([1e-3, 10e-3])


@pytest.mark.parametrize("seconds", [[20e-6], [70e-6, 60e-6], [1e-3], [10e-3]])
def test_kernels_keep_their_windows_however_many_copies_are_in_each(known, seconds):
    core = Copies(seconds)
    directions = [dataclasses.replace(host_to_gpu(64), engine=Engine.SM)] * len(seconds)
    session = GpuSession(core, experiment_of(*directions), known.gpus[:1], None)
    batches = [session.sample() for _ in range(4)]
    assert min(windows for windows, _ in core.calls) >= 6
    assert all(s.size > 0 for s in batches[-1])


class Late(Copies):
    """Threads of which each starts when the one before it has ended."""

    def run_on_host_clock(self, windows):
        self.calls.append((windows, 1))
        ends = np.arange(1, windows + 2)
        return [list(1e6 + 50e-6 * i + ends * s) for i, s in enumerate(self.seconds)]


def test_a_thread_that_starts_late_takes_no_turns(known):
    both = Experiment("x", "x", (host_to_gpu(64), gpu_to_host(64)), Timing.HOST)
    session = GpuSession(Late([5e-6, 5e-6]), both, known.gpus[:1], None)
    assert session.sample()[0].size == 0
    shared = session.sample()[0]
    assert shared == pytest.approx([5e-6] * shared.size, rel=1e-3)
    assert shared.size > 0
    assert session.turns().groups == ()


def test_copies_that_take_turns_share_the_time_of_all(known):
    copies = Engines([2e-3, 2e-3, 2e-3], [[0, 1, 2]])
    three = experiment_of(*[host_to_gpu(64)] * 3)
    session = GpuSession(copies, three, known.gpus[:1], None)
    for _ in range(3):  # a second batch has to say the same; by the third they have a queue
        assert [s.size for s in session.sample()] == [0, 0, 0]
    assert [set(s.round(9)) for s in session.sample()] == [{6e-3}] * 3
    assert session.turns().groups == ((0, 1, 2),)
    assert "takes in turns are queued window by window" in session.method


def test_corrupted_data_is_never_a_bandwidth(known):
    session = GpuSession(Copies([1e-3], wrong=3), experiment_of(host_to_gpu()), (), None)
    with pytest.raises(NotMeasuredError, match="3 bytes arrived wrong"):
        session.check()


def test_link_state_and_replays_are_evidence(known):
    nvml = Nvml(link=(4, 16), replays=(10, 17))
    session = GpuSession(Copies([1e-3]), experiment_of(host_to_gpu()), known.gpus[:1], nvml)
    (seen,) = session.evidence()
    assert (seen.part, seen.generation, seen.width, seen.replays) == ("g0", 4, 16, 7)


def test_the_host_clock(known):
    copy = Experiment("x", "x", (host_to_gpu(64),), Timing.HOST)
    session = GpuSession(Copies([5e-6]), copy, known.gpus[:1], None)
    assert session.sample()[0] == pytest.approx([5e-6] * 6)
    assert "host clock" in session.method
    assert session.shortest_seconds == pytest.approx(3 * 5e-6)


def test_sampling_by_the_host_clock_goes_on_long_after_it_began(known):
    copy = Experiment("x", "x", (host_to_gpu(64),), Timing.HOST)
    copies = Copies([5e-6])
    copies.run_on_host_clock = lambda windows: [
        list(100 + np.cumsum(np.random.default_rng(1).uniform(0, 1e-5, windows + 1)))
    ]

    class Backend(FakeBackend):
        @contextlib.contextmanager
        def prepare(self, experiment):
            yield GpuSession(copies, experiment, known.gpus[:1], None)

    results = []
    plan = Plan(target=1e-5, budget_seconds=0.1)
    measure_all([copy], Backend(lambda *_: []), known, plan, results.append)
    assert results[0].stop.spent_seconds >= 0.09


class Pool:
    """Stands in for the core's BufferPool, whose memory takes a while to be given back."""

    def __init__(self):
        self.begun, self.may_end, self.dropped = threading.Event(), threading.Event(), False

    def drop_free(self):
        self.begun.set()
        self.may_end.wait()
        self.dropped = True


def test_memory_is_given_back_in_the_background(two_gpus):
    backend, pool = NativeBackend(two_gpus), Pool()
    backend._pool = pool
    backend.give_back()
    pool.begun.wait()
    assert not pool.dropped
    pool.may_end.set()
    NativeBackend(two_gpus)  # takes no memory before the other has given its own back
    assert pool.dropped


@pytest.mark.parametrize("command", [True, False])
def test_a_program_has_its_memory_back_on_return(two_gpus, tmp_path, monkeypatch, command):
    given = []

    class Giving(FakeBackend):
        def give_back(self):
            given.append(self)

    backend = Giving(lambda copy, batch: [0.01] * 6)
    monkeypatch.setattr(running, "backend_for", lambda *_, **__: backend)
    monkeypatch.setattr(interruption, "began_at", lambda: 1.0 if command else None)
    stage = Stage([experiment_of(host_to_gpu())], Plan())
    run_stages(two_gpus, [stage], Setup("copy", False, tmp_path / "run", None))
    assert given == [backend] * command
