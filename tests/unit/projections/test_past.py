import asyncio
import os
import random
import resource
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.polling import poll_until
from tests.stack import SEED_VARIABLE
from tests.unit.replay.given import TOPICS, empty, small_log
from trackside.contracts.envelope.topics import partition_of
from trackside.domain.folding.streams import dump
from trackside.eventlog.log import TopicPartition
from trackside.eventlog.memory import MemoryLog
from trackside.projections.past import chain
from trackside.projections.past.forgetting import keep_forgotten, remove_forgotten
from trackside.projections.past.reader import PastReader
from trackside.projections.past.store import FolderPastStore, StoreUnusableError
from trackside.projections.past.writer import write_past
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import BadRangeError
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import PastState, state_at
from trackside.replay.history.state_cache import StateCache

EVERY = 10
RANDOM = random.Random(int(os.environ[SEED_VARIABLE]))
LIMIT = 10**9
STREAMS = ("one", "two", "tasks", "halted", "going", "serving", "open", "w2")
HARMS = ("cut", "changed", "index", "empty", "another fold")


@pytest.fixture
def store(tmp_path: Path) -> FolderPastStore:
    return FolderPastStore(tmp_path / "past")


@pytest.fixture
async def log() -> MemoryLog:
    return await small_log()


def place_of(stream: str) -> TopicPartition:
    return TOPICS.events.name, partition_of(stream, TOPICS.events.partitions)


async def snapshot(log: MemoryLog, store: FolderPastStore, max_bytes: int = LIMIT) -> None:
    for partition in range(TOPICS.events.partitions):
        await write_past(log, TOPICS.events, partition, store, max_bytes, EVERY)


async def moments(log: MemoryLog, stream: str) -> list[PointInTime]:
    """Returns every moment of a stream, by offset and by time, in random order."""
    recorded = await find_stream(log, TOPICS, stream)
    found = [NOW]
    async for record, _ in recorded.records():
        found += [PointInTime(offset=record.offset), PointInTime(time_ms=record.append_time_ms)]
    RANDOM.shuffle(found)
    return found


async def states(
    log: MemoryLog, stream: str, points: Sequence[PointInTime], store: FolderPastStore | None
) -> list[PastState]:
    """Returns the states of a stream at some moments; each is asked for as one command does."""
    found = []
    for point in points:
        past = None if store is None else PastReader(store)
        found.append(await state_at(await find_stream(log, TOPICS, stream, past), point))
    return found


def cells(past: PastState) -> tuple[object, ...]:
    return dump(past.stream), past.last, past.records, past.ignored, past.entry, past.latest_ms


async def check(
    log: MemoryLog, store: FolderPastStore, streams: Sequence[str] = STREAMS, most: int = 5
) -> int:
    saved = 0
    for stream in streams:
        points = (await moments(log, stream))[:most]
        with_snapshots = await states(log, stream, points, store)
        without = await states(log, stream, points, None)
        assert [cells(each) for each in with_snapshots] == [cells(each) for each in without]
        saved += sum(each.cached for each in with_snapshots)
    return saved


def files(store: FolderPastStore, place: TopicPartition) -> list[Path]:
    return sorted((store.folder / f"{place[0]}-{place[1]}").glob("*.past"))


@pytest.mark.thorough
async def test_every_moment_is_the_same_without_snapshots(log: MemoryLog, store: FolderPastStore) -> None:
    await snapshot(log, store)
    assert await check(log, store, most=1_000) > 1_000


async def test_a_stream_is_found_at_once_where_it_begins(log: MemoryLog, store: FolderPastStore) -> None:
    await snapshot(log, store)
    for stream in STREAMS:
        known = await PastReader(store).begin(place_of(stream), stream)
        assert known is None or known[0] == (await find_stream(log, TOPICS, stream)).begin
    assert await PastReader(store).begin(place_of("one"), "one") is not None
    recorded = await find_stream(log, TOPICS, "open", PastReader(store))
    assert recorded.begin > 0
    with pytest.raises(BadRangeError, match="has no state"):
        await state_at(recorded, PointInTime(offset=recorded.begin - 1))


async def test_snapshots_of_growing_logs_agree(
    log: MemoryLog, store: FolderPastStore, tmp_path: Path
) -> None:
    growing = await empty()
    at_once = FolderPastStore(tmp_path / "at once")
    await snapshot(log, at_once)
    for partition in range(TOPICS.events.partitions):
        for entry in log._partition(TOPICS.events.name, partition):
            growing._partition(TOPICS.events.name, partition).append(entry)
            if entry.offset % 7 == 0:
                await write_past(growing, TOPICS.events, partition, store, LIMIT, EVERY)
        await write_past(growing, TOPICS.events, partition, store, LIMIT, EVERY)
        place = (TOPICS.events.name, partition)
        octets = [[path.read_bytes() for path in files(each, place)] for each in (store, at_once)]
        assert octets[0] == octets[1]


def harmed(octets: bytes, harm: str) -> bytes:
    head = octets.index(b"\n")
    match harm:
        case "cut":
            return octets[:-3]
        case "changed":
            return octets[:-3] + bytes([octets[-3] ^ 1]) + octets[-2:]
        case "index":
            return octets[: head + 9] + bytes([octets[head + 9] ^ 1]) + octets[head + 10 :]
        case "another fold":
            return octets.replace(b'{"fold": "', b'{"fold": "0', 1)
    return b""


@pytest.mark.parametrize("harm", HARMS)
async def test_a_damaged_snapshot_is_made_again(log: MemoryLog, store: FolderPastStore, harm: str) -> None:
    await snapshot(log, store)
    place = place_of("one")
    before = {path: path.read_bytes() for path in files(store, place)}
    assert len(before) >= 3
    for path in [*before][1:]:
        path.write_bytes(harmed(before[path], harm))
    await check(log, store, ["one", "open"])
    with capture_logs() as lines:
        await snapshot(log, store)
        await snapshot(log, store)
    assert len([line for line in lines if "damaged" in line["event"]]) == (harm != "another fold")
    assert {path: path.read_bytes() for path in files(store, place)} == before
    if harm == "empty":
        newest = files(store, place)[-1]
        newest.write_bytes(b"")
        with capture_logs() as lines:
            await states(log, "one", [NOW], store)
        assert [line["position"] for line in lines] == [int(newest.stem)], "a reader reports it once"


@pytest.mark.thorough
async def test_snapshots_of_another_log_are_made_again(log: MemoryLog, store: FolderPastStore) -> None:
    await snapshot(log, store)
    other = await small_log()
    assert await check(other, store) == 0
    await snapshot(other, store)
    assert await check(other, store) > 0
    assert await check(log, store) == 0


async def test_many_snapshots_are_thinned_out(
    log: MemoryLog, store: FolderPastStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "MAX_SNAPSHOTS", 6)
    monkeypatch.setattr(chain, "RECENT", 3)
    await snapshot(log, store)
    positions = await store.positions(place_of("one"))
    assert len(positions) == 6
    assert positions[-3:] == [positions[-1] - 2 * EVERY, positions[-1] - EVERY, positions[-1]]
    assert await check(log, store) > 0


@pytest.mark.parametrize("max_bytes", [0, 4_000, 20_000])
async def test_states_beyond_the_limit_of_the_disk_are_dropped_and_folded_again(
    log: MemoryLog, store: FolderPastStore, max_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "RECENT", 2)
    for _ in range(2):
        await snapshot(log, store, max_bytes)
    await check(log, store)
    if max_bytes:
        sizes = [path.stat().st_size for path in files(store, place_of("one"))]
        assert sum(sizes) <= max(max_bytes, max(sizes) * 3)


async def test_a_writer_killed_within_a_merge_leaves_what_the_next_one_uses(
    log: MemoryLog, store: FolderPastStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await snapshot(log, store)
    place = place_of("one")
    first, second = files(store, place)[:2]
    octets = first.read_bytes()
    found = await chain.read_chain(store, place)
    await chain._merge(store, place, found, 0)
    first.write_bytes(octets)
    second.with_suffix(".draft").write_bytes(b"half")
    async with store.locked() as locked, FolderPastStore(store.folder).locked() as other:
        assert (locked, other) == (True, False), "one writer at a time has the store"
        await snapshot(log, store)
    assert not first.exists()
    assert not second.with_suffix(".draft").exists()
    assert await check(log, store) > 0


async def test_readers_beside_a_writer_agree(log: MemoryLog, store: FolderPastStore, tmp_path: Path) -> None:
    cache = StateCache(tmp_path / "states")
    points = (await moments(log, "one"))[:6]
    expected = [cells(each) for each in await states(log, "one", points, None)]

    async def read() -> list[tuple[object, ...]]:
        found = []
        for point in points:
            recorded = await find_stream(log, TOPICS, "one", PastReader(store))
            found.append(cells(await state_at(recorded, point, cache)))
        return found

    first, second, _ = await asyncio.gather(read(), read(), snapshot(log, store))
    assert first == second == expected


async def test_a_full_disk_stops_no_reader(log: MemoryLog, store: FolderPastStore, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, limits[1]))  # a file gets no byte more
    try:
        with pytest.raises(StoreUnusableError):
            await snapshot(log, store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not [path for path in store.folder.rglob("*") if path.suffix == ".draft"]
    await check(log, store, ["one", "two"])
    (tmp_path / "file").write_text("no folder")
    await check(log, FolderPastStore(tmp_path / "file" / "past"), ["one"])


async def test_no_snapshot_is_left_from_before_a_stream_was_forgotten(store: FolderPastStore) -> None:
    forgotten, other = ("trackside.events", 3), ("trackside.events", 4)
    for place in (forgotten, other):
        for position in (10, 20, 30):
            await store.write(place, position, b"states")
    await remove_forgotten(store, forgotten, 9)
    assert await store.positions(forgotten) == [10, 20, 30]
    await remove_forgotten(store, forgotten, 20)
    assert await store.positions(forgotten) == []
    assert await store.positions(other) == [10, 20, 30]
    removing = asyncio.create_task(keep_forgotten(store, other[0], lambda: {4: 20}, check_s=0.01))
    try:
        await store.write(other, 20, b"states")  # as another dispatcher does that has begun before
        await poll_until(lambda: _is_empty(store, other))
    finally:
        removing.cancel()


async def _is_empty(store: FolderPastStore, place: TopicPartition) -> bool:
    return await store.positions(place) == []
