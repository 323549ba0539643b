"""The dispatcher answers invalid input by name, stays up, and executes the next valid command."""

from typing import Any

import pytest

from tests.integration.dispatcher.harness import START, STOP, Publisher, RunningDispatcher, valid_search
from trackside.contracts.commands import CommandAccepted, CommandRefused, RecordDeadLettered
from trackside.contracts.ids import new_id
from trackside.contracts.message import Json
from trackside.contracts.topics import MAX_COMMAND_BYTES
from trackside.eventlog.errors import TooLargeError


def changed(**fields: Any) -> Json:
    return {**valid_search(), **fields}


def parameter(**fields: Any) -> Json:
    return changed(space={"x": fields})


def without(name: str) -> Json:
    return {key: value for key, value in valid_search().items() if key != name}


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "empty_payload"),
        (None, "empty_payload"),
        (b"\xff\xfe{}", "not_utf8"),
        (b"{not json", "not_json"),
        (b"[1, 2]", "not_object"),
    ],
)
async def test_undecodable_bytes_are_dead_letters(
    publisher: Publisher, value: bytes | None, code: str
) -> None:
    source = await publisher.publish(value)
    record = await publisher.until(
        lambda record: isinstance(record.message, RecordDeadLettered) and record.message.source == source
    )
    assert isinstance(record.message, RecordDeadLettered)
    assert record.message.code == code
    await publisher.assert_well()


REFUSED: list[tuple[str, Json, str, str]] = [
    ("unknown field", changed(max_trails=3), "unknown_field", "$.max_trails"),
    ("missing field", without("task_type"), "missing_field", "$.task_type"),
    ("wrong type", changed(max_trials="many"), "wrong_type", "$.max_trials"),
    ("min above max", parameter(type="uniform", low=2, high=1), "bad_search_space", "$.space.x"),
    ("log scale from 0", parameter(type="loguniform", low=0, high=1), "bad_search_space", "$.space.x"),
    ("empty choice", parameter(type="choice", values=[]), "bad_search_space", "$.space.x"),
    ("concurrency 0", changed(concurrency=0), "concurrency_range", "$.concurrency"),
    ("task type of nobody", changed(task_type="nope"), "unknown_task_type", "$.task_type"),
    ("unknown tuner", changed(tuner={"name": "tpee"}), "unknown_tuner", "$.tuner.name"),
    ("text with NUL", changed(name="a\0b"), "nul_character", "$.name"),
    ("secret", changed(name="AKIA" + "A" * 16), "secret_suspected", "$.name"),
]


@pytest.mark.parametrize(("body", "code", "path"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED])
async def test_a_bad_command_is_refused_with_code_and_path(
    publisher: Publisher, body: Json, code: str, path: str
) -> None:
    answer = await publisher.say(body)
    assert isinstance(answer, CommandRefused)
    assert (answer.code, answer.path) == (code, path)
    assert answer.message
    await publisher.assert_well()


async def test_all_problems_of_a_command_are_in_its_refusal_and_in_the_repeated_one(
    publisher: Publisher,
) -> None:
    body = changed(task_type="nope", tuner={"name": "tpee"}, resources={"device": "gpu-99"})
    stream, command_id = new_id("s"), new_id("c")
    answer = await publisher.say(body, stream=stream, command_id=command_id)
    again = await publisher.say(body, stream=stream, command_id=command_id)
    assert isinstance(answer, CommandRefused) and isinstance(again, CommandRefused)
    assert [(problem.code, problem.path) for problem in answer.problems] == [
        ("unknown_task_type", "$.task_type"),
        ("unknown_device", "$.resources.device"),
        ("unknown_tuner", "$.tuner.name"),
    ]
    assert again.problems == answer.problems
    assert (answer.code, answer.path) == ("unknown_task_type", "$.task_type")
    await publisher.assert_well()


async def test_an_unknown_field_is_met_with_the_one_that_was_meant(publisher: Publisher) -> None:
    answer = await publisher.say(changed(max_trails=3))
    assert isinstance(answer, CommandRefused)
    assert "did you mean 'max_trials'?" in answer.message


async def test_an_unknown_command_is_refused_with_the_known_ones(publisher: Publisher) -> None:
    answer = await publisher.say(valid_search(), wire_type="trackside.begin-search.v1")
    assert isinstance(answer, CommandRefused)
    assert answer.code == "unknown_command"
    assert START in answer.message
    await publisher.assert_well()


async def test_a_stop_for_an_unknown_search_is_refused(publisher: Publisher) -> None:
    answer = await publisher.say({}, wire_type=STOP)
    assert isinstance(answer, CommandRefused)
    assert answer.code == "unknown_search"
    await publisher.assert_well()


async def test_a_value_over_the_limit_is_refused_by_the_broker(publisher: Publisher) -> None:
    with pytest.raises(TooLargeError):
        await publisher.publish(b'{"name": "' + b"x" * MAX_COMMAND_BYTES + b'"}')
    await publisher.assert_well()


async def test_a_repeated_command_gets_the_first_answer_again(publisher: Publisher) -> None:
    stream, command_id = new_id("s"), new_id("c")
    first = await publisher.say(valid_search(), stream=stream, command_id=command_id)
    again = await publisher.say(valid_search(), stream=stream, command_id=command_id)
    assert isinstance(first, CommandAccepted)
    assert isinstance(again, CommandAccepted)
    assert first.source != again.source


async def test_a_repeated_refused_command_is_refused_for_the_same_reason(publisher: Publisher) -> None:
    stream, command_id = new_id("s"), new_id("c")
    first = await publisher.say(changed(concurrency=0), stream=stream, command_id=command_id)
    again = await publisher.say(changed(concurrency=0), stream=stream, command_id=command_id)
    assert isinstance(first, CommandRefused)
    assert isinstance(again, CommandRefused)
    assert (first.code, first.message) == (again.code, again.message)


async def test_a_command_id_with_another_body_is_refused(publisher: Publisher) -> None:
    stream, command_id = new_id("s"), new_id("c")
    assert isinstance(
        await publisher.say(valid_search(), stream=stream, command_id=command_id), CommandAccepted
    )
    other = await publisher.say(changed(max_trials=2), stream=stream, command_id=command_id)
    assert isinstance(other, CommandRefused)
    assert other.code == "idempotency_conflict"


async def test_a_killed_dispatcher_knows_what_it_has_answered(
    publisher: Publisher, dispatcher: RunningDispatcher
) -> None:
    stream, command_id = new_id("s"), new_id("c")
    await publisher.say(valid_search(), stream=stream, command_id=command_id)
    dispatcher.service.restart()
    answer = await publisher.say(changed(max_trials=2), stream=stream, command_id=command_id)
    assert isinstance(answer, CommandRefused)
    assert answer.code == "idempotency_conflict"
    await publisher.assert_well()
