"""Backups of a log on a real Kafka: runs that add what is new, and restores that equal what was backed up."""

import asyncio
import gzip
import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.integration.replay.backed_up_log import Given
from tests.small_disk import small_disk
from tests.stack import Servers, database_with_tables, fresh_database
from tests.unit.projections.given import write_small_history
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.errors import PreflightError
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.kafka.kafka_topics import delete_before, times_of
from trackside.eventlog.log import Outgoing
from trackside.eventlog.log_id import is_begin
from trackside.replay.history.errors import (
    AnotherInstallationError,
    DamagedFileError,
    IncompleteLogError,
    LiveTargetError,
    ReplayError,
)
from trackside.replay.transfer.backup import add_to_backup
from trackside.replay.transfer.backup_files import MANIFEST, PARTIAL, read_manifest
from trackside.replay.transfer.restore import manifest_to_restore, restore
from trackside.verify.log import verify_topics

FIRST = "000001.jsonl.gz"


async def test_a_restored_log_has_each_record_at_its_offset_and_time_and_makes_the_same_rows(
    given: Given, tables: str, stack: Servers
) -> None:
    for line in (b"one", b"two", b"three", bytes(range(256))):
        await given.say(line)
    await delete_before(given.bootstrap, {(given.topics.logs.name, 1): 2})
    before, rows = await given.entries(), await given.rows(tables)
    assert await given.back_up() == len(before) > 150
    await given.delete_topics()
    assert (await given.restore()).written == len(before)
    assert await given.is_restored(before)
    assert (await given.log.beginnings(given.topics.logs.name))[1] == 2
    await given.log.preflight(given.topics.shared)
    assert (await verify_topics(given.log, given.topics)).findings == []
    with fresh_database(stack.postgres_dsn, database_with_tables()) as fresh:
        assert await given.rows(fresh) == rows


async def test_a_later_run_adds_what_is_new_an_idle_log_nothing_and_none_is_restored_to_a_log_with_data(
    given: Given,
) -> None:
    first = await given.back_up()
    files = {path.name: path.read_bytes() for path in given.folder.glob("*.gz")}
    await given.say(b"a line")
    assert (first > 100, await given.back_up(), await given.back_up()) == (True, 1, 0)
    assert files.keys() == {FIRST}
    assert (given.folder / FIRST).read_bytes() == files[FIRST]
    assert sorted(path.name for path in given.folder.iterdir()) == [FIRST, "000002.jsonl.gz", MANIFEST]
    before = await given.entries()
    with pytest.raises(LiveTargetError, match="restore to a new installation"):
        await given.restore()
    assert await given.entries() == before


@pytest.mark.long
async def test_a_run_that_is_killed_leaves_the_backup_as_it_was(given: Given) -> None:
    await given.back_up()
    kept = (given.folder / MANIFEST).read_bytes()
    for _ in range(3):
        await given.say(b"a line")
    arguments = (given.bootstrap, given.topics.prefix, str(given.folder))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(BrokenProcessPool):
        await asyncio.wrap_future(pool.submit(_killed_while_it_copies, *arguments))
    assert (given.folder / PARTIAL).exists()
    assert (given.folder / MANIFEST).read_bytes() == kept
    assert await given.back_up() == 3
    assert not (given.folder / PARTIAL).exists()


@pytest.mark.long
async def test_a_disk_that_is_full_during_a_run_leaves_the_backup_as_it_was(given: Given) -> None:
    with small_disk(given.folder, "1m") as disk:
        await given.back_up()
        kept = {path.name: path.read_bytes() for path in given.folder.iterdir()}
        await given.say(os.urandom(100_000))
        disk.fill(leave_bytes=16_384)
        with pytest.raises(OSError, match="No space left on device") as raised:
            await given.back_up()
        assert not isinstance(raised.value, ReplayError)
        disk.empty()
        assert {path.name: path.read_bytes() for path in given.folder.iterdir()} == kept
        made = await add_to_backup(given.log, given.topics, given.folder)
        assert made.run is not None and made.run.records == 1
        assert read_manifest(given.folder) == made.manifest


def _killed_while_it_copies(bootstrap: str, prefix: str, folder: str) -> None:
    def die(done: int, total: int) -> None:
        os._exit(9)

    async def copy() -> None:
        async with KafkaLog(bootstrap, client_id="backup-test") as log:
            await add_to_backup(log, Topics(prefix=prefix, event_partitions=3), Path(folder), die)

    asyncio.run(copy())


async def test_a_restore_that_was_interrupted_is_refused_by_services_and_continues_when_repeated(
    given: Given,
) -> None:
    before = await given.entries()
    await given.back_up()
    await given.delete_topics()
    manifest = manifest_to_restore(given.topics, given.folder)

    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyError("interrupted")

    with pytest.raises(KeyError, match="interrupted"):
        await restore(given.log, given.bootstrap, given.topics, given.folder, manifest, interrupt)
    await given.log.ensure(given.topics.shared)  # as a start does, before it checks them
    with pytest.raises(PreflightError, match=r"message\.timestamp\.type"):
        await given.log.preflight(given.topics.shared)
    made = await given.restore()
    assert made.found > len(before) // 2
    assert made.written + made.found == len(before)
    assert await given.is_restored(before)


@pytest.mark.long
async def test_records_that_the_log_has_deleted_between_runs_are_a_gap_that_a_restore_begins_after(
    given: Given,
) -> None:
    await given.say(b"one")
    await given.back_up()
    for line in (b"two", b"three", b"four"):
        await given.say(line)
    await delete_before(given.bootstrap, {(given.topics.logs.name, 1): 3})
    made = await add_to_backup(given.log, given.topics, given.folder)
    assert made.gaps == [f"{given.topics.logs.name}-1: offsets 1 to 2"]
    before = await given.entries()
    await given.delete_topics()
    await given.restore()
    assert await given.is_restored(before)


@pytest.mark.long
async def test_a_log_that_lost_records_is_not_added_to_its_backup(given: Given) -> None:
    await given.back_up()
    kept = (given.folder / MANIFEST).read_bytes()
    [begun] = [entry for entry in await given.entries() if is_begin(entry, given.topics)]
    await given.delete_topics()
    await given.log.ensure(given.topics.shared)
    await given.log.append(begun.topic, 0, [Outgoing(begun.key, begun.value, begun.headers)])
    with pytest.raises(IncompleteLogError, match="the log has lost records"):
        await given.back_up()
    await delete_before_the_second_event(given)
    other = given.folder / "other"
    other.mkdir()
    with pytest.raises(IncompleteLogError, match="without them no state can be restored"):
        await add_to_backup(given.log, given.topics, other)
    assert (given.folder / MANIFEST).read_bytes() == kept
    assert list(other.iterdir()) == []


async def delete_before_the_second_event(given: Given) -> None:
    await write_small_history(given.log, given.topics)
    ends = await given.log.ends(given.topics.events.name)
    partition = next(number for number, end in ends.items() if end > 1)
    await delete_before(given.bootstrap, {(given.topics.events.name, partition): 1})


@pytest.mark.long
async def test_a_backup_of_another_installation_is_refused_and_says_so(given: Given) -> None:
    await given.back_up()
    another = Topics(prefix=f"{given.topics.prefix}b.", event_partitions=3)
    await given.log.ensure(another.shared)
    with pytest.raises(AnotherInstallationError, match="use a folder of its own for each installation"):
        await add_to_backup(given.log, another, given.folder)
    with pytest.raises(AnotherInstallationError, match="TRACKSIDE_TOPIC_PREFIX"):
        manifest_to_restore(another, given.folder)


def _cut(folder: Path) -> None:
    whole = (folder / FIRST).read_bytes()
    (folder / FIRST).write_bytes(whole[: len(whole) // 2])


def _pack_again(folder: Path, old: bytes = b"", new: bytes = b"") -> None:
    lines = gzip.decompress((folder / FIRST).read_bytes()).splitlines(keepends=True)
    lines[4] = lines[4].replace(old, new) if old else lines[4]
    (folder / FIRST).write_bytes(gzip.compress(b"".join(lines)))


def _edit_the_manifest(folder: Path) -> None:
    body: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**body, "runs": []}))


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (_cut, f"{FIRST} was cut off or changed"),
    (partial(_pack_again, old=b'"time_ms":1', new=b'"time_ms":2'), f"line 5 of {FIRST} was changed"),
    (_pack_again, f"{FIRST} was changed: {MANIFEST} has another digest of it"),
    (lambda folder: (folder / FIRST).unlink(), f"{FIRST} is missing"),
    (_edit_the_manifest, f"{MANIFEST} was changed or cut off"),
    (lambda folder: (folder / MANIFEST).unlink(), "has no backup"),
]


async def test_a_damaged_backup_is_refused_with_the_place_before_anything_is_written(given: Given) -> None:
    await given.back_up()
    whole = {path.name: path.read_bytes() for path in given.folder.iterdir()}
    await given.delete_topics()
    for damage, message in DAMAGES:
        damage(given.folder)
        with pytest.raises(DamagedFileError, match=message):
            await given.restore()
        for name, content in whole.items():
            (given.folder / name).write_bytes(content)
    assert await times_of(given.bootstrap, given.topics.shared) == {}
