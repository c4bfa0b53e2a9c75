"""A watch without an end: its folder, its sessions one after the other, and metrics of it."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

from lanescope._core import native
from lanescope._version import __version__
from lanescope.codec.files import writing_to
from lanescope.codec.prometheus import Sample, metric
from lanescope.errors import InputError
from lanescope.interruption import Interrupted
from lanescope.machine import Machine
from lanescope.machine.files import dumps_machine
from lanescope.store.folder import MACHINE, RunFolder, default_runs_folder, require_new
from lanescope.trace.segments import SEGMENTS, SESSION, is_continuous, stored_bytes
from lanescope.trace.watch_folder import WATCH, WatchManifest
from lanescope.units.sizes import bytes_a_second
from lanescope.watching.segment_writer import (
    CONTINUOUS_RESERVED_BYTES,
    EDGES,
    ContinuousWait,
    SegmentWriter,
)
from lanescope.watching.session import Watch, watch
from lanescope.watching.signals import interruptible
from lanescope.watching.sources import WatchSource

#: Its run if no folder is named.
NAME = "continuous"
#: Spools are given back to the disk as they grow, so that their lengths say nothing.
_NO_LIMIT = 1 << 60
#: Before sources that said nothing are begun anew.
_PAUSE_SECONDS = 5.0
_SHARE_OF_FREE = 4

Sources = Callable[[Machine, Path], Sequence[WatchSource]]


@dataclasses.dataclass(frozen=True, slots=True)
class ContinuousWatch:
    """What to keep, and how much of it.

    Attributes
    ----------
    folder
        New, or one of an earlier watch of this kind, which goes on.
    keep_ns, most_bytes
        The last so long, in no more than so many bytes; None: a quarter of what is free.
    machine, sources
        Looks at the machine, and makes its sources, given the folder that they append to.
    command
        Command line of lanescope, for the record.
    """

    folder: Path
    keep_ns: int
    most_bytes: int | None
    machine: Callable[[], Machine]
    sources: Sources
    command: str

    def writer(self) -> SegmentWriter:
        """Return what makes the segments.

        Raises
        ------
        InputError
            If the folder is something else.
        """
        if self.folder.exists() and not is_continuous(self.folder):
            require_new(self.folder)
        with writing_to(self.folder):
            (self.folder / SEGMENTS).mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.folder).free
        most = (
            (free + stored_bytes(self.folder)) // _SHARE_OF_FREE
            if self.most_bytes is None
            else self.most_bytes
        )
        return SegmentWriter(self.folder, self.keep_ns, most)

    def run(self, writer: SegmentWriter, restarted: Callable[[], None]) -> int:
        """Watch until Ctrl-C or SIGTERM, and return its number.

        Sources that say nothing for long are begun anew: `restarted` is called then.

        Raises
        ------
        InputError
            If another process has the folder, or it cannot be written.
        """
        with RunFolder(self.folder, WATCH) as own:
            try:
                with interruptible():
                    return self._sessions(own, writer, restarted)
            except Interrupted as error:  # between two sessions, or before the first
                return error.number

    def _sessions(
        self, own: RunFolder, writer: SegmentWriter, restarted: Callable[[], None]
    ) -> int:
        writer.recover()
        while True:
            ending = ContinuousWait(writer)
            try:
                machine = self.machine()
                self._describe(own, machine)
                self._session(machine, writer, ending)
            except InputError as error:
                if not writer.make_room_after(error):
                    raise
            if ending.signal is not None:
                return ending.signal
            if not ending.overgrown:
                restarted()
                time.sleep(_PAUSE_SECONDS)

    def _describe(self, own: RunFolder, machine: Machine) -> None:
        own.write(MACHINE, dumps_machine(machine).encode())
        own.update(
            WatchManifest(
                command=self.command,
                program=(),
                started=datetime.now().astimezone().isoformat(timespec="seconds"),
                tool_version=__version__,
                machine=machine,
                start_ns=native.watch_time_ns(),
                notes=("The whole machine was watched; no program was traced.",),
            )
        )

    def _session(self, machine: Machine, writer: SegmentWriter, ending: ContinuousWait) -> None:
        place = self.folder / SESSION
        shutil.rmtree(place, ignore_errors=True)  # of one that was killed
        request = Watch(
            machine,
            ending,
            self.command,
            lambda spool: self.sources(machine, spool),
            place,
            lambda spool: writer.writing(spool, machine),
            _NO_LIMIT,
            CONTINUOUS_RESERVED_BYTES,
        )
        try:
            watch(request)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def default_folder() -> Path:
    """Return where a watch without an end keeps what it counts if nobody says so."""
    return default_runs_folder() / NAME


DEFAULT_ADDRESS = "127.0.0.1:9469"
_LOOPBACK = "127.0.0.1"
_PATIENCE_S = 10.0


def metrics_of(writer: SegmentWriter) -> str:
    """Return the metrics of a watch that goes on."""
    lines: list[str] = []
    for name, about, column in (
        ("received", "Bytes that a GPU received over a link, protocol included.", "received_bytes"),
        ("sent", "Bytes that a GPU sent over a link, protocol included.", "sent_bytes"),
    ):
        samples: list[Sample] = [
            ({"gpu": str(gpu), "link": link, "source": source}, float(getattr(one, column)))
            for (source, gpu, link), one in sorted(writer.totals.items())
        ]
        lines += metric(f"link_{name}_bytes_total", about, samples, kind="counter")
    rates, shares = [], []
    for one in writer.directions:
        labels = {"gpu": str(one.gpu), "direction": one.direction}
        if one.rates.now_gbs is not None:
            rates.append((labels, bytes_a_second(one.rates.now_gbs)))
        if one.share_of_limit is not None:
            shares.append((labels, one.share_of_limit))
    lines += metric("link_payload_bytes_per_second", "Payload of the last 100 ms.", rates)
    lines += metric("link_use_ratio", "The same as a share of what the link can carry.", shares)
    lines += _use_metrics(writer)
    errors: list[Sample] = [
        ({"gpu": str(one.gpu), "kind": kind.replace("_", "-")}, float(count))
        for one in writer.link_errors
        for kind, count in dataclasses.asdict(one).items()
        if kind != "gpu" and count is not None
    ]
    about = "Errors that a link has counted since the driver was loaded."
    lines += metric("link_errors_total", about, errors, kind="counter")
    lines += _finding_metrics(writer)
    lost = [
        ({"gpu": str(gpu), "direction": direction}, float(count))
        for (gpu, direction), count in sorted(writer.lost_samples.items())
    ]
    about = "Samples that counters lost since they were begun."
    lines += metric("link_lost_samples_total", about, lost, kind="counter")
    stored: list[Sample] = [({}, float(writer.stored_bytes + writer.waiting_bytes))]
    about = "Bytes on the disk: segments, and what becomes the next one."
    lines += metric("stored_bytes", about, stored)
    about = "Records that could not be stored, as there was no room on the disk."
    dropped: list[Sample] = [({}, float(writer.lost_records))]
    lines += metric("dropped_records_total", about, dropped, kind="counter")
    return "".join(lines)


def _finding_metrics(writer: SegmentWriter) -> Iterator[str]:
    """Yield what may be wrong with links, and what their PCIe links run at and could."""
    active: list[Sample] = []
    seconds: list[Sample] = []
    for one in writer.findings.found:
        labels = {"gpu": str(one.gpu), "kind": one.kind}
        active.append((labels, float(one.active)))
        seconds.append((labels, one.seconds))
    yield from metric("finding_active", "Whether something is wrong with a link now.", active)
    about = "Seconds that this was wrong with a link, since the service began."
    yield from metric("finding_seconds_total", about, seconds, kind="counter")
    generations: list[Sample] = []
    lanes: list[Sample] = []
    for link in writer.findings.links:
        assert link.pcie is not None, "states are of PCIe links"
        for state, pcie in (("now", link.pcie), ("best", link.pcie.at_best())):
            labels = {"above": link.a, "below": link.b, "state": state}
            generations.append((labels, float(pcie.generation)))
            lanes.append((labels, float(pcie.width)))
    about = "Generation of a PCIe link when it was last in use."
    yield from metric("pcie_generation", about, generations)
    yield from metric("pcie_lanes", "Lanes of a PCIe link when it was last in use.", lanes)


def _use_metrics(writer: SegmentWriter) -> Iterator[str]:
    """Yield the histogram of links' use: how many seconds each was used up to which share."""
    if not writer.use:
        return
    about = "Seconds by the share of the link that was used."
    yield from _histogram(writer, "lanescope_link_use_distribution_ratio", about)
    old = "The old name of lanescope_link_use_distribution_ratio; the next version has it no more."
    yield from _histogram(writer, "lanescope_link_use_seconds", old)


def _histogram(writer: SegmentWriter, name: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}\n"
    yield f"# TYPE {name} histogram\n"
    for (gpu, direction), use in sorted(writer.use.items()):
        labels, so_far = f'gpu="{gpu}",direction="{direction}"', 0
        for edge, count in zip((*map(str, EDGES), "+Inf"), use.counts, strict=True):
            so_far += count
            yield f'{name}_bucket{{{labels},le="{edge}"}} {so_far}\n'
        yield f"{name}_sum{{{labels}}} {use.total:.10g}\n{name}_count{{{labels}}} {so_far}\n"


def address_of(text: str) -> tuple[str, int]:
    """Return where to serve: ``9469`` and ``:9469`` are of this machine alone.

    Raises
    ------
    InputError
        If it is no address.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InputError(
            f"--metrics {text} is no address; give a port, such as 9469, or an address and a port, "
            "such as 0.0.0.0:9469"
        )
    return host.strip("[]") or _LOOPBACK, int(port)


def address_text(host: str, port: int) -> str:
    """Return an address as it stands in a URL.

    >>> address_text("::1", 9469)
    '[::1]:9469'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.contextmanager
def serving(address: tuple[str, int], text: Callable[[], str]) -> Iterator[int]:
    """Serve a text at ``/metrics`` until the block is left; yields the port.

    Raises
    ------
    InputError
        If the address is in use, or not this machine's.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S

        def do_GET(self) -> None:
            self.wfile.write(self._begun())

        def do_HEAD(self) -> None:
            self._begun()

        def _begun(self) -> bytes:
            """Send all but the content, and return that."""
            found = self.path.partition("?")[0] in ("/", "/metrics")
            content = (text() if found else "see /metrics\n").encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            return content

        def log_message(self, *_: object) -> None:
            """Say nothing of requests."""

    class MetricsServer(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET

        def server_bind(self) -> None:
            """Ask no name server for this machine's name: one that is down takes long."""
            TCPServer.server_bind(self)

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of a client that has gone."""
            if not isinstance(sys.exc_info()[1], OSError):
                super().handle_error(request, client_address)

    try:
        server = MetricsServer(address, Handler)
    except OSError as error:
        raise InputError(
            f"metrics cannot be served at {address_text(*address)}: {error.strerror}; give "
            "another --metrics ADDRESS, or --metrics off"
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="lanescope-metrics", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
