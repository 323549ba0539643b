"""The check of the artifacts of a step in the cache, as folded from the log."""

from dataclasses import dataclass

from trackside.aggregates.run.step_messages import CacheEntry


@dataclass(slots=True)
class ArtifactCheck:
    """Whether the store has the artifacts of a step that was found in the cache."""

    key: str
    """The key that it was found by."""
    stream: str
    """The stream of the run that it is a step of."""
    step: str
    """Its name there."""
    offset: int
    """Offset of the event that ended it."""
    open: bool = True
    """Whether the task that checks them has not ended."""
    missing: list[str] | None = None
    """The artifacts that the store lacks, by name; None: not known."""

    def is_of(self, entry: CacheEntry) -> bool:
        """Says whether it was about an entry."""
        return (self.stream, self.step, self.offset) == (entry.stream, entry.step, entry.offset)
