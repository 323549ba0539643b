"""Counts the open streams of each publisher, as the log has them."""

from collections import Counter
from collections.abc import Collection

from trackside.domain.streams.stream import Stream


class OpenStreams:
    """Streams of which something runs, and those that an unanswered command may open, by publisher."""

    def __init__(self, opened_by: Collection[str]) -> None:
        self._opened_by = opened_by
        self._publishers: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._publishers

    def count(self, publisher: str) -> int:
        """Returns how many open streams a publisher has."""
        return self._counts[publisher]

    def update(self, stream: Stream) -> None:
        """Takes in a stream that may have changed."""
        before, after = self._publishers.get(stream.stream_id, ""), self._publisher(stream)
        if before == after:
            return
        if before:
            del self._publishers[stream.stream_id]
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if after:
            self._publishers[stream.stream_id] = after
            self._counts[after] += 1

    def _publisher(self, stream: Stream) -> str:
        """Returns who has opened a stream, or is about to; empty if it is not open."""
        root = stream.root
        if root is not None and not root.over:
            return stream.publisher
        waiting = (
            each.publisher
            for each in stream.commands.values()
            if each.publisher and not each.problems and each.command_type in self._opened_by
        )
        return next(waiting, "")
