"""The measuring core: topology, host threads, gated copies."""

from collections.abc import Sequence
import enum
from enum import Enum
from typing import Annotated

import numpy
from numpy.typing import NDArray

from lanescope._native import testing as testing


def build_info() -> dict[str, str]:
    """What the core was built from and for: version, commit, cuda, code."""

def end_work_in(seconds: float | None) -> None:
    """
    Have long calls of this thread fail, named 'too late', when so much time is over.
    """

class NativeError(RuntimeError):
    """A call of the core failed; args: call, code, name, detail, where."""

class Topology:
    """This machine's topology, read by hwloc."""

    def __init__(self) -> None: ...

    def xml(self) -> str:
        """The whole topology as hwloc XML."""

def topology_xml() -> str:
    """This machine's topology as hwloc XML."""

def node_pages(address: int, bytes: int) -> tuple[dict[int, int], int]:
    """
    Number of pages on each node, and of those that the kernel tells nothing of; of many pages a sample.
    """

def require_on_node(address: int, bytes: int, node: int) -> None:
    """Fails when more than a few pages lie on other nodes."""

def cuda_devices() -> list[dict[str, object]]:
    """What CUDA says of each device it lets this process use."""

class Memory(enum.Enum):
    pageable = 0

    pinned = 1

    write_combined = 2

    mapped = 3

    managed = 4

    huge = 5

    small_pages = 6

    device = 7

    pool = 8

class BlockPattern(enum.Enum):
    repeated = 0

    ascending = 1

    descending = 2

    random = 3

class Route(enum.Enum):
    peer = 0

    uva = 1

    staged = 2

class PlaceSpec:
    """A NUMA node's or a device's memory."""

    def __init__(self, memory: Memory, index: int, address: int = 0) -> None: ...

class Sharing(enum.Enum):
    fabric = 0

    descriptor = 1

    ipc = 2

class SharedMemory:
    """Memory of a device that others can use."""

    def __init__(self, device: int, bytes: int, sharing: Sharing) -> None: ...

    @property
    def address(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def handle(self) -> bytes: ...

    @property
    def descriptor(self) -> int: ...

class AttachedMemory:
    """Another process' memory of a device."""

    def __init__(self, device: int, bytes: int, sharing: Sharing, handle: bytes, descriptor: int = -1) -> None: ...

    @property
    def address(self) -> int: ...

class StagedMemory:
    """Arrays of a device, and pinned host memory that two processes share."""

    def __init__(self, device: int, descriptor: int, bytes: int) -> None: ...

    def to_host(self, begin: int, bytes: int) -> None: ...

    def to_device(self, begin: int, bytes: int) -> None: ...

    def count_mismatches(self, bytes: int) -> int: ...

class SmWork(enum.Enum):
    copy = 0

    read = 1

    write = 2

class SmShape:
    """How a kernel copies."""

    def __init__(self, sms: int, chunk_bytes: int, pace_gbs: float, in_step_with: int = -1, chunk_repeats: int = 1, work: SmWork = SmWork.copy) -> None: ...

class CopySpec:
    """One copy by a device's copy engine or kernel."""

    def __init__(self, source: PlaceSpec, destination: PlaceSpec, bytes: int, device: int, cpus: Sequence[int], sm: SmShape | None, span_bytes: int | None = None, pattern: BlockPattern = BlockPattern.repeated, flushed: bool = False, route: Route = Route.uva) -> None: ...

class BufferPool:
    """Keeps buffers between experiments."""

    def __init__(self, topology: Topology) -> None: ...

    def drop_free(self) -> None:
        """Gives back to the system the buffers that nobody holds."""

class CopySet:
    """Copies by GPUs that run together."""

    def __init__(self, topology: Topology, pool: BufferPool, copies: Sequence[CopySpec]) -> None: ...

    def run_gated(self, windows: int, loops: int, shares: Sequence[int] = [], queues: Sequence[int] = []) -> list[list[float]]:
        """Boundaries of each copy's windows in seconds since its start."""

    def run_on_host_clock(self, windows: int, shares: Sequence[int] = []) -> list[list[float]]:
        """Boundaries of each copy's calls in seconds since a common start."""

    def spoil(self, copy: int, byte: int) -> None:
        """Flips one bit of a destination, for a test of the check."""

    def count_mismatches(self) -> int:
        """Number of destination bytes that differ from their source."""

    def staged(self, copy: int) -> bool:
        """Whether a copy between devices goes through host memory."""

class Operation(enum.Enum):
    copy = 0

    scale = 1

    add = 2

    triad = 3

def has_streaming_stores() -> bool:
    """Whether this build and CPU can write past the cache."""

class HostCopySpec:
    """One copy by pinned host threads."""

    def __init__(self, source: PlaceSpec, destination: PlaceSpec, bytes: int, operation: Operation, cpus: Sequence[int]) -> None: ...

class HostTeam:
    """Threads and arrays for host copies that run together."""

    def __init__(self, topology: Topology, pool: BufferPool, copies: Sequence[HostCopySpec], device: int = 0) -> None: ...

    def run(self, repetitions: int, most_seconds: float = 60.0) -> list[list[tuple[float, float]]]:
        """Begin and end in seconds of each repetition of each copy."""

    def count_mismatches(self) -> int:
        """Number of wrong doubles in the destination arrays."""

    def streaming_stores(self, copy: int) -> bool:
        """Whether a copy writes past the cache, which was faster on trial."""

class BlockCopier:
    """Copies of blocks by one bound host thread."""

    def __init__(self, topology: Topology, pool: BufferPool, source: PlaceSpec, destination: PlaceSpec, bytes: int, span_bytes: int, pattern: BlockPattern, flushed: bool, cpu: int, device: int = 0) -> None: ...

    def run(self, samples: int) -> list[float]:
        """Seconds of one copy, for each sample."""

    def loops(self) -> int:
        """Copies in a sample."""

    def step_bytes(self) -> int:
        """Bytes from one block to the next in memory."""

    def clock_seconds(self) -> float:
        """Seconds that reading the clock adds to one copy."""

    def spoil(self, byte: int) -> None:
        """Flips one bit of the source, for a test of the check."""

    def count_mismatches(self) -> int:
        """
        Number of wrong bytes of the destination after one more copy of each block.
        """

def host_clock_cost() -> float:
    """Seconds that one reading of the host's clock takes."""

class ChaseOrder(enum.Enum):
    sequential = 0

    random = 1

class ChaseProbe:
    """A pointer chase by one thread of a device."""

    def __init__(self, topology: Topology, pool: BufferPool, source: PlaceSpec, device: int, bytes: int, order: ChaseOrder, stride: int, cpus: Sequence[int], by_bulk: bool = False) -> None: ...

    def run(self, samples: int, hops: int) -> list[float]:
        """Seconds of one load for each sample, each on the next multiprocessor."""

    def count_mismatches(self) -> int:
        """Number of chases that did not end where the ring says."""

    def multiprocessors(self) -> int: ...

    def multiprocessors_seen(self) -> int:
        """Number of different multiprocessors that have chased so far."""

class Call(enum.Enum):
    launch = 0

    kernel_sync = 1

    kernel_spin = 2

    copy_submit = 3

    copy_sync = 4

    copy_spin = 5

class CallProbe:
    """What a host thread sees of something small."""

    def __init__(self, topology: Topology, pool: BufferPool, call: Call, source: PlaceSpec, destination: PlaceSpec, bytes: int, device: int, cpus: Sequence[int]) -> None: ...

    def run(self, repetitions: int) -> list[float]:
        """Seconds by the host's clock, one for each repetition."""

    def count_mismatches(self) -> int:
        """Number of bytes of the message that did not arrive."""

class PingPong:
    """A counter passed between a CPU and a GPU."""

    def __init__(self, topology: Topology, pool: BufferPool, words: PlaceSpec, device: int, cpus: Sequence[int]) -> None: ...

    def run(self, turns: int) -> list[float]:
        """Seconds of each round trip."""

class CopyLoad:
    """Copies that keep a path busy."""

    def __init__(self, topology: Topology, pool: BufferPool, copy: CopySpec) -> None: ...

    def start(self, copies: int) -> None:
        """Queues copies and returns when the first has ended and the others run."""

    def completed(self) -> int:
        """Number of copies that have ended."""

    def finish(self) -> list[float]:
        """Waits for all; seconds of each copy."""

    def count_mismatches(self) -> int:
        """Number of destination bytes that differ from their source."""

class Submission(enum.Enum):
    single = 0

    batch = 1

    graph = 2

    kernel = 3

    mapped = 4

class PieceSpec:
    """Equal pieces between a device and host memory."""

    def __init__(self, source: PlaceSpec, destination: PlaceSpec, piece_bytes: int, pieces: int, device: int, submission: Submission) -> None: ...

class PieceSet:
    """Many small copies, handed over in one of several ways."""

    def __init__(self, topology: Topology, pool: BufferPool, spec: PieceSpec, cpus: Sequence[int]) -> None: ...

    def run(self, repetitions: int) -> tuple[list[float], list[float]]:
        """
        Seconds until all pieces have arrived, and until the last call has returned.
        """

    def spoil(self, in_source: bool, byte: int) -> None:
        """Flips one bit of a buffer, for a test of the check."""

    def count_mismatches(self) -> int:
        """
        Number of wrong bytes, gaps included, or of wrong sums where nothing is copied.
        """

class LoadProbe:
    """Single loads of host memory by one host thread."""

    def __init__(self, topology: Topology, pool: BufferPool, source: PlaceSpec, span: int, stride: int, loads: int, chase: ChaseOrder | None, flushed: bool, device: int, cpus: Sequence[int]) -> None: ...

    def run(self, samples: int, loads: int) -> list[float]:
        """
        Seconds of so many loads, for each sample; a gather makes whole passes.
        """

    def count_mismatches(self) -> int:
        """
        Number of samples whose chase did not end where the ring says, or whose sum was wrong.
        """

    def spoil(self) -> None:
        """Changes one word, for a test of the check."""

class AllocationProbe:
    """Asks for memory, touches it and gives it back."""

    def __init__(self, topology: Topology, place: PlaceSpec, bytes: int, device: int, cpus: Sequence[int]) -> None: ...

    def run(self, cycles: int) -> list[tuple[float, float, float]]:
        """Seconds of allocating, touching and releasing, for each cycle."""

class Step:
    """A part of a workload, in nanoseconds of CLOCK_REALTIME."""

    @property
    def name(self) -> str: ...

    @property
    def begin_ns(self) -> int: ...

    @property
    def end_ns(self) -> int: ...

    @property
    def h2d_bytes(self) -> int:
        """That the host sends to the device in it."""

    @property
    def d2h_bytes(self) -> int:
        """That the device sends to the host in it."""

    @property
    def bytes(self) -> int:
        """That the host and the device exchange in it."""

    @property
    def copies(self) -> int:
        """By which they do."""

class WorkloadReport:
    """What a workload did."""

    @property
    def steps(self) -> list[Step]: ...

    @property
    def wrong(self) -> int:
        """Number of wrong results."""

def vector_add(bytes: int, pinned: bool = False, device: int = 0) -> WorkloadReport:
    """Two vectors of so many bytes, copied there, added and copied back."""

def matmul(rows: int, inner: int, columns: int, launches: int, pinned: bool = False, device: int = 0) -> WorkloadReport:
    """
    Two matrices, copied there, multiplied so many times, the product copied back.
    """

def concurrent_copies(down: int, up: int, bytes: int, repeats: int, device: int = 0) -> WorkloadReport:
    """So many streams of copies there and back, alone and at once."""

def load_with_copies(load: float, bytes: int, repeats: int, device: int = 0) -> WorkloadReport:
    """
    Copies there and back, a kernel on a share of the SMs, alone and at once.
    """

def many_copies(bytes: int, count: int = 0, seconds: float = 1.0, rate: float = 0.0, device: int = 0) -> WorkloadReport:
    """
    Small copies, each with a short kernel and waited for; so many, or for so long.
    """

class TaskKind(enum.Enum):
    """What keeps which part of the machine busy."""

    h2d = 0

    d2h = 1

    kernel = 2

class TaskSpec:
    """A copy of a part of an array, or a kernel."""

    def __init__(self, kind: TaskKind, stream: int = 0, array: int = 0, offset: int = 0, bytes: int = 0, first: int = 0, count: int = 0, after: Sequence[int] = []) -> None: ...

    @property
    def kind(self) -> TaskKind: ...

    @property
    def stream(self) -> int: ...

    @property
    def array(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def first(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def after(self) -> list[int]: ...

class TaskMemory:
    """Arrays that go to a device and arrays that come back."""

    def __init__(self, topology: Topology, device: int, in_bytes: Sequence[int], out_bytes: Sequence[int], pageable: bool = False, cpus: Sequence[int] = []) -> None: ...

    def host_in(self, index: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """The host's doubles of an array that goes to the device."""

    def host_out(self, index: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """The host's doubles of an array that comes back."""

class TaskTimes:
    """Of one run, by the host's clock."""

    @property
    def call_seconds(self) -> float:
        """Until the last call had returned."""

    @property
    def seconds(self) -> float:
        """Until the host had seen the end of all."""

class TaskGraph:
    """Copies and kernels with what they wait for, handed over by one thread."""

    def run(self, repetitions: int, warm: bool = True) -> list[TaskTimes]:
        """Times of so many runs, after one that does not count if `warm`."""

    def run_held(self, repetitions: int) -> list[float]:
        """Seconds that the device takes once all is handed over."""

def busy_graph(topology: Topology, memory: TaskMemory, tasks: Sequence[TaskSpec], nanoseconds: int = 0, cpus: Sequence[int] = []) -> TaskGraph:
    """
    A graph whose kernels keep the device busy for so long; for 0 they do nothing.
    """

def moving_graph(topology: Topology, memory: TaskMemory, tasks: Sequence[TaskSpec], reads: int, writes: int, reads_copies: bool = False, work: int = 0, cpus: Sequence[int] = []) -> TaskGraph:
    """
    A graph whose kernels read so many arrays of the host's memory in place, or the copies of them, and write so many in place, `count` doubles each; `work` steps of computing for each.
    """

def grid_graph(topology: Topology, memory: TaskMemory, tasks: Sequence[TaskSpec], kernel: GridKernel, equation: EquationOfState, nx: int, ny: int, nz: int, outputs: int, pressure: Sequence[float], deepest: Sequence[int], maps_in: bool, maps_out: bool, columns: bool, cpus: Sequence[int] = []) -> TaskGraph:
    """
    A graph whose kernels compute a grid's levels; what is mapped they read or write in the host's memory. With `columns` a thread computes all levels of a point.
    """

class GridKernel(enum.Enum):
    """What a kernel computes for each point of a grid."""

    state = 0

    buoydiff = 1

    axpy = 2

    convolution = 3

class EquationOfState(enum.Enum):
    """Equations of state for sea water."""

    mwjf = 0

    jmcd = 1

    linear = 2

class GridOperations:
    """Operations on doubles for one point."""

    @property
    def additions(self) -> int:
        """Subtractions, too."""

    @property
    def multiplications(self) -> int: ...

    @property
    def divisions(self) -> int: ...

    @property
    def roots(self) -> int: ...

    @property
    def all(self) -> int:
        """Of all kinds, each counted as one."""

def grid_operations(kernel: GridKernel, equation: EquationOfState = EquationOfState.mwjf, outputs: int = 1) -> GridOperations:
    """
    What a kernel does for one point as its source says; comparisons are not counted.
    """

def sea_pressure(depth: float) -> float:
    """In bar, of sea water at a depth in m."""

def run_grid_kernel(kernel: GridKernel, equation: EquationOfState, inputs: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu', writable=False)]], outputs: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')]], pressure: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, deepest: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, first: int = 0, count: int | None = None, threads: int = 1) -> None:
    """
    Runs a kernel on the host for `count` levels from `first` on, all that are left if that is None. Arrays of a grid have the shape (nz, ny, nx); `pressure` is in bar, one for each level; `deepest` tells how many levels of a column have water in them.
    """

class CounterReport:
    """What a sampler of counters tells when it has stopped."""

    @property
    def samples(self) -> int: ...

    @property
    def lost_samples(self) -> int: ...

    @property
    def gaps(self) -> int: ...

    @property
    def restarts(self) -> int: ...

    @property
    def reads(self) -> int: ...

    @property
    def asked(self) -> int: ...

    @property
    def contradictions(self) -> int: ...

    @property
    def formula(self) -> str: ...

    @property
    def sample_bytes(self) -> int: ...

    @property
    def learned_rows(self) -> int: ...

    @property
    def learned_columns(self) -> int: ...

    @property
    def begun_anew(self) -> int: ...

    @property
    def learning_seconds(self) -> float: ...

    @property
    def cpu_seconds(self) -> float: ...

    @property
    def decode_cpu_seconds(self) -> float: ...

    @property
    def evaluate_cpu_seconds(self) -> float: ...

    @property
    def wall_seconds(self) -> float: ...

    @property
    def restart_seconds(self) -> float: ...

    @property
    def changes(self) -> list[tuple[float, int]]:
        """
        Since which second samples were taken every so many ns, where not all the time as was wanted.
        """

    @property
    def errors(self) -> list[str]: ...

class PmSampler:
    """Samples bytes on a GPU's link in hardware, into a spool."""

    def __init__(self, device: int, interval_ns: int, metrics: Sequence[str], hardware_buffer_bytes: int, decode_period_ns: int, spools: Sequence[tuple[str, str]], cupti: str) -> None:
        """
        Makes everything ready. `metrics`: bytes received and sent, of each kind of link;
        `spools`: the path and the first line of a spool for each two of them.
        """

    def start(self) -> None: ...

    def settle(self, seconds: float) -> None:
        """Waits until it is known that the rate holds, for so long at most."""

    def stop(self) -> CounterReport: ...

def check_cupti(path: str) -> None:
    """Raises where a libcupti cannot be opened, or cannot sample."""

def watch_time_ns() -> int:
    """ns since 1970 by the clock of watches, which nobody sets."""

def watch_clock_ahead_ns() -> int:
    """By how much that clock is ahead of CLOCK_MONOTONIC."""

def watch_ticks() -> tuple[int, int]:
    """The processor's counter, and CLOCK_MONOTONIC in ns at that time."""

class SpoolRoom:
    """How much room the spools of a folder have left."""

    def __init__(self, folder: str) -> None: ...

    def has(self, bytes: int) -> bool:
        """Whether so many more may be written; it is taken that they are then."""

class Direction(enum.Enum):
    """What a GPU's link carries, as seen from the GPU."""

    sent = 0

    received = 1

def wire_counters(uuid: str) -> tuple[int, int, int]:
    """Time in ns, bytes received and sent by a GPU, modulo 2^32."""

def nvlink_counters(uuid: str) -> tuple[int, int, int]:
    """Time in ns, KiB of payload received and sent over all NVLinks."""

def link_throughput(uuid: str, direction: Direction) -> int:
    """In 1000 bytes per second, of the last 20 ms."""

class NvmlCounters:
    """Reads the driver's counters of bytes on GPUs' links, into spools."""

    def __init__(self, targets: Sequence[tuple[str, str, str]], period_ns: int, most_bytes_per_second: float, nvlinks: Sequence[tuple[str, str, str]] = [], nvlink_period_ns: int = 10000000) -> None:
        """
        `targets`, `nvlinks`: for each GPU its UUID, the path of its spool, and the first line of that.
        """

    def start(self) -> None: ...

    def stop(self) -> list[CounterReport]: ...

class NvmlThroughput:
    """Asks the driver what one direction carried in the last 20 ms."""

    def __init__(self, uuid: str, direction: Direction, path: str, header: str) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> CounterReport: ...

def take_apart(records: Annotated[NDArray[numpy.uint64], dict(shape=(None, 2), order='C', device='cpu', writable=False)], rx: bool, tx: bool, latest_ns: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.bool_], dict(shape=(None,))], Annotated[NDArray[numpy.bool_], dict(shape=(None,))]]:
    """
    Columns of records of a spool, each two numbers: end_ns, rx_bytes, tx_bytes, known and own. Which directions were counted tells which records are known.
    """

def interpolate(at_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], times_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """As numpy.interp, of ascending times."""

def count_between(end_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rx_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tx_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], known: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], own: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, edges_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
    """
    Between each two ascending times, as rows: bytes received and sent, known ns, those that may be the sampler's, and known samples.
    """

def payload_of(end_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rx_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tx_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], known: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], own: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, start_ns: int, finished: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, model: Sequence[Sequence[float]]) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
    """
    A row for each record: payload h2d and d2h, and known ns. Pairs of the model: rx and tx of a byte of payload each way; rx and tx of a sample, of a second that may be the sampler's, of any second, of a copy.
    """

def sum_rests(records: Annotated[NDArray[numpy.float64], dict(shape=(None, 3), order='C', device='cpu', writable=False)], direction: int, moved: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """
    Sums of the payload of known records in one direction without what was moved: 0, then up to the end of each. Sums of what was moved are as many.
    """

def bin_records(start_ns: int, end_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rx_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tx_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], known: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], each: int, run_known: bool, run_records: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None, None))], bool, int]:
    """
    A row for each bin of so many records: end_ns, bytes received and sent, peaks of both in bytes/s, and known. Then the run of the last record: known or not, and how many.
    """

def burst_edges(end_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rx_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], tx_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], known: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], copy_start_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], copy_end_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], received: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], guard_ns: int, least_parts: int, part_share: float) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None, None))]]:
    """
    Which copies have a burst, and for each a row: its begin and its end less those of the copy, in ns.
    """

def split_into_windows(start_ns: int, end_ns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], records: Annotated[NDArray[numpy.float64], dict(shape=(None, 3), order='C', device='cpu', writable=False)], window_ns: int, origin_ns: int) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None, None))]]:
    """
    Runs of equal windows: the number of each one's first, how many it has, and a row of what one of these holds.
    """

def count_rates(shares: Annotated[NDArray[numpy.float64], dict(shape=(None, 3), order='C', device='cpu', writable=False)], windows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], known_ns: float, busy_gbs: Sequence[float], resolution: float, lowest_gbs: float, log_step: float, h2d: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], d2h: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> tuple[int, tuple[float, float], tuple[float, float]]:
    """
    Counts rates of known and busy windows in classes by their logarithms. How many are known, and of each direction the lowest and the highest rate; inf and 0 of none.
    """

class Codec(Enum):
    """How values are coded in a compressed stream."""
    raw = 0

class Dtype(enum.Enum):
    """What the values of a compressed stream are."""

    bytes = 0

    float16 = 1

    bfloat16 = 2

    float32 = 3

    float64 = 4

    int8 = 5

    int16 = 6

    int32 = 7

    int64 = 8

    uint16 = 9

    uint32 = 10

    uint64 = 11

class Meaning(enum.Enum):
    """What values mean beyond their type."""

    plain = 0

    boolean = 1

    complex = 2

    float8_e4m3fn = 3

    float8_e5m2 = 4

    float8_e4m3fnuz = 5

    float8_e5m2fnuz = 6

    float8_e8m0fnu = 7

class UpdateKind(enum.Enum):
    """What an update holds in place of values."""

    none = 0

    xor = 1

    subtraction = 2

def by_nvcomp(codec: Codec) -> bool:
    """Whether a codec is one of NVIDIA's nvCOMP, for streams alone."""

def codecs_of(dtype: Dtype) -> list[Codec]:
    """
    The codecs that may make values of a type smaller, the likeliest first.
    """

class StreamLayout:
    """What a compressed stream says of itself."""

    @property
    def codec(self) -> Codec: ...

    @property
    def dtype(self) -> Dtype: ...

    @property
    def meaning(self) -> Meaning: ...

    @property
    def dimensionality(self) -> int: ...

    @property
    def difference(self) -> UpdateKind: ...

    @property
    def base(self) -> int:
        """Of an update: the sum of the checksum of its base."""

    @property
    def bytes(self) -> int: ...

    @property
    def stored_bytes(self) -> int: ...

    @property
    def shape(self) -> list[int]: ...

    @property
    def blocks_by_mode(self) -> list[int]: ...

def can_compress(codec: Codec, dtype: Dtype) -> bool:
    """Whether a codec of lanescope's own takes values of a type."""

def stream_layout(stream: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> StreamLayout:
    """Read and check a stream's header."""

def bytes_view(values: object) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)], Dtype, int]:
    """
    The bytes of an array in the host's memory, not copied, what its values are, and the bytes of each.
    """

def compress(values: object, codec: Codec | None, dtype: Dtype | None = None, dimensionality: int = 1, threads: int = 0, meaning: Meaning | None = None, base: object | None = None) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
    """
    Compress the values of an array in the host's memory, by the codec that makes some blocks smallest if none is given; returns the stream.
    """

def sample_sizes(values: object, codec: Codec | None = None, dtype: Dtype | None = None) -> list[tuple[Codec, int, float]]:
    """
    Of each codec its dimensionality and what it leaves of some blocks of an array in the host's memory.
    """

def update_codec(values: object, base: object, link: float) -> Codec:
    """
    The codec by which an update crosses a link of so many bytes a second soonest.
    """

def most_stream_bytes(bytes: int, dimensions: int) -> int:
    """Most bytes of the stream of an array."""

def compress_into(values: object, out: object, codec: Codec | None, dtype: Dtype | None = None, dimensionality: int = 1, threads: int = 0, meaning: Meaning | None = None, base: object | None = None) -> int:
    """Compress into memory that is there; returns the stream's length."""

def decompress(stream: Annotated[NDArray[numpy.uint8], dict(shape=(None,))], out: object, threads: int = 0, base: object | None = None) -> None:
    """
    Decompress a stream into an array of as many bytes, an update with its base.
    """

class DeviceEncoding:
    """
    An array in a GPU's memory, coded there, in the order of a CUDA stream.
    """

    def __init__(self, values: object, codec: Codec | None, dtype: Dtype | None = None, dimensionality: int = 1, stream: int = 0, sms: int = 0, nvcomp: Nvcomp | None = None, meaning: Meaning | None = None, base: object | None = None) -> None: ...

    @property
    def stream_bytes(self) -> int: ...

    def write(self, out: object) -> None:
        """Put the compressed stream to memory of the same GPU."""

def device_stream_layout(compressed: object, stream: int = 0) -> StreamLayout:
    """Read and check the header of a compressed stream in a GPU's memory."""

def decompress_on_device(compressed: object, out: object, stream: int = 0, sms: int = 0, nvcomp: Nvcomp | None = None, base: object | None = None) -> None:
    """
    Decompress a stream in a GPU's memory into an array of as many bytes there, an update with its base.
    """

class DeviceTimes:
    """How long kernels took, in seconds."""

    @property
    def encode_s(self) -> list[float]: ...

    @property
    def decode_s(self) -> list[float]: ...

    @property
    def payload_bytes(self) -> int: ...

def time_device_codec(values: object, codec: Codec, dtype: Dtype | None = None, dimensionality: int = 1, sms: int = 0, repeats: int = 9, base: object | None = None) -> DeviceTimes:
    """
    Time the kernels that encode and decode an array within a GPU's memory, or its differences to a base.
    """

class DeviceArray:
    """Values in a GPU's memory that came from the host's."""

    def __init__(self, gpu: int, bytes: int) -> None: ...

    @property
    def gpu(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def pointer(self) -> int: ...

    def set(self, value: int) -> None:
        """Set every byte."""

    def fill_from(self, values: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Put bytes there, one after the other until it is full."""

    def compare(self, values: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[int, int]:
        """
        How many bytes are other than these one after the other, and the first of them.
        """

def time_array_codec(values: DeviceArray, out: DeviceArray, codec: Codec, dtype: Dtype, dimensionality: int = 1, sms: int = 0, repeats: int = 9) -> DeviceTimes:
    """Time the kernels that encode an array and decode it into another one."""

class Nvcomp:
    """NVIDIA's nvCOMP, opened where it is installed."""

    def __init__(self, path: str) -> None: ...

    @property
    def version(self) -> int:
        """6000 is 6.0.0."""

    def compress(self, gpu: int, values: object, out: object, codec: Codec, dtype: Dtype | None = None, meaning: Meaning | None = None) -> int:
        """
        Compress an array in the host's memory on a GPU; returns the stream's length.
        """

    def decompress(self, gpu: int, stream: Annotated[NDArray[numpy.uint8], dict(shape=(None,))], out: object) -> None:
        """Decompress a stream in the host's memory on a GPU."""

    def time_array_codec(self, values: DeviceArray, out: DeviceArray, codec: Codec, dtype: Dtype, repeats: int = 9) -> DeviceTimes:
        """Time the kernels that encode an array and decode it into another one."""

class NcclRank:
    """A rank of a communicator of NVIDIA's NCCL."""

    def __init__(self, library: str, id: bytes, ranks: int, rank: int, device: int) -> None: ...

    @staticmethod
    def unique_id(library: str) -> bytes:
        """What all ranks of one communicator have to be given."""

    @property
    def version(self) -> int: ...

class NcclTransfer:
    """What one rank sends or receives."""

    def __init__(self, peer: int, bytes: int, seed: int) -> None: ...

class NcclOperations:
    """What one rank does again and again."""

    def __init__(self, rank: NcclRank, sends: Sequence[NcclTransfer], receives: Sequence[NcclTransfer], reduced_bytes: int) -> None: ...

    def run(self, windows: int, loops: int) -> list[float]:
        """Ends of all windows in seconds since the one before them began."""

    def count_mismatches(self) -> int: ...

class Looker:
    """Looks at blocks of arrays in a GPU's memory."""

    def __init__(self) -> None: ...

    @property
    def is_free(self) -> bool: ...

    def begin(self, gpu: int, source: int, bytes: int, dtype: Dtype, codec: Codec | None, stream: int, base: int = 0) -> None:
        """Have blocks copied behind what is on a stream, and those of a base."""

    def take(self) -> list[tuple[Codec, int, float, UpdateKind]] | None:
        """
        Of each codec its dimensionality and what it leaves of them, or of their differences of a kind, once they are there.
        """

class Ticket:
    """A transfer on its way, and what became of it."""

    def done(self) -> bool:
        """Whether it has ended, well or not."""

    def wait(self, patience_s: float) -> None:
        """Return when it has ended; an error if a block came in damaged."""

    def damage(self) -> str:
        """What came in damaged, once it is done; or ''."""

    @property
    def remedy(self) -> str:
        """What to do about damage."""

    @property
    def seconds(self) -> float:
        """By the device's clock, once it is done."""

    @property
    def wire_bytes(self) -> int:
        """What crossed the link, once it is done."""

    @property
    def bytes(self) -> int: ...

    @property
    def compressed(self) -> bool: ...

    @property
    def why_raw(self) -> str: ...

class Via(enum.Enum):
    """Which way arrays go from one GPU to another."""

    peer = 0

    host = 1

class DeviceChannel:
    """Arrays from one GPU to another, compressed."""

    def __init__(self, source: int, target: int, slab_bytes: int, slots: int, sms: int, patience_s: float, via: Via) -> None: ...

    def send(self, source: int, target: int, bytes: int, codec: Codec | None, dtype: Dtype, dimensionality: int, source_stream: int, target_stream: int, difference: UpdateKind = UpdateKind.none, base: int = 0) -> Ticket:
        """Send bytes between addresses, ordered behind and before two streams."""

    def load(self, codec: Codec, dtype: Dtype) -> None:
        """Load a codec's kernels beforehand."""

    def damage_next(self, block: int) -> None:
        """For tests: damage a block of the next array."""

    def close(self) -> None:
        """Wait for what is under way, and end the channel."""

class RestoreBy(enum.Enum):
    """How compressed arrays come back."""

    mapped = 0

    staged = 1

class Parcel:
    """An array in pinned memory of the host, maybe compressed."""

    @property
    def bytes(self) -> int: ...

    @property
    def compressed(self) -> bool: ...

    @property
    def codec(self) -> Codec: ...

    @property
    def is_update(self) -> bool: ...

    def stored_bytes(self) -> int:
        """Bytes of what is stored; waits for the end of the offload."""

    @property
    def held_bytes(self) -> int:
        """Pinned memory that it holds."""

    def evict(self) -> None:
        """Give the pinned memory back."""

    @property
    def evicted(self) -> bool: ...

    def stream_front(self, dtype: Dtype) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """
        All before the payloads of its stream; waits for the end of the offload.
        """

    def copy_payloads(self, first: int, last: int, out: object) -> int:
        """
        Copy the payloads of blocks as they stand in its stream; returns how many bytes.
        """

    def payload_room(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """Where the payloads of a stream that is loaded belong."""

    def damage(self, block: int) -> None:
        """For tests: damage a block."""

    def exchange(self, one: int, other: int) -> None:
        """For tests: let two blocks change places."""

class HostChannel:
    """Arrays to pinned memory of the host and back."""

    def __init__(self, gpu: int, slab_bytes: int, slots: int, sms: int, patience_s: float, piece_bytes: int, restore_by: RestoreBy) -> None: ...

    def offload(self, source: int, bytes: int, codec: Codec | None, dtype: Dtype, dimensionality: int, stream: int, difference: UpdateKind = UpdateKind.none, base: int = 0, joins: bool = True) -> tuple[Parcel, Ticket]:
        """
        Take an array away; returns it and its ticket. The stream waits for its end, or not before join.
        """

    def offload_pages(self, sources: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], codec: Codec | None, dtype: Dtype, dimensionality: int, stream: int, joins: bool = True) -> tuple[Parcel, Ticket]:
        """
        Take pages away as one array, read where they lie; otherwise as offload.
        """

    def restore(self, parcel: Parcel, target: int, stream: int, base: int = 0, joins: bool = True) -> Ticket:
        """Bring an array back; joins as with offload."""

    def join(self, ticket: Ticket, stream: int) -> None:
        """Let a stream wait for the end of a transfer."""

    def load(self, codec: Codec, dtype: Dtype) -> None:
        """Load a codec's kernels beforehand."""

    def restore_parts(self, parcel: Parcel, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], targets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], stream: int) -> Ticket:
        """
        Bring back parts of an array that is stored as it is, each to its address.
        """

    def restore_blocks(self, parcel: Parcel, blocks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), writable=False)], target: int, stream: int) -> Ticket:
        """Bring back some blocks of a compressed array, one behind another."""

    def load_parcel(self, front: Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)], stream_bytes: int) -> Parcel:
        """Pin memory for a stream of which all before the payloads is there."""

    def trim(self, keep_bytes: int) -> int:
        """Give free pinned memory back to the system; returns how many bytes."""

    def prepare(self, bytes: int) -> None:
        """Pin memory beforehand."""

    @property
    def pinned_bytes(self) -> int: ...

    @property
    def taken_bytes(self) -> int: ...

    def close(self) -> None:
        """Wait for what is under way, and end the channel."""

def sms_that_fill(link: Via, codec: Codec, dtype: Dtype) -> int:
    """SMs that channels code on by themselves."""

def reach_each_other(one: int, other: int) -> bool:
    """Whether two GPUs can be given access to each other's memory."""

def choose_update(gpu: int, source: int, base: int, bytes: int, dtype: Dtype, over_host: bool, stream: int) -> tuple[Codec, int, UpdateKind]:
    """
    The codec by which an array's differences to a base cross soonest, over the host or between GPUs, its dimensionality, and the kind of differences.
    """

def choose_codec(gpu: int, source: int, bytes: int, dtype: Dtype, stream: int) -> tuple[Codec, int]:
    """
    The codec that makes some blocks of an array in a GPU's memory smallest, and its dimensionality.
    """

class PageCopier:
    """Copies pages of a GPU's memory by one kernel."""

    def __init__(self, gpu: int) -> None: ...

    def copy(self, sources: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], targets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], ctas: int, stream: int) -> None:
        """Copy from addresses to addresses, behind a stream."""

    def gather(self, sources: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], room: int, ctas: int, stream: int) -> None:
        """
        Copy pages side by side to an address, each with zeros behind it up to a multiple of 16 bytes.
        """

    def scatter(self, room: int, targets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], ctas: int, stream: int) -> None:
        """Copy pages that lie side by side so to their addresses."""

def share_bytes(begins: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), writable=False)]) -> bool:
    """Whether two of some pages have bytes in common."""

PAGE_CTAS: int = 2048

def slice_table(api: object, tensor: object, numbers: list[int], gpu: int, pointers: object) -> tuple[int, int] | None:
    """
    Find where numbered slices of a tensor along its first dimension lie; returns the bytes of each, and all bits of their addresses, or None where they have to be looked at one by one.
    """

def tensor_table(api: object, tensors: list[object], gpu: int, pointers: object, sizes: object, begins: object) -> tuple[int, int, int] | None:
    """
    Find where tensors lie, by DLPack's interface in C, and where their type or shape changes; returns how often, and all bits of their addresses and of their sizes, or None where one has to be looked at by itself.
    """

class PeerSender:
    """Arrays to a GPU of another process, compressed."""

    def __init__(self, gpu: int, slab_bytes: int, slots: int, sms: int, patience_s: float) -> None: ...

    @property
    def handle(self) -> bytes: ...

    def attach(self, handle: bytes) -> None:
        """Make the other process's memory usable."""

    def load(self, codec: Codec, dtype: Dtype) -> None:
        """Load a codec's kernels beforehand."""

    def detach(self) -> None:
        """Wait for what is under way, and let go of the other process's memory."""

    def give_up(self) -> None:
        """Let all streams go on that wait for the other process."""

    def send(self, source: int, number: int, bytes: int, codec: Codec | None, dtype: Dtype, dimensionality: int, stream: int) -> Ticket:
        """Send bytes, ordered behind and before a stream."""

class PeerReceiver:
    """Arrays from a GPU of another process."""

    def __init__(self, gpu: int, slab_bytes: int, slots: int, sms: int, patience_s: float) -> None: ...

    @property
    def handle(self) -> bytes: ...

    def attach(self, handle: bytes) -> None:
        """Make the other process's memory usable."""

    def load(self, codec: Codec, dtype: Dtype) -> None:
        """Load a codec's kernels beforehand."""

    def detach(self) -> None:
        """Wait for what is under way, and let go of the other process's memory."""

    def give_up(self) -> None:
        """Let all streams go on that wait for the other process."""

    def receive(self, target: int, number: int, bytes: int, codec: Codec | None, dtype: Dtype, dimensionality: int, stream: int) -> Ticket:
        """Receive bytes, ordered behind and before a stream."""

def part_front_bytes(bytes: int) -> int:
    """Bytes of a coded part before its payloads."""

def part_room_bytes(bytes: int) -> int:
    """The most bytes of a coded part."""

PART_FAULT_BYTES: int = 12

def part_bytes_used(used: int) -> int:
    """Bytes of all payloads, of what `encode_part` counts."""

def load_part_codec(gpu: int, codec: Codec, dtype: Dtype) -> None:
    """Load the kernels of a codec beforehand."""

def encode_part(gpu: int, source: int, bytes: int, codec: Codec, dtype: Dtype, dimensionality: int, number: int, room: int, used: int, stream: int) -> None:
    """
    Code an array on a stream into `part_room_bytes`; counts in 8 bytes, which are 0 before.
    """

def decode_part(gpu: int, part: int, part_bytes: int, codec: Codec, dtype: Dtype, dimensionality: int, number: int, target: int, bytes: int, fault: int, stream: int) -> None:
    """
    Decode it on a stream; what is wrong is said in `PART_FAULT_BYTES`, which are 0 before.
    """

RULE_MARGIN: float = 0.95

RULE_EVERY: int = 64

def compressed_seconds(bytes: float, ratio: float, codec: tuple[float, float, float, int], link: tuple[float, float]) -> float:
    """What bytes take compressed."""

def codec_slowness(bytes: float, ratio: float, codec: tuple[float, float, float, int], link: tuple[float, float], seconds: float) -> float:
    """
    How many times as slow as `codec` one is by which bytes take so many seconds.
    """

def break_even_bytes(ratio: float, codec: tuple[float, float, float, int], link: tuple[float, float], margin: float) -> int | None:
    """
    From how many bytes on compressing takes less than `margin` of the time.
    """

class RawTimes:
    """What transfers as they are take: by path and size class."""

    def __init__(self) -> None: ...

    def set_link(self, path: str, link: tuple[float, float]) -> None:
        """Say what a path costs before anything has crossed it."""

    def take(self, path: str, bytes: int, seconds: float) -> bool: ...

    def seconds(self, path: str, bytes: int) -> float | None: ...

    def link(self, path: str, bytes: int) -> tuple[float, float] | None:
        """GB/s and first seconds, or None."""

class Rule:
    """Decides about transfers, and learns from them."""

    def __init__(self, at_best: tuple[float, float, float, int], codec: Codec | None) -> None: ...

    def set_link(self, path: str, link: tuple[float, float]) -> None: ...

    def decide(self, tag: str, path: str, dtype: Dtype, bytes: int) -> tuple[bool, Codec, int, float | None, float | None, str]: ...

    def wants_sample(self, tag: str, path: str, dtype: Dtype, bytes: int) -> bool: ...

    def take_sample(self, tag: str, path: str, dtype: Dtype, bytes: int, sampled: Sequence[tuple[Codec, int, float]]) -> None: ...

    def learn(self, tag: str, path: str, dtype: Dtype, bytes: int, compress: bool, codec: Codec | None, dimensionality: int, predicted_seconds: float | None, seconds: float, wire_bytes: int, compressed: bool) -> None: ...

class ProbeReport:
    """What a probe tells when it has stopped."""

    @property
    def records(self) -> int: ...

    @property
    def rounds(self) -> int: ...

    @property
    def cpu_seconds(self) -> float: ...

    @property
    def wall_seconds(self) -> float: ...

    @property
    def errors(self) -> list[str]: ...

class LinkProbe:
    """
    Sends small copies over a GPU's link and writes down how long they take.
    """

    def __init__(self, device: int, chunk_bytes: int, period_ns: int, most_share: float, path: str, header: str) -> None:
        """
        Makes everything ready. `period_ns` 0 with a `most_share` of 1 probes without a pause.
        """

    def start(self) -> None: ...

    def stop(self) -> ProbeReport: ...

def require_shared_gpu(device: int) -> None:
    """
    Raises where CUDA cannot use a GPU beside another process; makes no context.
    """
