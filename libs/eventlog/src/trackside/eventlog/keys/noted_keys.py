"""The keys that partitions trust, for a reader that folds some streams of them alone."""

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.keys import KEYS_STREAM
from trackside.domain.folding.streams import Streams
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import decode, stream_of
from trackside.eventlog.log import Entry

_STREAM = KEYS_STREAM.encode()


def is_about_keys(entry: Entry) -> bool:
    """Returns whether an entry is of a stream of events about keys."""
    return stream_of(entry).startswith(_STREAM)


class NotedKeys:
    """Folds the events about keys that are passed on the way; each offset once, also if it is read again.

    The newest keys answer for every earlier place, so it does not matter in which order records are checked.
    A reader that does not begin where its partition does adopts the keys of a state that was stored.
    """

    def __init__(self) -> None:
        self._streams = Streams(AGGREGATES)

    def adopt(self, keys: Stream | None) -> None:
        """Takes over the stream of the keys of a partition, unless what was noted is as new."""
        if keys is not None and keys.last_offset >= self._streams.positions.get(keys.partition, 0):
            self._streams.adopt(keys)
            self._streams.positions[keys.partition] = keys.last_offset + 1

    def noted(self, entry: Entry, record: Record | None) -> Record | None:
        """Takes in an entry of the events; returns its record with the keys that it is checked with."""
        self.note(entry, stream_of(entry))
        return None if record is None else self.checked(record)

    def note(self, entry: Entry, stream: bytes) -> None:
        """Takes in an entry of a stream, if it is about keys."""
        if stream.startswith(_STREAM) and entry.offset >= self._streams.positions.get(entry.partition, 0):
            about = decode(entry)
            if about is not None:
                self._streams.fold(about)

    def checked(self, record: Record) -> Record:
        """Returns a record with the keys that it is checked with."""
        record.trust = self._streams.trust_in(record.partition)
        return record

    def stream(self, partition: int) -> Stream | None:
        """Returns the stream of the keys of a partition, to be stored; None if it trusts none."""
        streams = self._streams.by_id.values()
        return next((each for each in streams if each.partition == partition and each.trust), None)
