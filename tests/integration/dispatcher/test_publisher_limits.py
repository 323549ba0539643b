"""Limits of publishers on a real log: floods, two dispatchers, and one that is killed on the way."""

import json
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.dispatcher.conftest import prepared_stack
from tests.integration.dispatcher.harness import (
    START,
    STOP,
    Answer,
    Publisher,
    RunningDispatcher,
    valid_search,
)
from tests.integration.installed import variables_of
from tests.integration.publish.test_command_line import trackside
from tests.service_processes import service_process
from tests.stack import Servers
from trackside.aggregates.search.messages import SearchEnded
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.streams.commands import (
    CommandAccepted,
    CommandReceived,
    CommandRefused,
    Ping,
    Source,
)
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk.client import Client
from trackside.sdk.connection.publication import Accepted, Refused, raise_if_refused
from trackside.sdk.errors import RefusedError

PING = Ping.wire_type()
PER_WINDOW = 50
WINDOW_MS = 10_000
FLOOD = 2_000
AT_ONCE = 250


@pytest.fixture
def settings(stack: Servers, tables: str) -> StackSettings:
    return prepared_stack(stack, tables)


class Dispatchers:
    """Starts dispatchers that have limits."""

    def __init__(self, settings: StackSettings, folder: Path, entered: ExitStack) -> None:
        self.settings = settings
        self._folder = folder
        self._entered = entered

    def start(self, name: str = "one", **limits: str) -> RunningDispatcher:
        variables = {
            **variables_of(self.settings),
            **{f"TRACKSIDE_DISPATCHER_{limit.upper()}": value for limit, value in limits.items()},
        }
        folder = self._folder / name
        folder.mkdir()
        service = self._entered.enter_context(service_process("dispatcher", variables, folder))
        return RunningDispatcher(self.settings, service)


@pytest.fixture
def dispatchers(settings: StackSettings, tmp_path: Path) -> Iterator[Dispatchers]:
    with ExitStack() as entered:
        yield Dispatchers(settings, tmp_path, entered)


async def flood(log: KafkaLog, topic: str, publisher: str, count: int) -> dict[Source, int]:
    """Publishes pings, each to a stream of its own, on all partitions; returns their append times in ms."""
    writer, published = RecordWriter("publisher", publisher), dict[Source, int]()
    for start in range(0, count, AT_ONCE):
        partition = start // AT_ONCE % 4
        names = [f"{publisher}-{at}" for at in range(start, min(count, start + AT_ONCE))]
        batch = [writer.single(name, Ping(), message_id=f"c-{name}") for name in names]
        appended = await log.append(topic, partition, batch)
        offsets = range(appended.offset, appended.offset + len(batch))
        sources = [Source(topic=topic, partition=partition, offset=offset) for offset in offsets]
        published |= dict.fromkeys(sources, appended.append_time_ms)
    return published


async def answers_to(publisher: Publisher, published: Collection[Source]) -> dict[Source, Answer]:
    """Reads the answers to these commands; of all that come for one, each says the same."""
    open_ = set(published)
    found: dict[Source, Answer] = {}

    def takes_all(record: Record) -> bool:
        message = record.message
        if isinstance(message, Answer) and message.source in published:
            assert found.setdefault(message.source, message) == message
            open_.discard(message.source)
        return not open_

    await publisher.until(takes_all, timeout_s=120)
    return found


def code_of(answer: Answer) -> str:
    return answer.code if isinstance(answer, CommandRefused) else "accepted"


def retry_at_ms_of(answer: Answer) -> int:
    assert isinstance(answer, CommandRefused)
    return answer.problems[0].retry_at_ms or 0


async def test_one_publisher_s_flood_is_refused_with_times_and_another_s_commands_are_not(
    dispatchers: Dispatchers, settings: StackSettings
) -> None:
    running = dispatchers.start(max_commands_per_s=str(PER_WINDOW / 10))
    topic = settings.topics.commands.name
    async with KafkaLog(settings.kafka_bootstrap, "test") as log:
        publisher = Publisher(log, running)
        flooded = await flood(log, topic, "ada", 4 * AT_ONCE)
        few = await flood(log, topic, "bob", 10)
        answers = await answers_to(publisher, flooded | few)
        assert {code_of(answers[source]) for source in few} == {"accepted"}
        refused = [answers[source] for source in flooded if code_of(answers[source]) == "too_many"]
        windows = 2  # the flood may begin at the end of one
        assert 4 * AT_ONCE - windows * PER_WINDOW <= len(refused) <= 4 * AT_ONCE - PER_WINDOW
        last_window = max(flooded.values()) // WINDOW_MS
        end_ms = max(record.append_time_ms for record in publisher.records)
        later = [each for each in refused if retry_at_ms_of(each) > end_ms]
        first = min(later, key=retry_at_ms_of)  # nothing else was published from that time on
        assert isinstance(first, CommandRefused)
        retry_at_ms = retry_at_ms_of(first)
        assert "source:trackside/publisher/ada" in first.message
        writer = RecordWriter("publisher", "ada")
        stream = first.command_id.removeprefix("c-")
        while True:  # the log's clock is read by what it answers
            record = writer.single(stream, Ping(), message_id=first.command_id)
            again = await log.append(topic, 0, [record])
            source = Source(topic=topic, partition=0, offset=again.offset)
            answer = (await answers_to(publisher, {source}))[source]
            accepted = isinstance(answer, CommandAccepted)
            assert accepted or again.append_time_ms < retry_at_ms
            assert not accepted or again.append_time_ms // WINDOW_MS > last_window
            if accepted:  # at its time, or in a window that began before all answers were read
                break
        assert answer.command_id == first.command_id
    received = [each.message for each in publisher.records if isinstance(each.message, CommandReceived)]
    bodies = {each.problem is None: each.body for each in received}
    assert bodies == {True: {}, False: None}


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 2])
async def test_each_command_of_a_flood_is_answered_once_though_a_dispatcher_is_killed(
    dispatchers: Dispatchers, settings: StackSettings, count: int
) -> None:
    running = [
        dispatchers.start(f"d{at}", max_commands_per_s=str(PER_WINDOW / 10), max_open_streams="5")
        for at in range(count)
    ]
    async with KafkaLog(settings.kafka_bootstrap, "test") as log:
        publisher = Publisher(log, running[0])
        flooded = await flood(log, settings.topics.commands.name, "ada", FLOOD)
        await publisher.until(lambda record: isinstance(record.message, CommandRefused), 120)
        running[0].service.kill()
        flooded |= await flood(log, settings.topics.commands.name, "bob", FLOOD)
        running[0].service.start()
        answers = await answers_to(publisher, flooded)
    admitted = Counter(
        answer.command_id.split("-")[1] for answer in answers.values() if isinstance(answer, CommandAccepted)
    )
    # two windows of a publisher, and as much again for the start: the other one may have some under way
    assert all(PER_WINDOW <= each <= 4 * PER_WINDOW for each in admitted.values())
    code, output, errors = await trackside(running[0], "verify-log", "--json")
    assert code == 0, output + errors
    assert not json.loads(output)["findings"]


@pytest.mark.long
async def test_a_search_may_begin_again_when_one_of_its_publisher_is_over(
    dispatchers: Dispatchers, settings: StackSettings, tmp_path: Path
) -> None:
    limits = tmp_path / "limits.json"
    limits.write_text('{"source:free": {"max_open_streams": 0}}')
    running = dispatchers.start(max_open_streams="2", limits_file=str(limits))
    async with KafkaLog(settings.kafka_bootstrap, "test") as log:
        publisher = Publisher(log, running)
        first, second, third = (new_id("s") for _ in range(3))
        search: Json = valid_search()
        assert code_of(await publisher.say(search, stream=first)) == "accepted"
        assert code_of(await publisher.say(search, stream=second)) == "accepted"
        refusal = await publisher.say(search, stream=third, command_id="c-third")
        assert isinstance(refusal, CommandRefused) and refusal.code == "too_many"
        assert "source:test: the limit of open streams is 2" in refusal.message
        running.service.restart()
        assert code_of(await publisher.say(search, stream=third, command_id="c-third")) == "too_many"
        assert code_of(await publisher.say({}, STOP, first)) == "accepted"
        await publisher.event(first, SearchEnded)
        again = await publisher.say(search, stream=third, command_id="c-third")
        assert code_of(again) == "accepted"
        wish = {"type": START, "source": "test", "stream": new_id("s"), "data": search}
        code, _, errors = await trackside(running, "publish", "-", fed=json.dumps(wish))
        assert code == 2 and "too_many at $source: source:test: the limit of open streams is 2" in errors
        free = await trackside(running, "publish", "-", fed=json.dumps({**wish, "source": "free"}))
        assert free[0] == 0, free


@pytest.mark.long
async def test_the_sdk_raises_a_refusal_with_its_time_and_the_command_line_prints_one(
    dispatchers: Dispatchers, settings: StackSettings, tmp_path: Path
) -> None:
    limits = tmp_path / "limits.json"
    limits.write_text('{"source:trackside/sdk/cli": {"max_commands_per_s": 0, "max_open_streams": 1}}')
    running = dispatchers.start(max_commands_per_s="0.1", limits_file=str(limits))
    async with Client(settings.kafka_bootstrap, settings.topic_prefix, name="ada") as client:
        answer: Accepted | Refused | None = None
        while not isinstance(answer, Refused):  # the first one may be in the window before
            published = await client.publish(Ping(), new_id("s"))
            answer = await client.answer(published)
        with pytest.raises(RefusedError, match="sdk/ada: the limit is 1 in 10 s") as caught:
            raise_if_refused(published, answer)
        retry_at_ms = caught.value.problem.retry_at_ms
        assert retry_at_ms is not None and retry_at_ms % WINDOW_MS == 0
    spec = tmp_path / "search.yaml"
    spec.write_text(
        "kind: search\ntask_type: noop\nspace:\n  x: {type: uniform, low: 0, high: 1}\nmax_trials: 1\n"
    )
    assert (await trackside(running, "submit", str(spec)))[0] == 0
    code, _, errors = await trackside(running, "submit", str(spec), "--wait")
    assert code == 2 and "source:trackside/sdk/cli: the limit of open streams is 1" in errors
