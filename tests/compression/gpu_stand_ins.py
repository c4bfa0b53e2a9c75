"""Arrays and a core that take the place of a GPU's."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from lanescope._core import native


def stand_in(framework):
    """Return a type of arrays that looks like that of a framework."""
    return type("Array", (_Array,), {"__module__": framework, "framework": framework})


class _Array:
    """A NumPy array that says it lies on a GPU."""

    def __init__(self, values, gpu=0, dtype=None, whole=True):
        self.host = np.ascontiguousarray(values)
        self.gpu, self.whole = gpu, whole
        name = dtype or self.host.dtype.name
        self.dtype = f"torch.{name}" if self.framework == "torch" else np.dtype(name)
        self.shape = self.host.shape
        self.is_cuda = gpu is not None
        self.nbytes = self.host.nbytes
        self.layout, self.conjugated = "torch.strided", False

    @property
    def device(self):
        return SimpleNamespace(index=self.gpu, id=self.gpu)

    @property
    def flags(self):
        return SimpleNamespace(c_contiguous=self.whole)

    @property
    def data(self):
        return SimpleNamespace(ptr=self.data_ptr())

    def is_conj(self):
        return self.conjugated

    def is_neg(self):
        return False

    def is_contiguous(self):
        return self.whole

    def data_ptr(self):
        return self.host.ctypes.data

    def get_device(self):
        return self.gpu

    def stride(self, dimension):
        return self.host.strides[dimension] // self.host.itemsize

    @property
    def strides(self):
        return self.host.strides

    def __getitem__(self, which):
        if self.host.ndim == 1 and isinstance(which, int):  # not a scalar, which lies elsewhere
            return self._view(self.host[which : which + 1].reshape(()))
        return self._view(self.host[which])

    def unbind(self, dimension):
        return [self[i] for i in range(len(self.host))]

    def _view(self, values):
        """Of the same memory, which need not be in one piece."""
        view = type(self).__new__(type(self))
        view.__dict__.update(self.__dict__)
        view.host, view.shape, view.nbytes = values, values.shape, values.nbytes
        view.whole = values.flags.c_contiguous
        return view

    def numel(self):
        return self.host.size

    def element_size(self):
        return self.host.itemsize


class Ticket:
    """A transfer that ends when it is told to."""

    def __init__(self, size, compressed, wire=None):
        self.bytes, self.compressed = size, compressed
        self.wire_bytes = size if wire is None else wire
        self.seconds, self.why_raw = 1e-3, ""
        self.ended, self.said = False, ""

    def done(self):
        return self.ended

    def damage(self):
        return self.said if self.ended else ""

    def wait(self, patience_s):
        self.ended = True
        if self.said:
            raise native.NativeError("wait", 0, "bad block", self.said, "here")


class Core:
    """Notes what it was asked for, and does it at once."""

    def __init__(self, *options):
        self.options, self.calls, self.tickets, self.closed = options, [], [], False
        self.loaded = []
        self.joins, self.joined = [], []

    def load(self, *given):
        self.loaded.append(given)

    def send(self, *given):
        return self._ticket(given, given[2], given[3])

    def offload(self, *given, joins=True):
        self.joins.append(joins)
        ticket = self._ticket(given, given[1], given[2])
        held = SimpleNamespace(
            bytes=given[1], compressed=given[2] is not None, stored_bytes=lambda: given[1] // 2
        )
        return held, ticket

    def restore(self, *given, joins=True):
        self.joins.append(joins)
        return self._ticket(given, given[0].bytes, given[0].compressed or None)

    def join(self, ticket, stream):
        self.joined.append((ticket, stream))

    def close(self):
        self.closed = True

    def _ticket(self, given, size, codec):
        self.calls.append(given)
        self.tickets.append(Ticket(size, codec is not None))
        return self.tickets[-1]
