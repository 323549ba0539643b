"""How many tags the values of one attempt may have: as many as the summary-indexer reads of a directory."""

from collections.abc import Iterable

from trackside.contracts.tasks.summaries import MAX_TAGS
from trackside.telemetry import metrics
from trackside.worker.messages.report_messages import MetricPoint
from trackside.worker.output_text import tag_text

TOO_MANY_TAGS = "too_many_tags"
ALWAYS_TAKEN = ("system/", "objective")
"""What tags of the worker itself begin with."""


class TaskTags:
    """Knows the tags of one attempt, and counts the values of those beyond the limit."""

    def __init__(self, most: int = MAX_TAGS) -> None:
        self.most = most
        self._tags: set[str] = set()
        self.left_out = 0

    def takes(self, tag: str) -> bool:
        """Returns whether a value of this tag is published."""
        if tag not in self._tags and not tag.startswith(ALWAYS_TAKEN):
            if len(self._tags) >= self.most:
                self.left_out += 1
                metrics.counter("trackside.worker.dropped.summaries").labels(code=TOO_MANY_TAGS).inc()
                return False
            self._tags.add(tag)
        return True

    def taken(self, points: Iterable[MetricPoint]) -> list[MetricPoint]:
        """Returns the points that are published, with their tags as they are published."""
        named = [(tag_text(point.tag), point) for point in points]
        return [
            point if tag == point.tag else point._replace(tag=tag) for tag, point in named if self.takes(tag)
        ]

    def sentence(self) -> str:
        """Returns what the task is told of that; empty if nothing was left out."""
        if not self.left_out:
            return ""
        return f"trackside: {self.left_out:,} values of tags beyond {self.most:,} were left out"
