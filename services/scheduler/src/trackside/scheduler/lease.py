"""How long each worker has been silent, by the log's clock. Pure."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Leases:
    """Silence of workers, ms; time only passes while our own heartbeats are read back from the log.

    `interval_ms` is the time between own heartbeats. A gap longer than two intervals counts as two: while the
    log could not be written, no lease runs out.
    """

    interval_ms: int
    time_ms: int = 0
    newest_ms: int = -1
    seen: dict[str, int] = field(default_factory=dict)

    def record_own_heartbeat(self, append_time_ms: int) -> None:
        """Advances the time by an own heartbeat that was read back; takes the time the log stored it, ms."""
        if self.newest_ms >= 0:
            self.time_ms += min(max(0, append_time_ms - self.newest_ms), 2 * self.interval_ms)
        self.newest_ms = append_time_ms

    def renew(self, incarnation: str) -> None:
        """Renews the lease of an incarnation."""
        self.seen[incarnation] = self.time_ms

    def silent_ms(self, incarnation: str) -> int:
        """Returns for how long an incarnation was silent, ms; the lease of an unknown one begins now."""
        return self.time_ms - self.seen.setdefault(incarnation, self.time_ms)

    def retain(self, incarnations: set[str]) -> None:
        """Forgets all other incarnations."""
        self.seen = {name: time for name, time in self.seen.items() if name in incarnations}
