"""Every reader of a log gives the same events an effect, also one of a single stream from its middle."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.unit.replay.given import ELSEWHERE, TOPICS, Clock
from tests.unit.signing.forged_log import FORGED, ForgedLog, forged_log
from tests.unit.signing.given import received
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import partition_of
from trackside.domain.folding.fold import fold
from trackside.domain.folding.streams import Streams, dump
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.installation_keys import KeyChanges, change_keys
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.memory import MemoryLog
from trackside.projections.past.reader import PastReader
from trackside.projections.past.store import FolderPastStore
from trackside.projections.past.writer import write_past
from trackside.replay.causality.causes import Causes
from trackside.replay.find_stream import find_stream
from trackside.replay.history import recorded_stream
from trackside.replay.history.errors import UnknownStreamError
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import state_at
from trackside.replay.history.state_cache import StateCache
from trackside.replay.transfer.export import write_export
from trackside.replay.transfer.import_stream import import_file
from trackside.sdk.async_client import AsyncClient
from trackside.sdk.connection.records import not_forged
from trackside.verify.log import verify_topics

NAMES = ("one", "two", "tasks", "halted", "going", "serving", "open", "w2")
EVERY = 60


@pytest.fixture
async def log(tmp_path: Path) -> ForgedLog:
    return await forged_log(tmp_path / "keys")


def outcomes(log: ForgedLog, name: str) -> tuple[dict[int, Outcome], dict[int, bytes]]:
    streams, found, states = Streams(AGGREGATES), dict[int, Outcome](), dict[int, bytes]()
    for entry in log._partition(TOPICS.events.name, partition_of(name, TOPICS.event_partitions)):
        record = decode(entry)
        assert record is not None
        stream, outcome = streams.fold(record)
        if record.envelope.stream == name:
            found[record.offset], states[record.offset] = outcome, dump(stream)
    return found, states


@pytest.mark.thorough
async def test_a_reader_of_one_stream_gives_each_event_the_outcome_of_services(log: ForgedLog) -> None:
    seen = set[Outcome]()
    for name in NAMES:
        recorded, expected = await find_stream(log, TOPICS, name), outcomes(log, name)[0]
        for _ in range(2):  # the second time with the newest keys
            alone, causes = Stream(name, recorded.partition), Causes(Stream(name, recorded.partition))
            async with aclosing(recorded.records()) as records:
                async for record, _entry in records:
                    assert fold(alone, record, AGGREGATES) is expected[record.offset]
                    step = causes.take(record)
                    assert step.standing == ("forged" if record.distrust else expected[record.offset].value)
                    seen.add(expected[record.offset])
    assert seen >= {Outcome.APPLIED, Outcome.OVERTAKEN}


@pytest.mark.thorough
async def test_a_stored_state_continues_with_the_keys_of_its_place(
    log: ForgedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_stream, "CACHE_EVERY_RECORDS", 10)
    monkeypatch.setattr(recorded_stream, "MIN_RECORDS_TO_CACHE", 3)
    store, cache = FolderPastStore(tmp_path / "past"), StateCache(tmp_path / "states")
    for partition in range(TOPICS.event_partitions):
        await write_past(log, TOPICS.events, partition, store, 10**9, EVERY)
    saved = 0
    for name in NAMES:
        for offset, state in list(outcomes(log, name)[1].items())[::7]:
            point = PointInTime(offset=offset)
            for past, states in ((PastReader(store), None), (None, cache), (PastReader(store), cache)):
                recorded = await find_stream(log, TOPICS, name, past)
                if offset >= recorded.begin:
                    found = await state_at(recorded, point, states)
                    assert dump(found.stream) == state, (name, offset)
                    saved += found.cached
    assert saved > 500


@pytest.mark.thorough
async def test_a_key_that_was_revoked_before_a_stored_state_counts_for_no_event_after_it(
    log: ForgedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader begins between the event about the key and the one that is signed with it."""
    monkeypatch.setattr(recorded_stream, "CACHE_EVERY_RECORDS", 1)
    monkeypatch.setattr(recorded_stream, "MIN_RECORDS_TO_CACHE", 0)
    assert log.keys is not None
    store, cache = FolderPastStore(tmp_path / "past"), StateCache(tmp_path / "states")
    dispatcher, name = log.keys.signer("dispatcher"), "open"
    partition = partition_of(name, TOPICS.event_partitions)
    await change_keys(log, TOPICS, log.keys.signer("setup"), KeyChanges(revoked=[dispatcher.key_id]))
    end = (await log.ends(TOPICS.events.name))[partition]
    await write_past(log, TOPICS.events, partition, store, 10**9, end)
    before = await state_at(await find_stream(log, TOPICS, name), NOW, cache)
    (late,) = RecordWriter("dispatcher", "1", dispatcher).decision(name, received(), topic=TOPICS.events.name)
    await MemoryLog.append(log, TOPICS.events.name, partition, [late])
    for past, states in ((PastReader(store), None), (None, cache)):
        recorded = await find_stream(log, TOPICS, name, past)
        after = await state_at(recorded, NOW, states)
        assert after.last.distrust == "revoked_key"
        assert dump(after.stream) == dump(before.stream)
        assert after.cached == after.records - 1
    after.last.trust = None
    assert fold(after.stream, after.last, AGGREGATES) is Outcome.APPLIED  # or this test would prove nothing


@pytest.mark.thorough
async def test_what_only_a_forger_has_written_is_no_stream(log: ForgedLog, tmp_path: Path) -> None:
    store = FolderPastStore(tmp_path)
    partition = partition_of(FORGED, TOPICS.event_partitions)
    await write_past(log, TOPICS.events, partition, store, 10**9, EVERY)
    for past in (None, PastReader(store)):
        with pytest.raises(UnknownStreamError):
            await find_stream(log, TOPICS, FORGED, past)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["", "again"])
async def test_an_export_folds_to_the_same_without_keys(log: ForgedLog, tmp_path: Path, name: str) -> None:
    elsewhere, path = MemoryLog(Clock()), tmp_path / "file"
    await elsewhere.ensure(ELSEWHERE.shared)
    recorded = await find_stream(log, TOPICS, "two")
    with path.open("wb") as file:
        exported = await write_export(recorded, file.write)
    refused = [offset for offset, outcome in outcomes(log, "two")[0].items() if outcome is Outcome.OVERTAKEN]
    assert sorted(exported.left_out) == [offset for offset in refused if offset >= recorded.begin]
    assert (await import_file(elsewhere, ELSEWHERE, path, name)).compared
    if not name:
        found = await state_at(await find_stream(elsewhere, ELSEWHERE, "two"))
        assert dump(found.stream) == dump((await state_at(recorded)).stream)


@pytest.mark.thorough
async def test_one_stream_is_verified_as_all_are(log: ForgedLog) -> None:
    whole, alone = dict[int, Outcome](), dict[int, Outcome]()
    for name, found in (("", whole), ("one", alone)):

        def observe(stream: Stream, outcome: Outcome, record: Record, _: bytes, found: Any = found) -> None:
            if stream.stream_id == "one":
                found[record.offset] = outcome

        await verify_topics(log, TOPICS, stream=name, on_record=observe)
    assert alone == whole
    assert Outcome.OVERTAKEN in alone.values()


@pytest.mark.thorough
async def test_what_the_sdk_copies_from_a_stream_is_not_forged(log: ForgedLog) -> None:
    async with AsyncClient("", log=log) as client:
        assert await client.kind("one") == "search"
        assert await client.kind(FORGED) is None
        for name in NAMES:
            found = [record.offset async for record in not_forged(client.events(name))]
            expected = outcomes(log, name)[0].items()
            assert found == [offset for offset, outcome in expected if outcome is Outcome.APPLIED]
