"""Named timers; setting one again replaces it. Pure."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Timers:
    """Due times, ms since 1970, by name."""

    due_ms: dict[str, int] = field(default_factory=dict)
    _heap: list[tuple[int, str]] = field(default_factory=list)

    def set(self, name: str, due_ms: int | None) -> None:
        """Sets the due time of a name, or clears it if `due_ms` is None."""
        if due_ms is None:
            self.due_ms.pop(name, None)
        elif self.due_ms.get(name) != due_ms:
            self.due_ms[name] = due_ms
            heapq.heappush(self._heap, (due_ms, name))

    def pop_due(self, now_ms: int) -> Iterator[str]:
        """Removes and returns the names that are due."""
        while (due_ms := self.next_ms()) is not None and due_ms <= now_ms:
            _, name = heapq.heappop(self._heap)
            del self.due_ms[name]
            yield name

    def next_ms(self) -> int | None:
        """Returns the next due time, None if there is none."""
        heap = self._heap
        while heap and self.due_ms.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None
