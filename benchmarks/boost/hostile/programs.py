"""Programs in PyTorch, CuPy and Numba that a layer which carries copies could get wrong.

::

    python benchmarks/boost/hostile/programs.py list
    python benchmarks/boost/hostile/programs.py NAME

run.py runs them, and those of programs.cu. What is printed is the same in each run: no times, no
addresses, no process ids. A program ends with 0, or with 1 where something was WRONG; some end with
a code of their own. ``HOSTILE_CPU=1`` tries their logic without a GPU.
"""

import hashlib
import io
import os
import sys
import tempfile

CASES = {}
DEV = "cpu" if os.environ.get("HOSTILE_CPU") else "cuda"
BAD = []


def case(function):
    CASES[function.__name__] = function
    return function


def say(*words):
    print(*words, flush=True)


def check(what, ok):
    ok = bool(ok)
    if not ok:
        BAD.append(what)
    say(f"{what}: {'ok' if ok else 'WRONG'}")


def pattern(n, seed, device="cpu"):
    import torch

    x = torch.arange(n, dtype=torch.int64, device=device)
    return ((x * 131 + (x >> 9) * 7 + seed * 37) % 251).to(torch.uint8)


def digest(t):
    import torch

    raw = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.blake2b(raw.numpy().tobytes(), digest_size=8).hexdigest()


def sync():
    import torch

    if DEV == "cuda":
        torch.cuda.synchronize()


@case
def views():
    import torch

    base = pattern(32 << 20, 1)
    floats = base.to(torch.float32).reshape(2048, -1)
    things = {
        "whole": base,
        "odd": base[7:-5],
        "one": base[3:4],
        "none": base[:0],
        "0-d": floats[3, 4],
        "transposed": floats.T,
        "strided": floats[::3, 5::2],
        "rows": floats[100:900],
        "columns": floats[:, 17:-3],
        "expanded": floats[0:1].expand(100, -1),
        "flipped": floats.flip(0),
        "bf16": floats.to(torch.bfloat16),
        "half view": floats.half()[1:],
        "bool": base > 100,
        "complex": torch.complex(floats[:500], floats[500:1000]),
        "conj": torch.complex(floats[:500], floats[500:1000]).conj(),
        "int64": base[: 1 << 20].to(torch.int64),
        "small": base[:70000],
        "channels last": floats[:, :1024]
        .reshape(32, 64, 32, 32)
        .contiguous(memory_format=torch.channels_last),
    }
    for name, t in things.items():
        before = t.clone()
        g = t.to(DEV)
        g2 = t.to(DEV, non_blocking=True)
        back, back2 = g.cpu(), g2.to("cpu")
        sync()
        same = torch.equal(back, before) and torch.equal(back2, before) and torch.equal(t, before)
        say(name, tuple(g.shape), g.stride() == g2.stride(), digest(before.resolve_conj()))
        check(name, same)
    g = base.to(DEV)
    check("against one that was made there", torch.equal(g, pattern(32 << 20, 1, DEV)))
    check("other types on the way", torch.equal(base.to(DEV, torch.float64).cpu(), base.double()))


@case
def sparse():
    import torch

    i = torch.stack([pattern(400000, 1).long() * 3, pattern(400000, 2).long()])
    v = pattern(400000, 3).float()
    coo = torch.sparse_coo_tensor(i, v, (1000, 300))
    g = coo.to(DEV)
    check("coo", torch.equal(g.cpu().coalesce().to_dense(), coo.coalesce().to_dense()))
    dense = (
        torch.where(pattern(4000000, 4) < 50, pattern(4000000, 5), 0).reshape(2000, 2000).double()
    )
    csr = dense.to_sparse_csr()
    g = csr.to(DEV)
    check("csr", torch.equal(g.cpu().to_dense(), dense))
    say(digest(g.cpu().values()), digest(g.crow_indices()), digest(g.col_indices()))
    q = torch.quantize_per_tensor(pattern(3000000, 1).float(), 0.5, 3, torch.quint8)
    check("quantized", torch.equal(q.to(DEV).cpu().int_repr(), q.int_repr()))
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        pattern(2400000, 6).float().reshape(100, 240, 100),
        torch.full((240,), 99),
        enforce_sorted=True,
    )
    check("packed", torch.equal(packed.to(DEV).cpu().data, packed.data))


@case
def modules():
    import torch
    from torch import nn

    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(2000, 3000),
        nn.BatchNorm1d(3000),
        nn.ReLU(),
        nn.Linear(3000, 501, dtype=torch.float32),
    )
    state = {k: v.clone() for k, v in model.state_dict().items()}
    for v in state.values():
        if v.is_floating_point():
            v.copy_(pattern(v.numel(), v.numel() % 97).reshape(v.shape).float() / 251)
    model.to(DEV)
    model.load_state_dict(state)
    for v in state.values():
        if v.is_floating_point():
            saved = v.clone()
            v.fill_(-1)  # loaded is loaded
            v.copy_(saved)
    for k, v in model.state_dict().items():
        say(k, digest(v))
        check(k, torch.equal(v.cpu(), state[k]))
    opt = torch.optim.AdamW(model.parameters(), lr=0.1)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    opt.step()
    saved = dict(opt.state_dict())
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    buffer.seek(0)
    opt.load_state_dict(torch.load(buffer, map_location="cpu"))
    check("optimizer", all(s["exp_avg"].device.type == DEV for s in opt.state.values()))
    half = model.half().cpu()
    say(digest(half[0].weight))
    model.to("cpu").to(DEV).double().cpu()
    check("to and fro", all(p.dtype == torch.float64 for p in model.parameters()))


@case
def copies_into():
    import torch

    n = 9_000_001
    source, target, g = (
        pattern(n, 1),
        torch.empty(n, dtype=torch.uint8),
        torch.empty(n, dtype=torch.uint8, device=DEV),
    )
    for i in range(6):
        source.copy_(pattern(n, i))
        g.copy_(source, non_blocking=True)
        source.fill_(255)  # pageable: has been read
        check("source reused", torch.equal(g, pattern(n, i, DEV)))
        target.zero_()
        target.copy_(g, non_blocking=True)
        sync()
        check("target", torch.equal(target, pattern(n, i)))
    tiny = torch.empty(100, 64, dtype=torch.uint8, device=DEV)
    row = torch.empty(64, dtype=torch.uint8)
    for i in range(100):
        row.copy_(pattern(64, i))
        tiny[i].copy_(row, non_blocking=True)
    row.zero_()
    check("tiny", torch.equal(tiny.cpu(), torch.stack([pattern(64, i) for i in range(100)])))
    g[5:-3].copy_(pattern(n - 8, 40))
    g[1::2].copy_(pattern(n // 2, 41))
    want = pattern(n, 5)
    want[5:-3] = pattern(n - 8, 40)
    want[1::2] = pattern(n // 2, 41)
    check("into views", torch.equal(g.cpu(), want))
    g.copy_(pattern(n, 9).to(torch.int16))
    check("another type", torch.equal(g.cpu(), pattern(n, 9)))
    if DEV == "cuda":
        pinned = pattern(n, 3).pin_memory()
        g.copy_(pinned, non_blocking=True)
        back = torch.empty(n, dtype=torch.uint8, pin_memory=True)
        back.copy_(g, non_blocking=True)
        sync()
        check("pinned", torch.equal(back, pattern(n, 3)))
        check(
            "pinned views",
            torch.equal(pinned[3:].to("cuda", non_blocking=True).cpu(), pattern(n, 3)[3:]),
        )


@case
def streams():
    import torch

    if DEV != "cuda":
        return say("skipped")
    n = 5_000_000
    a, b = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    host, out = pattern(n, 0), torch.empty(n, dtype=torch.uint8)
    g = torch.empty(n, dtype=torch.uint8, device="cuda")
    sync()
    for i in range(10):
        with torch.cuda.stream(a):
            torch.cuda._sleep(20_000_000)
            host.copy_(pattern(n, i))
            g.copy_(host, non_blocking=True)
            host.zero_()
            event = a.record_event()
        b.wait_event(event)
        with torch.cuda.stream(b):
            g.add_(1)
            out.copy_(g, non_blocking=True)
            b.synchronize()
        check("chain", torch.equal(out, pattern(n, i) + 1))
        a.wait_stream(b)
    with torch.cuda.stream(a):
        t = pattern(n, 7).to("cuda", non_blocking=True)
        t.record_stream(b)
    b.wait_stream(a)
    with torch.cuda.stream(b):
        u = t * 2
        del t
        again = pattern(n, 8).to("cuda", non_blocking=True)
    b.synchronize()
    check(
        "record_stream",
        torch.equal(u.cpu(), pattern(n, 7) * 2) and torch.equal(again.cpu(), pattern(n, 8)),
    )
    say("idle", a.query(), b.query(), event.query())


class Numbers:
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return pattern(60000, i), i


@case
def loader():
    import torch

    for workers, pin in ((0, False), (2, False), (2, DEV == "cuda")):
        data = torch.utils.data.DataLoader(
            Numbers(),
            batch_size=8,
            num_workers=workers,
            pin_memory=pin,
            persistent_workers=bool(workers),
        )
        total = 0
        for _ in range(2):
            for x, i in data:
                g = x.to(DEV, non_blocking=True)
                total += int(g.long().sum()) + int(i.sum())
                if not torch.equal(g.cpu(), torch.stack([pattern(60000, int(k)) for k in i])):
                    check("batch", False)
        say(workers, pin, total)


def _child(give, take):
    import torch

    t = take.get()
    check("shared tensor", torch.equal(t.cpu(), pattern(3_000_000, 5)))
    t.copy_(pattern(3_000_000, 6))
    sync()
    give.put(("done", pattern(4_000_000, 7).to(DEV).cpu()))
    take.get()
    sys.exit(6)


@case
def processes():
    import torch

    context = torch.multiprocessing.get_context("spawn")
    a, b = context.Queue(), context.Queue()
    child = context.Process(target=_child, args=(a, b))
    child.start()
    t = pattern(3_000_000, 5).to(DEV)
    if DEV == "cpu":
        t.share_memory_()
    b.put(t)
    word, other = a.get(timeout=18)
    check("from the child", torch.equal(other, pattern(4_000_000, 7)))
    check("written by the child", torch.equal(t.cpu(), pattern(3_000_000, 6)))
    del other
    b.put("end")
    child.join()
    say(word, child.exitcode)


@case
def forks():
    import subprocess

    import torch

    x = pattern(5_000_000, 1)
    g = x.to(DEV)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            g2 = x.to(DEV)
            text = "worked" if torch.equal(g2.cpu(), x) else "wrong"
        except RuntimeError as error:
            text = "RuntimeError " + str("re-initialize" in str(error))
        os.write(write, text.encode())
        os._exit(3)
    os.close(write)
    text = os.read(read, 1000).decode()
    say(text if DEV == "cuda" else "", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    say(subprocess.run(["sh", "-c", "cat; exit 5"], input=b"in", stdout=subprocess.PIPE).returncode)
    code = f"import torch; x = torch.arange(3000000); print(torch.equal(x.to('{DEV}').cpu(), x))"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    say(done.returncode, done.stdout)
    context = torch.multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        say(pool.map(len, ["a", "bb", "ccc"]))
    check("parent", torch.equal(g.cpu(), x))


@case
def graphs():
    import torch

    if DEV != "cuda":
        return say("skipped")
    n = 2_000_000
    static = torch.zeros(n, device="cuda")
    pinned = torch.zeros(n).pin_memory()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            (static * 2).sum()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = static * 2 + 1
        z = torch.empty_like(static)
        z.copy_(pinned, non_blocking=True)
    for i in range(5):
        host = pattern(n, i).float()
        static.copy_(host, non_blocking=True)
        want = host * 2 + 1
        host.fill_(-5)
        pinned.copy_(pattern(n, i + 50).float())
        graph.replay()
        sync()
        check(
            "replay",
            torch.equal(y.cpu(), want) and torch.equal(z.cpu(), pattern(n, i + 50).float()),
        )
    bad = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(bad):
            static.add_(1)
            static.copy_(torch.ones(n), non_blocking=True)
        say("captured a pageable copy")
    except Exception as error:
        say("refused:", type(error).__name__)
    try:
        sync()
        check("afterwards", torch.equal(pattern(n, 1).to("cuda").cpu(), pattern(n, 1)))
    except Exception as error:
        say("afterwards:", type(error).__name__)


@case
def hooks():
    import torch

    torch.manual_seed(3)
    gradients = {}
    x = (pattern(3_000_000, 1).float() / 251).reshape(1000, 3000)
    w = (pattern(3_000_000, 2).float() / 251).reshape(3000, 1000).to(DEV).requires_grad_()

    def replace(gradient):
        gradients["w"] = gradient.cpu()
        return pattern(gradient.numel(), 9).float().reshape(gradient.shape).to(gradient.device)

    w.register_hook(replace)
    leaf = x.clone().requires_grad_()
    moved = leaf.to(DEV)
    (moved * 3 + w.T).sum().backward()
    check("gradient came back", torch.equal(leaf.grad, torch.full_like(x, 3.0)))
    check("hook saw", torch.equal(gradients["w"], torch.ones(3000, 1000)))
    check("hook gave", torch.equal(w.grad.cpu(), pattern(3_000_000, 9).float().reshape(3000, 1000)))
    with torch.autograd.graph.save_on_cpu(pin_memory=False):
        a = (pattern(4_000_000, 3).float() / 251).to(DEV).requires_grad_()
        b = (a * a).exp()
    b.sum().backward()
    expect = (2 * a * (a * a).exp()).detach()
    check("saved on the CPU", torch.allclose(a.grad, expect))
    say(digest(gradients["w"]))


@case
def saving():
    import torch

    things = {
        "a": pattern(6_000_000, 1).to(DEV),
        "b": pattern(700, 2).float().to(DEV),
        "c": [pattern(2_000_000, 3).to(torch.bfloat16).to(DEV)],
    }
    things["view"] = things["a"][100:2_000_100]
    buffer = io.BytesIO()
    torch.save(things, buffer)
    say(
        hashlib.blake2b(
            b"".join(digest(things[k]).encode() for k in ("a", "b", "view")), digest_size=8
        ).hexdigest()
    )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.pt")
        torch.save(things, path)
        for where in ("cpu", DEV):
            for mapped in (False, True):
                try:
                    loaded = torch.load(path, map_location=where, mmap=mapped)
                except Exception as error:
                    say(where == "cpu", mapped, type(error).__name__)
                    continue
                ok = all(torch.equal(loaded[k].cpu(), things[k].cpu()) for k in ("a", "b", "view"))
                ok &= torch.equal(loaded["c"][0].to(DEV), things["c"][0])
                loaded["view"].zero_()
                ok &= int(loaded["a"][100:2_000_100].sum()) == 0
                check(f"load {where == 'cpu'} {mapped}", ok)
        old = torch.load(
            path,
            map_location=lambda storage, location: storage.cuda() if DEV == "cuda" else storage,
        )
        check("by a function", torch.equal(old["a"], things["a"]))
    buffer.seek(0)
    check(
        "from memory",
        torch.equal(torch.load(buffer, map_location="cpu")["a"], pattern(6_000_000, 1)),
    )


@case
def files():
    import mmap

    import numpy
    import torch

    n = 7_000_003
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.bin")
        content = pattern(n, 1).numpy()
        content.tofile(path)
        t = torch.from_file(path, shared=False, size=n, dtype=torch.uint8)
        check("from_file", torch.equal(t.to(DEV), pattern(n, 1, DEV)))
        t.copy_(pattern(n, 2).to(DEV))
        check("private: file as it was", (numpy.fromfile(path, numpy.uint8) == content).all())
        t = torch.from_file(path, shared=True, size=n, dtype=torch.uint8)
        t.copy_(pattern(n, 3).to(DEV))
        check(
            "shared: file is written",
            (numpy.fromfile(path, numpy.uint8) == pattern(n, 3).numpy()).all(),
        )
        readable = numpy.memmap(path, dtype=numpy.uint8, mode="r")
        import warnings

        warnings.simplefilter("ignore")
        g = torch.from_numpy(readable).to(DEV)
        check("memmap, read only", torch.equal(g, pattern(n, 3, DEV)))
        g = torch.from_numpy(readable[1001:]).to(DEV)
        check("memmap, odd", torch.equal(g, pattern(n, 3, DEV)[1001:]))
        both = numpy.memmap(path, dtype=numpy.uint8, mode="r+", offset=4096)
        torch.from_numpy(both).copy_(pattern(n - 4096, 4).to(DEV))
        both.flush()
        check(
            "memmap, written",
            (numpy.fromfile(path, numpy.uint8)[4096:] == pattern(n - 4096, 4).numpy()).all(),
        )
        with open(path, "rb") as file:
            view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            check(
                "mmap",
                digest(torch.frombuffer(view, dtype=torch.uint8).to(DEV))
                == hashlib.blake2b(view[:], digest_size=8).hexdigest(),
            )
        raw = bytes(content)
        check(
            "bytes",
            torch.equal(torch.frombuffer(raw, dtype=torch.uint8).to(DEV), pattern(n, 1, DEV)),
        )
        changing = bytearray(raw)
        torch.frombuffer(changing, dtype=torch.uint8).copy_(pattern(n, 8).to(DEV))
        check(
            "bytearray",
            bytes(changing) == pattern(n, 8).numpy().tobytes() and raw == content.tobytes(),
        )
        numpy.save(os.path.join(folder, "y.npy"), content.reshape(-1, 1))
        y = numpy.load(os.path.join(folder, "y.npy"), mmap_mode="c")
        check("npy", torch.equal(torch.from_numpy(y).to(DEV)[:, 0], pattern(n, 1, DEV)))


@case
def threads():
    import gc
    import threading

    import torch

    wrong = []

    def work(k):
        stream = torch.cuda.Stream() if DEV == "cuda" else None
        for i in range(8):
            n = 300_000 + 97_001 * ((k * 7 + i * 3) % 40)
            if stream:
                with torch.cuda.stream(stream):
                    g = pattern(n, k + i).to(DEV, non_blocking=True)  # its source is freed at once
                    filler = torch.full((n,), 7, dtype=torch.uint8)
                    back = (g + 1).cpu()
            else:
                back, filler = pattern(n, k + i) + 1, 0
            if not torch.equal(back, pattern(n, k + i) + 1):
                wrong.append((k, i))
            del filler
            if i == 4:
                gc.collect()

    torch.set_num_threads(2)
    all_threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in all_threads:
        t.start()
    for t in all_threads:
        t.join()
    check("eight threads", not wrong)


@case
def errors():
    import torch

    if DEV != "cuda":
        return say("skipped")
    x = pattern(5_000_000, 1)
    for _ in range(2):
        try:
            torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            say("out of memory")
        check("copy after it", torch.equal(x.to("cuda").cpu(), x))
    for wrong in (
        lambda: x.to("cuda:63"),
        lambda: x.cuda().copy_(pattern(7, 1)),
        lambda: x.cuda().numpy(),
        lambda: x.to("meta").cpu(),
    ):
        try:
            wrong()
            say("nothing")
        except Exception as error:
            say(type(error).__name__)
        check("copy after it", torch.equal(x.to("cuda").cpu(), x))
    table = torch.zeros(10, device="cuda")
    index = torch.full((1000,), 99, device="cuda")
    try:
        table[index].sum().item()
        say("no error")
    except Exception as error:
        say(type(error).__name__, "device-side assert" in str(error))
    for what in (
        lambda: x.to("cuda"),
        lambda: table.cpu(),
        lambda: torch.ones(3).cuda(),
        torch.cuda.synchronize,
    ):
        try:
            what()
            say("worked")
        except Exception as error:
            say(type(error).__name__, "device-side assert" in str(error))
    sys.stdout.flush()
    os._exit(9)


@case
def signals():
    import signal
    import time

    import torch

    ticks = []
    signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    x, ok = pattern(20_000_000, 1), True
    for _ in range(40):
        ok &= torch.equal(x.to(DEV).cpu(), x)
    signal.setitimer(signal.ITIMER_REAL, 0)
    check("copies with a timer", ok)
    say("ticks", len(ticks) > 3)

    class StopError(Exception):
        pass

    def stop(*_):
        raise StopError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        begin = time.monotonic()
        while time.monotonic() - begin < 10:
            x.to(DEV).cpu()
        say("not stopped")
    except StopError:
        say("stopped")
    check("copy after it", torch.equal(x.to(DEV).cpu(), x))
    say(
        signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(44))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


@case
def ending():
    import atexit

    import torch

    x = pattern(5_000_000, 1)
    g = x.to(DEV)

    def last():
        say("at the end", torch.equal(g.cpu(), x), torch.equal(x.to(DEV), g))

    class Late:
        def __del__(self):
            say("deleted", bool((g.cpu() == x).all()))

    atexit.register(last)
    late = Late()
    say(sys.stdin.read() == "" or "input", late is not None)
    del late
    say(list(sys.argv[1:]), sys.flags.optimize, sys.stdout.isatty())
    sys.exit(5)


@case
def by_ctypes():
    import ctypes

    if DEV != "cuda":
        return say("skipped")
    cuda = ctypes.CDLL("libcuda.so.1")
    say(cuda.cuInit(0))
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    say(
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        cuda.cuCtxSetCurrent(context),
    )
    n = 8_000_001
    say(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(n)))
    data = hashlib.shake_128(b"x").digest(n)
    for name in ("", "_ptds"):
        to, back = getattr(cuda, "cuMemcpyHtoD_v2" + name), getattr(cuda, "cuMemcpyDtoH_v2" + name)
        out = ctypes.create_string_buffer(n)
        say(
            to(memory, data, ctypes.c_size_t(n)),
            back(out, memory, ctypes.c_size_t(n)),
            out.raw == data,
        )
        say(
            to(ctypes.c_uint64(0), data, ctypes.c_size_t(n)),
            back(out, ctypes.c_uint64(5), ctypes.c_size_t(n)),
        )
        say(to(memory, data, ctypes.c_size_t(n + (1 << 40))))
    say(hasattr(cuda, "cuMemcpyNonsense"), hasattr(cuda, "cuMemcpyBatchAsync"))


@case
def with_cupy():
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception:
        return say("skipped")
    import numpy

    a = numpy.arange(3_000_003, dtype=numpy.float32)
    g = cupy.asarray(a)
    check("asarray", bool((g == cupy.arange(3_000_003, dtype=cupy.float32)).all()))
    check("asnumpy", (cupy.asnumpy(g * 2) == a * 2).all())
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        b = a.copy()
        h = cupy.empty_like(g)
        h.set(b)
        b.fill(-1)
        out = numpy.empty_like(a)
        h.get(out=out)
    stream.synchronize()
    check("set and get", (out == a).all())
    check("not contiguous", (cupy.asnumpy(cupy.asarray(a[::3])) == a[::3]).all())
    check(
        "fortran",
        (
            cupy.asnumpy(cupy.asarray(numpy.asfortranarray(a[:3_000_000].reshape(1000, 3000))))
            == a[:3_000_000].reshape(1000, 3000)
        ).all(),
    )
    memory = cupy.cuda.alloc_pinned_memory(a.nbytes)
    pinned = numpy.frombuffer(memory, a.dtype, a.size)
    pinned[...] = a
    with stream:
        h.set(pinned)
    stream.synchronize()
    check("pinned", (cupy.asnumpy(h) == a).all())


@case
def with_numba():
    try:
        import numpy
        from numba import cuda

        a = numpy.arange(3_000_003, dtype=numpy.float32)
        d = cuda.to_device(a)
    except Exception:
        return say("skipped")
    check("to_device", (d.copy_to_host() == a).all())
    stream = cuda.stream()
    b = a.copy()
    e = cuda.to_device(b, stream=stream)
    b.fill(-1)
    out = numpy.empty_like(a)
    e.copy_to_host(out, stream=stream)
    stream.synchronize()
    check("by a stream", (out == a).all())
    check("slices", (d[5:2_000_000].copy_to_host() == a[5:2_000_000]).all())
    cuda.close()
    check("after close", (cuda.to_device(a).copy_to_host() == a).all())


if __name__ == "__main__":
    if sys.argv[1:] == ["list"]:
        print("\n".join(CASES))
        sys.exit(0)
    CASES[sys.argv[1]]()
    sys.exit(1 if BAD else 0)
