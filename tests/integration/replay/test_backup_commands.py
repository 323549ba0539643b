"""Backups and restores by commands, also such as are killed or find a disk full, and are repeated then."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.forked_processes import COMMAND
from tests.integration.replay.backed_up_log import Given
from tests.polling import poll_until
from tests.small_disk import small_disk
from trackside.artifacts.blobs.blobs import blob_path
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.blobs.reading import checked_parts
from trackside.artifacts.blobs.source_files import SourceFile
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.cli.app import call
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_topics import times_of
from trackside.replay.transfer.backup_blobs import check_blobs
from trackside.replay.transfer.backup_files import MANIFEST, check_runs, read_manifest
from trackside.verify.log import verify_topics

MIB = 2**20
LINES, LINE_BYTES = 60, 190_000
"""Output that a restore writes after the events: a request for each line."""


@pytest.fixture
def event_partitions() -> int:
    return Topics().event_partitions


class Commands:
    """Commands for the installation of a log, whose store is a folder."""

    def __init__(self, given: Given, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        store.mkdir()
        self.given, self.store, self._capsys = given, FileBlobs(store), capsys
        self._variables = {
            "TRACKSIDE_KAFKA_BOOTSTRAP": given.bootstrap,
            "TRACKSIDE_TOPIC_PREFIX": given.topics.prefix,
            "TRACKSIDE_STORE": str(store),
        }

    def save(self, count: int) -> None:
        self.store.put([SourceFile(Path(), content=os.urandom(MIB)) for _ in range(count)])

    def blobs(self) -> list[str]:
        """Returns the digests of what the store has, after it has read all bytes."""
        found = [blob.sha256 for blob in self.store.list_blobs()]
        for digest in found:
            assert sum(len(part) for part in checked_parts(self.store, digest, None)) == MIB
        return found

    async def run(self, *arguments: str) -> Any:
        """Runs a command that succeeds with --json; returns what it printed."""
        return json.loads(await self.output(*arguments, "--json"))

    async def output(self, *arguments: str) -> str:
        assert await self._call(*arguments) == 0
        return self._capsys.readouterr().out

    async def fail(self, *arguments: str, code: int = 1) -> str:
        """Runs a command that fails with an exit code; returns its message."""
        assert await self._call(*arguments) == code
        return self._capsys.readouterr().err

    async def _call(self, *arguments: str) -> int:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._variables.items():
                patch.setenv(name, value)
            return await asyncio.to_thread(call, arguments)

    async def kill(self, arguments: Sequence[str], when: Callable[[], Awaitable[bool]]) -> None:
        """Runs a command in a process, and kills it as soon as something holds, which is before it ends."""
        process = await asyncio.create_subprocess_exec(
            COMMAND,
            *arguments,
            env={**os.environ, **self._variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            await poll_until(when)
        finally:
            process.kill()
            await process.wait()
        assert process.returncode == -signal.SIGKILL


@pytest.mark.long
async def test_a_restore_that_was_killed_is_repeated_and_restores_the_same_log_and_artifacts(
    given: Given, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (Commands(given, tmp_path / name, capsys) for name in ("first", "second"))
    first.save(40)
    for _ in range(LINES):
        await given.say(os.urandom(LINE_BYTES))
    before = await given.entries()
    await first.run("backup", str(given.folder))
    await given.delete_topics()
    restore = ("restore", str(given.folder))

    async def has_a_blob() -> bool:
        return any(second.store.list_blobs())

    async def has_events() -> bool:
        events = given.topics.events
        made = await times_of(given.bootstrap, [events])
        return bool(made) and sum((await given.log.ends(events.name)).values()) > 0

    await second.kill(restore, has_a_blob)
    assert 0 < len(second.blobs()) < 40
    assert await times_of(given.bootstrap, given.topics.shared) == {}
    await second.kill(restore, has_events)
    assert (await times_of(given.bootstrap, [given.topics.events])).popitem()[1] == "CreateTime"
    made = await second.run(*restore)
    assert made["records"] == len(before)
    assert 0 < made["written"] < len(before)
    assert await given.is_restored(before)
    assert (await verify_topics(given.log, given.topics)).findings == []
    assert second.blobs() == first.blobs()


@pytest.mark.long
async def test_a_disk_that_is_full_while_artifacts_are_backed_up_leaves_the_backup_as_it_was(
    given: Given, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = Commands(given, tmp_path / "store", capsys)
    commands.save(1)
    with small_disk(tmp_path / "small", "16m") as disk:
        folder = disk.folder / "backup"
        add = ("backup", str(folder))
        await commands.run(*add)
        kept = (folder / MANIFEST).read_bytes()
        commands.save(4)
        await given.say(b"a line")
        disk.fill(leave_bytes=3 * MIB)
        assert f"the disk of the backup in {folder} is full: the backup is as it was" in await commands.fail(
            *add
        )
        assert (folder / MANIFEST).read_bytes() == kept
        assert not list(folder.glob(".*"))
        disk.empty()
        made = await commands.run(*add)
        assert (made["runs"], made["records"], made["blobs"]) == (2, 1, 5)
        manifest = read_manifest(folder)
        assert manifest is not None
        check_runs(folder, manifest, lambda done, total: None)
        check_blobs(folder, commands.blobs(), lambda done, total: None)


@pytest.mark.long
async def test_a_store_that_is_full_during_a_restore_has_whole_artifacts_and_gets_the_rest_when_repeated(
    given: Given, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Commands(given, tmp_path / "store", capsys)
    first.save(5)
    before = await given.entries()
    await first.run("backup", str(given.folder))
    await given.delete_topics()
    with small_disk(tmp_path / "small", "16m") as disk:
        second = Commands(given, disk.folder / "store", capsys)
        disk.fill(leave_bytes=3 * MIB)
        message = await second.fail("restore", str(given.folder))
        assert f"the store {second.store.url} is full, no record was written: make room there" in message
        assert len(second.blobs()) < 5
        assert list(second.store.list_unfinished()) == []
        assert await times_of(given.bootstrap, given.topics.shared) == {}
        disk.empty()
        assert (await second.run("restore", str(given.folder)))["written"] == len(before)
        assert await given.is_restored(before)
        assert second.blobs() == first.blobs()


async def test_an_installation_is_backed_up_and_restored_with_its_artifacts_by_commands(
    given: Given, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (Commands(given, tmp_path / name, capsys) for name in ("first", "second"))
    weights = open_store(StoreSettings(store=str(tmp_path / "first"))).put(b"weights")
    folder = given.folder / "new"
    add, restore = ("backup", str(folder)), ("restore", str(folder))
    made = await first.run(*add)
    assert (made["runs"], made["file"], made["blobs"], made["gaps"]) == (1, "000001.jsonl.gz", 1, [])
    assert "nothing is new since" in await first.output(*add)
    said = await first.fail(*add, "--without-artifacts", code=2)
    assert "has artifacts: leave out --without-artifacts" in said
    assert "replay_target_live" in await first.fail(*restore)
    await given.delete_topics()
    blob = folder / blob_path(weights.sha256)
    blob.chmod(0o600)
    blob.write_bytes(b"damaged")
    assert "file_damaged" in await second.fail(*restore)
    blob.write_bytes(b"weights")
    restored = await second.run(*restore)
    assert restored["records"] == restored["written"] == made["records"]
    assert open_store(StoreSettings(store=str(tmp_path / "second"))).verify(weights) == "ok"
    assert "another_installation" in await second.fail(*add), "it is another log, also on the same cluster"
