"""Measures every data path between CPUs and GPUs against its physical limit.

>>> import lanescope
>>> run = lanescope.check()  # doctest: +SKIP
>>> run.results[0].copies[0].gbs  # doctest: +SKIP
55.6

Names are imported when they are first used, so that ``import lanescope`` is quick. Arguments of
functions are checked by their type hints (`lanescope.calls`), of whatever is exported here.
"""

from __future__ import annotations

# Nothing that takes its time: it would come before the command line takes care of signals.
from lanescope.presenting import present_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lanescope._version import __version__ as __version__
    from lanescope.api import advise as advise
    from lanescope.api import bench as bench
    from lanescope.api import check as check
    from lanescope.api import copy as copy
    from lanescope.api import fit as fit
    from lanescope.api import latency as latency
    from lanescope.api import measure as measure
    from lanescope.api import nccl as nccl
    from lanescope.api import predict as predict
    from lanescope.api import small as small
    from lanescope.api import sms as sms
    from lanescope.api import streams as streams
    from lanescope.api import sweep as sweep
    from lanescope.api import topo as topo
    from lanescope.api import validate as validate
    from lanescope.boosting.arrays import to_gpu as to_gpu
    from lanescope.boosting.arrays import to_host as to_host
    from lanescope.boosting.running import boost as boost
    from lanescope.compression.channel import Channel as Channel
    from lanescope.compression.codec import compress as compress
    from lanescope.compression.codec import decompress as decompress
    from lanescope.copies import Copy as Copy
    from lanescope.copies import Engine as Engine
    from lanescope.copies import Experiment as Experiment
    from lanescope.copies import Memory as Memory
    from lanescope.copies import Operation as Operation
    from lanescope.copies import Place as Place
    from lanescope.copies import Timing as Timing
    from lanescope.engine.sampling import Plan as Plan
    from lanescope.errors import InputError as InputError
    from lanescope.errors import LanescopeError as LanescopeError
    from lanescope.errors import NotMeasuredError as NotMeasuredError
    from lanescope.machine import Machine as Machine
    from lanescope.machine import discover as discover
    from lanescope.machine import load_machine as load_machine
    from lanescope.presenting import Presenter
    from lanescope.results import Result as Result
    from lanescope.store.run import Run as Run
    from lanescope.store.store import read_run as read_run
    from lanescope.studies.node import node as node
    from lanescope.studies.taruc.study import taruc as taruc
    from lanescope.studies.watched import watch as watch

_HOME = {
    "__version__": "_version",
    "advise": "api",
    "bench": "api",
    "check": "api",
    "copy": "api",
    "fit": "api",
    "latency": "api",
    "measure": "api",
    "predict": "api",
    "small": "api",
    "sms": "api",
    "streams": "api",
    "nccl": "api",
    "sweep": "api",
    "topo": "api",
    "validate": "api",
    "to_gpu": "boosting.arrays",
    "to_host": "boosting.arrays",
    "boost": "boosting.running",
    "Channel": "compression.channel",
    "compress": "compression.codec",
    "decompress": "compression.codec",
    "InputError": "errors",
    "LanescopeError": "errors",
    "NotMeasuredError": "errors",
    "Copy": "copies",
    "Engine": "copies",
    "Experiment": "copies",
    "Memory": "copies",
    "Operation": "copies",
    "Place": "copies",
    "Timing": "copies",
    "Machine": "machine",
    "discover": "machine",
    "load_machine": "machine",
    "Plan": "engine.sampling",
    "Result": "results",
    "Run": "store.run",
    "read_run": "store.store",
    "node": "studies.node",
    "taruc": "studies.taruc.study",
    "watch": "studies.watched",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    import importlib

    if name == "api":  # where `compress` is the study of that name
        return importlib.import_module("lanescope.api")
    if name not in _HOME:
        raise AttributeError(f"module 'lanescope' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"lanescope.{_HOME[name]}"), name)
    if callable(found):
        from lanescope.calls import checked, checked_constructor

        if not isinstance(found, type):
            found = checked(found)
            found.__module__ = __name__  # where pickle looks for it
        elif hasattr(found, "__dataclass_fields__"):
            found = checked_constructor(found)
    globals()[name] = found
    return found


def _presenter() -> Presenter:
    from lanescope.studies.runs import document

    return document


present_by(_presenter)


def __dir__() -> list[str]:
    return __all__
