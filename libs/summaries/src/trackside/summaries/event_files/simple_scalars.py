"""Reads records of one number without a parser, where all but time, step and number were seen before.

Nearly all records of an event file are one scalar, written in the order of the fields: wall time, step (left
out where it is 0), summary. The bytes of the summary before the number are the same in all records of a tag,
so they are looked up among those of known tags. Any other record is left to the parser.
"""

import struct
from collections.abc import Sequence

import numpy as np

from trackside.summaries.event_files.milliseconds import LATEST_S, milliseconds
from trackside.summaries.event_files.protos.tensorboard_pb2 import Event, Summary
from trackside.summaries.event_files.values import Segment

MAX_TAGS = 10_000
"""Tags of a file that are read without a parser, to bound memory."""

_TIME_KEY, _STEP_KEY = 0x09, 0x10
_AFTER_TIME = 9
_LONGEST_STEP = 9
"""Bytes of a step below 2^63; a negative one has ten."""


class SimpleScalars:
    """The scalars of one file that are read without a parser; `flush` hands them over."""

    def __init__(self) -> None:
        self._tags: dict[bytes, str] = {}
        self._known: set[str] = set()
        self._pending: dict[bytes, tuple[list[int], list[bytes], list[bytes]]] = {}

    def learn(self, tag: str) -> None:
        """Gets later records of a tag read without a parser."""
        if tag in self._known or len(self._known) == MAX_TAGS:
            return
        self._known.add(tag)
        event = Event(summary=Summary(value=[Summary.Value(tag=tag, simple_value=0.0)]))
        self._tags[event.SerializeToString()[:-4]] = tag

    def take(self, bodies: Sequence[bytes], first: int) -> int:
        """Reads records from number `first` on; returns the number of the first that needs the parser."""
        tags, pending = self._tags, self._pending
        for number in range(first, len(bodies)):
            body = bodies[number]
            if len(body) <= _AFTER_TIME or body[0] != _TIME_KEY:
                return number
            at, step = _AFTER_TIME, 0
            if body[at] == _STEP_KEY:
                shift, byte = 0, 0x80
                while byte > 0x7F:
                    at += 1
                    if at == len(body) or shift > 7 * (_LONGEST_STEP - 1):
                        return number
                    byte = body[at]
                    step |= (byte & 0x7F) << shift
                    shift += 7
                at += 1
            before_number = body[at:-4]
            columns = pending.get(before_number)
            if columns is None:
                if before_number not in tags:
                    return number
                columns = pending[before_number] = ([], [], [])
            steps, times, values = columns
            steps.append(step)
            times.append(body[1:_AFTER_TIME])
            values.append(body[-4:])
        return len(bodies)

    def flush(self, segment: Segment) -> None:
        """Adds what was read since the last time to a segment."""
        for before_number, (steps, times, values) in self._pending.items():
            numbers = struct.unpack(f"<{len(values)}f", b"".join(values))
            segment.add_points(self._tags[before_number], steps, _milliseconds(b"".join(times)), numbers)
        self._pending.clear()


def _milliseconds(seconds: bytes) -> list[int]:
    """Returns wall times, as `milliseconds` does for each."""
    times = np.frombuffer(seconds, "<f8")
    if np.all(np.abs(times) <= LATEST_S):  # false for NaN, too
        rounded: list[int] = np.rint(times * 1000).astype(np.int64).tolist()
        return rounded
    return [milliseconds(each) for each in times.tolist()]
