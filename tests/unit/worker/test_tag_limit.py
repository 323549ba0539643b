"""A task with too many tags keeps the first of them, and is told how much was left out."""

from trackside.contracts.summaries import MAX_TAGS
from trackside.summary_indexer.watching.records import TagLimit
from trackside.worker.report_messages import MetricPoint
from trackside.worker.reporting.tag_limit import TaskTags


def points(*tags: str) -> list[MetricPoint]:
    return [MetricPoint(tag, 0, 0, 0.5) for tag in tags]


def test_values_of_tags_beyond_the_limit_are_left_out_and_counted() -> None:
    limit = TaskTags(2)
    assert limit.sentence() == ""
    taken = limit.taken(points("a", "b\n", "c", "a", "system/memory_bytes", "objective", "c"))
    assert [point.tag for point in taken] == ["a", "b\\n", "a", "system/memory_bytes", "objective"]
    assert not limit.takes("d") and limit.takes("b\\n")
    assert limit.sentence() == "trackside: 3 values of tags beyond 2 were left out"


def test_the_limit_is_that_of_directories() -> None:
    assert TaskTags().most == TagLimit().most == MAX_TAGS
