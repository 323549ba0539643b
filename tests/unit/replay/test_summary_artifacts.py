"""INV-22 of images and other large values of summaries: their records are in the topic of metrics."""

from functools import partial
from typing import Any

import pytest

from trackside.artifacts.store import Store
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks import summaries
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.replay.history.summary_artifacts import read_summary_artifacts
from trackside.verify.invariants import NEEDS_STORE
from trackside.verify.log import VerificationReport
from trackside.verify.store import verify_store

TOPICS = Topics("t.")
WORKER = RecordWriter("worker", "w1")


@pytest.fixture
async def log() -> MemoryLog:
    found = MemoryLog()
    await found.ensure(TOPICS.shared)
    return found


def images(stream: str, *digests: tuple[str, int]) -> summaries.SummaryItemsReported:
    """Returns an image for each digest and size, of steps 0, 1, ..., and a value without an artifact."""
    about: Any = {"kind": "image", "tag": "digits", "time_ms": 1, "body": {"width": 1}}
    artifact = partial(summaries.ItemArtifact, media_type=FOLDER_MEDIA_TYPE)
    items = [
        summaries.ReportedItem(**about, step=step, artifact=artifact(sha256=sha256, size_bytes=size))
        for step, (sha256, size) in enumerate(digests)
    ]
    items.append(summaries.ReportedItem(kind="text", tag="t", step=0, time_ms=1, body={"sha256": "0" * 64}))
    return summaries.SummaryItemsReported(stream=stream, task_id=f"{stream}.1", attempt=1, items=items)


async def tell(log: MemoryLog, partition: int, message: Message) -> None:
    await log.append(TOPICS.metrics.name, partition, [WORKER.single("s", message)])


async def findings(log: MemoryLog, store: Store, stream: str = "") -> list[str]:
    held = await read_summary_artifacts(log, TOPICS, stream=stream)
    report = VerificationReport(skipped=dict(NEEDS_STORE))
    verify_store(report, held, store, digests=False, on_progress=lambda done, total: None)
    assert report.checked["INV-22"] == len(held)
    return [str(finding) for finding in report.findings]


async def test_an_image_that_the_store_lacks_is_found_by_its_record(log: MemoryLog, store: Store) -> None:
    """S14; equal pictures are one artifact of a stream, and a folder is never among them."""
    kept, lost = store.put(b"kept"), store.put(b"lost")
    points = summaries.MetricPointsReported(stream="s", task_id="s.1", attempt=1, series=[])
    both = [(kept.sha256, 4), (lost.sha256, 4), (kept.sha256, 4)]
    for partition, message in ((0, points), (2, images("s", *both)), (1, images("other", both[0]))):
        await tell(log, partition, message)
    assert len(await read_summary_artifacts(log, TOPICS)) == 3
    assert len(await read_summary_artifacts(log, TOPICS, stream="s")) == 2
    assert await findings(log, store) == []
    store.delete(lost.sha256, 2**53)
    [found] = await findings(log, store)
    assert found.startswith("INV-22 t.trackside.metrics-2@0 s: artifact_missing: file://")
    assert found.endswith(f" lacks image 'digits' of s.1, step 1, 4 B, sha256 {lost.sha256}")
    assert await findings(log, store, "other") == []


async def test_an_image_of_another_size_is_found(log: MemoryLog, store: Store) -> None:
    kept = store.put(b"kept")
    for stream, size in (("s", 5), ("huge", 2**60)):
        await tell(log, 0, images(stream, (kept.sha256, size)))
    assert [found.count("artifact_damaged") for found in await findings(log, store)] == [1, 1]


async def test_what_is_purged_is_looked_up_and_foreign_records_skipped(log: MemoryLog, store: Store) -> None:
    """The records of a purged job are in the log, and garbage collection keeps what they refer to."""
    lost = store.put(b"lost")
    await tell(log, 0, images("s", (lost.sha256, 4)))
    purged = summaries.SummariesPurged(stream="s", task_id="s.1")
    await log.append(TOPICS.metrics.name, 0, [RecordWriter("summary-indexer", "1").single("s", purged)])
    foreign = WORKER.single("s", images("s", (lost.sha256, 4)))
    await log.append(TOPICS.metrics.name, 0, [Outgoing(foreign.key, b"{", foreign.headers)])
    store.delete(lost.sha256, 2**53)
    assert len(await findings(log, store)) == 1
