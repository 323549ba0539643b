"""Finds streams by what they have: keys that their aggregates name. It follows from folded streams alone."""

from collections.abc import Iterable
from typing import NamedTuple

from trackside.contracts.envelope.message import Message
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.streams import Streams
from trackside.domain.streams.stream import Stream

MAX_KEYS = 100_000
"""How many keys are kept: those that were named last."""
MAX_STREAMS = 100
"""How many streams are kept of a key: those that are newest."""


class IndexKey(NamedTuple):
    """A key that a stream can be found by, and since when it has it, in ms since 1970."""

    key: str
    since_ms: int


class StreamIndex:
    """The streams that have something by a key; what they have now is to be looked up in their state."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._found: dict[str, dict[str, int]] = {}
        for stream in streams.by_id.values():
            aggregate = streams.aggregates.of(stream)
            if aggregate is not None and aggregate.indexed_after:
                self._add(stream, (IndexKey(*each) for each in aggregate.index_keys(stream.root, None)))

    def fold(self, stream: Stream, event: Message) -> None:
        """Takes in an event that was applied to a stream."""
        aggregate = self._streams.aggregates.by_event.get(type(event))
        if aggregate is not None and type(event) in aggregate.indexed_after:
            self._add(stream, (IndexKey(*each) for each in aggregate.index_keys(stream.root, event)))

    def lookup(self, capabilities: Capabilities) -> Lookup:
        """Returns what decisions read."""
        return Lookup(capabilities, self._streams.find, self.having)

    def having(self, key: str) -> Iterable[Stream]:
        """Yields the streams that have had something by a key, those first that have it since last."""
        found = self._found.get(key, {})
        for stream_id in sorted(found, key=lambda each: (found[each], each), reverse=True):
            stream = self._streams.find(stream_id)
            if stream is not None:
                yield stream

    def _add(self, stream: Stream, keys: Iterable[IndexKey]) -> None:
        for key, since_ms in keys:
            found = self._found.pop(key, {})  # to the end: the keys that were named first leave first
            found[stream.stream_id] = max(since_ms, found.get(stream.stream_id, 0))
            if len(found) > MAX_STREAMS:
                del found[min(found, key=lambda each: (found[each], each))]
            self._found[key] = found
        while len(self._found) > MAX_KEYS:
            del self._found[next(iter(self._found))]
