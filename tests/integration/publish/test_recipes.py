"""Publishers that share no code with us: the examples of each language, where its tools are there."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.integration.dispatcher.harness import START, Publisher, RunningDispatcher
from tests.integration.publish.recipes import FETCH_S, RECIPES, RECIPES_FOLDER, ReadyRecipe, prepare
from trackside.aggregates.batch.messages import BatchStarted, SubmitTasks
from trackside.aggregates.search.messages import SearchStarted
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived
from trackside.eventlog.kafka.kafka_log import KafkaLog

SUBMIT = SubmitTasks.wire_type()
pytestmark = pytest.mark.timeout(2 * FETCH_S + 600)  # another worker may fetch first


class Example:
    """An example of one language, run against the dispatcher under test."""

    def __init__(self, name: str, program: ReadyRecipe, dispatcher: RunningDispatcher) -> None:
        self.name = name
        self._program = program
        self._dispatcher = dispatcher

    async def publish(self, kind: str, stream: str, file: Path, **variables: str) -> tuple[int, str, str]:
        """Runs it: its exit code, what it says, and what it or its client complains of."""
        settings = self._dispatcher.settings
        own = {"TRACKSIDE_TOPIC_PREFIX": settings.topic_prefix, "TIMEOUT_S": "120"}
        given = {**self._program.environment, **own, **variables}
        process = await asyncio.create_subprocess_exec(
            *(*self._program.argv, settings.kafka_bootstrap, kind, stream, str(file)),
            env=given,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(240):
            output, errors = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode(), errors.decode()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(each, marks=pytest.mark.long if each.name in {"go", "java"} else ()) for each in RECIPES
    ],
    ids=lambda recipe: recipe.name,
)
def example(request: pytest.FixtureRequest, dispatcher: RunningDispatcher) -> Example:
    assert request.config.cache is not None
    return Example(request.param.name, prepare(request.param, request.config.cache.mkdir), dispatcher)


@pytest.mark.parametrize("mode", ["binary", "structured"])
async def test_an_example_starts_a_search_and_reads_its_answer(
    example: Example, publisher: Publisher, mode: str
) -> None:
    stream = new_id(example.name)
    answer = await example.publish(START, stream, RECIPES_FOLDER / "search.json", MODE=mode)
    assert answer[:2] == (0, f"accepted: {stream}\n"), answer
    started = await publisher.until(
        lambda record: record.envelope.stream == stream and isinstance(record.message, SearchStarted)
    )
    assert isinstance(started.message, SearchStarted)
    assert started.message.search.max_trials == 3


async def test_an_example_submits_tasks_under_an_id_of_its_own(
    example: Example, publisher: Publisher
) -> None:
    stream, command_id = new_id(example.name), new_id("own")
    for _ in range(2):  # said twice, it counts once and gets the first answer again
        answer = await example.publish(SUBMIT, stream, RECIPES_FOLDER / "tasks.json", COMMAND_ID=command_id)
        assert answer[:2] == (0, f"accepted: {stream}\n"), answer
    await publisher.until(lambda record: len(_of(publisher, stream, CommandAccepted)) == 2)
    assert len(_of(publisher, stream, BatchStarted)) == 1
    received = _of(publisher, stream, CommandReceived)
    assert [event.command_id for event in received if isinstance(event, CommandReceived)] == [command_id] * 2


async def test_an_example_says_why_it_was_refused_and_that_it_was_not_answered(
    example: Example, dispatcher: RunningDispatcher, topic_prefix: str, tmp_path: Path
) -> None:
    body = json.loads((RECIPES_FOLDER / "search.json").read_text())
    (tmp_path / "bad.json").write_text(json.dumps(body | {"concurrency": 0}))
    code, output, errors = await example.publish(START, new_id(example.name), tmp_path / "bad.json")
    assert code == 2, errors
    assert output.startswith("refused: ") and "concurrency_range" in output and "$.concurrency" in output
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "test") as log:
        await log.ensure(Topics(prefix=topic_prefix).shared)
    code, _, errors = await example.publish(
        START, "s-1", RECIPES_FOLDER / "search.json", TIMEOUT_S="2", TRACKSIDE_TOPIC_PREFIX=topic_prefix
    )
    assert code == 1 and "no answer to command" in errors


def _of(publisher: Publisher, stream: str, kind: type) -> list[object]:
    return [
        record.message
        for record in publisher.records
        if record.envelope.stream == stream and isinstance(record.message, kind)
    ]
