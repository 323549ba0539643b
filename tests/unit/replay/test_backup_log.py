import base64
from io import UnsupportedOperation
from pathlib import Path

import pytest

from tests.unit.eventlog.test_encryption import EVENT, Keys
from tests.unit.replay.given import TOPICS
from trackside.eventlog.errors import OffsetGoneError, PreflightError, TransientError
from trackside.eventlog.keys.encryption import new_key_pair
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Log, Outgoing, TopicPartition
from trackside.eventlog.memory import MemoryLog
from trackside.replay.transfer.backup import add_to_backup, topics_of_backup
from trackside.replay.transfer.backup_files import read_manifest, write_manifest
from trackside.replay.transfer.backup_log import BackupLog
from trackside.verify.log import verify_topics

LOGS = TOPICS.logs.name


async def backed_up(log: MemoryLog, folder: Path) -> BackupLog:
    return BackupLog(folder, (await add_to_backup(log, TOPICS, folder)).manifest)


async def entries(log: Log, starts: dict[TopicPartition, int]) -> dict[TopicPartition, list[Entry]]:
    found: dict[TopicPartition, list[Entry]] = {place: [] for place in starts}
    reader = log.reader(starts)
    while batch := await reader.read(0.01, 7):
        for entry in batch:
            entry.headers = [tuple(each) for each in entry.headers]  # type: ignore[misc]
            found[entry.topic, entry.partition].append(entry)
    await reader.close()
    return found


async def test_a_backup_of_several_runs_has_the_records_of_its_log(log: MemoryLog, tmp_path: Path) -> None:
    await backed_up(log, tmp_path)
    for _ in range(3):
        await log.append(LOGS, 1, [Outgoing(b"t", bytes(range(256)), [("h", None), ("u", b"\xff")])])
    backup = await backed_up(log, tmp_path)
    assert await backup.cluster_id() == await log.cluster_id()
    names = [topic.name for topic in topics_of_backup(TOPICS)]
    ends = await backup.ends_of(names)
    assert ends == await log.ends_of(names)
    starts = {(name, partition): 0 for name in names for partition in ends[name]}
    assert await entries(backup, starts) == await entries(log, starts)
    reader = backup.reader({(LOGS, 1): 2})
    assert [entry.offset for entry in await reader.read(0.01)] == [2]
    reader.assign({(LOGS, 0): 0})
    await log.append(LOGS, 0, [Outgoing(b"t", b"not in the backup", [])])
    assert await reader.read(0.01) == []
    assert (await verify_topics(backup, TOPICS)).findings == []


async def test_a_backup_has_no_records_before_a_gap_or_other_topics(log: MemoryLog, tmp_path: Path) -> None:
    for line in (b"one", b"two", b"three"):
        await log.append(LOGS, 1, [Outgoing(b"t", line, [])])
    await backed_up(log, tmp_path)
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    offsets = manifest.partitions[LOGS, 1]
    later = manifest.with_run(None, {(LOGS, 1): type(offsets)(2, offsets.end)})
    write_manifest(tmp_path, later)
    backup = BackupLog(tmp_path, later)
    assert (await backup.beginnings(LOGS))[1] == 2
    assert [entry.value for entry in (await entries(backup, {(LOGS, 1): 2}))[LOGS, 1]] == [b"three"]
    with pytest.raises(OffsetGoneError, match="begins at 2, position is 0"):
        await backup.reader({(LOGS, 1): 0}).read(0.01)
    await backup.preflight([TOPICS.events])
    with pytest.raises(PreflightError, match="has no topic"):
        await backup.preflight([TOPICS.heartbeats])
    with pytest.raises(TransientError, match="has no topic"):
        await backup.ends(TOPICS.heartbeats.name)
    with pytest.raises(UnsupportedOperation, match="nothing is written"):
        await backup.publish(LOGS, 1, Outgoing(b"t", b"four", []))


async def test_no_record_is_left_out_while_keys_cannot_be_read(log: MemoryLog, tmp_path: Path) -> None:
    pair = new_key_pair()
    writer = RecordWriter("dispatcher", "1")
    events = TOPICS.events.name
    end = (await log.ends(events))[0]
    secret = writer.encrypted(writer.single("digits-1", EVENT), base64.b64encode(pair[1]).decode())
    await log.append(events, 0, [secret])
    keys = Keys(pair)
    keys.failing = True
    backup = BackupLog(tmp_path, (await add_to_backup(log, TOPICS, tmp_path)).manifest, keys)
    reader = backup.reader({(events, 0): end})
    with pytest.raises(TransientError):
        await reader.read(0.01)
    keys.failing = False
    [entry] = await reader.read(0.01)
    assert entry.offset == end and entry.stored == secret.value
