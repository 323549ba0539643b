"""Restores a backup to an installation without data: each record at its offset, with its time.

While records are written, the topics have the times that a writer gives. Services refuse such topics, so
none starts on half a log; the topic of events gets its own setting back last. A restore that was interrupted
is repeated: it continues where each partition ends.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from trackside.contracts.topics import Topic, Topics
from trackside.eventlog.errors import PreflightError
from trackside.eventlog.kafka_settings import KafkaSettings
from trackside.eventlog.kafka_topics import TIME_SETTING, delete_before, set_settings, times_of
from trackside.eventlog.log import Entry, Log, Outgoing, TopicPartition
from trackside.replay.history.errors import (
    AnotherInstallationError,
    DamagedFileError,
    LiveTargetError,
    UnsupportedFileError,
)
from trackside.replay.history.recorded_stream import read_entries
from trackside.replay.transfer.backup import topics_of_backup
from trackside.replay.transfer.backup_files import BackupManifest, OffsetRange, read_manifest, read_run

BATCH_BYTES, BATCH_RECORDS = 196_608, 2_000
"""How much one request has at most, unless one record is larger: less than the limit of commands."""
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
    for run in manifest.runs:
        for entry in read_run(folder, run):
            place = (entry.topic, entry.partition)
            if entry.offset >= manifest.partitions.get(place, OffsetRange(0, 0)).begin:
                await writer.take(place, entry)
    for place, offsets in sorted(manifest.partitions.items()):
        await writer.fill(place, offsets.end)
    await set_settings(kafka, restored[1:])
    await log.ensure(topics.shared)
    await set_settings(kafka, restored[:1])
    return RestoreSummary(manifest, writer.written, writer.found)


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
    """Appends records at their offsets, in batches; skips those that are there from an earlier try."""

    log: Log
    ends: dict[TopicPartition, int]
    report: RestoreProgress
    total: int
    written: int = 0
    found: int = 0
    _place: TopicPartition = ("", -1)
    _batch: list[Outgoing] = field(default_factory=list)
    _batch_bytes: int = 0

    async def take(self, place: TopicPartition, entry: Entry) -> None:
        """Takes the next record of a partition."""
        if place != self._place:
            await self._flush()
            self._place = place
        next_offset = self.ends[place] + len(self._batch)
        if entry.offset < next_offset:
            if entry.offset == next_offset - 1:
                await self._compare(place, entry)
            self.found += 1
            return
        if entry.offset > next_offset:
            await self._flush()
            await self.fill(place, entry.offset)  # a marker of a publisher's transaction was there
        size = _RECORD_OVERHEAD + len(entry.key or b"") + len(entry.value or b"")
        size += sum(len(name) + len(data or b"") + 4 for name, data in entry.headers)
        if self._batch and (self._batch_bytes + size > BATCH_BYTES or len(self._batch) == BATCH_RECORDS):
            await self._flush()
        self._batch.append(Outgoing(entry.key, entry.value, entry.headers, entry.append_time_ms))
        self._batch_bytes += size

    async def fill(self, place: TopicPartition, offset: int) -> None:
        """Appends empty records up to an offset, which the next record gets."""
        await self._flush()
        while (missing := offset - self.ends[place]) > 0:
            await self._append(place, [Outgoing(None, None, (), 0)] * min(missing, FILLING))

    async def _flush(self) -> None:
        if self._batch:
            batch, self._batch, self._batch_bytes = self._batch, [], 0
            await self._append(self._place, batch)
            self.written += len(batch)
            self.report(self.written + self.found, self.total)

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
        if self._batch:
            return
        async with aclosing(read_entries(self.log, place, entry.offset, entry.offset + 1)) as batches:
            async for batch in batches:
                if batch and [tuple(each) for each in batch[0].headers] != list(entry.headers):
                    raise LiveTargetError(
                        f"{place[0]}-{place[1]} has another record at offset {entry.offset} than the backup: "
                        "an interrupted restore of another backup has begun this installation; delete its "
                        "topics"
                    )
