"""Restores a backup to an installation without data: each record at its offset, with its time.

While records are written, the topics have the times that a writer gives. Services refuse such topics, so
none starts on half a log; the topic of events gets its own setting back last. A restore that was interrupted
is repeated: it continues where each partition ends.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES, Topic, Topics
from trackside.contracts.fleet.fleet import LogBegun
from trackside.eventlog.errors import PreflightError
from trackside.eventlog.kafka.kafka_topics import TIME_SETTING, delete_before, set_settings, times_of
from trackside.eventlog.log import Entry, Log, Outgoing, TopicPartition
from trackside.eventlog.log_id import is_begin
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.replay.history.errors import (
    AnotherInstallationError,
    DamagedFileError,
    LiveTargetError,
    UnsupportedFileError,
)
from trackside.replay.history.recorded_stream import read_entries
from trackside.replay.transfer.backup import topics_of_backup
from trackside.replay.transfer.backup_files import BackupManifest, OffsetRange, read_manifest, read_run

BATCH_PART, BATCH_RECORDS = 0.75, 2_000
"""How much one request has at most, of what the topic takes, unless one record is larger."""
_RECORD_OVERHEAD = 96
FILLING = 10_000
"""How many empty records one request has, where a partition does not begin at offset 0."""
RestoreProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class RestoreSummary:
    """The result of a restore: how many records were written, and how many were there already."""

    manifest: BackupManifest
    written: int
    found: int


def manifest_to_restore(topics: Topics, folder: Path) -> BackupManifest:
    """Reads the manifest of a backup that fits topics of this prefix.

    Raises DamagedFileError, UnsupportedFileError, AnotherInstallationError.
    """
    manifest = manifest_in(folder)
    if manifest.prefix != topics.prefix:
        raise AnotherInstallationError(
            f"the backup is of topics with the prefix {manifest.prefix!r}, TRACKSIDE_TOPIC_PREFIX is "
            f"{topics.prefix!r}: set it to {manifest.prefix!r}"
        )
    check_partitions(manifest, topics)
    return manifest


def manifest_in(folder: Path) -> BackupManifest:
    """Reads the manifest of a backup; raises DamagedFileError if it has none, and UnsupportedFileError."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise DamagedFileError(f"{folder} has no backup: expected the folder of `trackside backup`")
    return manifest


def check_partitions(manifest: BackupManifest, topics: Topics) -> None:
    """Raises UnsupportedFileError if a backup has a partition that this release does not have."""
    partitions = {topic.name: topic.partitions for topic in topics_of_backup(topics)}
    for topic, partition in manifest.partitions:
        if partition >= partitions.get(topic, 0):
            raise UnsupportedFileError(
                f"the backup has partition {partition} of {topic}, this release has "
                f"{partitions.get(topic, 0)}"
            )


async def restore(
    log: Log,
    kafka: KafkaSettings | str,
    topics: Topics,
    folder: Path,
    manifest: BackupManifest,
    report: RestoreProgress = lambda done, total: None,
) -> RestoreSummary:
    """Writes the records of a backup, whose files were checked, to topics that are missing or empty.

    Raises LiveTargetError if the target has data of its own, TransientError, TooLargeError.
    """
    await check_target(log, kafka, topics)
    restored = topics_of_backup(topics)
    opened = [replace(topic, config={**topic.config, TIME_SETTING: "CreateTime"}) for topic in restored]
    await log.ensure(opened)
    await set_settings(kafka, opened)
    writer = _Writer(log, await _ends(log, restored), report, sum(run.records for run in manifest.runs))
    await _begin_at(kafka, writer, manifest.partitions)
    begins = {place: offsets.begin for place, offsets in manifest.partitions.items()}
    entries = (
        of_another_log(entry, topics, manifest.installation)
        for run in manifest.runs
        for entry in read_run(folder, run)
        if entry.offset >= begins.get((entry.topic, entry.partition), 0)
    )
    limits = {topic.name: batch_limit(topic) for topic in restored}
    async with aclosing(_read_ahead(batches_of(entries, limits))) as batches:
        async for batch in batches:
            await writer.take(batch)
    for place, offsets in sorted(manifest.partitions.items()):
        await writer.fill(place, offsets.end)
    await set_settings(kafka, restored[1:])
    await log.ensure(topics.shared)
    await set_settings(kafka, restored[:1])
    return RestoreSummary(manifest, writer.written, writer.found)


def of_another_log(entry: Entry, topics: Topics, installation: str) -> Entry:
    """Returns a record as the restored log has it: the one with the id of the log has a new id.

    From the moment of the backup on, the restored log is another one than that of which the backup is.
    """
    if not is_begin(entry, topics):
        return entry
    begun = LogBegun(log_id=new_id(), restored_from=installation)
    return replace(entry, value=begun.model_dump_json().encode())


def batches_of(entries: Iterable[Entry], limits: Mapping[str, float]) -> Iterator[list[Entry]]:
    """Yields entries as single requests may have them: of one partition, without a gap, not over a limit."""
    batch: list[Entry] = []
    batch_bytes = 0
    for entry in entries:
        size = _RECORD_OVERHEAD + len(entry.key or b"") + len(entry.value or b"") + 4 * len(entry.headers)
        size += sum([len(name) + len(data or b"") for name, data in entry.headers])
        if batch and (
            not _follows(entry, batch[-1])
            or batch_bytes + size > limits[entry.topic]
            or len(batch) == BATCH_RECORDS
        ):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(entry)
        batch_bytes += size
    if batch:
        yield batch


def _follows(entry: Entry, last: Entry) -> bool:
    is_next = entry.offset == last.offset + 1
    return is_next and entry.partition == last.partition and entry.topic == last.topic


async def _read_ahead(batches: Iterator[list[Entry]]) -> AsyncGenerator[list[Entry], None]:
    """Yields batches, each while a thread reads the next one."""
    reading = asyncio.create_task(asyncio.to_thread(next, batches, None))
    try:
        while batch := await reading:
            reading = asyncio.create_task(asyncio.to_thread(next, batches, None))
            yield batch
    finally:
        await asyncio.gather(reading, return_exceptions=True)  # a thread can't be cancelled, and has the file


async def check_target(log: Log, kafka: KafkaSettings | str, topics: Topics) -> None:
    """Raises LiveTargetError unless the target is empty, or an interrupted restore has begun it."""
    restored = topics_of_backup(topics)
    times = await times_of(kafka, restored)
    if times.get(restored[0].name) == "CreateTime":
        return
    for topic in restored:
        if topic.name in times and (records := sum((await log.ends(topic.name)).values())):
            raise LiveTargetError(
                f"topic {topic.name} has {records} records already: restore to a new installation, before "
                "its services are started for the first time"
            )


def batch_limit(topic: Topic) -> float:
    """Returns how many bytes of records one request to a topic has at most."""
    return BATCH_PART * min(MAX_BATCH_BYTES, int(topic.settings["max.message.bytes"]))


async def _ends(log: Log, topics: Sequence[Topic]) -> dict[TopicPartition, int]:
    return {
        (topic.name, partition): end
        for topic in topics
        for partition, end in (await log.ends(topic.name)).items()
    }


async def _begin_at(
    kafka: KafkaSettings | str, writer: "_Writer", partitions: Mapping[TopicPartition, OffsetRange]
) -> None:
    """Lets each partition begin where the backup does: what was before it had been deleted."""
    later = {place: offsets.begin for place, offsets in partitions.items() if offsets.begin}
    for place, begin in later.items():
        await writer.fill(place, begin)
    if later:
        await delete_before(kafka, later)


@dataclass(slots=True)
class _Writer:
    """Appends records at their offsets; skips those that are there from an earlier try."""

    log: Log
    ends: dict[TopicPartition, int]
    report: RestoreProgress
    total: int
    written: int = 0
    found: int = 0

    async def take(self, batch: Sequence[Entry]) -> None:
        """Takes the next records of a partition, which follow each other."""
        place, next_offset = (
            (batch[0].topic, batch[0].partition),
            self.ends[batch[0].topic, batch[0].partition],
        )
        there = [entry for entry in batch if entry.offset < next_offset]
        if there and there[-1].offset == next_offset - 1:
            await self._compare(place, there[-1])
        self.found += len(there)
        missing = batch[len(there) :]
        if missing:
            await self.fill(place, missing[0].offset)  # a marker of a publisher's transaction may be there
            await self._append(
                place,
                [Outgoing(each.key, each.value, each.headers, each.append_time_ms) for each in missing],
            )
            self.written += len(missing)
        self.report(self.written + self.found, self.total)

    async def fill(self, place: TopicPartition, offset: int) -> None:
        """Appends empty records up to an offset, which the next record gets."""
        while (missing := offset - self.ends[place]) > 0:
            await self._append(place, [Outgoing(None, None, (), 0)] * min(missing, FILLING))

    async def _append(self, place: TopicPartition, batch: Sequence[Outgoing]) -> None:
        appended = await self.log.append(*place, batch)
        if appended.offset != self.ends[place]:
            raise PreflightError(
                f"another client writes to {place[0]}: a record has offset {appended.offset}, expected "
                f"{self.ends[place]}; stop it, delete the topics, and begin again"
            )
        self.ends[place] += len(batch)

    async def _compare(self, place: TopicPartition, entry: Entry) -> None:
        """Compares the last record of an interrupted restore with that of the backup; LiveTargetError."""
        async with aclosing(read_entries(self.log, place, entry.offset, entry.offset + 1)) as batches:
            async for batch in batches:
                if batch and [tuple(each) for each in batch[0].headers] != list(entry.headers):
                    raise LiveTargetError(
                        f"{place[0]}-{place[1]} has another record at offset {entry.offset} than the backup: "
                        "an interrupted restore of another backup has begun this installation; delete its "
                        "topics"
                    )
