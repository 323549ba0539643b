"""A remote tuner, asked over Kafka by a real dispatcher, with valid and invalid answers."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.dispatcher.harness import Publisher, RunningDispatcher
from tests.integration.dispatcher.remote_processes import RemoteTuner, example
from trackside.aggregates.search.advice.advice_messages import SuggestionDeferred, SuggestionFailed
from trackside.aggregates.search.messages import (
    SearchExhausted,
    SearchFailed,
    SearchStarted,
    TrialSuggested,
)
from trackside.contracts.envelope.message import Json
from trackside.eventlog.kafka.kafka_log import KafkaLog


@pytest.fixture
async def process(dispatcher: RunningDispatcher, publisher: Publisher) -> AsyncIterator[RemoteTuner]:
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "tuner") as log:
        yield RemoteTuner.at(log, publisher, dispatcher)


async def test_what_a_process_answers_becomes_the_trial_and_a_second_answer_counts_for_nothing(
    process: RemoteTuner,
) -> None:
    await process.begin(options={"share": 0.5})
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


async def test_d11_a_process_may_wait_and_may_be_exhausted(
    process: RemoteTuner, publisher: Publisher, dispatcher: RunningDispatcher
) -> None:
    await process.begin()
    first = await process.request()
    await process.answer({"request_id": first.request_id, "parameters": {"x": 0.25}})
    second = await process.request()
    await process.answer({"request_id": second.request_id, "says": "wait"})
    assert (await process.event(SuggestionDeferred)).trial == 1

    other = RemoteTuner.at(process.log, publisher, dispatcher)
    await other.begin()
    await other.answer({"request_id": (await other.request()).request_id, "says": "exhausted"})
    assert (await other.event(SearchExhausted)).trials == 0


async def test_a_process_that_errs_is_asked_again_and_then_the_search_fails(process: RemoteTuner) -> None:
    await process.begin(on_failure={"retries": 2})
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


async def test_a_process_that_is_silent_past_its_limit_is_replaced_by_chance(process: RemoteTuner) -> None:
    await process.begin(time_limit_s=0.2, on_failure={"retries": 0, "then": "random"})
    late = await process.request()
    assert late.time_limit_s == 0.2
    assert (await process.event(SuggestionFailed)).code == "tuner_timed_out"
    assert (await process.event(TrialSuggested)).source == "fallback"
    await process.answer({"request_id": late.request_id, "parameters": {"x": 0.125}})
    drawn = await process.event(TrialSuggested, 2)
    assert (drawn.source, drawn.parameters["x"] == 0.125) == ("fallback", False)


async def test_what_is_no_answer_becomes_a_dead_letter_and_stops_nobody(process: RemoteTuner) -> None:
    answers: list[tuple[Json | bytes, str]] = [
        (b"{", "not_json"),
        ({"request_id": "r", "parameters": {"x": 1}, "says": "wait"}, "not_valid"),
        ({"request_id": "r", "wisdom": 1}, "unknown_field"),
    ]
    for answer, code in answers:
        await process.is_no_answer(answer, code)


async def test_a_dispatcher_that_is_killed_with_a_request_open_asks_the_same_again(
    process: RemoteTuner,
) -> None:
    await process.begin()
    first = await process.request()
    await process.answer({"request_id": first.request_id, "parameters": {"x": 0.25}})
    request_id = await process.asked_again_after_a_kill()
    await process.answer({"request_id": request_id, "parameters": {"x": 0.5}})
    suggested = await process.event(TrialSuggested, 2)
    assert (suggested.trial, suggested.parameters) == (1, {"x": 0.5})


@pytest.fixture
def halving(dispatcher: RunningDispatcher, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with example("halving.py", dispatcher, tmp_path) as running:
        yield running


async def test_the_example_suggests_for_a_search(
    halving: subprocess.Popen[bytes], process: RemoteTuner
) -> None:
    """Its group begins at the end of the topic, whenever it has joined: so it is asked until it answers."""
    await process.begin(name="halving", time_limit_s=2.0, on_failure={"retries": 100})
    suggested = await process.event(TrialSuggested)
    assert 0 <= suggested.parameters["x"] < 1
    assert (await process.event(TrialSuggested, 2)).trial == 1
    assert halving.poll() is None
    assert (await process.event(SearchStarted)).search.tuner.remote
