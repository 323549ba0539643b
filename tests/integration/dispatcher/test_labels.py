"""Labels of streams, changed by commands to a running dispatcher over Kafka, and their rows in Postgres."""

from tests.integration.dispatcher.harness import STOP, Publisher, RunningDispatcher, valid_search
from tests.integration.projections.harness import query
from tests.polling import poll_until
from trackside.aggregates.search.messages import SearchEnded
from trackside.contracts.commands import CommandAccepted, CommandRefused
from trackside.contracts.ids import new_id
from trackside.contracts.labels import AnnotateStream, StreamAnnotated
from trackside.contracts.message import Record
from trackside.eventlog.kafka import KafkaLog
from trackside.replay.rebuild.rebuild import rebuild
from trackside.verify.log import verify_topics

ANNOTATE = AnnotateStream.wire_type()
ROW = "SELECT kind, tags, note, archived FROM dashboards.stream_labels WHERE stream_id = $1"
Row = tuple[object, ...]


async def until_row(dispatcher: RunningDispatcher, stream: str, row: Row) -> None:
    """Waits until the read models have these labels of a stream."""

    async def is_so() -> bool:
        return await query(dispatcher.settings.postgres_dsn, ROW, stream) == [row]

    await poll_until(is_so)


async def ended_search(publisher: Publisher) -> str:
    """Starts a search and stops it; returns its id once it has ended."""
    stream = new_id("s")

    def ended(record: Record) -> bool:
        return record.envelope.stream == stream and isinstance(record.message, SearchEnded)

    assert isinstance(await publisher.say(valid_search(), stream=stream), CommandAccepted)
    assert isinstance(await publisher.say({}, STOP, stream), CommandAccepted)
    await publisher.until(ended)
    return stream


async def test_an_ended_search_is_annotated_and_archived_and_a_new_dispatcher_knows_it(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    stream = await ended_search(publisher)
    body = {"add_tags": ["paper", "draft"], "note": "for table 2"}
    assert isinstance(await publisher.say(body, ANNOTATE, stream), CommandAccepted)
    await until_row(dispatcher, stream, ("search", ["draft", "paper"], "for table 2", False))
    dispatcher.service.kill()
    dispatcher.service.start()
    assert isinstance(
        await publisher.say({"remove_tags": ["draft"], "archived": True}, ANNOTATE, stream), CommandAccepted
    )
    await until_row(dispatcher, stream, ("search", ["paper"], "for table 2", True))
    assert isinstance(await publisher.say({"note": "", "archived": False}, ANNOTATE, stream), CommandAccepted)
    await until_row(dispatcher, stream, ("search", ["paper"], "", False))
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "rebuild") as log:
        report = await rebuild(log, dispatcher.topics, dispatcher.settings.postgres_dsn)
        assert report.equal, str(report)
        assert report.rows["stream_labels"] >= 1
        assert (await verify_topics(log, dispatcher.topics, stream=stream)).findings == []


async def test_a_command_that_is_published_twice_annotates_once(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    stream, command_id = await ended_search(publisher), new_id()
    for _ in range(2):
        answer = await publisher.say({"add_tags": ["paper"]}, ANNOTATE, stream, command_id)
        assert isinstance(answer, CommandAccepted)
    assert isinstance(await publisher.say({"note": "last"}, ANNOTATE, stream), CommandAccepted)
    await until_row(dispatcher, stream, ("search", ["paper"], "last", False))
    annotated = [
        record.message
        for record in publisher.records
        if record.envelope.stream == stream and isinstance(record.message, StreamAnnotated)
    ]
    assert [(event.added_tags, event.note) for event in annotated] == [(["paper"], None), ([], "last")]


async def test_wrong_labels_and_streams_in_which_nothing_has_begun_are_refused(publisher: Publisher) -> None:
    answer = await publisher.say({"note": "new"}, ANNOTATE, new_id("s"))
    assert isinstance(answer, CommandRefused)
    assert (answer.code, answer.path) == ("unknown_stream", "$partitionkey")
    answer = await publisher.say({"add_tags": ["two words"]}, ANNOTATE, new_id("s"))
    assert isinstance(answer, CommandRefused)
    assert (answer.code, answer.path) == ("bad_identifier", "$.add_tags[0]")
    await publisher.assert_well()
