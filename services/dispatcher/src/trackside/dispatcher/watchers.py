"""Which streams wait for the signals of which others: to be looked at when something changes there."""

from collections.abc import Collection, Iterator

from trackside.contracts.streams.watches import TasksWatched, TaskWatch
from trackside.domain.folding.aggregate import AggregateType
from trackside.domain.folding.streams import Streams
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.streams.watches import MAX_WATCHES

Awaited = frozenset[tuple[str, TaskWatch | None]]


class Watchers:
    """The streams that wait for each stream, by its id; what they wait for is in their state."""

    def __init__(self, streams: Streams) -> None:
        types = streams.aggregates.types
        waiting = (each for each in types if type(each).awaits is not AggregateType.awaits)
        self._kinds = {each.kind: each for each in waiting}
        self._find = streams.find
        self._of: dict[str, set[str]] = {}
        self._awaited: dict[str, Awaited] = {}
        for stream in streams.by_id.values():
            self._note(stream)

    def fold(self, stream: Stream) -> Collection[str]:
        """Takes in that a record of a stream was folded; returns the streams that it may matter to.

        These wait for it, or it waits for them from now on.
        """
        begun = self._note(stream)
        waiting = self.of(stream.stream_id)
        return (*begun, *waiting) if begun else waiting

    def of(self, stream_id: str) -> Collection[str]:
        """Returns the streams that wait for one."""
        return self._of.get(stream_id, ())

    def lacking(self, stream: Stream) -> Iterator[Proposal]:
        """Yields that others wait for something of its tasks, where its log does not have that yet.

        To be written before what else the stream lacks: none of its tasks may end unseen.
        """
        if stream.closed or stream.stream_id not in self._of:
            return
        room = MAX_WATCHES - len(stream.watches)
        for waiting, watch in self._unwatched(stream)[: max(0, room)]:
            at: int = waiting.root.changed_at
            event = TasksWatched(watch=watch)
            yield Proposal("watch tasks", [event], at, waiting.traceparent, waiting.stream_id)

    def _unwatched(self, stream: Stream) -> list[tuple[Stream, TaskWatch]]:
        found: dict[str, tuple[Stream, TaskWatch]] = {}
        for stream_id in sorted(self._of[stream.stream_id]):
            waiting = self._find(stream_id)
            of_tasks = (watch for other, watch in self._awaited[stream_id] if other == stream.stream_id)
            for watch in of_tasks:
                if waiting is not None and watch is not None and watch.key not in stream.watches:
                    found.setdefault(watch.key, (waiting, watch))
        return [found[key] for key in sorted(found)]

    def _note(self, stream: Stream) -> Collection[str]:
        """Notes what a stream waits for now; returns the streams of which it waits for more than before."""
        aggregate = self._kinds.get(stream.kind)
        if aggregate is None:  # of most streams, for each of their records
            return ()
        awaited = frozenset(aggregate.awaits(stream.root))
        before = self._awaited.get(stream.stream_id, frozenset())
        if awaited == before:
            return ()
        others = {other for other, _ in awaited}
        for other in {other for other, _ in before} - others:
            self._of[other].discard(stream.stream_id)
            if not self._of[other]:
                del self._of[other]
        for other in others:
            self._of.setdefault(other, set()).add(stream.stream_id)
        self._awaited[stream.stream_id] = awaited
        return {other for other, _ in awaited - before}
