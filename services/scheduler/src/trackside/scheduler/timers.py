"""Moments at which something is due, each by a name; a later word about a name replaces the earlier. Pure."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Timers:
    """Due moments, ms since 1970, by name."""

    at: dict[str, int] = field(default_factory=dict)
    _heap: list[tuple[int, str]] = field(default_factory=list)

    def set(self, name: str, due_ms: int | None) -> None:
        """Sets or clears the moment of a name."""
        if due_ms is None:
            self.at.pop(name, None)
        elif self.at.get(name) != due_ms:
            self.at[name] = due_ms
            heapq.heappush(self._heap, (due_ms, name))

    def pop_due(self, now_ms: int) -> Iterator[str]:
        """Gives the names whose moment has come, and forgets them."""
        while (due := self.next_ms()) is not None and due <= now_ms:
            _, name = heapq.heappop(self._heap)
            del self.at[name]
            yield name

    def next_ms(self) -> int | None:
        """Gives the next moment, None if there is none."""
        heap = self._heap
        while heap and self.at.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None
