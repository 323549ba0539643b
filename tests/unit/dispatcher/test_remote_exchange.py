"""A request to a remote tuner: its time limit is for that process, not for the write to the log."""

import asyncio

import pytest

from trackside.aggregates.search.advice_messages import AnswerSuggestion, SuggestionRequested
from trackside.aggregates.search.examples import EXAMPLES
from trackside.contracts.topics import Topics, partition_of
from trackside.dispatcher.advice.advisor_process import AdvisorTimeout
from trackside.dispatcher.advice.remote_exchange import RemoteExchange
from trackside.dispatcher.intake.signatures import SignatureVerifier
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.record_writer import RecordWriter

TOPICS = Topics()
[EXAMPLE] = [example for example in EXAMPLES if isinstance(example, SuggestionRequested)]


class Slow(MemoryLog):
    """A log that takes a record when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.open = asyncio.Event(), asyncio.Event()

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends one record, once it is let."""
        self.asked.set()
        await self.open.wait()
        return await super().publish(topic, partition, record)


async def test_the_time_of_a_request_begins_when_it_is_in_the_log() -> None:
    log, requests = Slow(), TOPICS.suggestion_requests
    await log.ensure([requests])
    assert isinstance(EXAMPLE, SuggestionRequested)
    request = EXAMPLE.model_copy(update={"time_limit_s": 0.01})
    writer = RecordWriter("dispatcher", "1")
    exchange = RemoteExchange(
        log, writer, SignatureVerifier(), requests, TOPICS.suggestions, AnswerSuggestion
    )
    asking = asyncio.create_task(exchange.ask(request, "a tuner"))
    await log.asked.wait()
    over, _ = await asyncio.wait({asking}, timeout=20 * request.time_limit_s)
    assert not over, "nobody could have read it"
    log.open.set()
    with pytest.raises(AdvisorTimeout, match=r"no answer to .* in 0\.01 s"):
        await asking
    place = (requests.name, partition_of(request.search_id, requests.partitions))
    assert len(await log.reader({place: 0}).read(1.0)) == 1
