"""Inputs of the tasks of searches and batches, and URLs with secrets in them, in any command."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.commands import INPUT
from tests.unit.aggregates.given import answered, published, react
from tests.unit.domain.given import Told
from trackside.aggregates.batch.messages import SubmitTasks
from trackside.aggregates.documents import examples
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import StartSearch
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.contracts.wire.codec import validate_command

GIVEN = INPUT.model_dump(mode="json")
COMMANDS = {kind.wire_type(): kind for kind in AGGREGATES.commands}
SUBMIT, START = SubmitTasks.wire_type(), StartSearch.wire_type()
CANARY = "hunter2"


def submitted(told: Told) -> list[TaskSubmitted]:
    return [event for event in react(told) if isinstance(event, TaskSubmitted)]


def test_a_task_of_a_batch_gets_the_inputs_of_the_batch_and_its_own() -> None:
    own = GIVEN | {"uri": "s3://datasets/own.npz"}
    tasks = [{"task_type": "digits"}, {"task_type": "digits", "inputs": {"digits": own, "more": own}}]
    body = {"groups": [{"tasks": tasks}], "inputs": {"digits": GIVEN}}
    told = Told()
    answered(told, published(1, SUBMIT, body))
    mine = ArtifactReference.model_validate(own)
    assert [task.inputs for task in submitted(told)] == [{"digits": INPUT}, {"digits": mine, "more": mine}]


def test_tasks_with_many_inputs_are_submitted_in_decisions_that_fit_an_append() -> None:
    inputs = {f"input-{number}": GIVEN for number in range(100)}
    told, groups = Told(), [{"tasks": [{"task_type": "digits"}] * 20}]
    answered(told, published(1, SUBMIT, {"groups": groups, "inputs": inputs}))
    sizes = list[int]()
    while events := submitted(told):
        assert sum(len(event.model_dump_json()) for event in events) < MAX_BATCH_BYTES / 2
        sizes.append(len(events))
    assert sum(sizes) == 20 and 1 < len(sizes) < 20


def _uris(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        if name == "uri":
            yield (*path, name)
        yield from _uris(inner, (*path, name))


BODIES = {name: examples()[name].model_dump(mode="json") for name in COMMANDS}
PLACES = [(name, path) for name, body in BODIES.items() for path in _uris(body)]


@pytest.mark.parametrize(("name", "path"), PLACES)
@pytest.mark.parametrize(
    "url",
    [
        f"https://someone:{CANARY}@host/file",
        f"s3://key:{CANARY}@bucket/file",
        f"https://bucket.host/file?X-Amz-Credential=a&X-Amz-Signature={CANARY}",
        f"https://account.host/file?sv=2022&sig={CANARY}",
        f"https://host/file?AWSAccessKeyId=a&Signature={CANARY}",
        f"https://host/file?X-Goog-Signature={CANARY}",
        f"https://host/file?X%2DAmz%2dSignature={CANARY}",
        f"https://host/file?a=b;%73%69%67={CANARY}",
    ],
)
def test_no_command_takes_a_url_with_a_secret_or_repeats_it(name: str, path: Any, url: str) -> None:
    body = deepcopy(BODIES[name])
    place = body
    for step in path[:-1]:
        place = place[step]
    place["uri"] = url
    found = validate_command(name, body, (COMMANDS[name],))
    assert isinstance(found, tuple), "it was accepted"
    assert [problem.code for problem in found] == ["credentials_in_url"]
    assert CANARY not in str(found)


def test_searches_and_batches_are_among_the_commands_that_are_checked() -> None:
    assert {name for name, _ in PLACES} >= {SUBMIT, START}
