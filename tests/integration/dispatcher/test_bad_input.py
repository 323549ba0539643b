"""The dispatcher answers invalid input by name, stays up, and executes the next valid command.

Each code is asked of its pure parts by `tests/contract/test_bad_input.py`.
"""

from typing import Any

import pytest

from tests.integration.dispatcher.harness import START, STOP, Publisher, RunningDispatcher, valid_search
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.topics import MAX_COMMAND_BYTES
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused
from trackside.eventlog.errors import TooLargeError


def changed(**fields: Any) -> Json:
    return {**valid_search(), **fields}


async def test_undecodable_bytes_are_dead_letters(publisher: Publisher) -> None:
    values = {
        b"": "empty_payload",
        None: "empty_payload",
        b"\xff\xfe{}": "not_utf8",
        b"{not json": "not_json",
        b"[1, 2]": "not_object",
    }
    for value, code in values.items():
        source = await publisher.publish(value)
        letter = await publisher.dead_letter(lambda letter, source=source: letter.source == source)  # type: ignore[misc]
        assert letter.code == code
    await publisher.assert_well()


async def test_a_bad_command_is_refused_with_code_and_path(publisher: Publisher) -> None:
    for body, code, path in (
        (changed(max_trails=3), "unknown_field", "$.max_trails"),
        (changed(concurrency=0), "concurrency_range", "$.concurrency"),
        (changed(task_type="nope"), "unknown_task_type", "$.task_type"),
        (changed(name="a\0b"), "nul_character", "$.name"),
        (changed(name="AKIA" + "A" * 16), "secret_suspected", "$.name"),
    ):
        answer = await publisher.refused(body)
        assert (answer.code, answer.path) == (code, path)
        assert answer.message
        assert ("did you mean 'max_trials'?" in answer.message) == (code == "unknown_field")
    assert (await publisher.refused({}, STOP)).code == "unknown_search"
    await publisher.assert_well()


async def test_an_unknown_command_is_refused_with_the_known_ones(publisher: Publisher) -> None:
    answer = await publisher.refused(valid_search(), "trackside.begin-search.v1")
    assert answer.code == "unknown_command"
    assert START in answer.message
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


async def test_a_command_id_with_another_body_is_refused(
    publisher: Publisher, dispatcher: RunningDispatcher
) -> None:
    """Also by the next dispatcher after a kill."""
    stream, command_id = new_id("s"), new_id("c")
    assert isinstance(
        await publisher.say(valid_search(), stream=stream, command_id=command_id), CommandAccepted
    )
    for restarts in (False, True):
        if restarts:
            dispatcher.service.restart()
        other = await publisher.say(changed(max_trials=2), stream=stream, command_id=command_id)
        assert isinstance(other, CommandRefused)
        assert other.code == "idempotency_conflict"
    await publisher.assert_well()
