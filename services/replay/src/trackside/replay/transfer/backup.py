"""Adds what is new in the log to a backup: the topics that an installation can be restored from.

All is as it was at one moment, by the log's own times: what a record rests on is in the backup too, also in
other partitions. Nothing is written to the log, and services continue meanwhile.
"""

import asyncio
import fcntl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from trackside.contracts.envelope.topics import Topic, Topics
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import OffsetGoneError, PreflightError
from trackside.eventlog.log import Log, TopicPartition
from trackside.eventlog.log_id import log_name
from trackside.replay.history.errors import AnotherInstallationError, BusyError, IncompleteLogError
from trackside.replay.history.recorded_stream import read_entries
from trackside.replay.transfer.backup_files import (
    LOCK,
    BackupManifest,
    BackupRun,
    OffsetRange,
    RunWriter,
    keep_run,
    partial_run,
    read_manifest,
    write_manifest,
)

SILENCE_S = 2.0
"""How long the newest records may take to arrive, s; then the moment of a run is chosen without the rest."""
BackupProgress = Callable[[int, int], None]


def topics_of_backup(topics: Topics) -> tuple[Topic, ...]:
    """Returns the topics that are in a backup: what the others have is made again, or is of no use later."""
    return (
        topics.events,
        topics.fleet,
        topics.commands,
        topics.metrics,
        topics.logs,
        topics.dead_letters,
        topics.imports,
    )


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """The result of a run: None for `run` if nothing was new; `gaps` are offsets that the backup lacks."""

    manifest: BackupManifest
    run: BackupRun | None
    gaps: Sequence[str]


CopyArtifacts = Callable[[], Sequence[str]]
"""Copies the artifacts of the installation into a backup; returns their digests."""


@contextmanager
def backup_lock(folder: Path) -> Iterator[None]:
    """Holds a backup for one process; raises BusyError."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"another process writes to the backup in {folder}") from None
        yield


async def add_to_backup(
    log: Log,
    topics: Topics,
    folder: Path,
    report: BackupProgress = lambda done, total: None,
    copy_artifacts: CopyArtifacts | None = None,
) -> BackupSummary:
    """Adds a run with all records that a backup lacks; in an empty folder it begins a backup.

    Artifacts are copied after the records, which refer only to what the store has, and before the manifest.
    Raises AnotherInstallationError, IncompleteLogError, DamagedFileError, UnsupportedFileError, OSError,
    TransientError, SilentLogError.
    """
    manifest = await _manifest(log, topics, folder)
    # First, since their records have the times of their writers: none is later than the moment of the run.
    kept = await _existing(log, topics)
    ends = await _ends(log, [topic for topic in kept if not _has_log_times(topic)])
    ordered = [topic for topic in kept if _has_log_times(topic)]
    until_ms = await _newest_ms(log, ordered)
    ends |= await _ends(log, ordered)
    starts, gaps = await _starts(log, kept, manifest, ends)
    timed = {topic.name for topic in ordered}
    total = sum(ends[place] - start.begin for place, start in starts.items())
    with partial_run(folder) as writer:
        writer.header(manifest, until_ms)
        found: dict[TopicPartition, OffsetRange] = {}
        for place in sorted(starts):
            begin, end = starts[place].end, ends[place]
            until = until_ms if place[0] in timed else None
            end = await _write_partition(log, writer, place, OffsetRange(begin, end), until)
            found[place] = OffsetRange(starts[place].begin, end)
            report(writer.records, max(total, writer.records))
        writer.trailer()
    run = keep_run(folder, len(manifest.runs) + 1, writer.records, until_ms)
    written = manifest.with_run(run, found)
    if copy_artifacts is not None:
        digests = await asyncio.to_thread(copy_artifacts)
        written = replace(written, blobs=tuple(sorted({*digests, *(manifest.blobs or ())})))
    if written != manifest:
        write_manifest(folder, written)
    return BackupSummary(written, run, gaps)


async def _manifest(log: Log, topics: Topics, folder: Path) -> BackupManifest:
    """Returns the manifest so far; that of an empty backup if there is none."""
    installation = await log_name(log, topics)
    known = read_manifest(folder)
    if known is None:
        return BackupManifest(installation, topics.prefix)
    if known.installation != installation:
        raise AnotherInstallationError(
            f"the backup in {folder} is of the log {known.installation}, this log is {installation}: "
            "use a folder of its own for each installation, also for one that was restored"
        )
    return known


def _has_log_times(topic: Topic) -> bool:
    return topic.settings.get("message.timestamp.type") == "LogAppendTime"


async def _existing(log: Log, topics: Topics) -> list[Topic]:
    """Returns the topics of a backup that exist: that of imports may not. Raises PreflightError."""
    wanted = topics_of_backup(topics)
    await log.preflight([topic for topic in wanted if topic is not topics.imports])
    try:
        await log.preflight([topics.imports])
    except PreflightError:
        return [topic for topic in wanted if topic is not topics.imports]
    return list(wanted)


async def _ends(log: Log, topics: Sequence[Topic]) -> dict[TopicPartition, int]:
    return {
        (topic.name, partition): end
        for topic in topics
        for partition, end in (await log.ends(topic.name)).items()
    }


async def _newest_ms(log: Log, topics: Sequence[Topic]) -> int:
    """Returns the time of the newest record of some topics, by the log: it has passed."""
    begins = {
        (topic.name, partition): begin
        for topic in topics
        for partition, begin in (await log.beginnings(topic.name)).items()
    }
    lasts = {place: end - 1 for place, end in (await _ends(log, topics)).items() if end > begins[place]}
    newest, missing, last_s = -1, set(lasts), monotonic_s()
    reader = log.reader(lasts)
    try:
        while missing and monotonic_s() - last_s < SILENCE_S:
            for entry in await reader.read(0.5):
                last_s = monotonic_s()
                newest = max(newest, entry.append_time_ms)
                missing.discard((entry.topic, entry.partition))
    finally:
        await reader.close()
    return newest


async def _starts(
    log: Log, topics: Sequence[Topic], manifest: BackupManifest, ends: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, OffsetRange], list[str]]:
    """Returns what the backup has of each partition without a gap, and the gaps that it has from now on."""
    found: dict[TopicPartition, OffsetRange] = {}
    gaps = []
    for topic in topics:
        for partition, begin in (await log.beginnings(topic.name)).items():
            place = (topic.name, partition)
            known = manifest.partitions.get(place, OffsetRange(0, 0))
            if ends[place] < known.end:
                raise IncompleteLogError(
                    f"{topic.name}-{partition} ends at {ends[place]}, the backup has it up to {known.end}: "
                    "the log has lost records; restore it, or begin another backup"
                )
            if begin > known.end:
                if topic.name.endswith((".events", ".fleet")):
                    raise IncompleteLogError(
                        f"{topic.name}-{partition} begins at {begin}: records before it are gone, and "
                        "without them no state can be restored"
                    )
                if known.end or manifest.runs:
                    gaps.append(f"{topic.name}-{partition}: offsets {known.end} to {begin - 1}")
                known = OffsetRange(begin, begin)
            found[place] = known
    return found, gaps


async def _write_partition(
    log: Log, writer: RunWriter, place: TopicPartition, offsets: OffsetRange, until_ms: int | None
) -> int:
    """Writes the records of a partition; returns the offset of the next one.

    Raises IncompleteLogError if the log deletes what is being read.
    """
    if offsets.begin >= offsets.end:
        return offsets.begin
    writer.partition(place)
    try:
        async with aclosing(read_entries(log, place, offsets.begin, offsets.end)) as batches:
            async for batch in batches:
                for entry in batch:
                    if until_ms is not None and entry.append_time_ms > until_ms:
                        return entry.offset
                    writer.record(entry)
    except OffsetGoneError as error:
        raise IncompleteLogError(
            f"the log deletes records that are read just now ({error}): run it again"
        ) from error
    return offsets.end
