"""Runs copies on GPUs of several nodes: each by the process of its GPU, which is on its node."""

from __future__ import annotations

from lanescope.copies import Experiment, Timing
from lanescope.engine.base import Nodes
from lanescope.engine.native import NativeBackend
from lanescope.engine.sessions import GpuSession
from lanescope.errors import BusyError, NotMeasuredError
from lanescope.machine import Gpu


class NodesBackend(NativeBackend):
    """Several nodes; what cannot be done by a process for each GPU is not measured."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        super().__init__(nodes.machine, start=nodes.start)

    def _session(self, experiment: Experiment, gpus: tuple[Gpu, ...]) -> GpuSession:
        if experiment.timing is not Timing.PROCESSES:
            raise NotMeasuredError(
                "Between nodes a process for each GPU copies, and this is not done so.",
                "Measure it on one node alone.",
            )
        return self._gpu_session(experiment, gpus)

    def _find_busy(self) -> dict[int, BusyError]:
        return dict(self._nodes.busy)

    def _require_number(self, gpu: Gpu) -> None:
        """Each node has found its GPUs in the process that starts theirs."""

    def _require_host_memory(self, experiment: Experiment) -> None:
        """Only the node itself knows; its process says so where there is too little."""
