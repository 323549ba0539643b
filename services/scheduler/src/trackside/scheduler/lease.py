"""Who is silent for too long, by the log's own clock: pure."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Leases:
    """Ages of workers in ms, counted only while our own heartbeats came back from the log.

    `interval_ms` is the time between own heartbeats. Two of them that lie further apart than two
    intervals count as two: while the log could not be written, nobody ages.
    """

    interval_ms: int
    time_ms: int = 0
    newest_ms: int = -1
    seen: dict[str, int] = field(default_factory=dict)

    def own(self, append_time_ms: int) -> None:
        """Lets time pass: an own heartbeat was read back."""
        if self.newest_ms >= 0:
            self.time_ms += min(max(0, append_time_ms - self.newest_ms), 2 * self.interval_ms)
        self.newest_ms = append_time_ms

    def heard(self, incarnation: str) -> None:
        """Notes a sign of life of a worker's incarnation."""
        self.seen[incarnation] = self.time_ms

    def silent_ms(self, incarnation: str) -> int:
        """Gives for how long an incarnation was silent; one never heard of is heard of now."""
        return self.time_ms - self.seen.setdefault(incarnation, self.time_ms)

    def keep(self, incarnations: set[str]) -> None:
        """Forgets all incarnations but these."""
        self.seen = {name: time for name, time in self.seen.items() if name in incarnations}
