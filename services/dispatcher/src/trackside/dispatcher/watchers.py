"""Which streams wait for the signals of which others: to be looked at when something changes there."""

from collections.abc import Collection

from trackside.domain.aggregate import AggregateType
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams


class Watchers:
    """The streams that wait for each stream, by its id; what they wait for is in their state."""

    def __init__(self, streams: Streams) -> None:
        types = streams.aggregates.types
        waiting = (each for each in types if type(each).awaits is not AggregateType.awaits)
        self._kinds = {each.kind: each for each in waiting}
        self._of: dict[str, set[str]] = {}
        self._awaited: dict[str, frozenset[str]] = {}
        for stream in streams.by_id.values():
            self._note(stream)

    def fold(self, stream: Stream) -> Collection[str]:
        """Takes in that a record of a stream was folded; returns the streams that it may matter to."""
        self._note(stream)
        return self._of.get(stream.stream_id, ())

    def _note(self, stream: Stream) -> None:
        aggregate = self._kinds.get(stream.kind)
        if aggregate is None:  # of most streams, for each of their records
            return
        awaited = frozenset(aggregate.awaits(stream.root))
        before = self._awaited.get(stream.stream_id, frozenset())
        if awaited == before:
            return
        for other in before - awaited:
            self._of[other].discard(stream.stream_id)
            if not self._of[other]:
                del self._of[other]
        for other in awaited - before:
            self._of.setdefault(other, set()).add(stream.stream_id)
        self._awaited[stream.stream_id] = awaited
