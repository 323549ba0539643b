"""A tuner that is a process of its own: asked on Kafka by a real dispatcher, answering whatever it likes."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dispatcher.publishing import Place, Publisher, good
from trackside.contracts.advice import SuggestionDeferred, SuggestionFailed, SuggestionRequested
from trackside.contracts.commands import CommandAccepted, RecordDeadLettered
from trackside.contracts.ids import new_id
from trackside.contracts.message import Event, Json, Record
from trackside.contracts.searches import (
    SearchExhausted,
    SearchFailed,
    SearchStarted,
    TrialSuggested,
)
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Outgoing

EXAMPLE = Path(__file__).parents[3] / "deploy" / "examples" / "tuners" / "halving.py"
ANSWER = b"trackside.answer-suggestion.v1"


class Process:
    """A tuner elsewhere, as a test plays it, and the search that asks it."""

    def __init__(self, log: KafkaLog, publisher: Publisher, place: Place) -> None:
        self._log, self._publisher, self._topics = log, publisher, place.topics
        self._reader = log.reader({(self._topics.suggestion_requests.name, n): 0 for n in range(4)})
        self._requests: list[SuggestionRequested] = []
        self.search = new_id("remote")

    async def start(self, **tuner: Any) -> None:
        """Starts the search."""
        body = good() | {"max_trials": 4, "concurrency": 2, "seed": 7}
        body |= {"tuner": {"name": "mine", "remote": True, **tuner}}
        assert isinstance(await self._publisher.say(body, stream=self.search), CommandAccepted)

    async def request(self) -> SuggestionRequested:
        """Waits for the next request of the search."""
        async with asyncio.timeout(60):
            while True:
                for found in self._requests:
                    if found.search_id == self.search:
                        self._requests.remove(found)
                        return found
                records = [decode(entry) for entry in await self._reader.read(1.0)]
                messages = [record.message for record in records if record is not None]
                self._requests += [each for each in messages if isinstance(each, SuggestionRequested)]

    async def answer(self, body: Json | bytes) -> None:
        """Answers, as any client would."""
        headers = [
            ("ce_specversion", b"1.0"),
            ("ce_id", new_id().encode()),
            ("ce_type", ANSWER),
            ("ce_source", b"test"),
        ]
        value = body if isinstance(body, bytes) else json.dumps(body).encode()
        record = Outgoing(self.search.encode(), value, headers)
        await self._log.publish(self._topics.suggestions.name, 2, record)

    async def event(self, kind: type[Event], number: int = 1) -> Any:
        """Waits for the n-th event of a kind in the search."""
        seen: set[int] = set()

        def is_it(record: Record) -> bool:
            if record.envelope.stream == self.search and isinstance(record.message, kind):
                seen.add(record.offset)
                return record.offset == max(seen) and len(seen) == number
            return False

        return (await self._publisher.until(is_it, 60)).message


@pytest.fixture
async def process(place: Place, publisher: Publisher) -> AsyncIterator[Process]:
    async with KafkaLog(place.settings.kafka_bootstrap, "tuner") as log:
        yield Process(log, publisher, place)


async def test_what_a_process_answers_becomes_the_trial_and_a_second_answer_counts_for_nothing(
    process: Process,
) -> None:
    await process.start(options={"share": 0.5})
    first = await process.request()
    assert (first.trial, first.tuner, first.options, first.past) == (0, "mine", {"share": 0.5}, [])
    assert (first.search_seed, first.direction, first.space_version) == (7, "maximize", 1)
    assert first.space["x"].model_dump() == {"type": "uniform", "low": 0, "high": 1}
    await process.answer({"request_id": first.request_id, "parameters": {"x": 0.25}})
    suggested = await process.event(TrialSuggested)
    assert (suggested.parameters, suggested.source) == ({"x": 0.25}, "algorithm")
    await process.answer({"request_id": first.request_id, "parameters": {"x": 0.75}})
    second = await process.request()
    assert (second.trial, second.seen) == (1, first.seen)
    assert second.seed != first.seed
    [past] = second.past
    assert past == {"number": 0, "parameters": {"x": 0.25}, "state": "running", "value": None}
    await process.answer({"request_id": second.request_id, "parameters": {"x": 0.5}})
    assert (await process.event(TrialSuggested, 2)).parameters == {"x": 0.5}


async def test_d11_a_process_may_wait_and_may_be_exhausted(process: Process) -> None:
    await process.start()
    first = await process.request()
    await process.answer({"request_id": first.request_id, "parameters": {"x": 0.25}})
    second = await process.request()
    await process.answer({"request_id": second.request_id, "says": "wait"})
    assert (await process.event(SuggestionDeferred)).trial == 1

    other = Process(process._log, process._publisher, process._publisher._place)
    await other.start()
    await other.answer({"request_id": (await other.request()).request_id, "says": "exhausted"})
    assert (await other.event(SearchExhausted)).trials == 0


async def test_a_process_that_errs_is_asked_again_and_then_the_search_fails(process: Process) -> None:
    await process.start(on_failure={"retries": 2})
    asked = [await process.request()]
    await process.answer({"request_id": asked[0].request_id, "parameters": {"x": 3}})
    nonsense = await process.event(SuggestionFailed)
    assert (nonsense.code, nonsense.failure) == ("tuner_nonsense", 1)
    assert "at $.x: 3 is not a number from 0" in nonsense.message
    asked.append(await process.request())
    await process.answer({"request_id": asked[1].request_id, "says": "failed", "message": "no license"})
    failed = await process.event(SuggestionFailed, 2)
    assert (failed.code, failed.failure) == ("tuner_failed", 2)
    assert "no license" in failed.message
    asked.append(await process.request())
    await process.answer({"request_id": asked[2].request_id, "parameters": {"y": 1}})
    assert (await process.event(SearchFailed)).code == "tuner_nonsense"
    assert len({each.request_id for each in asked}) == 3
    assert len({(each.trial, each.seed, each.seen) for each in asked}) == 1


async def test_a_process_that_is_silent_past_its_limit_is_replaced_by_chance(process: Process) -> None:
    await process.start(time_limit_s=0.2, on_failure={"retries": 0, "then": "random"})
    late = await process.request()
    assert late.time_limit_s == 0.2
    assert (await process.event(SuggestionFailed)).code == "tuner_timed_out"
    assert (await process.event(TrialSuggested)).source == "fallback"
    await process.answer({"request_id": late.request_id, "parameters": {"x": 0.125}})
    drawn = await process.event(TrialSuggested, 2)
    assert (drawn.source, drawn.parameters["x"] == 0.125) == ("fallback", False)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(b"{", "not_json", id="no JSON"),
        pytest.param(
            {"request_id": "r", "parameters": {"x": 1}, "says": "wait"}, "not_valid", id="two answers"
        ),
        pytest.param({"request_id": "r", "wisdom": 1}, "unknown_field", id="a field too much"),
    ],
)
async def test_what_is_no_answer_becomes_a_dead_letter_and_stops_nobody(
    process: Process, publisher: Publisher, answer: Any, code: str | None
) -> None:
    await process.answer(answer)
    topic = process._topics.suggestions.name
    letter = await publisher.until(
        lambda record: (
            isinstance(record.message, RecordDeadLettered)
            and record.message.source.topic == topic
            and (code is None or record.message.code == code)
        ),
        60,
    )
    assert isinstance(letter.message, RecordDeadLettered)
    assert letter.message.message
    await publisher.assert_well()


async def test_a_remote_tuner_needs_a_name_and_a_space_that_makes_sense(publisher: Publisher) -> None:
    refused = await publisher.say(good() | {"tuner": {"name": "no name", "remote": True}})
    assert getattr(refused, "path", "") == "$.tuner.name"


@pytest.fixture
def halving(place: Place, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    if shutil.which("kcat") is None:
        if os.environ.get("TRACKSIDE_TEST_TOOLCHAINS") == "required":
            pytest.fail("kcat is not on this machine")
        pytest.skip("kcat is not on this machine")
    known = os.environ | {"TRACKSIDE_TOPIC_PREFIX": place.settings.topic_prefix}
    argv = [sys.executable, str(EXAMPLE), place.settings.kafka_bootstrap]
    with (tmp_path / "halving.log").open("wb") as said:
        running = subprocess.Popen(argv, env=known, stdout=said, stderr=said, process_group=0)
        yield running
        os.killpg(running.pid, 9)
        running.wait()


async def test_the_example_suggests_for_a_search(halving: subprocess.Popen[bytes], process: Process) -> None:
    """Its group begins at the end of the topic, whenever it has joined: so it is asked until it answers."""
    await process.start(name="halving", time_limit_s=2.0, on_failure={"retries": 100})
    suggested = await process.event(TrialSuggested)
    assert 0 <= suggested.parameters["x"] < 1
    assert (await process.event(TrialSuggested, 2)).trial == 1
    assert halving.poll() is None
    assert (await process.event(SearchStarted)).search.tuner.remote
