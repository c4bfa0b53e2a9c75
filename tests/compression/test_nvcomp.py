"""nvCOMP beside our codecs: what it is asked for, what is refused, and on a GPU that it works."""

import runpy
import sys
import types
from pathlib import Path

import pytest

from lanescope.errors import InputError

BENCHMARK = Path(__file__).parents[2] / "benchmarks/compress/nvcomp_side_by_side.py"
FOUND = runpy.run_path(str(BENCHMARK))
NvcompCodec, load_nvcomp = FOUND["NvcompCodec"], FOUND["load_nvcomp"]


class Tensor:
    """What the codec needs of one."""

    def __init__(self, dtype, values=8, size=2):
        self.dtype, self.nbytes = f"torch.{dtype}", values * size
        self.device = types.SimpleNamespace(index=3)
        self.seen_as = dtype

    def view(self, what):
        made = Tensor(self.seen_as, 1, self.nbytes)
        made.seen_as = self.seen_as if what == -1 else what
        return made


class Recorder:
    """Stands for the module: keeps what it was called with."""

    BitstreamKind = types.SimpleNamespace(NVCOMP_NATIVE="native")

    def __init__(self):
        self.calls = []

    def Codec(self, **asked):  # noqa: N802
        self.calls.append(("Codec", asked))
        return self

    def as_array(self, source, cuda_stream):
        return ("array", source.seen_as, cuda_stream)

    def compression_config(self, size):
        return ("compressing", size)

    def decompression_config(self, compressing):
        return ("decompressing", compressing)

    def encode(self, source, out, compression_config):
        self.calls.append(("encode", source, out, compression_config))
        return "coded"

    def decode(self, coded, out, decompression_config):
        self.calls.append(("decode", coded, out.seen_as, decompression_config))


@pytest.fixture
def recorder(monkeypatch):
    made = Recorder()
    monkeypatch.setitem(NvcompCodec.__init__.__globals__, "load_nvcomp", lambda: made)
    names = ("uint8", "int64", "float16", "float32")
    torch = types.SimpleNamespace(**{name: name for name in names})
    monkeypatch.setitem(sys.modules, "torch", torch)
    return made


@pytest.mark.parametrize(
    ("dtype", "algorithm", "named", "same_bits"),
    [
        ("bfloat16", "ANS", "<f2", "float16"),
        ("float16", "ANS", "<f2", "float16"),
        ("float32", "ANS", "<f4", "float32"),
        ("float64", "Bitcomp", "<u8", "int64"),
    ],
)
def test_what_nvcomp_is_asked_for(recorder, dtype, algorithm, named, same_bits):
    tensor = Tensor(dtype)
    codec = NvcompCodec(tensor, stream=77)
    _, asked = recorder.calls[0]
    assert (asked["algorithm"], asked["data_type"]) == (algorithm, named)
    assert (asked["device_id"], asked["cuda_stream"]) == (3, 77)
    codec.decode(codec.encode(tensor, out="earlier"), tensor)
    # of the size alone: nothing has to be read back before decoding
    sizes = ("compressing", 16)
    assert recorder.calls[1:] == [
        ("encode", ("array", same_bits, 77), "earlier", sizes),
        ("decode", "coded", "uint8", ("decompressing", sizes)),
    ]


def test_other_types_and_sizes_are_refused(recorder):
    with pytest.raises(InputError, match="not used for int32"):
        NvcompCodec(Tensor("int32"), 1)
    with pytest.raises(InputError, match="without values"):
        NvcompCodec(Tensor("float32", values=0), 1)
    with pytest.raises(InputError, match="for 16 bytes, not 18"):
        NvcompCodec(Tensor("float16"), 1).encode(Tensor("float16", values=9))


def test_without_nvcomp_there_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvidia", types.ModuleType("nvidia"))
    monkeypatch.delitem(sys.modules, "nvidia.nvcomp", raising=False)
    with pytest.raises(InputError, match=r"pip install 'lanescope\[nvcomp\]'"):
        load_nvcomp()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "least"), [("bfloat16", 1.35), ("float16", 1.05), ("float32", 1.0), ("float64", 0.9)]
)
def test_every_bit_comes_back(dtype, least):
    torch = pytest.importorskip("torch")
    pytest.importorskip("nvidia.nvcomp")
    if not torch.cuda.is_available():
        pytest.skip("no GPU that CUDA can use")
    values = (torch.randn(1_000_003, device="cuda") * 0.02).to(getattr(torch, dtype))
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        codec = NvcompCodec(values, stream.cuda_stream)
        coded = codec.encode(values)
        for _ in range(2):  # into new memory and into that of before
            out = torch.zeros_like(values)
            codec.decode(coded, out)
            torch.cuda.synchronize()
            assert torch.equal(out.view(torch.uint8), values.view(torch.uint8))
            assert values.nbytes / coded.buffer_size > least
            coded = codec.encode(values, coded)
