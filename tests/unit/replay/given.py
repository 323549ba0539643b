from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.unit.domain.given import STREAM, Told
from tests.unit.domain.test_saved_artifacts import saved
from tests.unit.projections.given import Decision, write_small_history
from trackside.artifacts.store import Store
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.artifacts import ArtifactReference, ArtifactSaved
from trackside.eventlog.log import Entry, Outgoing
from trackside.eventlog.memory import MemoryLog

TOPICS = Topics(event_partitions=3)
ELSEWHERE = Topics(prefix="other.", event_partitions=5)
"""Topics of another installation."""
FIRST_MS = 1_700_000_000_000


class Clock:
    """The log's clock: 10 ms for each batch."""

    def __init__(self, ms: int = FIRST_MS) -> None:
        self.ms = ms

    def __call__(self) -> int:
        self.ms += 10
        return self.ms


async def empty() -> MemoryLog:
    log = MemoryLog(Clock())
    await log.ensure(TOPICS.shared)
    return log


async def small_log() -> MemoryLog:
    """Returns a log with the small history; another one has the same events under other ids."""
    log = await empty()
    await write_small_history(log, TOPICS)
    return log


async def write(log: MemoryLog, stream: str, decisions: Iterable[Decision]) -> None:
    topic = TOPICS.events
    for decision in decisions:
        await log.append(topic.name, partition_of(stream, topic.partitions), decision)


def events_of(log: MemoryLog, stream: str) -> list[Entry]:
    topic = TOPICS.events
    return log._partition(topic.name, partition_of(stream, topic.partitions))


def name_causes(records: Iterable[Record], *causes: str) -> None:
    for record, cause in zip(records, causes, strict=True):
        record.envelope.headers = {**record.envelope.headers, "ce_causationid": cause.encode()}


def after(told: Told, *events: Message) -> Told:
    """Tells events, each as a decision of its own."""
    for event in events:
        told.tell(event)
    return told


async def tell(log: MemoryLog, stream: str, told: Told) -> None:
    for record in told.records:
        await write(log, stream, [[outgoing(record)]])


async def log_of(told: Told) -> MemoryLog:
    """Returns a log with what was told, each record as a decision of its own."""
    log = await empty()
    await tell(log, STREAM, told)
    return log


def of(reference: ArtifactReference, **changed: Any) -> ArtifactSaved:
    """Returns the event that a blob of a store was saved."""
    fields = reference.model_dump(include={"uri", "sha256", "size_bytes", "media_type"})
    return saved(**{**fields, **changed})


def blob_of(store: Store, sha256: str) -> Path:
    """Returns the file of a blob, which may be changed."""
    blob = next(Path(store.blobs.url.removeprefix("file://")).rglob(sha256))
    blob.chmod(0o600)
    return blob


def outgoing(record: Record) -> Outgoing:
    """Returns a record that was told as it is appended to a log."""
    value, headers = record.message.model_dump_json().encode(), list(record.envelope.headers.items())
    return Outgoing(record.envelope.stream.encode(), value, headers)
