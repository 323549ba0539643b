"""What summaries refer to in the store of artifacts: images, and other values that are large."""

from collections.abc import Callable
from contextlib import aclosing

from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.artifacts import STORED, ArtifactReference
from trackside.contracts.tasks.summaries import SummaryItemsReported
from trackside.domain.checks.findings import position_of
from trackside.domain.display.text import one_line
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry, Log
from trackside.replay.history.held_artifacts import HeldArtifact
from trackside.replay.history.recorded_stream import read_entries

_ITEMS = ("ce_type", SummaryItemsReported.wire_type().encode())
MAX_SIZE_BYTES = 2**53
"""The largest size that a reference may have: a larger one in a record is wrong, and no blob has it."""


async def read_summary_artifacts(
    log: Log,
    topics: Topics,
    *,
    stream: str = "",
    on_progress: Callable[[int, int], None] = lambda read, total: None,
) -> list[HeldArtifact]:
    """Returns the artifacts that the log's summaries refer to, or only those of a stream.

    Each digest comes once for a stream, with the record that has it first. A job that was purged is included:
    its records are there. Raises SilentLogError, and what decoding raises.
    """
    topic, found = topics.metrics.name, dict[tuple[str, str], HeldArtifact]()
    starts, ends = await log.beginnings(topic), await log.ends(topic)
    read, total = 0, sum(end - starts.get(partition, 0) for partition, end in ends.items())
    for partition, end in sorted(ends.items()):
        begin = starts.get(partition, 0)
        async with aclosing(read_entries(log, (topic, partition), begin, end)) as batches:
            async for batch in batches:
                for entry in batch:
                    _take(entry, stream, found)
                read += len(batch)
                on_progress(read, total)
    return list(found.values())


def _take(entry: Entry, stream: str, found: dict[tuple[str, str], HeldArtifact]) -> None:
    record = decode(entry) if _ITEMS in entry.headers else None
    if record is None or not isinstance(record.message, SummaryItemsReported):
        return
    if stream not in ("", record.message.stream):
        return
    for item in record.message.items:
        if item.artifact is None or (key := (record.message.stream, item.artifact.sha256)) in found:
            continue
        sha256, size = item.artifact.sha256, min(item.artifact.size_bytes, MAX_SIZE_BYTES)
        name = one_line(f"{item.kind} '{item.tag}' of {record.message.task_id}, step {item.step}")
        reference = ArtifactReference(uri=f"{STORED}{sha256}", sha256=sha256, size_bytes=size)
        found[key] = HeldArtifact(name, reference, position_of(record))
