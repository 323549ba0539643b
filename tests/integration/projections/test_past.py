"""Snapshots of the past on a real Kafka: a process writes them, in a folder or in Postgres."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.stack import Servers
from tests.unit.projections.given import write_small_history
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.domain.folding.streams import dump
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.projections.database.postgres import LIVE_SCHEMA
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.past.open_store import open_past_store
from trackside.projections.past.postgres_store import PostgresPastStore
from trackside.projections.past.reader import PastReader
from trackside.projections.past.schedule import PastPace, keep_past
from trackside.projections.past.store import FolderPastStore, PastStore, StoreUnusableError
from trackside.replay.find_stream import find_stream
from trackside.replay.history.recorded_stream import state_at

PLACE = ("events", 3)
LIMIT = 2**20
PATIENCE_S = 2_000
"""The process has the lowest priority: beside six busy loops it gets a hundredth of a core."""


async def first_written(ends: Mapping[int, int], topics: Topics) -> Mapping[int, int]:
    """Runs the schedule of a service at these offsets, until its first process has ended."""
    positions = {(topics.events.name, partition): end for partition, end in ends.items()}
    done: asyncio.Future[Mapping[int, int]] = asyncio.get_running_loop().create_future()
    pace = PastPace(every=10, check_s=0.01)
    task = asyncio.create_task(keep_past(lambda: positions, topics.events.name, LIMIT, pace, done.set_result))
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await done
    finally:
        task.cancel()


@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.parametrize("kind", ["folder", pytest.param("postgres", marks=pytest.mark.long)])
async def test_a_process_writes_the_snapshots_that_are_due(
    kind: str, stack: Servers, tables: str, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "past" if kind == "folder" else None
    for name, value in {
        "KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
        "POSTGRES_DSN": tables,
        "TOPIC_PREFIX": topic_prefix,
        "DISK_LOW_FREE": "1MiB",
        "DISK_LOW_PERCENT": "100",
        **({"PAST_FOLDER": str(folder)} if folder is not None else {}),
    }.items():
        monkeypatch.setenv(f"TRACKSIDE_{name}", value)
    topics = Topics(prefix=topic_prefix)
    place = topics.events.name, partition_of("one", topics.events.partitions)
    async with KafkaLog(stack.kafka_bootstrap, "test") as log:
        await write_small_history(log, topics)
        ends = await log.ends(topics.events.name)
        written = await first_written(ends, topics)
        store = open_past_store(folder, tables)
        positions = await store.positions(place)
        assert written[place[1]] == positions[-1] + 10
        plain = await state_at(await find_stream(log, topics, "one"))
        past = await state_at(await find_stream(log, topics, "one", PastReader(store)))
        assert dump(past.stream) == dump(plain.stream)
        assert past.cached > 0
        assert await first_written(ends, topics) == written
        assert await store.positions(place) == positions


@pytest.mark.long
async def test_a_process_that_cannot_write_ends_and_the_service_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TRACKSIDE_PAST_FOLDER", str(tmp_path / "file" / "past"))
    assert await first_written({3: 20}, Topics()) == {}


@pytest.mark.long
async def test_when_memory_runs_out_its_process_is_killed_before_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The states of a search of 50,000 trials with all tasks take 0.8 GB."""
    connected = asyncio.Event()

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", f"127.0.0.1:{port}")
        monkeypatch.setenv("TRACKSIDE_PAST_FOLDER", str(tmp_path / "past"))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trackside.projections.past", str(LIMIT), "10", "3"),
            stdin=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(60):
                await connected.wait()
            assert killed_first(process.pid)
        finally:
            process.kill()
            await process.wait()


def killed_first(pid: int) -> bool:
    """Returns whether the kernel kills a process before all others when memory runs out."""
    return Path(f"/proc/{pid}/oom_score_adj").read_text("ascii") == "1000\n"


@pytest.mark.parametrize("kind", [FolderPastStore, PostgresPastStore])
async def test_a_store_keeps_bytes_by_partition_and_offset(
    kind: type[PastStore], database: str, tmp_path: Path
) -> None:
    where = tmp_path / "past" if kind is FolderPastStore else None
    store, other = open_past_store(where, database), open_past_store(where, database)
    assert isinstance(store, kind)
    assert await store.positions(PLACE) == []
    assert await store.read(PLACE, 20) is None
    async with store.locked() as locked, other.locked() as refused:
        assert (locked, refused) == (True, False)
        await store.write(PLACE, 20, b"\x00twenty")
        await store.write(PLACE, 100, b"first")
        await store.write(PLACE, 100, b"second")
        await store.write(("events", 4), 20, b"other")
    assert await other.positions(PLACE) == [20, 100]
    assert await other.read(PLACE, 20) == b"\x00twenty"
    assert await other.read(PLACE, 20, 1, 3) == b"twe"
    assert await other.read(PLACE, 100, 3) == b"ond"
    await store.remove(PLACE, 20)
    await store.remove(PLACE, 20)
    assert await other.positions(PLACE) == [100]
    async with store.locked() as locked:
        assert locked


async def test_without_postgres_the_store_is_unusable_and_after_a_drop_it_is_empty(
    database: str, unused_tcp_port: int
) -> None:
    gone = PostgresPastStore(f"postgresql://user:secret@127.0.0.1:{unused_tcp_port}/none")
    with pytest.raises(StoreUnusableError) as raised:
        await gone.positions(PLACE)
    assert "secret" not in str(raised.value)
    assert await PastReader(gone).begin(PLACE, "one") is None
    store = PostgresPastStore(database)
    async with store.locked():
        await store.write(PLACE, 20, b"twenty")
    async with opened_database(database, LIVE_SCHEMA) as opened:
        await opened.transaction(lambda connection: connection.execute("DROP SCHEMA trackside_past CASCADE"))
    assert await store.positions(PLACE) == []
