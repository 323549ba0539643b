"""When to look at the time limits of streams again."""

from collections.abc import Callable

AGAIN_MS = 250
"""After how long a limit is said again that the log found too early: its clock is behind ours."""
BUSY_MS = 20


class Deadlines:
    """The next limit of each stream, and when to look at it: when it is due, or a little after a try."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[int, int]] = {}

    def set(self, stream_id: str, due_ms: int | None) -> None:
        """Notes when the next limit of a stream is reached; the same one again changes nothing."""
        if due_ms is None:
            self._of.pop(stream_id, None)
        elif self._of.get(stream_id, (None, 0))[0] != due_ms:
            self._of[stream_id] = (due_ms, due_ms)

    def pop_due(self, now_ms: int, busy: Callable[[str], bool]) -> list[str]:
        """Returns the streams to look at now; each again a little later, unless its limit changes."""
        found = []
        for stream_id, (due_ms, look_ms) in self._of.items():
            if look_ms > now_ms:
                continue
            is_busy = busy(stream_id)
            self._of[stream_id] = (due_ms, now_ms + (BUSY_MS if is_busy else AGAIN_MS))
            if not is_busy:
                found.append(stream_id)
        return found

    def next_ms(self) -> int | None:
        """Returns the next moment to look at any stream."""
        return min((look_ms for _, look_ms in self._of.values()), default=None)
