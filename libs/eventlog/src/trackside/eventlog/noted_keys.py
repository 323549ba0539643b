"""The keys that partitions trust, for a reader that folds one stream of them alone."""

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.keys import KEYS_STREAM
from trackside.contracts.message import Record
from trackside.domain.streams import Streams
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Entry

_STREAM = KEYS_STREAM.encode()


class NotedKeys:
    """Folds the events about keys that are passed on the way; each offset once, whoever reads it again."""

    def __init__(self) -> None:
        self._streams = Streams(AGGREGATES)

    def noted(self, entry: Entry, record: Record | None) -> Record | None:
        """Takes in an entry of the events; returns its record with the keys that it is checked with."""
        if entry.offset >= self._streams.positions.get(entry.partition, 0):
            stream = next((octets for name, octets in entry.headers if name == "ce_partitionkey"), None)
            if stream is not None and stream.startswith(_STREAM) and (about := decode(entry)) is not None:
                self._streams.fold(about)
        if record is not None:
            record.trust = self._streams.trust_in(entry.partition)
        return record
