"""Packets of a Perfetto trace, by the classes that the ``perfetto`` package ships.

The only module that imports that package: it is an extra, and everything else works without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO, Any

from lanescope.errors import InputError

#: Packets that are made before they are written: bounds memory, and is faster than each alone.
_BATCH = 1 << 14
#: All packets are of one writer, whose interned texts they use.
_SEQUENCE = 1
_CLEARED, _NEEDS_STATE = 1, 2
_REALTIME, _BOOTTIME = 1, 6
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4

#: Values of annotations: whole numbers, rates, and numbers of texts that `Writer` was given.
Annotations = Iterable[tuple[int, str, Any]]


def builder_class() -> Any:
    """Return the package's builder.

    Raises
    ------
    InputError
        If the package is missing or too old.
    """
    try:
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    except ImportError as error:
        raise InputError(
            "the perfetto package, which writes such traces, is missing or too old here; "
            "run: pip install 'perfetto>=0.16'"
        ) from error
    return TraceProtoBuilder


class Writer:
    """Appends packets to a file; times are nanoseconds since 1970.

    Parameters
    ----------
    texts
        Names of slices and texts of annotations; packets hold their numbers.
    labels
        Names of annotations.
    """

    def __init__(
        self, file: IO[bytes], start_ns: int, texts: Iterable[str], labels: Iterable[str]
    ) -> None:
        self._file = file
        self._new = builder_class()
        self._builder = self._new()
        self._waiting = 0
        self._uuids = 0
        self.text: Mapping[str, int] = {text: i for i, text in enumerate(dict.fromkeys(texts), 1)}
        self.label: Mapping[str, int] = {text: i for i, text in enumerate(labels, 1)}
        self._clocks(start_ns)
        self._intern(start_ns)

    def track(self, name: str, parent: int | None = None, description: str = "") -> Any:
        """Add a track and return its descriptor, whose `uuid` slices name."""
        self._uuids += 1
        descriptor = self._builder.add_packet().track_descriptor
        descriptor.uuid = self._uuids
        if name:
            descriptor.name = name
        if parent is not None:
            descriptor.parent_uuid = parent
        if description:
            descriptor.description = description
        return descriptor

    def instant(self, track: int, at_ns: int, name: int, annotations: Mapping[str, str]) -> None:
        """Add something that takes no time, with texts of its own."""
        event = self._event(at_ns)
        event.type, event.track_uuid, event.name_iid = _INSTANT, track, name
        for label, value in annotations.items():
            annotation = event.debug_annotations.add()
            annotation.name, annotation.string_value = label, value

    def slice(
        self,
        track: int,
        span: tuple[int, int],
        name: int,
        annotations: Annotations = (),
        flow: int = 0,
    ) -> None:
        """Add a slice; slices with the same `flow` above 0 are joined by arrows."""
        event = self._event(span[0])
        event.type, event.track_uuid, event.name_iid = _BEGIN, track, name
        if flow:
            event.flow_ids.append(flow)
        for label, field, value in annotations:
            annotation = event.debug_annotations.add()
            annotation.name_iid = label
            setattr(annotation, field, value)
        event = self._event(span[1])
        event.type, event.track_uuid = _END, track

    def points(self, track: int, at_ns: Iterable[int], values: Iterable[float]) -> None:
        """Add a counter's values, each from its time on."""
        for at, value in zip(at_ns, values, strict=True):
            event = self._event(at)
            event.type, event.track_uuid, event.double_counter_value = _COUNTER, track, value

    def flush(self) -> None:
        """Write what waits."""
        self._file.write(self._builder.serialize())
        self._builder, self._waiting = self._new(), 0

    def _event(self, at_ns: int) -> Any:
        if self._waiting >= _BATCH:
            self.flush()
        self._waiting += 1
        packet = self._builder.add_packet()
        packet.timestamp = at_ns
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _NEEDS_STATE
        return packet.track_event

    def _clocks(self, start_ns: int) -> None:
        """Tell the trace's clock: without a snapshot only CLOCK_BOOTTIME can be read.

        What that showed was not recorded. Giving both the same time keeps times as they are,
        whichever a reader takes as the trace's own.
        """
        snapshot = self._builder.add_packet().clock_snapshot
        snapshot.primary_trace_clock = _REALTIME
        for clock in (_REALTIME, _BOOTTIME):
            snapshot.clocks.add(clock_id=clock, timestamp=start_ns)

    def _intern(self, start_ns: int) -> None:
        packet = self._builder.add_packet()
        packet.timestamp = start_ns
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _CLEARED
        packet.first_packet_on_sequence = True
        packet.trace_packet_defaults.timestamp_clock_id = _REALTIME
        for text, number in self.text.items():
            packet.interned_data.event_names.add(iid=number, name=text)
            packet.interned_data.debug_annotation_string_values.add(iid=number, str=text.encode())
        for text, number in self.label.items():
            packet.interned_data.debug_annotation_names.add(iid=number, name=text)
