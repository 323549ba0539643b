"""A remote assessor, asked over Kafka by a real dispatcher, with valid and invalid answers."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.dispatcher.harness import Publisher, RunningDispatcher
from tests.integration.dispatcher.remote_processes import RemoteAssessor, example
from trackside.aggregates.search.advice.advice_messages import AssessmentFailed
from trackside.aggregates.search.messages import SearchFailed
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.eventlog.kafka.kafka_log import KafkaLog


@pytest.fixture
async def process(dispatcher: RunningDispatcher, publisher: Publisher) -> AsyncIterator[RemoteAssessor]:
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "assessor") as log:
        yield RemoteAssessor.at(log, publisher, dispatcher)


async def test_whom_a_process_finds_hopeless_is_stopped_and_the_others_go_on(
    process: RemoteAssessor,
) -> None:
    await process.begin(trials=2, options={"share": 0.5})
    await process.report(0, 0, 0.5)
    first = await process.request()
    assert (first.assessor, first.options, first.direction) == ("mine", {"share": 0.5}, "maximize")
    assert (first.search_seed, first.rows, first.ended) == (7, 1, [])
    assert first.running == [{"number": 0, "steps": [0], "values": [0.5], "omitted": 0}]
    await process.report(1, 0, None)
    await process.report(1, 2, 0.25)
    await process.answer({"request_id": first.request_id, "hopeless": []})
    second = await process.request()
    while second.rows < 3:  # a report that was late for the question goes into the next
        await process.answer({"request_id": second.request_id, "hopeless": []})
        second = await process.request()
    assert second.running[0] == {"number": 1, "steps": [0, 2], "values": ["nan", 0.25], "omitted": 0}
    await process.answer({"request_id": second.request_id, "hopeless": [1]})
    stopped = await process.event(TaskStopRequested)
    assert (stopped.task_id, stopped.reason) == (f"{process.search}.1", "assessor")
    assert stopped.seen
    await process.answer({"request_id": second.request_id, "hopeless": [0]})
    await process.report(0, 1, 0.75)
    third = await process.request()
    assert [trial["number"] for trial in third.running] == [0, 1]
    await process.answer({"request_id": third.request_id, "hopeless": [0, 1]})
    assert (await process.event(TaskStopRequested, 2)).task_id == f"{process.search}.0"


async def test_d08_a_dispatcher_that_is_killed_with_a_request_open_asks_the_same_again(
    process: RemoteAssessor,
) -> None:
    await process.begin()
    await process.report(0, 0, 0.5)
    request_id = await process.asked_again_after_a_kill()
    await process.answer({"request_id": request_id, "hopeless": [0]})
    assert (await process.event(TaskStopRequested)).reason == "assessor"


async def test_a_process_that_errs_is_an_event_each_time_and_then_the_policy_holds(
    process: RemoteAssessor,
) -> None:
    await process.begin(on_failure={"retries": 1, "then": "stop"})
    await process.report(0, 0, 0.5)
    asked = [await process.request()]
    await process.answer({"request_id": asked[0].request_id, "hopeless": [3]})
    nonsense = await process.event(AssessmentFailed)
    assert (nonsense.code, nonsense.failure, nonsense.rows) == ("assessor_nonsense", 1, 1)
    assert "would stop trial 3, which it was not asked about" in nonsense.message
    asked.append(await process.request())
    assert asked[1].model_copy(update={"request_id": asked[0].request_id}) == asked[0]
    assert asked[1].request_id != asked[0].request_id
    await process.answer({"request_id": asked[1].request_id, "says": "failed", "message": "no license"})
    failed = await process.event(AssessmentFailed, 2)
    assert (failed.code, failed.failure) == ("assessor_failed", 2)
    assert "no license" in failed.message
    assert (await process.event(SearchFailed)).code == "assessor_failed"


async def test_a_process_that_is_silent_holds_back_no_other_search_and_its_trials_go_on(
    process: RemoteAssessor, publisher: Publisher, dispatcher: RunningDispatcher
) -> None:
    await process.begin(time_limit_s=3_600)
    await process.report(0, 0, 0.5)
    await process.request()
    other = RemoteAssessor.at(process.log, publisher, dispatcher)
    await other.begin(time_limit_s=0.2, on_failure={"retries": 0})
    await other.report(0, 0, 0.5)
    silent = await other.request()
    assert silent.time_limit_s == 0.2
    late = await other.event(AssessmentFailed)
    assert (late.code, late.failure) == ("assessor_timed_out", 1)
    assert f"no answer to {silent.request_id} from an assessor 'mine'" in late.message
    ours = RemoteAssessor.at(process.log, publisher, dispatcher)
    await ours.begin(name="threshold", remote=False, options={"lower": 0.9})
    await ours.report(0, 0, 0.5)
    assert (await ours.event(TaskStopRequested)).reason == "assessor"


async def test_what_is_no_answer_becomes_a_dead_letter_and_stops_nobody(process: RemoteAssessor) -> None:
    answers: list[tuple[Json, str]] = [
        ({"request_id": "r", "hopeless": [1], "says": "failed"}, "not_valid"),
        ({"request_id": "r"}, "not_valid"),
        ({"request_id": "r", "hopeless": "all"}, "wrong_type"),
        ({"request_id": "r", "parameters": {"x": 1}}, "unknown_field"),
    ]
    for answer, code in answers:
        await process.is_no_answer(answer, code)


@pytest.fixture
def floor(dispatcher: RunningDispatcher, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with example("floor.py", dispatcher, tmp_path) as running:
        yield running


async def test_the_example_judges_a_search(floor: subprocess.Popen[bytes], process: RemoteAssessor) -> None:
    """Its group begins at the end of the topic, whenever it has joined: so it is asked until it answers."""
    await process.begin(trials=2, name="floor", time_limit_s=5.0, on_failure={"retries": 100})
    await process.end(0, 0.8)
    await process.report(1, 0, 0.3)
    assert (await process.event(TaskStopRequested)).task_id == f"{process.search}.1"
    assert floor.poll() is None
