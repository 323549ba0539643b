"""All streams that a reader holds, and how far it has folded each partition."""

from dataclasses import dataclass, field

from pydantic import TypeAdapter

from trackside.contracts.message import Record
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream, fold

STATE = TypeAdapter(Stream)


@dataclass(slots=True)
class Streams:
    """Streams by id; `positions[partition]` is the next offset to fold."""

    by_id: dict[str, Stream] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    overtaken: int = 0

    def fold(self, record: Record) -> tuple[Stream, Outcome]:
        """Folds a record of the events topic into its stream, in order, each offset once."""
        self.positions[record.partition] = record.offset + 1
        stream_id = record.envelope.stream
        stream = self.by_id.get(stream_id)
        if stream is None:
            stream = Stream(stream_id, record.partition)
            self.by_id[stream_id] = stream
        outcome = fold(stream, record)
        if outcome is not Outcome.APPLIED:
            self.overtaken += 1
            if stream.rules == 0:
                del self.by_id[stream_id]
        return stream, outcome


def dump(stream: Stream) -> bytes:
    """Writes the state of a stream as JSON, for a snapshot."""
    return STATE.dump_json(stream)


def load(state: bytes | str) -> Stream:
    """Reads what `dump` wrote."""
    return STATE.validate_json(state)
