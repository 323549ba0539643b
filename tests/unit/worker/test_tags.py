"""The tags of a task's values, as they are published: one that can't be indexed costs no record."""

from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.tasks.summaries import MAX_TAGS, SummaryItemsReported
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry
from trackside.summary_indexer.validation import decode_summaries
from trackside.summary_indexer.watching.records import TagLimit
from trackside.worker.messages.report_messages import MetricPoint, SummaryValueReport
from trackside.worker.output_text import MAX_TAG_CHARACTERS, tag_text
from trackside.worker.reporting.journal import JournalEntry
from trackside.worker.reporting.summary_items import ItemBatch
from trackside.worker.reporting.tag_limit import TaskTags

ANY_TAG = st.text(st.characters(codec=None, categories=None), max_size=400)  # lone surrogates, too


def read(tags: list[str]) -> list[str]:
    batch = ItemBatch(JournalEntry("s", "s.0", 1, 1, "i"))
    for tag in tags:
        batch.add(SummaryValueReport("text", tag, 0, 0, 0, {"value": ""}), None)
    record = RecordWriter("worker", "w").single("s", batch.take())
    message = decode_summaries(Entry("metrics", 0, 0, 0, record.key, record.value, record.headers))
    assert isinstance(message, SummaryItemsReported)
    return [item.tag for item in message.items]


@given(st.lists(ANY_TAG, min_size=1, max_size=5))
def test_any_tags_of_a_task_are_indexed(tags: list[str]) -> None:
    assert len(read(tags)) == len(tags)


def test_tags_without_or_with_control_characters_cost_no_other_value_and_long_ones_stay_apart() -> None:
    tags = ["loss", "", "a\nb", "bell\a", "nul\0", "Verlust/ä"]
    assert read(tags) == ["loss", "(no tag)", "a\\nb", "bell\\x07", "nul\\0", "Verlust/ä"]
    first, second = tag_text("layer." * 100 + "weight"), tag_text("layer." * 100 + "bias")
    assert first != second and first.startswith("layer.layer.")
    assert len(first) == len(second) == MAX_TAG_CHARACTERS


def points(*tags: str) -> list[MetricPoint]:
    return [MetricPoint(tag, 0, 0, 0.5) for tag in tags]


def test_values_of_tags_beyond_the_limit_are_left_out_and_counted() -> None:
    limit = TaskTags(2)
    assert limit.sentence() == ""
    taken = limit.taken(points("a", "b\n", "c", "a", "system/memory_bytes", "objective", "c"))
    assert [point.tag for point in taken] == ["a", "b\\n", "a", "system/memory_bytes", "objective"]
    assert not limit.takes("d") and limit.takes("b\\n")
    assert limit.sentence() == "trackside: 3 values of tags beyond 2 were left out"
    assert TaskTags().most == TagLimit().most == MAX_TAGS
