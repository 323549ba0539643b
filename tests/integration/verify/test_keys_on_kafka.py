"""Signed decisions on a real Kafka: a key is rotated during a search, and old signatures have no effect."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.integration.verify.running_services import (
    NAMES,
    STREAM,
    WORKERS,
    RunningServices,
    running,
    search,
    until,
    until_joined,
)
from tests.stack import SecureServers
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchStatus, UpdateSearch
from trackside.aggregates.search.state import search_of
from trackside.cli.app import call
from trackside.contracts.envelope.message import Command, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.commands import Ping
from trackside.domain.folding.streams import Streams, dump
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.installation_keys import KeyChanges, change_keys, set_up_keys
from trackside.eventlog.keys.key_folder import SETUP, KeyFolder, trusted_key
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Outgoing
from trackside.eventlog.reactor.own_events import DistrustedError
from trackside.replay.history.recorded_stream import read_entries
from trackside.telemetry.metrics import counter

pytestmark = pytest.mark.timeout(600)

MANY = 5_000
"""More trials than a search runs while a key is rotated."""
DISPATCHERS = NAMES[:2]


@pytest.fixture
def topics(topic_prefix: str) -> Topics:
    return Topics(prefix=topic_prefix)


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    return KeyFolder(tmp_path / "keys")


@pytest.fixture
async def log(secure_stack: SecureServers, topics: Topics, keys: KeyFolder) -> AsyncIterator[KafkaLog]:
    async with KafkaLog(secure_stack.kafka("admin"), client_id="keys-test") as log:
        await log.ensure(topics.shared)
        await set_up_keys(log, topics, keys, [f"w{at}" for at in range(WORKERS)], require=True)
        yield log


async def publish(log: KafkaLog, topics: Topics, command: Command, name: str) -> None:
    record = RecordWriter("publisher", "test").single(STREAM, command, message_id=name)
    await log.publish(topics.commands.name, 1, record)


def ended(trials: int) -> Callable[[Stream], bool]:

    def reached(stream: Stream) -> bool:
        found = search_of(stream)
        return found is not None and sum(trial.status is not None for trial in found.trials) >= trials

    return reached


async def entries(log: KafkaLog, topics: Topics) -> list[Entry]:
    place = (topics.events.name, partition_of(STREAM, topics.event_partitions))
    end = (await log.ends(place[0]))[place[1]]
    return [entry async for batch in read_entries(log, place, 0, end) for entry in batch]


@pytest.mark.long
async def test_a_key_is_rotated_while_a_search_runs(
    secure_stack: SecureServers,
    log: KafkaLog,
    topics: Topics,
    keys: KeyFolder,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, old = keys.signer(SETUP), keys.signer("dispatcher")
    async with running(log, topics, random.Random(seed), keys) as services:
        await until_joined(log, topics, WORKERS)
        await publish(log, topics, search(MANY), "start")
        await until(log, topics, ended(5))
        new = keys.make_next("dispatcher")
        key = {new.key_id: trusted_key("dispatcher", new)}
        keys.list_keys(key)
        await change_keys(log, topics, root, KeyChanges(key))
        keys.use_next("dispatcher")
        assert await services.stop(*DISPATCHERS) == []
        services.start(*DISPATCHERS)
        before = len(search_of(await until(log, topics, ended(10))).trials)  # type: ignore[union-attr]
        await change_keys(log, topics, root, KeyChanges(revoked=[old.key_id]))
        await until(log, topics, ended(before + 5))
        now = search_of(await until(log, topics, ended(before + 5)))
        assert now is not None
        trials = len(now.trials) + 100
        await publish(log, topics, UpdateSearch(max_trials=trials), "end")
        over = search_of(await until(log, topics, lambda stream: stream.closed))
        assert over is not None
        assert over.status is SearchStatus.DONE
    for name, value in secure_stack.variables("admin").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TRACKSIDE_TOPIC_PREFIX", topics.prefix)
    listed = str(keys.path / "keys.json")
    assert await asyncio.to_thread(call, ["verify-log", "--complete", "--keys", listed]) == 0
    said = capsys.readouterr().out
    assert "nothing found" in said
    assert ", 0 findings" in said


@pytest.mark.long
async def test_what_was_signed_before_has_no_effect_when_it_is_written_again(
    log: KafkaLog, topics: Topics, keys: KeyFolder, seed: int
) -> None:
    root = keys.signer(SETUP)
    place = (topics.events.name, partition_of(STREAM, topics.event_partitions))
    await change_keys(log, topics, root, KeyChanges(mode="off"))
    off = (await entries(log, topics))[-1]
    await change_keys(log, topics, root, KeyChanges(mode="require"))
    async with running(log, topics, random.Random(seed), keys):
        await until_joined(log, topics, WORKERS)
        await publish(log, topics, search(12), "start")
        before = await until(log, topics, lambda stream: stream.closed)
        state, own = dump(before), await entries(log, topics)
        counted = counter("trackside.dispatcher.distrusted.events").labels("broken_chain")
        first = counted._value.get()
        again = [off, *(entry for entry in own if is_of_search(entry))]
        rest = [entry for entry in again if dict(entry.headers).get("ce_index") == b"1"]
        copies = [Outgoing(entry.key, entry.value, entry.headers) for entry in (*again, *rest)]
        for copy in copies:
            await log.append(*place, [copy])
        await publish(log, topics, Ping(), "ping")
        after = await until(log, topics, lambda stream: "ping" in stream.commands)
        end = len(await entries(log, topics))
        streams, outcomes = Streams(AGGREGATES), list[tuple[Record, Outcome]]()
        for entry in await entries(log, topics):
            record = decode(entry)
            assert record is not None
            outcomes.append((record, streams.fold(record)[1]))
        repeated = outcomes[len(own) : len(own) + len(copies)]
        assert {outcome for _, outcome in repeated} <= {Outcome.DUPLICATE, Outcome.OVERTAKEN}
        assert end > len(own) + len(copies)
        assert counted._value.get() - first >= len(rest) > 0
    after.commands.pop("ping")
    assert json.loads(dump(after))["root"] == json.loads(state)["root"]


def is_of_search(entry: Entry) -> bool:
    return ("ce_partitionkey", STREAM.encode()) in entry.headers


async def test_a_service_whose_key_was_revoked_stops_and_says_why(
    log: KafkaLog, topics: Topics, keys: KeyFolder, seed: int
) -> None:
    services = RunningServices(log, topics, random.Random(seed), keys)
    services.start("dispatcher-0")
    await publish(log, topics, Ping(), "first")
    await until(log, topics, lambda stream: not stream.unanswered)
    revoked = [keys.signer("dispatcher").key_id]
    await change_keys(log, topics, keys.signer(SETUP), KeyChanges(revoked=revoked))
    await publish(log, topics, Ping(), "second")
    await asyncio.wait(services.tasks.values(), timeout=60)
    (failure,) = await services.stop()
    assert isinstance(failure, DistrustedError)
    assert str(failure) == (
        "events of trackside/dispatcher/0 have no effect (revoked_key): this log requires signatures; set "
        "TRACKSIDE_SIGNING_KEY_FILE to a key that `trackside setup keys` lists for it"
    )
    found = [record for record in map(decode, await entries(log, topics)) if record is not None]
    assert found[-1].envelope.source == "trackside/dispatcher/0"  # one event, and no more after it
    assert len([each for each in found if getattr(each.message, "command_id", "") == "second"]) == 1
